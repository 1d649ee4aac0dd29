/*-------------------------------------------------------------------------
 *
 * sched.c
 *	  The policy's home: select, look, publish, wake.
 *
 * A claimer first reserves a turn (select), then looks for a row in the lane.
 * What transactions change is published by their callbacks (xact.c), which
 * run after the transaction has become visible and before its locks are
 * released.  So whoever looked before a row became visible, and passed it,
 * is told of it afterwards by the publication.
 *
 * Start hints.  A walk starts behind the hint's low position.  One walker at
 * a time is the hint's raiser.  When it is done the hint becomes the lower of
 * what it passed and of what was published meanwhile.  A row that is being
 * inserted or deleted may be passed: its transaction publishes it (again) if
 * it turns out to be there.  A row that is merely locked may not.  Rows that
 * come in at or below the hint are kept as exact positions, up to
 * WORKQ_MAX_EXACT a lane; beyond that the hint is lowered.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/memutils.h"

#include "compat.h"
#include "guc.h"
#include "order.h"
#include "queue.h"
#include "sched_int.h"
#include "store.h"
#include "xact.h"

/* this backend's open walks */
static WorkqWalk *open_walks = NULL;

static WorkqInstance *current = NULL;	/* what we asked for last */

/* ------------------------------------------------------------------------
 * Instances and queues
 * ------------------------------------------------------------------------ */

WorkqInstance *
workq_sched_instance(void)
{
	bool		settled;

	do
	{
		Oid			relid = workq_store_oid(WORKQ_REL_QUEUES);

		if (current == NULL || current->dbid != MyDatabaseId ||
			current->relid != relid)
			current = &sched_shared->instances[sched_instance_number(MyDatabaseId,
																	 relid, true)];
		settled = (current->loaded && !current->stale) || sched_load(current);
		settled &= relid == workq_store_oid(WORKQ_REL_QUEUES);
	} while (!settled);
	if (current->base_epoch != current->epoch)
		workq_order_check(current);
	return current;
}

WorkqInstance *
workq_sched_current(void)
{
	return current;
}

int
workq_sched_queue(WorkqInstance *instance, int32 queue_id,
				  const WorkqSettings *own)
{
	static struct
	{
		int			instance;
		int32		queue_id;
		int			number;
	}			cache[16];
	int			i = instance - sched_shared->instances;
	int			slot = (uint32) queue_id % lengthof(cache);
	int			q = cache[slot].number;

	/*
	 * What is in shared memory stays there while we have workq.ready open. An
	 * entry of zeros fits no queue: their ids begin with 1.
	 */
	if (cache[slot].queue_id == queue_id && cache[slot].instance == i &&
		sched_queues[q].instance == i && sched_queues[q].queue_id == queue_id &&
		sched_queues[q].has_settings)
		return q;

	q = sched_queue_find(i, queue_id, true);
	if (q < 0)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("more than %d queues are in use on this server",
						sched_shared->max_queues),
				 errhint("Raise workq.max_queues in postgresql.conf and restart the server.")));
	if (!sched_queues[q].has_settings)
	{
		LWLockAcquire(&sched_queues[q].lock, LW_EXCLUSIVE);
		if (!sched_queues[q].has_settings)
		{
			sched_queues[q].own = *own;
			sched_queues[q].has_settings = true;
			sched_queues[q].defaults = 0;
			sched_settings_refresh(&sched_queues[q], workq_now());
		}
		LWLockRelease(&sched_queues[q].lock);
	}
	cache[slot].instance = i;
	cache[slot].queue_id = queue_id;
	cache[slot].number = q;
	return q;
}

int
workq_sched_find_queue(int32 queue_id)
{
	int			i = sched_instance_number(MyDatabaseId,
										  workq_store_oid(WORKQ_REL_QUEUES),
										  false);

	return i < 0 ? -1 : sched_queue_find(i, queue_id, false);
}

int
workq_sched_queues(WorkqInstance *instance, int **queues)
{
	int			number = instance - sched_shared->instances;
	int			n = 0;
	int			q;

	*queues = palloc(sched_shared->max_queues * sizeof(int));
	LWLockAcquire(&sched_shared->control, LW_SHARED);
	for (q = 0; q < sched_shared->max_queues; q++)
	{
		if (sched_queues[q].instance == number)
			(*queues)[n++] = q;
	}
	LWLockRelease(&sched_shared->control);
	return n;
}

/*
 * Warn, once for each time, that a queue has more lanes than there are
 * records.
 */
static void
tell_overflow(int queue)
{
	SchedQueue *q = &sched_queues[queue];
	WorkqQueueInfo *info;
	bool		told;

	LWLockAcquire(&q->lock, LW_EXCLUSIVE);
	told = q->overflow_told || !q->overflowing;
	q->overflow_told = true;
	LWLockRelease(&q->lock);
	if (told)
		return;
	info = workq_queue_by_id(q->queue_id, true);
	ereport(WARNING,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("queue \"%s\" has more lanes than there is memory for",
					info != NULL ? info->name : "?"),
			 errdetail("All workq.max_lanes (%d) records are in use; jobs in lanes without one wait until one is free.",
					   sched_shared->max_lanes),
			 errhint("Raise workq.max_lanes in postgresql.conf and restart the server.")));
}

/*
 * Pin a lane, or count a change of one that has no record.
 */
static int
pin_lane(int queue, const char *key, int no_record)
{
	SchedQueue *q = &sched_queues[queue];
	int			lane = sched_lane_get(queue, key);

	/* a warning may be interrupted: before there is anything to give back */
	if (lane < 0 && !q->overflow_told)
	{
		LWLockRelease(&q->lock);
		tell_overflow(queue);
		lane = sched_lane_get(queue, key);
	}
	if (lane >= 0)
		sched_lanes[lane].pins++;
	else if (no_record == WORKQ_NO_RECORD)
		q->unrecorded++;
	else
		q->unrecorded_ends++;
	LWLockRelease(&q->lock);
	return lane >= 0 ? lane : no_record;
}

int
workq_sched_pin_lane(int queue, const char *key)
{
	return pin_lane(queue, key, WORKQ_NO_RECORD);
}

int
workq_sched_pin_ending(int queue, const char *key)
{
	return pin_lane(queue, key, WORKQ_NO_RECORD_END);
}

/*
 * Queue lock held.
 */
static void
unpin(SchedQueue *queue, int lane)
{
	if (lane >= 0)
		sched_lanes[lane].pins--;
	else if (lane == WORKQ_NO_RECORD)
		queue->unrecorded--;
	else if (lane == WORKQ_NO_RECORD_END)
		queue->unrecorded_ends--;
}

void
workq_sched_unpin_lane(int queue, int lane)
{
	if (lane == WORKQ_NO_LANE)
		return;
	LWLockAcquire(&sched_queues[queue].lock, LW_EXCLUSIVE);
	unpin(&sched_queues[queue], lane);
	LWLockRelease(&sched_queues[queue].lock);
}

bool
workq_sched_overflowing(int queue)
{
	return sched_queues[queue].overflowing;
}

void
workq_sched_drop_queue(int queue)
{
	LWLockAcquire(&sched_shared->control, LW_EXCLUSIVE);
	LWLockAcquire(&sched_queues[queue].lock, LW_EXCLUSIVE);
	if (sched_queues[queue].instance >= 0)
		sched_queue_free(queue);
	LWLockRelease(&sched_queues[queue].lock);
	LWLockRelease(&sched_shared->control);
}

bool
workq_sched_counters(int32 queue_id, WorkqCounters *result)
{
	int			q = workq_sched_find_queue(queue_id);

	memset(result, 0, sizeof(WorkqCounters));
	result->next_due = result->next_expiry = DT_NOEND;
	if (q < 0)
		return false;
	LWLockAcquire(&sched_queues[q].lock, LW_SHARED);
	*result = sched_queues[q].counters;
	result->overflowing = sched_queues[q].overflowing;
	result->next_due = sched_queues[q].due.low.since;
	result->next_expiry = sched_queues[q].expiry.low.since;
	LWLockRelease(&sched_queues[q].lock);
	return true;
}

/* ------------------------------------------------------------------------
 * Start hints
 * ------------------------------------------------------------------------ */

void
sched_hint_reset(WorkqHint *hint, WorkqPos low)
{
	hint->low = low;
	hint->brought = workq_pos_max;
	hint->raiser = 0;
	hint->gap = -1;
}

/*
 * A live row is at pos: see that a walk from the hint meets it.
 */
void
sched_hint_publish(WorkqHint *hint, WorkqPos pos)
{
	if (hint->raiser != 0 && workq_pos_compare(pos, hint->brought) < 0)
		hint->brought = pos;
	if (workq_pos_compare(pos, hint->low) <= 0)
		hint->low = workq_pos_before(pos);
}

/*
 * Begin a walk; queue lock held.  The walk is in the list of this backend's
 * open ones, so that an error gives the role back.
 */
static void
walk_begin(WorkqWalk *walk, int queue, WorkqHint *hint)
{
	walk->subid = GetCurrentSubTransactionId();
	walk->queue = queue;
	walk->lane = -1;
	walk->hint = hint;
	walk->from = walk->passed = hint->low;
	walk->gap = hint->gap;
	walk->blocked = walk->ended = false;
	walk->raiser = (hint->raiser == 0);
	if (walk->raiser)
	{
		hint->raiser = MyProcPid;
		hint->brought = workq_pos_max;
	}
	walk->next = open_walks;
	open_walks = walk;
}

static void
walk_unlink(WorkqWalk *walk)
{
	WorkqWalk **link = &open_walks;

	while (*link != walk)
		link = &(*link)->next;
	*link = walk->next;
}

/*
 * End a walk; queue lock held.
 */
static void
walk_end(WorkqWalk *walk)
{
	WorkqHint  *hint = walk->hint;

	walk_unlink(walk);
	if (!walk->raiser)
		return;
	hint->raiser = 0;
	hint->gap = walk->gap;
	hint->low = (walk->ended && !walk->blocked) ? workq_pos_max : walk->passed;
	if (workq_pos_compare(hint->brought, hint->low) <= 0)
		hint->low = workq_pos_before(hint->brought);
}

/*
 * After an error: nothing was learnt, just give the roles and pins back.  The
 * rollback of a subtransaction ends the walks that were begun in it; others go
 * on, for we may be in the middle of one (an index's function that catches an
 * error).  InvalidSubTransactionId: all.
 */
void
workq_sched_end_walks(SubTransactionId subid)
{
	WorkqWalk **link = &open_walks;
	TimestampTz now = open_walks != NULL ? workq_now() : 0;

	while (*link != NULL)
	{
		WorkqWalk  *walk = *link;
		SchedQueue *queue = &sched_queues[walk->queue];
		WorkqPolicy policy = sched_policy(queue);

		if (subid != InvalidSubTransactionId && walk->subid != subid)
		{
			link = &walk->next;
			continue;
		}
		*link = walk->next;
		LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
		if (walk->hint == NULL)
		{
			workq_policy_lane_ready(&policy, walk->lane, now, now);
			sched_wait_wake_chain(queue);
		}
		else if (walk->raiser)
			walk->hint->raiser = 0;
		if (walk->lane >= 0)
			sched_lanes[walk->lane].pins--;
		LWLockRelease(&queue->lock);
	}
}

bool
workq_sched_has_walks(void)
{
	return open_walks != NULL;
}

WorkqWalk *
workq_sched_time_begin(int queue, WorkqTimeKind kind, TimestampTz now)
{
	SchedQueue *q = &sched_queues[queue];
	WorkqHint  *hint = kind == WORKQ_TIME_DUE ? &q->due : &q->expiry;
	WorkqWalk  *walk;
	WorkqPos	own;
	bool		has_own = workq_xact_own_time(queue, kind, &own) &&
	own.since <= now;

	/* an unlocked look: a publication we miss wakes the worker anyway */
	if (hint->low.since > now && !has_own)
		return NULL;
	walk = MemoryContextAlloc(TopTransactionContext, sizeof(WorkqWalk));
	LWLockAcquire(&q->lock, LW_EXCLUSIVE);
	walk_begin(walk, queue, hint);
	if (has_own && workq_pos_compare(own, walk->from) <= 0)
	{
		/* what we have not published is behind no hint, but there for us */
		own = workq_pos_before(own);
		walk->from = walk->passed = own;
	}
	LWLockRelease(&q->lock);
	return walk;
}

void
workq_sched_time_end(WorkqWalk *walk)
{
	LWLockAcquire(&sched_queues[walk->queue].lock, LW_EXCLUSIVE);
	walk_end(walk);
	LWLockRelease(&sched_queues[walk->queue].lock);
	pfree(walk);
}

WorkqLook *
workq_sched_look_begin(int queue, int lane)
{
	WorkqLook  *look = MemoryContextAlloc(TopTransactionContext,
										  sizeof(WorkqLook));
	SchedLane  *l = &sched_lanes[lane];
	int			p;
	int			e;

	look->queue = queue;
	look->lane = lane;
	look->n_exact = 0;
	LWLockAcquire(&sched_queues[queue].lock, LW_EXCLUSIVE);
	l->pins++;
	look->changes = l->changes;
	for (p = 0; p < WORKQ_PRIORITIES; p++)
	{
		walk_begin(&look->walk[p], queue, &l->hint[p]);
		look->empty[p] = (workq_pos_compare(l->hint[p].low,
											workq_pos_max) == 0);
	}
	look->walk[0].lane = lane;
	for (e = l->first_exact; e >= 0 && look->n_exact < WORKQ_MAX_EXACT;
		 e = sched_exacts[e].next)
	{
		look->exact[look->n_exact].pos = sched_exacts[e].pos;
		look->exact[look->n_exact].priority = sched_exacts[e].priority;
		look->exact[look->n_exact].serial = sched_exacts[e].serial;
		look->exact[look->n_exact].tried = false;
		look->n_exact++;
	}
	LWLockRelease(&sched_queues[queue].lock);
	return look;
}

/*
 * Forget an exact position; queue lock held.  The serial tells it from a later
 * publication of the same row, which has to stay.
 */
static void
exact_remove(SchedLane *lane, const WorkqExact *tried)
{
	int		   *link = &lane->first_exact;

	while (*link >= 0)
	{
		SchedExact *exact = &sched_exacts[*link];

		if (exact->serial == tried->serial)
		{
			int			number = *link;

			*link = exact->next;
			lane->n_exact--;
			sched_exact_free(number);
			return;
		}
		link = &exact->next;
	}
}

bool
workq_sched_look_end(WorkqLook *look, bool nothing, TimestampTz now)
{
	SchedQueue *queue = &sched_queues[look->queue];
	SchedLane  *lane = &sched_lanes[look->lane];
	WorkqPolicy policy = sched_policy(queue);
	bool		off;
	int			i;

	LWLockAcquire(&sched_queues[look->queue].lock, LW_EXCLUSIVE);
	for (i = 0; i < WORKQ_PRIORITIES; i++)
		walk_end(&look->walk[i]);
	for (i = 0; i < look->n_exact; i++)
	{
		if (look->exact[i].tried)
			exact_remove(lane, &look->exact[i]);
	}
	off = nothing && lane->changes == look->changes;
	if (off)
		workq_policy_lane_empty(&policy, look->lane);
	lane->pins--;
	LWLockRelease(&sched_queues[look->queue].lock);
	pfree(look);
	return off;
}

WorkqWalk *
workq_sched_set_aside(int queue, int lane)
{
	WorkqPolicy policy = sched_policy(&sched_queues[queue]);
	WorkqWalk  *aside = MemoryContextAllocZero(TopTransactionContext,
											   sizeof(WorkqWalk));

	aside->subid = GetCurrentSubTransactionId();
	aside->queue = queue;
	aside->lane = lane;
	LWLockAcquire(&sched_queues[queue].lock, LW_EXCLUSIVE);
	if (sched_lanes[lane].queue != queue || sched_lanes[lane].is_group)
	{
		/* given back since; of the same queue, it does no harm */
		LWLockRelease(&sched_queues[queue].lock);
		pfree(aside);
		return NULL;
	}
	sched_lanes[lane].pins++;
	workq_policy_lane_empty(&policy, lane);
	LWLockRelease(&sched_queues[queue].lock);
	aside->next = open_walks;
	open_walks = aside;
	return aside;
}

void
workq_sched_put_back(WorkqWalk *aside, TimestampTz now)
{
	WorkqPolicy policy = sched_policy(&sched_queues[aside->queue]);

	walk_unlink(aside);
	LWLockAcquire(&sched_queues[aside->queue].lock, LW_EXCLUSIVE);
	sched_lanes[aside->lane].pins--;
	workq_policy_lane_ready(&policy, aside->lane, now, now);
	LWLockRelease(&sched_queues[aside->queue].lock);
	pfree(aside);
}

bool
workq_sched_set_heads(WorkqLook *look, const WorkqPos *heads[WORKQ_PRIORITIES])
{
	SchedQueue *queue = &sched_queues[look->queue];
	WorkqPolicy policy = sched_policy(queue);
	bool		unchanged;
	int			p;

	LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	unchanged = (sched_lanes[look->lane].changes == look->changes);
	for (p = 0; unchanged && p < WORKQ_PRIORITIES; p++)
	{
		if (heads[p] != NULL)
			workq_policy_lane_head(&policy, look->lane, p, heads[p]->since,
								   heads[p]->job_id);
		else
			workq_policy_lane_head_none(&policy, look->lane, p);
	}
	LWLockRelease(&queue->lock);
	return unchanged;
}

/*
 * Tell the policy of a lane's lowest row, if it wants to know: the lower of
 * this one and what it was told.
 */
static void
lower_head(const WorkqPolicy *policy, int lane, int priority, WorkqPos pos)
{
	const WorkqPolicyHead *head = &policy->lanes[lane].u.head[priority];
	WorkqPos	known;

	if (head->known)
	{
		known.since = head->since;
		known.job_id = head->job_id;
		if (workq_pos_compare(known, pos) <= 0)
			return;
	}
	workq_policy_lane_head(policy, lane, priority, pos.since, pos.job_id);
}

/*
 * A ready row is (again) at pos in a lane; queue lock held.  single: pos is
 * one row's, not the lowest of several.  clock: since when the lane waits, if
 * it did not before.
 */
void
sched_lane_offer(int number, int priority, WorkqPos pos, bool single,
				 TimestampTz now, TimestampTz clock)
{
	SchedLane  *lane = &sched_lanes[number];
	WorkqHint  *hint = &lane->hint[priority];
	WorkqPolicy policy = sched_policy(&sched_queues[lane->queue]);
	int			exact;

	lane->changes++;
	lower_head(&policy, number, priority, pos);
	if (!lane->in_doubt)
		workq_policy_lane_ready(&policy, number, now, clock);
	if (single && workq_pos_compare(pos, hint->low) <= 0 &&
		workq_pos_compare(hint->low, workq_pos_max) != 0 &&
		lane->n_exact < WORKQ_MAX_EXACT &&
		(exact = sched_exact_alloc()) >= 0)
	{
		sched_exacts[exact].pos = pos;
		sched_exacts[exact].priority = priority;
		sched_exacts[exact].serial = lane->changes;
		sched_exacts[exact].next = lane->first_exact;
		lane->first_exact = exact;
		lane->n_exact++;
		return;
	}
	sched_hint_publish(hint, pos);
}

/*
 * There may be rows anywhere in the lane; queue lock held.
 */
void
sched_lane_offer_all(int number, TimestampTz now)
{
	int			p;

	for (p = 0; p < WORKQ_PRIORITIES; p++)
		sched_lane_offer(number, p, workq_pos_min, false, now, now);
}

/* ------------------------------------------------------------------------
 * Selecting
 * ------------------------------------------------------------------------ */

static const char *
decision_name(WorkqPolicyDecision decision)
{
	switch (decision)
	{
		case WORKQ_POLICY_BY_PRIORITY:
			return NULL;		/* priority or age, the look tells */
		case WORKQ_POLICY_BY_FAIR_SHARE:
			return "fair-share";
		case WORKQ_POLICY_BY_STARVATION:
			return "starvation-deadline";
	}
	return NULL;				/* keep compiler quiet */
}

/*
 * Describe a selection.  The change that takes it back on abort was appended
 * before.  Queue lock held.
 */
static void
reserve(SchedQueue *queue, WorkqChange *change, WorkqSelection *selection)
{
	const WorkqPolicySelection *turn = &selection->turn;

	sched_lanes[turn->lane].pins++;
	queue->counters.selected++;
	selection->window = sched_count_selection(queue, turn);
	change->lane = turn->lane;
	change->kind = WORKQ_CHANGE_SELECT;
	change->promoted = (turn->decision == WORKQ_POLICY_BY_STARVATION);
	selection->lane = turn->lane;
	/* in fifo the look tells: of a single lane the policy knows no heads */
	selection->decision = turn->has_share ? decision_name(turn->decision) : NULL;
	selection->has_share = turn->has_share;
	selection->round = turn->round;
	selection->credit = turn->credit;
	selection->weight = turn->weight;
	selection->promotion_deadline =
		turn->promotion_deadline == WORKQ_POLICY_NEVER ? DT_NOBEGIN :
		turn->promotion_deadline;
	selection->policy_version = queue->own.version;
	selection->exact = (turn->priority >= 0 && queue->n_lanes > 1);
	selection->expected_priority = turn->priority;
	selection->expected.since = turn->since;
	selection->expected.job_id = turn->job_id;
}

/*
 * Claims that this transaction has ended count as ended for itself: while we
 * select, they are.  Queue lock held throughout.
 *
 * An end may be in the list before it is made (see claim.c), and the lease
 * turn out to be ended by somebody else; so what goes back in is what came out.
 */
static int
land_freed(const WorkqPolicy *policy, int lane, int count, TimestampTz now)
{
	int			in_flight = policy->lanes[lane].in_flight;

	workq_policy_finish(policy, lane, count, now);
	return in_flight - policy->lanes[lane].in_flight;
}

static void
lift_freed(const WorkqPolicy *policy, int lane, int count, TimestampTz now)
{
	if (count > 0)
		workq_policy_hold(policy, lane, count, now);
}

/*
 * For all lanes of the queue to which it makes a difference: those at their
 * cap, maybe at one that we have set ourselves.  Returns whether there are any.
 */
static bool
land_all_freed(const WorkqPolicy *policy, int queue, TimestampTz now)
{
	WorkqFreed *freed;
	int			n = workq_xact_freed(&freed);
	bool		all = workq_xact_has_settings();
	int			i;

	if (policy->queue->n_capped == 0 && !all)
		return false;
	for (i = 0; i < n; i++)
		freed[i].applied = freed[i].queue == queue && freed[i].count > 0 &&
			(all || workq_policy_capped(policy, freed[i].lane)) ?
			land_freed(policy, freed[i].lane, freed[i].count, now) : 0;
	return true;
}

static void
lift_all_freed(const WorkqPolicy *policy, TimestampTz now)
{
	WorkqFreed *freed;
	int			n = workq_xact_freed(&freed);
	int			i;

	for (i = 0; i < n; i++)
		lift_freed(policy, freed[i].lane, freed[i].applied, now);
}

/*
 * Settings take effect when they are committed.  A cap that our own
 * transaction has set, or the pause of a key, is to hold for ourselves at
 * once: does it allow a lane to have that many in flight?  Queue lock held.
 */
static bool
own_limits_allow(int queue, int lane, int in_flight)
{
	const WorkqSettings *own = workq_xact_own_settings(queue);
	const WorkqKeyRow *row;
	char		key[WORKQ_MAX_LANE + 4];
	int64		cap;

	sched_lane_copy_key(lane, key);
	row = workq_xact_own_key(queue, key);
	if (own == NULL && row == NULL)
		return true;
	cap = row != NULL ? row->max_concurrent : sched_policy_lanes[lane].cap;
	if (cap < 0 && own != NULL)
		cap = (own->own & (1u << WORKQ_SET_MAX_CONCURRENT_PER_KEY)) ?
			own->value[WORKQ_SET_MAX_CONCURRENT_PER_KEY] :
			workq_guc_default(WORKQ_SET_MAX_CONCURRENT_PER_KEY);
	return (row == NULL || row->weight != 0) && (cap <= 0 || in_flight <= cap);
}

/*
 * The same for a turn just given, which is undone if not.  Queue lock held.
 */
static bool
turn_is_barred(const WorkqPolicy *policy, int queue,
			   const WorkqPolicySelection *turn, TimestampTz now)
{
	if (own_limits_allow(queue, turn->lane,
						 policy->lanes[turn->lane].in_flight))
		return false;
	workq_policy_undo(policy, turn, now);
	return true;
}

bool
workq_sched_select(int queue, TimestampTz now, WorkqSelection *selection)
{
	SchedQueue *q = &sched_queues[queue];
	WorkqPolicy policy = sched_policy(q);
	WorkqChange *change = workq_xact_change(WORKQ_CHANGE_UNDONE, queue, -1);
	bool		found;
	bool		landed;

	sched_settings_refresh_keys(queue, now);
	LWLockAcquire(&q->lock, LW_EXCLUSIVE);
	sched_settings_refresh(q, now);
	landed = land_all_freed(&policy, queue, now);
	found = workq_policy_select(&policy, now, &selection->turn);
	selection->lane = selection->turn.lane;
	selection->barred = found &&
		turn_is_barred(&policy, queue, &selection->turn, now);
	found = found && !selection->barred;
	if (landed)
		lift_all_freed(&policy, now);
	if (found)
		reserve(q, change, selection);
	LWLockRelease(&q->lock);
	if (!found)
	{
		workq_xact_drop_last();
		return false;
	}
	selection->key = sched_lane_key(selection->lane);
	return true;
}

bool
workq_sched_select_lane(int queue, const char *key, TimestampTz now,
						WorkqSelection *selection)
{
	SchedQueue *q = &sched_queues[queue];
	WorkqPolicy policy = sched_policy(q);
	WorkqChange *change = workq_xact_change(WORKQ_CHANGE_UNDONE, queue, -1);
	bool		found = false;
	int			lane;

	lane = sched_lane_get(queue, key);
	sched_settings_refresh(q, now);
	if (lane >= 0 && !sched_lanes[lane].in_doubt)
	{
		int			landed = land_freed(&policy, lane,
										workq_xact_freed_of(lane), now);

		found = workq_policy_select_lane(&policy, lane, now,
										 &selection->turn) &&
			!turn_is_barred(&policy, queue, &selection->turn, now);
		lift_freed(&policy, lane, landed, now);
	}
	if (found)
		reserve(q, change, selection);
	LWLockRelease(&q->lock);
	if (!found)
	{
		workq_xact_drop_last();
		return false;
	}
	selection->key = key;
	return true;
}

/*
 * The selection's change is the last one: nothing was done with it.
 */
bool
workq_sched_undo(int queue, const WorkqSelection *selection, TimestampTz now)
{
	SchedQueue *q = &sched_queues[queue];
	WorkqPolicy policy = sched_policy(q);
	bool		freed;

	LWLockAcquire(&q->lock, LW_EXCLUSIVE);
	workq_policy_undo(&policy, &selection->turn, now);
	sched_count_undo(q, &selection->turn, selection->window);
	sched_lanes[selection->lane].pins--;
	q->counters.selected--;
	freed = workq_policy_cap(&policy, selection->lane) > 0 &&
		workq_policy_eligible(&policy, selection->lane);
	LWLockRelease(&q->lock);
	workq_xact_drop_last();
	return freed;
}

/*
 * Only the order counts, so there is no lock, and the clock will do; within a
 * session no two turns have the same time.
 */
void
workq_sched_served(int queue, TimestampTz now)
{
	static TimestampTz last = 0;

	last = Max(now, last + 1);
	pg_atomic_write_u64(&sched_queues[queue].served, (uint64) last);
}

uint64
workq_sched_last_served(int queue)
{
	return pg_atomic_read_u64(&sched_queues[queue].served);
}

void
workq_sched_unreserve(int queue, int lane, TimestampTz now)
{
	SchedQueue *q = &sched_queues[queue];
	WorkqPolicy policy = sched_policy(q);

	LWLockAcquire(&q->lock, LW_EXCLUSIVE);
	workq_policy_abort(&policy, lane, 1, 0, now);
	q->counters.selected--;
	LWLockRelease(&q->lock);
}

/*
 * Has a lane, and its group, a place for another job in flight?
 */
static bool
has_place(const WorkqPolicy *policy, int lane)
{
	int32		cap = workq_policy_cap(policy, lane);
	int			group = policy->lanes[lane].group;

	return !sched_lanes[lane].in_doubt &&
		workq_policy_weight(policy, lane) > 0 &&
		(group < 0 || workq_policy_weight(policy, group) > 0) &&
		(cap <= 0 || policy->lanes[lane].in_flight < cap);
}

bool
workq_sched_move_turn(int queue, const WorkqSelection *selection,
					  const char *key, TimestampTz now)
{
	SchedQueue *q = &sched_queues[queue];
	WorkqPolicy policy = sched_policy(q);
	WorkqChange *change = workq_xact_change(WORKQ_CHANGE_UNDONE, queue, -1);
	int			lane = sched_lane_get(queue, key);
	bool		found = false;

	if (lane >= 0)
	{
		int			landed = land_freed(&policy, lane,
										workq_xact_freed_of(lane), now);

		found = has_place(&policy, lane) &&
			own_limits_allow(queue, lane,
							 sched_policy_lanes[lane].in_flight + 1);
		lift_freed(&policy, lane, landed, now);
	}
	if (found)
	{
		sched_lanes[lane].pins++;
		workq_policy_hold(&policy, lane, 1, now);
		workq_policy_finish(&policy, selection->lane, 1, now);
		change->kind = WORKQ_CHANGE_HOLD;
		change->lane = lane;
	}
	LWLockRelease(&q->lock);
	if (!found)
		workq_xact_drop_last();
	return found;
}

void
workq_sched_move_back(int queue, const WorkqSelection *selection,
					  TimestampTz now)
{
	WorkqPolicy policy = sched_policy(&sched_queues[queue]);

	LWLockAcquire(&sched_queues[queue].lock, LW_EXCLUSIVE);
	workq_policy_hold(&policy, selection->lane, 1, now);
	LWLockRelease(&sched_queues[queue].lock);
	workq_sched_unhold(queue, now);
}

bool
workq_sched_hold(int queue, const char *key, TimestampTz now)
{
	WorkqPolicy policy = sched_policy(&sched_queues[queue]);
	WorkqChange *change = workq_xact_change(WORKQ_CHANGE_UNDONE, queue, -1);
	int			lane = sched_lane_get(queue, key);

	if (lane >= 0)
	{
		sched_lanes[lane].pins++;
		workq_policy_hold(&policy, lane, 1, now);
		change->kind = WORKQ_CHANGE_HOLD;
		change->lane = lane;
	}
	LWLockRelease(&sched_queues[queue].lock);
	if (lane < 0)
		workq_xact_drop_last();
	return lane >= 0;
}

/*
 * The HOLD is the last change.
 */
void
workq_sched_unhold(int queue, TimestampTz now)
{
	WorkqPolicy policy = sched_policy(&sched_queues[queue]);
	int			lane = workq_xact_last()->lane;

	LWLockAcquire(&sched_queues[queue].lock, LW_EXCLUSIVE);
	workq_policy_finish(&policy, lane, 1, now);
	sched_lanes[lane].pins--;
	LWLockRelease(&sched_queues[queue].lock);
	workq_xact_drop_last();
}

/* ------------------------------------------------------------------------
 * Publishing
 * ------------------------------------------------------------------------ */

/*
 * Something is due at "when": wake the worker if it sleeps for longer.
 */
void
sched_wake_worker_at(SchedQueue *queue, TimestampTz when)
{
	WorkqInstance *instance = &sched_shared->instances[queue->instance];
	int			worker = instance->worker;

	if (worker >= 0 &&
		when < (TimestampTz) pg_atomic_read_u64(&instance->worker_until))
		SetLatch(&ProcGlobal->allProcs[worker].procLatch);
}

/*
 * There is something for the background worker to tidy up, not urgently: wake
 * it if it does not know.  Queue lock held.
 */
void
sched_want_chores(SchedQueue *queue)
{
	if (queue->chores)
		return;
	queue->chores = true;
	sched_wake_worker_at(queue, DT_NOBEGIN + 1);
}

/*
 * Jobs may be ready: if the queue has listeners, see that the worker tells
 * them, now or when it may again.  Queue lock held.
 */
void
sched_notify(SchedQueue *queue, TimestampTz now)
{
	int64		every = sched_setting(queue, WORKQ_SET_NOTIFY_EVERY) * 1000;

	if (every == 0 || queue->counters.ready <= 0 ||
		queue->notify_at != DT_NOEND)
		return;
	queue->notify_at = queue->notified_at == DT_NOBEGIN ? now :
		Max(now, queue->notified_at + every);
	sched_wake_worker_at(queue, queue->notify_at);
}

static void
publish_time(SchedQueue *queue, WorkqHint *hint, WorkqPos pos)
{
	sched_hint_publish(hint, pos);
	sched_wake_worker_at(queue, pos.since);
	sched_wait_time(queue, pos.since);
}

/*
 * Claims of this lane have ended or were undone, so places are free.  Returns
 * how many of them waiters can use.
 */
static int
free_place(const WorkqPolicy *policy, int lane, int n, TimestampTz now)
{
	if (lane < 0)
		return 0;
	workq_policy_finish(policy, lane, n, now);
	return workq_policy_cap(policy, lane) > 0 &&
		workq_policy_eligible(policy, lane) ? n : 0;
}

/*
 * A job has left the table where it was: who awaits its end looks.
 */
static void
publish_end(SchedQueue *queue, const WorkqChange *change)
{
	if (queue->awaiters.first >= 0)
		sched_wait_job(queue, change->count == 1 ? change->pos.job_id : 0);
}

/*
 * One change of a committed transaction; queue lock held.  Returns how many
 * waiters to wake.
 */
static int
publish_commit(SchedQueue *queue, const WorkqChange *change, TimestampTz now)
{
	WorkqPolicy policy = sched_policy(queue);
	WorkqCounters *counters = &queue->counters;
	SchedLane  *lane = change->lane >= 0 ? &sched_lanes[change->lane] : NULL;
	int			wake = 0;

	switch ((WorkqChangeKind) change->kind)
	{
		case WORKQ_CHANGE_READY_ADD:
			counters->ready += change->count;
			sched_notify(queue, now);
			wake = change->count;
			if (lane != NULL)
			{
				lane->ready += change->count;
				sched_lane_offer(change->lane, change->priority, change->pos,
								 change->count == 1, now, now);
			}
			break;
		case WORKQ_CHANGE_READY_TAKE:
			counters->ready -= change->count;
			if (lane != NULL)
				lane->ready -= change->count;
			publish_end(queue, change);
			break;
		case WORKQ_CHANGE_CLAIM:
		case WORKQ_CHANGE_CLAIM_MOVED:
			counters->ready--;
			if (lane != NULL)
				lane->ready--;
			sched_count_commit(queue, change);
			break;
		case WORKQ_CHANGE_SELECT:
			sched_count_commit(queue, change);
			break;
		case WORKQ_CHANGE_LEASE_ADD:
			counters->leased += change->count;
			publish_time(queue, &queue->expiry, change->pos);
			break;
		case WORKQ_CHANGE_DEADLINE:
			publish_time(queue, &queue->expiry, change->pos);
			break;
		case WORKQ_CHANGE_LEASE_END:
			counters->leased -= change->count;
			wake = free_place(&policy, change->lane, change->count, now);
			publish_end(queue, change);
			break;
		case WORKQ_CHANGE_DUE_ADD:
			counters->scheduled += change->count;
			publish_time(queue, &queue->due, change->pos);
			break;
		case WORKQ_CHANGE_DUE_TAKE:
			counters->scheduled -= change->count;
			publish_end(queue, change);
			break;
		case WORKQ_CHANGE_HELD_ADD:
			counters->held += change->count;
			break;
		case WORKQ_CHANGE_HELD_TAKE:
			counters->held -= change->count;
			publish_end(queue, change);
			break;
		case WORKQ_CHANGE_ENQUEUED:
			counters->enqueued += change->count;
			break;
		case WORKQ_CHANGE_DONE:
			counters->done += change->count;
			break;
		case WORKQ_CHANGE_FAILED:
			counters->failed += change->count;
			break;
		case WORKQ_CHANGE_LEASE_MOVE:
		case WORKQ_CHANGE_HOLD:
		case WORKQ_CHANGE_UNDONE:
		case WORKQ_CHANGE_SETTINGS:
		case WORKQ_CHANGE_KEY:
		case WORKQ_CHANGE_CREATED:
		case WORKQ_CHANGE_DROP:
		case WORKQ_CHANGE_FOREIGN:
		case WORKQ_CHANGE_EXTENSION:
			break;
	}
	return wake;
}

/*
 * One change of a rolled back transaction or savepoint; queue lock held.
 * Returns how many waiters to wake.
 */
static int
publish_abort(SchedQueue *queue, const WorkqChange *change, TimestampTz now)
{
	WorkqPolicy policy = sched_policy(queue);
	SchedLane  *lane = change->lane >= 0 ? &sched_lanes[change->lane] : NULL;
	int			wake = 0;

	switch ((WorkqChangeKind) change->kind)
	{
		case WORKQ_CHANGE_READY_TAKE:
			wake = change->count;
			if (lane != NULL)
				sched_lane_offer(change->lane, change->priority, change->pos,
								 change->count == 1, now, now);
			break;
		case WORKQ_CHANGE_CLAIM:
		case WORKQ_CHANGE_SELECT:
			if (lane == NULL)
				break;
			if (change->kind == WORKQ_CHANGE_CLAIM)
				sched_lane_offer(change->lane, change->priority, change->pos,
								 true, now, now);
			workq_policy_abort(&policy, change->lane, 1,
							   change->promoted ? 1 : 0, now);
			queue->counters.selected--;
			wake = 1;
			break;
		case WORKQ_CHANGE_CLAIM_MOVED:
			if (lane == NULL)
				break;
			sched_lane_offer(change->lane, change->priority, change->pos,
							 true, now, now);

			/* abort would take it out of flight, where it is no longer */
			workq_policy_hold(&policy, change->lane, 1, now);
			workq_policy_abort(&policy, change->lane, 1,
							   change->promoted ? 1 : 0, now);
			queue->counters.selected--;
			wake = 1;
			break;
		case WORKQ_CHANGE_HOLD:
			wake = free_place(&policy, change->lane, 1, now);
			break;
		case WORKQ_CHANGE_LEASE_MOVE:
		case WORKQ_CHANGE_LEASE_END:
			publish_time(queue, &queue->expiry, change->pos);
			break;
		case WORKQ_CHANGE_DUE_TAKE:
			publish_time(queue, &queue->due, change->pos);
			break;
		case WORKQ_CHANGE_READY_ADD:
		case WORKQ_CHANGE_LEASE_ADD:
		case WORKQ_CHANGE_DEADLINE:
		case WORKQ_CHANGE_DUE_ADD:
		case WORKQ_CHANGE_HELD_ADD:
		case WORKQ_CHANGE_HELD_TAKE:
		case WORKQ_CHANGE_ENQUEUED:
		case WORKQ_CHANGE_DONE:
		case WORKQ_CHANGE_FAILED:
		case WORKQ_CHANGE_UNDONE:
		case WORKQ_CHANGE_SETTINGS:
		case WORKQ_CHANGE_KEY:
		case WORKQ_CHANGE_CREATED:
		case WORKQ_CHANGE_DROP:
		case WORKQ_CHANGE_FOREIGN:
		case WORKQ_CHANGE_EXTENSION:
			break;
	}
	return wake;
}

/*
 * The form of the queue's lanes has changed not long ago: have these changes
 * brought, or given back, rows that may be in lanes of an old form?
 */
static void
publish_misplaced(SchedQueue *queue, const WorkqChange *changes, int n,
				  bool commit)
{
	int			i;

	for (i = 0; i < n; i++)
	{
		int			kind = changes[i].kind;

		if (commit ? kind == WORKQ_CHANGE_READY_ADD ||
			kind == WORKQ_CHANGE_LEASE_ADD :
			kind == WORKQ_CHANGE_READY_TAKE || kind == WORKQ_CHANGE_CLAIM ||
			kind == WORKQ_CHANGE_CLAIM_MOVED)
		{
			queue->misplaced = true;
			sched_want_chores(queue);
			return;
		}
	}
}

/*
 * Has a lane no ready rows, and nobody any that are not published?  Then no
 * look is needed to find that out.  Queue lock held.
 */
static bool
is_known_empty(const SchedQueue *queue, int lane)
{
	const SchedLane *l = &sched_lanes[lane];

	return l->ready == 0 && l->pins == 0 && !l->uncounted && !l->in_doubt &&
		!sched_shared->instances[queue->instance].stale;
}

void
workq_sched_publish(const WorkqChange *changes, int n, bool commit)
{
	SchedQueue *queue = &sched_queues[changes[0].queue];
	WorkqPolicy policy = sched_policy(queue);
	TimestampTz now = workq_now();
	int			wake = 0;
	int			i;

	LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	for (i = 0; i < n; i++)
	{
		const WorkqChange *change = &changes[i];

		if (commit)
			wake += publish_commit(queue, change, now);
		else
			wake += publish_abort(queue, change, now);
		if (change->lane >= 0)
			sched_lanes[change->lane].published++;
		unpin(queue, change->lane);
		if (change->lane >= 0 && is_known_empty(queue, change->lane))
			workq_policy_lane_empty(&policy, change->lane);
	}
	if (sched_is_unsettled(queue) && !queue->misplaced)
		publish_misplaced(queue, changes, n, commit);
	sched_free_idle_lanes(changes[0].queue, 2);
	if (sched_has_idle_lanes(queue))
		sched_want_chores(queue);
	LWLockRelease(&queue->lock);
	sched_wait_wake(changes[0].queue, wake);
}

/*
 * Others may look at these rows, too, and find them not there yet; they are
 * published again at commit.
 */
void
workq_sched_offer_own(const WorkqChange *changes, int n)
{
	TimestampTz now = workq_now();
	int			i;

	for (i = 0; i < n; i++)
	{
		const WorkqChange *change = &changes[i];

		if (change->kind != WORKQ_CHANGE_READY_ADD || change->lane < 0)
			continue;
		LWLockAcquire(&sched_queues[change->queue].lock, LW_EXCLUSIVE);
		sched_lane_offer(change->lane, change->priority, change->pos,
						 change->count == 1, now, now);
		LWLockRelease(&sched_queues[change->queue].lock);
	}
}

/*
 * A foreign hand wrote to the live tables of this database: nothing that the
 * hints say holds any more, until the tables are loaded again.  Runs in
 * callbacks.
 */
void
workq_sched_set_stale(void)
{
	TimestampTz now = workq_now();
	int			i;
	int			q;

	LWLockAcquire(&sched_shared->control, LW_EXCLUSIVE);
	for (i = 0; i < WORKQ_MAX_INSTANCES; i++)
	{
		WorkqInstance *instance = &sched_shared->instances[i];

		if (instance->dbid != MyDatabaseId)
			continue;
		instance->stale = true;
		instance->epoch++;
		for (q = 0; q < sched_shared->max_queues; q++)
		{
			SchedQueue *queue = &sched_queues[q];
			int			lane;

			if (queue->instance != i)
				continue;
			LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
			sched_hint_publish(&queue->due, workq_pos_min);
			sched_hint_publish(&queue->expiry, workq_pos_min);
			for (lane = queue->first_lane; lane >= 0;
				 lane = sched_lanes[lane].next)
			{
				if (!sched_lanes[lane].is_group)
					sched_lane_offer_all(lane, now);
			}
			sched_wait_wake_chain(queue);
			sched_wait_time(queue, DT_NOBEGIN);
			sched_wait_job(queue, 0);
			LWLockRelease(&queue->lock);
		}
		if (instance->worker >= 0)
			SetLatch(&ProcGlobal->allProcs[instance->worker].procLatch);
	}
	LWLockRelease(&sched_shared->control);
}

/*
 * The extension of this database has been dropped: whoever waits is to see it.
 * He who looks has to load, and for that waits until our locks are released;
 * by then he has been told that his tables are gone.  The memory is given back
 * when there is another extension, or the database goes.  Runs in callbacks.
 */
void
workq_sched_extension_dropped(void)
{
	int			i;
	int			q;

	LWLockAcquire(&sched_shared->control, LW_EXCLUSIVE);
	for (i = 0; i < WORKQ_MAX_INSTANCES; i++)
	{
		if (sched_shared->instances[i].dbid != MyDatabaseId)
			continue;
		sched_shared->instances[i].loaded = false;
		for (q = 0; q < sched_shared->max_queues; q++)
		{
			if (sched_queues[q].instance != i)
				continue;
			LWLockAcquire(&sched_queues[q].lock, LW_EXCLUSIVE);
			sched_wait_drop(&sched_queues[q]);
			LWLockRelease(&sched_queues[q].lock);
		}
	}
	LWLockRelease(&sched_shared->control);
}

/* ------------------------------------------------------------------------
 * The background worker
 * ------------------------------------------------------------------------ */

static void
worker_detach(int code, Datum arg)
{
	int			i;

	LWLockAcquire(&sched_shared->control, LW_EXCLUSIVE);
	for (i = 0; i < WORKQ_MAX_INSTANCES; i++)
	{
		if (sched_shared->instances[i].worker == workq_compat_my_procno())
			sched_shared->instances[i].worker = -1;
	}
	LWLockRelease(&sched_shared->control);
}

void
workq_sched_worker_attach(WorkqInstance *instance)
{
	static bool registered = false;

	if (!registered)
	{
		before_shmem_exit(worker_detach, (Datum) 0);
		registered = true;
	}
	LWLockAcquire(&sched_shared->control, LW_EXCLUSIVE);
	pg_atomic_write_u64(&instance->worker_until, (uint64) DT_NOBEGIN);
	instance->worker = workq_compat_my_procno();
	LWLockRelease(&sched_shared->control);
}

/*
 * The time is announced first and the queues are read after: what is
 * published in between either is read or sets the latch.
 */
TimestampTz
workq_sched_next_due(WorkqInstance *instance)
{
	TimestampTz next = DT_NOEND;
	int		   *queues;
	int			n = workq_sched_queues(instance, &queues);
	int			i;

	pg_atomic_write_u64(&instance->worker_until, (uint64) DT_NOEND);
	pg_memory_barrier();
	for (i = 0; i < n; i++)
	{
		SchedQueue *queue = &sched_queues[queues[i]];

		LWLockAcquire(&queue->lock, LW_SHARED);
		next = Min(next, queue->due.low.since);
		next = Min(next, queue->expiry.low.since);
		next = Min(next, queue->notify_at);
		LWLockRelease(&queue->lock);
	}
	pfree(queues);
	if (next != DT_NOEND)
		pg_atomic_write_u64(&instance->worker_until, (uint64) next);
	return next;
}

/*
 * A queue that was emptied meanwhile has nothing to tell.
 */
int32
workq_sched_notify_due(int q, TimestampTz now)
{
	SchedQueue *queue = &sched_queues[q];
	int32		queue_id = 0;

	LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	if (queue->notify_at <= now)
	{
		if (queue->counters.ready > 0 &&
			sched_setting(queue, WORKQ_SET_NOTIFY_EVERY) > 0)
			queue_id = queue->queue_id;
		else
			queue->notify_at = DT_NOEND;
	}
	LWLockRelease(&queue->lock);
	return queue_id;
}

void
workq_sched_notified(int q, TimestampTz now)
{
	SchedQueue *queue = &sched_queues[q];

	LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	queue->notified_at = now;
	queue->notify_at = DT_NOEND;
	sched_notify(queue, now);
	LWLockRelease(&queue->lock);
}
