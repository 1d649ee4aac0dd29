/*-------------------------------------------------------------------------
 *
 * xact.h
 *	  What the open transaction will change in shared memory when it ends.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_XACT_H
#define WORKQ_XACT_H

#include "sched.h"

extern void workq_xact_init(void);

/*
 * Append a change.  May fail, so it comes before what it describes is done in
 * shared memory.  lane is pinned already, or -1.  The result is valid until
 * the next append.  count is 1 and pos is 0, to be filled in.
 */
extern WorkqChange *workq_xact_change(WorkqChangeKind kind, int queue,
									  int lane);

/* The same with a position; gathers long runs into one change. */
extern void workq_xact_row(WorkqChangeKind kind, int queue, int lane,
						   int priority, WorkqPos pos);

/* A change of a total. */
extern void workq_xact_count(WorkqChangeKind kind, int queue, int count);

/* The last change appended describes something that was not done. */
extern void workq_xact_drop_last(void);

extern WorkqChange *workq_xact_last(void);

/* This transaction uses workq to write: it cannot be prepared. */
extern void workq_xact_note_use(void);

/* Has this transaction unpublished changes? */
extern bool workq_xact_pending(void);

/* Let our own unpublished rows be found by our own claim. */
extern void workq_xact_offer_own(void);

/* All of them once more: others may have found them not there.  False: none. */
extern bool workq_xact_offer_again(void);

/*
 * The lowest due time or deadline that this transaction has brought to a queue,
 * as of the last workq_xact_offer_own.  False: none.
 */
extern bool workq_xact_own_time(int queue, WorkqTimeKind kind, WorkqPos *pos);

/* Claims of a lane that this transaction has ended but not published. */
typedef struct WorkqFreed
{
	int			queue;
	int			lane;
	int			count;			/* may be 0 */
	int			applied;		/* the scheduler's, while it selects */
} WorkqFreed;

/* Of all lanes; returns how many they are.  Valid until the next change. */
extern int	workq_xact_freed(WorkqFreed **freed);
extern int	workq_xact_freed_of(int lane);

/* Catalog changes; take effect in shared memory at commit.  A queue that was
 * created gives its number back at abort. */
extern void workq_xact_queue_settings(int32 queue_id, const WorkqSettings *own);
extern void workq_xact_queue_created(int queue);
extern void workq_xact_queue_dropped(int32 queue_id);
extern void workq_xact_key(int32 queue_id, const char *key,
						   const WorkqKeyRow *old, const WorkqKeyRow *row);

/*
 * What this transaction has set itself last, without having committed it: a
 * queue's settings, or what a key of it has.  NULL: nothing.
 */
extern bool workq_xact_has_settings(void);	/* of any queue */
extern const WorkqSettings *workq_xact_own_settings(int queue);
extern const WorkqKeyRow *workq_xact_own_key(int queue, const char *key);

/* A foreign hand wrote to a live table in this transaction. */
extern void workq_xact_foreign(void);

/* This transaction drops the extension. */
extern void workq_xact_extension_dropped(void);

#endif							/* WORKQ_XACT_H */
