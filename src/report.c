/*-------------------------------------------------------------------------
 *
 * report.c
 *	  The verbs of a claim's holder: renew, ack, fail, report_error,
 *	  report_status, release, park, and their batches.
 *
 * Here are the arguments and the answers; outcome.c does it.
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
PG_FUNCTION_INFO_V1(workq_report_error);
PG_FUNCTION_INFO_V1(workq_report_error_batch);
PG_FUNCTION_INFO_V1(workq_report_status);
PG_FUNCTION_INFO_V1(workq_report_status_batch);
PG_FUNCTION_INFO_V1(workq_release);
PG_FUNCTION_INFO_V1(workq_release_batch);
PG_FUNCTION_INFO_V1(workq_park);
PG_FUNCTION_INFO_V1(workq_park_batch);

static const char *const answer_names[] = {
	"ok", "repeated", "lost", "cancelled", "lease_limit"
};

static const int answer_codes[] = {
	0, 0, ERRCODE_WORKQ_CLAIM_LOST, ERRCODE_WORKQ_CANCELLED,
	ERRCODE_WORKQ_LEASE_LIMIT
};

/* ------------------------------------------------------------------------
 * The verbs
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

/*
 * One claim.  NULL when it is lost and the caller only wants to be told.
 */
Datum
workq_report_one(FunctionCallInfo fcinfo, const char *verb, WorkqReport *report,
				 int on_lost)
{
	WorkqCall	call;
	WorkqAnswer answer;

	workq_report_begin(&call, verb);
	workq_outcome_act(&call, report, &answer);
	workq_store_close(call.store);
	if (on_lost == 0 || answer.status == WORKQ_ANSWER_LIMIT)
		workq_report_raise(report, &answer);
	if (answer.status != WORKQ_ANSWER_OK && answer.status != WORKQ_ANSWER_REPEATED)
		PG_RETURN_NULL();
	if (report->kind == WORKQ_REPORT_RENEW)
		PG_RETURN_TIMESTAMPTZ(answer.deadline);
	PG_RETURN_BOOL(answer.status == WORKQ_ANSWER_OK);
}

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

WorkqAnswer *
workq_report_all(WorkqCall *call, WorkqReport *reports, int n, int on_lost)
{
	WorkqReport **order = palloc(sizeof(WorkqReport *) * Max(n, 1));
	WorkqAnswer *answers = palloc(sizeof(WorkqAnswer) * Max(n, 1));
	int			i;

	for (i = 0; i < n; i++)
		order[i] = &reports[i];
	qsort(order, n, sizeof(WorkqReport *), compare_reports);
	for (i = 0; i < n; i++)
	{
		WorkqAnswer *answer = &answers[order[i] - reports];

		workq_outcome_act(call, order[i], answer);
		if (on_lost == 0)
			workq_report_raise(order[i], answer);
	}
	workq_store_close(call->store);
	return answers;
}

/*
 * A batch, told element by element.
 */
static Datum
report_many(FunctionCallInfo fcinfo, const char *verb, WorkqReport *reports,
			int n, int on_lost)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	WorkqAnswer *answers;
	WorkqCall	call;
	int			i;

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

/*
 * The reports of a batch, one for each claim id, all with what "common" says.
 */
WorkqReport *
workq_report_args(FunctionCallInfo fcinfo, const WorkqReport *common, int *n)
{
	Datum	   *values;
	bool	   *nulls;
	WorkqReport *reports;
	int			i;

	*n = workq_arg_array(fcinfo, 0, "claim_ids", UUIDOID, &values, &nulls);
	reports = palloc(sizeof(WorkqReport) * Max(*n, 1));
	for (i = 0; i < *n; i++)
	{
		if (nulls[i])
			workq_arg_missing("an element of claim_ids");
		reports[i] = *common;
		reports[i].claim_id = DatumGetUUIDP(values[i]);
		(void) workq_claim_id_job(reports[i].claim_id);
	}
	return reports;
}

/*
 * An optional array that goes with the claim ids; NULL if it is not given.
 */
Datum *
workq_report_parallel(FunctionCallInfo fcinfo, int arg, const char *what, Oid type,
					  int n, bool **nulls)
{
	Datum	   *values;
	int			count;

	if (PG_ARGISNULL(arg))
		return NULL;
	count = workq_arg_array(fcinfo, arg, what, type, &values, nulls);
	if (count != n)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("%s must have as many elements as claim_ids", what),
				 errdetail("It has %d, claim_ids has %d.", count, n)));
	return values;
}

/*
 * Optional arrays of texts and of jsonb that go with the claim ids.
 */
static void
arg_texts(FunctionCallInfo fcinfo, int arg, const char *what,
		  WorkqReport *reports, int n)
{
	Datum	   *values;
	bool	   *nulls = NULL;
	int			i;

	values = workq_report_parallel(fcinfo, arg, what, TEXTOID, n, &nulls);
	for (i = 0; values != NULL && i < n; i++)
	{
		if (nulls[i])
			continue;
		if (strcmp(what, "codes") == 0)
			reports[i].code = workq_check_name(DatumGetTextPP(values[i]),
											   "code");
		else
			reports[i].message = workq_check_text(DatumGetTextPP(values[i]),
												  "message");
	}
}

static void
arg_bodies(FunctionCallInfo fcinfo, int arg, const char *what,
		   const char *element, WorkqReport *reports, int n)
{
	Datum	   *values;
	bool	   *nulls = NULL;
	int			i;

	values = workq_report_parallel(fcinfo, arg, what, JSONBOID, n, &nulls);
	for (i = 0; values != NULL && i < n; i++)
	{
		if (!nulls[i])
			reports[i].body = workq_check_jsonb(values[i], element);
	}
}

static const char *const on_fail_names[] = {"retry", "hold_lease", NULL};

Datum
workq_renew(PG_FUNCTION_ARGS)
{
	WorkqReport report = {.kind = WORKQ_REPORT_RENEW};
	int			on_lost;

	workq_store_require("workq_renew()", true);
	report.claim_id = workq_report_claim_id(fcinfo);
	report.lease = workq_arg_interval(fcinfo, 1, "lease", 1000,
									  WORKQ_MAX_INTERVAL, -1);
	on_lost = workq_arg_enum(fcinfo, 2, "on_lost", workq_on_lost_names, 0);
	return workq_report_one(fcinfo, "workq_renew()", &report, on_lost);
}

Datum
workq_renew_batch(PG_FUNCTION_ARGS)
{
	WorkqReport common = {.kind = WORKQ_REPORT_RENEW};
	WorkqReport *reports;
	int			n;
	int			on_lost;

	workq_store_require("workq_renew_batch()", true);
	common.lease = workq_arg_interval(fcinfo, 1, "lease", 1000,
									  WORKQ_MAX_INTERVAL, -1);
	on_lost = workq_arg_enum(fcinfo, 2, "on_lost", workq_on_lost_names, 1);
	reports = workq_report_args(fcinfo, &common, &n);
	return report_many(fcinfo, "workq_renew_batch()", reports, n, on_lost);
}

Datum
workq_ack(PG_FUNCTION_ARGS)
{
	WorkqReport report = {.kind = WORKQ_REPORT_ACK};
	int			on_lost;

	workq_store_require("workq_ack()", true);
	report.claim_id = workq_report_claim_id(fcinfo);
	report.body = workq_arg_jsonb_or_null(fcinfo, 1, "result");
	on_lost = workq_arg_enum(fcinfo, 2, "on_lost", workq_on_lost_names, 0);
	return workq_report_one(fcinfo, "workq_ack()", &report, on_lost);
}

Datum
workq_ack_batch(PG_FUNCTION_ARGS)
{
	WorkqReport common = {.kind = WORKQ_REPORT_ACK};
	WorkqReport *reports;
	int			n;
	int			on_lost;

	workq_store_require("workq_ack_batch()", true);
	on_lost = workq_arg_enum(fcinfo, 2, "on_lost", workq_on_lost_names, 1);
	reports = workq_report_args(fcinfo, &common, &n);
	arg_bodies(fcinfo, 1, "results", "a result", reports, n);
	return report_many(fcinfo, "workq_ack_batch()", reports, n, on_lost);
}

Datum
workq_fail(PG_FUNCTION_ARGS)
{
	WorkqReport report = {.kind = WORKQ_REPORT_FAIL};
	int			on_lost;

	workq_store_require("workq_fail()", true);
	report.claim_id = workq_report_claim_id(fcinfo);
	report.code = workq_arg_name_or_null(fcinfo, 1, "code");
	report.message = workq_arg_text_or_null(fcinfo, 2, "message");
	report.body = workq_arg_jsonb_or_null(fcinfo, 3, "body");
	report.delay = workq_arg_interval(fcinfo, 4, "retry_in", 0,
									  WORKQ_MAX_INTERVAL, -1);
	report.hold_lease = workq_arg_enum(fcinfo, 5, "on_fail", on_fail_names,
									   0) == 1;
	on_lost = workq_arg_enum(fcinfo, 6, "on_lost", workq_on_lost_names, 0);
	return workq_report_one(fcinfo, "workq_fail()", &report, on_lost);
}

Datum
workq_fail_batch(PG_FUNCTION_ARGS)
{
	WorkqReport common = {.kind = WORKQ_REPORT_FAIL};
	WorkqReport *reports;
	int			n;
	int			on_lost;

	workq_store_require("workq_fail_batch()", true);
	common.delay = workq_arg_interval(fcinfo, 4, "retry_in", 0,
									  WORKQ_MAX_INTERVAL, -1);
	common.hold_lease = workq_arg_enum(fcinfo, 5, "on_fail", on_fail_names,
									   0) == 1;
	on_lost = workq_arg_enum(fcinfo, 6, "on_lost", workq_on_lost_names, 1);
	reports = workq_report_args(fcinfo, &common, &n);
	arg_texts(fcinfo, 1, "codes", reports, n);
	arg_texts(fcinfo, 2, "messages", reports, n);
	arg_bodies(fcinfo, 3, "bodies", "body", reports, n);
	return report_many(fcinfo, "workq_fail_batch()", reports, n, on_lost);
}

Datum
workq_release(PG_FUNCTION_ARGS)
{
	WorkqReport report = {.kind = WORKQ_REPORT_RELEASE};
	int			on_lost;

	workq_store_require("workq_release()", true);
	report.claim_id = workq_report_claim_id(fcinfo);
	report.delay = workq_arg_interval(fcinfo, 1, "delay", 0,
									  WORKQ_MAX_INTERVAL, 0);
	report.reason = workq_arg_text_or_null(fcinfo, 2, "reason");
	on_lost = workq_arg_enum(fcinfo, 3, "on_lost", workq_on_lost_names, 0);
	return workq_report_one(fcinfo, "workq_release()", &report, on_lost);
}

Datum
workq_release_batch(PG_FUNCTION_ARGS)
{
	WorkqReport common = {.kind = WORKQ_REPORT_RELEASE};
	WorkqReport *reports;
	int			n;
	int			on_lost;

	workq_store_require("workq_release_batch()", true);
	common.delay = workq_arg_interval(fcinfo, 1, "delay", 0,
									  WORKQ_MAX_INTERVAL, 0);
	common.reason = workq_arg_text_or_null(fcinfo, 2, "reason");
	on_lost = workq_arg_enum(fcinfo, 3, "on_lost", workq_on_lost_names, 1);
	reports = workq_report_args(fcinfo, &common, &n);
	return report_many(fcinfo, "workq_release_batch()", reports, n, on_lost);
}

/* ------------------------------------------------------------------------
 * Business verdicts
 * ------------------------------------------------------------------------ */

Datum
workq_report_error(PG_FUNCTION_ARGS)
{
	WorkqReport report = {.kind = WORKQ_REPORT_ERROR};
	int			on_lost;

	workq_store_require("workq_report_error()", true);
	report.claim_id = workq_report_claim_id(fcinfo);
	report.code = workq_arg_name(fcinfo, 1, "code");
	report.message = workq_arg_text_or_null(fcinfo, 2, "message");
	report.body = workq_arg_jsonb_or_null(fcinfo, 3, "body");
	on_lost = workq_arg_enum(fcinfo, 4, "on_lost", workq_on_lost_names, 0);
	return workq_report_one(fcinfo, "workq_report_error()", &report, on_lost);
}

Datum
workq_report_error_batch(PG_FUNCTION_ARGS)
{
	WorkqReport common = {.kind = WORKQ_REPORT_ERROR};
	WorkqReport *reports;
	int			n;
	int			i;
	int			on_lost;

	workq_store_require("workq_report_error_batch()", true);
	on_lost = workq_arg_enum(fcinfo, 4, "on_lost", workq_on_lost_names, 1);
	reports = workq_report_args(fcinfo, &common, &n);
	if (PG_ARGISNULL(1))
		workq_arg_missing("codes");
	arg_texts(fcinfo, 1, "codes", reports, n);
	arg_texts(fcinfo, 2, "messages", reports, n);
	arg_bodies(fcinfo, 3, "bodies", "body", reports, n);
	for (i = 0; i < n; i++)
	{
		if (reports[i].code == NULL)
			workq_arg_missing("an element of codes");
	}
	return report_many(fcinfo, "workq_report_error_batch()", reports, n,
					   on_lost);
}

Datum
workq_report_status(PG_FUNCTION_ARGS)
{
	WorkqReport report = {.kind = WORKQ_REPORT_STATUS};
	int			on_lost;

	workq_store_require("workq_report_status()", true);
	report.claim_id = workq_report_claim_id(fcinfo);
	report.body = workq_arg_jsonb_or_null(fcinfo, 1, "value");
	if (report.body == NULL)
		workq_arg_missing("value");
	on_lost = workq_arg_enum(fcinfo, 2, "on_lost", workq_on_lost_names, 0);
	return workq_report_one(fcinfo, "workq_report_status()", &report, on_lost);
}

Datum
workq_report_status_batch(PG_FUNCTION_ARGS)
{
	WorkqReport common = {.kind = WORKQ_REPORT_STATUS};
	WorkqReport *reports;
	int			n;
	int			i;
	int			on_lost;

	workq_store_require("workq_report_status_batch()", true);
	on_lost = workq_arg_enum(fcinfo, 2, "on_lost", workq_on_lost_names, 1);
	reports = workq_report_args(fcinfo, &common, &n);
	if (PG_ARGISNULL(1))
		workq_arg_missing("values");
	arg_bodies(fcinfo, 1, "values", "a value", reports, n);
	for (i = 0; i < n; i++)
	{
		if (reports[i].body == NULL)
			workq_arg_missing("an element of values");
	}
	return report_many(fcinfo, "workq_report_status_batch()", reports, n,
					   on_lost);
}

/* ------------------------------------------------------------------------
 * Parking
 * ------------------------------------------------------------------------ */

Datum
workq_park(PG_FUNCTION_ARGS)
{
	WorkqReport report = {.kind = WORKQ_REPORT_PARK};
	int			on_lost;

	workq_store_require("workq_park()", true);
	report.claim_id = workq_report_claim_id(fcinfo);
	report.reason = workq_arg_text_or_null(fcinfo, 1, "reason");
	on_lost = workq_arg_enum(fcinfo, 2, "on_lost", workq_on_lost_names, 0);
	return workq_report_one(fcinfo, "workq_park()", &report, on_lost);
}

Datum
workq_park_batch(PG_FUNCTION_ARGS)
{
	WorkqReport common = {.kind = WORKQ_REPORT_PARK};
	WorkqReport *reports;
	int			n;
	int			on_lost;

	workq_store_require("workq_park_batch()", true);
	on_lost = workq_arg_enum(fcinfo, 2, "on_lost", workq_on_lost_names, 1);
	common.reason = workq_arg_text_or_null(fcinfo, 1, "reason");
	reports = workq_report_args(fcinfo, &common, &n);
	return report_many(fcinfo, "workq_park_batch()", reports, n, on_lost);
}
