/*-------------------------------------------------------------------------
 *
 * upkeep.c
 *	  What the background worker tidies up in the scheduler's memory.
 *
 * Whoever leaves something behind marks its queue ("chores") and wakes the
 * worker.  It looks at marked queues in turns at least MIN_PAUSE apart, and
 * takes the mark off a queue where it finds nothing.  The chores are:
 *
 *	  - rows in lanes of an old form (relane.c).  Since transactions that were
 *		open at the change may leave some behind, the worker notes who has
 *		workq.ready open, waits until they all have ended, and then walks over
 *		all rows of the queue.  If it leaves none, the queue is settled, unless
 *		the form has changed again;
 *	  - lanes without a record (overflow.c);
 *	  - records of lanes that nothing needs.
 *
 * It also notices when a server-wide setting has changed, and tells the queues
 * that inherit it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "guc.h"
#include "overflow.h"
#include "queue.h"
#include "relane.h"
#include "sched_int.h"
#include "store.h"
#include "upkeep.h"

#define ROWS			1000	/* moved in one transaction */
#define LANES			1000	/* given a record in one transaction */
#define MIN_PAUSE		500		/* ms */
#define MAX_PAUSE		2000	/* ms */

/* An unsettled queue. */
typedef struct Unsettled
{
	int			queue;
	int32		queue_id;
	uint32		serial;			/* queue->forms_serial that this is about */
	VirtualTransactionId *open; /* had the tables open; NULL: none is left */
	WorkqRelane walk;
	TimestampTz walk_began;
	TimestampTz walk_again;		/* not before then, while we wait */
	bool		settled;		/* the walk has left nothing, if it commits */
} Unsettled;

static List *unsettled = NIL;	/* in TopMemoryContext */

static TimestampTz last_turn = 0;	/* by the real clock */
static long pause_ms = MIN_PAUSE;
static bool marked = true;		/* a queue is, as far as is known */

/* ------------------------------------------------------------------------
 * Rows in lanes of an old form
 * ------------------------------------------------------------------------ */

static void
forget(Unsettled *entry)
{
	unsettled = list_delete_ptr(unsettled, entry);
	if (entry->open != NULL)
		pfree(entry->open);
	pfree(entry);
}

void
workq_upkeep_failed(void)
{
	while (unsettled != NIL)
		forget((Unsettled *) linitial(unsettled));
}

static Unsettled *
find_unsettled(int queue)
{
	ListCell   *lc;

	foreach(lc, unsettled)
	{
		Unsettled  *entry = (Unsettled *) lfirst(lc);

		if (entry->queue == queue)
			return entry;
	}
	return NULL;
}

/*
 * Begin with a queue: note who may still write rows of an old form.  That is
 * who has workq.ready open now: whoever opens it later reads the queue's
 * settings after that.
 */
static Unsettled *
begin_unsettled(int q, uint32 serial)
{
	VirtualTransactionId *open;
	MemoryContext old;
	Unsettled  *entry;
	LOCKTAG		tag;
	int			n;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId,
						 workq_store_oid(WORKQ_REL_READY));
	open = GetLockConflicts(&tag, ShareRowExclusiveLock, &n);

	old = MemoryContextSwitchTo(TopMemoryContext);
	entry = palloc0(sizeof(Unsettled));
	entry->queue = q;
	entry->queue_id = sched_queues[q].queue_id;
	entry->serial = serial;
	unsettled = lappend(unsettled, entry);
	entry->open = palloc((n + 1) * sizeof(VirtualTransactionId));
	memcpy(entry->open, open, n * sizeof(VirtualTransactionId));
	SetInvalidVirtualTransactionId(entry->open[n]);
	MemoryContextSwitchTo(old);
	return entry;
}

/*
 * Is one of the transactions still open?
 */
static bool
must_wait(Unsettled *entry)
{
	int			i;

	if (entry->open == NULL)
		return false;
	for (i = 0; VirtualTransactionIdIsValid(entry->open[i]); i++)
	{
		if (!VirtualXactLock(entry->open[i], false))
			return true;
	}
	pfree(entry->open);
	entry->open = NULL;
	return false;
}

/*
 * The walk has ended, and what it moved is committed.
 */
static void
settle(Unsettled *entry)
{
	SchedQueue *queue = &sched_queues[entry->queue];

	LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	if (queue->forms_serial == entry->serial)
		queue->forms = 1 << entry->walk.form;
	LWLockRelease(&queue->lock);
}

static void
set_misplaced(SchedQueue *queue, bool misplaced)
{
	LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	queue->misplaced = misplaced;
	LWLockRelease(&queue->lock);
}

/*
 * See to an unsettled queue.  True: go on at once.
 */
static bool
relane(WorkqStore *store, int q)
{
	SchedQueue *queue = &sched_queues[q];
	Unsettled  *entry = find_unsettled(q);
	uint32		serial;
	WorkqLaneForm form;
	bool		misplaced;

	LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	serial = queue->forms_serial;
	form = (WorkqLaneForm) queue->form;
	misplaced = queue->misplaced;
	LWLockRelease(&queue->lock);
	if (entry != NULL &&
		(entry->serial != serial || entry->queue_id != queue->queue_id))
	{
		forget(entry);
		entry = NULL;
	}
	if (entry == NULL)
		entry = begin_unsettled(q, serial);
	if (entry->settled)
	{
		settle(entry);
		forget(entry);
		return false;
	}

	/*
	 * While somebody has to be waited for, only if such rows have come in,
	 * and for a tenth of the time.
	 */
	if (!entry->walk.begun)
	{
		if (must_wait(entry) &&
			(!misplaced || GetCurrentTimestamp() < entry->walk_again))
			return false;
		set_misplaced(queue, false);
		entry->walk_began = GetCurrentTimestamp();
	}
	entry->walk.form = form;
	(void) workq_relane_step(store, q, queue->queue_id, &entry->walk, ROWS);
	if (!entry->walk.ended)
		return true;
	if (entry->walk.left > 0)
		set_misplaced(queue, true);
	else if (entry->open == NULL)
		entry->settled = true;
	memset(&entry->walk, 0, sizeof(entry->walk));
	entry->walk.form = form;
	entry->walk_again = GetCurrentTimestamp() +
		9 * (GetCurrentTimestamp() - entry->walk_began);
	return entry->settled;
}

/* ------------------------------------------------------------------------
 * Queues
 * ------------------------------------------------------------------------ */

/*
 * See that the policy follows the settings, which the worker may be the first
 * to read.  False: there is no such queue.
 */
static bool
follow_settings(WorkqInstance *instance, int q)
{
	SchedQueue *queue = &sched_queues[q];
	WorkqQueueInfo *info = workq_queue_by_id(queue->queue_id, true);

	if (info == NULL)
		return false;
	(void) workq_sched_queue(instance, queue->queue_id, &info->settings);
	LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	sched_settings_refresh(queue, workq_now());
	LWLockRelease(&queue->lock);
	return true;
}

static void
free_idle_lanes(int q)
{
	int			freed;

	do
	{
		CHECK_FOR_INTERRUPTS();
		LWLockAcquire(&sched_queues[q].lock, LW_EXCLUSIVE);
		freed = sched_free_idle_lanes(q, 64);
		LWLockRelease(&sched_queues[q].lock);
	} while (freed > 0);
}

/*
 * Is there nothing to do any more?  Then the mark goes; queue lock held.
 */
static bool
is_tidy(SchedQueue *queue)
{
	return !sched_is_unsettled(queue) && !queue->overflowing &&
		queue->n_uncounted == 0 && !queue->leases_unrecorded &&
		!sched_has_idle_lanes(queue);
}

/*
 * One marked queue.  True: go on at once.
 */
static bool
tidy(WorkqInstance *instance, WorkqStore *store, int q)
{
	SchedQueue *queue = &sched_queues[q];
	bool		more = false;

	if (!follow_settings(instance, q))
		return false;
	free_idle_lanes(q);
	if (queue->overflowing || queue->n_in_doubt > 0)
		more = workq_overflow_adopt(store, q, LANES) >= LANES;
	workq_overflow_count(store, q);
	if (sched_is_unsettled(queue))
		more |= relane(store, q);
	if (!more)
	{
		LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
		if (is_tidy(queue))
			queue->chores = false;
		LWLockRelease(&queue->lock);
	}
	return more;
}

bool
workq_upkeep_run(WorkqInstance *instance)
{
	static uint32 generation = 0;
	bool		new_settings = generation != workq_guc_generation;
	TimestampTz now = GetCurrentTimestamp();
	WorkqStore *store = NULL;
	bool		more = false;
	int		   *queues;
	int			n;
	int			i;

	if (!new_settings && now < last_turn + pause_ms * 1000)
	{
		marked = true;			/* for all we know */
		return false;
	}
	generation = workq_guc_generation;
	n = workq_sched_queues(instance, &queues);
	marked = false;
	for (i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (new_settings && sched_queues[queues[i]].has_settings)
			(void) follow_settings(instance, queues[i]);
		if (!sched_queues[queues[i]].chores)
			continue;
		if (store == NULL)
			store = workq_store_open();
		more |= tidy(instance, store, queues[i]);
		marked |= sched_queues[queues[i]].chores;
	}
	if (store != NULL)
		workq_store_close(store);
	pfree(queues);
	pause_ms = marked && !more ? Min(pause_ms * 2, MAX_PAUSE) : MIN_PAUSE;
	last_turn = more ? 0 : now;
	return more;
}

long
workq_upkeep_until(long most)
{
	TimestampTz next = last_turn + pause_ms * 1000;
	TimestampTz now = GetCurrentTimestamp();

	if (!marked)
		return most;
	return next <= now ? 0 :
		Min(most, TimestampDifferenceMilliseconds(now, next));
}
