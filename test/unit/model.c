/*-------------------------------------------------------------------------
 *
 * model.c
 *	  The policy's rules again, slow and obvious; see model.h.
 *
 *-------------------------------------------------------------------------
 */
#include <assert.h>
#include <string.h>

#include "model.h"

/* ------------------------------------------------------------------------
 * Lists as arrays
 * ------------------------------------------------------------------------ */

static int
list_find(const ModelList *list, int lane)
{
	int			k;

	for (k = 0; k < list->n; k++)
	{
		if (list->lane[k] == lane)
			return k;
	}
	return -1;
}

static void
list_remove(ModelList *list, int lane)
{
	int			k = list_find(list, lane);

	if (k < 0)
		return;
	for (; k + 1 < list->n; k++)
		list->lane[k] = list->lane[k + 1];
	list->n--;
}

static void
list_append(ModelList *list, int lane)
{
	assert(list->n < MODEL_LANES);
	list->lane[list->n++] = lane;
}

static void
list_prepend(ModelList *list, int lane)
{
	int			k;

	assert(list->n < MODEL_LANES);
	for (k = list->n++; k > 0; k--)
		list->lane[k] = list->lane[k - 1];
	list->lane[0] = lane;
}

/* ------------------------------------------------------------------------
 * What a lane is
 * ------------------------------------------------------------------------ */

static ModelRing *
ring_of(Model *m, int group)
{
	return group < 0 ? &m->outer : &m->lane[group].inner;
}

static bool
is_fifo(const Model *m)
{
	return m->params.strategy == WORKQ_POLICY_FIFO;
}

static bool
member(const Model *m, int i, int group)
{
	return m->lane[i].used && m->lane[i].group == group;
}

int
model_weight(const Model *m, int i)
{
	const ModelLane *l = &m->lane[i];

	if (l->own_weight >= 0)
		return l->own_weight;
	if (l->group >= 0)
		return 1;
	if (is_fifo(m) && m->params.default_weight == 0)
		return 1;
	return m->params.default_weight;
}

static int64_t
full_credit(const Model *m, int i)
{
	return (int64_t) m->lane[i].last_weight * m->params.quantum;
}

static bool
busy(const ModelLane *l)
{
	return l->ready || l->in_flight > 0;
}

static int
cap_of(const Model *m, int i)
{
	return m->lane[i].own_cap >= 0 ? m->lane[i].own_cap :
		m->params.max_concurrent_per_key;
}

/* Rule 1. */
static bool
should_be_eligible(const Model *m, int i)
{
	const ModelLane *l = &m->lane[i];
	int			k;

	if (!l->ready || model_weight(m, i) == 0)
		return false;
	if (!l->is_group)
		return cap_of(m, i) == 0 || l->in_flight < cap_of(m, i);
	for (k = 0; k < MODEL_LANES; k++)
	{
		if (member(m, k, i) && m->lane[k].eligible)
			return true;
	}
	return false;
}

static int
count_ready(const Model *m, int group)
{
	int			k;
	int			n = 0;

	for (k = 0; k < MODEL_LANES; k++)
		n += member(m, k, group) && m->lane[k].ready;
	return n;
}

static bool
owes_full_round(const Model *m, int i)
{
	return m->lane[i].credit <= -full_credit(m, i);
}

/* Among those that promotion looks at. */
static bool
has_clock(const Model *m, int i)
{
	return m->lane[i].used && m->lane[i].group < 0 && m->lane[i].eligible &&
		!is_fifo(m) && !owes_full_round(m, i);
}

static int64_t
clock_of(const Model *m, int i)
{
	return m->lane[i].clock > m->resumed_at ? m->lane[i].clock : m->resumed_at;
}

static bool
older_than(int64_t since, int64_t age, int64_t now)
{
	return age > 0 && since <= now - age;
}

/* ------------------------------------------------------------------------
 * Where a lane stands
 * ------------------------------------------------------------------------ */

static void
set_clock(Model *m, int i, int64_t clock)
{
	m->lane[i].clock = clock;
	m->lane[i].clock_order = ++m->n_clocked;
}

/* After a change: eligible?  In which list? */
static void
place(Model *m, int i, bool from_cap, int64_t now, int64_t since)
{
	ModelLane  *l = &m->lane[i];
	ModelRing  *r = ring_of(m, l->group);
	bool		was = l->eligible;
	bool		was_debtor = l->debtor;
	bool		in_returning = list_find(&r->returning, i) >= 0;
	ModelList  *want = NULL;

	l->eligible = should_be_eligible(m, i);
	if (l->eligible && !was)
		set_clock(m, i, since);
	l->debtor = l->eligible && !is_fifo(m) && owes_full_round(m, i);
	if (l->eligible && was && was_debtor && !l->debtor)
		set_clock(m, i, now);	/* stopped owing a full round */
	if (l->eligible && !is_fifo(m))
	{
		if (l->credit <= 0)
			want = &r->out;
		else if (in_returning || (!was && from_cap))
			want = &r->returning;
		else
			want = &r->ring;
	}
	if (want != NULL && list_find(want, i) >= 0 &&
		!(want == &r->out && l->debtor != was_debtor))
		return;
	list_remove(&r->ring, i);
	list_remove(&r->returning, i);
	list_remove(&r->out, i);
	if (want != NULL)
		list_append(want, i);
}

/* ------------------------------------------------------------------------
 * Rounds
 * ------------------------------------------------------------------------ */

/* Rule 3: new credit for everybody. */
static void
credit_all(Model *m, int group)
{
	ModelRing  *r = ring_of(m, group);
	int			k;

	r->round++;
	r->granted = 0;
	r->budget = 0;
	for (k = 0; k < MODEL_LANES; k++)
	{
		ModelLane  *l = &m->lane[k];
		int64_t		owed;

		if (!member(m, k, group))
			continue;
		owed = l->credit < 0 ? -l->credit : 0;
		if (owed > full_credit(m, k))
			owed = full_credit(m, k);
		l->credit = full_credit(m, k) - owed;
		l->present = busy(l);
		l->untouched = l->ready;
		if (l->ready && model_weight(m, k) > 0)
			r->budget += l->credit;
	}
}

/* Debtors' clocks start when the new round does. */
static void
release_debtors(Model *m, int64_t now)
{
	int64_t		latest = now;
	int			k;

	for (k = 0; k < MODEL_LANES; k++)
	{
		/* no clock may lie before that of a lane that came earlier */
		if (has_clock(m, k) && m->lane[k].clock > latest)
			latest = m->lane[k].clock;
	}
	for (k = 0; k < m->outer.out.n; k++)
	{
		int			i = m->outer.out.lane[k];

		if (m->lane[i].debtor)
		{
			set_clock(m, i, latest);
			m->lane[i].debtor = false;
		}
	}
}

static void
new_round(Model *m, int group, int64_t now)
{
	ModelRing  *r = ring_of(m, group);
	ModelList	out;
	int			k;

	assert(r->ring.n == 0 && r->returning.n == 0);
	if (group < 0)
		release_debtors(m, now);
	credit_all(m, group);
	out = r->out;
	r->out.n = 0;
	for (k = 0; k < out.n; k++)
	{
		int			i = out.lane[k];

		m->lane[i].debtor = false;
		list_append(m->lane[i].credit > 0 ? &r->ring : &r->out, i);
	}
}

/* Nothing is ready: rounds end until nobody owes anything. */
static void
settle(Model *m, int group)
{
	if (count_ready(m, group) > 0)
		return;
	credit_all(m, group);
	credit_all(m, group);
	ring_of(m, group)->budget = 0;
}

/* ------------------------------------------------------------------------
 * Lanes
 * ------------------------------------------------------------------------ */

void
model_init(Model *m, const WorkqPolicyParams *params)
{
	memset(m, 0, sizeof(Model));
	m->params = *params;
	m->resumed_at = INT64_MIN;
}

void
model_add(Model *m, int i, bool is_group, int group, int weight, int cap)
{
	ModelLane  *l = &m->lane[i];

	memset(l, 0, sizeof(ModelLane));
	l->used = true;
	l->is_group = is_group;
	l->group = group;
	l->own_weight = weight;
	l->own_cap = cap;
	l->order = ++m->n_added;
	l->last_weight = model_weight(m, i) > 0 ? model_weight(m, i) : 1;
	l->credit = full_credit(m, i);
	l->idle_since = ring_of(m, group)->round - 1;
	if (is_group)
		l->inner.round = m->outer.round;
}

bool
model_removable(const Model *m, int i)
{
	const ModelLane *l = &m->lane[i];
	int64_t		round = m->outer.round;
	int			k;

	if (l->group >= 0)
		round = m->lane[l->group].inner.round;
	if (busy(l))
		return false;
	for (k = 0; k < MODEL_LANES; k++)
	{
		if (member(m, k, i))
			return false;
	}
	return is_fifo(m) ||
		(l->idle_since < round && l->credit == full_credit(m, i));
}

void
model_remove(Model *m, int i, int64_t now)
{
	if (!m->lane[i].is_group)
	{
		model_empty(m, i);
		model_finish(m, i, m->lane[i].in_flight, now);
	}
	m->lane[i].used = false;
}

/* Rule 4: it is about to stop being idle. */
static void
join(Model *m, int i)
{
	ModelLane  *l = &m->lane[i];
	ModelRing  *r = ring_of(m, l->group);

	if (l->present)
		return;
	l->present = true;
	if (model_weight(m, i) == 0)
		return;
	if (r->granted + l->credit <= r->budget)
		r->granted += l->credit;
	else
		l->credit = 0;
}

/* It may just have stopped being busy. */
static void
part(Model *m, int i)
{
	ModelLane  *l = &m->lane[i];

	if (busy(l))
		return;
	l->idle_since = ring_of(m, l->group)->round;
	settle(m, l->group);
}

void
model_ready(Model *m, int i, int64_t now, int64_t since)
{
	int			group = m->lane[i].group;
	int			top = group >= 0 ? group : i;
	bool		loading = since < now;

	if (since > now)
		since = now;
	if (!m->lane[i].ready)
	{
		join(m, i);
		m->lane[i].ready = true;
		place(m, i, false, now, since);
		if (group >= 0)
		{
			if (!m->lane[group].ready)
				join(m, group);
			m->lane[group].ready = true;
			place(m, group, false, now, since);
		}
	}
	if (loading && has_clock(m, top) && since < m->lane[top].clock)
		set_clock(m, top, since);
}

/* A lane that had no work after all brought no credit into the round. */
static void
found_empty(Model *m, int i)
{
	ModelLane  *l = &m->lane[i];
	ModelRing  *r = ring_of(m, l->group);

	if (l->untouched && model_weight(m, i) > 0 && l->credit > 0)
		r->budget -= l->credit;
	l->untouched = false;
	l->ready = false;
	l->idle_since = r->round;
}

void
model_empty(Model *m, int i)
{
	int			group = m->lane[i].group;

	if (!m->lane[i].ready)
		return;
	found_empty(m, i);
	place(m, i, false, 0, 0);
	settle(m, group);
	if (group >= 0)
	{
		if (count_ready(m, group) == 0)
			found_empty(m, group);
		place(m, group, false, 0, 0);
		settle(m, -1);
	}
}

void
model_head(Model *m, int i, int priority, bool known, int64_t since,
		   int64_t job_id)
{
	m->lane[i].known[priority] = known;
	m->lane[i].since[priority] = since;
	m->lane[i].job_id[priority] = job_id;
}

/* Rule 9. */
void
model_set_weight(Model *m, int i, int weight, int64_t now)
{
	ModelLane  *l = &m->lane[i];
	int64_t		before = full_credit(m, i);

	l->own_weight = weight;
	if (model_weight(m, i) > 0)
	{
		int64_t		least = l->credit < 0 ? l->credit : 0;
		int64_t		full;

		l->last_weight = model_weight(m, i);
		full = full_credit(m, i);
		l->credit += full - before;
		if (l->credit < least)
			l->credit = least;
		if (l->credit > full)
			l->credit = full;
		if (l->credit < -full)
			l->credit = -full;
	}
	place(m, i, false, now, now);
	if (l->group >= 0)
		place(m, l->group, false, now, now);
}

void
model_set_cap(Model *m, int i, int cap, int64_t now)
{
	m->lane[i].own_cap = cap;
	place(m, i, true, now, now);
	if (m->lane[i].group >= 0)
		place(m, m->lane[i].group, true, now, now);
}

/* ------------------------------------------------------------------------
 * Queue
 * ------------------------------------------------------------------------ */

void
model_pause(Model *m, bool paused, int64_t now)
{
	if (m->paused && !paused)
		m->resumed_at = now;
	m->paused = paused;
}

/* The members of a ring, those that ran out first in front. */
static void
line_up(Model *m, int group, ModelList *line)
{
	ModelRing  *r = ring_of(m, group);
	int			k;
	int64_t		next = 0;

	line->n = 0;
	for (k = 0; k < r->out.n; k++)
	{
		if (!m->lane[r->out.lane[k]].debtor)
			list_append(line, r->out.lane[k]);
	}
	for (k = 0; k < r->out.n; k++)
	{
		if (m->lane[r->out.lane[k]].debtor)
			list_append(line, r->out.lane[k]);
	}
	for (k = 0; k < r->ring.n; k++)
		list_append(line, r->ring.lane[k]);
	for (k = 0; k < r->returning.n; k++)
		list_append(line, r->returning.lane[k]);
	while (next < m->n_added)
	{
		next++;
		for (k = 0; k < MODEL_LANES; k++)
		{
			if (member(m, k, group) && m->lane[k].order == next &&
				list_find(line, k) < 0)
				list_append(line, k);
		}
	}
}

static void
reconfigure_ring(Model *m, bool round, bool strategy, const ModelList *line,
				 int64_t now)
{
	int			k;

	for (k = 0; k < line->n; k++)
	{
		ModelLane  *l = &m->lane[line->lane[k]];

		if (strategy && l->eligible)
			l->eligible = false;	/* its clock starts again */
		place(m, line->lane[k], !round, now, now);
	}
}

void
model_configure(Model *m, const WorkqPolicyParams *params, int64_t now)
{
	bool		strategy = params->strategy != m->params.strategy;
	bool		round;
	ModelList	line[MODEL_LANES + 1];
	int			g;
	int			k;

	round = strategy || params->quantum != m->params.quantum ||
		params->default_weight != m->params.default_weight ||
		params->fairness_key != m->params.fairness_key;
	for (g = -1; g < MODEL_LANES; g++)
	{
		if (g < 0 || (m->lane[g].used && m->lane[g].is_group))
			line_up(m, g, &line[g + 1]);
	}
	if (round)
		release_debtors(m, now);
	m->params = *params;
	for (k = 0; k < MODEL_LANES; k++)
	{
		if (m->lane[k].used && m->lane[k].own_weight < 0 &&
			model_weight(m, k) > 0)
			m->lane[k].last_weight = model_weight(m, k);
	}
	for (k = 0; strategy && k < MODEL_LANES; k++)
	{
		if (m->lane[k].used && busy(&m->lane[k]))
			m->lane[k].clock = now;
	}
	for (g = -1; round && g < MODEL_LANES; g++)
	{
		ModelRing  *r = ring_of(m, g);

		if (g >= 0 && !(m->lane[g].used && m->lane[g].is_group))
			continue;
		credit_all(m, g);
		r->ring.n = r->returning.n = r->out.n = 0;
		for (k = 0; k < MODEL_LANES; k++)
		{
			if (member(m, k, g))
				m->lane[k].debtor = false;
		}
	}
	for (g = 0; g < MODEL_LANES; g++)
	{
		if (m->lane[g].used && m->lane[g].is_group)
			reconfigure_ring(m, round, strategy, &line[g + 1], now);
	}
	reconfigure_ring(m, round, strategy, &line[0], now);
}

/* ------------------------------------------------------------------------
 * Turns
 * ------------------------------------------------------------------------ */

/* Rules 2, 3, 5: who is next?  Starts rounds as needed. */
static int
next_in_turn(Model *m, int group, int64_t now)
{
	ModelRing  *r = ring_of(m, group);

	while (r->ring.n == 0 && r->returning.n == 0)
	{
		if (r->out.n == 0)
			return MODEL_NOBODY;
		new_round(m, group, now);
	}
	if (r->ring.n == 0)
		return r->returning.lane[0];
	if (r->returning.n == 0)
		return r->ring.lane[0];
	return r->ring_was_last ? r->returning.lane[0] : r->ring.lane[0];
}

/* Rule 7. */
static int
starving(const Model *m, int64_t now)
{
	int			oldest = MODEL_NOBODY;
	int			k;

	for (k = 0; k < MODEL_LANES; k++)
	{
		const ModelLane *l = &m->lane[k];

		if (!has_clock(m, k))
			continue;
		if (oldest < 0 || l->clock < m->lane[oldest].clock ||
			(l->clock == m->lane[oldest].clock &&
			 l->clock_order < m->lane[oldest].clock_order))
			oldest = k;
	}
	if (oldest >= 0 &&
		!older_than(clock_of(m, oldest), m->params.starvation_age, now))
		oldest = MODEL_NOBODY;
	return oldest;
}

/* Rules 2, 5, 6, 7: a lane or group has its turn. */
static void
charge(Model *m, int i, bool in_turn, int64_t now, ModelCharge *c)
{
	ModelLane  *l = &m->lane[i];
	ModelRing  *r = ring_of(m, l->group);

	join(m, i);
	c->round = r->round;
	c->clock = l->eligible ? l->clock : now;
	c->was_returning = list_find(&r->returning, i) >= 0;
	c->ring_was_last = r->ring_was_last;
	c->untouched = l->untouched;
	l->untouched = false;
	if (in_turn)
		r->ring_was_last = list_find(&r->ring, i) >= 0;
	c->charged = !is_fifo(m) && !owes_full_round(m, i);
	if (c->charged)
		l->credit--;
	c->credit = l->credit;
	l->in_flight++;
	l->selected++;
	set_clock(m, i, now);
	place(m, i, false, now, now);
	/* to the end of those that take turns */
	if (list_find(&r->ring, i) >= 0)
	{
		list_remove(&r->ring, i);
		list_append(&r->ring, i);
	}
	if (list_find(&r->returning, i) >= 0)
	{
		list_remove(&r->returning, i);
		list_append(&r->returning, i);
	}
	c->clock_after = l->clock;
}

static void
turn(Model *m, int i, bool group_in_turn, bool lane_in_turn, int64_t now,
	 ModelSelection *s)
{
	int			group = m->lane[i].group;
	int			top = group >= 0 ? group : i;
	int			promoted = s->decision == WORKQ_POLICY_BY_STARVATION;
	int			k;

	s->lane = i;
	s->group = group;
	s->has_share = !is_fifo(m);
	s->weight = model_weight(m, top);
	s->clock = m->lane[top].eligible ? clock_of(m, top) : now;
	s->turn = ++m->turns;
	m->selected++;
	m->promoted += promoted;
	for (k = 0; k < MODEL_LANES; k++)
	{
		if (m->lane[k].used && m->lane[k].ready && !m->lane[k].eligible &&
			model_weight(m, k) > 0)
		{
			m->lane[k].deferred++;
			m->deferred += !m->lane[k].is_group;
		}
	}
	charge(m, i, lane_in_turn, now, &s->of_lane);
	m->lane[i].promoted += promoted;
	if (group >= 0)
	{
		charge(m, group, group_in_turn, now, &s->of_group);
		m->lane[group].promoted += promoted;
	}
	s->round = group >= 0 ? s->of_group.round : s->of_lane.round;
	s->credit = group >= 0 ? s->of_group.credit : s->of_lane.credit;
}

/* May fifo, or strict mode, take a job of this lane? */
static bool
head_counts(const Model *m, int i)
{
	const ModelLane *l = &m->lane[i];

	return l->used && !l->is_group && l->eligible &&
		(l->group < 0 || model_weight(m, l->group) > 0);
}

static bool
head_unknown(const ModelLane *l)
{
	return !l->known[0] && !l->known[1] && !l->known[2];
}

static bool
select_fifo(Model *m, int64_t now, ModelSelection *s)
{
	int			best = MODEL_NOBODY;
	int			best_rank = 0;
	int64_t		best_since = 0;
	int64_t		best_id = 0;
	int			p;
	int			k;

	for (p = 0; p < WORKQ_POLICY_PRIORITIES; p++)
	{
		for (k = 0; k < MODEL_LANES; k++)
		{
			const ModelLane *l = &m->lane[k];
			bool		unknown = p == 0 && head_unknown(l);
			int64_t		since = unknown ? INT64_MIN : l->since[p];
			int64_t		id = unknown ? INT64_MIN : l->job_id[p];
			bool		aged;
			int			rank;

			if (!head_counts(m, k) || !(l->known[p] || unknown))
				continue;
			aged = p > 0 && older_than(since, m->params.promote_after[p], now);
			rank = aged ? 0 : p;
			if (best >= 0 && (rank > best_rank ||
							  (rank == best_rank && (since > best_since ||
													 (since == best_since &&
													  id >= best_id)))))
				continue;
			best = k;
			best_rank = rank;
			best_since = since;
			best_id = id;
			s->priority = unknown ? -1 : p;
			s->decision = aged ? WORKQ_POLICY_BY_STARVATION :
				WORKQ_POLICY_BY_PRIORITY;
		}
	}
	if (best < 0)
		return false;
	s->since = best_since;
	s->job_id = best_id;
	s->deadline = s->priority > 0 && m->params.promote_after[s->priority] > 0 ?
		best_since + m->params.promote_after[s->priority] :
		WORKQ_POLICY_NEVER;
	turn(m, best, false, false, now, s);
	return true;
}

/* The lane with the oldest job, or -1; *priority is the job's. */
static int
oldest_job(const Model *m, int *priority)
{
	int			oldest = MODEL_NOBODY;
	int			p;
	int			k;

	for (p = 0; p < WORKQ_POLICY_PRIORITIES; p++)
	{
		for (k = 0; k < MODEL_LANES; k++)
		{
			const ModelLane *l = &m->lane[k];
			const ModelLane *o;

			if (!head_counts(m, k) || !l->known[p])
				continue;
			o = oldest >= 0 ? &m->lane[oldest] : NULL;
			if (o != NULL && (l->since[p] > o->since[*priority] ||
							  (l->since[p] == o->since[*priority] &&
							   l->job_id[p] >= o->job_id[*priority])))
				continue;
			oldest = k;
			*priority = p;
		}
	}
	return oldest;
}

static bool
select_strict(Model *m, int in_turn, int64_t now, ModelSelection *s)
{
	int64_t		age = m->params.starvation_age;
	int			p = 0;
	int			i = oldest_job(m, &p);
	int			group;
	bool		group_next;
	bool		lane_next;

	if (i < 0 || !older_than(m->lane[i].since[p], age, now))
		return false;
	group = m->lane[i].group;
	group_next = group >= 0 && group == in_turn;
	lane_next = (group >= 0 ? next_in_turn(m, group, now) : in_turn) == i;
	s->decision = lane_next && (group < 0 || group_next) ?
		WORKQ_POLICY_BY_FAIR_SHARE : WORKQ_POLICY_BY_STARVATION;
	s->priority = p;
	s->since = m->lane[i].since[p];
	s->job_id = m->lane[i].job_id[p];
	s->deadline = s->since + age;
	turn(m, i, group_next, lane_next, now, s);
	return true;
}

static void
clear(ModelSelection *s)
{
	memset(s, 0, sizeof(ModelSelection));
	s->lane = s->group = s->priority = -1;
	s->deadline = WORKQ_POLICY_NEVER;
}

bool
model_select(Model *m, int64_t now, ModelSelection *s)
{
	int			in_turn;
	int			top;
	bool		strict = m->params.starvation_mode == WORKQ_POLICY_STRICT;

	clear(s);
	if (m->paused)
		return false;
	if (is_fifo(m))
		return select_fifo(m, now, s);
	in_turn = top = next_in_turn(m, -1, now);
	if (in_turn < 0)
		return false;
	if (strict && m->params.starvation_age > 0 &&
		select_strict(m, in_turn, now, s))
		return true;
	if (!strict && starving(m, now) >= 0)
		top = starving(m, now);
	s->decision = top == in_turn ? WORKQ_POLICY_BY_FAIR_SHARE :
		WORKQ_POLICY_BY_STARVATION;
	if (m->lane[top].is_group)
		turn(m, next_in_turn(m, top, now), top == in_turn, true, now, s);
	else
		turn(m, top, false, top == in_turn, now, s);
	if (m->params.starvation_age > 0)
		s->deadline = s->clock + m->params.starvation_age;
	return true;
}

bool
model_select_lane(Model *m, int i, int64_t now, ModelSelection *s)
{
	const ModelLane *l = &m->lane[i];

	clear(s);
	if (m->paused || model_weight(m, i) == 0 ||
		(l->group >= 0 && model_weight(m, l->group) == 0) ||
		(cap_of(m, i) > 0 && l->in_flight >= cap_of(m, i)))
		return false;
	s->decision = is_fifo(m) ? WORKQ_POLICY_BY_PRIORITY :
		WORKQ_POLICY_BY_FAIR_SHARE;
	turn(m, i, false, false, now, s);
	return true;
}

static void
give_back(Model *m, int i, const ModelSelection *s, const ModelCharge *c,
		  int64_t now)
{
	ModelLane  *l = &m->lane[i];
	ModelRing  *r = ring_of(m, l->group);
	bool		latest = l->clock == c->clock_after;
	bool		listed;

	if (c->charged && l->credit < full_credit(m, i) &&
		(r->round == c->round ||
		 (r->round == c->round + 1 && c->credit < 0)))
		l->credit++;
	if (c->untouched && r->round == c->round && l->ready)
		l->untouched = true;
	l->in_flight--;
	l->selected--;
	if (s->decision == WORKQ_POLICY_BY_STARVATION)
		l->promoted--;
	if (m->turns == s->turn)
		r->ring_was_last = c->ring_was_last;
	place(m, i, false, now, now);
	if (latest)
	{
		l->clock = c->clock;
		l->clock_order = -(++m->n_clocked);
	}
	listed = l->eligible && !is_fifo(m);
	if (listed && !l->debtor && r->round == c->round)
	{
		list_remove(&r->ring, i);
		list_remove(&r->returning, i);
		list_remove(&r->out, i);
		list_prepend(l->credit <= 0 ? &r->out :
					 c->was_returning ? &r->returning : &r->ring, i);
	}
	part(m, i);
}

void
model_undo(Model *m, const ModelSelection *s, int64_t now)
{
	m->selected--;
	if (s->decision == WORKQ_POLICY_BY_STARVATION)
		m->promoted--;
	give_back(m, s->lane, s, &s->of_lane, now);
	if (s->group >= 0)
		give_back(m, s->group, s, &s->of_group, now);
}

void
model_finish(Model *m, int i, int n, int64_t now)
{
	if (n <= 0)
		return;
	for (; i >= 0; i = m->lane[i].group)
	{
		m->lane[i].in_flight -= n;
		place(m, i, true, now, now);
		part(m, i);
	}
}

void
model_abort(Model *m, int i, int n, int n_promoted, int64_t now)
{
	int			k;

	for (k = i; k >= 0; k = m->lane[k].group)
	{
		m->lane[k].selected -= n;
		m->lane[k].promoted -= n_promoted;
	}
	m->selected -= n;
	m->promoted -= n_promoted;
	model_finish(m, i, n, now);
}

void
model_hold(Model *m, int i, int n, int64_t now)
{
	for (; i >= 0; i = m->lane[i].group)
	{
		join(m, i);
		m->lane[i].in_flight += n;
		place(m, i, false, now, now);
	}
}

int64_t
model_deficit(const Model *m, int i)
{
	int64_t		credit = m->lane[i].credit;

	return model_weight(m, i) == 0 && credit > 0 ? 0 : credit;
}

int64_t
model_promotion_time(const Model *m, int i)
{
	const ModelLane *l = &m->lane[i];
	int64_t		result = WORKQ_POLICY_NEVER;
	int			p;

	if (!l->eligible)
		return result;
	if (!is_fifo(m) && m->params.starvation_age == 0)
		return result;
	if (!is_fifo(m) && m->params.starvation_mode == WORKQ_POLICY_BOUNDED)
	{
		if (l->group >= 0)
			return model_promotion_time(m, l->group);
		return has_clock(m, i) ? clock_of(m, i) + m->params.starvation_age :
			result;
	}
	for (p = 0; p < WORKQ_POLICY_PRIORITIES && !l->is_group; p++)
	{
		int64_t		age = m->params.starvation_age;

		if (is_fifo(m))
			age = p > 0 ? m->params.promote_after[p] : 0;
		if (l->known[p] && age > 0 && l->since[p] + age < result)
			result = l->since[p] + age;
	}
	return result;
}

bool
model_has_turn(const Model *m)
{
	int			k;

	for (k = 0; k < MODEL_LANES && !m->paused; k++)
	{
		if (is_fifo(m) ? head_counts(m, k) :
			m->lane[k].used && m->lane[k].group < 0 && m->lane[k].eligible)
			return true;
	}
	return false;
}
