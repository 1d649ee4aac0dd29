/*-------------------------------------------------------------------------
 *
 * overflow.h
 *	  Lanes without a record in shared memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_OVERFLOW_H
#define WORKQ_OVERFLOW_H

#include "store.h"

/*
 * Look for lanes of an overflowing queue that have rows but no record, and
 * give up to "most" of them one, as far as records are free.  Returns how
 * many lanes are offered that were not before.  The queue stops overflowing
 * when there are none.
 */
extern int	workq_overflow_adopt(WorkqStore *store, int queue, int most);

/*
 * Count what was there before the records of lanes.  What is in use at the
 * moment is left for another time.
 */
extern void workq_overflow_count(WorkqStore *store, int queue);

#endif							/* WORKQ_OVERFLOW_H */
