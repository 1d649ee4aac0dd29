/*-------------------------------------------------------------------------
 *
 * policy_check.c
 *	  Is everything consistent?  For tests and workq_check().
 *
 * Counts from the lanes what the rings keep as totals, and walks every list
 * and heap both ways.  Changes nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "policy_int.h"

#define CHECK(condition, complaint) \
	do { \
		if (!(condition)) \
			return complaint; \
	} while (0)

/* What the members of a ring add up to. */
typedef struct Sums
{
	int64_t		ready_weight;
	int64_t		owed;
	int64_t		in_flight;
	int64_t		n_ready;
	int64_t		n_eligible;
	int64_t		n_capped;
	int64_t		n_capped_apart;
	int64_t		n_listed;		/* in the ring's own lists */
	int64_t		n_idle;
	int64_t		n_clock;		/* in clock or waiting */
	int64_t		n_heap[WORKQ_POLICY_PRIORITIES];
} Sums;

/*
 * In which list a lane should be, as of the ring's round; RING also stands
 * for RETURNING.
 */
static int
expected_list(const WorkqPolicy *policy, const WorkqPolicyLane *lane)
{
	int64_t		credit = policy_credit(policy, lane);

	if (policy_is_idle(lane))
		return WORKQ_POLICY_IDLE;
	if ((lane->flags & POLICY_ELIGIBLE) == 0 || policy_is_fifo(policy))
		return WORKQ_POLICY_NO_LIST;
	if (credit > 0)
		return WORKQ_POLICY_RING;
	return credit > -policy_full(policy, lane) ?
		WORKQ_POLICY_SPENT : WORKQ_POLICY_DEBTORS;
}

/*
 * A lane by itself.
 */
static const char *
check_lane(const WorkqPolicy *policy, int32_t i, int32_t group)
{
	const WorkqPolicyLane *lane = &policy->lanes[i];
	const WorkqPolicyRing *ring = policy_ring(policy, group);
	int64_t		full = policy_full(policy, lane);
	bool		eligible;

	CHECK((lane->flags & POLICY_IN_USE) != 0, "lane is not in use");
	CHECK(lane->group == group, "lane is in another's members");
	CHECK(lane->weight > 0, "weight is not positive");
	CHECK(lane->in_flight >= 0, "in flight is negative");
	CHECK(lane->round <= ring->round, "round of a lane is ahead");
	CHECK(policy_credit(policy, lane) <= full, "credit is too high");
	CHECK(policy_credit(policy, lane) >= -full, "more than a round is owed");
	eligible = (lane->flags & POLICY_READY) != 0 &&
		(lane->flags & POLICY_PAUSED) == 0;
	if ((lane->flags & POLICY_GROUP) != 0)
		eligible = eligible && lane->u.ring.n_eligible > 0;
	else
		eligible = eligible && (workq_policy_cap(policy, i) <= 0 ||
								lane->in_flight < workq_policy_cap(policy, i));
	CHECK(eligible == ((lane->flags & POLICY_ELIGIBLE) != 0),
		  "eligible is wrong");
	eligible = eligible || (lane->flags & POLICY_PAUSED) != 0;
	CHECK(((lane->flags & POLICY_READY) != 0 && !eligible) ==
		  ((lane->flags & POLICY_CAPPED) != 0), "capped is wrong");
	return NULL;
}

/*
 * Is a lane in exactly those heaps in which it belongs?
 */
static const char *
check_heads(const WorkqPolicy *policy, const WorkqPolicyLane *lane, Sums *sums)
{
	const WorkqPolicyHead *head = lane->u.head;
	bool		wanted;
	bool		unknown;
	int			p;

	wanted = workq_policy_wants_heads(policy) &&
		(lane->flags & POLICY_ELIGIBLE) != 0 &&
		(lane->group < 0 ||
		 (policy->lanes[lane->group].flags & POLICY_PAUSED) == 0);
	unknown = policy_is_fifo(policy) &&
		!head[0].known && !head[1].known && !head[2].known;
	for (p = 0; p < WORKQ_POLICY_PRIORITIES; p++)
	{
		CHECK(head[p].in_heap ==
			  (wanted && (head[p].known || (p == 0 && unknown))),
			  "heap membership is wrong");
		sums->n_heap[p] += head[p].in_heap;
	}
	return NULL;
}

/*
 * Walk a list; counts its lanes and looks at each one's place in it.
 */
static const char *
check_list(const WorkqPolicy *policy, const WorkqPolicyList *list, int id,
		   int kind, int32_t group, int64_t *count)
{
	int32_t		prev = -1 - id;
	int32_t		i;

	*count = 0;
	for (i = list->first; i >= 0; i = policy->lanes[i].link[kind].next)
	{
		const WorkqPolicyLane *lane = &policy->lanes[i];
		int			expected = expected_list(policy, lane);

		CHECK(lane->link[kind].prev == prev, "list is broken");
		if (id == WORKQ_POLICY_RETURNING)
			CHECK(expected == WORKQ_POLICY_RING,
				  "lane without credit returns");
		else if (kind == WORKQ_POLICY_TURN_LINK)
			CHECK(expected == id, "lane is in the wrong list");
		else if (kind == WORKQ_POLICY_CLOCK_LINK)
			CHECK(expected < WORKQ_POLICY_OWNED_LISTS &&
				  (expected == WORKQ_POLICY_DEBTORS) ==
				  (id == WORKQ_POLICY_WAITING),
				  "lane is in the wrong clock list");
		CHECK(id == WORKQ_POLICY_IDLE || lane->group == group,
			  "lane is in another's list");
		prev = i;
		++*count;
	}
	CHECK(i == -1 - id || (i == -1 && prev < 0), "list does not end");
	CHECK(list->last == (prev >= 0 ? prev : -1), "list's last is wrong");
	return NULL;
}

/*
 * Walk a heap without recursion; counts its lanes.
 */
static const char *
check_heap(const WorkqPolicy *policy, int p, int64_t *count)
{
	int32_t		i = policy->queue->heap[p];
	int32_t		from = -1;

	*count = 0;
	while (i >= 0)
	{
		const WorkqPolicyHead *head = &policy->lanes[i].u.head[p];
		int32_t		next;

		if (from == head->parent)
		{
			int			left = 0;
			int			right = 0;

			if (head->left >= 0)
				left = policy->lanes[head->left].u.head[p].rank;
			if (head->right >= 0)
				right = policy->lanes[head->right].u.head[p].rank;
			++*count;
			CHECK(head->in_heap, "lane in a heap does not know it");
			CHECK(left >= right && head->rank == right + 1,
				  "heap is not leftist");
			if (from >= 0)
			{
				const WorkqPolicyHead *above = &policy->lanes[from].u.head[p];

				CHECK(above->since < head->since ||
					  (above->since == head->since &&
					   above->job_id <= head->job_id), "heap order is wrong");
			}
			next = head->left >= 0 ? head->left :
				head->right >= 0 ? head->right : head->parent;
		}
		else if (from == head->left && head->right >= 0)
			next = head->right;
		else
			next = head->parent;
		from = i;
		i = next;
	}
	return NULL;
}

/*
 * A ring: its members, totals and lists.  Adds to what the queue's own lists
 * and heaps should hold.
 */
static const char *
check_ring(const WorkqPolicy *policy, int32_t group, Sums *sums)
{
	const WorkqPolicyRing *ring = policy_ring(policy, group);
	int64_t		listed = 0;
	int64_t		count;
	int32_t		i = ring->members.first;
	const char *complaint;
	int			id;

	for (; i >= 0; i = policy->lanes[i].link[WORKQ_POLICY_MEMBER_LINK].next)
	{
		const WorkqPolicyLane *lane = &policy->lanes[i];
		int			expected = expected_list(policy, lane);
		int64_t		credit = policy_credit(policy, lane);

		if ((complaint = check_lane(policy, i, group)) != NULL)
			return complaint;
		sums->in_flight += lane->in_flight;
		sums->n_ready += (lane->flags & POLICY_READY) != 0;
		sums->n_eligible += (lane->flags & POLICY_ELIGIBLE) != 0;
		if ((lane->flags & (POLICY_CAPPED | POLICY_GROUP)) == POLICY_CAPPED)
		{
			sums->n_capped++;
			sums->n_capped_apart += (lane->flags & POLICY_APART) != 0;
		}
		sums->n_idle += expected == WORKQ_POLICY_IDLE;
		sums->n_listed += expected < WORKQ_POLICY_OWNED_LISTS;
		sums->n_clock += expected < WORKQ_POLICY_OWNED_LISTS && group < 0;
		if ((lane->flags & (POLICY_READY | POLICY_PAUSED)) == POLICY_READY)
		{
			sums->ready_weight += lane->weight;
			sums->owed += credit < 0 ? -credit : 0;
		}
		if ((lane->flags & POLICY_GROUP) == 0 &&
			(complaint = check_heads(policy, lane, sums)) != NULL)
			return complaint;
	}
	CHECK(sums->ready_weight == ring->ready_weight, "ready weight is wrong");
	CHECK(sums->owed == ring->owed, "total owed is wrong");
	CHECK(sums->n_ready == ring->n_ready, "number of ready lanes is wrong");
	CHECK(sums->n_eligible == ring->n_eligible,
		  "number of eligible lanes is wrong");
	for (id = 0; id < WORKQ_POLICY_OWNED_LISTS; id++)
	{
		complaint = check_list(policy, &ring->list[id], id,
							   WORKQ_POLICY_TURN_LINK, group, &count);
		if (complaint != NULL)
			return complaint;
		listed += count;
	}
	CHECK(listed == sums->n_listed, "a lane is missing in the lists");
	return check_list(policy, &ring->members, WORKQ_POLICY_MEMBERS,
					  WORKQ_POLICY_MEMBER_LINK, group, &count);
}

/*
 * The groups' rings; adds what the queue's own lists and heaps should hold.
 */
static const char *
check_groups(const WorkqPolicy *policy, Sums *sums)
{
	int32_t		i = policy->queue->ring.members.first;
	int			p;

	for (; i >= 0; i = policy->lanes[i].link[WORKQ_POLICY_MEMBER_LINK].next)
	{
		const WorkqPolicyLane *lane = &policy->lanes[i];
		Sums		in_group = {0};
		const char *complaint;

		if ((lane->flags & POLICY_GROUP) == 0)
			continue;
		complaint = check_ring(policy, i, &in_group);
		if (complaint != NULL)
			return complaint;
		CHECK(in_group.in_flight == lane->in_flight,
			  "in flight of a group is wrong");
		CHECK((in_group.n_ready > 0) == ((lane->flags & POLICY_READY) != 0),
			  "ready of a group is wrong");
		sums->n_idle += in_group.n_idle;
		sums->n_capped += in_group.n_capped;
		sums->n_capped_apart += in_group.n_capped_apart;
		for (p = 0; p < WORKQ_POLICY_PRIORITIES; p++)
			sums->n_heap[p] += in_group.n_heap[p];
	}
	return NULL;
}

const char *
workq_policy_check(const WorkqPolicy *policy)
{
	const WorkqPolicyQueue *queue = policy->queue;
	Sums		sums = {0};
	int64_t		count;
	int64_t		waiting;
	int64_t		last = INT64_MIN;
	const char *complaint;
	int32_t		i;
	int			p;

	if ((complaint = check_ring(policy, -1, &sums)) != NULL ||
		(complaint = check_groups(policy, &sums)) != NULL ||
		(complaint = check_list(policy, &queue->idle, WORKQ_POLICY_IDLE,
								WORKQ_POLICY_TURN_LINK, -1, &count)) != NULL)
		return complaint;
	CHECK(count == sums.n_idle, "an idle lane is missing");
	CHECK(sums.n_capped == queue->n_capped &&
		  sums.n_capped_apart == queue->n_capped_apart,
		  "number of capped lanes is wrong");
	complaint = check_list(policy, &queue->clock, WORKQ_POLICY_CLOCK,
						   WORKQ_POLICY_CLOCK_LINK, -1, &count);
	if (complaint != NULL)
		return complaint;
	complaint = check_list(policy, &queue->waiting, WORKQ_POLICY_WAITING,
						   WORKQ_POLICY_CLOCK_LINK, -1, &waiting);
	if (complaint != NULL)
		return complaint;
	CHECK(count + waiting == sums.n_clock, "a lane's clock is missing");
	for (i = queue->clock.first; i >= 0 && !queue->unsorted;
		 i = policy->lanes[i].link[WORKQ_POLICY_CLOCK_LINK].next)
	{
		int64_t		clock = policy_clock(policy, &policy->lanes[i]);

		CHECK(clock >= last, "clocks are not sorted");
		last = clock;
	}
	for (p = 0; p < WORKQ_POLICY_PRIORITIES; p++)
	{
		if ((complaint = check_heap(policy, p, &count)) != NULL)
			return complaint;
		CHECK(count == sums.n_heap[p], "a lane is missing in a heap");
	}
	return NULL;
}
