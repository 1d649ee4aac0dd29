/*-------------------------------------------------------------------------
 *
 * sched_load.c
 *	  Loading shared memory from the live tables.
 *
 * workq.ready is the gate: every verb opens it before the other live tables
 * and keeps its lock (RowExclusive) to the end of its transaction, and
 * callbacks publish before locks are released.  So a loader that has a
 * conflicting lock on workq.ready knows that whatever others did is in the
 * tables and published, and that nobody changes anything until it lets go.
 *
 * The first load waits for that lock.  A reload, after a foreign hand wrote
 * to the tables, does not: until it gets the lock at once, the stale memory is
 * used, with hints that exclude nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"

#include "guc.h"
#include "order.h"
#include "queue.h"
#include "sched_int.h"
#include "store.h"
#include "xact.h"

/*
 * Forget what the tables will tell: counts, hints, what is in flight.
 */
static void
reset_queues(int instance)
{
	int			q;

	for (q = 0; q < sched_shared->max_queues; q++)
	{
		SchedQueue *queue = &sched_queues[q];

		if (queue->instance != instance)
			continue;
		LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
		queue->counters.ready = 0;
		queue->counters.scheduled = 0;
		queue->counters.leased = 0;
		queue->counters.held = 0;
		queue->overflowing = false;
		queue->overflow_told = false;
		queue->leases_unrecorded = false;
		queue->misplaced = false;
		queue->unrecorded = queue->unrecorded_ends = 0;
		sched_hint_reset(&queue->due, workq_pos_max);
		sched_hint_reset(&queue->expiry, workq_pos_max);
		sched_free_all_lanes(q);
		sched_settings_init(queue, queue->policy.ring.round);
		LWLockRelease(&queue->lock);
	}
}

/*
 * Enter one live row.
 */
static void
load_row(int instance, WorkqRelation table, const WorkqJob *job, WorkqPos pos)
{
	int			q;
	SchedQueue *queue;
	WorkqPolicy policy;
	TimestampTz now = workq_now();
	int			lane = -1;

	/* rows of no queue: somebody restored a part; workq_check() tells */
	if (workq_queue_by_id(job->queue_id, true) == NULL)
		return;
	q = sched_queue_find(instance, job->queue_id, true);
	if (q < 0)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("more than %d queues are in use on this server",
						sched_shared->max_queues),
				 errhint("Raise workq.max_queues in postgresql.conf and restart the server.")));
	queue = &sched_queues[q];
	policy = sched_policy(queue);
	if (table == WORKQ_REL_READY || table == WORKQ_REL_LEASES)
	{
		lane = sched_lane_get(q, job->lane);
		queue->forms |= 1 << workq_job_form(job->flags);
	}
	else
		LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	switch (table)
	{
		case WORKQ_REL_READY:
			queue->counters.ready++;
			if (lane >= 0)
			{
				sched_lanes[lane].ready++;
				sched_lane_offer(lane, job->priority, pos, false, now,
								 pos.since);
			}
			break;
		case WORKQ_REL_LEASES:
			queue->counters.leased++;
			sched_hint_publish(&queue->expiry, pos);
			if (lane >= 0)
				workq_policy_hold(&policy, lane, 1, now);
			else
				queue->leases_unrecorded = true;
			break;
		case WORKQ_REL_SCHEDULED:
			queue->counters.scheduled++;
			sched_hint_publish(&queue->due, pos);
			break;
		default:
			queue->counters.held++;
			break;
	}
	LWLockRelease(&queue->lock);
}

static void
load_table(int instance, WorkqRelation table)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "workq load",
												  ALLOCSET_DEFAULT_SIZES);
	WorkqStore *store = workq_store_open();
	WorkqCursor *cursor = workq_store_full_cursor(store, table);
	MemoryContext old = MemoryContextSwitchTo(context);
	WorkqRow	row;
	int			n = 0;

	while ((row = workq_store_next(cursor)) != WORKQ_ROW_END)
	{
		WorkqJob	job;

		/*
		 * What a foreign hand's open transaction is deleting is there; it
		 * will say so when it ends, as it will of what it is inserting.
		 */
		if (row == WORKQ_ROW_PASS && !workq_store_being_deleted(cursor))
			continue;
		workq_store_row(cursor, &job);
		load_row(instance, table, &job, workq_store_pos(cursor));
		if (++n % 1000 == 0)
		{
			MemoryContextReset(context);
			CHECK_FOR_INTERRUPTS();
		}
	}
	MemoryContextSwitchTo(old);
	workq_store_end(cursor);
	workq_store_close(store);
	MemoryContextDelete(context);
}

/*
 * What was loaded may be what somebody waits for; and rows may be in lanes of
 * an old form.
 */
static void
wake_all(int instance)
{
	int			q;

	for (q = 0; q < sched_shared->max_queues; q++)
	{
		SchedQueue *queue = &sched_queues[q];

		if (queue->instance != instance)
			continue;
		LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
		sched_want_chores(queue);
		sched_wait_wake_chain(queue);
		sched_notify(queue, workq_now());
		sched_wait_time(queue, DT_NOBEGIN);
		sched_wait_job(queue, 0);
		LWLockRelease(&queue->lock);
	}
}

/*
 * Load an instance.  False: while we waited it has become that of an extension
 * which was dropped, and there is another one (if there is none, that is an
 * error).
 */
bool
sched_load(WorkqInstance *instance)
{
	int			number = instance - sched_shared->instances;
	Oid			gate = workq_store_oid(WORKQ_REL_READY);
	uint32		epoch;

	if (!instance->loaded)
		LockRelationOid(gate, ShareRowExclusiveLock);
	else if (workq_xact_pending() ||
			 !ConditionalLockRelationOid(gate, ShareRowExclusiveLock))
		return true;

	/* the extension may have been dropped while we waited */
	if (workq_store_oid(WORKQ_REL_READY) != gate)
	{
		UnlockRelationOid(gate, ShareRowExclusiveLock);
		return false;
	}

	/* somebody else may have done it while we waited */
	LWLockAcquire(&sched_shared->control, LW_EXCLUSIVE);
	epoch = instance->epoch;
	if (instance->loaded && !instance->stale)
	{
		LWLockRelease(&sched_shared->control);
		UnlockRelationOid(gate, ShareRowExclusiveLock);
		return true;
	}
	instance->loaded = false;	/* should we fail half-way */
	LWLockRelease(&sched_shared->control);

	reset_queues(number);

	/* leases first: their lanes have to have records before all others */
	load_table(number, WORKQ_REL_LEASES);
	load_table(number, WORKQ_REL_READY);
	load_table(number, WORKQ_REL_SCHEDULED);
	load_table(number, WORKQ_REL_HELD);
	workq_order_load(instance);

	LWLockAcquire(&sched_shared->control, LW_EXCLUSIVE);
	instance->loaded = true;
	if (instance->epoch == epoch)
		instance->stale = false;
	LWLockRelease(&sched_shared->control);
	wake_all(number);
	UnlockRelationOid(gate, ShareRowExclusiveLock);
	return true;
}
