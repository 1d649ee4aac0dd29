/*-------------------------------------------------------------------------
 *
 * sim.c
 *	  Figures of a simulation with very many lanes.
 *
 * usage: sim [LANES]
 *
 * Nothing here is a test: it prints what the policy's shares, waits, sizes
 * and costs are on this machine.
 *
 *-------------------------------------------------------------------------
 */
#define _POSIX_C_SOURCE 199309L

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "world.h"

static double
seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

/* Claims of all lanes' full credit for some rounds. */
static void
shares(World *w, int n, int64_t per_round, int rounds)
{
	int64_t		i;
	double		worst = 0;
	double		squares = 0;
	double		start = seconds();

	for (i = 0; i < per_round * rounds; i++)
	{
		w->now += SECOND / 10000;
		world_serve(w);
	}
	printf("%lld claims: %.0f ns each\n", (long long) (per_round * rounds),
		   (seconds() - start) / (per_round * rounds) * 1e9);
	for (i = 0; i < n; i++)
	{
		int			weight = workq_policy_weight(&w->policy, i);
		double		expected = (double) rounds * weight;
		double		error = fabs(w->served[i] - expected) / expected;

		worst = fmax(worst, error);
		squares += error * error;
	}
	printf("share error after %d rounds: worst %.2f %%, root mean square "
		   "%.3f %%; %lld promotions\n", rounds, worst * 100,
		   sqrt(squares / n) * 100, (long long) w->queue.promoted_total);
}

/* Newcomers among lanes of which every tenth is new in this round, too. */
static void
newcomers(World *w, int n, int trials)
{
	double		sum = 0;
	int64_t		worst = 0;
	int			t;

	for (t = 0; t < trials; t++)
	{
		int64_t		wait = 1;

		workq_policy_lane_add(&w->policy, n, -1, 1, WORKQ_POLICY_INHERIT);
		world_enqueue(w, n, 1);
		while (world_serve(w) != n)
			wait++;
		sum += wait;
		worst = wait > worst ? wait : worst;
		workq_policy_lane_remove(&w->policy, n);
	}
	printf("newcomer among %d deep lanes: waits %.0f selections on average, "
		   "%lld at most\n", n, sum / trials, (long long) worst);
}

int
main(int argc, char **argv)
{
	int			n = argc > 1 ? atoi(argv[1]) : 1000000;
	WorkqPolicyParams params = world_params();
	World	   *w;
	int64_t		per_round = 0;
	double		start;
	int			i;

	printf("%d bytes per lane, %d per queue, %.1f MB for %d lanes\n",
		   (int) sizeof(WorkqPolicyLane), (int) sizeof(WorkqPolicyQueue),
		   (double) n * sizeof(WorkqPolicyLane) / (1024 * 1024), n);
	params.starvation_age = 5 * MINUTE;
	w = world_new(n + 1, &params);
	start = seconds();
	for (i = 0; i < n; i++)
	{
		int			weight = 1 + i % 4;

		workq_policy_lane_add(&w->policy, i, -1, weight,
							  WORKQ_POLICY_INHERIT);
		w->jobs[i] = DEEP;
		workq_policy_lane_ready(&w->policy, i, w->now,
								w->now - world_random(w, 1000000));
		per_round += weight;
	}
	printf("loading: %.0f ns per lane\n", (seconds() - start) / n * 1e9);
	start = seconds();
	world_serve(w);
	printf("first claim (sorts the clocks): %.0f ms\n",
		   (seconds() - start) * 1e3);
	w->served[w->selection.lane] = 0;
	shares(w, n, per_round, 8);
	start = seconds();
	params.quantum = 2;
	workq_policy_configure(&w->policy, &params, w->now);
	printf("configure, new round: %.0f ms\n", (seconds() - start) * 1e3);
	params.quantum = 1;
	params.starvation_age = 0;
	workq_policy_configure(&w->policy, &params, w->now);
	newcomers(w, n, 20);
	world_free(w);
	w = world_new(1001, &params);
	for (i = 0; i < 1000; i++)
	{
		workq_policy_lane_add(&w->policy, i, -1, 1 + i % 100,
							  WORKQ_POLICY_INHERIT);
		world_enqueue(w, i, DEEP);
	}
	newcomers(w, 1000, 1000);
	world_free(w);
	return 0;
}
