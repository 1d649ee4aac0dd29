/*-------------------------------------------------------------------------
 *
 * steps.c
 *	  Random steps of the policy and its model, side by side; see steps.h.
 *
 *-------------------------------------------------------------------------
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "steps.h"

#define MAX_CLAIMS	64
#define N_GROUPS	4			/* the first records are for groups */

/* The state of a run. */
typedef struct Run
{
	Source	   *source;
	StepsKind	kind;
	int64_t		now;
	int64_t		next_job;
	WorkqPolicyQueue queue;
	WorkqPolicyLane lanes[MODEL_LANES];
	WorkqPolicy policy;
	Model		model;
	int			n_claims;
	struct Claim
	{
		WorkqPolicySelection real;
		ModelSelection expected;
	}			claims[MAX_CLAIMS];
	int			held[MODEL_LANES];	/* in flight without a claim */
	int64_t    *counts;
	const char *complaint;
} Run;

const char *const steps_names[STEPS_COUNTS] = {
	"selections", "promotions", "fair share", "by priority", "undone",
	"finished", "aborted", "empty", "ready", "lanes added", "lanes removed",
	"configured", "weights", "caps", "out of turn", "nothing eligible"
};

uint64_t
source_next(Source *source)
{
	uint64_t	z;

	if (source->data != NULL)
	{
		uint64_t	value = 0;
		int			k;

		for (k = 0; k < 2; k++)
		{
			if (source->at < source->size)
				value = value << 8 | source->data[source->at];
			source->at++;
		}
		return value;
	}
	/* splitmix64 */
	z = (source->state += UINT64_C(0x9e3779b97f4a7c15));
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

int
source_below(Source *source, int n)
{
	return (int) (source_next(source) % (uint64_t) n);
}

static int
below(Run *run, int n)
{
	return source_below(run->source, n);
}

static bool
one_in(Run *run, int n)
{
	return below(run, n) == 0;
}

static void
count(Run *run, int what)
{
	if (run->counts != NULL)
		run->counts[what]++;
}

#define MUST(run, condition) \
	do { \
		if (!(condition) && (run)->complaint == NULL) \
			(run)->complaint = #condition; \
	} while (0)

/* A used record of a kind, or -1. */
static int
any_lane(Run *run, bool group)
{
	int			first = group ? 0 : N_GROUPS;
	int			n = group ? N_GROUPS : MODEL_LANES - N_GROUPS;
	int			at = below(run, n);
	int			k;

	for (k = 0; k < n; k++)
	{
		int			i = first + (at + k) % n;

		if (run->model.lane[i].used)
			return i;
	}
	return -1;
}

static int
top_lanes(const Run *run)
{
	int			k;
	int			n = 0;

	for (k = 0; k < MODEL_LANES; k++)
		n += run->model.lane[k].used && run->model.lane[k].group < 0;
	return n;
}

/* ------------------------------------------------------------------------
 * Agreement
 * ------------------------------------------------------------------------ */

static void
compare_selection(Run *run, const WorkqPolicySelection *r,
				  const ModelSelection *e)
{
	MUST(run, r->lane == e->lane);
	MUST(run, r->group == e->group);
	MUST(run, r->decision == e->decision);
	MUST(run, r->has_share == e->has_share);
	MUST(run, r->priority == e->priority);
	if (e->priority >= 0)
	{
		MUST(run, r->since == e->since);
		MUST(run, r->job_id == e->job_id);
	}
	if (!e->has_share)
		return;
	MUST(run, r->round == e->round);
	MUST(run, r->credit == e->credit);
	MUST(run, r->weight == e->weight);
	MUST(run, r->clock == e->clock);
}

static void
compare_lane(Run *run, int i)
{
	const WorkqPolicy *p = &run->policy;
	const WorkqPolicyLane *r = &run->lanes[i];
	const ModelLane *e = &run->model.lane[i];

	if (!e->used)
		return;
	MUST(run, r->in_flight == e->in_flight);
	MUST(run, r->selected_total == e->selected);
	MUST(run, r->promoted_total == e->promoted);
	MUST(run, workq_policy_deferred_total(p, i) == e->deferred);
	MUST(run, workq_policy_ready(p, i) == e->ready);
	MUST(run, workq_policy_eligible(p, i) == e->eligible);
	MUST(run, workq_policy_weight(p, i) == model_weight(&run->model, i));
	MUST(run, workq_policy_lane_removable(p, i) ==
		 model_removable(&run->model, i));
	MUST(run, workq_policy_promotion_time(p, i) ==
		 model_promotion_time(&run->model, i));
	if (run->model.params.strategy == WORKQ_POLICY_DRR)
		MUST(run, workq_policy_deficit(p, i) ==
			 model_deficit(&run->model, i));
}

static void
compare(Run *run, bool all)
{
	int			k;

	MUST(run, run->queue.ring.round == run->model.outer.round);
	MUST(run, run->queue.selected_total == run->model.selected);
	MUST(run, run->queue.promoted_total == run->model.promoted);
	MUST(run, run->queue.deferred_total == run->model.deferred);
	MUST(run, workq_policy_has_turn(&run->policy) ==
		 model_has_turn(&run->model));
	if (!all)
		return;
	for (k = 0; k < MODEL_LANES; k++)
		compare_lane(run, k);
	if (run->complaint == NULL)
		run->complaint = workq_policy_check(&run->policy);
}

/* ------------------------------------------------------------------------
 * Steps
 * ------------------------------------------------------------------------ */

static int
random_weight(Run *run)
{
	static const int weights[] = {-1, -1, -1, 0, 1, 1, 2, 3, 5, 9};

	return weights[below(run, 10)];
}

static int
random_cap(Run *run)
{
	static const int caps[] = {-1, -1, -1, 0, 1, 2, 3};

	return caps[below(run, 7)];
}

static void
random_params(Run *run, WorkqPolicyParams *params)
{
	static const int64_t ages[] = {0, 0, 5, 20, 60, 200};

	params->strategy = one_in(run, 4) ? WORKQ_POLICY_FIFO : WORKQ_POLICY_DRR;
	params->fairness_key = one_in(run, 8);
	params->starvation_mode = one_in(run, 4) ?
		WORKQ_POLICY_STRICT : WORKQ_POLICY_BOUNDED;
	params->quantum = one_in(run, 3) ? 1 + below(run, 4) : 1;
	params->default_weight = one_in(run, 12) ? 0 : 1 + below(run, 2);
	params->max_concurrent_per_key = one_in(run, 3) ? 1 + below(run, 3) : 0;
	params->starvation_age = ages[below(run, 6)];
	params->promote_after[0] = 0;
	params->promote_after[1] = ages[below(run, 6)];
	params->promote_after[2] = ages[below(run, 6)];
}

static void
step_configure(Run *run)
{
	WorkqPolicyParams params = run->model.params;
	WorkqPolicyParams other;

	random_params(run, &other);
	if (one_in(run, 4))
		params = other;
	else
	{
		/* one of them, so that some changes start no round */
		switch (below(run, 5))
		{
			case 0:
				params.quantum = other.quantum;
				break;
			case 1:
				params.default_weight = other.default_weight;
				break;
			case 2:
				params.max_concurrent_per_key = other.max_concurrent_per_key;
				break;
			case 3:
				params.starvation_mode = other.starvation_mode;
				params.starvation_age = other.starvation_age;
				break;
			case 4:
				params.strategy = other.strategy;
				break;
		}
	}
	workq_policy_configure(&run->policy, &params, run->now);
	model_configure(&run->model, &params, run->now);
	count(run, 11);
}

static void
step_add(Run *run)
{
	int			k;
	int			group = -1;
	int			weight = random_weight(run);
	int			cap = random_cap(run);

	if (run->kind == STEPS_GROUPS)
	{
		if (one_in(run, 4))
		{
			for (k = 0; k < N_GROUPS; k++)
			{
				if (!run->model.lane[k].used)
					break;
			}
			if (k == N_GROUPS || top_lanes(run) >= 12)
				return;
			workq_policy_group_add(&run->policy, k, weight);
			model_add(&run->model, k, true, -1, weight, -1);
			count(run, 9);
			return;
		}
		if (!one_in(run, 5))
			group = any_lane(run, true);
	}
	if (group < 0 && top_lanes(run) >= 12)
		return;
	for (k = N_GROUPS; k < MODEL_LANES; k++)
	{
		if (!run->model.lane[k].used)
			break;
	}
	if (k == MODEL_LANES)
		return;
	workq_policy_lane_add(&run->policy, k, group, weight, cap);
	model_add(&run->model, k, false, group, weight, cap);
	run->held[k] = 0;
	count(run, 9);
}

static void
remove_lane(Run *run, int i)
{
	int			k;
	int			n = 0;

	workq_policy_lane_remove(&run->policy, i);
	model_remove(&run->model, i, 0);
	for (k = 0; k < run->n_claims; k++)
	{
		if (run->claims[k].real.lane != i)
			run->claims[n++] = run->claims[k];
	}
	run->n_claims = n;
	count(run, 10);
}

static void
step_remove(Run *run)
{
	int			i;

	if (one_in(run, 3))
	{
		i = any_lane(run, false);
		if (i >= 0)
			remove_lane(run, i);
		return;
	}
	i = workq_policy_next_removable(&run->policy);
	if (i >= 0)
	{
		MUST(run, model_removable(&run->model, i));
		remove_lane(run, i);
	}
}

static void
step_ready(Run *run)
{
	int			i = any_lane(run, false);
	int64_t		since = run->now;

	if (i < 0)
		return;
	if (one_in(run, 16))
		since = run->now - below(run, 100) + 10;
	workq_policy_lane_ready(&run->policy, i, run->now, since);
	model_ready(&run->model, i, run->now, since);
	count(run, 8);
}

static void
set_empty(Run *run, int i)
{
	workq_policy_lane_empty(&run->policy, i);
	model_empty(&run->model, i);
	count(run, 7);
}

static void
step_head(Run *run)
{
	int			i = any_lane(run, false);
	int			p = below(run, WORKQ_POLICY_PRIORITIES);
	int64_t		since = run->now - below(run, 100);

	if (i < 0)
		return;
	if (one_in(run, 3))
	{
		workq_policy_lane_head_none(&run->policy, i, p);
		model_head(&run->model, i, p, false, 0, 0);
		return;
	}
	run->next_job++;
	workq_policy_lane_head(&run->policy, i, p, since, run->next_job);
	model_head(&run->model, i, p, true, since, run->next_job);
}

static void
drop_claim(Run *run, int c)
{
	run->n_claims--;
	run->claims[c] = run->claims[run->n_claims];
}

static void
step_select(Run *run, bool any)
{
	struct Claim *claim;
	bool		real;
	bool		expected;
	int			i = any ? any_lane(run, false) : -1;

	if (run->n_claims == MAX_CLAIMS || (any && i < 0))
		return;
	claim = &run->claims[run->n_claims];
	if (any)
	{
		real = workq_policy_select_lane(&run->policy, i, run->now,
										&claim->real);
		expected = model_select_lane(&run->model, i, run->now,
									 &claim->expected);
	}
	else
	{
		real = workq_policy_select(&run->policy, run->now, &claim->real);
		expected = model_select(&run->model, run->now, &claim->expected);
	}
	MUST(run, real == expected);
	if (!real || !expected)
	{
		count(run, 15);
		return;
	}
	compare_selection(run, &claim->real, &claim->expected);
	MUST(run, any ||
		 claim->real.promotion_deadline == claim->expected.deadline);
	run->n_claims++;
	count(run, any ? 14 : 0);
	if (!any)
		count(run, claim->real.decision == WORKQ_POLICY_BY_STARVATION ? 1 :
			  claim->real.decision == WORKQ_POLICY_BY_FAIR_SHARE ? 2 : 3);
}

static void
step_undo(Run *run)
{
	int			c;
	int			i;

	if (run->n_claims == 0)
		return;
	c = one_in(run, 3) ? below(run, run->n_claims) : run->n_claims - 1;
	i = run->claims[c].real.lane;
	workq_policy_undo(&run->policy, &run->claims[c].real, run->now);
	model_undo(&run->model, &run->claims[c].expected, run->now);
	drop_claim(run, c);
	count(run, 4);
	if (!one_in(run, 3))
		set_empty(run, i);
}

static void
step_end(Run *run, bool commit)
{
	int			c;
	int			i;
	int			promoted;

	if (run->n_claims == 0)
		return;
	c = below(run, run->n_claims);
	i = run->claims[c].real.lane;
	promoted = run->claims[c].real.decision == WORKQ_POLICY_BY_STARVATION;
	drop_claim(run, c);
	if (commit)
	{
		workq_policy_finish(&run->policy, i, 1, run->now);
		model_finish(&run->model, i, 1, run->now);
		count(run, 5);
		return;
	}
	workq_policy_abort(&run->policy, i, 1, promoted, run->now);
	model_abort(&run->model, i, 1, promoted, run->now);
	count(run, 6);
}

static void
step_hold(Run *run)
{
	int			i = any_lane(run, false);
	int			n = 1 + below(run, 3);

	if (i < 0)
		return;
	if (run->held[i] > 0)
	{
		n = run->held[i];
		workq_policy_finish(&run->policy, i, n, run->now);
		model_finish(&run->model, i, n, run->now);
		run->held[i] = 0;
		return;
	}
	workq_policy_hold(&run->policy, i, n, run->now);
	model_hold(&run->model, i, n, run->now);
	run->held[i] = n;
}

static void
step_weight(Run *run)
{
	int			i = any_lane(run, run->kind == STEPS_GROUPS && one_in(run, 3));
	int			weight = random_weight(run);

	if (i < 0)
		return;
	workq_policy_set_weight(&run->policy, i, weight, run->now);
	model_set_weight(&run->model, i, weight, run->now);
	count(run, 12);
}

static void
step_cap(Run *run)
{
	int			i = any_lane(run, false);
	int			cap = random_cap(run);

	if (i < 0)
		return;
	workq_policy_set_cap(&run->policy, i, cap, run->now);
	model_set_cap(&run->model, i, cap, run->now);
	count(run, 13);
}

static void
step_rare(Run *run)
{
	switch (below(run, 6))
	{
		case 0:
			step_configure(run);
			break;
		case 1:
			workq_policy_pause(&run->policy, !run->model.paused, run->now);
			model_pause(&run->model, !run->model.paused, run->now);
			break;
		case 2:
			/* nobody's, or several, or backwards */
			run->now += below(run, 300) - 20;
			break;
		case 3:
			step_hold(run);
			break;
		default:
			step_cap(run);
			break;
	}
	if (run->model.paused && !one_in(run, 3))
	{
		workq_policy_pause(&run->policy, false, run->now);
		model_pause(&run->model, false, run->now);
	}
}

static void
step(Run *run)
{
	int			what = below(run, 100);

	run->now += one_in(run, 3) ? below(run, 4) : 0;
	if (what < 40)
		step_select(run, false);
	else if (what < 58)
		step_ready(run);
	else if (what < 68)
		step_end(run, true);
	else if (what < 73)
		step_end(run, false);
	else if (what < 80)
		step_undo(run);
	else if (what < 83)
	{
		int			i = any_lane(run, false);

		if (i >= 0)
			set_empty(run, i);
	}
	else if (what < 88)
		step_head(run);
	else if (what < 90)
		step_add(run);
	else if (what < 92)
		step_remove(run);
	else if (what < 95)
		step_weight(run);
	else if (what < 97)
		step_select(run, true);
	else
		step_rare(run);
}

const char *
steps_run(Source *source, StepsKind kind, int64_t n, int64_t *failed,
		  int64_t *counts)
{
	static Run	run;
	WorkqPolicyParams params;
	int64_t		k;

	memset(&run, 0, sizeof(run));
	run.source = source;
	run.kind = kind;
	run.counts = counts;
	run.now = 1000;
	run.policy.queue = &run.queue;
	run.policy.lanes = run.lanes;
	random_params(&run, &params);
	workq_policy_queue_init(&run.queue, &params, 0);
	model_init(&run.model, &params);
	for (k = 0; k < n && run.complaint == NULL; k++)
	{
		if (source->data != NULL && source->at >= source->size)
			break;
		step(&run);
		compare(&run, source->data != NULL || k % 8 == 0);
	}
	*failed = k;
	return run.complaint;
}
