/*-------------------------------------------------------------------------
 *
 * test_crowd.c
 *	  Random steps with hundreds of lanes, loads and clocks that jump.
 *
 * usage: test_crowd [STEPS [SEED]]
 *
 * More than the model of test_random.c can follow exactly: here the structures
 * must stay consistent, a selection must find a lane exactly if there is one
 * that is eligible, fifo must take the best job and promotion the oldest
 * clock.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "steps.h"
#include "tap.h"

#define LANES		300
#define GROUPS		20			/* records from LANES on */
#define MAX_CLAIMS	1000
#define RUN_LENGTH	20000

typedef struct Head
{
	bool		known;
	int64_t		since;
	int64_t		job_id;
} Head;

typedef struct Crowd
{
	Source		source;
	WorkqPolicyQueue queue;
	WorkqPolicyLane lanes[LANES + GROUPS];
	WorkqPolicy policy;
	Head		heads[LANES][WORKQ_POLICY_PRIORITIES];
	int64_t		now;
	int64_t		next_job;
	int			n_claims;
	WorkqPolicySelection claims[MAX_CLAIMS];
	const char *complaint;
} Crowd;

#define MUST(c, condition) \
	do { \
		if (!(condition) && (c)->complaint == NULL) \
			(c)->complaint = #condition; \
	} while (0)

static int
below(Crowd *c, int n)
{
	return source_below(&c->source, n);
}

static void
start(Crowd *c, uint64_t seed)
{
	static const int64_t ages[] = {0, 50, 500};
	WorkqPolicyParams params;
	int			i;

	memset(c, 0, sizeof(Crowd));
	c->source.state = seed;
	c->now = 1000000;
	c->policy.queue = &c->queue;
	c->policy.lanes = c->lanes;
	memset(&params, 0, sizeof(params));
	params.strategy = below(c, 3) ? WORKQ_POLICY_DRR : WORKQ_POLICY_FIFO;
	params.starvation_mode = below(c, 4) ?
		WORKQ_POLICY_BOUNDED : WORKQ_POLICY_STRICT;
	params.quantum = 1 + below(c, 2);
	params.default_weight = 1;
	params.max_concurrent_per_key = below(c, 3);
	params.starvation_age = ages[below(c, 3)];
	params.promote_after[1] = ages[below(c, 3)];
	params.promote_after[2] = ages[below(c, 3)];
	workq_policy_queue_init(&c->queue, &params, 0);
	for (i = 0; i < GROUPS; i++)
		workq_policy_group_add(&c->policy, LANES + i, -1);
	for (i = 0; i < LANES; i++)
		workq_policy_lane_add(&c->policy, i,
							  i % 4 == 0 ? LANES + below(c, GROUPS) : -1,
							  below(c, 4) ? -1 : below(c, 10), -1);
}

/* Is there a better job in fifo?  Looks at all. */
static bool
is_best(Crowd *c, const WorkqPolicySelection *s)
{
	const WorkqPolicyParams *params = &c->queue.params;
	int			rank = s->priority;
	int			i;
	int			p;

	if (s->decision == WORKQ_POLICY_BY_STARVATION)
		rank = 0;
	for (i = 0; i < LANES; i++)
	{
		if (!workq_policy_eligible(&c->policy, i) ||
			(c->lanes[i].group >= 0 &&
			 workq_policy_weight(&c->policy, c->lanes[i].group) == 0))
			continue;
		for (p = 0; p < WORKQ_POLICY_PRIORITIES; p++)
		{
			const Head *head = &c->heads[i][p];
			int64_t		age = params->promote_after[p];
			bool		aged = age > 0 && c->now - head->since >= age;
			int			other = aged ? 0 : p;

			if (head->known && (other < rank ||
								(other == rank && head->since < s->since) ||
								(other == rank && head->since == s->since &&
								 head->job_id < s->job_id)))
				return false;
		}
	}
	return true;
}

/* When does the first lane starve? */
static int64_t
first_promotion(Crowd *c)
{
	int64_t		first = WORKQ_POLICY_NEVER;
	int			i;

	if (c->queue.params.strategy == WORKQ_POLICY_FIFO ||
		c->queue.params.starvation_mode == WORKQ_POLICY_STRICT)
		return first;
	for (i = 0; i < LANES + GROUPS; i++)
	{
		int64_t		time = workq_policy_promotion_time(&c->policy, i);

		if (c->lanes[i].group < 0 && time < first)
			first = time;
	}
	return first;
}

static void
step_select(Crowd *c)
{
	WorkqPolicySelection *s = &c->claims[c->n_claims];
	bool		expected = workq_policy_has_turn(&c->policy);
	int64_t		first = first_promotion(c);
	const char *complaint;

	if (c->n_claims == MAX_CLAIMS)
		return;
	MUST(c, workq_policy_select(&c->policy, c->now, s) == expected);
	if (!expected)
		return;
	c->n_claims++;
	MUST(c, first > c->now || s->promotion_deadline == first);
	if (s->priority >= 0)
	{
		const Head *head = &c->heads[s->lane][s->priority];

		MUST(c, head->known && head->since == s->since &&
			 head->job_id == s->job_id);
	}
	if (c->queue.params.strategy == WORKQ_POLICY_FIFO && s->priority >= 0)
	{
		workq_policy_undo(&c->policy, s, c->now);
		MUST(c, is_best(c, s));
		MUST(c, workq_policy_select(&c->policy, c->now, s));
	}
	if (c->n_claims % 64 == 0)
	{
		complaint = workq_policy_check(&c->policy);
		if (complaint != NULL && c->complaint == NULL)
			c->complaint = complaint;
	}
}

static void
step_end(Crowd *c, int how)
{
	int			k;
	WorkqPolicySelection s;

	if (c->n_claims == 0)
		return;
	k = how == 2 ? c->n_claims - 1 : below(c, c->n_claims);
	s = c->claims[k];
	c->claims[k] = c->claims[--c->n_claims];
	if (how == 0)
		workq_policy_finish(&c->policy, s.lane, 1, c->now);
	else if (how == 1)
		workq_policy_abort(&c->policy, s.lane, 1,
						   s.decision == WORKQ_POLICY_BY_STARVATION, c->now);
	else
	{
		workq_policy_undo(&c->policy, &s, c->now);
		if (below(c, 2))
			workq_policy_lane_empty(&c->policy, s.lane);
	}
}

static void
step_head(Crowd *c)
{
	int			i = below(c, LANES);
	int			p = below(c, WORKQ_POLICY_PRIORITIES);
	Head	   *head = &c->heads[i][p];

	head->known = below(c, 4) > 0;
	head->since = c->now - below(c, 1000);
	head->job_id = ++c->next_job;
	if (head->known)
		workq_policy_lane_head(&c->policy, i, p, head->since, head->job_id);
	else
		workq_policy_lane_head_none(&c->policy, i, p);
}

static void
step(Crowd *c)
{
	int			what = below(c, 100);
	int			i = below(c, LANES);

	c->now += below(c, 3);
	if (below(c, 500) == 0)
		c->now -= below(c, 300);
	if (what < 35)
		step_select(c);
	else if (what < 55)
		workq_policy_lane_ready(&c->policy, i, c->now, c->now);
	else if (what < 56)
		workq_policy_lane_ready(&c->policy, i, c->now,
								c->now - below(c, 5000));
	else if (what < 72)
		step_end(c, 0);
	else if (what < 78)
		step_end(c, 1);
	else if (what < 86)
		step_end(c, 2);
	else if (what < 89)
		workq_policy_lane_empty(&c->policy, i);
	else if (what < 97)
		step_head(c);
	else if (what < 99)
		workq_policy_set_weight(&c->policy, below(c, LANES + GROUPS),
								below(c, 12) - 1, c->now);
	else
		workq_policy_set_cap(&c->policy, i, below(c, 4) - 1, c->now);
}

int
main(int argc, char **argv)
{
	static Crowd crowd;
	int64_t		n = argc > 1 ? strtoll(argv[1], NULL, 10) : 1000000;
	uint64_t	seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 20240607;
	int64_t		run;

	printf("# %lld steps, seed %llu\n", (long long) n,
		   (unsigned long long) seed);
	for (run = 0; run < n / RUN_LENGTH; run++)
	{
		Crowd	   *c = &crowd;
		int			k;

		start(c, seed + (uint64_t) run);
		for (k = 0; k < RUN_LENGTH && c->complaint == NULL; k++)
		{
			step(c);
			if (k % 50 == 0 && c->complaint == NULL)
				c->complaint = workq_policy_check(&c->policy);
		}
		if (c->complaint != NULL)
			break;
	}
	tap_ok(crowd.complaint == NULL, "consistent in a crowd");
	if (crowd.complaint != NULL)
		printf("# seed %llu: %s\n", (unsigned long long) (seed +
														  (uint64_t) run),
			   crowd.complaint);
	return tap_done();
}
