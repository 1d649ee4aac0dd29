/*-------------------------------------------------------------------------
 *
 * test_lanes.c
 *	  Caps, attacks, fifo, undo, lanes that come and go.
 *
 * Exact sequences and figures.  Numbers in names are those of the scenarios;
 * nothing depends on how fast the machine is.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cost.h"
#include "tap.h"
#include "world.h"

/* ------------------------------------------------------------------------
 * Caps
 * ------------------------------------------------------------------------ */

static void
cap_blocks_nobody(void)
{
	int			strategy;

	for (strategy = 0; strategy < 2; strategy++)
	{
		int64_t		cost[2];
		int			crowded;

		for (crowded = 0; crowded < 2; crowded++)
		{
			WorkqPolicyParams params = world_params();
			World	   *w = world_new(100001, &params);
			int			i;

			/* b, and 100,000 lanes that are at their cap */
			params.strategy = strategy;
			params.max_concurrent_per_key = 1;
			workq_policy_configure(&w->policy, &params, w->now);
			world_add_lane(w, 0, WORKQ_POLICY_INHERIT);
			for (i = 1; crowded && i <= 100000; i++)
			{
				world_add_lane(w, i, WORKQ_POLICY_INHERIT);
				workq_policy_lane_head(&w->policy, i, 1, w->now, i);
				world_enqueue(w, i, 1000);
			}
			for (i = 1; crowded && i <= 100000; i++)
				world_claim(w);
			workq_policy_lane_head(&w->policy, 0, 1, w->now, 1);
			world_enqueue(w, 0, 1);
			cost[crowded] = cost_calls;
			tap_equal(world_claim(w), 0, "19: b is claimed");
			cost[crowded] = cost_calls - cost[crowded];
			world_free(w);
		}
		tap_ok(cost[1] * 2 <= cost[0] * 3, "19: lanes at their cap cost "
			   "nothing in %s: %lld, %lld calls", strategy ? "drr" : "fifo",
			   (long long) cost[1], (long long) cost[0]);
	}
}

/* Workers that take equally long; served is counted from claim "from" on. */
static double
share_of_lane_0(World *w, int workers, int claims)
{
	int			busy[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
	int			i;

	for (i = 0; i < claims; i++)
	{
		int			k = i % workers;

		w->now += SECOND / 10;
		if (busy[k] >= 0)
			world_ack(w, busy[k]);
		busy[k] = world_claim(w);
	}
	return (double) w->served[0] / claims;
}

static void
heavy_lane_with_cap(void)
{
	int			weights[26];
	World	   *w;
	int			i;
	int			wait = 0;

	for (i = 0; i < 26; i++)
		weights[i] = i == 0 ? 10 : 1;
	w = world_deep(26, weights, NULL);
	workq_policy_set_cap(&w->policy, 0, 1, w->now);
	tap_between(share_of_lane_0(w, 8, 20000), 0.11, 0.126,
				"39: heavy lane with cap 1, 8 workers");
	consistent(w, "39");
	world_free(w);

	/* five lanes of weight 100 and cap 1, acked at once, and a newcomer */
	for (i = 0; i < 26; i++)
		weights[i] = i < 5 ? 100 : 1;
	w = world_deep(25, weights, NULL);
	for (i = 0; i < 5; i++)
		workq_policy_set_cap(&w->policy, i, 1, w->now);
	for (i = 0; i < 5; i++)
		world_claim(w);
	for (i = 0; i < 5; i++)
		world_ack(w, i);
	world_add_lane(w, 25, 1);
	world_enqueue(w, 25, 1);
	for (i = -1; i != 25; wait++)
	{
		i = world_claim(w);
		world_ack(w, i);
	}
	tap_ok(wait <= 52, "39: a newcomer waits at most two passes: %d", wait);
	world_free(w);
}

/* ------------------------------------------------------------------------
 * Attacks
 * ------------------------------------------------------------------------ */

static void
always_rolls_back(void)
{
	WorkqPolicyParams params = world_params();
	int			age;

	for (age = 0; age < 2; age++)
	{
		World	   *w;
		int			i;
		int			worst = 0;

		params.starvation_age = age * MINUTE;
		w = world_deep(5, NULL, &params);
		world_add_lane(w, 5, 1);
		world_enqueue(w, 5, 1);
		for (i = 0; i < 6000; i++)
		{
			int			lane;

			w->now += SECOND;
			lane = world_claim(w);
			if (lane == 5)
				world_rollback(w, lane);
			else
				world_ack(w, lane);
		}
		for (i = 0; i < 5; i++)
			worst = abs((int) w->served[i] - 1000) > worst ?
				abs((int) w->served[i] - 1000) : worst;
		tap_ok(worst <= 1, "37: the others keep their shares: off by %d",
			   worst);
		tap_equal(w->policy.lanes[5].selected_total, 0,
				  "37: a rolled back claim is not counted");
		world_free(w);
	}
}

static void
rolled_back_claims(void)
{
	const int	weights[] = {4, 2, 1, 1};
	World	   *w = world_deep(4, weights, NULL);
	int64_t		committed = 0;
	double		worst = 0;
	int			i;

	while (committed < 80000)
	{
		int			lane = world_claim(w);

		if (world_random(w, 2))
			world_rollback(w, lane);
		else
		{
			world_ack(w, lane);
			committed++;
		}
	}
	for (i = 0; i < 4; i++)
	{
		double		expected = 10000.0 * weights[i];

		worst = fmax(worst, fabs(w->served[i] - expected) / expected);
	}
	tap_between(worst, 0, 0.05, "20: half of the claims roll back");
	tap_equal(w->queue.selected_total, committed,
			  "20: the total equals the commits");
	world_free(w);
}

static void
flood_of_newcomers(void)
{
	WorkqPolicyParams params = world_params();
	World	   *w = world_new(60001, &params);
	int			next = 1;
	int			i;
	int			since = 0;
	int			late = 0;

	/* lane 0 is deep; 1.1 one-job lanes arrive for each claim */
	world_add(w, 60001, NULL);
	world_enqueue(w, 0, DEEP);
	for (i = 0; i < 50000; i++)
	{
		int			n = i % 10 == 0 ? 2 : 1;

		while (n-- > 0)
			world_enqueue(w, next++, 1);
		since++;
		if (world_serve(w) == 0)
		{
			/* a pass is as long as there are lanes with work */
			late += since > 2 * (next - 1 - i + w->served[0]);
			since = 0;
		}
	}
	tap_equal(late, 0, "38: the deep lane is served in two passes");
	tap_ok(w->served[0] >= 30, "38: %lld times", (long long) w->served[0]);
	world_free(w);
}

static void
many_debtors(void)
{
	WorkqPolicyParams params = world_params();
	int64_t		cost[2];
	int			n;
	int			k;

	params.starvation_age = MINUTE;
	for (k = 0, n = 10; k < 2; k++, n = 100000)
	{
		World	   *w = world_deep(n, NULL, &params);
		WorkqPolicySelection s;
		int			i;
		int			debtors = 0;

		/* all have had their turn, and one out of the order */
		for (i = 0; i < n; i++)
			world_serve(w);
		for (i = 0; i < n; i++)
		{
			workq_policy_select_lane(&w->policy, i, w->now, &s);
			workq_policy_finish(&w->policy, i, 1, w->now);
			debtors += workq_policy_deficit(&w->policy, i) == -1;
		}
		tap_equal(debtors, n, "40: all owe a round");
		cost[k] = cost_worst(w, 2 * n);
		consistent(w, "40");
		world_free(w);
	}
	tap_ok(cost[1] <= cost[0] + 2, "40: 100,000 debtors cost nothing: %lld, "
		   "%lld calls", (long long) cost[1], (long long) cost[0]);
}

/*
 * The policy is told of every change of a queue, under the queue's lock; of
 * most there is nothing for it to do.
 */
static void
settings_that_stay(void)
{
	WorkqPolicyParams params = world_params();
	World	   *w = world_deep(100000, NULL, &params);
	int64_t		before = cost_calls;
	int64_t		round = w->queue.ring.round;

	workq_policy_configure(&w->policy, &params, w->now);
	tap_ok(cost_calls - before < 10, "the same settings cost nothing: %lld "
		   "calls", (long long) (cost_calls - before));
	tap_equal(w->queue.ring.round, round, "and start no round");
	params.quantum = 2;
	workq_policy_configure(&w->policy, &params, w->now);
	tap_equal(w->queue.ring.round, round + 1, "others do");
	consistent(w, "settings that stay");
	world_free(w);
}

/* ------------------------------------------------------------------------
 * The rest
 * ------------------------------------------------------------------------ */

static void
old_work_behind_new(void)
{
	WorkqPolicyParams params = world_params();
	World	   *w = world_new(2, &params);
	WorkqPolicySelection s;
	int64_t		start = w->now;
	int			second;

	/* lane 0 has a low job, lane 1 gets a high job a second */
	params.strategy = WORKQ_POLICY_FIFO;
	params.max_concurrent_per_key = 5;
	params.promote_after[1] = 15 * MINUTE;
	params.promote_after[2] = 30 * MINUTE;
	workq_policy_configure(&w->policy, &params, w->now);
	world_add(w, 2, NULL);
	workq_policy_lane_head(&w->policy, 0, 2, w->now, 1);
	workq_policy_lane_ready(&w->policy, 0, w->now, w->now);
	for (second = 0; second < 4000; second++)
	{
		w->now = start + second * SECOND;
		workq_policy_lane_head(&w->policy, 1, 0, w->now, 2 + second);
		workq_policy_lane_ready(&w->policy, 1, w->now, w->now);
		workq_policy_select(&w->policy, w->now, &s);
		workq_policy_finish(&w->policy, s.lane, 1, w->now);
		if (s.lane == 0)
			break;
		if (s.decision != WORKQ_POLICY_BY_PRIORITY)
			break;
	}
	tap_equal(second, 1800, "13: the low job goes when it is 30 minutes old");
	tap_equal(s.lane, 0, "13: it is the one");
	tap_equal(s.decision, WORKQ_POLICY_BY_STARVATION, "13: by its age");
	tap_equal(s.promotion_deadline, start + 30 * MINUTE, "13: deadline");
	world_free(w);
}

static void
fifo_with_cap(void)
{
	WorkqPolicyParams params = world_params();
	World	   *w;
	WorkqPolicySelection s;

	params.strategy = WORKQ_POLICY_FIFO;
	params.max_concurrent_per_key = 1;
	w = world_new(3, &params);
	world_add(w, 3, NULL);
	workq_policy_lane_head(&w->policy, 0, 1, 10, 1);
	workq_policy_lane_head(&w->policy, 0, 0, 50, 5);
	workq_policy_lane_head(&w->policy, 1, 0, 50, 4);
	workq_policy_lane_head(&w->policy, 2, 2, 1, 6);
	workq_policy_lane_ready(&w->policy, 0, 100, 100);
	workq_policy_lane_ready(&w->policy, 1, 100, 100);
	workq_policy_lane_ready(&w->policy, 2, 100, 100);
	workq_policy_select(&w->policy, 100, &s);
	tap_ok(s.lane == 1 && s.priority == 0 && s.job_id == 4,
		   "fifo: rank, then age, then id");
	workq_policy_select(&w->policy, 100, &s);
	tap_ok(s.lane == 0 && s.priority == 0 && s.job_id == 5,
		   "fifo: the lane at its cap is passed over");
	/* another claimer has taken that job: the head was too low */
	workq_policy_lane_head_none(&w->policy, 0, 0);
	workq_policy_undo(&w->policy, &s, 100);
	workq_policy_select(&w->policy, 100, &s);
	tap_ok(s.lane == 0 && s.priority == 1 && s.job_id == 1,
		   "fifo: a head set right, and again");
	workq_policy_select(&w->policy, 100, &s);
	tap_ok(s.lane == 2 && s.priority == 2, "fifo: the last");
	tap_ok(!workq_policy_select(&w->policy, 100, &s), "fifo: all capped");
	workq_policy_abort(&w->policy, 2, 1, 0, 100);
	workq_policy_finish(&w->policy, 1, 1, 100);
	workq_policy_select(&w->policy, 100, &s);
	tap_equal(s.lane, 1, "fifo: back from its cap");
	tap_equal(w->queue.selected_total, 3, "fifo: totals");
	consistent(w, "fifo");
	world_free(w);
}

static void
fifo_with_one_lane(void)
{
	WorkqPolicyParams params = world_params();
	World	   *w;

	params.strategy = WORKQ_POLICY_FIFO;
	w = world_new(1, &params);
	world_add(w, 1, NULL);
	world_enqueue(w, 0, 3);
	tap_is(world_sequence(w, 4, false), "aaa-", "fifo: one lane, no heads");
	tap_equal(w->selection.priority, -1, "fifo: the look decides");
	tap_ok(!w->selection.has_share, "fifo: no share");
	world_free(w);
}

static void
idle_lanes_leave(void)
{
	WorkqPolicyParams params = world_params();
	const int	n_records = 100000;
	World	   *w;
	int		   *spare = calloc(n_records, sizeof(int));
	int			n_spare = 0;
	int64_t		arrived = 0;
	int64_t		done = 0;
	int			lane;
	int			i;

	params.starvation_age = 5 * MINUTE;
	w = world_new(n_records, &params);
	for (i = 0; i < n_records; i++)
		spare[n_spare++] = i;
	while (done < 1000000)
	{
		w->now += SECOND / 1000;
		while (arrived < 1000000 && n_spare > 0)
		{
			world_add_lane(w, spare[--n_spare], WORKQ_POLICY_INHERIT);
			world_enqueue(w, spare[n_spare], 1);
			arrived++;
		}
		lane = world_serve(w);
		if (lane < 0)
			break;
		done++;
		workq_policy_lane_empty(&w->policy, lane);
		while ((lane = workq_policy_next_removable(&w->policy)) >= 0)
		{
			workq_policy_lane_remove(&w->policy, lane);
			spare[n_spare++] = lane;
		}
	}
	tap_equal(done, 1000000, "22: a million tenants are served");
	tap_equal(n_spare, n_records, "22: all records are free in the end");
	consistent(w, "22");
	free(spare);
	world_free(w);
}

static void
removable(void)
{
	const int	weights[] = {5};
	World	   *w = world_deep(1, weights, NULL);
	int			i;

	world_serve(w);
	world_add_lane(w, 1, 1);
	world_enqueue(w, 1, 1);
	while (world_serve(w) != 1)
		;
	workq_policy_lane_empty(&w->policy, 1);
	world_add_lane(w, 2, 1);
	tap_ok(!workq_policy_lane_removable(&w->policy, 0), "a busy lane stays");
	tap_ok(!workq_policy_lane_removable(&w->policy, 1),
		   "and one whose round is not over");
	tap_equal(workq_policy_next_removable(&w->policy), 2,
			  "which does not hide others");
	for (i = 0; i < 5; i++)
		world_serve(w);
	tap_ok(workq_policy_lane_removable(&w->policy, 1), "its round is over");
	world_free(w);
}

static void
restart(void)
{
	const int	weights[] = {5, 3, 1};
	int			trial;
	int64_t		worst = 0;

	for (trial = 1; trial < 60; trial++)
	{
		World	   *w = world_deep(3, weights, NULL);
		World	   *same = world_deep(3, weights, NULL);
		int			i;

		for (i = 0; i < 900; i++)
		{
			world_serve(same);
			if (i == trial)
			{
				workq_policy_queue_init(&w->queue, &same->queue.params, 7);
				world_add(w, 3, weights);
				world_enqueue(w, 2, 0);
				world_enqueue(w, 0, 0);
				world_enqueue(w, 1, 0);
			}
			world_serve(w);
		}
		for (i = 0; i < 3; i++)
		{
			int64_t		off = llabs(w->served[i] - same->served[i]);

			off = off * 100 / weights[i];
			worst = off > worst ? off : worst;
		}
		world_free(same);
		world_free(w);
	}
	tap_ok(worst <= 200, "24: a restart costs or gives two rounds at most: "
		   "%g rounds", (double) worst / 100);
}

static void
undo(void)
{
	const int	weights[] = {3, 1, 2};
	World	   *w = world_deep(3, weights, NULL);
	WorkqPolicyQueue before;
	int64_t		deficit[3];
	int			wrong = 0;
	int			i;
	int			k;

	w->queue.params.starvation_age = MINUTE;
	for (i = 0; i < 500; i++)
	{
		WorkqPolicySelection s;
		WorkqPolicySelection again;

		w->now += world_random(w, 30) * SECOND;
		/* so that the round, if it is time, has started */
		workq_policy_select(&w->policy, w->now, &s);
		workq_policy_undo(&w->policy, &s, w->now);
		before = w->queue;
		for (k = 0; k < 3; k++)
			deficit[k] = workq_policy_deficit(&w->policy, k);
		workq_policy_select(&w->policy, w->now, &s);
		workq_policy_undo(&w->policy, &s, w->now);
		for (k = 0; k < 3; k++)
			wrong += deficit[k] != workq_policy_deficit(&w->policy, k);
		before.turns++;
		wrong += memcmp(&before, &w->queue, sizeof(before)) != 0;
		workq_policy_select(&w->policy, w->now, &again);
		wrong += again.lane != s.lane || again.decision != s.decision ||
			again.clock != s.clock || again.credit != s.credit;
		workq_policy_finish(&w->policy, again.lane, 1, w->now);
	}
	tap_equal(wrong, 0, "undo: everything is as it was");
	consistent(w, "undo");
	world_free(w);
}

static void
clock_runs_backwards(void)
{
	WorkqPolicyParams params = world_params();
	World	   *w;
	int			i;

	params.starvation_age = MINUTE;
	w = world_deep(100, NULL, &params);
	for (i = 0; i < 3000; i++)
	{
		w->now += i % 700 == 699 ? -60 * MINUTE : SECOND;
		world_serve(w);
	}
	tap_ok(w->served[0] >= 29 && w->served[99] >= 29,
		   "a clock that runs backwards does no harm");
	consistent(w, "a clock that runs backwards");
	world_free(w);
}

int
main(void)
{
	cap_blocks_nobody();
	heavy_lane_with_cap();
	always_rolls_back();
	rolled_back_claims();
	flood_of_newcomers();
	many_debtors();
	settings_that_stay();
	old_work_behind_new();
	fifo_with_cap();
	fifo_with_one_lane();
	idle_lanes_leave();
	removable();
	restart();
	undo();
	clock_runs_backwards();
	return tap_done();
}
