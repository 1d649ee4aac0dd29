/*-------------------------------------------------------------------------
 *
 * lease.h
 *	  Leases that ran out and jobs that became due.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_LEASE_H
#define WORKQ_LEASE_H

#include "sched.h"
#include "store.h"

/* What the end of a lease makes of a job. */
typedef enum WorkqLeaseEnd
{
	WORKQ_LEASE_TO_READY,
	WORKQ_LEASE_TO_DEAD,
	WORKQ_LEASE_TO_CANCELLED
} WorkqLeaseEnd;

extern WorkqLeaseEnd workq_lease_next_state(const WorkqLease *lease);

/*
 * Log that an expired lease, whose row has been taken, was taken back, and
 * count the failure in *lease.
 */
extern void workq_lease_log_expiry(WorkqStore *store, WorkqLease *lease,
								   TimestampTz now);

/*
 * In the background worker, inside a transaction of its own: take back up to
 * limit expired leases and move up to limit due jobs to ready.  Returns how
 * many rows moved; more may be due when it returns limit.
 */
extern int	workq_lease_housekeep(WorkqInstance *instance, int limit);

#endif							/* WORKQ_LEASE_H */
