/*-------------------------------------------------------------------------
 *
 * overflow.c
 *	  Lanes without a record in shared memory.
 *
 * When a verb needs the record of a lane and none is free, the queue is marked
 * overflowing, and the verb goes on without: the row is in the tables, nobody
 * is told.  From then on such lanes are looked for, by claimers that find
 * nothing on offer and by the background worker, with a skip scan of the ready
 * index: lane by lane, one row each.  A lane that has no record gets one, if
 * one is free by now.
 *
 * A record that is made in an overflowing queue is of a lane that may have had
 * rows before: it excludes nothing and is "uncounted", which means that its
 * number of ready rows is wrong.  Such a lane may be given back whatever the
 * number, since it is found again.
 *
 * The queue stops overflowing when a scan that began at the first lane has
 * come to the last, and all lanes it met have records; at its beginning no
 * transaction was open that had changed a lane without record, and meanwhile
 * there was none that needed a record and got none.  Then the uncounted lanes
 * are counted, each at a moment when no transaction is open that changed it:
 * all that are have it pinned.
 *
 * Leases are counted in the same way, but a lane that may have leases from
 * before its record ("in doubt") is not served until they are counted: caps
 * are exact.  That concerns only leases that the loader found when there were
 * more lanes with leases than records.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xlog.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "guc.h"
#include "overflow.h"
#include "queue.h"
#include "sched_int.h"

PG_FUNCTION_INFO_V1(workq_lane_memory);

/* ------------------------------------------------------------------------
 * Counting
 * ------------------------------------------------------------------------ */

/* A lane as it was when counting began. */
typedef struct Counted
{
	int			lane;
	uint32		published;
	char	   *key;
} Counted;

/*
 * Has nobody an open change of the lane?  Queue lock held.
 */
static bool
is_quiet(int queue, int lane)
{
	return sched_lanes[lane].queue == queue && sched_lanes[lane].pins == 0;
}

/*
 * The lanes that are uncounted (or in doubt) and quiet; returns how many.
 */
static int
quiet_lanes(int q, bool in_doubt, Counted **result)
{
	SchedQueue *queue = &sched_queues[q];
	int			room = (in_doubt ? queue->n_in_doubt : queue->n_uncounted) + 16;
	Counted    *lanes = palloc(room * sizeof(Counted));
	char	   *keys = palloc(room * (WORKQ_MAX_LANE + 4));
	int			n = 0;
	int			i;

	LWLockAcquire(&queue->lock, LW_SHARED);
	for (i = queue->first_lane; i >= 0 && n < room; i = sched_lanes[i].next)
	{
		if (!(in_doubt ? sched_lanes[i].in_doubt : sched_lanes[i].uncounted) ||
			!is_quiet(q, i))
			continue;
		lanes[n].lane = i;
		lanes[n].published = sched_lanes[i].published;
		lanes[n].key = keys + n * (WORKQ_MAX_LANE + 4);
		sched_lane_copy_key(i, lanes[n].key);
		n++;
	}
	LWLockRelease(&queue->lock);
	*result = lanes;
	return n;
}

/*
 * Nothing has happened to the lane since; queue lock held.
 */
static bool
is_unchanged(int queue, const Counted *counted)
{
	return is_quiet(queue, counted->lane) &&
		sched_lanes[counted->lane].published == counted->published;
}

/*
 * The ready rows of a lane.  False: some are in somebody's hand.
 */
static bool
count_ready(WorkqStore *store, int32 queue_id, const char *lane, int64 *count)
{
	WorkqPos	first = workq_pos_min;
	bool		settled = true;
	int			p;

	*count = 0;
	for (p = 0; p < WORKQ_PRIORITIES && settled; p++)
	{
		WorkqCursor *cursor = workq_store_ready_cursor(store, queue_id, lane,
													   p, first);
		WorkqRow	row;

		while (settled && (row = workq_store_next(cursor)) != WORKQ_ROW_END)
		{
			CHECK_FOR_INTERRUPTS();
			settled = (row == WORKQ_ROW_CANDIDATE);
			(*count)++;
		}
		workq_store_end(cursor);
	}
	return settled;
}

static void
count_lanes(WorkqStore *store, int q)
{
	SchedQueue *queue = &sched_queues[q];
	Counted    *lanes;
	int			n = quiet_lanes(q, false, &lanes);
	int			i;

	for (i = 0; i < n; i++)
	{
		int64		count;

		if (!count_ready(store, queue->queue_id, lanes[i].key, &count))
			continue;
		LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
		if (!queue->overflowing && queue->unrecorded == 0 &&
			is_unchanged(q, &lanes[i]))
		{
			sched_lanes[lanes[i].lane].ready = count;
			sched_lanes[lanes[i].lane].uncounted = false;
			queue->n_uncounted--;
		}
		LWLockRelease(&queue->lock);
	}
}

/* The leases of a lane. */
typedef struct LeaseCount
{
	char		lane[WORKQ_MAX_LANE + 1];	/* hash key */
	int64		count;
} LeaseCount;

/*
 * All leases of a queue that are there, or may come back by a rollback.
 * *unknown: is there one whose lane has no record, or is in doubt?
 */
static HTAB *
count_leases(WorkqStore *store, int q, bool *unknown)
{
	SchedQueue *queue = &sched_queues[q];
	WorkqPos	first = workq_pos_min;
	WorkqCursor *cursor;
	HASHCTL		control;
	HTAB	   *result;

	memset(&control, 0, sizeof(control));
	control.keysize = WORKQ_MAX_LANE + 1;
	control.entrysize = sizeof(LeaseCount);
	control.hcxt = CurrentMemoryContext;
	result = hash_create("workq leases of lanes", 256, &control,
						 HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	cursor = workq_store_expired_cursor(store, queue->queue_id, first);
	*unknown = false;
	while (workq_store_next(cursor) != WORKQ_ROW_END)
	{
		WorkqJob	job;
		LeaseCount *entry;
		bool		found;
		int			lane;

		CHECK_FOR_INTERRUPTS();
		workq_store_row(cursor, &job);
		entry = hash_search(result, job.lane, HASH_ENTER, &found);
		entry->count = found ? entry->count + 1 : 1;
		LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
		lane = sched_lane_find(q, job.lane);
		if (lane < 0 || sched_lanes[lane].in_doubt)
			*unknown = true;
		LWLockRelease(&queue->lock);
	}
	workq_store_end(cursor);
	return result;
}

/*
 * A lane's leases are known: it can be served.  Queue lock held.
 */
static void
clear_doubt(SchedQueue *queue, int lane, int64 leases, TimestampTz now)
{
	WorkqPolicy policy = sched_policy(queue);
	int64		more = leases - sched_policy_lanes[lane].in_flight;

	if (more > 0)
		workq_policy_hold(&policy, lane, (int32) more, now);
	else if (more < 0)
		workq_policy_finish(&policy, lane, (int32) -more, now);
	sched_lanes[lane].in_doubt = false;
	queue->n_in_doubt--;
	sched_lane_offer_all(lane, now);
	sched_wait_wake_chain(queue);
}

/*
 * Returns how many lanes are out of doubt.
 */
static int
settle_leases(WorkqStore *store, int q)
{
	SchedQueue *queue = &sched_queues[q];
	TimestampTz now = workq_now();
	Counted    *lanes;
	int			n = quiet_lanes(q, true, &lanes);
	int			settled = 0;
	HTAB	   *counts;
	bool		unknown;
	int			i;

	/* an end under way of a lease without record is in nobody's count */
	if (queue->unrecorded_ends > 0)
		return 0;
	counts = count_leases(store, q, &unknown);
	LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	for (i = 0; i < n && queue->unrecorded_ends == 0; i++)
	{
		LeaseCount *entry = hash_search(counts, lanes[i].key, HASH_FIND, NULL);

		if (!is_unchanged(q, &lanes[i]) || !sched_lanes[lanes[i].lane].in_doubt)
			continue;
		clear_doubt(queue, lanes[i].lane, entry != NULL ? entry->count : 0,
					now);
		settled++;
	}
	if (!unknown && queue->unrecorded_ends == 0 && queue->n_in_doubt == 0)
		queue->leases_unrecorded = false;
	LWLockRelease(&queue->lock);
	hash_destroy(counts);
	return settled;
}

void
workq_overflow_count(WorkqStore *store, int q)
{
	SchedQueue *queue = &sched_queues[q];

	if (queue->leases_unrecorded || queue->n_in_doubt > 0)
		(void) settle_leases(store, q);
	if (queue->n_uncounted > 0 && !queue->overflowing)
		count_lanes(store, q);
}

/* ------------------------------------------------------------------------
 * Looking for lanes
 * ------------------------------------------------------------------------ */

/* A scan from where the last one has come to. */
typedef struct LaneScan
{
	WorkqStore *store;
	int			queue;
	TimestampTz now;
	int			most;
	int			offered;
	bool		from_start;
	bool		advanced;		/* "lane" is one that it has passed */
	uint32		serial;			/* queue->overflow_serial when it began */
	bool		pending;		/* open changes of lanes without record, then */
	char		lane[WORKQ_MAX_LANE + 1];	/* it has come to */
} LaneScan;

static void
scan_begin(LaneScan *scan, bool from_start)
{
	SchedQueue *queue = &sched_queues[scan->queue];

	LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	(void) sched_free_idle_lanes(scan->queue, scan->most);
	scan->from_start = from_start || !queue->sweep_begun;
	if (!scan->from_start)
		strlcpy(scan->lane, queue->sweep_lane, sizeof(scan->lane));
	scan->serial = queue->overflow_serial;
	scan->pending = queue->unrecorded > 0;
	LWLockRelease(&queue->lock);
}

/*
 * A lane has rows.  False: it has no record, and none is free.
 */
static bool
scan_lane(LaneScan *scan, const char *key)
{
	SchedQueue *queue = &sched_queues[scan->queue];
	WorkqPolicy policy = sched_policy(queue);
	bool		made;
	int			lane;

	LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	lane = sched_lane_find(scan->queue, key);
	if (lane >= 0)
	{
		if (sched_lanes[lane].uncounted && !sched_lanes[lane].in_doubt &&
			!workq_policy_ready(&policy, lane))
		{
			sched_lane_offer_all(lane, scan->now);
			sched_wait_wake_chain(queue);
			scan->offered++;
		}
		LWLockRelease(&queue->lock);
		return true;
	}
	made = sched_lanes_free(queue) ||
		sched_free_idle_lanes(scan->queue, 16) > 0;
	LWLockRelease(&queue->lock);
	if (!made)
		return false;
	lane = sched_lane_get(scan->queue, key);
	made = lane >= 0;
	if (made && !sched_lanes[lane].in_doubt)
		scan->offered++;
	LWLockRelease(&queue->lock);
	return made;
}

/*
 * Go on to the last lane; stop when enough are offered, or no record is free.
 * Returns whether it has come to the end.
 */
static bool
scan_run(LaneScan *scan)
{
	int32		queue_id = sched_queues[scan->queue].queue_id;
	const char *after = scan->from_start ? NULL : scan->lane;

	for (;;)
	{
		WorkqCursor *cursor;
		WorkqRow	row;
		WorkqJob	job = {0};

		CHECK_FOR_INTERRUPTS();
		if (scan->offered >= scan->most)
			return false;
		cursor = workq_store_lane_cursor(scan->store, queue_id, after);
		while ((row = workq_store_next(cursor)) == WORKQ_ROW_PASS)
			CHECK_FOR_INTERRUPTS();
		if (row == WORKQ_ROW_CANDIDATE)
			workq_store_row(cursor, &job);
		workq_store_end(cursor);
		if (row != WORKQ_ROW_CANDIDATE)
			return true;
		if (!scan_lane(scan, job.lane))
			return false;
		strlcpy(scan->lane, job.lane, sizeof(scan->lane));
		scan->advanced = true;
		after = scan->lane;
	}
}

/*
 * Note how far the scan has come.  Returns whether the queue has just stopped
 * overflowing and somebody was told that it did.
 */
static bool
scan_end(LaneScan *scan, bool at_end)
{
	SchedQueue *queue = &sched_queues[scan->queue];
	bool		over = false;

	LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	if (at_end)
	{
		queue->sweep_begun = false;
		if (scan->from_start && !scan->pending && queue->unrecorded == 0 &&
			queue->overflow_serial == scan->serial)
		{
			over = queue->overflow_told;
			queue->overflowing = false;
			queue->overflow_told = false;
		}
	}
	else if (scan->advanced)
	{
		queue->sweep_begun = true;
		strlcpy(queue->sweep_lane, scan->lane, sizeof(queue->sweep_lane));
	}
	LWLockRelease(&queue->lock);
	return over;
}

static void
tell_end(int queue)
{
	WorkqQueueInfo *info = workq_queue_by_id(sched_queues[queue].queue_id,
											 true);

	ereport(LOG,
			(errmsg("all lanes of queue \"%s\" are in memory again",
					info != NULL ? info->name : "?")));
}

int
workq_overflow_adopt(WorkqStore *store, int queue, int most)
{
	MemoryContext context;
	MemoryContext old;
	LaneScan	scan;
	int			settled = 0;
	bool		at_end;
	int			rounds;

	if (!sched_queues[queue].overflowing && sched_queues[queue].n_in_doubt == 0)
		return 0;
	context = AllocSetContextCreate(CurrentMemoryContext, "workq overflow",
									ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	if (sched_queues[queue].n_in_doubt > 0)
		settled = settle_leases(store, queue);

	memset(&scan, 0, sizeof(scan));
	scan.store = store;
	scan.queue = queue;
	scan.now = workq_now();
	scan.most = most;
	for (rounds = 0; rounds < 2 && sched_queues[queue].overflowing; rounds++)
	{
		scan_begin(&scan, rounds > 0);
		at_end = scan_run(&scan);
		if (scan_end(&scan, at_end))
			tell_end(queue);
		if (!at_end || scan.from_start)
			break;
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return scan.offered + settled;
}

/* ------------------------------------------------------------------------
 * For views
 * ------------------------------------------------------------------------ */

Datum
workq_lane_memory(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Datum		values[4];
	bool		nulls[4] = {false, false, false, false};
	int		   *queues;
	int			n = 0;
	int			overflowing = 0;
	int64		overflows = 0;
	int			i;

	workq_store_require("workq.lane_memory()", false);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	desc = BlessTupleDesc(desc);
	if (!RecoveryInProgress())
		n = workq_sched_queues(workq_sched_instance(), &queues);
	for (i = 0; i < n; i++)
	{
		SchedQueue *queue = &sched_queues[queues[i]];

		LWLockAcquire(&queue->lock, LW_SHARED);
		overflowing += queue->overflowing;
		overflows += queue->counters.overflows;
		LWLockRelease(&queue->lock);
	}
	SpinLockAcquire(&sched_shared->pool);
	values[1] = Int32GetDatum(sched_shared->n_free_lanes);
	SpinLockRelease(&sched_shared->pool);
	values[0] = Int32GetDatum(sched_shared->max_lanes);
	values[2] = Int32GetDatum(overflowing);
	values[3] = Int64GetDatum(overflows);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(desc, values, nulls)));
}
