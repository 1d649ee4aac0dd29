/*-------------------------------------------------------------------------
 *
 * explain.c
 *	  workq_explain: why is this job not running?
 *
 * Where the job is and what the log says of it comes from the tables, so that
 * a standby can tell it, too; what its fairness key has in flight and its
 * credit from shared memory, where there is one.  Nothing is locked, so this
 * is how things stood when each of them was looked at.
 *
 * The place in the lane is counted along the index, like a claimer looks for
 * the lane's next job, but no further than the limit.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"

#include "args.h"
#include "compat.h"
#include "guc.h"
#include "job.h"
#include "rowout.h"
#include "sched_view.h"

PG_FUNCTION_INFO_V1(workq_explain);

#define DEFAULT_MAX_PLACE	1000

typedef struct Explain
{
	WorkqStore *store;
	TimestampTz now;
	WorkqFoundJob found;
	const WorkqEvent *last;		/* NULL: it was only enqueued */
	const char *state;
	TimestampTz since;

	/* its queue */
	int32		queue_id;
	char	   *queue;
	bool		paused;
	int64		settings[WORKQ_N_SETTINGS];
	WorkqLaneForm form;			/* of the queue's lanes */

	/* its lane */
	const char *lane;
	WorkqKeyInForce key;
	bool		in_memory;		/* the queue is */
	WorkqQueueView whole;
	bool		has_view;		/* the lane has a record */
	WorkqKeyView view;
	int			max_place;
	int			place;			/* 0: none, or behind max_place */
} Explain;

static bool
is_ready(const Explain *e)
{
	return e->found.place == WORKQ_PLACE_READY;
}

static bool
is_drr(const Explain *e)
{
	return e->settings[WORKQ_SET_STRATEGY] == WORKQ_STRATEGY_DRR;
}

/*
 * Jobs that the key has in flight; -1 if that is not known.
 */
static int
in_flight(const Explain *e)
{
	if (e->has_view)
		return e->view.in_flight;

	/* a lane gives its record back only when it has none */
	return e->in_memory && !e->whole.overflowing ? 0 : -1;
}

/* ------------------------------------------------------------------------
 * The place in the lane
 * ------------------------------------------------------------------------ */

/*
 * Count the rows of one priority that are to be claimed before the job, up to
 * limit; rows that others have in hand do not count, but are looked at.  Both
 * ranks and positions rise along the index, so the first row that is not
 * before the job ends it.
 */
static int
count_ahead(const Explain *e, int priority, int limit)
{
	const WorkqJob *job = &e->found.lease.job;
	int			rank = workq_rank_of(e->settings, job->priority, job->since,
									 e->now);
	WorkqPos	own = {job->since, job->job_id};
	WorkqPos	from = {DT_NOBEGIN, 0};
	WorkqCursor *cursor;
	WorkqRow	row;
	int			looked = 0;
	int			ahead = 0;

	if (e->has_view)
	{
		if (e->view.none[priority])
			return 0;
		from = e->view.from[priority];
	}
	cursor = workq_store_ready_cursor(e->store, e->queue_id, job->lane,
									  priority, from);
	while ((row = workq_store_next(cursor)) != WORKQ_ROW_END)
	{
		WorkqPos	pos = workq_store_pos(cursor);
		int			other = workq_rank_of(e->settings, priority, pos.since,
										  e->now);

		CHECK_FOR_INTERRUPTS();
		if (other > rank ||
			(other == rank && workq_pos_compare(pos, own) >= 0))
			break;
		if (++looked > limit)
		{
			ahead = limit;
			break;
		}
		if (row == WORKQ_ROW_CANDIDATE)
			ahead++;
	}
	workq_store_end(cursor);
	return ahead;
}

/*
 * 1 is the next job of its lane; 0 if max_place or more are before it.
 */
static int
find_place(const Explain *e)
{
	int			ahead = 0;
	int			p;

	for (p = 0; p < WORKQ_PRIORITIES && ahead < e->max_place; p++)
		ahead += count_ahead(e, p, e->max_place - ahead);
	return ahead < e->max_place ? ahead + 1 : 0;
}

/* ------------------------------------------------------------------------
 * Looking
 * ------------------------------------------------------------------------ */

static void
look_at_lane(Explain *e)
{
	const WorkqJobRow *row = &e->found.row;

	if (is_ready(e) || e->found.place == WORKQ_PLACE_LEASED)
		e->lane = e->found.lease.job.lane;
	else
		e->lane = workq_lane_of(e->form, row->tenant, row->binding,
								row->trigger_id);
	workq_sched_key_in_force(e->queue_id, e->settings, e->lane, &e->key);
	if (!RecoveryInProgress())
	{
		e->in_memory = workq_sched_view_queue(e->queue_id, &e->whole);
		e->has_view = workq_sched_view_key(e->queue_id, e->lane, &e->view);
	}
	if (is_ready(e))
		e->place = find_place(e);
}

static void
look_at_job(Explain *e, int64 job_id)
{
	WorkqQueueInfo *info = workq_job_find(e->store, job_id,
										  WORKQ_RIGHT_MONITOR |
										  WORKQ_RIGHT_CLAIM, &e->found);
	int			i;

	if (info == NULL)			/* dropped while we looked */
		workq_job_missing(job_id);
	e->queue_id = info->queue_id;
	e->queue = pstrdup(info->name);
	e->paused = info->settings.paused;
	for (i = 0; i < WORKQ_N_SETTINGS; i++)
		e->settings[i] = workq_queue_setting(info, i);
	e->form = workq_lane_form(e->settings, &info->settings);
	if (e->found.events == NIL)
		e->found.events = workq_store_events(e->store, job_id);
	if (e->found.events != NIL)
		e->last = (const WorkqEvent *) llast(e->found.events);
	e->state = workq_job_state(&e->found, &e->since);
}

/* ------------------------------------------------------------------------
 * Saying it
 * ------------------------------------------------------------------------ */

/*
 * ": the reason that the log gives", if there is one.
 */
static void
say_reason(const Explain *e, StringInfo why)
{
	if (e->last != NULL && e->last->reason != NULL)
		appendStringInfo(why, ": %s", e->last->reason);
}

static void
say_ready(const Explain *e, StringInfo why)
{
	int			busy = in_flight(e);

	if (RecoveryInProgress())
		appendStringInfoString(why, "This server is a standby; jobs are claimed on its primary. ");
	if (e->paused)
		appendStringInfoString(why, "Its queue is paused; workq_resume lets claims go on. ");
	if (e->key.paused)
		appendStringInfo(why, "Its fairness key is paused, since %s has weight 0. ",
						 e->key.weight == 0 ? "it" : "its tenant");
	else if (e->key.cap > 0 && busy >= e->key.cap)
		appendStringInfo(why, "Its fairness key is at its cap, with %d of %d in flight. ",
						 busy, e->key.cap);
	else if (e->in_memory && e->whole.overflowing && !e->has_view)
		appendStringInfoString(why, "Its queue has more fairness keys than workq.max_lanes leaves room for; this one waits for room. ");
	else if (is_drr(e) && e->has_view && e->view.deficit <= 0)
		appendStringInfoString(why, "Its fairness key has no turn left in this round; keys that have one go first. ");
	if (e->place == 0)
		appendStringInfo(why, "It is ready, but %d or more jobs of its lane come first.",
						 e->max_place);
	else if (e->place > 1)
		appendStringInfo(why, "It is ready, but %d %s first.", e->place - 1,
						 e->place == 2 ? "job of its lane comes" :
						 "jobs of its lane come");
	else if (why->len > 0)
		appendStringInfoString(why, "It is ready and the next of its lane.");
	else if (e->lane[0] != '\0' || is_drr(e))
		appendStringInfoString(why, "It is ready and the next of its lane: when its fairness key has its turn, a worker that claims gets it.");
	else
		appendStringInfoString(why, "It is ready and the next: a worker that claims gets it.");
}

static void
say_scheduled(const Explain *e, StringInfo why)
{
	TimestampTz due = e->found.lease.job.since;

	if (e->last == NULL)
		appendStringInfoString(why, "It was enqueued for later");
	else if (strcmp(e->last->event, "failed") == 0)
		appendStringInfoString(why, "It failed");
	else
		appendStringInfo(why, "It was %s", e->last->event);
	say_reason(e, why);
	if (due > e->now)
		appendStringInfo(why, ". It is due at %s.", timestamptz_to_str(due));
	else
		appendStringInfo(why, ". It has been due since %s: the background worker, or a claim that finds nothing else, takes it up.",
						 timestamptz_to_str(due));
}

static void
say_leased(const Explain *e, StringInfo why)
{
	const WorkqLease *lease = &e->found.lease;

	if (lease->job.flags & WORKQ_JOB_HOLD_LEASE)
		appendStringInfo(why, "Worker \"%s\" reported a failure and left it leased until %s.",
						 lease->worker, timestamptz_to_str(lease->deadline));
	else if (lease->deadline > e->now)
		appendStringInfo(why, "It is running: worker \"%s\" holds it until %s.",
						 lease->worker, timestamptz_to_str(lease->deadline));
	else
		appendStringInfo(why, "The lease of worker \"%s\" ended at %s: the background worker, or a claim that finds nothing else, takes it back.",
						 lease->worker, timestamptz_to_str(lease->deadline));
	if (lease->job.flags & WORKQ_JOB_CANCEL)
		appendStringInfoString(why, " It is to be cancelled: the worker is told when it renews, or reports progress or a checkpoint.");
}

static void
say_held(const Explain *e, StringInfo why)
{
	bool		dead = strcmp(e->state, "dead") == 0;

	appendStringInfo(why, "It is %s", e->state);
	if (dead)
		appendStringInfo(why, " after %d of %d failures",
						 e->found.lease.job.failures,
						 e->found.lease.job.max_attempts);
	say_reason(e, why);
	appendStringInfo(why, ". %s makes it ready again.",
					 dead ? "workq_requeue" : "workq_unpark");
}

static char *
sentence(const Explain *e)
{
	StringInfoData why;

	initStringInfo(&why);
	switch (e->found.place)
	{
		case WORKQ_PLACE_READY:
			say_ready(e, &why);
			break;
		case WORKQ_PLACE_SCHEDULED:
			say_scheduled(e, &why);
			break;
		case WORKQ_PLACE_LEASED:
			say_leased(e, &why);
			break;
		case WORKQ_PLACE_HELD:
			say_held(e, &why);
			break;
		case WORKQ_PLACE_DONE:
			appendStringInfo(&why, "It is over: %s at %s", e->state,
							 timestamptz_to_str(e->since));
			if (e->last->reason != NULL)
				appendStringInfo(&why, " (%s)", e->last->reason);
			appendStringInfoChar(&why, '.');
			break;
	}
	return why.data;
}

static void
put_job(const Explain *e, WorkqRowOut *out)
{
	const WorkqLease *lease = &e->found.lease;
	bool		leased = e->found.place == WORKQ_PLACE_LEASED;
	bool		done = e->found.place == WORKQ_PLACE_DONE;

	workq_put(out, TimestampTzGetDatum(lease->job.since),
			  e->found.place == WORKQ_PLACE_SCHEDULED);
	workq_put_text(out, leased ? lease->worker : NULL);
	workq_put(out, TimestampTzGetDatum(lease->deadline), leased);
	workq_put(out, Int32GetDatum(done ? e->last->attempt :
								 lease->job.attempt), true);
	workq_put(out, Int32GetDatum(done ? e->last->failures :
								 lease->job.failures), true);
	workq_put(out, Int32GetDatum(e->found.row.max_attempts), true);
}

static void
put_lane(const Explain *e, WorkqRowOut *out)
{
	const WorkqJobRow *row = &e->found.row;
	const WorkqSettingDef *strategy = &workq_settings[WORKQ_SET_STRATEGY];
	int			busy = in_flight(e);

	workq_put_text(out, workq_guc_format(strategy,
										 e->settings[WORKQ_SET_STRATEGY]));
	workq_put_text(out, workq_fairness_key_of(e->settings, row->tenant,
											  row->binding, row->trigger_id));
	workq_put(out, BoolGetDatum(e->paused), true);
	workq_put(out, Int32GetDatum(e->place), e->place > 0);
	workq_put(out, Int32GetDatum(e->max_place), is_ready(e));
	workq_put(out, Int32GetDatum(e->key.weight), true);
	workq_put(out, Int32GetDatum(e->key.cap), e->key.cap > 0);
	workq_put(out, Int32GetDatum(busy), busy >= 0);
	workq_put(out, Int64GetDatum(e->view.deficit), e->has_view && is_drr(e));
}

Datum
workq_explain(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	WorkqRowOut out = {.n = 0};
	Explain    *e = palloc0(sizeof(Explain));

	workq_store_require("workq_explain()", false);
	if (PG_ARGISNULL(0))
		workq_arg_missing("job_id");
	e->max_place = workq_arg_int(fcinfo, 1, "max_place", 1, WORKQ_MAX_BATCH,
								 DEFAULT_MAX_PLACE);
	workq_compat_init_srf(fcinfo);
	e->now = workq_now();
	e->store = workq_store_open_reader();
	look_at_job(e, PG_GETARG_INT64(0));
	look_at_lane(e);

	workq_put(&out, Int64GetDatum(e->found.row.job_id), true);
	workq_put_text(&out, e->queue);
	workq_put_text(&out, e->state);
	workq_put(&out, TimestampTzGetDatum(e->since), true);
	workq_put_text(&out, sentence(e));
	workq_put_text(&out, e->found.place != WORKQ_PLACE_LEASED &&
				   e->last != NULL ? e->last->reason : NULL);
	put_job(e, &out);
	put_lane(e, &out);
	workq_put_row(&out, rsinfo);
	workq_store_close(e->store);
	return (Datum) 0;
}
