/*-------------------------------------------------------------------------
 *
 * xact.c
 *	  Transaction and subtransaction callbacks, and the changes they publish.
 *
 * A verb appends to a list what it does to the tables.  At the end of the
 * transaction the list is published: at commit as done, at abort as undone;
 * when a savepoint rolls back, its part of the list as undone.  The callbacks
 * take, free and map no memory and cannot fail: an error at commit would be a
 * PANIC, at abort a loop.
 *
 * The list is in the order in which things were done, so the part of a
 * subtransaction is its tail.  It lives in memory of the backend that is
 * reused, and grows only in verbs.
 *
 * A transaction that used workq cannot be prepared, even if it changed nothing
 * in the end: COMMIT PREPARED would publish nothing, and until then nobody's
 * backend would hold its locks, for which a loader waits.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "commands/trigger.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "sched.h"
#include "store.h"
#include "xact.h"

#define GATHER_AFTER	WORKQ_MAX_EXACT /* single positions before gathering */
#define KEEP_CHANGES	1024	/* room kept between transactions */

static WorkqChange *changes = NULL;
static int	n_changes = 0;
static int	max_changes = 0;
static int	run_length = 0;		/* of the run that ends the list */
static bool in_use = false;		/* a verb that writes was called */
static int	offered_own = 0;	/* changes before this one were offered */
static int	n_ready_adds = 0;	/* changes */

/* the settings that SETTINGS changes refer to by their pos.job_id */
typedef struct SettingsChange
{
	int			queue;
	WorkqSettings own;
} SettingsChange;

static SettingsChange *settings = NULL;
static int	n_settings = 0;
static int	max_settings = 0;

/* the keys that KEY changes refer to in the same way */
typedef struct KeyChange
{
	int			queue;
	char		key[WORKQ_MAX_LANE + 1];
	WorkqKeyRow old;
	WorkqKeyRow row;
} KeyChange;

static KeyChange *keys = NULL;
static int	n_keys = 0;
static int	max_keys = 0;

/* the lowest times that were brought; never raised before the end */
typedef struct OwnTime
{
	int			queue;
	WorkqTimeKind kind;
	WorkqPos	pos;
} OwnTime;

static OwnTime *own_times = NULL;
static int	n_own_times = 0;
static int	max_own_times = 0;

/*
 * How many LEASE_END changes there are of each lane, and a hash to find it by
 * its number.  A slot of another generation is empty, so that forgetting them
 * all takes no time.
 */
typedef struct FreedSlot
{
	uint32		generation;
	int			index;
} FreedSlot;

static WorkqFreed *freed = NULL;
static int	n_freed = 0;
static FreedSlot *freed_slots = NULL;
static int	n_freed_slots = 0;	/* a power of two, twice the room in freed */
static uint32 freed_generation = 1;

/* where each open subtransaction's part begins */
typedef struct Level
{
	SubTransactionId subid;
	int			start;
} Level;

static Level *levels = NULL;
static int	n_levels = 0;
static int	max_levels = 0;

/* ------------------------------------------------------------------------
 * The list
 * ------------------------------------------------------------------------ */

/*
 * Room for one more element: the array, or a larger one.
 */
static void *
make_room(void *array, int n, int *max, int least, Size size)
{
	int			more = Max(least, *max * 2);

	if (n < *max)
		return array;
	array = array == NULL ?
		MemoryContextAllocHuge(TopMemoryContext, more * size) :
		repalloc_huge(array, more * size);
	*max = more;
	return array;
}

/*
 * The slot of a lane, or the empty one where it belongs.
 */
static FreedSlot *
freed_slot(int lane)
{
	uint32		i = murmurhash32((uint32) lane);

	for (;; i++)
	{
		FreedSlot  *slot = &freed_slots[i & (n_freed_slots - 1)];

		if (slot->generation != freed_generation ||
			freed[slot->index].lane == lane)
			return slot;
	}
}

static int
freed_find(int lane)
{
	FreedSlot  *slot = n_freed > 0 ? freed_slot(lane) : NULL;

	return slot != NULL && slot->generation == freed_generation ?
		slot->index : -1;
}

/*
 * Make room for another lane.
 */
static void
freed_grow(void)
{
	int			n = Max(32, n_freed_slots * 2);
	int			i;

	freed = freed == NULL ?
		MemoryContextAlloc(TopMemoryContext, n / 2 * sizeof(WorkqFreed)) :
		repalloc_huge(freed, n / 2 * sizeof(WorkqFreed));
	if (freed_slots != NULL)
		pfree(freed_slots);
	n_freed_slots = 0;
	freed_slots = MemoryContextAllocExtended(TopMemoryContext,
											 n * sizeof(FreedSlot),
											 MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	n_freed_slots = n;
	for (i = 0; i < n_freed; i++)
	{
		FreedSlot  *slot = freed_slot(freed[i].lane);

		slot->generation = freed_generation;
		slot->index = i;
	}
}

/*
 * Count a claim that we have ended.
 */
static void
freed_add(int queue, int lane)
{
	int			i = freed_find(lane);

	if (i < 0)
	{
		FreedSlot  *slot;

		if (n_freed >= n_freed_slots / 2)
			freed_grow();
		slot = freed_slot(lane);
		i = n_freed++;
		freed[i].lane = lane;
		freed[i].count = 0;
		slot->generation = freed_generation;
		slot->index = i;
	}
	freed[i].queue = queue;		/* another one, if its count was 0 */
	freed[i].count++;
}

/*
 * A change is taken out of the list.  Runs in callbacks.
 */
static void
take_back(const WorkqChange *change)
{
	n_ready_adds -= change->kind == WORKQ_CHANGE_READY_ADD;
	if (change->kind == WORKQ_CHANGE_LEASE_END && change->lane >= 0)
		freed[freed_find(change->lane)].count--;
}

static void
freed_forget(void)
{
	n_freed = 0;
	if (++freed_generation == 0 && freed_slots != NULL)
	{
		memset(freed_slots, 0, n_freed_slots * sizeof(FreedSlot));
		freed_generation = 1;
	}
}

/*
 * Note where the current subtransaction's part of the list begins.
 */
static void
enter_level(void)
{
	SubTransactionId subid = GetCurrentSubTransactionId();

	if (subid == TopSubTransactionId ||
		(n_levels > 0 && levels[n_levels - 1].subid == subid))
		return;
	levels = make_room(levels, n_levels, &max_levels, 16, sizeof(Level));
	levels[n_levels].subid = subid;
	levels[n_levels].start = n_changes;
	n_levels++;
	run_length = 0;
}

WorkqChange *
workq_xact_change(WorkqChangeKind kind, int queue, int lane)
{
	WorkqChange *change;

	enter_level();
	if (n_changes == 0 && max_changes > 64 * KEEP_CHANGES)
	{
		/* a large transaction left it; callbacks free nothing */
		pfree(changes);
		changes = NULL;
		max_changes = 0;
	}
	changes = make_room(changes, n_changes, &max_changes, KEEP_CHANGES,
						sizeof(WorkqChange));
	if (kind == WORKQ_CHANGE_LEASE_END && lane >= 0)
		freed_add(queue, lane);
	n_ready_adds += kind == WORKQ_CHANGE_READY_ADD;
	change = &changes[n_changes++];
	memset(change, 0, sizeof(WorkqChange));
	change->kind = kind;
	change->queue = queue;
	change->lane = lane;
	change->count = 1;
	run_length = 0;
	return change;
}

/*
 * After GATHER_AFTER single rows of a kind in a row, further ones are counted
 * in the last change, which keeps the lowest position.  A pinned lane is
 * unpinned once for each change, so the caller's pin for a gathered row is
 * given back here.
 */
void
workq_xact_row(WorkqChangeKind kind, int queue, int lane, int priority,
			   WorkqPos pos)
{
	WorkqChange *last;
	int			run;

	enter_level();
	last = n_changes > 0 ? &changes[n_changes - 1] : NULL;
	run = run_length;
	if (run > 0 && last != NULL && last->kind == kind && last->queue == queue &&
		last->lane == lane && last->priority == priority)
	{
		if (run >= GATHER_AFTER)
		{
			last->count++;
			if (workq_pos_compare(pos, last->pos) < 0)
				last->pos = pos;
			workq_sched_unpin_lane(queue, lane);
			return;
		}
	}
	else
		run = 0;
	last = workq_xact_change(kind, queue, lane);
	last->priority = priority;
	last->pos = pos;
	run_length = run + 1;
}

void
workq_xact_count(WorkqChangeKind kind, int queue, int count)
{
	workq_xact_change(kind, queue, -1)->count = count;
}

void
workq_xact_drop_last(void)
{
	Assert(n_changes > 0);
	n_changes--;
	take_back(&changes[n_changes]);
	run_length = 0;
}

WorkqChange *
workq_xact_last(void)
{
	Assert(n_changes > 0);
	return &changes[n_changes - 1];
}

void
workq_xact_note_use(void)
{
	in_use = true;
}

bool
workq_xact_pending(void)
{
	return n_changes > 0;
}

static OwnTime *
find_own_time(int queue, WorkqTimeKind kind)
{
	int			i;

	for (i = 0; i < n_own_times; i++)
	{
		if (own_times[i].queue == queue && own_times[i].kind == kind)
			return &own_times[i];
	}
	return NULL;
}

static void
note_own_time(const WorkqChange *change)
{
	WorkqTimeKind kind = change->kind == WORKQ_CHANGE_DUE_ADD ?
	WORKQ_TIME_DUE : WORKQ_TIME_EXPIRY;
	OwnTime    *own = find_own_time(change->queue, kind);

	if (own == NULL)
	{
		own_times = make_room(own_times, n_own_times, &max_own_times, 16,
							  sizeof(OwnTime));
		own = &own_times[n_own_times++];
		own->queue = change->queue;
		own->kind = kind;
		own->pos = change->pos;
	}
	else if (workq_pos_compare(change->pos, own->pos) < 0)
		own->pos = change->pos;
}

bool
workq_xact_own_time(int queue, WorkqTimeKind kind, WorkqPos *pos)
{
	const OwnTime *own = find_own_time(queue, kind);

	if (own != NULL)
		*pos = own->pos;
	return own != NULL;
}

/*
 * Offer what was enqueued since the last time.  What was taken of it is offered
 * by whoever undoes that.
 */
void
workq_xact_offer_own(void)
{
	int			i;

	for (i = offered_own; i < n_changes; i++)
	{
		if (changes[i].kind == WORKQ_CHANGE_DUE_ADD ||
			changes[i].kind == WORKQ_CHANGE_LEASE_ADD ||
			changes[i].kind == WORKQ_CHANGE_DEADLINE)
			note_own_time(&changes[i]);
	}
	if (offered_own < n_changes)
		workq_sched_offer_own(changes + offered_own, n_changes - offered_own);
	offered_own = n_changes;
}

bool
workq_xact_offer_again(void)
{
	if (n_ready_adds == 0)
		return false;
	offered_own = 0;
	workq_xact_offer_own();
	return true;
}

int
workq_xact_freed(WorkqFreed **result)
{
	*result = freed;
	return n_freed;
}

int
workq_xact_freed_of(int lane)
{
	int			i = freed_find(lane);

	return i >= 0 ? freed[i].count : 0;
}

void
workq_xact_queue_settings(int32 queue_id, const WorkqSettings *own)
{
	WorkqChange *change;
	int			queue = workq_sched_find_queue(queue_id);

	if (queue < 0)
		return;					/* whoever uses it first reads the catalog */
	settings = make_room(settings, n_settings, &max_settings, 16,
						 sizeof(SettingsChange));
	change = workq_xact_change(WORKQ_CHANGE_SETTINGS, queue, -1);
	settings[n_settings].queue = queue;
	settings[n_settings].own = *own;
	change->pos.job_id = n_settings++;
}

void
workq_xact_key(int32 queue_id, const char *key, const WorkqKeyRow *old,
			   const WorkqKeyRow *row)
{
	int			queue = workq_sched_find_queue(queue_id);
	WorkqChange *change;

	if (queue < 0)
		return;
	keys = make_room(keys, n_keys, &max_keys, 16, sizeof(KeyChange));
	change = workq_xact_change(WORKQ_CHANGE_KEY, queue, -1);
	keys[n_keys].queue = queue;
	strlcpy(keys[n_keys].key, key, sizeof(keys[n_keys].key));
	keys[n_keys].old = *old;
	keys[n_keys].row = *row;
	change->pos.job_id = n_keys++;
}

bool
workq_xact_has_settings(void)
{
	return n_settings + n_keys > 0;
}

const WorkqSettings *
workq_xact_own_settings(int queue)
{
	int			i;

	for (i = n_settings - 1; i >= 0; i--)
	{
		if (settings[i].queue == queue)
			return &settings[i].own;
	}
	return NULL;
}

const WorkqKeyRow *
workq_xact_own_key(int queue, const char *key)
{
	int			i;

	for (i = n_keys - 1; i >= 0; i--)
	{
		if (keys[i].queue == queue && strcmp(keys[i].key, key) == 0)
			return &keys[i].row;
	}
	return NULL;
}

void
workq_xact_queue_created(int queue)
{
	workq_xact_change(WORKQ_CHANGE_CREATED, queue, -1);
}

void
workq_xact_queue_dropped(int32 queue_id)
{
	int			queue = workq_sched_find_queue(queue_id);

	if (queue >= 0)
		workq_xact_change(WORKQ_CHANGE_DROP, queue, -1);
}

void
workq_xact_foreign(void)
{
	int			i;

	/* once for each level is enough */
	for (i = n_changes - 1; i >= 0; i--)
	{
		if (changes[i].kind == WORKQ_CHANGE_FOREIGN)
		{
			enter_level();
			if (n_levels == 0 || levels[n_levels - 1].start <= i)
				return;
			break;
		}
	}
	workq_xact_change(WORKQ_CHANGE_FOREIGN, -1, -1);
}

void
workq_xact_extension_dropped(void)
{
	workq_xact_change(WORKQ_CHANGE_EXTENSION, -1, -1);
}

/* ------------------------------------------------------------------------
 * The callbacks
 * ------------------------------------------------------------------------ */

/*
 * Publish a change of settings.  At abort, too: lanes that were made meanwhile
 * go by what is undone.
 */
static void
publish_settings(const WorkqChange *change, bool commit)
{
	const KeyChange *key = &keys[change->pos.job_id];

	if (change->kind == WORKQ_CHANGE_KEY)
		workq_sched_set_key(change->queue, key->key,
							commit ? &key->row : &key->old);
	else if (commit)
		workq_sched_set_settings(change->queue,
								 &settings[change->pos.job_id].own);
	else
		workq_sched_keep_settings(change->queue);
}

static bool
is_of_settings(const WorkqChange *change)
{
	return change->kind == WORKQ_CHANGE_SETTINGS ||
		change->kind == WORKQ_CHANGE_KEY;
}

/*
 * Does this change take its queue out of shared memory?
 */
static bool
takes_out(const WorkqChange *change, bool commit)
{
	return change->kind == (commit ? WORKQ_CHANGE_DROP : WORKQ_CHANGE_CREATED);
}

/*
 * Publish the list from start on, and cut it there.  Runs of changes of one
 * queue are published under one hold of its lock, but not without end.  Queues
 * go last: other changes refer to them.
 */
static void
publish(int start, bool commit)
{
	bool		foreign = false;
	bool		dropped = false;
	int			gone = 0;
	int			undone = 0;
	int			i = start;

	while (i < n_changes)
	{
		const WorkqChange *change = &changes[i];
		int			n = 1;

		if (change->kind == WORKQ_CHANGE_EXTENSION)
			dropped |= commit;
		else if (change->queue < 0)
			foreign = true;
		else if (is_of_settings(change))
		{
			if (commit)
				publish_settings(change, true);
			else
				undone++;
		}
		else if (takes_out(change, commit))
			gone++;
		else
		{
			while (i + n < n_changes && n < 64 &&
				   changes[i + n].queue == change->queue &&
				   !is_of_settings(&changes[i + n]) &&
				   !takes_out(&changes[i + n], commit))
				n++;
			workq_sched_publish(change, n, commit);
		}
		i += n;
	}
	/* back to what was before the first of several */
	for (i = n_changes - 1; undone > 0 && i >= start; i--)
	{
		if (!is_of_settings(&changes[i]))
			continue;
		publish_settings(&changes[i], false);
		if (changes[i].kind == WORKQ_CHANGE_KEY)
			n_keys = changes[i].pos.job_id;
		else
			n_settings = changes[i].pos.job_id;
	}
	for (i = start; start > 0 && i < n_changes; i++)
		take_back(&changes[i]);
	for (i = start; gone > 0 && i < n_changes; i++)
	{
		if (takes_out(&changes[i], commit))
			workq_sched_drop_queue(changes[i].queue);
	}
	n_changes = start;
	offered_own = Min(offered_own, start);
	run_length = 0;
	if (start == 0)
	{
		freed_forget();
		n_ready_adds = 0;
	}

	/* also at abort: what was passed as being deleted is there after all */
	if (foreign)
		workq_sched_set_stale();
	if (dropped)
		workq_sched_extension_dropped();
}

static void
at_xact(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_PREPARE:
			if (in_use || n_changes > 0)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot PREPARE a transaction that has used workq")));
			return;
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
			return;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
		case XACT_EVENT_PREPARE:
			break;
	}
	in_use = false;
	if (n_changes == 0 && n_levels == 0 && !workq_sched_has_walks())
		return;
	workq_sched_end_walks(InvalidSubTransactionId);
	publish(0, event == XACT_EVENT_COMMIT);
	n_levels = 0;
	n_settings = n_keys = n_own_times = 0;
}

static void
at_subxact(SubXactEvent event, SubTransactionId subid,
		   SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		workq_sched_end_walks(subid);
	if (n_levels == 0 || levels[n_levels - 1].subid != subid)
		return;
	switch (event)
	{
		case SUBXACT_EVENT_ABORT_SUB:
			publish(levels[n_levels - 1].start, false);
			n_levels--;
			break;
		case SUBXACT_EVENT_COMMIT_SUB:

			/*
			 * Its changes are the parent's now.  If the parent has no level
			 * of its own yet, it gets this one, else the two are one.
			 */
			if (parent == TopSubTransactionId ||
				(n_levels > 1 && levels[n_levels - 2].subid == parent))
				n_levels--;
			else
				levels[n_levels - 1].subid = parent;
			run_length = 0;
			break;
		case SUBXACT_EVENT_START_SUB:
		case SUBXACT_EVENT_PRE_COMMIT_SUB:
			break;
	}
}

void
workq_xact_init(void)
{
	RegisterXactCallback(at_xact, NULL);
	RegisterSubXactCallback(at_subxact, NULL);
}
