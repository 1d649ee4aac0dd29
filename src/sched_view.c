/*-------------------------------------------------------------------------
 *
 * sched_view.c
 *	  Shared memory as views and metrics show it.
 *
 * A queue's lanes are a list, the newest first, each with a serial number.  A
 * walk copies CHUNK of them under the queue's lock, then lets go.  Meanwhile
 * lanes may be made (in front: not our business) and given back.  The walk
 * goes on behind the last one of the chunk that is still there; if none is,
 * from the front, passing those that it has seen, whose serials are higher.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "guc.h"
#include "sched_int.h"
#include "sched_view.h"

#define CHUNK	32				/* records copied under one hold of the lock */

typedef struct LaneWalk
{
	int			q;
	int			instance;
	int32		queue_id;
	uint64		last;			/* serials from here on were seen */
	int			n_passed;
	int			passed[CHUNK];	/* numbers of the lanes of the last chunk */
	uint64		passed_serial[CHUNK];
	bool		ended;
} LaneWalk;

/*
 * Is it still the queue it was?  Queue lock held.
 */
static bool
same_queue(const SchedQueue *queue, int instance, int32 queue_id)
{
	return queue->instance == instance && queue->queue_id == queue_id;
}

/*
 * Selections in the last two windows of the queue.  Queue lock held.
 */
static int
recent_of(const SchedQueue *queue, const SchedLane *lane)
{
	if (lane->window == queue->window)
		return lane->in_window + lane->before_window;
	return lane->window == queue->window - 1 ? lane->in_window : 0;
}

static WorkqKeyState
state_of(const WorkqPolicy *policy, int number)
{
	const WorkqPolicyLane *lane = &policy->lanes[number];

	if (workq_policy_weight(policy, number) == 0 ||
		(lane->group >= 0 && workq_policy_weight(policy, lane->group) == 0))
		return WORKQ_KEY_IS_PAUSED;
	if (workq_policy_capped(policy, number))
		return WORKQ_KEY_IS_CAPPED;
	if (workq_policy_ready(policy, number))
		return WORKQ_KEY_IS_READY;
	return lane->in_flight > 0 ? WORKQ_KEY_IS_LEASED : WORKQ_KEY_IS_IDLE;
}

/*
 * Behind which position the rows of each priority are to be looked for.
 * Queue lock held.
 */
static void
copy_starts(const SchedLane *lane, WorkqKeyView *view)
{
	int			e;
	int			p;

	for (p = 0; p < WORKQ_PRIORITIES; p++)
	{
		view->from[p] = lane->hint[p].low;
		view->none[p] = workq_pos_compare(view->from[p], workq_pos_max) == 0;
	}
	for (e = lane->first_exact; e >= 0; e = sched_exacts[e].next)
	{
		p = sched_exacts[e].priority;
		view->none[p] = false;
		if (workq_pos_compare(sched_exacts[e].pos, view->from[p]) <= 0)
			view->from[p] = workq_pos_before(sched_exacts[e].pos);
	}
}

/*
 * Copy a lane or group.  Queue lock held.
 */
static void
copy_lane(int number, bool brief, WorkqKeyView *view)
{
	const SchedLane *lane = &sched_lanes[number];
	SchedQueue *queue = &sched_queues[lane->queue];
	WorkqPolicy policy = sched_policy(queue);
	const WorkqPolicyLane *turns = &sched_policy_lanes[number];

	view->has_lane = true;
	view->is_group = lane->is_group;
	view->lane = number;
	view->group = turns->group;
	view->state = state_of(&policy, number);
	if (brief)
		return;
	view->weight = workq_policy_weight(&policy, number);
	view->cap = lane->is_group ? 0 : Max(workq_policy_cap(&policy, number), 0);
	view->in_flight = turns->in_flight;
	view->deficit = workq_policy_deficit(&policy, number);
	view->ready = lane->ready;
	view->share = workq_policy_share(&policy, number);
	view->recent = recent_of(queue, lane);
	view->selected = turns->selected_total;
	view->promoted = turns->promoted_total;
	view->deferred = workq_policy_deferred_total(&policy, number);
	if (lane->metric >= 0)
	{
		view->selected = sched_metrics[lane->metric].selected;
		view->promoted = sched_metrics[lane->metric].promoted;
		view->deferred += sched_metrics[lane->metric].deferred;
	}
	copy_starts(lane, view);
	sched_lane_copy_key(number, view->key);

	/* a group's key begins with two separators */
	if (lane->is_group)
		memmove(view->key, view->key + 2, strlen(view->key) - 1);
}

/*
 * Where a walk goes on.  Queue lock held.
 */
static int
walk_resume(const LaneWalk *walk)
{
	int			i;

	for (i = walk->n_passed - 1; i >= 0; i--)
	{
		const SchedLane *lane = &sched_lanes[walk->passed[i]];

		if (lane->queue == walk->q && lane->serial == walk->passed_serial[i])
			return lane->next;
	}
	return sched_queues[walk->q].first_lane;
}

/*
 * The next lanes of a walk; returns how many, perhaps none though more come.
 */
static int
walk_next(LaneWalk *walk, bool brief, WorkqKeyView *views)
{
	SchedQueue *queue = &sched_queues[walk->q];
	int			lane;
	int			n = 0;

	LWLockAcquire(&queue->lock, LW_SHARED);
	lane = same_queue(queue, walk->instance, walk->queue_id) ?
		walk_resume(walk) : -1;
	for (walk->n_passed = 0; lane >= 0 && walk->n_passed < CHUNK;
		 lane = sched_lanes[lane].next)
	{
		uint64		serial = sched_lanes[lane].serial;

		walk->passed[walk->n_passed] = lane;
		walk->passed_serial[walk->n_passed++] = serial;
		if (serial >= walk->last)
			continue;
		walk->last = serial;
		copy_lane(lane, brief, &views[n++]);
	}
	walk->ended = lane < 0;
	LWLockRelease(&queue->lock);
	return n;
}

void
workq_sched_view_keys(int32 queue_id, bool brief, WorkqKeyVisitor visit,
					  void *arg)
{
	LaneWalk	walk;
	WorkqKeyView *views;

	walk.q = workq_sched_find_queue(queue_id);
	if (walk.q < 0)
		return;
	walk.instance = sched_queues[walk.q].instance;
	walk.queue_id = queue_id;
	walk.last = PG_UINT64_MAX;
	walk.n_passed = 0;
	walk.ended = false;
	views = palloc(CHUNK * sizeof(WorkqKeyView));
	while (!walk.ended)
	{
		int			n = walk_next(&walk, brief, views);
		int			i;

		CHECK_FOR_INTERRUPTS();
		for (i = 0; i < n; i++)
			visit(&views[i], arg);
	}
	pfree(views);
}

bool
workq_sched_view_key(int32 queue_id, const char *key, WorkqKeyView *view)
{
	int			q = workq_sched_find_queue(queue_id);
	int			instance;
	int			lane = -1;

	if (q < 0)
		return false;
	instance = sched_queues[q].instance;
	LWLockAcquire(&sched_queues[q].lock, LW_SHARED);
	if (same_queue(&sched_queues[q], instance, queue_id))
		lane = sched_lane_find(q, key);
	if (lane >= 0)
		copy_lane(lane, false, view);
	LWLockRelease(&sched_queues[q].lock);
	return lane >= 0;
}

/*
 * Changes of settings are followed when the next selection is made.  Whoever
 * changes them and looks wants to see them, even if nobody claims: so a look
 * does here what that selection would do first.
 */
static void
follow_settings(int q)
{
	SchedQueue *queue = &sched_queues[q];
	TimestampTz now = workq_now();

	if (!queue->has_settings)
		return;
	sched_settings_refresh_keys(q, now);
	LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	sched_settings_refresh(queue, now);
	LWLockRelease(&queue->lock);
}

bool
workq_sched_view_queue(int32 queue_id, WorkqQueueView *view)
{
	int			q = workq_sched_find_queue(queue_id);
	SchedQueue *queue;
	WorkqPolicy policy;
	int64		since;

	memset(view, 0, sizeof(WorkqQueueView));
	view->longest_wait = DT_NOEND;
	if (q < 0)
		return false;
	follow_settings(q);
	queue = &sched_queues[q];
	policy = sched_policy(queue);
	LWLockAcquire(&queue->lock, LW_SHARED);
	view->has_shares = queue->policy.params.strategy == WORKQ_POLICY_DRR;
	view->dimension = queue->dimension;
	view->rounds = queue->policy.ring.round;
	view->selected = queue->totals.selected;
	view->promoted = queue->totals.promoted;
	view->deferred = queue->totals.deferred + queue->policy.deferred_total;
	view->other_selected = queue->other.selected;
	view->other_promoted = queue->other.promoted;
	view->other_deferred = queue->other.deferred +
		queue->policy.deferred_apart;
	view->has_other = queue->n_other > 0 || queue->other.selected > 0;
	view->recent = queue->in_window + queue->before_window;
	since = workq_policy_longest_wait(&policy);
	if (since != WORKQ_POLICY_NEVER)
		view->longest_wait = since;
	view->overflowing = queue->overflowing;
	LWLockRelease(&queue->lock);
	return true;
}

/*
 * Copy the metric of a key.  Queue lock held.
 */
static void
copy_metric(int number, WorkqKeyView *view)
{
	const SchedMetric *metric = &sched_metrics[number];

	if (metric->lane >= 0)
		copy_lane(metric->lane, false, view);
	else
	{
		memset(view, 0, offsetof(WorkqKeyView, key));
		view->lane = view->group = -1;
		view->state = WORKQ_KEY_IS_IDLE;
		view->selected = metric->selected;
		view->promoted = metric->promoted;
		view->deferred = metric->deferred;
		sched_key_copy(&metric->key, view->key);
	}
}

int
workq_sched_view_metrics(int32 queue_id, WorkqKeyView **views)
{
	int			q = workq_sched_find_queue(queue_id);
	int			instance;
	SchedQueue *queue;
	uint32		epoch = 0;
	int			room = 0;
	int			n = 0;
	int			next = -1;
	bool		begun = false;

	*views = NULL;
	if (q < 0)
		return 0;
	queue = &sched_queues[q];
	instance = queue->instance;
	while (!begun || next >= 0)
	{
		int			end;

		CHECK_FOR_INTERRUPTS();
		if (n + CHUNK > room)
		{
			room = Max(2 * room, 4 * CHUNK);
			*views = *views == NULL ?
				palloc(room * sizeof(WorkqKeyView)) :
				repalloc_huge(*views, room * sizeof(WorkqKeyView));
		}
		LWLockAcquire(&queue->lock, LW_SHARED);
		if (!begun || epoch != queue->metrics_epoch)
		{
			/* all of them went away: begin anew */
			n = 0;
			epoch = queue->metrics_epoch;
			next = queue->first_metric;
			begun = true;
		}
		if (!same_queue(queue, instance, queue_id))
			next = -1;
		for (end = n + CHUNK; next >= 0 && n < end;
			 next = sched_metrics[next].next)
			copy_metric(next, &(*views)[n++]);
		LWLockRelease(&queue->lock);
	}
	return n;
}

void
workq_sched_view_pool(int *lanes, int *unused)
{
	*lanes = sched_shared->max_lanes;
	SpinLockAcquire(&sched_shared->pool);
	*unused = sched_shared->n_free_lanes;
	SpinLockRelease(&sched_shared->pool);
}
