/*-------------------------------------------------------------------------
 *
 * policy_view.c
 *	  What views show, and what the caller needs to know.  Changes nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "policy_int.h"

bool
workq_policy_has_turn(const WorkqPolicy *policy)
{
	const WorkqPolicyQueue *queue = policy->queue;

	if (queue->paused)
		return false;
	if (policy_is_fifo(policy))
		return queue->heap[0] >= 0 || queue->heap[1] >= 0 ||
			queue->heap[2] >= 0;
	return queue->ring.n_eligible > 0;
}

bool
workq_policy_wants_heads(const WorkqPolicy *policy)
{
	return policy_is_fifo(policy) ||
		(policy->queue->params.starvation_mode == WORKQ_POLICY_STRICT &&
		 policy->queue->params.starvation_age > 0);
}

int32_t
workq_policy_cap(const WorkqPolicy *policy, int32_t lane)
{
	int32_t		cap = policy->lanes[lane].cap;

	return cap == WORKQ_POLICY_INHERIT ?
		policy->queue->params.max_concurrent_per_key : cap;
}

int64_t
workq_policy_deficit(const WorkqPolicy *policy, int32_t i)
{
	const WorkqPolicyLane *lane = &policy->lanes[i];
	int64_t		credit = policy_credit(policy, lane);

	return (lane->flags & POLICY_PAUSED) != 0 && credit > 0 ? 0 : credit;
}

int32_t
workq_policy_weight(const WorkqPolicy *policy, int32_t i)
{
	const WorkqPolicyLane *lane = &policy->lanes[i];

	return (lane->flags & POLICY_PAUSED) != 0 ? 0 : lane->weight;
}

bool
workq_policy_ready(const WorkqPolicy *policy, int32_t lane)
{
	return (policy->lanes[lane].flags & POLICY_READY) != 0;
}

bool
workq_policy_eligible(const WorkqPolicy *policy, int32_t lane)
{
	return (policy->lanes[lane].flags & POLICY_ELIGIBLE) != 0;
}

/*
 * When the oldest known job of a lane goes first.
 */
static int64_t
head_promotion_time(const WorkqPolicy *policy, const WorkqPolicyLane *lane)
{
	const WorkqPolicyParams *params = &policy->queue->params;
	int64_t		result = WORKQ_POLICY_NEVER;
	int			p;

	for (p = 0; p < WORKQ_POLICY_PRIORITIES; p++)
	{
		int64_t		age = params->starvation_age;
		int64_t		deadline;

		if (policy_is_fifo(policy))
			age = p > 0 ? params->promote_after[p] : 0;
		if (!lane->u.head[p].known)
			continue;
		deadline = policy_deadline(lane->u.head[p].since, age);
		if (deadline < result)
			result = deadline;
	}
	return result;
}

int64_t
workq_policy_promotion_time(const WorkqPolicy *policy, int32_t i)
{
	const WorkqPolicyLane *lane = &policy->lanes[i];

	if ((lane->flags & POLICY_ELIGIBLE) == 0)
		return WORKQ_POLICY_NEVER;
	if (workq_policy_wants_heads(policy))
		return (lane->flags & POLICY_GROUP) != 0 ? WORKQ_POLICY_NEVER :
			head_promotion_time(policy, lane);
	if (lane->group >= 0)
		return workq_policy_promotion_time(policy, lane->group);
	if (policy_credit(policy, lane) <= -policy_full(policy, lane))
		return WORKQ_POLICY_NEVER;
	return policy_deadline(policy_clock(policy, lane),
						   policy->queue->params.starvation_age);
}

int64_t
workq_policy_deferred_total(const WorkqPolicy *policy, int32_t i)
{
	const WorkqPolicyLane *lane = &policy->lanes[i];

	return (lane->flags & POLICY_CAPPED) != 0 ?
		policy->queue->turns - lane->deferred : lane->deferred;
}

bool
workq_policy_capped(const WorkqPolicy *policy, int32_t lane)
{
	return (policy->lanes[lane].flags & POLICY_CAPPED) != 0;
}

double
workq_policy_share(const WorkqPolicy *policy, int32_t i)
{
	const WorkqPolicyLane *lane = &policy->lanes[i];
	const WorkqPolicyRing *ring = policy_ring(policy, lane->group);
	double		total = (double) ring->ready_weight;
	double		share;

	if (policy_is_fifo(policy) || (lane->flags & POLICY_PAUSED) != 0)
		return 0;
	if ((lane->flags & POLICY_READY) == 0)
		total += lane->weight;
	share = total > 0 ? lane->weight / total : 0;
	return lane->group >= 0 ?
		share * workq_policy_share(policy, lane->group) : share;
}

int64_t
workq_policy_longest_wait(const WorkqPolicy *policy)
{
	int32_t		first = policy->queue->clock.first;

	if (first < 0 || policy->queue->unsorted || policy->queue->paused)
		return WORKQ_POLICY_NEVER;
	return policy_clock(policy, &policy->lanes[first]);
}
