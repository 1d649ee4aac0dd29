/*-------------------------------------------------------------------------
 *
 * policy.h
 *	  Who gets the next turn: the scheduling policy, without the server.
 *
 * Plain C.  Nothing is allocated, no pointer is stored, the clock is passed
 * in: the structures live in shared memory and in test programs alike.  All
 * lanes of a server are one array; a lane is named by its index there, and
 * the lanes of a queue may be any.  The caller zeroes the structures when the
 * memory is made, and holds the queue's lock around every call.  No call
 * fails, and all take constant time but for: configure (all lanes of the
 * queue), a change between weight 0 and more of a group (its lanes), the
 * first selection after a load (sorts the lanes by clock), and what works on
 * the heaps of fifo and strict (logarithmic).
 *
 * What the caller tells:
 *	  - lane_ready: the lane may have claimable rows (again);
 *	  - lane_empty: a look found none, nothing changed meanwhile;
 *	  - select, then exactly one of undo (the look found nothing), finish (an
 *		outcome was committed) or abort (the claim was rolled back);
 *	  - lane_head: the lowest position (ready_since, job_id) that a row of
 *		this priority can have.  Only fifo and strict need it; see
 *		workq_policy_wants_heads.  It may be too low.  If a look then finds
 *		another job than the one at the position that the selection names,
 *		the caller sets the head right, undoes the selection and selects
 *		again: so the order is exact.
 *
 * Two levels: the lanes of a tenant-and-binding queue belong to a group,
 * which is a lane record too, one per tenant.  Groups are selected among the
 * queue's lanes, then one of the group's lanes.  Lanes without a group (rows
 * of an older form) may stand beside groups.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_POLICY_H
#define WORKQ_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WORKQ_POLICY_PRIORITIES		3
#define WORKQ_POLICY_NEVER			INT64_MAX	/* a time */
#define WORKQ_POLICY_INHERIT		(-1)	/* a weight or cap: the queue's */

typedef enum WorkqPolicyStrategy
{
	WORKQ_POLICY_FIFO,
	WORKQ_POLICY_DRR
} WorkqPolicyStrategy;

typedef enum WorkqPolicyMode
{
	WORKQ_POLICY_BOUNDED,
	WORKQ_POLICY_STRICT
} WorkqPolicyMode;

typedef enum WorkqPolicyDecision
{
	WORKQ_POLICY_BY_PRIORITY,
	WORKQ_POLICY_BY_FAIR_SHARE,
	WORKQ_POLICY_BY_STARVATION
} WorkqPolicyDecision;

/* Times are in microseconds, 0 is off.  The caller has checked the values. */
typedef struct WorkqPolicyParams
{
	int32_t		strategy;		/* WorkqPolicyStrategy */
	int32_t		fairness_key;	/* not interpreted; a change starts a round */
	int32_t		starvation_mode;	/* WorkqPolicyMode */
	int32_t		quantum;		/* 1 to 1,000,000 */
	int32_t		default_weight; /* 0 to 1,000,000; of lanes without a group */
	int32_t		max_concurrent_per_key; /* 0 is no cap */
	int64_t		starvation_age;
	int64_t		promote_after[WORKQ_POLICY_PRIORITIES]; /* [0] is not used */
} WorkqPolicyParams;

/*
 * A doubly linked list of lanes; -1 if empty.  At its ends, the links of the
 * lanes name the list (-1 - WorkqPolicyListId), so that a lane can leave, and
 * a whole list be appended to another, in constant time.
 */
typedef struct WorkqPolicyList
{
	int32_t		first;
	int32_t		last;
} WorkqPolicyList;

typedef struct WorkqPolicyLink
{
	int32_t		next;
	int32_t		prev;
} WorkqPolicyLink;

/* A lane can be in one list of each of these kinds. */
typedef enum WorkqPolicyLinkId
{
	WORKQ_POLICY_TURN_LINK,		/* ring, returning, spent, debtors, idle */
	WORKQ_POLICY_CLOCK_LINK,	/* clock, waiting */
	WORKQ_POLICY_MEMBER_LINK,	/* members */
	WORKQ_POLICY_LINKS
} WorkqPolicyLinkId;

typedef enum WorkqPolicyListId
{
	WORKQ_POLICY_RING,			/* have credit, take turns */
	WORKQ_POLICY_RETURNING,		/* have credit, came back from their cap */
	WORKQ_POLICY_SPENT,			/* have none, or owe less than a round */
	WORKQ_POLICY_DEBTORS,		/* owe a full round */
	WORKQ_POLICY_OWNED_LISTS,	/* the above are in every ring */
	WORKQ_POLICY_IDLE = WORKQ_POLICY_OWNED_LISTS,	/* the queue's */
	WORKQ_POLICY_CLOCK,			/* the queue's; by clock, oldest first */
	WORKQ_POLICY_WAITING,		/* the queue's; the debtors, for the clock */
	WORKQ_POLICY_MEMBERS,		/* all lanes of a ring */
	WORKQ_POLICY_NO_LIST
} WorkqPolicyListId;

/*
 * What takes turns in one place: the lanes of a queue that have no group and
 * its groups, or the lanes of a group.
 */
typedef struct WorkqPolicyRing
{
	WorkqPolicyList list[WORKQ_POLICY_OWNED_LISTS];
	WorkqPolicyList members;
	int64_t		round;
	int64_t		budget;			/* credit that newcomers may get this round */
	int64_t		granted;		/* and have got */
	int64_t		ready_weight;	/* of the ready lanes */
	int64_t		owed;			/* by the ready lanes */
	int32_t		n_ready;
	int32_t		n_eligible;
	bool		ring_was_last;	/* the next turn is the returning lanes' */
} WorkqPolicyRing;

/* A lane's place in the heap of a priority (a leftist heap). */
typedef struct WorkqPolicyHead
{
	int64_t		since;
	int64_t		job_id;
	int32_t		left;
	int32_t		right;
	int32_t		parent;
	int16_t		rank;			/* distance to the nearest missing child */
	bool		known;
	bool		in_heap;
} WorkqPolicyHead;

typedef struct WorkqPolicyLane
{
	int64_t		credit;			/* in "round"; negative: owed */
	int64_t		round;			/* of its ring; when idle: its last */
	int64_t		clock;
	int64_t		selected_total;
	int64_t		deferred;		/* see workq_policy_deferred_total */
	int32_t		promoted_total;
	int32_t		group;			/* -1 for none */
	int32_t		weight;			/* the last that was not 0 */
	int32_t		cap;			/* or WORKQ_POLICY_INHERIT */
	int32_t		in_flight;
	WorkqPolicyLink link[WORKQ_POLICY_LINKS];
	uint16_t	flags;
	uint8_t		list_id;		/* WorkqPolicyListId, as of "round" */
	uint8_t		clock_id;		/* the same for the other link */
	union
	{
		WorkqPolicyHead head[WORKQ_POLICY_PRIORITIES];	/* of a lane */
		WorkqPolicyRing ring;	/* of a group */
	}			u;
} WorkqPolicyLane;

typedef struct WorkqPolicyQueue
{
	WorkqPolicyParams params;
	WorkqPolicyRing ring;
	WorkqPolicyList idle;		/* neither ready nor in flight */
	WorkqPolicyList clock;
	WorkqPolicyList waiting;
	int32_t		heap[WORKQ_POLICY_PRIORITIES];
	int64_t		round_start[2]; /* of this round and of the one before */
	int64_t		resumed_at;
	int64_t		turns;			/* given, also those given back */
	int64_t		deferred_total; /* see workq_policy_deferred_total */
	int64_t		deferred_apart; /* of the lanes set apart */
	int32_t		n_capped;		/* ready lanes at their cap */
	int32_t		n_capped_apart; /* of which are set apart */
	int64_t		selected_total;
	int64_t		promoted_total;
	bool		paused;
	bool		unsorted;		/* the lanes by clock, after a load */
} WorkqPolicyQueue;

/* What a call works on; made on the caller's stack. */
typedef struct WorkqPolicy
{
	WorkqPolicyQueue *queue;
	WorkqPolicyLane *lanes;
} WorkqPolicy;

/* What undo needs to know of a lane or its group. */
typedef struct WorkqPolicyCharge
{
	int64_t		round;
	int64_t		credit;			/* after the charge */
	int64_t		clock;			/* before */
	int64_t		clock_after;
	uint8_t		list_id;		/* before */
	bool		charged;
	bool		untouched;		/* before */
	bool		ring_was_last;	/* before */
} WorkqPolicyCharge;

/* One selection. */
typedef struct WorkqPolicySelection
{
	int32_t		lane;
	int32_t		group;			/* -1 for none */
	WorkqPolicyDecision decision;
	bool		has_share;		/* round, credit and weight mean something */
	int64_t		round;			/* of the queue */
	int64_t		credit;			/* the lane's, or its group's, after it */
	int32_t		weight;			/* of the same */
	int64_t		clock;			/* of the same, before it; or now */
	int64_t		promotion_deadline; /* or WORKQ_POLICY_NEVER */

	/* fifo, and a promotion in strict mode: the position expected, or -1 */
	int32_t		priority;
	int64_t		since;
	int64_t		job_id;

	/* for undo */
	int64_t		turn;
	WorkqPolicyCharge of_lane;
	WorkqPolicyCharge of_group;
} WorkqPolicySelection;

/* ---- queues ---- */

/* Forgets all lanes.  Rounds go on from "round" (0 if there were none). */
extern void workq_policy_queue_init(WorkqPolicyQueue *queue,
									const WorkqPolicyParams *params,
									int64_t round);

/*
 * New settings.  Another quantum, default weight, strategy or fairness key
 * starts a new round.  Takes as long as the queue has lanes, unless all are as
 * they were; params is zeroed before it is filled in.
 */
extern void workq_policy_configure(const WorkqPolicy *policy,
								   const WorkqPolicyParams *params,
								   int64_t now);

/* While paused nothing is selected; all clocks start again at the end. */
extern void workq_policy_pause(const WorkqPolicy *policy, bool paused,
							   int64_t now);

/* Would a selection find a lane? */
extern bool workq_policy_has_turn(const WorkqPolicy *policy);

/* Must the caller tell the heads of lanes? */
extern bool workq_policy_wants_heads(const WorkqPolicy *policy);

/* ---- lanes ---- */

/*
 * Take a record into use; nothing is ready or in flight there.  weight: own
 * (0 pauses), or WORKQ_POLICY_INHERIT: the queue's default, 1 in a group.
 * In fifo only an own weight of 0 has a meaning.  cap: own (0 is none) or
 * WORKQ_POLICY_INHERIT.  group: its index, or -1.
 */
extern void workq_policy_lane_add(const WorkqPolicy *policy, int32_t lane,
								  int32_t group, int32_t weight, int32_t cap);
extern void workq_policy_group_add(const WorkqPolicy *policy, int32_t group,
								   int32_t weight);

/*
 * May the record be given back without a difference?  Nothing is ready or in
 * flight, nothing is owed, its round is over; of a group: it has no lanes.
 */
extern bool workq_policy_lane_removable(const WorkqPolicy *policy,
										int32_t lane);

/*
 * A removable lane or group, or -1.  Looks at a few and moves them to the end
 * of the idle ones, so calling it again comes to others.
 */
extern int32_t workq_policy_next_removable(const WorkqPolicy *policy);

/* Out of everything, whatever its state.  A group must have no lanes. */
extern void workq_policy_lane_remove(const WorkqPolicy *policy, int32_t lane);

/*
 * May have rows now.  since: where its clock starts if this makes it eligible.
 * That is now; but while loading it is the ready_since of a row, and calls for
 * other rows of the same lane may follow, of which the oldest counts.
 */
extern void workq_policy_lane_ready(const WorkqPolicy *policy, int32_t lane,
									int64_t now, int64_t since);
extern void workq_policy_lane_empty(const WorkqPolicy *policy, int32_t lane);

/*
 * The queue's deferred_apart counts this lane's deferrals from here on, or no
 * longer.  Not for a group.
 */
extern void workq_policy_lane_set_apart(const WorkqPolicy *policy,
										int32_t lane, bool apart);

/* Not called for a group. */
extern void workq_policy_lane_head(const WorkqPolicy *policy, int32_t lane,
								   int priority, int64_t since,
								   int64_t job_id);
extern void workq_policy_lane_head_none(const WorkqPolicy *policy,
										int32_t lane, int priority);

/* weight as in lane_add, also of a group */
extern void workq_policy_set_weight(const WorkqPolicy *policy, int32_t lane,
									int32_t weight, int64_t now);
extern void workq_policy_set_cap(const WorkqPolicy *policy, int32_t lane,
								 int32_t cap, int64_t now);

/* ---- turns ---- */

/* The next turn: charged and in flight.  False: no lane is eligible. */
extern bool workq_policy_select(const WorkqPolicy *policy, int64_t now,
								WorkqPolicySelection *selection);

/*
 * A turn of this lane, ready or not, out of the order (a job that was due, or
 * whose lease expired).  False: it is at its cap, or paused.
 */
extern bool workq_policy_select_lane(const WorkqPolicy *policy, int32_t lane,
									 int64_t now,
									 WorkqPolicySelection *selection);

/*
 * The look found nothing: everything back as it was before the selection, and
 * the lane at the head of those it stood among.
 */
extern void workq_policy_undo(const WorkqPolicy *policy,
							  const WorkqPolicySelection *selection,
							  int64_t now);

/* Outcomes of n claims of this lane are committed. */
extern void workq_policy_finish(const WorkqPolicy *policy, int32_t lane,
								int32_t n, int64_t now);

/*
 * n claims of this lane were rolled back, n_promoted of them selected by
 * starvation.  The charge stays.
 */
extern void workq_policy_abort(const WorkqPolicy *policy, int32_t lane,
							   int32_t n, int32_t n_promoted, int64_t now);

/* n more are in flight, without charge: a load found leases. */
extern void workq_policy_hold(const WorkqPolicy *policy, int32_t lane,
							  int32_t n, int64_t now);

/* ---- for views; these change nothing ---- */

/* The credit it would have if asked now; negative: what it owes. */
extern int64_t workq_policy_deficit(const WorkqPolicy *policy, int32_t lane);

/* The weight in force; 0: paused. */
extern int32_t workq_policy_weight(const WorkqPolicy *policy, int32_t lane);

/* The cap in force; 0: none. */
extern int32_t workq_policy_cap(const WorkqPolicy *policy, int32_t lane);
extern bool workq_policy_ready(const WorkqPolicy *policy, int32_t lane);
extern bool workq_policy_eligible(const WorkqPolicy *policy, int32_t lane);

/* Ready, not paused, and yet not eligible: at its cap. */
extern bool workq_policy_capped(const WorkqPolicy *policy, int32_t lane);

/*
 * The share of the turns that its weight entitles a lane to (of a lane with a
 * group: to its part of the group's) among those that are ready now and, if it
 * is not ready, itself.  0 when paused; not for fifo.
 */
extern double workq_policy_share(const WorkqPolicy *policy, int32_t lane);

/*
 * Since when the lane that has waited longest for its turn is eligible and
 * has had none; WORKQ_POLICY_NEVER when nothing is eligible, or not known
 * (fifo; before the first selection after a load).
 */
extern int64_t workq_policy_longest_wait(const WorkqPolicy *policy);

/* When it starts to starve, or WORKQ_POLICY_NEVER. */
extern int64_t workq_policy_promotion_time(const WorkqPolicy *policy,
										   int32_t lane);

/*
 * Turns that were given while this lane was ready and at its cap (a group:
 * while it was ready and none of its lanes eligible), also those given back:
 * so it never falls.  The queue's deferred_total is the sum over all lanes,
 * those that are gone included.
 */
extern int64_t workq_policy_deferred_total(const WorkqPolicy *policy,
										   int32_t lane);

/*
 * Is everything consistent?  NULL, or what is wrong.  Takes as long as the
 * queue has lanes; for tests and workq_check().
 */
extern const char *workq_policy_check(const WorkqPolicy *policy);

#endif							/* WORKQ_POLICY_H */
