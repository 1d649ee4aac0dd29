/*-------------------------------------------------------------------------
 *
 * order.h
 *	  The order in which responses are followed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_ORDER_H
#define WORKQ_ORDER_H

#include "utils/snapshot.h"

#include "sched.h"

/*
 * The loader has the gate in hand: see that the writers to come get places
 * behind all that were ever given out.
 */
extern void workq_order_load(WorkqInstance *instance);

/*
 * A foreign hand was at the tables since this was last called, or loaded: see
 * to the same.  For a verb that begins; waits for writers only if it finds
 * places that are in front of ours.
 */
extern void workq_order_check(WorkqInstance *instance);

/* The place of what the current transaction writes.  For verbs that have
 * workq.ready open. */
extern int64 workq_order_place(void);

/*
 * A new snapshot, registered, and the place up to which nothing can come in
 * any more that it does not see.
 */
extern Snapshot workq_order_snapshot(int64 *horizon);

#endif							/* WORKQ_ORDER_H */
