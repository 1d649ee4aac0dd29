/*-------------------------------------------------------------------------
 *
 * policy_drr.c
 *	  Rings, rounds, credit and clocks.
 *
 * A ring is what takes turns in one place: a queue's lanes and groups, or a
 * group's lanes.  An eligible lane is in one of four lists of its ring, by
 * its credit in this round; full is weight x quantum.
 *
 *	  ring		 1 to full: takes turns
 *	  returning  the same, after it came back from its cap: this list gets
 *				 every second turn while both it and the ring have lanes
 *	  spent		 0, or owes less than full: in the ring of the next round
 *	  debtors	 owes full: without credit in the next round, too
 *
 * A new round starts only when ring and returning are empty: what was spent
 * becomes the ring, what were debtors is spent.  No lane is touched.  One
 * that was last looked at in an earlier round finds its credit by
 * policy_fresh(): full, less what it owed if that was in the round before.
 * Newcomers may get as much credit as the lanes with ready work had when the
 * round started.  A lane that is found empty at its first look in a round had
 * no ready work then, so what it brought is taken off: without that, a flood
 * of lanes with one job each would make rounds longer and longer.
 *
 * No lane misses more than two rounds in a list: two rounds after it stood
 * among the debtors it is in the ring, which must be emptied lane by lane.
 *
 * Clocks.  Eligible lanes of the queue's ring are listed by clock, oldest
 * first; debtors wait in a list of their own, which joins the end of the
 * first when a round starts.  Clocks come from different processes and may
 * run backwards a little: a lane is put in its place if that is not far from
 * the end, otherwise its clock is taken to be that of its neighbour.
 *
 *-------------------------------------------------------------------------
 */
#include "policy_int.h"

/* how far from an end of the clock list a lane's place is searched */
#define MAX_CLOCK_STEPS		16

/* ------------------------------------------------------------------------
 * Lists
 * ------------------------------------------------------------------------ */

void
policy_list_init(WorkqPolicyList *list)
{
	list->first = list->last = -1;
}

/*
 * The list of this kind that a lane of this group would be in.
 */
static WorkqPolicyList *
find_list(const WorkqPolicy *policy, int32_t group, int id)
{
	switch ((WorkqPolicyListId) id)
	{
		case WORKQ_POLICY_RING:
		case WORKQ_POLICY_RETURNING:
		case WORKQ_POLICY_SPENT:
		case WORKQ_POLICY_DEBTORS:
			return &policy_ring(policy, group)->list[id];
		case WORKQ_POLICY_IDLE:
			return &policy->queue->idle;
		case WORKQ_POLICY_CLOCK:
			return &policy->queue->clock;
		case WORKQ_POLICY_WAITING:
			return &policy->queue->waiting;
		case WORKQ_POLICY_MEMBERS:
			return &policy_ring(policy, group)->members;
		case WORKQ_POLICY_NO_LIST:
			break;
	}
	policy_assert(false);
	return NULL;
}

static int
link_kind(int id)
{
	if (id < WORKQ_POLICY_CLOCK)
		return WORKQ_POLICY_TURN_LINK;
	return id == WORKQ_POLICY_MEMBERS ? WORKQ_POLICY_MEMBER_LINK :
		WORKQ_POLICY_CLOCK_LINK;
}

/* What the links at the ends of a list say. */
static int32_t
end_mark(int id)
{
	return -1 - id;
}

/*
 * Put a lane that is in no list of this kind behind another one there, or to
 * the front if that is none.
 */
static void
link_behind(const WorkqPolicy *policy, int32_t i, int id, int32_t at)
{
	WorkqPolicyLane *lane = &policy->lanes[i];
	WorkqPolicyList *list = find_list(policy, lane->group, id);
	int			kind = link_kind(id);
	WorkqPolicyLink *link = &lane->link[kind];

	link->prev = at >= 0 ? at : end_mark(id);
	link->next = at >= 0 ? policy->lanes[at].link[kind].next : list->first;
	if (link->next < 0)
	{
		link->next = end_mark(id);
		list->last = i;
	}
	else
		policy->lanes[link->next].link[kind].prev = i;
	if (at < 0)
		list->first = i;
	else
		policy->lanes[at].link[kind].next = i;
	if (kind == WORKQ_POLICY_TURN_LINK)
		lane->list_id = (uint8_t) id;
	else if (kind == WORKQ_POLICY_CLOCK_LINK)
		lane->clock_id = (uint8_t) id;
}

void
policy_link(const WorkqPolicy *policy, int32_t i, int id, bool at_front)
{
	WorkqPolicyList *list = find_list(policy, policy->lanes[i].group, id);

	link_behind(policy, i, id, at_front ? -1 : list->last);
}

/*
 * Take a lane out of the list of this kind in which it is.
 */
void
policy_unlink(const WorkqPolicy *policy, int32_t i, int kind)
{
	WorkqPolicyLane *lane = &policy->lanes[i];
	int32_t		next = lane->link[kind].next;
	int32_t		prev = lane->link[kind].prev;

	if (prev < 0)
		find_list(policy, lane->group, -1 - prev)->first =
			next < 0 ? -1 : next;
	else
		policy->lanes[prev].link[kind].next = next;
	if (next < 0)
		find_list(policy, lane->group, -1 - next)->last = prev < 0 ? -1 : prev;
	else
		policy->lanes[next].link[kind].prev = prev;
	if (kind == WORKQ_POLICY_TURN_LINK)
		lane->list_id = WORKQ_POLICY_NO_LIST;
	else if (kind == WORKQ_POLICY_CLOCK_LINK)
		lane->clock_id = WORKQ_POLICY_NO_LIST;
}

/*
 * Append a whole list to another of the same group and kind.  What the lanes
 * remember as their list is not changed.
 */
static void
append_list(const WorkqPolicy *policy, int32_t group, int from_id, int to_id)
{
	WorkqPolicyList *from = find_list(policy, group, from_id);
	WorkqPolicyList *to = find_list(policy, group, to_id);
	int			kind = link_kind(to_id);

	if (from->first < 0)
		return;
	if (to->last < 0)
	{
		to->first = from->first;
		policy->lanes[from->first].link[kind].prev = end_mark(to_id);
	}
	else
	{
		policy->lanes[to->last].link[kind].next = from->first;
		policy->lanes[from->first].link[kind].prev = to->last;
	}
	to->last = from->last;
	policy->lanes[from->last].link[kind].next = end_mark(to_id);
	policy_list_init(from);
}

/* ------------------------------------------------------------------------
 * Credit
 * ------------------------------------------------------------------------ */

/*
 * A lane's credit in its ring's round.
 */
int64_t
policy_credit(const WorkqPolicy *policy, const WorkqPolicyLane *lane)
{
	int64_t		round = policy_ring(policy, lane->group)->round;
	int64_t		elapsed = round - lane->round;
	int64_t		full = policy_full(policy, lane);

	if (elapsed == 0)
		return lane->credit;
	if (elapsed > 1 || lane->credit >= 0)
		return full;
	return lane->credit <= -full ? 0 : full + lane->credit;
}

/*
 * A lane's clock as the list has it: a debtor's starts when the round after
 * started.
 */
static int64_t
list_clock(const WorkqPolicy *policy, const WorkqPolicyLane *lane)
{
	int64_t		elapsed;

	if (lane->clock_id != WORKQ_POLICY_WAITING)
		return lane->clock;
	elapsed = policy->queue->ring.round - lane->round;
	if (elapsed == 0)
		return lane->clock;
	return policy->queue->round_start[elapsed == 1 ? 0 : 1];
}

/*
 * A lane's clock.
 */
int64_t
policy_clock(const WorkqPolicy *policy, const WorkqPolicyLane *lane)
{
	int64_t		clock = list_clock(policy, lane);
	int64_t		resumed_at = policy->queue->resumed_at;

	return clock > resumed_at ? clock : resumed_at;
}

/*
 * Bring credit, clock and lists of a lane to its ring's round.  Not for an
 * idle lane, but when it stops being idle: its round says since when it is.
 */
void
policy_fresh(const WorkqPolicy *policy, int32_t i)
{
	WorkqPolicyLane *lane = &policy->lanes[i];
	int64_t		round = policy_ring(policy, lane->group)->round;
	int64_t		credit;

	if (lane->round == round)
		return;
	credit = policy_credit(policy, lane);
	lane->clock = list_clock(policy, lane);
	if (lane->clock_id == WORKQ_POLICY_WAITING)
		lane->clock_id = WORKQ_POLICY_CLOCK;
	if (lane->list_id == WORKQ_POLICY_SPENT ||
		lane->list_id == WORKQ_POLICY_DEBTORS)
		lane->list_id = credit > 0 ? WORKQ_POLICY_RING : WORKQ_POLICY_SPENT;
	lane->credit = credit;
	lane->round = round;
	lane->flags &= ~POLICY_UNTOUCHED;
	if ((lane->flags & POLICY_READY) != 0)
		lane->flags |= POLICY_UNTOUCHED;
}

/*
 * Add what a fresh lane counts in its ring's totals, before and after any
 * change of its readiness, weight or credit.
 */
void
policy_count(const WorkqPolicy *policy, int32_t i)
{
	const WorkqPolicyLane *lane = &policy->lanes[i];
	WorkqPolicyRing *ring = policy_ring(policy, lane->group);

	if ((lane->flags & (POLICY_READY | POLICY_PAUSED)) != POLICY_READY)
		return;
	policy_assert(lane->round == ring->round);
	ring->ready_weight += lane->weight;
	if (lane->credit < 0)
		ring->owed -= lane->credit;
}

void
policy_uncount(const WorkqPolicy *policy, int32_t i)
{
	const WorkqPolicyLane *lane = &policy->lanes[i];
	WorkqPolicyRing *ring = policy_ring(policy, lane->group);

	if ((lane->flags & (POLICY_READY | POLICY_PAUSED)) != POLICY_READY)
		return;
	policy_assert(lane->round == ring->round);
	ring->ready_weight -= lane->weight;
	if (lane->credit < 0)
		ring->owed += lane->credit;
}

/*
 * A lane is about to have ready or leased jobs.  Bring it to this round; if it
 * had neither when the round began, it gets credit as far as newcomers may
 * have any.
 */
void
policy_join(const WorkqPolicy *policy, int32_t i)
{
	WorkqPolicyLane *lane = &policy->lanes[i];
	WorkqPolicyRing *ring = policy_ring(policy, lane->group);
	bool		newcomer = policy_is_idle(lane) && lane->round != ring->round;

	policy_fresh(policy, i);
	if (!newcomer || (lane->flags & POLICY_PAUSED) != 0)
		return;
	if (lane->credit <= ring->budget - ring->granted)
		ring->granted += lane->credit;
	else
		lane->credit = 0;
}

/* ------------------------------------------------------------------------
 * Clocks
 * ------------------------------------------------------------------------ */

/*
 * Put a lane, which is in no clock list, into its place there.  exact: its
 * clock must not be changed for it.
 */
static void
clock_insert(const WorkqPolicy *policy, int32_t i, bool exact)
{
	WorkqPolicyQueue *queue = policy->queue;
	WorkqPolicyLane *lane = &policy->lanes[i];
	int32_t		at = queue->clock.last;
	int			steps = 0;

	while (!queue->unsorted && at >= 0 &&
		   list_clock(policy, &policy->lanes[at]) > lane->clock)
	{
		if (steps++ == MAX_CLOCK_STEPS)
		{
			if (exact)
			{
				queue->unsorted = true;
				at = queue->clock.last;
			}
			else
				lane->clock = list_clock(policy, &policy->lanes[at]);
			break;
		}
		at = policy->lanes[at].link[WORKQ_POLICY_CLOCK_LINK].prev;
	}
	link_behind(policy, i, WORKQ_POLICY_CLOCK, at >= 0 ? at : -1);
}

/*
 * Put a lane back to its old place, which is likely to be near the front.
 */
static void
clock_restore(const WorkqPolicy *policy, int32_t i)
{
	int32_t		at = policy->queue->clock.first;
	int32_t		before = -1;
	int			steps = 0;

	while (at >= 0 && list_clock(policy, &policy->lanes[at]) <
		   policy->lanes[i].clock)
	{
		if (steps++ == MAX_CLOCK_STEPS || policy->queue->unsorted)
		{
			clock_insert(policy, i, false);
			return;
		}
		before = at;
		at = policy->lanes[at].link[WORKQ_POLICY_CLOCK_LINK].next;
	}
	link_behind(policy, i, WORKQ_POLICY_CLOCK, before);
}

/*
 * While loading: an older row of this lane turned up.
 */
void
policy_clock_lower(const WorkqPolicy *policy, int32_t i, int64_t since)
{
	WorkqPolicyLane *lane = &policy->lanes[i];

	policy_fresh(policy, i);
	if (lane->clock_id != WORKQ_POLICY_CLOCK || since >= lane->clock)
		return;
	policy_unlink(policy, i, WORKQ_POLICY_CLOCK_LINK);
	lane->clock = since;
	clock_insert(policy, i, true);
}

/*
 * Merge two chains of lanes sorted by clock; of equals, those of a first.
 */
static int32_t
clock_merge(const WorkqPolicy *policy, int32_t a, int32_t b)
{
	int32_t		first = -1;
	int32_t    *tail = &first;

	while (a >= 0 && b >= 0)
	{
		bool		take_b = policy->lanes[b].clock < policy->lanes[a].clock;
		int32_t    *least = take_b ? &b : &a;

		*tail = *least;
		tail = &policy->lanes[*least].link[WORKQ_POLICY_CLOCK_LINK].next;
		*least = *tail;
	}
	*tail = a >= 0 ? a : b;
	return first;
}

/*
 * Sort the lanes by clock: merge sort, run[k] holds 2^k lanes.
 */
static void
clock_sort(const WorkqPolicy *policy)
{
	WorkqPolicyQueue *queue = policy->queue;
	int32_t		run[32];
	int32_t		i = queue->clock.first;
	int32_t		next;
	int			k;

	for (k = 0; k < 32; k++)
		run[k] = -1;
	for (; i >= 0; i = next)
	{
		int32_t    *link;

		policy_fresh(policy, i);
		link = &policy->lanes[i].link[WORKQ_POLICY_CLOCK_LINK].next;
		next = *link;
		*link = -1;
		for (k = 0; run[k] >= 0; k++)
		{
			i = clock_merge(policy, run[k], i);
			run[k] = -1;
		}
		run[k] = i;
	}
	for (i = -1, k = 0; k < 32; k++)
		i = clock_merge(policy, run[k], i);

	policy_list_init(&queue->clock);
	for (; i >= 0; i = next)
	{
		next = policy->lanes[i].link[WORKQ_POLICY_CLOCK_LINK].next;
		policy_link(policy, i, WORKQ_POLICY_CLOCK, false);
	}
	queue->unsorted = false;
}

/*
 * The lane with the oldest clock if that is old enough to starve, or -1.
 */
int32_t
policy_starving(const WorkqPolicy *policy, int64_t now)
{
	WorkqPolicyQueue *queue = policy->queue;
	int32_t		i;

	if (queue->unsorted)
		clock_sort(policy);
	i = queue->clock.first;
	if (i >= 0 && policy_aged(now, policy_clock(policy, &policy->lanes[i]),
							  queue->params.starvation_age))
		return i;
	return -1;
}

/* ------------------------------------------------------------------------
 * Places
 * ------------------------------------------------------------------------ */

/*
 * Into which list a fresh lane belongs.
 */
static int
wanted_list(const WorkqPolicy *policy, const WorkqPolicyLane *lane,
			bool came_back)
{
	if (policy_is_idle(lane))
		return WORKQ_POLICY_IDLE;
	if ((lane->flags & POLICY_ELIGIBLE) == 0 || policy_is_fifo(policy))
		return WORKQ_POLICY_NO_LIST;
	if (lane->credit > 0)
		return came_back || lane->list_id == WORKQ_POLICY_RETURNING ?
			WORKQ_POLICY_RETURNING : WORKQ_POLICY_RING;
	return lane->credit > -policy_full(policy, lane) ?
		WORKQ_POLICY_SPENT : WORKQ_POLICY_DEBTORS;
}

/*
 * See that a lane is in the lists in which it belongs; at their end if it is
 * new there.  came_back: it has just become eligible, from its cap.  exact:
 * its clock must not be changed by sorting it in.
 */
void
policy_place(const WorkqPolicy *policy, int32_t i, bool came_back, bool exact,
			 int64_t now)
{
	WorkqPolicyLane *lane = &policy->lanes[i];
	int			list_id = wanted_list(policy, lane, came_back);
	int			clock_id = WORKQ_POLICY_NO_LIST;

	if (list_id != lane->list_id)
	{
		if (lane->list_id != WORKQ_POLICY_NO_LIST)
			policy_unlink(policy, i, WORKQ_POLICY_TURN_LINK);
		if (list_id != WORKQ_POLICY_NO_LIST)
			policy_link(policy, i, list_id, false);
	}
	if (lane->group < 0 && list_id < WORKQ_POLICY_OWNED_LISTS)
		clock_id = list_id == WORKQ_POLICY_DEBTORS ?
			WORKQ_POLICY_WAITING : WORKQ_POLICY_CLOCK;
	if (clock_id == lane->clock_id)
		return;
	if (lane->clock_id != WORKQ_POLICY_NO_LIST)
	{
		/* it may have stopped owing a full round */
		if (lane->clock_id == WORKQ_POLICY_WAITING &&
			clock_id == WORKQ_POLICY_CLOCK)
			lane->clock = now;
		policy_unlink(policy, i, WORKQ_POLICY_CLOCK_LINK);
	}
	if (clock_id == WORKQ_POLICY_CLOCK)
		clock_insert(policy, i, exact);
	else if (clock_id == WORKQ_POLICY_WAITING)
		policy_link(policy, i, clock_id, false);
}

/*
 * A lane has had a turn and was charged for it: to the end of those that take
 * turns, if it has credit left, and of those by clock.  policy_place follows.
 */
void
policy_to_end(const WorkqPolicy *policy, int32_t i)
{
	WorkqPolicyLane *lane = &policy->lanes[i];
	int			list_id = lane->list_id;

	if (lane->credit > 0 && (list_id == WORKQ_POLICY_RING ||
							 list_id == WORKQ_POLICY_RETURNING))
	{
		policy_unlink(policy, i, WORKQ_POLICY_TURN_LINK);
		policy_link(policy, i, list_id, false);
	}
	if (lane->clock_id == WORKQ_POLICY_CLOCK)
		policy_unlink(policy, i, WORKQ_POLICY_CLOCK_LINK);
}

/*
 * A turn was given back and the lane is placed: to the front of those that it
 * stood among, and back to its clock, if restore_clock.
 */
void
policy_put_back(const WorkqPolicy *policy, int32_t i,
				const WorkqPolicyCharge *charge, bool restore_clock)
{
	WorkqPolicyLane *lane = &policy->lanes[i];
	int			list_id = lane->list_id;

	if (restore_clock)
		lane->clock = charge->clock;
	if (list_id >= WORKQ_POLICY_OWNED_LISTS)
		return;
	if (lane->round == charge->round && list_id != WORKQ_POLICY_DEBTORS)
	{
		policy_unlink(policy, i, WORKQ_POLICY_TURN_LINK);
		if (lane->credit > 0)
			list_id = charge->list_id == WORKQ_POLICY_RETURNING ?
				WORKQ_POLICY_RETURNING : WORKQ_POLICY_RING;
		policy_link(policy, i, list_id, true);
	}
	if (restore_clock && lane->clock_id == WORKQ_POLICY_CLOCK)
	{
		policy_unlink(policy, i, WORKQ_POLICY_CLOCK_LINK);
		clock_restore(policy, i);
	}
}

/* ------------------------------------------------------------------------
 * Rounds
 * ------------------------------------------------------------------------ */

/*
 * A ring's next round begins; its lists are the caller's business, but for
 * those that are waiting for the clock.
 */
static void
next_round(const WorkqPolicy *policy, int32_t group, int64_t now)
{
	WorkqPolicyRing *ring = policy_ring(policy, group);
	WorkqPolicyQueue *queue = policy->queue;
	int32_t		last = queue->clock.last;

	if (group < 0)
	{
		/* keep the list sorted, should the clock have run backwards */
		if (last >= 0 && list_clock(policy, &policy->lanes[last]) > now)
			now = list_clock(policy, &policy->lanes[last]);
		queue->round_start[1] = queue->round_start[0];
		queue->round_start[0] = now;
		append_list(policy, -1, WORKQ_POLICY_WAITING, WORKQ_POLICY_CLOCK);
	}
	ring->round++;
	ring->granted = 0;
	ring->owed = 0;
}

/*
 * No eligible lane has credit: the round ends, a new one starts.
 */
static void
start_round(const WorkqPolicy *policy, int32_t group, int64_t now)
{
	WorkqPolicyRing *ring = policy_ring(policy, group);
	int64_t		quantum = policy->queue->params.quantum;

	policy_assert(ring->list[WORKQ_POLICY_RING].first < 0);
	policy_assert(ring->list[WORKQ_POLICY_RETURNING].first < 0);
	if (ring->ready_weight > INT64_MAX / quantum)
		ring->budget = INT64_MAX;
	else
		ring->budget = ring->ready_weight * quantum - ring->owed;
	next_round(policy, group, now);
	append_list(policy, group, WORKQ_POLICY_SPENT, WORKQ_POLICY_RING);
	append_list(policy, group, WORKQ_POLICY_DEBTORS, WORKQ_POLICY_SPENT);
}

/*
 * Nothing is ready in a ring: its round ends, and so does the next, so that
 * nobody owes anything and records can be given back.
 */
void
policy_settle(const WorkqPolicy *policy, int32_t group)
{
	WorkqPolicyRing *ring = policy_ring(policy, group);

	if (ring->n_ready > 0)
		return;
	policy_assert(ring->ready_weight == 0 && ring->owed == 0);
	ring->round += 2;
	ring->budget = 0;
	ring->granted = 0;
}

/*
 * Start a round though lanes may have credit.  *chain: those that stood in
 * the lists, chained by their links, those that ran out first in front; the
 * caller counts and places them.
 */
void
policy_force_round(const WorkqPolicy *policy, int32_t group, int64_t now,
				   int32_t *chain)
{
	WorkqPolicyRing *ring = policy_ring(policy, group);

	append_list(policy, group, WORKQ_POLICY_DEBTORS, WORKQ_POLICY_SPENT);
	append_list(policy, group, WORKQ_POLICY_RING, WORKQ_POLICY_SPENT);
	append_list(policy, group, WORKQ_POLICY_RETURNING, WORKQ_POLICY_SPENT);
	*chain = ring->list[WORKQ_POLICY_SPENT].first;
	policy_list_init(&ring->list[WORKQ_POLICY_SPENT]);
	next_round(policy, group, now);
	ring->ready_weight = 0;
	ring->budget = 0;
}

/*
 * The next in turn, or -1 if nobody is eligible.  Starts a round, or two if
 * all owe a full one, when nobody has credit.
 */
int32_t
policy_pick(const WorkqPolicy *policy, int32_t group, int64_t now)
{
	WorkqPolicyRing *ring = policy_ring(policy, group);

	for (;;)
	{
		int32_t		regular = ring->list[WORKQ_POLICY_RING].first;
		int32_t		returning = ring->list[WORKQ_POLICY_RETURNING].first;

		if (returning >= 0 && (regular < 0 || ring->ring_was_last))
			return returning;
		if (regular >= 0)
			return regular;
		if (ring->list[WORKQ_POLICY_SPENT].first < 0 &&
			ring->list[WORKQ_POLICY_DEBTORS].first < 0)
			return -1;
		start_round(policy, group, now);
	}
}
