/*-------------------------------------------------------------------------
 *
 * model.h
 *	  The policy's rules again, slow and obvious.
 *
 * Written from the design, not from the code: every round touches every
 * lane, every choice looks at all of them, lists are arrays.  test_random.c
 * and fuzz.c compare the two after every step.
 *
 *-------------------------------------------------------------------------
 */
#ifndef MODEL_H
#define MODEL_H

#include "../../src/policy.h"

#define MODEL_LANES		28		/* record numbers */
#define MODEL_NOBODY	(-1)

typedef struct ModelList
{
	int			n;
	int			lane[MODEL_LANES];
} ModelList;

/* What takes turns in one place. */
typedef struct ModelRing
{
	int64_t		round;
	int64_t		budget;			/* what newcomers may get in this round */
	int64_t		granted;
	bool		ring_was_last;
	ModelList	ring;
	ModelList	returning;
	ModelList	out;			/* eligible without credit */
} ModelRing;

typedef struct ModelLane
{
	bool		used;
	bool		is_group;
	int			group;
	int64_t		order;			/* in which they were added */
	int			own_weight;
	int			last_weight;	/* the last that was not 0 */
	int			own_cap;
	bool		ready;
	bool		eligible;
	bool		debtor;			/* was, when it was last placed */
	int			in_flight;
	int64_t		credit;
	bool		present;		/* in this round: not a newcomer */
	bool		untouched;		/* in the budget, not served yet */
	int64_t		idle_since;		/* round */
	int64_t		clock;
	int64_t		clock_order;	/* among equal clocks */
	int64_t		selected;
	int64_t		promoted;
	int64_t		deferred;
	bool		known[WORKQ_POLICY_PRIORITIES];
	int64_t		since[WORKQ_POLICY_PRIORITIES];
	int64_t		job_id[WORKQ_POLICY_PRIORITIES];
	ModelRing	inner;			/* of a group */
} ModelLane;

typedef struct ModelCharge
{
	bool		charged;
	int64_t		round;
	int64_t		credit;			/* after */
	int64_t		clock;			/* before */
	int64_t		clock_after;
	bool		untouched;
	bool		was_returning;
	bool		ring_was_last;
} ModelCharge;

typedef struct ModelSelection
{
	int			lane;
	int			group;
	WorkqPolicyDecision decision;
	bool		has_share;
	int64_t		round;
	int64_t		credit;
	int			weight;
	int64_t		clock;
	int64_t		deadline;
	int			priority;
	int64_t		since;
	int64_t		job_id;
	int64_t		turn;
	ModelCharge of_lane;
	ModelCharge of_group;
} ModelSelection;

typedef struct Model
{
	WorkqPolicyParams params;
	bool		paused;
	int64_t		resumed_at;
	int64_t		selected;
	int64_t		promoted;
	int64_t		deferred;		/* of all lanes, not of groups */
	int64_t		turns;
	int64_t		n_added;
	int64_t		n_clocked;
	ModelRing	outer;
	ModelLane	lane[MODEL_LANES];
} Model;

extern void model_init(Model *m, const WorkqPolicyParams *params);
extern void model_configure(Model *m, const WorkqPolicyParams *params,
							int64_t now);
extern void model_pause(Model *m, bool paused, int64_t now);
extern void model_add(Model *m, int i, bool is_group, int group, int weight,
					  int cap);
extern void model_remove(Model *m, int i, int64_t now);
extern bool model_removable(const Model *m, int i);
extern void model_ready(Model *m, int i, int64_t now, int64_t since);
extern void model_empty(Model *m, int i);
extern void model_head(Model *m, int i, int priority, bool known,
					   int64_t since, int64_t job_id);
extern void model_set_weight(Model *m, int i, int weight, int64_t now);
extern void model_set_cap(Model *m, int i, int cap, int64_t now);
extern bool model_select(Model *m, int64_t now, ModelSelection *s);
extern bool model_select_lane(Model *m, int i, int64_t now,
							  ModelSelection *s);
extern void model_undo(Model *m, const ModelSelection *s, int64_t now);
extern void model_finish(Model *m, int i, int n, int64_t now);
extern void model_abort(Model *m, int i, int n, int n_promoted, int64_t now);
extern void model_hold(Model *m, int i, int n, int64_t now);
extern int	model_weight(const Model *m, int i);
extern int64_t model_deficit(const Model *m, int i);
extern int64_t model_promotion_time(const Model *m, int i);
extern bool model_has_turn(const Model *m);

#endif							/* MODEL_H */
