/*-------------------------------------------------------------------------
 *
 * upkeep.h
 *	  What the background worker tidies up in the scheduler's memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_UPKEEP_H
#define WORKQ_UPKEEP_H

#include "sched.h"

/*
 * Do some of what there is to do, in the current transaction.  True: there is
 * more to do at once, in another one.
 */
extern bool workq_upkeep_run(WorkqInstance *instance);

/* Milliseconds until there is something to do again; at most "most". */
extern long workq_upkeep_until(long most);

/* The transaction of the last run did not commit. */
extern void workq_upkeep_failed(void);

#endif							/* WORKQ_UPKEEP_H */
