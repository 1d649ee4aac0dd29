/*-------------------------------------------------------------------------
 *
 * enqueue.c
 *	  workq_enqueue and workq_enqueue_batch.
 *
 * A job is written into the log and, in the same transaction, into ready or
 * scheduled.  Nothing else is waited for but another transaction that has the
 * same deduplication key in hand, and a log segment that is not there yet.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "access.h"
#include "args.h"
#include "compat.h"
#include "errors.h"
#include "guc.h"
#include "queue.h"
#include "retry.h"
#include "sched.h"
#include "segment.h"
#include "store.h"
#include "xact.h"

PG_FUNCTION_INFO_V1(workq_enqueue);
PG_FUNCTION_INFO_V1(workq_enqueue_batch);

/* A job to enqueue, and what became of it. */
typedef struct EnqueueJob
{
	WorkqJobRow row;			/* job_id, enqueued_at, queue_id, lane to come */
	int64		delay;			/* microseconds; -1: not given */
	int			max_attempts;	/* 0: the queue's */
	Jsonb	   *retry;			/* its own policy, or NULL */
	bool		created;
} EnqueueJob;

/* The queue as this call sees it. */
typedef struct EnqueueQueue
{
	WorkqInstance *instance;
	WorkqStore *store;
	int			number;			/* in shared memory */
	int32		queue_id;
	int64		settings[WORKQ_N_SETTINGS];
	WorkqLaneForm form;
	TimestampTz now;
} EnqueueQueue;

static void
queue_open(EnqueueQueue *q, const char *name)
{
	WorkqQueueInfo *info;
	int			i;

	q->instance = workq_sched_instance();
	q->store = workq_store_open();
	info = workq_queue_get_or_create(name);
	workq_access_require(info, WORKQ_RIGHT_ENQUEUE);
	if (info->settings.enqueue_paused)
		ereport(ERROR,
				(errcode(ERRCODE_WORKQ_QUEUE_PAUSED),
				 errmsg("queue \"%s\" is paused and takes no jobs", name),
				 errhint("An operator may resume it with workq_resume.")));
	q->queue_id = info->queue_id;
	for (i = 0; i < WORKQ_N_SETTINGS; i++)
		q->settings[i] = workq_queue_setting(info, i);
	q->form = workq_lane_form(q->settings, &info->settings);
	q->number = workq_sched_queue(q->instance, q->queue_id, &info->settings);
	workq_sched_note_form(q->number, q->form);
	q->now = workq_now();
}

/*
 * Give all jobs their ids, and see that the log has room for them.
 */
static void
assign_ids(EnqueueQueue *q, EnqueueJob *jobs, int n)
{
	int64		last = 0;
	int			done = 0;

	while (done < n)
	{
		int64		first;
		int			got = workq_ids_take(q->instance, n - done, &first);
		int			i;

		for (i = 0; i < got; i++)
			jobs[done + i].row.job_id = first + i;
		done += got;
		last = first + got - 1;
	}
	if (n > 0)
		workq_segment_ensure(last);
}

static int
compare_dedup(const void *a, const void *b)
{
	const EnqueueJob *x = *(EnqueueJob *const *) a;
	const EnqueueJob *y = *(EnqueueJob *const *) b;
	int			result = strcmp(x->row.dedup_key, y->row.dedup_key);

	if (result != 0)
		return result;
	return (x->row.job_id > y->row.job_id) - (x->row.job_id < y->row.job_id);
}

/*
 * Take the deduplication keys, in sorted order so that two batches cannot
 * wait for each other.  Of equal keys in one batch the first is created.
 */
static void
take_keys(EnqueueQueue *q, EnqueueJob *jobs, int n)
{
	EnqueueJob **keyed = palloc(sizeof(EnqueueJob *) * Max(n, 1));
	int			n_keyed = 0;
	int			i;

	for (i = 0; i < n; i++)
	{
		if (jobs[i].row.dedup_key != NULL)
			keyed[n_keyed++] = &jobs[i];
	}
	qsort(keyed, n_keyed, sizeof(EnqueueJob *), compare_dedup);
	for (i = 0; i < n_keyed; i++)
	{
		int64		holder;

		if (!workq_store_dedup_take(q->store, q->queue_id,
									keyed[i]->row.dedup_key,
									keyed[i]->row.job_id, &holder))
		{
			keyed[i]->row.job_id = holder;
			keyed[i]->created = false;
		}
	}
	pfree(keyed);
}

static void
write_job(EnqueueQueue *q, EnqueueJob *job)
{
	WorkqJobRow *row = &job->row;
	WorkqJob	live;
	WorkqPos	pos;

	row->queue_id = q->queue_id;
	row->enqueued_at = q->now;
	if (job->delay > 0)
		row->run_at = q->now + job->delay;
	else if (row->run_at != DT_NOBEGIN && row->run_at <= q->now)
		row->run_at = DT_NOBEGIN;	/* in the past: now, no jump ahead */
	row->max_attempts = job->max_attempts != 0 ? job->max_attempts :
		(int) q->settings[WORKQ_SET_MAX_ATTEMPTS];
	row->lane = workq_lane_of(q->form, row->tenant, row->binding,
							  row->trigger_id);
	workq_store_add_job(q->store, row);

	live.job_id = row->job_id;
	live.since = row->run_at != DT_NOBEGIN ? row->run_at : q->now;
	live.queue_id = q->queue_id;
	live.attempt = 0;
	live.failures = 0;
	live.events = 0;
	live.max_attempts = row->max_attempts;
	live.priority = row->priority;
	live.flags = (row->dedup_key != NULL ? WORKQ_JOB_DEDUP : 0) |
		(row->correlation != NULL ? WORKQ_JOB_CORRELATED : 0) |
		(job->retry != NULL ? WORKQ_JOB_RETRY : 0);
	live.flags = workq_job_with_form(live.flags, q->form);
	live.lane = row->lane;
	pos.since = live.since;
	pos.job_id = live.job_id;
	if (row->run_at != DT_NOBEGIN)
	{
		workq_store_add_scheduled(q->store, &live);
		workq_xact_row(WORKQ_CHANGE_DUE_ADD, q->number, -1, 0, pos);
	}
	else
	{
		workq_store_add_ready(q->store, &live);
		workq_xact_row(WORKQ_CHANGE_READY_ADD, q->number,
					   workq_sched_pin_lane(q->number, live.lane),
					   live.priority, pos);
	}
	pfree(row->lane);
}

static void
enqueue(EnqueueQueue *q, EnqueueJob *jobs, int n)
{
	int			created = 0;
	int			i;

	assign_ids(q, jobs, n);
	take_keys(q, jobs, n);
	for (i = 0; i < n; i++)
	{
		if (!jobs[i].created)
			continue;
		write_job(q, &jobs[i]);
		created++;
		if (i % 1000 == 999)
			CHECK_FOR_INTERRUPTS();
	}
	if (created > 0)
		workq_xact_count(WORKQ_CHANGE_ENQUEUED, q->number, created);
	workq_store_close(q->store);
}

static void
job_init(EnqueueJob *job)
{
	memset(job, 0, sizeof(EnqueueJob));
	job->row.priority = WORKQ_NORMAL;
	job->row.run_at = DT_NOBEGIN;
	job->delay = -1;
	job->created = true;
}

/*
 * What concerns several fields of one job.
 */
static void
job_check(EnqueueJob *job)
{
	if (job->delay >= 0 && job->row.run_at != DT_NOBEGIN)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("delay and run_at exclude each other")));
	if (job->row.payload == NULL)
		workq_arg_missing("payload");
	if (job->retry != NULL)
	{
		WorkqRetry	retry;

		memset(&retry, 0, sizeof(retry));
		workq_retry_parse(job->retry, &retry);
		if (retry.max_attempts != 0 && job->max_attempts != 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("max_attempts and retry's max_attempts exclude each other")));
		if (retry.max_attempts != 0)
			job->max_attempts = retry.max_attempts;
		job->row.options = workq_retry_options(job->retry);
	}
}

static TimestampTz
check_run_at(TimestampTz run_at)
{
	if (TIMESTAMP_NOT_FINITE(run_at))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("run_at must be finite")));
	return run_at;
}

Datum
workq_enqueue(PG_FUNCTION_ARGS)
{
	char	   *name;
	EnqueueQueue q;
	EnqueueJob	job;

	workq_store_require("workq_enqueue()", true);
	name = workq_arg_name(fcinfo, 0, "queue");
	job_init(&job);
	job.row.payload = workq_arg_jsonb_or_null(fcinfo, 1, "payload");
	job.row.priority = workq_arg_enum(fcinfo, 2, "priority",
									  workq_priority_names, WORKQ_NORMAL);
	job.row.tenant = workq_arg_name_or_null(fcinfo, 3, "tenant");
	job.row.binding = workq_arg_name_or_null(fcinfo, 4, "binding");
	job.row.trigger_id = workq_arg_name_or_null(fcinfo, 5, "trigger_id");
	job.row.headers = workq_arg_jsonb_or_null(fcinfo, 6, "headers");
	job.delay = workq_arg_interval(fcinfo, 7, "delay", 0, WORKQ_MAX_INTERVAL,
								   -1);
	if (!PG_ARGISNULL(8))
		job.row.run_at = check_run_at(PG_GETARG_TIMESTAMPTZ(8));
	job.row.dedup_key = workq_arg_name_or_null(fcinfo, 9, "dedup_key");
	job.max_attempts = workq_arg_int(fcinfo, 10, "max_attempts", 1,
									 WORKQ_MAX_ATTEMPTS, 0);
	job.row.correlation = workq_arg_name_or_null(fcinfo, 11, "correlation");
	job.retry = workq_arg_jsonb_or_null(fcinfo, 12, "retry");
	job_check(&job);

	queue_open(&q, name);
	enqueue(&q, &job, 1);
	PG_RETURN_INT64(job.row.job_id);
}

/* ------------------------------------------------------------------------
 * Batches: an array of objects
 * ------------------------------------------------------------------------ */

typedef enum BatchField
{
	FIELD_PAYLOAD,
	FIELD_PRIORITY,
	FIELD_TENANT,
	FIELD_BINDING,
	FIELD_TRIGGER_ID,
	FIELD_HEADERS,
	FIELD_DELAY,
	FIELD_RUN_AT,
	FIELD_DEDUP_KEY,
	FIELD_MAX_ATTEMPTS,
	FIELD_CORRELATION,
	FIELD_RETRY,
	N_FIELDS
} BatchField;

static const char *const field_names[] = {
	"payload", "priority", "tenant", "binding", "trigger_id", "headers",
	"delay", "run_at", "dedup_key", "max_attempts", "correlation",
	"retry", NULL
};

/* which element of the batch an error is about */
static void
batch_error_context(void *arg)
{
	errcontext("element %d of jobs", *(int *) arg);
}

static char *
value_string(const JsonbValue *value, BatchField field)
{
	if (value->type != jbvString)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be a string", field_names[field])));
	return pnstrdup(value->val.string.val, value->val.string.len);
}

static char *
value_name(const JsonbValue *value, BatchField field)
{
	char	   *string = value_string(value, field);

	return workq_check_name(cstring_to_text(string), field_names[field]);
}

static int
value_attempts(const JsonbValue *value)
{
	char	   *digits;
	char	   *end;
	long		result;

	if (value->type != jbvNumeric)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_attempts must be a number")));
	digits = DatumGetCString(DirectFunctionCall1(numeric_out,
												 NumericGetDatum(value->val.numeric)));
	errno = 0;
	result = strtol(digits, &end, 10);
	if (errno != 0 || *end != '\0' || result < 1 ||
		result > WORKQ_MAX_ATTEMPTS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_attempts must be an integer between 1 and %d, not %s",
						WORKQ_MAX_ATTEMPTS, digits)));
	return (int) result;
}

static int64
value_delay(const JsonbValue *value)
{
	Datum		interval;

	interval = DirectFunctionCall3(interval_in,
								   CStringGetDatum(value_string(value, FIELD_DELAY)),
								   ObjectIdGetDatum(InvalidOid),
								   Int32GetDatum(-1));
	return workq_interval_us(DatumGetIntervalP(interval), "delay", 0,
							 WORKQ_MAX_INTERVAL);
}

static TimestampTz
value_run_at(const JsonbValue *value)
{
	Datum		time;

	time = DirectFunctionCall3(timestamptz_in,
							   CStringGetDatum(value_string(value, FIELD_RUN_AT)),
							   ObjectIdGetDatum(InvalidOid),
							   Int32GetDatum(-1));
	return check_run_at(DatumGetTimestampTz(time));
}

static void
set_field(EnqueueJob *job, BatchField field, JsonbValue *value)
{
	WorkqJobRow *row = &job->row;

	/* a JSON null is a payload, everywhere else it means "not given" */
	if (value->type == jbvNull && field != FIELD_PAYLOAD)
		return;
	switch (field)
	{
		case FIELD_PAYLOAD:
			row->payload = workq_check_jsonb(JsonbPGetDatum(JsonbValueToJsonb(value)),
											 "payload");
			break;
		case FIELD_PRIORITY:
			row->priority = workq_check_enum(value_string(value, field),
											 "priority", workq_priority_names);
			break;
		case FIELD_TENANT:
			row->tenant = value_name(value, field);
			break;
		case FIELD_BINDING:
			row->binding = value_name(value, field);
			break;
		case FIELD_TRIGGER_ID:
			row->trigger_id = value_name(value, field);
			break;
		case FIELD_HEADERS:
			row->headers = workq_check_jsonb(JsonbPGetDatum(JsonbValueToJsonb(value)),
											 "headers");
			break;
		case FIELD_DELAY:
			job->delay = value_delay(value);
			break;
		case FIELD_RUN_AT:
			row->run_at = value_run_at(value);
			break;
		case FIELD_DEDUP_KEY:
			row->dedup_key = value_name(value, field);
			break;
		case FIELD_MAX_ATTEMPTS:
			job->max_attempts = value_attempts(value);
			break;
		case FIELD_CORRELATION:
			row->correlation = value_name(value, field);
			break;
		case FIELD_RETRY:
			job->retry = workq_check_jsonb(JsonbPGetDatum(JsonbValueToJsonb(value)),
										   "retry");
			break;
		case N_FIELDS:
			break;
	}
}

/*
 * One element of the array: the iterator stands behind its WJB_BEGIN_OBJECT.
 */
static void
read_object(JsonbIterator **it, EnqueueJob *job)
{
	JsonbValue	value;
	JsonbIteratorToken token;

	job_init(job);
	while ((token = JsonbIteratorNext(it, &value, true)) != WJB_END_OBJECT)
	{
		char	   *key;
		int			field;

		Assert(token == WJB_KEY);
		key = pnstrdup(value.val.string.val, value.val.string.len);
		field = workq_check_enum(key, "field of a job", field_names);
		(void) JsonbIteratorNext(it, &value, true);
		set_field(job, field, &value);
		pfree(key);
	}
	job_check(job);
}

static int
read_batch(Jsonb *array, EnqueueJob **jobs)
{
	JsonbIterator *it;
	JsonbValue	value;
	ErrorContextCallback context;
	int			n = 0;

	if (!JB_ROOT_IS_ARRAY(array) || JB_ROOT_IS_SCALAR(array))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("jobs must be an array of objects")));
	if (JB_ROOT_COUNT(array) > WORKQ_MAX_BATCH)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("jobs has too many elements"),
				 errdetail("It has %d elements; at most %d are allowed.",
						   (int) JB_ROOT_COUNT(array), WORKQ_MAX_BATCH)));
	*jobs = palloc(sizeof(EnqueueJob) * Max(JB_ROOT_COUNT(array), 1));

	context.callback = batch_error_context;
	context.arg = &n;
	context.previous = error_context_stack;
	error_context_stack = &context;
	it = JsonbIteratorInit(&array->root);
	(void) JsonbIteratorNext(&it, &value, false);
	for (;;)
	{
		JsonbIteratorToken token = JsonbIteratorNext(&it, &value, false);

		if (token == WJB_END_ARRAY)
			break;
		n++;
		if (token != WJB_BEGIN_OBJECT)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("jobs must be an array of objects")));
		read_object(&it, &(*jobs)[n - 1]);
	}
	error_context_stack = context.previous;
	return n;
}

Datum
workq_enqueue_batch(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	char	   *name;
	EnqueueQueue q;
	EnqueueJob *jobs;
	int			n;
	int			i;

	workq_store_require("workq_enqueue_batch()", true);
	name = workq_arg_name(fcinfo, 0, "queue");
	if (PG_ARGISNULL(1))
		workq_arg_missing("jobs");
	n = read_batch(PG_GETARG_JSONB_P(1), &jobs);
	workq_compat_init_srf(fcinfo);

	queue_open(&q, name);
	enqueue(&q, jobs, n);
	for (i = 0; i < n; i++)
	{
		Datum		values[3];
		bool		nulls[3] = {false, false, false};

		values[0] = Int32GetDatum(i + 1);
		values[1] = Int64GetDatum(jobs[i].row.job_id);
		values[2] = BoolGetDatum(jobs[i].created);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
