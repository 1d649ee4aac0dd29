/*-------------------------------------------------------------------------
 *
 * job.c
 *	  Verbs on jobs, by job id or for a whole queue: look, cancel, requeue,
 *	  purge.
 *
 * A job that is not done is in exactly one of the four live tables.  Three
 * have its id as their key; in ready it is found by its place, which the log
 * tells.  A job may move while we look for it, from a table that we have yet
 * to look into to one that we have looked into; then the search starts again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/json.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "access.h"
#include "args.h"
#include "compat.h"
#include "guc.h"
#include "job.h"
#include "outcome.h"
#include "queue.h"
#include "rowout.h"
#include "xact.h"

PG_FUNCTION_INFO_V1(workq_cancel);
PG_FUNCTION_INFO_V1(workq_cancel_batch);
PG_FUNCTION_INFO_V1(workq_requeue);
PG_FUNCTION_INFO_V1(workq_requeue_batch);
PG_FUNCTION_INFO_V1(workq_requeue_all);
PG_FUNCTION_INFO_V1(workq_purge);
PG_FUNCTION_INFO_V1(workq_job);

#define MAX_SEARCHES	1000	/* moves of a job while we look for it */

/* ------------------------------------------------------------------------
 * Finding
 * ------------------------------------------------------------------------ */

static bool
is_final(const char *event)
{
	static const char *const final[] = {
		"acked", "business_error", "status", "cancelled", "purged", "dropped",
		NULL
	};
	int			i;

	for (i = 0; final[i] != NULL; i++)
	{
		if (strcmp(event, final[i]) == 0)
			return true;
	}
	return false;
}

/*
 * Look for a ready row in a lane; then, since it may have been moved when the
 * form of the queue's lanes changed, in those of all forms.
 */
static bool
find_in_lanes(WorkqStore *store, WorkqFoundJob *found, const char *lane,
			  WorkqPos pos)
{
	const WorkqJobRow *row = &found->row;
	int			form;

	if (workq_store_find_ready(store, row->queue_id, lane, row->priority,
							   pos, &found->lease.job, &found->tid))
		return true;
	for (form = 0; form < WORKQ_N_FORMS; form++)
	{
		char	   *other = workq_lane_of((WorkqLaneForm) form, row->tenant,
										  row->binding, row->trigger_id);

		if (strcmp(other, lane) != 0 &&
			workq_store_find_ready(store, row->queue_id, other, row->priority,
								   pos, &found->lease.job, &found->tid))
			return true;
	}
	return false;
}

/*
 * Look for a ready row where the log says it must be: the last event that
 * made the job ready, or the job's own row, tells since when.
 */
static bool
find_ready(WorkqStore *store, WorkqFoundJob *found)
{
	const WorkqJobRow *row = &found->row;
	WorkqPos	pos;
	const char *lane = row->lane != NULL ? row->lane : "";
	ListCell   *lc;

	pos.job_id = row->job_id;
	pos.since = row->run_at != DT_NOBEGIN ? row->run_at : row->enqueued_at;
	foreach(lc, found->events)
	{
		const WorkqEvent *event = (const WorkqEvent *) lfirst(lc);

		if (event->due != DT_NOBEGIN)
			pos.since = event->due;
		else if (event->ready_since != DT_NOBEGIN)
			pos.since = event->ready_since;
		else
			continue;
		lane = event->lane != NULL ? event->lane : "";
	}
	return find_in_lanes(store, found, lane, pos);
}

/*
 * One look into each table.
 */
static bool
search(WorkqStore *store, int64 job_id, WorkqFoundJob *found)
{
	WorkqEvent *last;

	if (workq_store_find_lease(store, job_id, &found->lease, &found->tid))
		found->place = WORKQ_PLACE_LEASED;
	else if (workq_store_find_scheduled(store, job_id, &found->lease.job,
										&found->tid))
		found->place = WORKQ_PLACE_SCHEDULED;
	else if (workq_store_find_held(store, job_id, &found->lease.job,
								   &found->held_at, &found->held_state,
								   &found->tid))
		found->place = WORKQ_PLACE_HELD;
	else
	{
		found->events = workq_store_events(store, job_id);
		if (find_ready(store, found))
			found->place = WORKQ_PLACE_READY;
		else
		{
			last = found->events == NIL ? NULL : llast(found->events);
			if (last == NULL || !is_final(last->event))
				return false;
			found->place = WORKQ_PLACE_DONE;
		}
	}
	return true;
}

void
workq_job_missing(int64 job_id)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("job " INT64_FORMAT " does not exist", job_id)));
}

/*
 * The queue of a job, or NULL.  Who has no right at all there is not told that
 * the job exists, nor in which queue.
 */
static WorkqQueueInfo *
queue_of_job(WorkqStore *store, int64 job_id, WorkqJobRow *row)
{
	WorkqQueueInfo *info;

	if (!workq_store_job(store, job_id, row))
		return NULL;
	info = workq_queue_by_id(row->queue_id, true);
	return info != NULL && workq_access_has_any(info, WORKQ_RIGHT_ALL) ?
		info : NULL;
}

WorkqQueueInfo *
workq_job_open(WorkqStore *store, int64 job_id, uint32 rights,
			   WorkqJobRow *row)
{
	WorkqQueueInfo *info;

	info = workq_store_hold_segment(store, job_id) ?
		queue_of_job(store, job_id, row) : NULL;
	if (info == NULL)
		workq_job_missing(job_id);
	if (!workq_access_has_any(info, rights))
		workq_access_require(info, rights);
	return info;
}

WorkqQueueInfo *
workq_job_find(WorkqStore *store, int64 job_id, uint32 rights, WorkqFoundJob *found)
{
	int			tries;

	memset(found, 0, sizeof(WorkqFoundJob));
	(void) workq_job_open(store, job_id, rights, &found->row);
	for (tries = 0; tries < MAX_SEARCHES; tries++)
	{
		CHECK_FOR_INTERRUPTS();
		if (search(store, job_id, found))
			break;
	}
	if (tries == MAX_SEARCHES)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("job " INT64_FORMAT " is in the log but in no live table",
						job_id),
				 errhint("SELECT * FROM workq_check() tells what else differs.")));
	/* what we opened since may have dropped it from the cache */
	return workq_queue_by_id(found->row.queue_id, true);
}

/* ------------------------------------------------------------------------
 * Cancel
 * ------------------------------------------------------------------------ */

bool
workq_job_remove(WorkqStore *store, int queue, WorkqFoundJob *found)
{
	WorkqJob   *job = &found->lease.job;
	WorkqPos	pos;
	WorkqChangeKind kind = WORKQ_CHANGE_READY_TAKE;
	WorkqRelation table = WORKQ_REL_READY;
	WorkqChange *change;
	int			lane = -1;

	pos.since = job->since;
	pos.job_id = job->job_id;
	if (found->place == WORKQ_PLACE_SCHEDULED)
	{
		kind = WORKQ_CHANGE_DUE_TAKE;
		table = WORKQ_REL_SCHEDULED;
	}
	else if (found->place == WORKQ_PLACE_HELD)
	{
		kind = WORKQ_CHANGE_HELD_TAKE;
		table = WORKQ_REL_HELD;
	}
	else
		lane = workq_sched_pin_lane(queue, job->lane);
	change = workq_xact_change(kind, queue, lane);
	change->priority = job->priority;
	change->pos = pos;
	if (workq_store_delete(store, table, &found->tid))
		return true;
	workq_xact_drop_last();
	workq_sched_unpin_lane(queue, lane);
	return false;
}

/*
 * Tell a job's holder, at its next renewal.  False: it has moved.
 */
static bool
request_cancel(WorkqStore *store, WorkqFoundJob *found, TimestampTz now,
			   const char *reason)
{
	WorkqLease *lease = &found->lease;
	WorkqEvent	event;

	if (lease->job.flags & WORKQ_JOB_CANCEL)
		return true;
	lease->job.flags |= WORKQ_JOB_CANCEL;
	workq_store_event_init(&event, "cancel_requested", &lease->job,
						   Max(now, lease->claimed_at));
	if (!workq_store_update_lease(store, lease, &found->tid))
		return false;
	event.has_claim = true;
	event.claim_id = lease->claim_id;
	event.reason = reason;
	workq_store_add_event(store, &event);
	return true;
}

static const char *
cancel_job(WorkqInstance *instance, WorkqStore *store, int64 job_id,
		   const char *reason)
{
	TimestampTz now = workq_now();
	WorkqFoundJob found;

	for (;;)
	{
		WorkqQueueInfo *info = workq_job_find(store, job_id, WORKQ_RIGHT_MANAGE,
											  &found);
		int			queue;

		if (found.place == WORKQ_PLACE_DONE)
			return "finished";
		queue = workq_sched_queue(instance, info->queue_id, &info->settings);
		if (found.place == WORKQ_PLACE_LEASED)
		{
			WorkqPos	pos;

			/* the old version may have been passed as being deleted */
			pos.since = found.lease.deadline;
			pos.job_id = job_id;
			workq_xact_change(WORKQ_CHANGE_LEASE_MOVE, queue, -1)->pos = pos;
			workq_xact_change(WORKQ_CHANGE_DEADLINE, queue, -1)->pos = pos;
			if (request_cancel(store, &found, now, reason))
				return "requested";
		}
		else if (workq_job_remove(store, queue, &found))
		{
			workq_outcome_to_cancelled(store, queue, &found.lease.job, now,
									   reason);
			workq_outcome_respond(store, &found.lease.job, now, "cancelled",
								  reason);
			return "cancelled";
		}
	}
}

Datum
workq_cancel(PG_FUNCTION_ARGS)
{
	WorkqInstance *instance;
	WorkqStore *store;
	const char *result;
	char	   *reason;

	workq_store_require("workq_cancel()", true);
	if (PG_ARGISNULL(0))
		workq_arg_missing("job_id");
	reason = workq_arg_text_or_null(fcinfo, 1, "reason");
	instance = workq_sched_instance();
	store = workq_store_open();
	result = cancel_job(instance, store, PG_GETARG_INT64(0), reason);
	workq_store_close(store);
	PG_RETURN_TEXT_P(cstring_to_text(result));
}

/* ------------------------------------------------------------------------
 * Requeue
 * ------------------------------------------------------------------------ */

/*
 * Make a held job whose row has been deleted ready, with a clean sheet.
 */
static void
requeue_held(WorkqStore *store, int queue, WorkqJob *job, TimestampTz now)
{
	WorkqEvent	event;

	job->failures = 0;
	job->since = now;
	workq_store_event_init(&event, "requeued", job, now);
	event.ready_since = job->since;
	event.lane = job->lane;
	workq_store_add_event(store, &event);
	workq_outcome_to_ready(store, queue, job);
}

/*
 * A dead job has given up its deduplication key; take it again.  False:
 * another job has it by now, *holder says which.
 */
static bool
retake_key(WorkqStore *store, WorkqJob *job, const char *key, int64 *holder)
{
	if (key == NULL || (job->flags & WORKQ_JOB_DEDUP))
		return true;
	if (!workq_store_dedup_take(store, job->queue_id, key, job->job_id,
								holder))
		return false;
	job->flags |= WORKQ_JOB_DEDUP;
	return true;
}

typedef enum RequeueResult
{
	REQUEUE_DONE,
	REQUEUE_NOT_HELD,
	REQUEUE_KEY_TAKEN
} RequeueResult;

/*
 * holder and key: whose and which, when the deduplication key is taken.
 */
static RequeueResult
requeue_job(WorkqInstance *instance, WorkqStore *store, int64 job_id,
			int64 *holder, char **key)
{
	WorkqFoundJob found;

	for (;;)
	{
		WorkqQueueInfo *info = workq_job_find(store, job_id, WORKQ_RIGHT_MANAGE,
											  &found);
		WorkqJob   *job = &found.lease.job;
		bool		had_key = (job->flags & WORKQ_JOB_DEDUP) != 0;
		int			queue;

		if (found.place != WORKQ_PLACE_HELD)
			return REQUEUE_NOT_HELD;
		queue = workq_sched_queue(instance, info->queue_id, &info->settings);
		*key = found.row.dedup_key;
		if (!retake_key(store, job, *key, holder))
			return REQUEUE_KEY_TAKEN;
		if (workq_job_remove(store, queue, &found))
		{
			requeue_held(store, queue, job, workq_now());
			return REQUEUE_DONE;
		}
		if (*key != NULL && !had_key)
			workq_store_dedup_drop(store, job->queue_id, *key, job_id);
	}
}

Datum
workq_requeue(PG_FUNCTION_ARGS)
{
	WorkqInstance *instance;
	WorkqStore *store;
	RequeueResult result;
	int64		job_id;
	int64		holder;
	char	   *key;

	workq_store_require("workq_requeue()", true);
	if (PG_ARGISNULL(0))
		workq_arg_missing("job_id");
	instance = workq_sched_instance();
	store = workq_store_open();
	job_id = PG_GETARG_INT64(0);
	result = requeue_job(instance, store, job_id, &holder, &key);
	if (result == REQUEUE_KEY_TAKEN)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("cannot requeue job " INT64_FORMAT ": job " INT64_FORMAT " has its deduplication key \"%s\"",
						job_id, holder, key)));
	workq_store_close(store);
	PG_RETURN_BOOL(result == REQUEUE_DONE);
}

/* ------------------------------------------------------------------------
 * Batches of job ids
 * ------------------------------------------------------------------------ */

static const char *
requeue_action(WorkqInstance *instance, WorkqStore *store, int64 job_id,
			   int ord, const void *arg)
{
	int64		holder;
	char	   *key;

	switch (requeue_job(instance, store, job_id, &holder, &key))
	{
		case REQUEUE_DONE:
			return "requeued";
		case REQUEUE_NOT_HELD:
			return "not_held";
		case REQUEUE_KEY_TAKEN:
			return "key_taken";
	}
	return NULL;				/* keep compiler quiet */
}

static int
compare_ids(const void *a, const void *b)
{
	const int64 *x = *(int64 *const *) a;
	const int64 *y = *(int64 *const *) b;

	/* of equal ones, the first given comes first */
	return *x != *y ? (*x > *y) - (*x < *y) : (x > y) - (x < y);
}

Datum
workq_job_batch(FunctionCallInfo fcinfo, WorkqJobAction action,
				const void *arg)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Datum	   *values;
	bool	   *nulls;
	int64	   *ids;
	int64	  **order;
	const char **status;
	WorkqInstance *instance;
	WorkqStore *store;
	WorkqJobRow row;
	int			n;
	int			i;

	n = workq_arg_array(fcinfo, 0, "job_ids", INT8OID, &values, &nulls);
	ids = palloc(sizeof(int64) * Max(n, 1));
	order = palloc(sizeof(int64 *) * Max(n, 1));
	status = palloc(sizeof(char *) * Max(n, 1));
	for (i = 0; i < n; i++)
	{
		if (nulls[i])
			workq_arg_missing("an element of job_ids");
		ids[i] = DatumGetInt64(values[i]);
		order[i] = &ids[i];
	}
	qsort(order, n, sizeof(int64 *), compare_ids);

	workq_compat_init_srf(fcinfo);
	instance = workq_sched_instance();
	store = workq_store_open();
	for (i = 0; i < n; i++)
	{
		bool		known = queue_of_job(store, *order[i], &row) != NULL;

		status[order[i] - ids] = known ?
			action(instance, store, *order[i], order[i] - ids, arg) : NULL;
		workq_store_flush(store);
	}
	workq_store_close(store);

	for (i = 0; i < n; i++)
	{
		Datum		out[4];
		bool		out_nulls[4] = {false, false, false, false};

		out[0] = Int32GetDatum(i + 1);
		out[1] = Int64GetDatum(ids[i]);
		out[2] = CStringGetTextDatum(status[i] != NULL ? status[i] : "not_found");
		out[3] = (Datum) 0;
		if (status[i] == NULL)
			out[3] = CStringGetTextDatum(unpack_sql_state(ERRCODE_UNDEFINED_OBJECT));
		else if (strcmp(status[i], "key_taken") == 0)
			out[3] = CStringGetTextDatum(unpack_sql_state(ERRCODE_DUPLICATE_OBJECT));
		else
			out_nulls[3] = true;
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, out,
							 out_nulls);
	}
	return (Datum) 0;
}

static const char *
cancel_action(WorkqInstance *instance, WorkqStore *store, int64 job_id,
			  int ord, const void *arg)
{
	return cancel_job(instance, store, job_id, (const char *) arg);
}

Datum
workq_cancel_batch(PG_FUNCTION_ARGS)
{
	workq_store_require("workq_cancel_batch()", true);
	return workq_job_batch(fcinfo, cancel_action,
						   workq_arg_text_or_null(fcinfo, 1, "reason"));
}

Datum
workq_requeue_batch(PG_FUNCTION_ARGS)
{
	workq_store_require("workq_requeue_batch()", true);
	return workq_job_batch(fcinfo, requeue_action, NULL);
}

/* ------------------------------------------------------------------------
 * Whole queues
 * ------------------------------------------------------------------------ */

/* A verb on all rows of one kind of a queue. */
typedef struct Sweep
{
	WorkqInstance *instance;
	WorkqStore *store;
	int32		queue_id;
	int			queue;
	TimestampTz now;
	int64		limit;
	int64		done;
} Sweep;

static void
sweep_begin(Sweep *sweep, const char *name, int64 limit)
{
	WorkqQueueInfo *info;

	sweep->instance = workq_sched_instance();
	sweep->store = workq_store_open();
	info = workq_queue_by_name(name, false);
	workq_access_require(info, WORKQ_RIGHT_MANAGE);
	sweep->queue_id = info->queue_id;
	sweep->queue = workq_sched_queue(sweep->instance, info->queue_id,
									 &info->settings);
	sweep->now = workq_now();
	sweep->limit = limit;
	sweep->done = 0;
}

/*
 * Take the row a cursor stands on; what others have in hand is passed.
 */
static bool
sweep_take(Sweep *sweep, WorkqCursor *cursor, WorkqChangeKind kind,
		   const WorkqJob *job)
{
	WorkqChange *change;
	int			lane = -1;

	if (kind == WORKQ_CHANGE_READY_TAKE)
		lane = workq_sched_pin_lane(sweep->queue, job->lane);
	change = workq_xact_change(kind, sweep->queue, lane);
	change->priority = job->priority;
	change->pos.since = job->since;
	change->pos.job_id = job->job_id;
	if (workq_store_take(cursor) == WORKQ_TAKEN)
	{
		sweep->done++;
		return true;
	}
	workq_xact_drop_last();
	workq_sched_unpin_lane(sweep->queue, lane);
	return false;
}

static void
purge_rows(Sweep *sweep, WorkqCursor *cursor, WorkqChangeKind kind)
{
	MemoryContext per_row = AllocSetContextCreate(CurrentMemoryContext,
												  "workq purge",
												  ALLOCSET_DEFAULT_SIZES);
	WorkqRow	row;

	while ((row = workq_store_next(cursor)) != WORKQ_ROW_END)
	{
		MemoryContext old = MemoryContextSwitchTo(per_row);
		WorkqJob	job;
		WorkqEvent	event;

		CHECK_FOR_INTERRUPTS();
		if (row == WORKQ_ROW_CANDIDATE)
		{
			workq_store_row(cursor, &job);
			if (sweep_take(sweep, cursor, kind, &job))
			{
				workq_store_hold_segment(sweep->store, job.job_id);
				workq_outcome_drop_key(sweep->store, &job);
				workq_store_event_init(&event, "purged", &job, sweep->now);
				workq_store_add_event(sweep->store, &event);
				workq_outcome_respond(sweep->store, &job, sweep->now,
									  "purged", NULL);
			}
		}
		MemoryContextSwitchTo(old);
		MemoryContextReset(per_row);
	}
	workq_store_end(cursor);
	MemoryContextDelete(per_row);
}

Datum
workq_purge(PG_FUNCTION_ARGS)
{
	char	   *name;
	bool		scheduled;
	Sweep		sweep;
	WorkqPos	first = {DT_NOBEGIN, 0};

	workq_store_require("workq_purge()", true);
	name = workq_arg_name(fcinfo, 0, "queue");
	scheduled = !PG_ARGISNULL(2) && PG_GETARG_BOOL(2);
	sweep_begin(&sweep, name, PG_INT64_MAX);
	if (PG_ARGISNULL(1) || !PG_GETARG_BOOL(1))
	{
		WorkqCounters counters;

		workq_sched_counters(sweep.queue_id, &counters);
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("purging queue \"%s\" would remove " INT64_FORMAT " jobs",
						name, counters.ready +
						(scheduled ? counters.scheduled : 0)),
				 errhint("Say confirm => true to do it.")));
	}
	purge_rows(&sweep, workq_store_queue_cursor(sweep.store, sweep.queue_id),
			   WORKQ_CHANGE_READY_TAKE);
	if (scheduled)
		purge_rows(&sweep, workq_store_due_cursor(sweep.store, sweep.queue_id,
												  first),
				   WORKQ_CHANGE_DUE_TAKE);
	if (sweep.done > 0)
		workq_xact_count(WORKQ_CHANGE_DONE, sweep.queue, (int) sweep.done);
	workq_store_close(sweep.store);
	PG_RETURN_INT64(sweep.done);
}

Datum
workq_requeue_all(PG_FUNCTION_ARGS)
{
	char	   *name;
	Sweep		sweep;
	WorkqCursor *cursor;
	WorkqRow	row;

	workq_store_require("workq_requeue_all()", true);
	name = workq_arg_name(fcinfo, 0, "queue");
	sweep_begin(&sweep, name, workq_arg_int(fcinfo, 1, "max_jobs", 1,
											PG_INT32_MAX, PG_INT32_MAX));
	cursor = workq_store_held_cursor(sweep.store, sweep.queue_id, 0);
	while (sweep.done < sweep.limit &&
		   (row = workq_store_next(cursor)) != WORKQ_ROW_END)
	{
		WorkqJob	job;
		WorkqJobRow log_row;
		int64		holder;
		bool		had_key;

		CHECK_FOR_INTERRUPTS();
		if (row == WORKQ_ROW_PASS)
			continue;
		workq_store_row(cursor, &job);
		had_key = (job.flags & WORKQ_JOB_DEDUP) != 0;
		if (!workq_store_job(sweep.store, job.job_id, &log_row) ||
			!retake_key(sweep.store, &job, log_row.dedup_key, &holder))
			continue;
		if (sweep_take(&sweep, cursor, WORKQ_CHANGE_HELD_TAKE, &job))
			requeue_held(sweep.store, sweep.queue, &job, sweep.now);
		else if (!had_key && log_row.dedup_key != NULL)
			workq_store_dedup_drop(sweep.store, job.queue_id,
								   log_row.dedup_key, job.job_id);
	}
	workq_store_end(cursor);
	workq_store_close(sweep.store);
	PG_RETURN_INT64(sweep.done);
}

/* ------------------------------------------------------------------------
 * Looking at one job
 * ------------------------------------------------------------------------ */

static void
json_field(StringInfo out, const char *name, const char *value)
{
	if (value == NULL)
		return;
	appendStringInfoString(out, out->data[out->len - 1] == '{' ? "" : ", ");
	escape_json(out, name);
	appendStringInfoString(out, ": ");
	escape_json(out, value);
}

static void
json_time(StringInfo out, const char *name, TimestampTz value)
{
	if (value != DT_NOBEGIN)
	{
		char		buffer[MAXDATELEN + 1];

		JsonEncodeDateTime(buffer, TimestampTzGetDatum(value), TIMESTAMPTZOID,
						   NULL);
		json_field(out, name, buffer);
	}
}

/*
 * The job's events as a JSON array, oldest first.  Claim ids are for those who
 * may claim.
 */
static Datum
history_of(const WorkqFoundJob *found, bool claim_ids)
{
	StringInfoData out;
	ListCell   *lc;

	initStringInfo(&out);
	appendStringInfoChar(&out, '[');
	appendStringInfoChar(&out, '{');
	json_field(&out, "event", "enqueued");
	json_time(&out, "at", found->row.enqueued_at);
	json_time(&out, "due", found->row.run_at);
	appendStringInfoChar(&out, '}');
	foreach(lc, found->events)
	{
		const WorkqEvent *event = (const WorkqEvent *) lfirst(lc);

		appendStringInfoString(&out, ", {");
		json_field(&out, "event", event->event);
		json_time(&out, "at", event->at);
		appendStringInfo(&out, ", \"attempt\": %d, \"failures\": %d",
						 event->attempt, event->failures);
		if (event->has_claim && claim_ids)
			json_field(&out, "claim_id", workq_claim_id_text(&event->claim_id));
		json_field(&out, "worker", event->worker);
		json_time(&out, "deadline", event->deadline);
		json_time(&out, "ready_since", event->ready_since);
		json_time(&out, "due", event->due);
		json_field(&out, "decision", event->decision);
		json_field(&out, "reason", event->reason);
		appendStringInfoChar(&out, '}');
	}
	appendStringInfoChar(&out, ']');
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(out.data));
}

const char *
workq_job_state(const WorkqFoundJob *found, TimestampTz *since)
{
	const WorkqEvent *last;

	switch (found->place)
	{
		case WORKQ_PLACE_READY:
			*since = found->lease.job.since;
			return "ready";
		case WORKQ_PLACE_SCHEDULED:
			*since = found->lease.job.since;
			return "scheduled";
		case WORKQ_PLACE_LEASED:
			*since = found->lease.claimed_at;
			return "leased";
		case WORKQ_PLACE_HELD:
			*since = found->held_at;
			return found->held_state;
		case WORKQ_PLACE_DONE:
			break;
	}
	last = (const WorkqEvent *) llast(found->events);
	*since = last->at;
	if (strcmp(last->event, "acked") == 0)
		return "succeeded";
	return strcmp(last->event, "business_error") == 0 ? "error" : last->event;
}

Datum
workq_job(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	WorkqStore *store;
	WorkqQueueInfo *info;
	WorkqFoundJob found;
	WorkqRowOut out = {.n = 0};
	TimestampTz since;
	const char *state;
	WorkqResponse *response = NULL;
	List	   *responses;
	bool		payload;
	bool		leased;
	const WorkqJob *job = &found.lease.job;

	workq_store_require("workq_job()", false);
	if (PG_ARGISNULL(0))
		workq_arg_missing("job_id");
	workq_compat_init_srf(fcinfo);
	store = workq_store_open_reader();
	info = workq_job_find(store, PG_GETARG_INT64(0), WORKQ_RIGHT_MONITOR, &found);
	payload = info != NULL &&
		workq_access_has_any(info, WORKQ_RIGHTS_FOR_PAYLOAD);
	found.events = workq_store_events(store, found.row.job_id);
	responses = workq_store_responses(store, found.row.job_id);
	if (responses != NIL)
		response = llast(responses);
	if (job->flags & WORKQ_JOB_PAYLOAD)
		found.row.payload = workq_store_new_payload(store, found.row.job_id);
	state = workq_job_state(&found, &since);
	leased = found.place == WORKQ_PLACE_LEASED;

	workq_put(&out, Int64GetDatum(found.row.job_id), true);
	workq_put_text(&out, info != NULL ? pstrdup(info->name) : NULL);
	workq_put_text(&out, state);
	workq_put_text(&out, workq_priority_names[found.row.priority]);
	workq_put_text(&out, found.row.tenant);
	workq_put_text(&out, found.row.binding);
	workq_put_text(&out, found.row.trigger_id);
	workq_put_jsonb(&out, found.row.payload, payload);
	workq_put_jsonb(&out, found.row.headers, payload);
	workq_put_text(&out, found.row.correlation);
	workq_put_text(&out, found.row.dedup_key);
	workq_put(&out, TimestampTzGetDatum(found.row.enqueued_at), true);
	workq_put(&out, TimestampTzGetDatum(since), true);
	if (found.place == WORKQ_PLACE_DONE)
	{
		const WorkqEvent *last = (const WorkqEvent *) llast(found.events);

		workq_put(&out, Int32GetDatum(last->attempt), true);
		workq_put(&out, Int32GetDatum(last->failures), true);
	}
	else
	{
		workq_put(&out, Int32GetDatum(job->attempt), true);
		workq_put(&out, Int32GetDatum(job->failures), true);
	}
	workq_put(&out, Int32GetDatum(found.row.max_attempts), true);
	workq_put_text(&out, leased ? found.lease.worker : NULL);
	workq_put(&out, UUIDPGetDatum(&found.lease.claim_id), leased && payload);
	workq_put(&out, TimestampTzGetDatum(found.lease.deadline), leased);
	workq_put_text(&out, response != NULL ? response->outcome : NULL);
	workq_put_jsonb(&out, response != NULL ? response->body : NULL, payload);
	workq_put_text(&out, response != NULL ? response->code : NULL);
	workq_put_text(&out, response != NULL ? response->message : NULL);
	workq_put(&out, history_of(&found, payload), true);
	workq_put_row(&out, rsinfo);
	workq_store_close(store);
	return (Datum) 0;
}
