/*-------------------------------------------------------------------------
 *
 * check.c
 *	  workq_check: does shared memory say what the tables say?
 *
 * Counts the live tables under the loader's lock, so that nobody changes
 * anything meanwhile, and compares each queue and lane.  Start hints are
 * compared row by row: no live row may stand at or before its hint without
 * being known exactly.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "compat.h"
#include "queue.h"
#include "sched_int.h"
#include "store.h"
#include "xact.h"

PG_FUNCTION_INFO_V1(workq_check);

/* What the tables say of a queue. */
typedef struct QueueCount
{
	int32		queue_id;		/* hash key */
	int64		ready;
	int64		scheduled;
	int64		leased;
	int64		held;
	int64		misplaced;		/* rows in lanes of a form nobody looks for */
	int64		lost_keys;		/* deduplication keys of no job */
} QueueCount;

/* The job of a deduplication key. */
typedef struct KeyOwner
{
	int64		job_id;			/* hash key */
	int32		queue_id;
	bool		alive;
} KeyOwner;

/* And of a lane; in_flight is the leases. */
typedef struct LaneCountKey
{
	int32		queue_id;
	char		lane[WORKQ_MAX_LANE + 1];
} LaneCountKey;

typedef struct LaneCount
{
	LaneCountKey key;			/* hash key */
	int64		ready;
	int64		in_flight;
	int64		hidden;			/* ready rows that no look would meet */
} LaneCount;

typedef struct Check
{
	ReturnSetInfo *rsinfo;
	int			instance;
	HTAB	   *queues;
	HTAB	   *lanes;
	HTAB	   *key_owners;
	int64		hidden_due;
	int64		hidden_expiry;
} Check;

static char *
queue_name(int32 queue_id)
{
	WorkqQueueInfo *info = workq_queue_by_id(queue_id, true);

	return info != NULL ? pstrdup(info->name) : psprintf("(%d)", queue_id);
}

static void
report(Check *check, int32 queue_id, const char *lane, const char *item,
	   int64 memory, int64 tables)
{
	Datum		values[5];
	bool		nulls[5] = {false, false, false, false, false};

	if (memory == tables)
		return;
	values[0] = CStringGetTextDatum(queue_name(queue_id));
	nulls[1] = (lane == NULL);
	values[1] = lane == NULL ? (Datum) 0 : CStringGetTextDatum(lane);
	values[2] = CStringGetTextDatum(item);
	values[3] = CStringGetTextDatum(psprintf(INT64_FORMAT, memory));
	values[4] = CStringGetTextDatum(psprintf(INT64_FORMAT, tables));
	tuplestore_putvalues(check->rsinfo->setResult, check->rsinfo->setDesc,
						 values, nulls);
}

static HTAB *
make_hash(const char *name, Size key, Size entry)
{
	HASHCTL		control;

	memset(&control, 0, sizeof(control));
	control.keysize = key;
	control.entrysize = entry;
	control.hcxt = CurrentMemoryContext;
	return hash_create(name, 256, &control,
					   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

static QueueCount *
queue_count(Check *check, int32 queue_id)
{
	bool		found;
	QueueCount *count = hash_search(check->queues, &queue_id, HASH_ENTER,
									&found);

	if (!found)
		memset((char *) count + sizeof(int32), 0,
			   sizeof(QueueCount) - sizeof(int32));
	return count;
}

static LaneCount *
lane_count(Check *check, int32 queue_id, const char *lane)
{
	LaneCountKey key;
	LaneCount  *count;
	bool		found;

	memset(&key, 0, sizeof(key));
	key.queue_id = queue_id;
	strlcpy(key.lane, lane, sizeof(key.lane));
	count = hash_search(check->lanes, &key, HASH_ENTER, &found);
	if (!found)
		count->ready = count->in_flight = count->hidden = 0;
	return count;
}

/*
 * Is the row's lane of a form that the queue has, or that is known to be there
 * and will be moved?  Queue lock held.
 */
static bool
form_is_known(const SchedQueue *queue, const WorkqJob *job)
{
	int			form = workq_job_form(job->flags);

	return queue->form == WORKQ_FORM_UNKNOWN || form == queue->form ||
		(queue->forms & (1 << form)) != 0;
}

/*
 * Would a look into the lane meet a ready row at pos?  Or, if the queue is
 * overflowing, is it a lane that is being looked for (overflow.c)?  Queue lock
 * held.
 */
static bool
look_meets(int number, int priority, WorkqPos pos)
{
	SchedLane  *lane = &sched_lanes[number];
	WorkqPolicy policy = sched_policy(&sched_queues[lane->queue]);
	int			e;

	if (lane->in_doubt ||
		(lane->uncounted && sched_queues[lane->queue].overflowing))
		return true;
	if (!workq_policy_ready(&policy, number))
		return false;
	if (workq_pos_compare(lane->hint[priority].low, pos) < 0)
		return true;
	for (e = lane->first_exact; e >= 0; e = sched_exacts[e].next)
	{
		if (sched_exacts[e].priority == priority &&
			workq_pos_compare(sched_exacts[e].pos, pos) == 0)
			return true;
	}
	return false;
}

/*
 * open: a foreign hand's open transaction is deleting the row.  Then looks may
 * have passed it; should it stay after all, the hints will be lowered.
 */
static void
count_row(Check *check, WorkqRelation table, const WorkqJob *job, WorkqPos pos,
		  bool open)
{
	QueueCount *queue = queue_count(check, job->queue_id);
	int			q = sched_queue_find(check->instance, job->queue_id, false);
	int			lane;

	if (q >= 0)
		LWLockAcquire(&sched_queues[q].lock, LW_EXCLUSIVE);
	if (q >= 0 && (table == WORKQ_REL_READY || table == WORKQ_REL_LEASES) &&
		!form_is_known(&sched_queues[q], job))
		queue->misplaced++;
	switch (table)
	{
		case WORKQ_REL_READY:
			queue->ready++;
			lane_count(check, job->queue_id, job->lane)->ready++;
			lane = q < 0 ? -1 : sched_lane_find(q, job->lane);
			if (!open && (lane < 0 ? q < 0 || !sched_queues[q].overflowing :
						  !look_meets(lane, job->priority, pos)))
				lane_count(check, job->queue_id, job->lane)->hidden++;
			break;
		case WORKQ_REL_LEASES:
			queue->leased++;
			lane_count(check, job->queue_id, job->lane)->in_flight++;
			if (!open && (q < 0 || workq_pos_compare(sched_queues[q].expiry.low,
													 pos) >= 0))
				check->hidden_expiry++;
			break;
		case WORKQ_REL_SCHEDULED:
			queue->scheduled++;
			if (!open && (q < 0 || workq_pos_compare(sched_queues[q].due.low,
													 pos) >= 0))
				check->hidden_due++;
			break;
		default:
			queue->held++;
			break;
	}
	if (q >= 0)
		LWLockRelease(&sched_queues[q].lock);
}

/*
 * Note whose the deduplication keys are.
 */
static void
read_keys(Check *check)
{
	WorkqStore *store = workq_store_open_reader();
	WorkqCursor *cursor = workq_store_full_cursor(store, WORKQ_REL_DEDUP);
	WorkqRow	row;

	while ((row = workq_store_next(cursor)) != WORKQ_ROW_END)
	{
		KeyOwner   *owner;
		int32		queue_id;
		int64		job_id;

		CHECK_FOR_INTERRUPTS();
		if (row != WORKQ_ROW_CANDIDATE)
			continue;
		workq_store_dedup_row(cursor, &queue_id, &job_id);
		owner = hash_search(check->key_owners, &job_id, HASH_ENTER, NULL);
		owner->queue_id = queue_id;
		owner->alive = false;
	}
	workq_store_end(cursor);
	workq_store_close(store);
}

/*
 * A job is alive, or will be if a foreign hand's transaction commits.
 */
static void
note_alive(Check *check, int64 job_id)
{
	KeyOwner   *owner = hash_search(check->key_owners, &job_id, HASH_FIND,
									NULL);

	if (owner != NULL)
		owner->alive = true;
}

static void
count_lost_keys(Check *check)
{
	HASH_SEQ_STATUS status;
	KeyOwner   *owner;

	hash_seq_init(&status, check->key_owners);
	while ((owner = hash_seq_search(&status)) != NULL)
	{
		if (!owner->alive)
			queue_count(check, owner->queue_id)->lost_keys++;
	}
}

static void
count_table(Check *check, WorkqRelation table)
{
	MemoryContext per_row = AllocSetContextCreate(CurrentMemoryContext,
												  "workq check",
												  ALLOCSET_DEFAULT_SIZES);
	WorkqStore *store = workq_store_open_reader();
	WorkqCursor *cursor = workq_store_full_cursor(store, table);
	WorkqRow	row;

	while ((row = workq_store_next(cursor)) != WORKQ_ROW_END)
	{
		MemoryContext old = MemoryContextSwitchTo(per_row);
		WorkqJob	job;

		CHECK_FOR_INTERRUPTS();
		workq_store_row(cursor, &job);
		note_alive(check, job.job_id);
		if (row == WORKQ_ROW_CANDIDATE || workq_store_being_deleted(cursor))
			count_row(check, table, &job, workq_store_pos(cursor),
					  row == WORKQ_ROW_PASS);
		MemoryContextSwitchTo(old);
		MemoryContextReset(per_row);
	}
	workq_store_end(cursor);
	workq_store_close(store);
	MemoryContextDelete(per_row);
}

/*
 * What shared memory says of each queue and lane, against the counts.
 */
static void
compare_memory(Check *check)
{
	int		   *queues;
	int			n = workq_sched_queues(&sched_shared->instances[check->instance],
									   &queues);
	int			i;

	for (i = 0; i < n; i++)
	{
		SchedQueue *queue = &sched_queues[queues[i]];
		WorkqCounters counters = queue->counters;
		QueueCount *count = queue_count(check, queue->queue_id);
		WorkqPolicy policy = sched_policy(queue);
		const char *fault = workq_policy_check(&policy);
		int			lane;

		report(check, queue->queue_id, NULL, fault != NULL ? fault : "policy",
			   fault != NULL ? 1 : 0, 0);
		report(check, queue->queue_id, NULL, "ready", counters.ready,
			   count->ready);
		report(check, queue->queue_id, NULL, "scheduled", counters.scheduled,
			   count->scheduled);
		report(check, queue->queue_id, NULL, "leased", counters.leased,
			   count->leased);
		report(check, queue->queue_id, NULL, "held", counters.held,
			   count->held);
		report(check, queue->queue_id, NULL, "rows of unknown form", 0,
			   count->misplaced);
		report(check, queue->queue_id, NULL, "pins of lanes without record",
			   queue->unrecorded + queue->unrecorded_ends, 0);
		count->ready = count->scheduled = count->leased = count->held = -1;
		for (lane = queue->first_lane; lane >= 0;
			 lane = sched_lanes[lane].next)
		{
			char	   *key = sched_lane_key(lane);
			LaneCount  *rows;

			if (sched_lanes[lane].is_group)
				continue;
			rows = lane_count(check, queue->queue_id, key);

			if (!sched_lanes[lane].uncounted)
				report(check, queue->queue_id, key, "ready in lane",
					   sched_lanes[lane].ready, rows->ready);
			if (!sched_lanes[lane].in_doubt)
				report(check, queue->queue_id, key, "in flight",
					   sched_policy_lanes[lane].in_flight, rows->in_flight);
			report(check, queue->queue_id, key, "pins",
				   sched_lanes[lane].pins, 0);
			rows->ready = rows->in_flight = 0;
		}
	}
}

/*
 * What the tables have and shared memory does not know.
 */
static void
compare_rest(Check *check)
{
	HASH_SEQ_STATUS status;
	QueueCount *queue;
	LaneCount  *lane;

	hash_seq_init(&status, check->queues);
	while ((queue = hash_seq_search(&status)) != NULL)
	{
		report(check, queue->queue_id, NULL, "deduplication keys of no job",
			   0, queue->lost_keys);
		if (queue->ready >= 0)
			report(check, queue->queue_id, NULL, "jobs of an unknown queue", 0,
				   queue->ready + queue->scheduled + queue->leased +
				   queue->held);
	}
	hash_seq_init(&status, check->lanes);
	while ((lane = hash_seq_search(&status)) != NULL)
	{
		int			q = sched_queue_find(check->instance, lane->key.queue_id,
										 false);

		if (q >= 0 && sched_queues[q].overflowing)
			lane->ready = 0;
		if (q >= 0 && sched_queues[q].leases_unrecorded)
			lane->in_flight = 0;
		report(check, lane->key.queue_id, lane->key.lane,
			   "jobs of an unknown lane", 0, lane->ready + lane->in_flight);
		report(check, lane->key.queue_id, lane->key.lane,
			   "ready jobs that no claim would meet", 0, lane->hidden);
	}
	report(check, 0, NULL, "leases that no look would meet", 0,
		   check->hidden_expiry);
	report(check, 0, NULL, "scheduled jobs that no look would meet", 0,
		   check->hidden_due);
}

Datum
workq_check(PG_FUNCTION_ARGS)
{
	Check		check;
	Oid			gate;
	WorkqInstance *instance;

	workq_store_require("workq_check()", true);
	if (!has_privs_of_role(GetUserId(), ROLE_PG_MONITOR))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to check workq's memory"),
				 errhint("Ask for membership in pg_monitor.")));
	if (workq_xact_pending())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("workq_check cannot run in a transaction that has changed jobs"),
				 errhint("Commit it first.")));
	memset(&check, 0, sizeof(check));
	workq_compat_init_srf(fcinfo);
	check.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	check.queues = make_hash("workq check queues", sizeof(int32),
							 sizeof(QueueCount));
	check.lanes = make_hash("workq check lanes", sizeof(LaneCountKey),
							sizeof(LaneCount));

	check.key_owners = make_hash("workq check keys", sizeof(int64),
								 sizeof(KeyOwner));

	/* with the lock in hand, what is stale gets loaded */
	gate = workq_store_oid(WORKQ_REL_READY);
	LockRelationOid(gate, ShareRowExclusiveLock);
	instance = workq_sched_instance();
	check.instance = instance - sched_shared->instances;
	read_keys(&check);
	count_table(&check, WORKQ_REL_READY);
	count_table(&check, WORKQ_REL_LEASES);
	count_table(&check, WORKQ_REL_SCHEDULED);
	count_table(&check, WORKQ_REL_HELD);
	count_lost_keys(&check);
	compare_memory(&check);
	UnlockRelationOid(gate, ShareRowExclusiveLock);
	compare_rest(&check);
	return (Datum) 0;
}
