/*-------------------------------------------------------------------------
 *
 * outcome.h
 *	  What becomes of a job whose claim has ended.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_OUTCOME_H
#define WORKQ_OUTCOME_H

#include "sched.h"
#include "store.h"

/*
 * Move a job whose live row has been deleted into its next state, and append
 * the changes.  "queue" is its number in shared memory.
 */
extern void workq_outcome_to_ready(WorkqStore *store, int queue,
								   const WorkqJob *job);
extern void workq_outcome_to_scheduled(WorkqStore *store, int queue,
									   const WorkqJob *job);

/* Logs that, too. */
extern void workq_outcome_to_dead(WorkqStore *store, int queue, WorkqJob *job,
								  TimestampTz now, const char *reason);
extern void workq_outcome_to_cancelled(WorkqStore *store, int queue,
									   WorkqJob *job, TimestampTz now,
									   const char *reason);

/* Give up the job's deduplication key, if it has one. */
extern void workq_outcome_drop_key(WorkqStore *store, WorkqJob *job);

#endif							/* WORKQ_OUTCOME_H */
