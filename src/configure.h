/*-------------------------------------------------------------------------
 *
 * configure.h
 *	  The verbs that create, change and drop queues.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_CONFIGURE_H
#define WORKQ_CONFIGURE_H

#include "store_catalog.h"

/*
 * Create a queue that belongs to the current role, waiting for others that
 * have its name in hand.  False: one of them committed, or the queue exists
 * already; nothing was created.  Does not check rights.
 */
extern bool workq_configure_create(const char *name);

/*
 * One change of one queue, whose name is the verb's first argument: begin
 * locks the queue's row, checks that the current role may manage it, and reads
 * it; the caller modifies change.queue and what hangs on it by way of
 * change.store; end writes the row with the
 * next policy version and a line of history, and tells everybody, if changed;
 * it returns the queue's policy version.
 */
typedef struct WorkqQueueChange
{
	WorkqStore *store;
	WorkqQueueInfo *queue;
	ItemPointerData tid;
	int			number;			/* in shared memory */
	WorkqLaneForm form;			/* of its lanes, before */
} WorkqQueueChange;

extern void workq_configure_begin(WorkqQueueChange *change,
								  FunctionCallInfo fcinfo);

/* detail: what else to keep in the history, a JSON object's inside, or NULL */
extern int32 workq_configure_end(WorkqQueueChange *change, bool changed,
								 const char *event, const char *detail);

#endif							/* WORKQ_CONFIGURE_H */
