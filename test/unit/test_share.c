/*-------------------------------------------------------------------------
 *
 * test_share.c
 *	  Shares, newcomers, returning lanes, two levels.
 *
 * Exact sequences and figures.  Numbers in names are those of the scenarios;
 * nothing depends on how fast the machine is.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <string.h>

#include "cost.h"
#include "tap.h"
#include "world.h"

/* ------------------------------------------------------------------------
 * Shares
 * ------------------------------------------------------------------------ */

static void
alternation(void)
{
	WorkqPolicyParams params = world_params();
	World	   *w;
	int			b_first;

	for (b_first = 0; b_first < 2; b_first++)
	{
		w = world_new(2, &params);
		world_add(w, 2, NULL);
		if (b_first)
			world_enqueue(w, 1, 1);
		world_enqueue(w, 0, 100);
		if (!b_first)
			world_enqueue(w, 1, 1);
		tap_ok(memchr(world_sequence(w, 2, false), 'b', 2) != NULL,
			   "1: b is the first or second claim");
		world_free(w);
	}
	w = world_new(2, &params);
	world_add(w, 2, NULL);
	world_enqueue(w, 0, 100);
	world_sequence(w, 7, false);
	world_enqueue(w, 1, 1);
	tap_is(world_sequence(w, 4, false), "baaa", "1: b comes later");
	world_free(w);
	w = world_deep(2, NULL, NULL);
	tap_is(world_sequence(w, 8, false), "abababab", "1: both deep");
	world_free(w);
}

static void
three_to_one(void)
{
	const int	weights[] = {3, 1};
	World	   *w = world_deep(2, weights, NULL);

	tap_is(world_sequence(w, 16, true), "abaa baaa baaa baaa", "2: sequence");
	world_sequence(w, 384, false);
	tap_equal(w->served[0], 300, "2: 300 of a");
	tap_equal(w->served[1], 100, "2: 100 of b");
	tap_equal(w->looks, 400, "2: every look finds a job");
	tap_equal(workq_policy_deferred_total(&w->policy, 1), 0,
			  "b was passed over, but never deferred: it has no cap");
	consistent(w, "2");
	world_free(w);
}

static void
four_weights(void)
{
	const int	weights[] = {5, 3, 1, 1};
	World	   *w = world_deep(4, weights, NULL);
	double		least[4][4];
	double		most[4][4];
	double		worst = 0;
	int			wrong = 0;
	int			t;
	int			i;
	int			j;

	memset(least, 0, sizeof(least));
	memset(most, 0, sizeof(most));
	for (t = 1; t <= 4000; t++)
	{
		world_serve(w);
		for (i = 0; i < 4; i++)
		{
			if (t % 10 == 0 && w->served[i] != t / 10 * weights[i])
				wrong++;
			for (j = 0; j < 4; j++)
			{
				double		ahead = (double) w->served[i] / weights[i];

				ahead -= (double) w->served[j] / weights[j];
				least[i][j] = fmin(least[i][j], ahead);
				most[i][j] = fmax(most[i][j], ahead);
				worst = fmax(worst, most[i][j] - least[i][j]);
			}
		}
	}
	tap_equal(wrong, 0, "3: 5, 3, 1, 1 of every 10");
	tap_between(worst, 0, 2, "3: normalised services differ in any interval");
	world_free(w);
}

static void
quantum(void)
{
	const int	weights[] = {3, 1};
	WorkqPolicyParams params = world_params();
	World	   *w;

	params.quantum = 4;
	w = world_deep(2, weights, &params);
	tap_is(world_sequence(w, 32, true), "ababababaaaaaaaa babababaaaaaaaaa",
		   "4: quantum 4");
	tap_equal(w->served[0], 24, "4: the same shares");
	world_free(w);
}

static void
many_lanes(void)
{
	WorkqPolicyParams params = world_params();
	const int	sizes[] = {10, 100000};
	int64_t		cost[2];
	int			k;

	params.starvation_age = 5 * MINUTE;
	for (k = 0; k < 2; k++)
	{
		World	   *w = world_new(sizes[k], &params);
		int			wrong = 0;
		int			i;

		world_add(w, sizes[k], NULL);
		for (i = 0; i < sizes[k]; i++)
			world_enqueue(w, i, 10);
		cost[k] = 0;
		for (i = 1; i <= 10; i++)
		{
			int64_t		worst = cost_worst(w, sizes[k]);
			int			j;

			cost[k] = worst > cost[k] ? worst : cost[k];
			for (j = 0; j < sizes[k]; j++)
				wrong += w->served[j] != i;
		}
		tap_equal(wrong, 0, "5: every lane exactly once in a round");
		consistent(w, "5");
		tap_equal(world_serve(w), -1, "5: all are served");
		consistent(w, "5");
		world_free(w);
	}
	tap_ok(cost[1] <= 2 * cost[0], "5: a claim among 100,000 lanes costs at "
		   "most twice one among 10: %lld, %lld calls",
		   (long long) cost[1], (long long) cost[0]);
}

/* ------------------------------------------------------------------------
 * Newcomers and returning lanes
 * ------------------------------------------------------------------------ */

static void
newcomer(void)
{
	const int	weights[] = {100, 100};
	WorkqPolicyParams params = world_params();
	World	   *w;
	int			trial;
	int			worst = 0;

	params.quantum = 10;
	w = world_deep(2, weights, &params);
	for (trial = 0; trial < 200; trial++)
	{
		int			n = world_random(w, 500);
		int			wait = 1;

		while (n-- > 0)
			world_serve(w);
		world_add_lane(w, 2, WORKQ_POLICY_INHERIT);
		world_enqueue(w, 2, 1);
		while (world_serve(w) != 2)
			wait++;
		worst = wait > worst ? wait : worst;
		workq_policy_lane_remove(&w->policy, 2);
	}
	tap_ok(worst <= 3, "6: a newcomer is served within 3 selections: %d",
		   worst);
	consistent(w, "6");
	world_free(w);
}

static void
no_hoarding(void)
{
	World	   *w = world_deep(1, NULL, NULL);
	int			last = -1;
	int			twice = 0;
	int			i;

	world_add_lane(w, 1, 1);
	world_enqueue(w, 1, 1);
	for (i = 0; i < 1000; i++)
		world_serve(w);
	world_enqueue(w, 1, DEEP);
	for (i = 0; i < 1000; i++)
	{
		int			lane = world_serve(w);

		twice += lane == 1 && last == 1;
		last = lane;
	}
	tap_equal(twice, 0, "7: b is never served twice in a row");
	tap_equal(w->served[1], 501, "7: but gets its half");
	world_free(w);
}

static void
gaming(void)
{
	const int	weights[] = {9};
	int			acked;

	for (acked = 0; acked < 2; acked++)
	{
		World	   *w = world_deep(1, weights, NULL);
		int			i;

		world_add_lane(w, 1, 1);
		world_enqueue(w, 1, 1);
		for (i = 0; i < 10000; i++)
		{
			int			lane = world_claim(w);

			if (lane == 1 && !acked)
				world_enqueue(w, 1, 1);
			world_ack(w, lane);
			if (lane == 1 && acked)
			{
				workq_policy_lane_empty(&w->policy, 1);
				world_enqueue(w, 1, 1);
			}
		}
		tap_between(w->served[1] / 10000.0, 0.0995, 0.1005,
					acked ? "8: c gets 10 %, new job after the ack" :
					"8: c gets 10 %, new job at the claim");
		world_free(w);
	}
}

static void
back_in_round(void)
{
	const int	weights[] = {4, 3};
	World	   *w = world_deep(2, weights, NULL);

	tap_is(world_sequence(w, 2, false), "ab", "5th rule: begin");
	workq_policy_lane_empty(&w->policy, 1);
	tap_equal(workq_policy_deficit(&w->policy, 1), 2, "b has two left");
	tap_is(world_sequence(w, 1, false), "a", "b is away");
	world_enqueue(w, 1, DEEP);
	tap_equal(workq_policy_deficit(&w->policy, 1), 2, "b has what it had");
	tap_is(world_sequence(w, 4, false), "abab", "b comes back");
	tap_equal(workq_policy_deficit(&w->policy, 1), 0, "b has none left");
	workq_policy_set_weight(&w->policy, 0, 0, w->now);
	workq_policy_set_weight(&w->policy, 0, 4, w->now);
	tap_equal(workq_policy_deficit(&w->policy, 0), 0,
			  "weight 0 and back gives no credit");
	tap_is(world_sequence(w, 7, true), "bababaa", "the next round");
	world_free(w);
}

static void
newcomers_budget(void)
{
	const int	weights[] = {2, 1};
	World	   *w = world_deep(2, weights, NULL);
	int			i;

	world_serve(w);
	/* the round has 3; lanes c to h bring 1 each */
	for (i = 2; i < 8; i++)
	{
		world_add_lane(w, i, 1);
		world_enqueue(w, i, DEEP);
	}
	tap_is(world_sequence(w, 14, true), "bacde fghbacdea",
		   "4th rule: newcomers get as much as was there, the rest waits");
	consistent(w, "newcomers");
	world_free(w);
}

/* ------------------------------------------------------------------------
 * Two levels
 * ------------------------------------------------------------------------ */

/* Groups are the last two records; A has n bindings, B one. */
static World *
two_tenants(int n, int64_t age)
{
	WorkqPolicyParams params = world_params();
	World	   *w;
	int			i;

	params.starvation_age = age > 0 ? 5 * MINUTE : 0;
	w = world_new(n + 3, &params);
	workq_policy_group_add(&w->policy, n + 1, WORKQ_POLICY_INHERIT);
	workq_policy_group_add(&w->policy, n + 2, WORKQ_POLICY_INHERIT);
	for (i = 0; i <= n; i++)
	{
		workq_policy_lane_add(&w->policy, i, i < n ? n + 1 : n + 2,
							  WORKQ_POLICY_INHERIT, WORKQ_POLICY_INHERIT);
		w->jobs[i] = DEEP;
		workq_policy_lane_ready(&w->policy, i, w->now, w->now - age);
	}
	return w;
}

static void
two_levels(void)
{
	const int	sizes[] = {20, 400};
	int			k;

	for (k = 0; k < 2; k++)
	{
		int			n = sizes[k];
		World	   *w = two_tenants(n, k * 60 * MINUTE);
		int64_t		least = DEEP;
		int64_t		most = 0;
		int			i;

		for (i = 0; i < 2 * 10 * n; i++)
			world_serve(w);
		for (i = 0; i < n; i++)
		{
			least = w->served[i] < least ? w->served[i] : least;
			most = w->served[i] > most ? w->served[i] : most;
		}
		tap_between(w->served[n], 10 * n - 1, 10 * n + 1,
					"17: B's binding gets half");
		tap_ok(least >= 9 && most <= 11,
			   "17: A's bindings get the same: %lld to %lld",
			   (long long) least, (long long) most);
		tap_equal(w->policy.lanes[n + 1].selected_total +
				  w->policy.lanes[n + 2].selected_total, 20 * n,
				  "17: the tenants' totals");
		consistent(w, "17");
		world_free(w);
	}
}

static void
groups(void)
{
	World	   *w = two_tenants(2, 0);
	WorkqPolicySelection s;

	/* lanes a and b of tenant A, c of B */
	workq_policy_set_weight(&w->policy, 3, 2, w->now);
	tap_is(world_sequence(w, 9, false), "acbacbacb", "weights name tenants");
	workq_policy_set_weight(&w->policy, 0, 3, w->now);
	world_sequence(w, 60, false);
	tap_equal(w->served[2], 23, "and B keeps its share");
	tap_between(w->served[0], 33, 36, "weights of bindings count in a tenant");
	workq_policy_set_weight(&w->policy, 3, 0, w->now);
	tap_is(world_sequence(w, 3, false), "ccc", "a tenant is paused");
	tap_ok(!workq_policy_select_lane(&w->policy, 0, w->now, &s),
		   "and so are its lanes");
	workq_policy_set_weight(&w->policy, 3, 1, w->now);
	workq_policy_set_cap(&w->policy, 2, 1, w->now);
	workq_policy_lane_empty(&w->policy, 1);
	workq_policy_set_cap(&w->policy, 0, 1, w->now);
	world_claim(w);
	world_claim(w);
	tap_equal(world_claim(w), -1, "all are at their caps");
	world_ack(w, 2);
	tap_equal(world_claim(w), 2, "B comes back");
	world_ack(w, 0);
	tap_equal(world_claim(w), 0, "A comes back");
	consistent(w, "groups");
	world_ack(w, 0);
	world_ack(w, 2);
	workq_policy_lane_empty(&w->policy, 0);
	workq_policy_lane_empty(&w->policy, 2);
	tap_ok(!workq_policy_lane_removable(&w->policy, 3),
		   "a tenant with bindings stays");
	while (workq_policy_next_removable(&w->policy) >= 0)
		workq_policy_lane_remove(&w->policy,
								 workq_policy_next_removable(&w->policy));
	tap_equal(w->queue.ring.members.first, -1, "all records are given back");
	world_free(w);
}

int
main(void)
{
	alternation();
	three_to_one();
	four_weights();
	quantum();
	many_lanes();
	newcomer();
	no_hoarding();
	gaming();
	back_in_round();
	newcomers_budget();
	two_levels();
	groups();
	return tap_done();
}
