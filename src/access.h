/*-------------------------------------------------------------------------
 *
 * access.h
 *	  Who may do what with a queue.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_ACCESS_H
#define WORKQ_ACCESS_H

#include "queue.h"

/*
 * Has the current role all of these rights?  The owner, members of the
 * owner's role and superusers have all; "manage" includes "monitor";
 * members of pg_monitor may monitor every queue.
 */
extern bool workq_access_has(WorkqQueueInfo *queue, uint32 rights);

/* The same, or 42501. */
extern void workq_access_require(WorkqQueueInfo *queue, uint32 rights);

/* Has it any of these rights? */
extern bool workq_access_has_any(WorkqQueueInfo *queue, uint32 rights);

/* May the current role create queues?  EXECUTE on workq_create_queue. */
extern bool workq_access_may_create(void);

extern void workq_access_init(void);

#endif							/* WORKQ_ACCESS_H */
