/*-------------------------------------------------------------------------
 *
 * job.h
 *	  Finding a job, wherever it is.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_JOB_H
#define WORKQ_JOB_H

#include "queue.h"
#include "sched.h"
#include "store.h"

typedef enum WorkqJobPlace
{
	WORKQ_PLACE_READY,
	WORKQ_PLACE_SCHEDULED,
	WORKQ_PLACE_LEASED,
	WORKQ_PLACE_HELD,
	WORKQ_PLACE_DONE
} WorkqJobPlace;

/* A job as found. */
typedef struct WorkqFoundJob
{
	WorkqJobPlace place;
	WorkqLease	lease;			/* lease.job in every place but done */
	char	   *held_state;
	TimestampTz held_at;
	ItemPointerData tid;
	WorkqJobRow row;
	List	   *events;			/* NIL unless ready or done */
} WorkqFoundJob;

/* Raise 42704 for a job that does not exist. */
extern void workq_job_missing(int64 job_id) pg_attribute_noreturn();

/*
 * A job as it was enqueued, its segment held, and its queue.  Raises 42704 when
 * it was never there, is no longer in the log, or its queue was dropped; 42501
 * when the caller has none of the rights.
 */
extern WorkqQueueInfo *workq_job_open(WorkqStore *store, int64 job_id,
									  uint32 rights, WorkqJobRow *row);

/*
 * Find a job, wherever it is now; raises as above.
 */
extern WorkqQueueInfo *workq_job_find(WorkqStore *store, int64 job_id,
									  uint32 rights, WorkqFoundJob *found);

/* Its state as users know it, and since when; of a done one by its events. */
extern const char *workq_job_state(const WorkqFoundJob *found,
								   TimestampTz *since);

/*
 * Take a job that nobody holds out of its table.  False: it has moved, look
 * again.
 */
extern bool workq_job_remove(WorkqStore *store, int queue,
							 WorkqFoundJob *found);

/* Does something to a job, ord'th (from 0) of a batch; returns its status. */
typedef const char *(*WorkqJobAction) (WorkqInstance *instance,
									   WorkqStore *store, int64 job_id,
									   int ord, const void *arg);

/*
 * A verb on many jobs: argument 0 is the array of their ids, the result a row
 * per element.  They are done in the order of their ids so that two batches
 * cannot wait for each other.  A job that does not exist is told, not raised.
 */
extern Datum workq_job_batch(FunctionCallInfo fcinfo, WorkqJobAction action,
							 const void *arg);

#endif							/* WORKQ_JOB_H */
