/*-------------------------------------------------------------------------
 *
 * test_starve.c
 *	  Starvation, pauses, weights and settings.
 *
 * Exact sequences and figures.  Numbers in names are those of the scenarios;
 * nothing depends on how fast the machine is.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cost.h"
#include "tap.h"
#include "world.h"

/* ------------------------------------------------------------------------
 * Starvation
 * ------------------------------------------------------------------------ */

static void
storm(void)
{
	WorkqPolicyParams params = world_params();
	World	   *w;
	int64_t		arrived[11];
	int64_t		worst = 0;
	int64_t		start;
	int			cold = 0;
	int			tick;

	params.starvation_age = 5 * MINUTE;
	w = world_new(11, &params);
	world_add(w, 11, NULL);
	w->jobs[0] = 20000;
	workq_policy_lane_ready(&w->policy, 0, w->now, w->now - 10 * MINUTE);
	start = w->now;
	/* steps of 5 ms; every tenth a claim */
	for (tick = 0; tick < 300 * 200; tick++)
	{
		int			lane;

		w->now = start + tick * (SECOND / 200);
		/* the cold tenants' jobs come at different moments of a second */
		lane = 1 + tick / 20 % 10;
		if (tick % 20 == 0)
		{
			world_enqueue(w, lane, 1);
			arrived[lane] = w->now;
		}
		if (tick % 10 != 5)
			continue;
		lane = world_serve(w);
		if (lane > 0)
		{
			cold++;
			worst = w->now - arrived[lane] > worst ?
				w->now - arrived[lane] : worst;
		}
	}
	tap_equal(cold, 3000, "9: all cold jobs are served");
	tap_ok(worst <= SECOND, "9: none waits more than 1 s: %g s",
		   (double) worst / SECOND);
	tap_equal(w->served[0], 3000, "9: hot gets the other half");
	tap_ok(w->queue.promoted_total <= 1, "9: at most one promotion: %lld",
		   (long long) w->queue.promoted_total);
	world_free(w);
}

/* The same, but all ten jobs of a second come at once. */
static void
storm_at_once(void)
{
	WorkqPolicyParams params = world_params();
	World	   *w;
	int64_t		worst = 0;
	int64_t		start;
	int			cold = 0;
	int			tick;

	params.starvation_age = 5 * MINUTE;
	w = world_new(11, &params);
	world_add(w, 11, NULL);
	w->jobs[0] = 20000;
	workq_policy_lane_ready(&w->policy, 0, w->now, w->now - 10 * MINUTE);
	start = w->now;
	for (tick = 0; tick < 300 * 20; tick++)
	{
		int64_t		second = start + tick / 20 * SECOND;
		int			lane;

		w->now = start + tick * (SECOND / 20);
		for (lane = 1; lane <= 10 && tick % 20 == 0; lane++)
			world_enqueue(w, lane, 1);
		lane = world_serve(w);
		if (lane > 0)
		{
			cold++;
			worst = w->now - second > worst ? w->now - second : worst;
		}
	}
	tap_equal(cold, 3000, "9: all cold jobs are served, coming at once");
	tap_ok(worst <= SECOND, "9: none waits more than 1 s: %g s",
		   (double) worst / SECOND);
	tap_equal(w->served[0], 3000, "9: hot gets the other half");
	world_free(w);
}

static void
slow_system(void)
{
	WorkqPolicyParams params = world_params();
	int			weights[400];
	double		got[5];
	World	   *w;
	double		worst = 0;
	int			i;

	params.starvation_age = MINUTE;
	for (i = 0; i < 400; i++)
		weights[i] = 1 + i % 4;
	w = world_deep(400, weights, &params);
	memset(got, 0, sizeof(got));
	for (i = 0; i < 40000; i++)
	{
		w->now += SECOND / 5;
		world_serve(w);
	}
	for (i = 0; i < 400; i++)
	{
		double		expected = 40.0 * weights[i];

		got[weights[i]] += w->served[i];
		worst = fmax(worst, fabs(w->served[i] - expected) / expected);
	}
	printf("# by weight: %g %g %g %g, %lld promotions\n", got[1], got[2],
		   got[3], got[4], (long long) w->queue.promoted_total);
	tap_between(worst, 0, 0.05, "10: every lane's services, off its share");
	consistent(w, "10");
	world_free(w);
}

static void
lone_old_job(void)
{
	WorkqPolicyParams params = world_params();
	World	   *w;
	WorkqPolicySelection *s;

	params.starvation_age = 5 * MINUTE;
	w = world_new(2, &params);
	s = &w->selection;
	world_add(w, 2, NULL);
	w->jobs[0] = 100;
	workq_policy_lane_ready(&w->policy, 0, w->now, w->now);
	w->jobs[1] = 1;
	workq_policy_lane_ready(&w->policy, 1, w->now, w->now - 6 * MINUTE);
	tap_equal(world_serve(w), 1, "11: the old job's lane is served");
	tap_equal(s->decision, WORKQ_POLICY_BY_STARVATION, "11: by starvation");
	tap_equal(s->promotion_deadline, w->now - MINUTE, "11: deadline");
	tap_equal(w->queue.promoted_total, 1, "11: the total counts 1");
	tap_equal(w->policy.lanes[1].promoted_total, 1, "11: the lane's, too");
	tap_equal(s->credit, 0, "11: it is charged");
	tap_equal(world_serve(w), 0, "11: then the other");
	tap_equal(s->decision, WORKQ_POLICY_BY_FAIR_SHARE, "11: by its share");
	world_free(w);

	/* next in turn and starving is no promotion */
	w = world_new(2, &params);
	s = &w->selection;
	world_add(w, 2, NULL);
	w->jobs[0] = w->jobs[1] = 10;
	workq_policy_lane_ready(&w->policy, 1, w->now, w->now - 6 * MINUTE);
	workq_policy_lane_ready(&w->policy, 0, w->now, w->now);
	tap_equal(world_serve(w), 1, "in turn and starving");
	tap_equal(s->decision, WORKQ_POLICY_BY_FAIR_SHARE, "counts as in turn");
	tap_equal(w->queue.promoted_total, 0, "and is no promotion");
	world_free(w);
}

static void
old_but_capped(void)
{
	WorkqPolicyParams params = world_params();
	World	   *w;
	int			i;
	int			wait = 1;

	params.starvation_age = 5 * MINUTE;
	w = world_deep(5, NULL, &params);
	workq_policy_set_cap(&w->policy, 0, 1, w->now);
	tap_equal(world_claim(w), 0, "12: a is at its cap");
	for (i = 0; i < 40; i++)
	{
		w->now += MINUTE;
		if (world_serve(w) == 0)
			break;
	}
	tap_equal(i, 40, "12: and not served, however old");
	world_ack(w, 0);
	while (world_serve(w) != 0)
		wait++;
	tap_ok(wait <= 5, "12: within a pass after that: %d", wait);
	tap_equal(w->selection.decision, WORKQ_POLICY_BY_FAIR_SHARE,
			  "12: by its share");
	world_free(w);
}

static void
promotion_is_bounded(void)
{
	WorkqPolicyParams params = world_params();
	int			weights[100];
	World	   *w;
	int			i;

	/* lane 0 has the oldest clock again and again */
	params.starvation_age = SECOND;
	for (i = 0; i < 100; i++)
		weights[i] = i == 0 ? 2 : 10;
	w = world_deep(100, weights, &params);
	for (i = 0; i < 992 * 5; i++)
	{
		w->now += MINUTE;
		world_serve(w);
	}
	tap_ok(w->served[0] <= 12, "7th rule: a lane borrows one round at most: "
		   "%lld served in 5 rounds", (long long) w->served[0]);
	tap_ok(workq_policy_deficit(&w->policy, 0) >= -2,
		   "7th rule: and owes one at most");
	consistent(w, "promotion");
	world_free(w);
}

static void
after_load(void)
{
	WorkqPolicyParams params = world_params();
	World	   *w;
	int64_t		since[1000];
	int			wrong = 0;
	int64_t		last = 0;
	int			i;

	params.starvation_age = MINUTE;
	w = world_new(1000, &params);
	world_add(w, 1000, NULL);
	for (i = 0; i < 1000; i++)
	{
		int			k;

		/* several rows of each lane, the oldest counts */
		since[i] = w->now;
		for (k = 0; k < 3; k++)
		{
			int64_t		row = w->now - MINUTE - world_random(w, 1000000000);

			workq_policy_lane_ready(&w->policy, i, w->now, row);
			since[i] = row < since[i] ? row : since[i];
		}
		w->jobs[i] = 10;
	}
	for (i = 0; i < 1000; i++)
	{
		int			lane = world_serve(w);

		wrong += w->selection.clock != since[lane] || since[lane] < last;
		last = since[lane];
	}
	tap_equal(wrong, 0, "after a load the oldest go first, once each");
	tap_ok(cost_worst(w, 1000) < 1000, "after a load lanes are sorted once");
	consistent(w, "after a load");
	world_free(w);
}

static void
equal_clocks(void)
{
	WorkqPolicyParams params = world_params();
	World	   *w;
	int			wrong = 0;
	int			i;

	params.starvation_age = MINUTE;
	w = world_new(1000, &params);
	world_add(w, 1000, NULL);
	for (i = 0; i < 1000; i++)
	{
		w->jobs[i] = 10;
		workq_policy_lane_ready(&w->policy, i, w->now,
								w->now - (2 + i % 2) * MINUTE);
	}
	for (i = 0; i < 1000; i++)
		wrong += world_serve(w) != i % 500 * 2 + (i < 500);
	tap_equal(wrong, 0, "of equal clocks the first to come goes first");
	world_free(w);
}

static void
strict(void)
{
	WorkqPolicyParams params = world_params();
	World	   *w;
	WorkqPolicySelection s;
	int			i;

	params.starvation_age = MINUTE;
	params.starvation_mode = WORKQ_POLICY_STRICT;
	w = world_new(3, &params);
	world_add(w, 3, NULL);
	for (i = 0; i < 3; i++)
	{
		workq_policy_lane_head(&w->policy, i, 1, w->now - i * MINUTE, 10 + i);
		workq_policy_lane_ready(&w->policy, i, w->now, w->now);
	}
	for (i = 0; i < 5; i++)
	{
		workq_policy_select(&w->policy, w->now, &s);
		if (s.lane != 2)
			break;
	}
	tap_equal(i, 5, "strict: the oldest job's lane, without limit");
	tap_equal(s.job_id, 12, "strict: the job is named");
	tap_equal(workq_policy_deficit(&w->policy, 2), -1,
			  "strict: it owes a round, not more");
	workq_policy_lane_head(&w->policy, 2, 1, w->now, 15);
	workq_policy_select(&w->policy, w->now, &s);
	tap_equal(s.lane, 1, "strict: then the next");
	workq_policy_lane_head_none(&w->policy, 1, 1);
	workq_policy_select(&w->policy, w->now, &s);
	tap_equal(s.lane, 0, "strict: young jobs go by share");
	tap_equal(s.priority, -1, "strict: and no job is named");
	consistent(w, "strict");
	world_free(w);
}

static void
after_pause(void)
{
	WorkqPolicyParams params = world_params();
	World	   *w;
	int			i;

	params.starvation_age = 5 * MINUTE;
	w = world_deep(50, NULL, &params);
	for (i = 0; i < 75; i++)
		world_serve(w);
	workq_policy_pause(&w->policy, true, w->now);
	tap_equal(world_serve(w), -1, "50: nothing is selected while paused");
	tap_ok(!workq_policy_has_turn(&w->policy), "50: and nothing is offered");
	w->now += 60 * MINUTE;
	workq_policy_pause(&w->policy, false, w->now);
	for (i = 0; i < 500; i++)
		world_serve(w);
	tap_equal(w->queue.promoted_total, 0, "50: no promotions after a pause");
	w->now += 5 * MINUTE;
	world_add_lane(w, 50, 1);
	world_enqueue(w, 50, 1);
	tap_equal(workq_policy_promotion_time(&w->policy, 50),
			  w->now + 5 * MINUTE, "50: not starving at birth");
	world_free(w);
}

/* ------------------------------------------------------------------------
 * Weights
 * ------------------------------------------------------------------------ */

static void
weights_at_run_time(void)
{
	const int	weights[] = {1000, 1};
	int			trial;
	int			repeats = 0;
	int			bs = 0;

	for (trial = 0; trial < 300; trial++)
	{
		World	   *w = world_deep(2, weights, NULL);
		int			n = trial < 100 ? trial : world_random(w, 3000) + trial;
		int			last = -1;
		int64_t		before;
		int			i;

		while (n-- > 0)
			world_serve(w);
		workq_policy_set_weight(&w->policy, 0, 1, w->now);
		for (i = 0; i < 20; i++)
		{
			int			lane = world_serve(w);

			repeats += i >= 2 && lane == last;
			last = lane;
		}
		for (i = trial % 2; i > 0; i--)
			world_serve(w);
		workq_policy_set_weight(&w->policy, 0, 1000, w->now);
		before = w->served[1];
		for (i = 0; i < 100; i++)
			world_serve(w);
		bs = w->served[1] - before > bs ? (int) (w->served[1] - before) : bs;
		world_free(w);
	}
	tap_equal(repeats, 0, "14: alternation from the third selection on");
	tap_ok(bs <= 1, "14: at most one b in the next 100: %d", bs);
}

static void
move_of_credit(void)
{
	static const struct
	{
		int			old;
		int			quantum;
		int64_t		credit;
		int			weight;
		int64_t		expected;
	}			cases[] = {
		{3, 1, 2, 5, 4}, {5, 1, 1, 3, 0}, {5, 1, 4, 3, 2}, {3, 2, 6, 1, 2},
		{4, 1, -2, 2, -2}, {4, 1, -2, 6, 0}, {4, 1, -4, 1, -1},
		{4, 1, -3, 9, 2}, {1, 1, -1, 2, 0}, {2, 10, 7, 3, 17},
	};
	int			k;

	for (k = 0; k < (int) (sizeof(cases) / sizeof(cases[0])); k++)
	{
		WorkqPolicyParams params = world_params();
		World	   *w;
		WorkqPolicySelection s;

		params.quantum = cases[k].quantum;
		w = world_deep(1, &cases[k].old, &params);
		world_serve(w);
		/* turns out of the order bring it to any credit */
		while (workq_policy_deficit(&w->policy, 0) > cases[k].credit)
			workq_policy_select_lane(&w->policy, 0, w->now, &s);
		if (workq_policy_deficit(&w->policy, 0) < cases[k].credit)
			workq_policy_undo(&w->policy, &w->selection, w->now);
		workq_policy_set_weight(&w->policy, 0, cases[k].weight, w->now);
		tap_equal(workq_policy_deficit(&w->policy, 0), cases[k].expected,
				  "9th rule: credit moves with the weight");
		world_free(w);
	}
}

static void
weight_zero(void)
{
	WorkqPolicyParams params = world_params();
	World	   *w;
	int			i;

	params.starvation_age = MINUTE;
	w = world_deep(2, NULL, &params);
	workq_policy_set_weight(&w->policy, 1, 0, w->now);
	for (i = 0; i < 100; i++)
	{
		w->now += MINUTE;
		world_serve(w);
	}
	tap_equal(w->served[1], 0, "15: no selection, no promotion");
	tap_equal(workq_policy_weight(&w->policy, 1), 0, "15: shown as paused");
	tap_ok(workq_policy_ready(&w->policy, 1), "15: but ready");
	workq_policy_set_weight(&w->policy, 0, 0, w->now);
	tap_ok(!workq_policy_has_turn(&w->policy), "15: both paused");
	tap_equal(world_serve(w), -1, "15: nothing to claim");
	workq_policy_set_weight(&w->policy, 1, 2, w->now);
	tap_ok(workq_policy_has_turn(&w->policy), "15: claimable at once");
	tap_is(world_sequence(w, 3, false), "bbb", "15: and served");
	workq_policy_set_weight(&w->policy, 0, WORKQ_POLICY_INHERIT, w->now);
	tap_ok(strchr(world_sequence(w, 3, false), 'a') != NULL,
		   "15: the other, too");
	consistent(w, "15");
	world_free(w);
}

static void
settings(void)
{
	const int	weights[] = {3, -1};
	WorkqPolicyParams params = world_params();
	World	   *w = world_deep(2, weights, NULL);
	int64_t		round;

	world_sequence(w, 2, false);
	round = w->queue.ring.round;
	params.starvation_age = MINUTE;
	workq_policy_configure(&w->policy, &params, w->now);
	tap_equal(w->queue.ring.round, round, "an age starts no round");
	params.max_concurrent_per_key = 1;
	workq_policy_configure(&w->policy, &params, w->now);
	tap_equal(w->queue.ring.round, round, "a cap starts no round");
	tap_is(world_sequence(w, 2, false), "aa", "and takes no credit");
	params.max_concurrent_per_key = 0;
	workq_policy_configure(&w->policy, &params, w->now);
	params.default_weight = 2;
	workq_policy_configure(&w->policy, &params, w->now);
	tap_equal(w->queue.ring.round, round + 1, "a default weight does");
	tap_is(world_sequence(w, 6, true), "babaa b", "with its credit");
	params.quantum = 2;
	workq_policy_configure(&w->policy, &params, w->now);
	tap_equal(w->queue.ring.round, round + 3, "a quantum does");
	tap_equal(workq_policy_deficit(&w->policy, 1), 4, "with its credit");
	params.fairness_key = 1;
	workq_policy_configure(&w->policy, &params, w->now);
	tap_equal(w->queue.ring.round, round + 4, "a key does");
	params.strategy = WORKQ_POLICY_FIFO;
	workq_policy_configure(&w->policy, &params, w->now);
	tap_equal(w->queue.ring.round, round + 5, "a strategy does");
	tap_is(world_sequence(w, 3, false), "aaa", "fifo: lowest lane");
	consistent(w, "fifo");
	params.strategy = WORKQ_POLICY_DRR;
	workq_policy_configure(&w->policy, &params, w->now);
	tap_is(world_sequence(w, 10, false), "ababababaa", "drr again");
	consistent(w, "drr");
	world_free(w);
}

int
main(void)
{
	storm();
	storm_at_once();
	slow_system();
	lone_old_job();
	old_but_capped();
	promotion_is_bounded();
	after_load();
	equal_clocks();
	strict();
	after_pause();
	weights_at_run_time();
	move_of_credit();
	weight_zero();
	settings();
	return tap_done();
}
