/*-------------------------------------------------------------------------
 *
 * policy_lane.c
 *	  Queues and lanes: made, configured, ready, empty, given back.
 *
 * policy.c tells the pattern that every change follows.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "policy_int.h"

/* how many idle lanes a search for a removable one looks at */
#define MAX_IDLE_STEPS		8

/* ------------------------------------------------------------------------
 * Queues
 * ------------------------------------------------------------------------ */

void
policy_ring_init(WorkqPolicyRing *ring, int64_t round)
{
	int			id;

	memset(ring, 0, sizeof(WorkqPolicyRing));
	for (id = 0; id < WORKQ_POLICY_OWNED_LISTS; id++)
		policy_list_init(&ring->list[id]);
	policy_list_init(&ring->members);
	ring->round = round;
}

void
workq_policy_queue_init(WorkqPolicyQueue *queue,
						const WorkqPolicyParams *params, int64_t round)
{
	int			p;

	memset(queue, 0, sizeof(WorkqPolicyQueue));
	queue->params = *params;
	policy_ring_init(&queue->ring, round);
	policy_list_init(&queue->idle);
	policy_list_init(&queue->clock);
	policy_list_init(&queue->waiting);
	for (p = 0; p < WORKQ_POLICY_PRIORITIES; p++)
		queue->heap[p] = -1;
	queue->resumed_at = INT64_MIN;
}

/*
 * The weight in force, given the one that the lane was set to.
 */
int32_t
policy_weight_in_force(const WorkqPolicy *policy,
					   const WorkqPolicyLane *lane, int32_t weight)
{
	if (weight != WORKQ_POLICY_INHERIT)
		return weight;
	if (lane->group >= 0)
		return 1;
	weight = policy->queue->params.default_weight;
	return weight == 0 && policy_is_fifo(policy) ? 1 : weight;
}

/*
 * Settings are about to change: bring all lanes of a ring to this round and
 * out of the heaps.
 */
static void
prepare(const WorkqPolicy *policy, int32_t group)
{
	int32_t		i = policy_ring(policy, group)->members.first;

	for (; i >= 0; i = policy->lanes[i].link[WORKQ_POLICY_MEMBER_LINK].next)
	{
		WorkqPolicyLane *lane = &policy->lanes[i];

		if (!policy_is_idle(lane))
			policy_fresh(policy, i);
		if ((lane->flags & POLICY_GROUP) != 0)
			prepare(policy, i);
		else
			policy_heaps_remove(policy, i);
	}
}

/*
 * A ring's new round after a change of settings.  Returns the chain of lanes
 * that stood in its lists, which the caller places.
 */
static int32_t
renew(const WorkqPolicy *policy, int32_t group, bool new_clocks, int64_t now)
{
	WorkqPolicyRing *ring = policy_ring(policy, group);
	int32_t		chain;
	int32_t		i;

	policy_force_round(policy, group, now, &chain);
	for (i = chain; i >= 0;
		 i = policy->lanes[i].link[WORKQ_POLICY_TURN_LINK].next)
		policy->lanes[i].list_id = WORKQ_POLICY_NO_LIST;
	for (i = ring->members.first; i >= 0;
		 i = policy->lanes[i].link[WORKQ_POLICY_MEMBER_LINK].next)
	{
		WorkqPolicyLane *lane = &policy->lanes[i];

		if ((lane->flags & POLICY_OWN_WEIGHT) == 0)
		{
			int32_t		weight = policy_weight_in_force(policy, lane,
														WORKQ_POLICY_INHERIT);

			lane->flags &= ~POLICY_PAUSED;
			if (weight == 0)
				lane->flags |= POLICY_PAUSED;
			else
				lane->weight = weight;
		}
		if (policy_is_idle(lane))
			continue;
		policy_fresh(policy, i);
		policy_count(policy, i);
		if ((lane->flags & (POLICY_READY | POLICY_PAUSED)) == POLICY_READY)
			ring->budget += lane->credit < INT64_MAX - ring->budget ?
				lane->credit : INT64_MAX - ring->budget;
		if (new_clocks)
			lane->clock = now;
	}
	return chain;
}

/*
 * Place a ring's lanes after a change of settings, the chain's first.
 */
static void
place_all(const WorkqPolicy *policy, int32_t group, int32_t chain,
		  PolicyCause cause, int64_t now)
{
	int32_t		i;
	int32_t		next;

	for (i = chain; i >= 0; i = next)
	{
		next = policy->lanes[i].link[WORKQ_POLICY_TURN_LINK].next;
		policy_update(policy, i, cause, now, now);
	}
	for (i = policy_ring(policy, group)->members.first; i >= 0;
		 i = policy->lanes[i].link[WORKQ_POLICY_MEMBER_LINK].next)
		policy_update(policy, i, cause, now, now);
}

void
workq_policy_configure(const WorkqPolicy *policy,
					   const WorkqPolicyParams *params, int64_t now)
{
	WorkqPolicyQueue *queue = policy->queue;
	bool		new_strategy = params->strategy != queue->params.strategy;
	bool		new_round;
	PolicyCause cause;
	int32_t		chain = -1;
	int32_t		i;

	/* so pausing and much else costs the same with any number of lanes */
	if (memcmp(params, &queue->params, sizeof(WorkqPolicyParams)) == 0)
		return;
	new_round = new_strategy ||
		params->quantum != queue->params.quantum ||
		params->default_weight != queue->params.default_weight ||
		params->fairness_key != queue->params.fairness_key;
	cause = new_round ? POLICY_FROM_EMPTY : POLICY_FROM_CAP;
	prepare(policy, -1);
	queue->params = *params;
	if (new_round)
		chain = renew(policy, -1, new_strategy, now);
	for (i = queue->ring.members.first; i >= 0;
		 i = policy->lanes[i].link[WORKQ_POLICY_MEMBER_LINK].next)
	{
		if ((policy->lanes[i].flags & POLICY_GROUP) != 0)
			place_all(policy, i,
					  new_round ? renew(policy, i, new_strategy, now) : -1,
					  cause, now);
	}
	place_all(policy, -1, chain, cause, now);
}

void
workq_policy_pause(const WorkqPolicy *policy, bool paused, int64_t now)
{
	if (policy->queue->paused && !paused)
		policy->queue->resumed_at = now;
	policy->queue->paused = paused;
}

/* ------------------------------------------------------------------------
 * Lanes
 * ------------------------------------------------------------------------ */

/*
 * A zeroed record with a group, a weight and its place among the members.
 */
static void
add(const WorkqPolicy *policy, int32_t i, int32_t group, int32_t own_weight)
{
	WorkqPolicyLane *lane = &policy->lanes[i];
	int32_t		weight;

	memset(lane, 0, sizeof(WorkqPolicyLane));
	lane->flags = POLICY_IN_USE;
	lane->group = group;
	lane->round = policy_ring(policy, group)->round - 1;
	lane->list_id = lane->clock_id = WORKQ_POLICY_NO_LIST;
	if (own_weight != WORKQ_POLICY_INHERIT)
		lane->flags |= POLICY_OWN_WEIGHT;
	weight = policy_weight_in_force(policy, lane, own_weight);
	if (weight == 0)
		lane->flags |= POLICY_PAUSED;
	lane->weight = weight > 0 ? weight : 1;
	policy_link(policy, i, WORKQ_POLICY_MEMBERS, false);
}

void
workq_policy_lane_add(const WorkqPolicy *policy, int32_t lane, int32_t group,
					  int32_t weight, int32_t cap)
{
	add(policy, lane, group, weight);
	policy->lanes[lane].cap = cap;
	policy_update(policy, lane, POLICY_FROM_EMPTY, 0, 0);
}

void
workq_policy_group_add(const WorkqPolicy *policy, int32_t group,
					   int32_t weight)
{
	WorkqPolicyLane *lane = &policy->lanes[group];

	add(policy, group, -1, weight);
	lane->flags |= POLICY_GROUP;
	policy_ring_init(&lane->u.ring, policy->queue->ring.round);
	policy_update(policy, group, POLICY_FROM_EMPTY, 0, 0);
}

void
workq_policy_lane_set_apart(const WorkqPolicy *policy, int32_t i, bool apart)
{
	WorkqPolicyLane *lane = &policy->lanes[i];

	if (apart == ((lane->flags & POLICY_APART) != 0))
		return;
	lane->flags ^= POLICY_APART;
	if ((lane->flags & POLICY_CAPPED) != 0)
		policy->queue->n_capped_apart += apart ? 1 : -1;
}

bool
workq_policy_lane_removable(const WorkqPolicy *policy, int32_t i)
{
	const WorkqPolicyLane *lane = &policy->lanes[i];

	if (!policy_is_idle(lane))
		return false;
	if ((lane->flags & POLICY_GROUP) != 0 && lane->u.ring.members.first >= 0)
		return false;
	if (policy_is_fifo(policy))
		return true;
	return lane->round != policy_ring(policy, lane->group)->round &&
		policy_credit(policy, lane) == policy_full(policy, lane);
}

int32_t
workq_policy_next_removable(const WorkqPolicy *policy)
{
	int			steps;

	for (steps = 0; steps < MAX_IDLE_STEPS; steps++)
	{
		int32_t		i = policy->queue->idle.first;

		if (i < 0)
			break;
		policy_unlink(policy, i, WORKQ_POLICY_TURN_LINK);
		policy_link(policy, i, WORKQ_POLICY_IDLE, false);
		if (workq_policy_lane_removable(policy, i))
			return i;
	}
	return -1;
}

void
workq_policy_lane_remove(const WorkqPolicy *policy, int32_t i)
{
	WorkqPolicyLane *lane = &policy->lanes[i];

	if ((lane->flags & POLICY_GROUP) == 0)
	{
		workq_policy_lane_empty(policy, i);
		workq_policy_finish(policy, i, lane->in_flight, 0);
	}
	policy_assert(lane->list_id == WORKQ_POLICY_IDLE);
	policy_unlink(policy, i, WORKQ_POLICY_TURN_LINK);
	policy_unlink(policy, i, WORKQ_POLICY_MEMBER_LINK);
	memset(lane, 0, sizeof(WorkqPolicyLane));
}

static void
become_ready(const WorkqPolicy *policy, int32_t i)
{
	WorkqPolicyLane *lane = &policy->lanes[i];

	policy_join(policy, i);
	lane->flags |= POLICY_READY;
	policy_ring(policy, lane->group)->n_ready++;
	policy_count(policy, i);
}

static void
become_empty(const WorkqPolicy *policy, int32_t i)
{
	WorkqPolicyLane *lane = &policy->lanes[i];
	WorkqPolicyRing *ring = policy_ring(policy, lane->group);

	policy_fresh(policy, i);
	policy_uncount(policy, i);
	if ((lane->flags & (POLICY_UNTOUCHED | POLICY_PAUSED)) ==
		POLICY_UNTOUCHED && lane->credit > 0)
		ring->budget -= lane->credit;
	lane->flags &= ~(POLICY_READY | POLICY_UNTOUCHED);
	ring->n_ready--;
}

void
workq_policy_lane_ready(const WorkqPolicy *policy, int32_t i, int64_t now,
						int64_t since)
{
	WorkqPolicyLane *lane = &policy->lanes[i];
	int32_t		group = lane->group;
	PolicyCause cause = since < now ? POLICY_FROM_LOAD : POLICY_FROM_EMPTY;

	if (since > now)
		since = now;
	if ((lane->flags & POLICY_READY) == 0)
	{
		become_ready(policy, i);
		policy_update(policy, i, cause, now, since);
		if (group >= 0)
		{
			if ((policy->lanes[group].flags & POLICY_READY) == 0)
				become_ready(policy, group);
			policy_update(policy, group, cause, now, since);
		}
	}
	if (cause == POLICY_FROM_LOAD)
		policy_clock_lower(policy, group >= 0 ? group : i, since);
}

void
workq_policy_lane_empty(const WorkqPolicy *policy, int32_t i)
{
	WorkqPolicyLane *lane = &policy->lanes[i];
	int32_t		group = lane->group;

	if ((lane->flags & POLICY_READY) == 0)
		return;
	become_empty(policy, i);
	policy_update(policy, i, POLICY_FROM_EMPTY, 0, 0);
	if (group >= 0)
	{
		if (policy->lanes[group].u.ring.n_ready == 0)
			become_empty(policy, group);
		policy_update(policy, group, POLICY_FROM_EMPTY, 0, 0);
		policy_settle(policy, group);
	}
	policy_settle(policy, -1);
}

/*
 * Rule 9: the credit moves by (new - old) x quantum, but not below what it is
 * or 0, nor above a round's (it was not before); and a lane never owes more
 * than a round.  Weight 0 only pauses: the credit, and the weight that it was
 * counted by, stay.
 */
static void
move_credit(const WorkqPolicy *policy, WorkqPolicyLane *lane, int32_t weight)
{
	int64_t		full = (int64_t) weight * policy->queue->params.quantum;
	int64_t		credit = lane->credit + full - policy_full(policy, lane);
	int64_t		least = lane->credit < 0 ? lane->credit : 0;

	policy_assert(credit <= full);
	if (credit < least)
		credit = least;
	lane->credit = credit < -full ? -full : credit;
}

void
workq_policy_set_weight(const WorkqPolicy *policy, int32_t i,
						int32_t own_weight, int64_t now)
{
	WorkqPolicyLane *lane = &policy->lanes[i];
	int32_t		weight = policy_weight_in_force(policy, lane, own_weight);
	bool		was_paused = (lane->flags & POLICY_PAUSED) != 0;

	if (!policy_is_idle(lane))
	{
		policy_fresh(policy, i);
		policy_uncount(policy, i);
	}
	lane->flags &= ~(POLICY_OWN_WEIGHT | POLICY_PAUSED);
	if (own_weight != WORKQ_POLICY_INHERIT)
		lane->flags |= POLICY_OWN_WEIGHT;
	if (weight == 0)
		lane->flags |= POLICY_PAUSED;
	else
	{
		/* what an idle lane had in a round that is over does not matter */
		if (lane->round == policy_ring(policy, lane->group)->round)
			move_credit(policy, lane, weight);
		lane->weight = weight;
	}
	if (!policy_is_idle(lane))
		policy_count(policy, i);
	policy_update(policy, i, POLICY_FROM_EMPTY, now, now);
	if (lane->group >= 0)
		policy_update(policy, lane->group, POLICY_FROM_EMPTY, now, now);
	if ((lane->flags & POLICY_GROUP) != 0 && was_paused != (weight == 0))
	{
		for (i = lane->u.ring.members.first; i >= 0;
			 i = policy->lanes[i].link[WORKQ_POLICY_MEMBER_LINK].next)
			policy_heaps_sync(policy, i);
	}
}

void
workq_policy_set_cap(const WorkqPolicy *policy, int32_t i, int32_t cap,
					 int64_t now)
{
	WorkqPolicyLane *lane = &policy->lanes[i];

	lane->cap = cap;
	policy_update(policy, i, POLICY_FROM_CAP, now, now);
	if (lane->group >= 0)
		policy_update(policy, lane->group, POLICY_FROM_CAP, now, now);
}
