/*-------------------------------------------------------------------------
 *
 * sched_count.c
 *	  What views and metrics count: totals by key, and recent selections.
 *
 * Totals.  A counter of a metric must never fall, but lanes come and go, and
 * selections are taken back.  So selections are counted when they commit, and
 * not in lanes: the first workq.metrics_max_keys keys that a queue sees have
 * a SchedMetric each, found by the key, which lives as long as the queue.  All
 * further keys are counted in the queue's "other" from the start.  A key that
 * is in "other" may get a record of its own later (the setting was raised):
 * its record begins at 0 and "other" keeps what it has, so nothing falls.
 * Deferrals are counted by the policy, in the lane while there is one: a
 * metric's total is its own plus its lane's, and a lane that goes leaves what
 * it counted.  Of the lanes without a metric the policy keeps the sum: they
 * are set apart.
 *
 * Keys of one dimension (tenants, bindings, ...) are not those of another: a
 * change begins anew, as do the labels of the metrics.
 *
 * Records come from a pool; when it is empty a key is counted in "other".
 *
 * Recent selections.  They are counted in windows: a window ends after
 * WORKQ_WINDOW selections, in drr then with the round, so that it consists of
 * whole rounds.  A lane and its group have a counter for the present window
 * and for the one before, brought up to date when they are selected: constant
 * time per selection.  Selections that are rolled back count, as they are
 * charged; those whose look found nothing do not.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "guc.h"
#include "sched_int.h"

static int *metric_buckets = NULL;	/* partition lock */

static int
max_metrics(void)
{
	return Max(workq_guc_max_lanes / 4, 1024);
}

Size
sched_count_size(void)
{
	return add_size(MAXALIGN(mul_size(max_metrics(), sizeof(SchedMetric))),
					MAXALIGN(mul_size(sched_n_buckets(max_metrics()),
									  sizeof(int))));
}

/*
 * Our part of the area begins at "at"; returns how long it is.
 */
Size
sched_count_place(char *at)
{
	sched_metrics = (SchedMetric *) at;
	metric_buckets = (int *) (at + MAXALIGN(max_metrics() *
											sizeof(SchedMetric)));
	return sched_count_size();
}

void
sched_count_init_area(void)
{
	int			i;

	for (i = 0; i < max_metrics(); i++)
	{
		sched_metrics[i].queue = -1;
		sched_metrics[i].next = i + 1 < max_metrics() ? i + 1 : -1;
	}
	sched_shared->free_metric = 0;
	for (i = 0; i < sched_n_buckets(max_metrics()); i++)
		metric_buckets[i] = -1;
}

/* ------------------------------------------------------------------------
 * Metrics
 * ------------------------------------------------------------------------ */

static int *
metric_bucket(uint32 hash)
{
	return &metric_buckets[hash & (sched_n_buckets(max_metrics()) - 1)];
}

static int
metric_find(int q, uint32 hash, const char *key)
{
	int			len = strlen(key);
	int			i;

	LWLockAcquire(sched_partition(hash), LW_SHARED);
	for (i = *metric_bucket(hash); i >= 0; i = sched_metrics[i].hash_next)
	{
		const SchedMetric *metric = &sched_metrics[i];

		if (metric->queue == q && metric->hash == hash &&
			sched_key_equals(&metric->key, key, len))
			break;
	}
	LWLockRelease(sched_partition(hash));
	return i;
}

static int
metric_alloc(void)
{
	int			i;

	SpinLockAcquire(&sched_shared->pool);
	i = sched_shared->free_metric;
	if (i >= 0)
		sched_shared->free_metric = sched_metrics[i].next;
	SpinLockRelease(&sched_shared->pool);
	return i;
}

static void
metric_free(int i)
{
	SpinLockAcquire(&sched_shared->pool);
	sched_metrics[i].queue = -1;
	sched_metrics[i].next = sched_shared->free_metric;
	sched_shared->free_metric = i;
	SpinLockRelease(&sched_shared->pool);
}

/*
 * A record for a key that has none, or -1.  Queue lock held.
 */
static int
metric_make(int q, uint32 hash, const char *key)
{
	SchedQueue *queue = &sched_queues[q];
	SchedMetric *metric;
	int			i;

	if (queue->n_metrics >= workq_guc_metrics_max_keys ||
		(i = metric_alloc()) < 0)
		return -1;
	metric = &sched_metrics[i];
	if (!sched_key_store(&metric->key, key, strlen(key), NULL))
	{
		metric_free(i);
		return -1;
	}
	metric->queue = q;
	metric->hash = hash;
	metric->lane = -1;
	metric->selected = metric->promoted = metric->deferred = 0;
	metric->next = queue->first_metric;
	queue->first_metric = i;
	queue->n_metrics++;
	LWLockAcquire(sched_partition(hash), LW_EXCLUSIVE);
	metric->hash_next = *metric_bucket(hash);
	*metric_bucket(hash) = i;
	LWLockRelease(sched_partition(hash));
	return i;
}

/*
 * Forget all keys of a queue.  Queue lock held.
 */
void
sched_count_drop(int q)
{
	SchedQueue *queue = &sched_queues[q];

	while (queue->first_metric >= 0)
	{
		int			i = queue->first_metric;
		SchedMetric *metric = &sched_metrics[i];
		int		   *link = metric_bucket(metric->hash);

		queue->first_metric = metric->next;
		LWLockAcquire(sched_partition(metric->hash), LW_EXCLUSIVE);
		while (*link != i)
			link = &sched_metrics[*link].hash_next;
		*link = metric->hash_next;
		LWLockRelease(sched_partition(metric->hash));
		sched_key_free(&metric->key);
		metric_free(i);
	}
	queue->n_metrics = 0;
	queue->metrics_epoch++;
}

/*
 * A lane is there: from here on what happens to its key is counted.  Queue
 * lock held.
 */
void
sched_count_lane_made(int number)
{
	SchedLane  *lane = &sched_lanes[number];
	WorkqPolicy policy = sched_policy(&sched_queues[lane->queue]);
	char		key[WORKQ_MAX_LANE + 4];

	sched_lane_copy_key(number, key);
	lane->metric = metric_find(lane->queue, lane->hash, key);
	if (lane->metric < 0)
		lane->metric = metric_make(lane->queue, lane->hash, key);
	if (lane->metric >= 0)
	{
		sched_metrics[lane->metric].lane = number;
		sched_metrics[lane->metric].deferred -=
			workq_policy_deferred_total(&policy, number);
	}
	else
		sched_queues[lane->queue].n_other++;
	workq_policy_lane_set_apart(&policy, number, lane->metric < 0);
}

/*
 * A lane is about to go.  Queue lock held.
 */
void
sched_count_lane_freed(int number)
{
	SchedLane  *lane = &sched_lanes[number];
	WorkqPolicy policy = sched_policy(&sched_queues[lane->queue]);

	if (lane->metric < 0)
		return;
	sched_metrics[lane->metric].deferred +=
		workq_policy_deferred_total(&policy, number);
	sched_metrics[lane->metric].lane = -1;
	lane->metric = -1;
}

/* ------------------------------------------------------------------------
 * Queues
 * ------------------------------------------------------------------------ */

/*
 * A queue begins.  Queue lock held.
 */
void
sched_count_reset(int q)
{
	SchedQueue *queue = &sched_queues[q];

	queue->first_metric = -1;
	queue->n_metrics = 0;
	queue->n_other = 0;
	queue->dimension = -2;
	memset(&queue->totals, 0, sizeof(SchedTotals));
	memset(&queue->other, 0, sizeof(SchedTotals));
	queue->window = 1;
	queue->in_window = queue->before_window = 0;
	queue->window_round = 0;
}

/*
 * The policy is about to begin anew, without lanes: keep what it has counted,
 * and begin to count recent selections.  Queue lock held.
 */
void
sched_count_carry(SchedQueue *queue)
{
	queue->totals.deferred += queue->policy.deferred_total;
	queue->other.deferred += queue->policy.deferred_apart;
	queue->window += 2;
	queue->in_window = queue->before_window = 0;
}

/*
 * The settings may have changed: if the keys are keys of something else now,
 * begin anew.  Queue lock held.  Takes as long as there are lanes.
 */
void
sched_count_set_dimension(int q)
{
	SchedQueue *queue = &sched_queues[q];
	const WorkqPolicyParams *params = &queue->policy.params;
	bool		one_lane = params->strategy == WORKQ_POLICY_FIFO &&
	params->max_concurrent_per_key == 0;
	int			dimension = one_lane ? -1 : params->fairness_key;
	int			i;

	if (dimension == queue->dimension)
		return;
	queue->dimension = dimension;
	queue->n_other = 0;
	sched_count_drop(q);
	memset(&queue->other, 0, sizeof(SchedTotals));
	queue->other.deferred = -queue->policy.deferred_apart;
	for (i = queue->first_lane; i >= 0; i = sched_lanes[i].next)
	{
		if (!sched_lanes[i].is_group)
			sched_count_lane_made(i);
	}
}

/* ------------------------------------------------------------------------
 * Selections
 * ------------------------------------------------------------------------ */

static void
count_lane(SchedQueue *queue, int number)
{
	SchedLane  *lane = &sched_lanes[number];

	if (lane->window != queue->window)
	{
		lane->before_window = lane->window == queue->window - 1 ?
			lane->in_window : 0;
		lane->in_window = 0;
		lane->window = queue->window;
	}
	lane->in_window++;
}

/*
 * A selection was made; returns the window in which it is counted.  Queue
 * lock held.
 */
uint32
sched_count_selection(SchedQueue *queue, const WorkqPolicySelection *turn)
{
	if (queue->in_window >= WORKQ_WINDOW &&
		(!turn->has_share || turn->round != queue->window_round))
	{
		queue->window++;
		queue->before_window = queue->in_window;
		queue->in_window = 0;
	}
	queue->window_round = turn->round;
	queue->in_window++;
	count_lane(queue, turn->lane);
	if (turn->group >= 0)
		count_lane(queue, turn->group);
	return queue->window;
}

/*
 * Take off what count_lane added, if it still counts; the lane has not been
 * given back since.
 */
static void
uncount_lane(int number, uint32 window)
{
	SchedLane  *lane = &sched_lanes[number];

	if (lane->window == window && lane->in_window > 0)
		lane->in_window--;
	else if (lane->window == window + 1 && lane->before_window > 0)
		lane->before_window--;
}

/*
 * A selection's look found nothing.  Queue lock held.
 */
void
sched_count_undo(SchedQueue *queue, const WorkqPolicySelection *turn,
				 uint32 window)
{
	if (queue->window == window && queue->in_window > 0)
		queue->in_window--;
	else if (queue->window == window + 1 && queue->before_window > 0)
		queue->before_window--;
	uncount_lane(turn->lane, window);
	if (turn->group >= 0)
		uncount_lane(turn->group, window);
}

/*
 * A claim has committed.  Queue lock held.
 */
void
sched_count_commit(SchedQueue *queue, const WorkqChange *change)
{
	int			metric = -1;
	int			promoted;

	if (change->lane >= 0)
		metric = sched_lanes[change->lane].metric;

	/* in fifo the look tells, not the policy */
	if (queue->policy.params.strategy == WORKQ_POLICY_FIFO)
		promoted = change->aged ? 1 : 0;
	else
		promoted = change->promoted ? 1 : 0;

	queue->totals.selected++;
	queue->totals.promoted += promoted;
	if (metric >= 0)
	{
		sched_metrics[metric].selected++;
		sched_metrics[metric].promoted += promoted;
	}
	else
	{
		queue->other.selected++;
		queue->other.promoted += promoted;
	}
}
