/*-------------------------------------------------------------------------
 *
 * report.c
 *	  The verbs of a claim's holder, and their batches.
 *
 * All are alike: a claim id, or an array of them, what there is to say of the
 * claim, and on_lost.  So a table says what arguments each one has; here they
 * are read and the answers given, outcome.c does what they say.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "args.h"
#include "compat.h"
#include "errors.h"
#include "guc.h"
#include "outcome.h"
#include "queue.h"
#include "report.h"

PG_FUNCTION_INFO_V1(workq_renew);
PG_FUNCTION_INFO_V1(workq_renew_batch);
PG_FUNCTION_INFO_V1(workq_ack);
PG_FUNCTION_INFO_V1(workq_ack_batch);
PG_FUNCTION_INFO_V1(workq_fail);
PG_FUNCTION_INFO_V1(workq_fail_batch);
PG_FUNCTION_INFO_V1(workq_release);
PG_FUNCTION_INFO_V1(workq_release_batch);
PG_FUNCTION_INFO_V1(workq_report_error);
PG_FUNCTION_INFO_V1(workq_report_error_batch);
PG_FUNCTION_INFO_V1(workq_report_status);
PG_FUNCTION_INFO_V1(workq_report_status_batch);
PG_FUNCTION_INFO_V1(workq_park);
PG_FUNCTION_INFO_V1(workq_park_batch);
PG_FUNCTION_INFO_V1(workq_progress);
PG_FUNCTION_INFO_V1(workq_progress_batch);
PG_FUNCTION_INFO_V1(workq_checkpoint);
PG_FUNCTION_INFO_V1(workq_checkpoint_batch);

/* What there is to say of a claim. */
typedef enum ArgKind
{
	ARG_NONE,
	ARG_LEASE,
	ARG_DELAY,
	ARG_ON_FAIL,
	ARG_CODE,
	ARG_MESSAGE,
	ARG_REASON,
	ARG_STEP,
	ARG_BODY
} ArgKind;

typedef struct Arg
{
	ArgKind		kind;
	const char *name;
	const char *array;			/* of a batch, an element for each claim;
								 * NULL: there, too, it is one value for all */
	bool		required;
} Arg;

#define MAX_ARGS	5

typedef struct Verb
{
	const char *name;
	const char *batch;
	Arg			args[MAX_ARGS + 1]; /* behind the claim, before on_lost */
} Verb;

static const Verb verbs[] = {
	[WORKQ_REPORT_RENEW] = {
		"workq_renew()", "workq_renew_batch()", {
			{ARG_LEASE, "lease", NULL, false}
		}
	},
	[WORKQ_REPORT_ACK] = {
		"workq_ack()", "workq_ack_batch()", {
			{ARG_BODY, "result", "results", false}
		}
	},
	[WORKQ_REPORT_FAIL] = {
		"workq_fail()", "workq_fail_batch()", {
			{ARG_CODE, "code", "codes", false},
			{ARG_MESSAGE, "message", "messages", false},
			{ARG_BODY, "body", "bodies", false},
			{ARG_DELAY, "retry_in", NULL, false},
			{ARG_ON_FAIL, "on_fail", NULL, false}
		}
	},
	[WORKQ_REPORT_RELEASE] = {
		"workq_release()", "workq_release_batch()", {
			{ARG_DELAY, "delay", NULL, false},
			{ARG_REASON, "reason", NULL, false}
		}
	},
	[WORKQ_REPORT_ERROR] = {
		"workq_report_error()", "workq_report_error_batch()", {
			{ARG_CODE, "code", "codes", true},
			{ARG_MESSAGE, "message", "messages", false},
			{ARG_BODY, "body", "bodies", false}
		}
	},
	[WORKQ_REPORT_STATUS] = {
		"workq_report_status()", "workq_report_status_batch()", {
			{ARG_BODY, "value", "values", true}
		}
	},
	[WORKQ_REPORT_PARK] = {
		"workq_park()", "workq_park_batch()", {
			{ARG_REASON, "reason", NULL, false}
		}
	},
	[WORKQ_REPORT_PROGRESS] = {
		"workq_progress()", "workq_progress_batch()", {
			{ARG_BODY, "delta", "deltas", true}
		}
	},
	[WORKQ_REPORT_CHECKPOINT] = {
		"workq_checkpoint()", "workq_checkpoint_batch()", {
			{ARG_STEP, "step", "steps", true},
			{ARG_BODY, "result", "results", false}
		}
	}
};

static const char *const answer_names[] = {
	"ok", "repeated", "lost", "cancelled", "lease_limit"
};

static const int answer_codes[] = {
	0, 0, ERRCODE_WORKQ_CLAIM_LOST, ERRCODE_WORKQ_CANCELLED,
	ERRCODE_WORKQ_LEASE_LIMIT
};

static const char *const on_fail_names[] = {"retry", "hold_lease", NULL};

/* ------------------------------------------------------------------------
 * What the verbs share
 * ------------------------------------------------------------------------ */

void
workq_report_begin(WorkqCall *call, const char *verb)
{
	workq_store_require(verb, true);
	call->instance = workq_sched_instance();
	call->store = workq_store_open();
	call->now = workq_now();
}

void
workq_report_raise(const WorkqReport *report, const WorkqAnswer *answer)
{
	char	   *id = workq_claim_id_text(report->claim_id);

	switch (answer->status)
	{
		case WORKQ_ANSWER_OK:
		case WORKQ_ANSWER_REPEATED:
			return;
		case WORKQ_ANSWER_LOST:
			ereport(ERROR,
					(errcode(ERRCODE_WORKQ_CLAIM_LOST),
					 errmsg("claim %s is lost", id),
					 errdetail_internal("%s", answer->detail),
					 errhint("Roll back what was done for it; the job belongs to somebody else, or is done.")));
			return;
		case WORKQ_ANSWER_CANCELLED:
			ereport(ERROR,
					(errcode(ERRCODE_WORKQ_CANCELLED),
					 errmsg("the job of claim %s was cancelled", id),
					 errdetail_internal("%s", answer->detail)));
			return;
		case WORKQ_ANSWER_LIMIT:
			ereport(ERROR,
					(errcode(ERRCODE_WORKQ_LEASE_LIMIT),
					 errmsg("claim %s cannot be renewed for so long", id),
					 errdetail_internal("%s", answer->detail),
					 errhint("Ask for a shorter lease, or raise the queue's max_lease.")));
			return;
	}
}

const pg_uuid_t *
workq_report_claim_id(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(0))
		workq_arg_missing("claim_id");
	(void) workq_claim_id_job(PG_GETARG_UUID_P(0));
	return PG_GETARG_UUID_P(0);
}

/* ------------------------------------------------------------------------
 * Arguments
 * ------------------------------------------------------------------------ */

/*
 * Put a value into a report; "what" is its name for errors.
 */
static void
set_value(WorkqReport *report, ArgKind kind, Datum value, const char *what)
{
	switch (kind)
	{
		case ARG_NONE:
			break;
		case ARG_LEASE:
			report->lease = workq_interval_us(DatumGetIntervalP(value), what,
											  1000, WORKQ_MAX_INTERVAL);
			break;
		case ARG_DELAY:
			report->delay = workq_interval_us(DatumGetIntervalP(value), what,
											  0, WORKQ_MAX_INTERVAL);
			break;
		case ARG_ON_FAIL:
			report->hold_lease = workq_check_enum(TextDatumGetCString(value),
												  what, on_fail_names) == 1;
			break;
		case ARG_CODE:
			report->code = workq_check_name(DatumGetTextPP(value), what);
			break;
		case ARG_MESSAGE:
			report->message = workq_check_text(DatumGetTextPP(value), what);
			break;
		case ARG_REASON:
			report->reason = workq_check_text(DatumGetTextPP(value), what);
			break;
		case ARG_STEP:
			report->reason = workq_check_name(DatumGetTextPP(value), what);
			break;
		case ARG_BODY:
			report->body = workq_check_jsonb(value, what);
			break;
	}
}

/*
 * The arguments that are one value, of a batch those that hold for all its
 * claims.  Returns the number of the argument behind them, on_lost.
 */
static int
read_values(FunctionCallInfo fcinfo, WorkqReportKind kind, bool batch,
			WorkqReport *report)
{
	const Arg  *arg = verbs[kind].args;
	int			n = 1;

	memset(report, 0, sizeof(WorkqReport));
	report->kind = kind;
	report->lease = report->delay = -1;
	for (; arg->kind != ARG_NONE; arg++, n++)
	{
		if (batch && arg->array != NULL)
			continue;
		if (!PG_ARGISNULL(n))
			set_value(report, arg->kind, PG_GETARG_DATUM(n), arg->name);
		else if (arg->required)
			workq_arg_missing(arg->name);
	}
	return n;
}

/*
 * Argument "n" of a batch: an array with an element for each claim.
 */
static void
read_array(FunctionCallInfo fcinfo, int n, const Arg *arg,
		   WorkqReport *reports, int n_reports)
{
	char	   *element = psprintf("an element of %s", arg->array);
	Datum	   *values;
	bool	   *nulls;
	int			count;
	int			i;

	if (PG_ARGISNULL(n) && !arg->required)
		return;
	count = workq_arg_array(fcinfo, n, arg->array,
							arg->kind == ARG_BODY ? JSONBOID : TEXTOID,
							&values, &nulls);
	if (count != n_reports)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("%s must have as many elements as claim_ids",
						arg->array),
				 errdetail("It has %d, claim_ids has %d.", count, n_reports)));
	for (i = 0; i < count; i++)
	{
		if (!nulls[i])
			set_value(&reports[i], arg->kind, values[i], element);
		else if (arg->required)
			workq_arg_missing(element);
	}
}

WorkqReport *
workq_report_read_batch(FunctionCallInfo fcinfo, WorkqReportKind kind, int *n)
{
	const Arg  *arg = verbs[kind].args;
	WorkqReport common;
	WorkqReport *reports;
	Datum	   *values;
	bool	   *nulls;
	int			i;

	(void) read_values(fcinfo, kind, true, &common);
	*n = workq_arg_array(fcinfo, 0, "claim_ids", UUIDOID, &values, &nulls);
	reports = palloc(sizeof(WorkqReport) * Max(*n, 1));
	for (i = 0; i < *n; i++)
	{
		if (nulls[i])
			workq_arg_missing("an element of claim_ids");
		reports[i] = common;
		reports[i].claim_id = DatumGetUUIDP(values[i]);
		(void) workq_claim_id_job(reports[i].claim_id);
	}
	for (i = 1; arg->kind != ARG_NONE; arg++, i++)
	{
		if (arg->array != NULL)
			read_array(fcinfo, i, arg, reports, *n);
	}
	return reports;
}

/* ------------------------------------------------------------------------
 * One claim
 * ------------------------------------------------------------------------ */

/*
 * NULL when the claim is lost and the caller only wants to be told.
 */
static Datum
report_one(FunctionCallInfo fcinfo, WorkqReportKind kind)
{
	const char *verb = verbs[kind].name;
	const pg_uuid_t *claim_id;
	WorkqReport report;
	WorkqCall	call;
	WorkqAnswer answer;
	int			last;
	int			on_lost;

	workq_store_require(verb, true);
	claim_id = workq_report_claim_id(fcinfo);
	last = read_values(fcinfo, kind, false, &report);
	report.claim_id = claim_id;
	on_lost = workq_arg_enum(fcinfo, last, "on_lost", workq_on_lost_names, 0);
	workq_report_begin(&call, verb);
	workq_outcome_act(&call, &report, &answer);
	workq_store_close(call.store);
	if (on_lost == 0 || answer.status == WORKQ_ANSWER_LIMIT)
		workq_report_raise(&report, &answer);
	if (answer.status != WORKQ_ANSWER_OK &&
		answer.status != WORKQ_ANSWER_REPEATED)
		PG_RETURN_NULL();
	if (kind == WORKQ_REPORT_RENEW)
		PG_RETURN_TIMESTAMPTZ(answer.deadline);
	if (kind == WORKQ_REPORT_PROGRESS)
		PG_RETURN_INT32(answer.number);
	PG_RETURN_BOOL(answer.status == WORKQ_ANSWER_OK);
}

/* ------------------------------------------------------------------------
 * Many claims
 * ------------------------------------------------------------------------ */

static int
compare_reports(const void *a, const void *b)
{
	const WorkqReport *r = *(WorkqReport *const *) a;
	const WorkqReport *s = *(WorkqReport *const *) b;
	int64		x = workq_claim_id_job(r->claim_id);
	int64		y = workq_claim_id_job(s->claim_id);

	/* of equal ones, the first given comes first */
	return x != y ? (x > y) - (x < y) : (r > s) - (r < s);
}

/*
 * Parts of one stream that follow each other are written together, with the
 * lease written once.  Returns the number of the first report behind them.
 */
static int
join_parts(WorkqReport **order, int i, int n)
{
	int			next = i + 1;

	if (order[i]->kind != WORKQ_REPORT_PROGRESS)
		return next;
	while (next < n && memcmp(order[next]->claim_id, order[i]->claim_id,
							  UUID_LEN) == 0)
	{
		order[next - 1]->more = order[next];
		next++;
	}
	return next;
}

WorkqAnswer *
workq_report_all(WorkqCall *call, WorkqReport *reports, int n, int on_lost)
{
	WorkqReport **order = palloc(sizeof(WorkqReport *) * Max(n, 1));
	WorkqAnswer *answers = palloc(sizeof(WorkqAnswer) * Max(n, 1));
	int64		last = 0;
	int			next;
	int			i;

	for (i = 0; i < n; i++)
		order[i] = &reports[i];
	qsort(order, n, sizeof(WorkqReport *), compare_reports);
	for (i = 0; i < n; i = next)
	{
		int64		job_id = workq_claim_id_job(order[i]->claim_id);
		WorkqAnswer answer;

		/* a command cannot change a row that it has written itself */
		if (job_id == last)
			workq_store_flush(call->store);
		last = job_id;
		next = join_parts(order, i, n);
		workq_outcome_act(call, order[i], &answer);
		if (on_lost == 0)
			workq_report_raise(order[i], &answer);
		for (; i < next; i++)
			answers[order[i] - reports] = answer;
	}
	workq_store_close(call->store);
	return answers;
}

/*
 * Told element by element.
 */
static Datum
report_many(FunctionCallInfo fcinfo, WorkqReportKind kind)
{
	const char *verb = verbs[kind].batch;
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	WorkqReport *reports;
	WorkqAnswer *answers;
	WorkqCall	call;
	int			on_lost;
	int			n;
	int			i;

	workq_store_require(verb, true);
	for (i = 0; verbs[kind].args[i].kind != ARG_NONE; i++)
		;
	on_lost = workq_arg_enum(fcinfo, i + 1, "on_lost", workq_on_lost_names, 1);
	reports = workq_report_read_batch(fcinfo, kind, &n);
	workq_compat_init_srf(fcinfo);
	workq_report_begin(&call, verb);
	answers = workq_report_all(&call, reports, n, on_lost);
	for (i = 0; i < n; i++)
	{
		Datum		values[5];
		bool		nulls[5] = {false, false, false, true, true};
		WorkqAnswerStatus status = answers[i].status;

		values[0] = Int32GetDatum(i + 1);
		values[1] = UUIDPGetDatum(reports[i].claim_id);
		values[2] = CStringGetTextDatum(answer_names[status]);
		values[3] = values[4] = (Datum) 0;
		if (answer_codes[status] != 0)
		{
			values[3] = CStringGetTextDatum(unpack_sql_state(answer_codes[status]));
			nulls[3] = false;
		}
		if (answers[i].deadline != DT_NOBEGIN)
		{
			values[4] = TimestampTzGetDatum(answers[i].deadline);
			nulls[4] = false;
		}
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* ------------------------------------------------------------------------
 * The verbs
 * ------------------------------------------------------------------------ */

Datum
workq_renew(PG_FUNCTION_ARGS)
{
	return report_one(fcinfo, WORKQ_REPORT_RENEW);
}

Datum
workq_renew_batch(PG_FUNCTION_ARGS)
{
	return report_many(fcinfo, WORKQ_REPORT_RENEW);
}

Datum
workq_ack(PG_FUNCTION_ARGS)
{
	return report_one(fcinfo, WORKQ_REPORT_ACK);
}

Datum
workq_ack_batch(PG_FUNCTION_ARGS)
{
	return report_many(fcinfo, WORKQ_REPORT_ACK);
}

Datum
workq_fail(PG_FUNCTION_ARGS)
{
	return report_one(fcinfo, WORKQ_REPORT_FAIL);
}

Datum
workq_fail_batch(PG_FUNCTION_ARGS)
{
	return report_many(fcinfo, WORKQ_REPORT_FAIL);
}

Datum
workq_release(PG_FUNCTION_ARGS)
{
	return report_one(fcinfo, WORKQ_REPORT_RELEASE);
}

Datum
workq_release_batch(PG_FUNCTION_ARGS)
{
	return report_many(fcinfo, WORKQ_REPORT_RELEASE);
}

Datum
workq_report_error(PG_FUNCTION_ARGS)
{
	return report_one(fcinfo, WORKQ_REPORT_ERROR);
}

Datum
workq_report_error_batch(PG_FUNCTION_ARGS)
{
	return report_many(fcinfo, WORKQ_REPORT_ERROR);
}

Datum
workq_report_status(PG_FUNCTION_ARGS)
{
	return report_one(fcinfo, WORKQ_REPORT_STATUS);
}

Datum
workq_report_status_batch(PG_FUNCTION_ARGS)
{
	return report_many(fcinfo, WORKQ_REPORT_STATUS);
}

Datum
workq_park(PG_FUNCTION_ARGS)
{
	return report_one(fcinfo, WORKQ_REPORT_PARK);
}

Datum
workq_park_batch(PG_FUNCTION_ARGS)
{
	return report_many(fcinfo, WORKQ_REPORT_PARK);
}

Datum
workq_progress(PG_FUNCTION_ARGS)
{
	return report_one(fcinfo, WORKQ_REPORT_PROGRESS);
}

Datum
workq_progress_batch(PG_FUNCTION_ARGS)
{
	return report_many(fcinfo, WORKQ_REPORT_PROGRESS);
}

Datum
workq_checkpoint(PG_FUNCTION_ARGS)
{
	return report_one(fcinfo, WORKQ_REPORT_CHECKPOINT);
}

Datum
workq_checkpoint_batch(PG_FUNCTION_ARGS)
{
	return report_many(fcinfo, WORKQ_REPORT_CHECKPOINT);
}
