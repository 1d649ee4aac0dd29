/*-------------------------------------------------------------------------
 *
 * policy_int.h
 *	  What the policy's files share; private to policy*.c.
 *
 * policy.c		  selections and what becomes of them
 * policy_lane.c  queues and lanes: made, configured, ready, empty
 * policy_drr.c	  rings, rounds, credit and clocks
 * policy_heap.c  lanes by the position of their best job (fifo, strict)
 * policy_view.c  what views show
 * policy_check.c is everything consistent?
 *
 * A "lane" below is a lane or a group.  Credit and list of a lane are as of
 * its "round"; policy_fresh() brings them to its ring's round, so a new round
 * touches no lane.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_POLICY_INT_H
#define WORKQ_POLICY_INT_H

#include "policy.h"

#ifdef USE_ASSERT_CHECKING
#include <assert.h>
#define policy_assert(condition) assert(condition)
#else
#define policy_assert(condition) ((void) 0)
#endif

/* WorkqPolicyLane.flags */
#define POLICY_READY		0x0001	/* may have rows */
#define POLICY_PAUSED		0x0002	/* the weight in force is 0 */
#define POLICY_OWN_WEIGHT	0x0004	/* not inherited */
#define POLICY_ELIGIBLE		0x0008	/* counted in its ring's n_eligible */
#define POLICY_GROUP		0x0010	/* u.ring, not u.head */
#define POLICY_IN_USE		0x0020
#define POLICY_UNTOUCHED	0x0040	/* ready when "round" began, not served */
#define POLICY_CAPPED		0x0080	/* ready, not paused, not eligible */
#define POLICY_APART		0x0100	/* counted in the queue's n_capped_apart */

/* How a lane becomes eligible. */
typedef enum PolicyCause
{
	POLICY_FROM_EMPTY,			/* or by weight, or not at all */
	POLICY_FROM_LOAD,			/* the same; its clock is the one given */
	POLICY_FROM_CAP				/* a place in flight is free again */
} PolicyCause;

static inline WorkqPolicyRing *
policy_ring(const WorkqPolicy *policy, int32_t group)
{
	return group < 0 ? &policy->queue->ring : &policy->lanes[group].u.ring;
}

static inline bool
policy_is_fifo(const WorkqPolicy *policy)
{
	return policy->queue->params.strategy == WORKQ_POLICY_FIFO;
}

static inline bool
policy_is_idle(const WorkqPolicyLane *lane)
{
	return (lane->flags & POLICY_READY) == 0 && lane->in_flight == 0;
}

/* The credit of a round. */
static inline int64_t
policy_full(const WorkqPolicy *policy, const WorkqPolicyLane *lane)
{
	return (int64_t) lane->weight * policy->queue->params.quantum;
}

/* Is an age (0: off) reached? */
static inline bool
policy_aged(int64_t now, int64_t since, int64_t age)
{
	return age > 0 && since <= now &&
		(uint64_t) now - (uint64_t) since >= (uint64_t) age;
}

static inline int64_t
policy_deadline(int64_t since, int64_t age)
{
	if (age <= 0 || since > INT64_MAX - age)
		return WORKQ_POLICY_NEVER;
	return since + age;
}

/* policy.c */
extern void policy_update(const WorkqPolicy *policy, int32_t i,
						  PolicyCause cause, int64_t now, int64_t since);

/* policy_lane.c */
extern void policy_ring_init(WorkqPolicyRing *ring, int64_t round);
extern int32_t policy_weight_in_force(const WorkqPolicy *policy,
									  const WorkqPolicyLane *lane,
									  int32_t weight);

/* policy_drr.c */
extern void policy_list_init(WorkqPolicyList *list);
extern void policy_link(const WorkqPolicy *policy, int32_t i, int id,
						bool at_front);
extern void policy_unlink(const WorkqPolicy *policy, int32_t i, int kind);
extern int64_t policy_credit(const WorkqPolicy *policy,
							 const WorkqPolicyLane *lane);
extern int64_t policy_clock(const WorkqPolicy *policy,
							const WorkqPolicyLane *lane);
extern void policy_fresh(const WorkqPolicy *policy, int32_t i);
extern void policy_count(const WorkqPolicy *policy, int32_t i);
extern void policy_uncount(const WorkqPolicy *policy, int32_t i);
extern void policy_join(const WorkqPolicy *policy, int32_t i);
extern void policy_place(const WorkqPolicy *policy, int32_t i,
						 bool came_back, bool exact, int64_t now);
extern void policy_to_end(const WorkqPolicy *policy, int32_t i);
extern void policy_put_back(const WorkqPolicy *policy, int32_t i,
							const WorkqPolicyCharge *charge,
							bool restore_clock);
extern void policy_clock_lower(const WorkqPolicy *policy, int32_t i,
							   int64_t since);
extern void policy_settle(const WorkqPolicy *policy, int32_t group);
extern void policy_force_round(const WorkqPolicy *policy, int32_t group,
							   int64_t now, int32_t *chain);
extern int32_t policy_pick(const WorkqPolicy *policy, int32_t group,
						   int64_t now);
extern int32_t policy_starving(const WorkqPolicy *policy, int64_t now);

/* policy_heap.c */
extern void policy_heaps_remove(const WorkqPolicy *policy, int32_t i);
extern void policy_heaps_sync(const WorkqPolicy *policy, int32_t i);
extern int	policy_heap_best(const WorkqPolicy *policy, int64_t now,
							 bool *raised);
extern int	policy_heap_oldest(const WorkqPolicy *policy);

#endif							/* WORKQ_POLICY_INT_H */
