/*-------------------------------------------------------------------------
 *
 * relane.h
 *	  Rows in lanes of an old form.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_RELANE_H
#define WORKQ_RELANE_H

#include "store.h"

/*
 * Give a job, which is on its way from one live table to another, a lane of
 * the form that its queue has now.  Reads the log only if it has another.
 * job->lane is palloc'd then.
 */
extern void workq_relane_job(WorkqStore *store, WorkqJob *job);

/*
 * The lane of a job in a form, from the log; sets job->lane (palloc'd) and the
 * form in its flags.  False: the log does not know the job, nothing is set.
 */
extern bool workq_relane_to(WorkqStore *store, WorkqJob *job,
							WorkqLaneForm form);

/* A walk over a queue's rows, in steps; begins zeroed but for the form. */
typedef struct WorkqRelane
{
	WorkqLaneForm form;			/* that rows are to have */
	bool		begun;			/* "last" is set */
	bool		ended;
	int64		left;			/* rows that could not be moved */
	WorkqJob	last;			/* where it stands */
	char		last_lane[WORKQ_MAX_LANE + 1];
} WorkqRelane;

/*
 * Move up to limit rows (and look at more); returns how many were moved.
 * Rows that others have in hand are left.  The changes are appended.
 */
extern int	workq_relane_step(WorkqStore *store, int queue, int32 queue_id,
							  WorkqRelane *walk, int limit);

/* All that can be moved of a queue, in this transaction. */
extern void workq_relane_queue(WorkqStore *store, int queue, int32 queue_id,
							   WorkqLaneForm form);

#endif							/* WORKQ_RELANE_H */
