/*-------------------------------------------------------------------------
 *
 * outcome.c
 *	  The verbs of a claim's holder: renew, ack, fail, release.
 *
 *	                     .-- ack --------------------------> done
 *	  claimed (lease) --+--- fail ----> scheduled -> ready     (or dead)
 *	    ^  | renew      |`-- release -> ready, or scheduled
 *	    `--'            `--- expiry --> ready                  (or dead)
 *
 * Every claim ends exactly once: whoever deletes the lease row ends it.  A
 * verb finds the row by the job id in the claim id, compares the claim id, and
 * deletes the row, waiting for whoever has it in hand; if the row has changed
 * it looks again.  When the lease is not there, the log tells whether this
 * claim has already ended in the same way: then nothing changes and the first
 * result stays; otherwise the claim is lost.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "common/pg_prng.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "access.h"
#include "args.h"
#include "compat.h"
#include "errors.h"
#include "guc.h"
#include "outcome.h"
#include "queue.h"
#include "relane.h"
#include "xact.h"

PG_FUNCTION_INFO_V1(workq_renew);
PG_FUNCTION_INFO_V1(workq_renew_batch);
PG_FUNCTION_INFO_V1(workq_ack);
PG_FUNCTION_INFO_V1(workq_ack_batch);
PG_FUNCTION_INFO_V1(workq_fail);
PG_FUNCTION_INFO_V1(workq_fail_batch);
PG_FUNCTION_INFO_V1(workq_release);
PG_FUNCTION_INFO_V1(workq_release_batch);

typedef enum ReportKind
{
	REPORT_RENEW,
	REPORT_ACK,
	REPORT_FAIL,
	REPORT_RELEASE
} ReportKind;

/* the event by which each kind is recorded */
static const char *const report_events[] = {
	"renewed", "acked", "failed", "released"
};

/* What a holder says of one claim. */
typedef struct Report
{
	ReportKind	kind;
	const pg_uuid_t *claim_id;
	int64		lease;			/* renew: microseconds, -1 for the default */
	int64		delay;			/* fail, release: -1 for none given */
	bool		hold_lease;		/* fail */
	const char *code;			/* fail */
	const char *message;		/* fail */
	const char *reason;			/* release */
	Jsonb	   *body;			/* ack, fail */
} Report;

typedef enum AnswerStatus
{
	ANSWER_OK,
	ANSWER_REPEATED,
	ANSWER_LOST,
	ANSWER_CANCELLED,
	ANSWER_LIMIT
} AnswerStatus;

static const char *const answer_names[] = {
	"ok", "repeated", "lost", "cancelled", "lease_limit"
};

static const int answer_codes[] = {
	0, 0, ERRCODE_WORKQ_CLAIM_LOST, ERRCODE_WORKQ_CANCELLED,
	ERRCODE_WORKQ_LEASE_LIMIT
};

typedef struct Answer
{
	AnswerStatus status;
	TimestampTz deadline;		/* of a renewal */
	char	   *detail;			/* a sentence, for an error */
} Answer;

/* One call of a verb. */
typedef struct Call
{
	WorkqInstance *instance;
	WorkqStore *store;
	TimestampTz now;
} Call;

/* What a verb needs to know of the claim's queue. */
typedef struct ClaimQueue
{
	int			number;
	int64		settings[WORKQ_N_SETTINGS];
} ClaimQueue;

/* ------------------------------------------------------------------------
 * Moving a job on
 * ------------------------------------------------------------------------ */

void
workq_outcome_to_ready(WorkqStore *store, int queue, const WorkqJob *job)
{
	WorkqJob	ready = *job;
	WorkqPos	pos;

	workq_relane_job(store, &ready);
	pos.since = ready.since;
	pos.job_id = ready.job_id;
	workq_store_add_ready(store, &ready);
	workq_sched_note_form(queue, workq_job_form(ready.flags));
	workq_xact_row(WORKQ_CHANGE_READY_ADD, queue,
				   workq_sched_pin_lane(queue, ready.lane), ready.priority,
				   pos);
}

void
workq_outcome_to_scheduled(WorkqStore *store, int queue, const WorkqJob *job)
{
	WorkqPos	pos;

	pos.since = job->since;
	pos.job_id = job->job_id;
	workq_store_add_scheduled(store, job);
	workq_xact_row(WORKQ_CHANGE_DUE_ADD, queue, -1, 0, pos);
}

void
workq_outcome_drop_key(WorkqStore *store, WorkqJob *job)
{
	WorkqJobRow row;

	if ((job->flags & WORKQ_JOB_DEDUP) &&
		workq_store_job(store, job->job_id, &row) && row.dedup_key != NULL)
		workq_store_dedup_drop(store, job->queue_id, row.dedup_key,
							   job->job_id);
	job->flags &= ~WORKQ_JOB_DEDUP;
}

void
workq_outcome_to_dead(WorkqStore *store, int queue, WorkqJob *job,
					  TimestampTz now, const char *reason)
{
	WorkqEvent	event;
	WorkqPos	pos = {0, 0};

	workq_outcome_drop_key(store, job);
	workq_store_event_init(&event, "dead", job, now);
	event.reason = reason;
	workq_store_add_event(store, &event);
	workq_store_add_held(store, job, now, "dead", reason);
	workq_xact_row(WORKQ_CHANGE_HELD_ADD, queue, -1, 0, pos);
}

void
workq_outcome_to_cancelled(WorkqStore *store, int queue, WorkqJob *job,
						   TimestampTz now, const char *reason)
{
	WorkqEvent	event;

	workq_outcome_drop_key(store, job);
	workq_store_event_init(&event, "cancelled", job, now);
	event.reason = reason;
	workq_store_add_event(store, &event);
	workq_xact_count(WORKQ_CHANGE_DONE, queue, 1);
}

/* ------------------------------------------------------------------------
 * Finding the claim
 * ------------------------------------------------------------------------ */

/*
 * The queue of a claim; 42501 if the caller may not claim from it.  False:
 * the queue is gone.
 */
static bool
claim_queue(Call *call, int32 queue_id, ClaimQueue *queue)
{
	WorkqQueueInfo *info = workq_queue_by_id(queue_id, true);
	int			i;

	if (info == NULL)
		return false;
	workq_access_require(info, WORKQ_RIGHT_CLAIM);
	for (i = 0; i < WORKQ_N_SETTINGS; i++)
		queue->settings[i] = workq_queue_setting(info, i);
	queue->number = workq_sched_queue(call->instance, queue_id,
									  &info->settings);
	return true;
}

/*
 * The claim holds no lease: what does the log say of it?
 */
static void
answer_from_log(Call *call, int64 job_id, const Report *report,
				Answer *answer)
{
	WorkqJobRow row;
	ClaimQueue	queue;
	WorkqEvent *last = NULL;
	ListCell   *lc;

	answer->status = ANSWER_LOST;
	answer->detail = "The claim is unknown.";
	if (!workq_store_job(call->store, job_id, &row) ||
		!claim_queue(call, row.queue_id, &queue))
		return;
	foreach(lc, workq_store_events(call->store, job_id))
	{
		WorkqEvent *event = (WorkqEvent *) lfirst(lc);

		if (!event->has_claim ||
			memcmp(&event->claim_id, report->claim_id, UUID_LEN) != 0)
			continue;
		last = event;
		if (report->kind != REPORT_RENEW &&
			strcmp(event->event, report_events[report->kind]) == 0)
		{
			answer->status = ANSWER_REPEATED;
			return;
		}
	}
	if (last != NULL && strcmp(last->event, "expired") == 0)
		answer->detail = psprintf("Its lease ended at %s and the job was taken back.",
								  timestamptz_to_str(last->deadline));
	else if (last != NULL)
		answer->detail = psprintf("The claim has ended already: %s.",
								  last->event);
}

/*
 * Find the lease of a claim.  False: it has none, *answer is filled in.
 */
static bool
find_claim(Call *call, int64 job_id, const Report *report, WorkqLease *lease,
		   ItemPointer tid, ClaimQueue *queue, Answer *answer)
{
	if (workq_store_find_lease(call->store, job_id, lease, tid) &&
		memcmp(&lease->claim_id, report->claim_id, UUID_LEN) == 0 &&
		!(lease->job.flags & WORKQ_JOB_HOLD_LEASE) &&
		claim_queue(call, lease->job.queue_id, queue))
		return true;
	answer_from_log(call, job_id, report, answer);
	return false;
}

static void
event_of_claim(WorkqEvent *event, const char *what, WorkqLease *lease,
			   TimestampTz at)
{
	workq_store_event_init(event, what, &lease->job, at);
	event->has_claim = true;
	event->claim_id = lease->claim_id;
	event->worker = lease->worker;
}

/* ------------------------------------------------------------------------
 * Renewing
 * ------------------------------------------------------------------------ */

/*
 * False: the row has changed, look again.
 */
static bool
renew(Call *call, const ClaimQueue *queue, WorkqLease *lease, ItemPointer tid,
	  const Report *report, Answer *answer)
{
	int64		max_lease = queue->settings[WORKQ_SET_MAX_LEASE] * 1000;
	int64		want = report->lease >= 0 ? report->lease :
	Min(WORKQ_DEFAULT_LEASE, max_lease);
	TimestampTz latest = lease->claimed_at + max_lease;
	WorkqEvent	event;
	WorkqPos	pos;

	if (lease->job.flags & WORKQ_JOB_CANCEL)
	{
		answer->status = ANSWER_CANCELLED;
		answer->detail = "Stop working on the job; whatever outcome you report, it does not run again.";
		return true;
	}
	if (call->now + want > latest)
	{
		answer->status = ANSWER_LIMIT;
		answer->detail = psprintf("The claim can be held until %s at most.",
								  timestamptz_to_str(latest));
		return true;
	}
	answer->deadline = lease->deadline;
	if (call->now + want <= lease->deadline)
		return true;			/* never earlier than it was */

	pos.since = lease->deadline;
	pos.job_id = lease->job.job_id;
	workq_xact_change(WORKQ_CHANGE_LEASE_MOVE, queue->number, -1)->pos = pos;
	lease->deadline = call->now + want;
	pos.since = lease->deadline;
	workq_xact_change(WORKQ_CHANGE_DEADLINE, queue->number, -1)->pos = pos;
	event_of_claim(&event, "renewed", lease,
				   Max(call->now, lease->claimed_at));
	event.deadline = lease->deadline;
	if (!workq_store_update_lease(call->store, lease, tid))
	{
		workq_xact_drop_last();
		workq_xact_drop_last();
		return false;
	}
	answer->deadline = lease->deadline;
	workq_store_add_event(call->store, &event);
	return true;
}

/* ------------------------------------------------------------------------
 * Ending
 * ------------------------------------------------------------------------ */

/*
 * How long to wait before the next attempt, in microseconds: base * 2^(n-1)
 * for the n-th failure, at most the cap, +- 20 % so that a fleet that failed
 * together does not come back together.
 */
static int64
backoff(const ClaimQueue *queue, int failures)
{
	double		base = queue->settings[WORKQ_SET_RETRY_BASE] * 1000.0;
	double		cap = queue->settings[WORKQ_SET_RETRY_CAP] * 1000.0;
	double		delay = Min(base * pow(2.0, Min(failures - 1, 62)), cap);

	return (int64) (delay * (0.8 + 0.4 * workq_compat_random_double()));
}

static void
respond(Call *call, const WorkqLease *lease, const Report *report,
		const char *outcome, TimestampTz at)
{
	WorkqResponse response;
	WorkqJobRow row;

	memset(&response, 0, sizeof(response));
	response.job_id = lease->job.job_id;
	response.at = at;
	response.queue_id = lease->job.queue_id;
	response.attempt = lease->job.attempt;
	response.has_claim = true;
	response.claim_id = lease->claim_id;
	response.outcome = outcome;
	response.worker = lease->worker;
	response.code = report->code;
	response.message = report->message;
	response.body = report->body;
	if ((lease->job.flags & WORKQ_JOB_CORRELATED) &&
		workq_store_job(call->store, lease->job.job_id, &row))
		response.correlation = row.correlation;
	workq_store_add_response(call->store, &response);
}

static void
end_acked(Call *call, const ClaimQueue *queue, WorkqLease *lease,
		  const Report *report, TimestampTz at)
{
	WorkqEvent	event;

	event_of_claim(&event, "acked", lease, at);
	workq_store_add_event(call->store, &event);
	respond(call, lease, report, "succeeded", at);
	workq_outcome_drop_key(call->store, &lease->job);
	workq_xact_count(WORKQ_CHANGE_DONE, queue->number, 1);
}

/*
 * A job that comes back after a delay, or at once at "since".
 */
static void
come_back(Call *call, const ClaimQueue *queue, WorkqJob *job, int64 delay,
		  TimestampTz since, WorkqEvent *event)
{
	workq_relane_job(call->store, job);
	job->since = delay > 0 ? call->now + delay : since;
	if (delay > 0)
		event->due = job->since;
	else
		event->ready_since = job->since;
	event->lane = job->lane;
	workq_store_add_event(call->store, event);
	if (delay > 0)
		workq_outcome_to_scheduled(call->store, queue->number, job);
	else
		workq_outcome_to_ready(call->store, queue->number, job);
}

static void
end_failed(Call *call, const ClaimQueue *queue, WorkqLease *lease,
		   const Report *report, TimestampTz at)
{
	WorkqJob   *job = &lease->job;
	WorkqEvent	event;
	const char *reason = report->code != NULL ? report->code : "failed";

	job->failures++;
	event_of_claim(&event, "failed", lease, at);
	event.reason = report->code;
	workq_xact_count(WORKQ_CHANGE_FAILED, queue->number, 1);
	if (job->flags & WORKQ_JOB_CANCEL)
	{
		workq_store_add_event(call->store, &event);
		respond(call, lease, report, "cancelled", at);
		workq_outcome_to_cancelled(call->store, queue->number, job, at, NULL);
	}
	else if (job->failures >= job->max_attempts)
	{
		workq_store_add_event(call->store, &event);
		respond(call, lease, report, "dead", at);
		workq_outcome_to_dead(call->store, queue->number, job, at, reason);
	}
	else
	{
		respond(call, lease, report, "retry", at);
		come_back(call, queue, job, report->delay >= 0 ? report->delay :
				  backoff(queue, job->failures), call->now, &event);
	}
}

static void
end_released(Call *call, const ClaimQueue *queue, WorkqLease *lease,
			 const Report *report, TimestampTz at)
{
	WorkqEvent	event;

	event_of_claim(&event, "released", lease, at);
	event.reason = report->reason;
	if (lease->job.flags & WORKQ_JOB_CANCEL)
	{
		workq_store_add_event(call->store, &event);
		workq_outcome_to_cancelled(call->store, queue->number, &lease->job, at,
								   NULL);
	}
	else
		come_back(call, queue, &lease->job, report->delay, lease->job.since,
				  &event);
}

/*
 * fail with on_fail => 'hold_lease': the failure is charged, the job stays
 * leased until the lease runs out.
 */
static bool
hold_failed(Call *call, const ClaimQueue *queue, WorkqLease *lease,
			ItemPointer tid, const Report *report, TimestampTz at)
{
	WorkqEvent	event;

	lease->job.failures++;
	lease->job.flags |= WORKQ_JOB_HOLD_LEASE;
	event_of_claim(&event, "failed", lease, at);
	if (!workq_store_update_lease(call->store, lease, tid))
		return false;
	event.deadline = lease->deadline;
	event.reason = report->code;
	workq_store_add_event(call->store, &event);
	respond(call, lease, report, "retry", at);
	workq_xact_count(WORKQ_CHANGE_FAILED, queue->number, 1);
	return true;
}

/*
 * False: the row has changed, look again.
 */
static bool
end_claim(Call *call, const ClaimQueue *queue, WorkqLease *lease,
		  ItemPointer tid, const Report *report)
{
	TimestampTz at = Max(call->now, lease->claimed_at);
	WorkqPos	pos;
	int			lane;

	if (report->kind == REPORT_FAIL && report->hold_lease &&
		!(lease->job.flags & WORKQ_JOB_CANCEL) &&
		lease->job.failures + 1 < lease->job.max_attempts)
	{
		pos.since = lease->deadline;
		pos.job_id = lease->job.job_id;
		workq_xact_change(WORKQ_CHANGE_LEASE_MOVE, queue->number, -1)->pos = pos;
		workq_xact_change(WORKQ_CHANGE_DEADLINE, queue->number, -1)->pos = pos;
		return hold_failed(call, queue, lease, tid, report, at);
	}

	pos.since = lease->deadline;
	pos.job_id = lease->job.job_id;
	lane = workq_sched_pin_ending(queue->number, lease->job.lane);
	workq_xact_change(WORKQ_CHANGE_LEASE_END, queue->number, lane)->pos = pos;
	if (!workq_store_delete(call->store, WORKQ_REL_LEASES, tid))
	{
		workq_xact_drop_last();
		workq_sched_unpin_lane(queue->number, lane);
		return false;
	}
	switch (report->kind)
	{
		case REPORT_ACK:
			end_acked(call, queue, lease, report, at);
			break;
		case REPORT_FAIL:
			end_failed(call, queue, lease, report, at);
			break;
		case REPORT_RELEASE:
			end_released(call, queue, lease, report, at);
			break;
		case REPORT_RENEW:
			break;
	}
	return true;
}

/*
 * Do what a holder says of one claim.
 */
static void
act(Call *call, const Report *report, Answer *answer)
{
	int64		job_id = workq_claim_id_job(report->claim_id);
	WorkqLease	lease;
	ItemPointerData tid;
	ClaimQueue	queue;
	bool		done = false;

	answer->status = ANSWER_OK;
	answer->deadline = DT_NOBEGIN;
	answer->detail = NULL;
	if (!workq_store_hold_segment(call->store, job_id))
	{
		answer->status = ANSWER_LOST;
		answer->detail = "The claim is unknown.";
		return;
	}
	while (!done)
	{
		CHECK_FOR_INTERRUPTS();
		if (!find_claim(call, job_id, report, &lease, &tid, &queue, answer))
			return;
		done = report->kind == REPORT_RENEW ?
			renew(call, &queue, &lease, &tid, report, answer) :
			end_claim(call, &queue, &lease, &tid, report);
	}
}

/* ------------------------------------------------------------------------
 * The verbs
 * ------------------------------------------------------------------------ */

static void
call_begin(Call *call, const char *verb)
{
	workq_store_require(verb, true);
	call->instance = workq_sched_instance();
	call->store = workq_store_open();
	call->now = workq_now();
}

static void
raise_answer(const Report *report, const Answer *answer)
{
	char	   *id;

	if (answer->status == ANSWER_OK || answer->status == ANSWER_REPEATED)
		return;
	id = workq_claim_id_text(report->claim_id);
	switch (answer->status)
	{
		case ANSWER_OK:
		case ANSWER_REPEATED:
			return;
		case ANSWER_LOST:
			ereport(ERROR,
					(errcode(ERRCODE_WORKQ_CLAIM_LOST),
					 errmsg("claim %s is lost", id),
					 errdetail_internal("%s", answer->detail),
					 errhint("Roll back what was done for it; the job belongs to somebody else, or is done.")));
			return;
		case ANSWER_CANCELLED:
			ereport(ERROR,
					(errcode(ERRCODE_WORKQ_CANCELLED),
					 errmsg("the job of claim %s was cancelled", id),
					 errdetail_internal("%s", answer->detail)));
			return;
		case ANSWER_LIMIT:
			ereport(ERROR,
					(errcode(ERRCODE_WORKQ_LEASE_LIMIT),
					 errmsg("claim %s cannot be renewed for so long", id),
					 errdetail_internal("%s", answer->detail),
					 errhint("Ask for a shorter lease, or raise the queue's max_lease.")));
			return;
	}
}

static const pg_uuid_t *
arg_claim_id(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(0))
		workq_arg_missing("claim_id");
	(void) workq_claim_id_job(PG_GETARG_UUID_P(0));
	return PG_GETARG_UUID_P(0);
}

/*
 * One claim.  NULL when it is lost and the caller only wants to be told.
 */
static Datum
report_one(FunctionCallInfo fcinfo, const char *verb, Report *report,
		   int on_lost)
{
	Call		call;
	Answer		answer;

	call_begin(&call, verb);
	act(&call, report, &answer);
	workq_store_close(call.store);
	if (on_lost == 0 || answer.status == ANSWER_LIMIT)
		raise_answer(report, &answer);
	if (answer.status != ANSWER_OK && answer.status != ANSWER_REPEATED)
		PG_RETURN_NULL();
	if (report->kind == REPORT_RENEW)
		PG_RETURN_TIMESTAMPTZ(answer.deadline);
	PG_RETURN_BOOL(answer.status == ANSWER_OK);
}

static int
compare_reports(const void *a, const void *b)
{
	const Report *r = *(Report *const *) a;
	const Report *s = *(Report *const *) b;
	int64		x = workq_claim_id_job(r->claim_id);
	int64		y = workq_claim_id_job(s->claim_id);

	/* of equal ones, the first given comes first */
	return x != y ? (x > y) - (x < y) : (r > s) - (r < s);
}

/*
 * Many claims: in the order of their jobs, so that two batches cannot wait for
 * each other; told in the order given.
 */
static Datum
report_many(FunctionCallInfo fcinfo, const char *verb, Report *reports, int n,
			int on_lost)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Report	  **order = palloc(sizeof(Report *) * Max(n, 1));
	Answer	   *answers = palloc(sizeof(Answer) * Max(n, 1));
	Call		call;
	int			i;

	workq_compat_init_srf(fcinfo);
	call_begin(&call, verb);
	for (i = 0; i < n; i++)
		order[i] = &reports[i];
	qsort(order, n, sizeof(Report *), compare_reports);
	for (i = 0; i < n; i++)
	{
		Answer	   *answer = &answers[order[i] - reports];

		act(&call, order[i], answer);
		if (on_lost == 0)
			raise_answer(order[i], answer);
	}
	workq_store_close(call.store);

	for (i = 0; i < n; i++)
	{
		Datum		values[5];
		bool		nulls[5] = {false, false, false, true, true};
		AnswerStatus status = answers[i].status;

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
static Report *
arg_reports(FunctionCallInfo fcinfo, const Report *common, int *n)
{
	Datum	   *values;
	bool	   *nulls;
	Report	   *reports;
	int			i;

	*n = workq_arg_array(fcinfo, 0, "claim_ids", UUIDOID, &values, &nulls);
	reports = palloc(sizeof(Report) * Max(*n, 1));
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
static Datum *
arg_parallel(FunctionCallInfo fcinfo, int arg, const char *what, Oid type,
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

static const char *const on_fail_names[] = {"retry", "hold_lease", NULL};

Datum
workq_renew(PG_FUNCTION_ARGS)
{
	Report		report = {.kind = REPORT_RENEW};
	int			on_lost;

	workq_store_require("workq_renew()", true);
	report.claim_id = arg_claim_id(fcinfo);
	report.lease = workq_arg_interval(fcinfo, 1, "lease", 1000,
									  WORKQ_MAX_INTERVAL, -1);
	on_lost = workq_arg_enum(fcinfo, 2, "on_lost", workq_on_lost_names, 0);
	return report_one(fcinfo, "workq_renew()", &report, on_lost);
}

Datum
workq_renew_batch(PG_FUNCTION_ARGS)
{
	Report		common = {.kind = REPORT_RENEW};
	Report	   *reports;
	int			n;
	int			on_lost;

	workq_store_require("workq_renew_batch()", true);
	common.lease = workq_arg_interval(fcinfo, 1, "lease", 1000,
									  WORKQ_MAX_INTERVAL, -1);
	on_lost = workq_arg_enum(fcinfo, 2, "on_lost", workq_on_lost_names, 1);
	reports = arg_reports(fcinfo, &common, &n);
	return report_many(fcinfo, "workq_renew_batch()", reports, n, on_lost);
}

Datum
workq_ack(PG_FUNCTION_ARGS)
{
	Report		report = {.kind = REPORT_ACK};
	int			on_lost;

	workq_store_require("workq_ack()", true);
	report.claim_id = arg_claim_id(fcinfo);
	report.body = workq_arg_jsonb_or_null(fcinfo, 1, "result");
	on_lost = workq_arg_enum(fcinfo, 2, "on_lost", workq_on_lost_names, 0);
	return report_one(fcinfo, "workq_ack()", &report, on_lost);
}

Datum
workq_ack_batch(PG_FUNCTION_ARGS)
{
	Report		common = {.kind = REPORT_ACK};
	Report	   *reports;
	Datum	   *results;
	bool	   *nulls = NULL;
	int			n;
	int			i;
	int			on_lost;

	workq_store_require("workq_ack_batch()", true);
	on_lost = workq_arg_enum(fcinfo, 2, "on_lost", workq_on_lost_names, 1);
	reports = arg_reports(fcinfo, &common, &n);
	results = arg_parallel(fcinfo, 1, "results", JSONBOID, n, &nulls);
	for (i = 0; results != NULL && i < n; i++)
	{
		if (!nulls[i])
			reports[i].body = workq_check_jsonb(results[i], "a result");
	}
	return report_many(fcinfo, "workq_ack_batch()", reports, n, on_lost);
}

Datum
workq_fail(PG_FUNCTION_ARGS)
{
	Report		report = {.kind = REPORT_FAIL};
	int			on_lost;

	workq_store_require("workq_fail()", true);
	report.claim_id = arg_claim_id(fcinfo);
	report.code = workq_arg_name_or_null(fcinfo, 1, "code");
	report.message = workq_arg_text_or_null(fcinfo, 2, "message");
	report.body = workq_arg_jsonb_or_null(fcinfo, 3, "body");
	report.delay = workq_arg_interval(fcinfo, 4, "retry_in", 0,
									  WORKQ_MAX_INTERVAL, -1);
	report.hold_lease = workq_arg_enum(fcinfo, 5, "on_fail", on_fail_names,
									   0) == 1;
	on_lost = workq_arg_enum(fcinfo, 6, "on_lost", workq_on_lost_names, 0);
	return report_one(fcinfo, "workq_fail()", &report, on_lost);
}

Datum
workq_fail_batch(PG_FUNCTION_ARGS)
{
	Report		common = {.kind = REPORT_FAIL};
	Report	   *reports;
	Datum	   *codes;
	Datum	   *messages;
	Datum	   *bodies;
	bool	   *no_code = NULL;
	bool	   *no_message = NULL;
	bool	   *no_body = NULL;
	int			n;
	int			i;
	int			on_lost;

	workq_store_require("workq_fail_batch()", true);
	common.delay = workq_arg_interval(fcinfo, 4, "retry_in", 0,
									  WORKQ_MAX_INTERVAL, -1);
	common.hold_lease = workq_arg_enum(fcinfo, 5, "on_fail", on_fail_names,
									   0) == 1;
	on_lost = workq_arg_enum(fcinfo, 6, "on_lost", workq_on_lost_names, 1);
	reports = arg_reports(fcinfo, &common, &n);
	codes = arg_parallel(fcinfo, 1, "codes", TEXTOID, n, &no_code);
	messages = arg_parallel(fcinfo, 2, "messages", TEXTOID, n, &no_message);
	bodies = arg_parallel(fcinfo, 3, "bodies", JSONBOID, n, &no_body);
	for (i = 0; i < n; i++)
	{
		if (codes != NULL && !no_code[i])
			reports[i].code = workq_check_name(DatumGetTextPP(codes[i]),
											   "code");
		if (messages != NULL && !no_message[i])
			reports[i].message = workq_check_text(DatumGetTextPP(messages[i]),
												  "message");
		if (bodies != NULL && !no_body[i])
			reports[i].body = workq_check_jsonb(bodies[i], "body");
	}
	return report_many(fcinfo, "workq_fail_batch()", reports, n, on_lost);
}

Datum
workq_release(PG_FUNCTION_ARGS)
{
	Report		report = {.kind = REPORT_RELEASE};
	int			on_lost;

	workq_store_require("workq_release()", true);
	report.claim_id = arg_claim_id(fcinfo);
	report.delay = workq_arg_interval(fcinfo, 1, "delay", 0,
									  WORKQ_MAX_INTERVAL, 0);
	report.reason = workq_arg_text_or_null(fcinfo, 2, "reason");
	on_lost = workq_arg_enum(fcinfo, 3, "on_lost", workq_on_lost_names, 0);
	return report_one(fcinfo, "workq_release()", &report, on_lost);
}

Datum
workq_release_batch(PG_FUNCTION_ARGS)
{
	Report		common = {.kind = REPORT_RELEASE};
	Report	   *reports;
	int			n;
	int			on_lost;

	workq_store_require("workq_release_batch()", true);
	common.delay = workq_arg_interval(fcinfo, 1, "delay", 0,
									  WORKQ_MAX_INTERVAL, 0);
	common.reason = workq_arg_text_or_null(fcinfo, 2, "reason");
	on_lost = workq_arg_enum(fcinfo, 3, "on_lost", workq_on_lost_names, 1);
	reports = arg_reports(fcinfo, &common, &n);
	return report_many(fcinfo, "workq_release_batch()", reports, n, on_lost);
}
