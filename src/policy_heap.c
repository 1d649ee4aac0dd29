/*-------------------------------------------------------------------------
 *
 * policy_heap.c
 *	  Lanes by the position of their best job, one heap per priority.
 *
 * Within a priority, (ready_since, job_id) is the order of jobs whatever the
 * time, so the best job of a queue is the best of three heap tops.  A lane
 * that is not eligible, or whose group is paused, is in no heap: lanes at
 * their cap cost nothing to pass over.
 *
 * Leftist heaps, linked through the lanes' records: no storage besides, and
 * every operation takes O(log lanes) steps, also in the worst case.
 *
 * In fifo, a lane of which no head is known is taken to have the very first
 * job: the caller of a queue with one lane need not tell heads at all.
 *
 *-------------------------------------------------------------------------
 */
#include "policy_int.h"

/*
 * Does a go before b?
 */
static bool
heap_before(const WorkqPolicy *policy, int priority, int32_t a, int32_t b)
{
	const WorkqPolicyHead *x = &policy->lanes[a].u.head[priority];
	const WorkqPolicyHead *y = &policy->lanes[b].u.head[priority];

	if (x->since != y->since)
		return x->since < y->since;
	if (x->job_id != y->job_id)
		return x->job_id < y->job_id;
	return a < b;
}

static int
heap_rank(const WorkqPolicy *policy, int priority, int32_t i)
{
	return i < 0 ? 0 : policy->lanes[i].u.head[priority].rank;
}

/*
 * Going up from a node whose children changed, restore "the left child has the
 * higher rank", until a node's rank stays what it was.  to_root: go on to the
 * root.
 */
static void
heap_fix(const WorkqPolicy *policy, int priority, int32_t i, bool to_root)
{
	while (i >= 0)
	{
		WorkqPolicyHead *head = &policy->lanes[i].u.head[priority];
		int			rank;

		if (heap_rank(policy, priority, head->left) <
			heap_rank(policy, priority, head->right))
		{
			int32_t		left = head->left;

			head->left = head->right;
			head->right = left;
		}
		rank = heap_rank(policy, priority, head->right) + 1;
		if (rank == head->rank && !to_root)
			break;
		head->rank = (int16_t) rank;
		i = head->parent;
	}
}

/*
 * Two heaps made one; returns its root, whose parent is -1.  Either may be
 * empty (-1).
 */
static int32_t
heap_meld(const WorkqPolicy *policy, int priority, int32_t a, int32_t b)
{
	int32_t		root = -1;
	int32_t		last = -1;

	/* the right spines, merged */
	while (a >= 0 || b >= 0)
	{
		int32_t		top;

		if (a < 0 || (b >= 0 && heap_before(policy, priority, b, a)))
		{
			int32_t		other = a;

			a = b;
			b = other;
		}
		top = a;
		policy->lanes[top].u.head[priority].parent = last;
		if (last < 0)
			root = top;
		else
			policy->lanes[last].u.head[priority].right = top;
		if (b < 0)
			break;
		a = policy->lanes[top].u.head[priority].right;
		last = top;
	}
	heap_fix(policy, priority, last, true);
	return root;
}

static void
heap_insert(const WorkqPolicy *policy, int priority, int32_t i)
{
	WorkqPolicyHead *head = &policy->lanes[i].u.head[priority];
	int32_t    *root = &policy->queue->heap[priority];

	head->left = head->right = head->parent = -1;
	head->rank = 1;
	head->in_heap = true;
	*root = heap_meld(policy, priority, *root, i);
}

static void
heap_delete(const WorkqPolicy *policy, int priority, int32_t i)
{
	WorkqPolicyHead *head = &policy->lanes[i].u.head[priority];
	int32_t		parent = head->parent;
	int32_t		child = heap_meld(policy, priority, head->left, head->right);

	if (child >= 0)
		policy->lanes[child].u.head[priority].parent = parent;
	if (parent < 0)
		policy->queue->heap[priority] = child;
	else
	{
		WorkqPolicyHead *above = &policy->lanes[parent].u.head[priority];

		if (above->left == i)
			above->left = child;
		else
			above->right = child;
		heap_fix(policy, priority, parent, false);
	}
	head->in_heap = false;
}

/*
 * Take a lane out of the heaps.
 */
void
policy_heaps_remove(const WorkqPolicy *policy, int32_t i)
{
	int			p;

	for (p = 0; p < WORKQ_POLICY_PRIORITIES; p++)
	{
		if (policy->lanes[i].u.head[p].in_heap)
			heap_delete(policy, p, i);
	}
}

/*
 * A lane (not a group) into the heaps in which it belongs, out of the others.
 * A head that changes must be out of its heap while it does.
 */
void
policy_heaps_sync(const WorkqPolicy *policy, int32_t i)
{
	WorkqPolicyLane *lane = &policy->lanes[i];
	WorkqPolicyHead *head = lane->u.head;
	bool		wanted;
	bool		unknown;
	int			p;

	wanted = workq_policy_wants_heads(policy) &&
		(lane->flags & POLICY_ELIGIBLE) != 0 &&
		(lane->group < 0 ||
		 (policy->lanes[lane->group].flags & POLICY_PAUSED) == 0);
	unknown = policy_is_fifo(policy) &&
		!head[0].known && !head[1].known && !head[2].known;
	if (unknown)
		head[0].since = head[0].job_id = INT64_MIN;
	for (p = 0; p < WORKQ_POLICY_PRIORITIES; p++)
	{
		bool		in = wanted && (head[p].known || (p == 0 && unknown));

		if (in && !head[p].in_heap)
			heap_insert(policy, p, i);
		else if (!in && head[p].in_heap)
			heap_delete(policy, p, i);
	}
}

void
workq_policy_lane_head(const WorkqPolicy *policy, int32_t lane, int priority,
					   int64_t since, int64_t job_id)
{
	WorkqPolicyHead *head = policy->lanes[lane].u.head;

	policy_assert((policy->lanes[lane].flags & POLICY_GROUP) == 0);
	if (head[priority].known && head[priority].since == since &&
		head[priority].job_id == job_id)
		return;
	if (head[priority].in_heap)
		heap_delete(policy, priority, lane);
	head[priority].known = true;
	head[priority].since = since;
	head[priority].job_id = job_id;
	policy_heaps_sync(policy, lane);
}

void
workq_policy_lane_head_none(const WorkqPolicy *policy, int32_t lane,
							int priority)
{
	WorkqPolicyHead *head = &policy->lanes[lane].u.head[priority];

	policy_assert((policy->lanes[lane].flags & POLICY_GROUP) == 0);
	if (!head->known)
		return;
	if (head->in_heap)
		heap_delete(policy, priority, lane);
	head->known = false;
	policy_heaps_sync(policy, lane);
}

/*
 * The priority whose heap has the queue's best job at its top, or -1.
 * *raised: its rank was raised by age.
 */
int
policy_heap_best(const WorkqPolicy *policy, int64_t now, bool *raised)
{
	const WorkqPolicyQueue *queue = policy->queue;
	const WorkqPolicyHead *best = NULL;
	int			best_priority = -1;
	int			best_rank = 0;
	int			p;

	*raised = false;
	for (p = 0; p < WORKQ_POLICY_PRIORITIES; p++)
	{
		const WorkqPolicyHead *head;
		bool		aged;
		int			rank;

		if (queue->heap[p] < 0)
			continue;
		head = &policy->lanes[queue->heap[p]].u.head[p];
		aged = p > 0 &&
			policy_aged(now, head->since, queue->params.promote_after[p]);
		rank = aged ? 0 : p;
		if (best == NULL || rank < best_rank ||
			(rank == best_rank &&
			 (head->since < best->since ||
			  (head->since == best->since && head->job_id < best->job_id))))
		{
			best = head;
			best_priority = p;
			best_rank = rank;
			*raised = aged;
		}
	}
	return best_priority;
}

/*
 * The priority whose heap has the queue's oldest job at its top, or -1.
 */
int
policy_heap_oldest(const WorkqPolicy *policy)
{
	const WorkqPolicyQueue *queue = policy->queue;
	const WorkqPolicyHead *oldest = NULL;
	int			result = -1;
	int			p;

	for (p = 0; p < WORKQ_POLICY_PRIORITIES; p++)
	{
		const WorkqPolicyHead *head;

		if (queue->heap[p] < 0)
			continue;
		head = &policy->lanes[queue->heap[p]].u.head[p];
		if (oldest == NULL || head->since < oldest->since ||
			(head->since == oldest->since && head->job_id < oldest->job_id))
		{
			oldest = head;
			result = p;
		}
	}
	return result;
}
