/*-------------------------------------------------------------------------
 *
 * policy.c
 *	  Who gets the next turn: selections and what becomes of them.
 *
 * States of a lane, per queue and under the queue's lock:
 *
 *	  idle		neither ready nor in flight
 *	  busy		ready, or something in flight, or both
 *	  eligible	ready, weight above 0, below its cap; of a group: one of its
 *				lanes is eligible
 *
 * Whatever changes, the pattern is the same: bring the lane to this round
 * (policy_join when it stops being idle, else policy_fresh), take it out of
 * the ring's totals, change it, count it again, policy_update it, then its
 * group.  policy_update alone decides eligibility, and with it in which lists
 * and heaps a lane is.  Last, if nothing is ready any more, the ring settles.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "policy_int.h"

/* ------------------------------------------------------------------------
 * Eligibility
 * ------------------------------------------------------------------------ */

static bool
is_eligible(const WorkqPolicy *policy, int32_t i)
{
	const WorkqPolicyLane *lane = &policy->lanes[i];
	int32_t		cap;

	if ((lane->flags & (POLICY_READY | POLICY_PAUSED)) != POLICY_READY)
		return false;
	if ((lane->flags & POLICY_GROUP) != 0)
		return lane->u.ring.n_eligible > 0;
	cap = workq_policy_cap(policy, i);
	return cap <= 0 || lane->in_flight < cap;
}

/*
 * Note whether a lane is held up by its cap: then the turns from here on are
 * its deferrals.  "deferred" is what it has had, or, while it is held up, the
 * number of turns given at which it would have had none.
 */
static void
note_capped(const WorkqPolicy *policy, WorkqPolicyLane *lane)
{
	WorkqPolicyQueue *queue = policy->queue;
	bool		was = (lane->flags & POLICY_CAPPED) != 0;
	bool		is = (lane->flags & (POLICY_READY | POLICY_PAUSED |
									 POLICY_ELIGIBLE)) == POLICY_READY;
	int			step = is ? 1 : -1;

	if (is == was)
		return;
	lane->flags ^= POLICY_CAPPED;
	lane->deferred = queue->turns - lane->deferred;
	if ((lane->flags & POLICY_GROUP) != 0)
		return;
	queue->n_capped += step;
	if ((lane->flags & POLICY_APART) != 0)
		queue->n_capped_apart += step;
}

/*
 * After any change of a lane: see that it is where it belongs.  since: where
 * its clock starts if it has become eligible by it.
 */
void
policy_update(const WorkqPolicy *policy, int32_t i, PolicyCause cause,
			  int64_t now, int64_t since)
{
	WorkqPolicyLane *lane = &policy->lanes[i];
	WorkqPolicyRing *ring = policy_ring(policy, lane->group);
	bool		was = (lane->flags & POLICY_ELIGIBLE) != 0;
	bool		is = is_eligible(policy, i);

	if (!policy_is_idle(lane))
		policy_fresh(policy, i);
	if (is && !was)
	{
		lane->flags |= POLICY_ELIGIBLE;
		ring->n_eligible++;
		lane->clock = since;
	}
	else if (!is && was)
	{
		lane->flags &= ~POLICY_ELIGIBLE;
		ring->n_eligible--;
	}
	note_capped(policy, lane);
	policy_place(policy, i, is && !was && cause == POLICY_FROM_CAP,
				 cause == POLICY_FROM_LOAD, now);
	if ((lane->flags & POLICY_GROUP) == 0)
		policy_heaps_sync(policy, i);
}

/* ------------------------------------------------------------------------
 * Turns
 * ------------------------------------------------------------------------ */

/*
 * A lane, or the group of one, gets a turn.  in_turn: its ring's order chose
 * it.
 */
static void
serve(const WorkqPolicy *policy, int32_t i, bool in_turn, int64_t now,
	  WorkqPolicyCharge *charge)
{
	WorkqPolicyLane *lane = &policy->lanes[i];
	WorkqPolicyRing *ring = policy_ring(policy, lane->group);

	policy_join(policy, i);
	charge->round = lane->round;
	charge->clock = (lane->flags & POLICY_ELIGIBLE) != 0 ? lane->clock : now;
	charge->list_id = lane->list_id;
	charge->ring_was_last = ring->ring_was_last;
	charge->untouched = (lane->flags & POLICY_UNTOUCHED) != 0;
	lane->flags &= ~POLICY_UNTOUCHED;
	if (in_turn)
		ring->ring_was_last = lane->list_id == WORKQ_POLICY_RING;
	charge->charged = !policy_is_fifo(policy) &&
		lane->credit > -policy_full(policy, lane);
	policy_uncount(policy, i);
	if (charge->charged)
		lane->credit--;
	policy_count(policy, i);
	charge->credit = lane->credit;
	lane->in_flight++;
	lane->selected_total++;
	lane->clock = now;
	policy_to_end(policy, i);
	policy_update(policy, i, POLICY_FROM_EMPTY, now, now);
	charge->clock_after = lane->clock;
}

/*
 * A lane and its group get a turn.  decision is set already.
 */
static void
take_turn(const WorkqPolicy *policy, int32_t i, bool group_in_turn,
		  bool lane_in_turn, int64_t now, WorkqPolicySelection *selection)
{
	WorkqPolicyQueue *queue = policy->queue;
	WorkqPolicyLane *lane = &policy->lanes[i];
	int32_t		top = lane->group >= 0 ? lane->group : i;
	int			promoted = selection->decision == WORKQ_POLICY_BY_STARVATION;

	selection->lane = i;
	selection->group = lane->group;
	selection->has_share = !policy_is_fifo(policy);
	selection->clock = workq_policy_eligible(policy, top) ?
		policy_clock(policy, &policy->lanes[top]) : now;
	selection->weight = workq_policy_weight(policy, top);
	selection->turn = ++queue->turns;
	queue->deferred_total += queue->n_capped;
	queue->deferred_apart += queue->n_capped_apart;
	queue->selected_total++;
	queue->promoted_total += promoted;
	serve(policy, i, lane_in_turn, now, &selection->of_lane);
	lane->promoted_total += promoted;
	if (lane->group >= 0)
	{
		serve(policy, top, group_in_turn, now, &selection->of_group);
		policy->lanes[top].promoted_total += promoted;
		selection->round = selection->of_group.round;
		selection->credit = selection->of_group.credit;
	}
	else
	{
		selection->round = selection->of_lane.round;
		selection->credit = selection->of_lane.credit;
	}
}

/*
 * Note which job the heaps say is to be found; returns the lane at the top.
 */
static int32_t
expect_head(const WorkqPolicy *policy, int priority,
			WorkqPolicySelection *selection)
{
	int32_t		i = policy->queue->heap[priority];
	const WorkqPolicyHead *head = &policy->lanes[i].u.head[priority];

	if (head->known)
		selection->priority = priority;
	selection->since = head->since;
	selection->job_id = head->job_id;
	return i;
}

static bool
select_fifo(const WorkqPolicy *policy, int64_t now,
			WorkqPolicySelection *selection)
{
	bool		raised;
	int			priority = policy_heap_best(policy, now, &raised);
	int32_t		i;

	if (priority < 0)
		return false;
	i = expect_head(policy, priority, selection);
	selection->decision = raised ?
		WORKQ_POLICY_BY_STARVATION : WORKQ_POLICY_BY_PRIORITY;
	if (selection->priority > 0)
		selection->promotion_deadline =
			policy_deadline(selection->since,
							policy->queue->params.promote_after[priority]);
	take_turn(policy, i, false, false, now, selection);
	return true;
}

/*
 * Strict: the oldest job, if it is old enough.  Returns false if it is not.
 */
static bool
select_strict(const WorkqPolicy *policy, int32_t in_turn, int64_t now,
			  WorkqPolicySelection *selection)
{
	int64_t		age = policy->queue->params.starvation_age;
	int			priority = policy_heap_oldest(policy);
	int32_t		i;
	int32_t		group;
	bool		group_in_turn;
	bool		lane_in_turn;

	if (priority < 0)
		return false;
	i = policy->queue->heap[priority];
	if (!policy_aged(now, policy->lanes[i].u.head[priority].since, age))
		return false;
	expect_head(policy, priority, selection);
	group = policy->lanes[i].group;
	group_in_turn = group >= 0 && group == in_turn;
	lane_in_turn = group >= 0 ? i == policy_pick(policy, group, now) :
		i == in_turn;
	if ((group < 0 || group_in_turn) && lane_in_turn)
		selection->decision = WORKQ_POLICY_BY_FAIR_SHARE;
	else
		selection->decision = WORKQ_POLICY_BY_STARVATION;
	selection->promotion_deadline = policy_deadline(selection->since, age);
	take_turn(policy, i, group_in_turn, lane_in_turn, now, selection);
	return true;
}

static bool
select_drr(const WorkqPolicy *policy, int64_t now,
		   WorkqPolicySelection *selection)
{
	const WorkqPolicyParams *params = &policy->queue->params;
	int32_t		in_turn = policy_pick(policy, -1, now);
	int32_t		top = in_turn;
	int32_t		starving = -1;
	int32_t		i;

	if (in_turn < 0)
		return false;
	selection->decision = WORKQ_POLICY_BY_FAIR_SHARE;
	if (params->starvation_age > 0)
	{
		if (params->starvation_mode == WORKQ_POLICY_BOUNDED)
			starving = policy_starving(policy, now);
		else if (select_strict(policy, in_turn, now, selection))
			return true;
	}
	if (starving >= 0 && starving != in_turn)
	{
		selection->decision = WORKQ_POLICY_BY_STARVATION;
		top = starving;
	}
	i = top;
	if ((policy->lanes[top].flags & POLICY_GROUP) != 0)
		i = policy_pick(policy, top, now);
	take_turn(policy, i, top == in_turn, i != top || top == in_turn, now,
			  selection);
	selection->promotion_deadline = policy_deadline(selection->clock,
													params->starvation_age);
	return true;
}

static void
clear_selection(WorkqPolicySelection *selection)
{
	memset(selection, 0, sizeof(WorkqPolicySelection));
	selection->lane = selection->group = -1;
	selection->priority = -1;
	selection->promotion_deadline = WORKQ_POLICY_NEVER;
}

bool
workq_policy_select(const WorkqPolicy *policy, int64_t now,
					WorkqPolicySelection *selection)
{
	clear_selection(selection);
	if (policy->queue->paused)
		return false;
	if (policy_is_fifo(policy))
		return select_fifo(policy, now, selection);
	return select_drr(policy, now, selection);
}

bool
workq_policy_select_lane(const WorkqPolicy *policy, int32_t i, int64_t now,
						 WorkqPolicySelection *selection)
{
	const WorkqPolicyLane *lane = &policy->lanes[i];
	int32_t		cap = workq_policy_cap(policy, i);

	clear_selection(selection);
	if (policy->queue->paused || (lane->flags & POLICY_PAUSED) != 0)
		return false;
	if (lane->group >= 0 &&
		(policy->lanes[lane->group].flags & POLICY_PAUSED) != 0)
		return false;
	if (cap > 0 && lane->in_flight >= cap)
		return false;
	selection->decision = policy_is_fifo(policy) ?
		WORKQ_POLICY_BY_PRIORITY : WORKQ_POLICY_BY_FAIR_SHARE;
	if (!policy_is_fifo(policy))
		selection->promotion_deadline = workq_policy_promotion_time(policy, i);
	take_turn(policy, i, false, false, now, selection);
	return true;
}

/*
 * Give back a lane's turn, or a group's.  The credit of a round that is over
 * is gone, unless it was borrowed from this one.
 */
static void
give_back(const WorkqPolicy *policy, int32_t i,
		  const WorkqPolicySelection *selection,
		  const WorkqPolicyCharge *charge, int64_t now)
{
	WorkqPolicyLane *lane = &policy->lanes[i];
	WorkqPolicyRing *ring = policy_ring(policy, lane->group);
	bool		last_to_be_served;

	policy_fresh(policy, i);
	last_to_be_served = lane->clock == charge->clock_after;
	policy_uncount(policy, i);
	if (charge->charged && lane->credit < policy_full(policy, lane) &&
		(lane->round == charge->round ||
		 (lane->round == charge->round + 1 && charge->credit < 0)))
		lane->credit++;
	policy_count(policy, i);
	if (charge->untouched && lane->round == charge->round &&
		(lane->flags & POLICY_READY) != 0)
		lane->flags |= POLICY_UNTOUCHED;
	lane->in_flight--;
	lane->selected_total--;
	if (selection->decision == WORKQ_POLICY_BY_STARVATION)
		lane->promoted_total--;
	if (policy->queue->turns == selection->turn)
		ring->ring_was_last = charge->ring_was_last;
	policy_update(policy, i, POLICY_FROM_EMPTY, now, now);
	policy_put_back(policy, i, charge, last_to_be_served);
	if (policy_is_idle(lane))
		policy_settle(policy, lane->group);
}

void
workq_policy_undo(const WorkqPolicy *policy,
				  const WorkqPolicySelection *selection, int64_t now)
{
	policy->queue->selected_total--;
	if (selection->decision == WORKQ_POLICY_BY_STARVATION)
		policy->queue->promoted_total--;
	give_back(policy, selection->lane, selection, &selection->of_lane, now);
	if (selection->group >= 0)
		give_back(policy, selection->group, selection, &selection->of_group,
				  now);
}

/*
 * n places in flight of a lane, or of a group, are free again.
 */
static void
land(const WorkqPolicy *policy, int32_t i, int32_t n, int64_t now)
{
	WorkqPolicyLane *lane = &policy->lanes[i];

	policy_assert(lane->in_flight >= n);
	policy_fresh(policy, i);
	lane->in_flight -= n;
	policy_update(policy, i, POLICY_FROM_CAP, now, now);
	if (policy_is_idle(lane))
		policy_settle(policy, lane->group);
}

void
workq_policy_finish(const WorkqPolicy *policy, int32_t lane, int32_t n,
					int64_t now)
{
	int32_t		group = policy->lanes[lane].group;

	if (n > policy->lanes[lane].in_flight)
		n = policy->lanes[lane].in_flight;
	if (n <= 0)
		return;
	land(policy, lane, n, now);
	if (group >= 0)
		land(policy, group, n, now);
}

void
workq_policy_abort(const WorkqPolicy *policy, int32_t lane, int32_t n,
				   int32_t n_promoted, int64_t now)
{
	int32_t		i;

	for (i = lane; i >= 0; i = policy->lanes[i].group)
	{
		policy->lanes[i].selected_total -= n;
		policy->lanes[i].promoted_total -= n_promoted;
	}
	policy->queue->selected_total -= n;
	policy->queue->promoted_total -= n_promoted;
	workq_policy_finish(policy, lane, n, now);
}

void
workq_policy_hold(const WorkqPolicy *policy, int32_t lane, int32_t n,
				  int64_t now)
{
	int32_t		i;

	for (i = lane; i >= 0; i = policy->lanes[i].group)
	{
		policy_join(policy, i);
		policy->lanes[i].in_flight += n;
		policy_update(policy, i, POLICY_FROM_EMPTY, now, now);
	}
}
