/*-------------------------------------------------------------------------
 *
 * world.c
 *	  A queue with jobs, for tests of the policy; see world.h.
 *
 *-------------------------------------------------------------------------
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

WorkqPolicyParams
world_params(void)
{
	WorkqPolicyParams params;

	memset(&params, 0, sizeof(params));
	params.strategy = WORKQ_POLICY_DRR;
	params.quantum = 1;
	params.default_weight = 1;
	return params;
}

World *
world_new(int n_lanes, const WorkqPolicyParams *params)
{
	World	   *w = calloc(1, sizeof(World));

	w->n_lanes = n_lanes;
	w->policy.queue = &w->queue;
	w->policy.lanes = calloc(n_lanes, sizeof(WorkqPolicyLane));
	w->jobs = calloc(n_lanes, sizeof(int64_t));
	w->served = calloc(n_lanes, sizeof(int64_t));
	w->now = 1000 * MINUTE;
	w->random = 42;
	workq_policy_queue_init(&w->queue, params, 0);
	return w;
}

void
world_free(World *w)
{
	free(w->policy.lanes);
	free(w->jobs);
	free(w->served);
	free(w);
}

void
world_add(World *w, int n, const int *weights)
{
	int			i;

	for (i = 0; i < n; i++)
		workq_policy_lane_add(&w->policy, i, -1,
							  weights != NULL ? weights[i] :
							  WORKQ_POLICY_INHERIT, WORKQ_POLICY_INHERIT);
}

void
world_add_lane(World *w, int lane, int weight)
{
	workq_policy_lane_add(&w->policy, lane, -1, weight, WORKQ_POLICY_INHERIT);
}

World *
world_deep(int n, const int *weights, const WorkqPolicyParams *params)
{
	WorkqPolicyParams plain = world_params();
	World	   *w = world_new(n + 8, params != NULL ? params : &plain);
	int			i;

	world_add(w, n, weights);
	for (i = 0; i < n; i++)
		world_enqueue(w, i, DEEP);
	return w;
}

void
world_enqueue(World *w, int lane, int64_t n)
{
	w->jobs[lane] += n;
	workq_policy_lane_ready(&w->policy, lane, w->now, w->now);
}

int
world_claim(World *w)
{
	while (workq_policy_select(&w->policy, w->now, &w->selection))
	{
		int			lane = w->selection.lane;

		w->looks++;
		if (w->jobs[lane] > 0)
		{
			w->jobs[lane]--;
			w->served[lane]++;
			return lane;
		}
		workq_policy_undo(&w->policy, &w->selection, w->now);
		workq_policy_lane_empty(&w->policy, lane);
	}
	return -1;
}

void
world_ack(World *w, int lane)
{
	workq_policy_finish(&w->policy, lane, 1, w->now);
}

void
world_rollback(World *w, int lane)
{
	w->jobs[lane]++;
	w->served[lane]--;
	workq_policy_abort(&w->policy, lane, 1, 0, w->now);
	workq_policy_lane_ready(&w->policy, lane, w->now, w->now);
}

int
world_serve(World *w)
{
	int			lane = world_claim(w);

	if (lane >= 0)
		world_ack(w, lane);
	return lane;
}

const char *
world_sequence(World *w, int n, bool blanks)
{
	static char result[1024];
	int64_t		round = -1;
	int			at = 0;

	while (n-- > 0 && at < (int) sizeof(result) - 2)
	{
		int			lane = world_serve(w);

		if (blanks && round >= 0 && w->selection.round != round)
			result[at++] = ' ';
		round = w->selection.round;
		result[at++] = lane < 0 ? '-' : (char) ('a' + lane);
	}
	result[at] = '\0';
	return result;
}

int
world_random(World *w, int n)
{
	w->random = w->random * UINT64_C(6364136223846793005) +
		UINT64_C(1442695040888963407);
	return (int) ((w->random >> 33) % (uint64_t) n);
}
