/*-------------------------------------------------------------------------
 *
 * outcome.c
 *	  What becomes of a job when its claim's holder reports.
 *
 *	                     .-- ack, error, status ----------> done
 *	  claimed (lease) --+--- fail ----> scheduled -> ready     (or dead, done)
 *	    ^  | renew      |`-- release -> ready, or scheduled
 *	    |  | progress   |`-- park ----> held, until unpark
 *	    `--' checkpoint  `-- expiry --> ready                  (or dead)
 *
 * Every claim ends exactly once: whoever deletes the lease row ends it.  A
 * verb finds the row by the job id in the claim id, compares the claim id, and
 * deletes the row, waiting for whoever has it in hand; if the row has changed
 * it looks again.  When the lease is not there, the log tells whether this
 * claim has already ended in the same way: then nothing changes and the first
 * result stays; otherwise the claim is lost.
 *
 * What does not end the claim (renew, progress, checkpoint) writes the lease
 * row anew, which fences it just so: of a progress and a take-back, whoever
 * has the row first wins.
 *
 * The verbs themselves are in report.c, what a fault means is in verdict.c, and
 * stream.c reads what a claim said while it ran.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/timestamp.h"

#include "access.h"
#include "args.h"
#include "guc.h"
#include "outcome.h"
#include "queue.h"
#include "relane.h"
#include "verdict.h"
#include "xact.h"

/* the event by which each kind is recorded, which a repetition looks for */
static const char *const report_events[] = {
	"renewed", "acked", "failed", "released", "business_error", "status",
	"parked", "progress", "checkpoint", ""
};

/* What a verb needs to know of the claim's queue. */
typedef struct ClaimQueue
{
	int			number;
	int64		settings[WORKQ_N_SETTINGS];
	const WorkqQueueInfo *info; /* valid until the next lookup */
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
					  TimestampTz now, const char *decision,
					  const char *reason)
{
	WorkqEvent	event;
	WorkqPos	pos = {0, 0};

	workq_outcome_drop_key(store, job);
	workq_store_event_init(&event, "dead", job, now);
	event.decision = decision;
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

void
workq_outcome_respond(WorkqStore *store, const WorkqJob *job, TimestampTz at,
					  const char *outcome, const char *message)
{
	WorkqResponse response;
	WorkqJobRow row;

	memset(&response, 0, sizeof(response));
	response.job_id = job->job_id;
	response.at = at;
	response.queue_id = job->queue_id;
	response.attempt = job->attempt;
	response.number = job->events;
	response.outcome = outcome;
	response.message = message;
	if ((job->flags & WORKQ_JOB_CORRELATED) &&
		workq_store_job(store, job->job_id, &row))
		response.correlation = row.correlation;
	workq_store_add_response(store, &response);
}

/* ------------------------------------------------------------------------
 * Finding the claim
 * ------------------------------------------------------------------------ */

/*
 * The queue of a claim; 42501 if the caller may not claim from it.  False:
 * the queue is gone.
 */
static bool
claim_queue(WorkqCall *call, int32 queue_id, ClaimQueue *queue)
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
	queue->info = info;
	return true;
}

static bool
ends_claim(WorkqReportKind kind)
{
	return kind != WORKQ_REPORT_RENEW && kind != WORKQ_REPORT_PROGRESS &&
		kind != WORKQ_REPORT_CHECKPOINT && kind != WORKQ_REPORT_LOOK;
}

/*
 * The claim holds no lease: what does the log say of it?  Who has no right at
 * all in the job's queue, and no claim id that ever was one, is not told that
 * there is such a job.
 */
static void
answer_from_log(WorkqCall *call, int64 job_id, const WorkqReport *report,
				WorkqAnswer *answer)
{
	WorkqJobRow row;
	WorkqQueueInfo *info;
	WorkqEvent *last = NULL;
	bool		repeated = false;
	ListCell   *lc;

	answer->status = WORKQ_ANSWER_LOST;
	answer->detail = "The claim is unknown.";
	if (!workq_store_job(call->store, job_id, &row))
		return;
	foreach(lc, workq_store_events(call->store, job_id))
	{
		WorkqEvent *event = (WorkqEvent *) lfirst(lc);

		if (!event->has_claim ||
			memcmp(&event->claim_id, report->claim_id, UUID_LEN) != 0)
			continue;
		last = event;
		if (ends_claim(report->kind) &&
			strcmp(event->event, report_events[report->kind]) == 0)
			repeated = true;
	}
	info = workq_queue_by_id(row.queue_id, true);
	if (info == NULL ||
		(last == NULL && !workq_access_has_any(info, WORKQ_RIGHT_ALL)))
		return;
	workq_access_require(info, WORKQ_RIGHT_CLAIM);
	if (repeated)
		answer->status = WORKQ_ANSWER_REPEATED;
	else if (last != NULL && strcmp(last->event, "expired") == 0)
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
find_claim(WorkqCall *call, int64 job_id, const WorkqReport *report, WorkqLease *lease,
		   ItemPointer tid, ClaimQueue *queue, WorkqAnswer *answer)
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

static void
answer_cancelled(WorkqAnswer *answer)
{
	answer->status = WORKQ_ANSWER_CANCELLED;
	answer->detail = "Stop working on the job; whatever outcome you report, it does not run again.";
}

/* ------------------------------------------------------------------------
 * Renewing, and other signs of life
 * ------------------------------------------------------------------------ */

/*
 * False: the row has changed, look again.
 */
static bool
renew(WorkqCall *call, const ClaimQueue *queue, WorkqLease *lease, ItemPointer tid,
	  const WorkqReport *report, WorkqAnswer *answer)
{
	int64		max_lease = queue->settings[WORKQ_SET_MAX_LEASE] * 1000;
	int64		want = report->lease >= 0 ? report->lease :
	Min(WORKQ_DEFAULT_LEASE, max_lease);
	TimestampTz latest = lease->claimed_at + max_lease;
	WorkqEvent	event;
	WorkqPos	pos;

	if (lease->job.flags & WORKQ_JOB_CANCEL)
	{
		answer_cancelled(answer);
		return true;
	}
	if (call->now + want > latest)
	{
		answer->status = WORKQ_ANSWER_LIMIT;
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

/*
 * Append to the job's log while it runs: parts of its stream, or a checkpoint.
 * Whoever writes to the log of a leased job writes its lease, too, one after
 * the other.  So the numbers of a job's events become visible in their order,
 * and of two checkpoints of one step the second finds the first.  False: the
 * row has changed, look again.
 */
static bool
append(WorkqCall *call, const ClaimQueue *queue, WorkqLease *lease,
	   ItemPointer tid, const WorkqReport *report, WorkqAnswer *answer)
{
	WorkqEvent	event;
	WorkqPos	pos;
	const WorkqReport *part;
	int			parts = 0;

	if (lease->job.flags & WORKQ_JOB_CANCEL)
	{
		answer_cancelled(answer);
		return true;
	}
	answer->deadline = lease->deadline;
	if (report->kind == WORKQ_REPORT_CHECKPOINT &&
		workq_store_has_checkpoint(call->store, lease->job.job_id,
								   report->reason))
	{
		answer->status = WORKQ_ANSWER_REPEATED;
		return true;
	}
	for (part = report; part != NULL; part = part->more)
		parts++;
	if (lease->job.events > WORKQ_MAX_EVENTS - parts)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("the log of job " INT64_FORMAT " is full",
						lease->job.job_id),
				 errdetail("It has %d events; at most %d are allowed.",
						   lease->job.events, WORKQ_MAX_EVENTS)));

	/* the old version may have been passed as being deleted */
	pos.since = lease->deadline;
	pos.job_id = lease->job.job_id;
	workq_xact_change(WORKQ_CHANGE_LEASE_MOVE, queue->number, -1)->pos = pos;
	workq_xact_change(WORKQ_CHANGE_DEADLINE, queue->number, -1)->pos = pos;
	event_of_claim(&event, report_events[report->kind], lease,
				   Max(call->now, lease->claimed_at));
	lease->job.events += parts - 1;
	if (!workq_store_update_lease(call->store, lease, tid))
	{
		workq_xact_drop_last();
		workq_xact_drop_last();
		return false;
	}
	for (part = report; part != NULL; part = part->more)
	{
		event.reason = part->reason;
		event.body = part->body;
		workq_store_add_event(call->store, &event);
		answer->number = event.number++;
	}
	return true;
}

/* ------------------------------------------------------------------------
 * Ending
 * ------------------------------------------------------------------------ */

/* A claim that ends. */
typedef struct Ending
{
	WorkqCall  *call;
	const ClaimQueue *queue;
	WorkqLease *lease;
	const WorkqReport *report;
	TimestampTz at;
} Ending;

/*
 * Record the outcome: the response to the report.
 */
static void
respond(const Ending *e, const char *outcome, const char *code,
		const Jsonb *body)
{
	WorkqStore *store = e->call->store;
	WorkqResponse response;
	WorkqJobRow row;

	memset(&response, 0, sizeof(response));
	response.job_id = e->lease->job.job_id;
	response.at = e->at;
	response.queue_id = e->lease->job.queue_id;
	response.attempt = e->lease->job.attempt;
	response.number = e->lease->job.events;
	response.has_claim = true;
	response.claim_id = e->lease->claim_id;
	response.outcome = outcome;
	response.worker = e->lease->worker;
	response.code = code;
	response.message = e->report->message;
	response.body = body;
	if ((e->lease->job.flags & WORKQ_JOB_CORRELATED) &&
		workq_store_job(store, e->lease->job.job_id, &row))
		response.correlation = row.correlation;
	workq_store_add_response(store, &response);
}

/*
 * The job is done, one way or another.
 */
static void
end_done(const Ending *e, const char *what, const char *outcome,
		 const char *code, const Jsonb *body)
{
	WorkqEvent	event;

	event_of_claim(&event, what, e->lease, e->at);
	event.reason = code;
	workq_store_add_event(e->call->store, &event);
	respond(e, outcome, code, body);
	workq_outcome_drop_key(e->call->store, &e->lease->job);
	workq_xact_count(WORKQ_CHANGE_DONE, e->queue->number, 1);
}

/*
 * The cancel that was asked for happens now; the outcome is recorded.
 */
static void
end_cancelled(const Ending *e, WorkqEvent *event)
{
	workq_store_add_event(e->call->store, event);
	respond(e, "cancelled", e->report->code, e->report->body);
	workq_outcome_to_cancelled(e->call->store, e->queue->number,
							   &e->lease->job, e->at, NULL);
}

/*
 * A job that comes back after a delay, or at once at "since".
 */
static void
come_back(const Ending *e, int64 delay, TimestampTz since, WorkqEvent *event)
{
	WorkqStore *store = e->call->store;
	WorkqJob   *job = &e->lease->job;

	workq_relane_job(store, job);
	job->since = delay > 0 ? e->call->now + delay : since;
	if (delay > 0)
		event->due = job->since;
	else
		event->ready_since = job->since;
	event->lane = job->lane;
	workq_store_add_event(store, event);
	if (delay > 0)
		workq_outcome_to_scheduled(store, e->queue->number, job);
	else
		workq_outcome_to_ready(store, e->queue->number, job);
}

static void
end_failed(const Ending *e, const WorkqVerdict *verdict)
{
	WorkqJob   *job = &e->lease->job;
	const WorkqReport *report = e->report;
	WorkqEvent	event;

	job->failures++;
	event_of_claim(&event, "failed", e->lease, e->at);
	event.reason = report->code;
	event.decision = verdict->decision;
	workq_xact_count(WORKQ_CHANGE_FAILED, e->queue->number, 1);
	if (job->flags & WORKQ_JOB_CANCEL)
	{
		event.decision = NULL;
		end_cancelled(e, &event);
		return;
	}
	switch (verdict->kind)
	{
		case WORKQ_VERDICT_RETRY:
			respond(e, "retry", report->code, report->body);
			come_back(e, verdict->delay, e->call->now, &event);
			break;
		case WORKQ_VERDICT_DEAD:
			workq_store_add_event(e->call->store, &event);
			respond(e, "dead", report->code, report->body);
			workq_outcome_to_dead(e->call->store, e->queue->number, job, e->at,
								  verdict->decision,
								  report->code != NULL ? report->code : "failed");
			break;
		case WORKQ_VERDICT_ERROR:
			workq_store_add_event(e->call->store, &event);
			end_done(e, "business_error", "error", verdict->code,
					 verdict->value != NULL ? verdict->value : report->body);
			break;
		case WORKQ_VERDICT_STATUS:
			workq_store_add_event(e->call->store, &event);
			end_done(e, "status", "status", verdict->code,
					 verdict->value != NULL ? verdict->value : report->body);
			break;
	}
}

static void
end_released(const Ending *e)
{
	WorkqEvent	event;

	event_of_claim(&event, "released", e->lease, e->at);
	event.reason = e->report->reason;
	if (e->lease->job.flags & WORKQ_JOB_CANCEL)
		end_cancelled(e, &event);
	else
		come_back(e, e->report->delay, e->lease->job.since, &event);
}

/*
 * Set aside until workq_unpark; it keeps its deduplication key.
 */
static void
end_parked(const Ending *e)
{
	WorkqEvent	event;
	WorkqPos	pos = {0, 0};

	event_of_claim(&event, "parked", e->lease, e->at);
	event.reason = e->report->reason;
	if (e->lease->job.flags & WORKQ_JOB_CANCEL)
	{
		end_cancelled(e, &event);
		return;
	}
	workq_store_add_event(e->call->store, &event);
	workq_store_add_held(e->call->store, &e->lease->job, e->at, "parked",
						 e->report->reason);
	workq_xact_row(WORKQ_CHANGE_HELD_ADD, e->queue->number, -1, 0, pos);
}

/*
 * fail with on_fail => 'hold_lease': the failure is charged, the job stays
 * leased until the lease runs out.
 */
static bool
hold_failed(const Ending *e, ItemPointer tid)
{
	WorkqLease *lease = e->lease;
	WorkqEvent	event;
	WorkqPos	pos;

	pos.since = lease->deadline;
	pos.job_id = lease->job.job_id;
	workq_xact_change(WORKQ_CHANGE_LEASE_MOVE, e->queue->number, -1)->pos = pos;
	workq_xact_change(WORKQ_CHANGE_DEADLINE, e->queue->number, -1)->pos = pos;
	lease->job.failures++;
	lease->job.flags |= WORKQ_JOB_HOLD_LEASE;
	event_of_claim(&event, "failed", lease, e->at);
	if (!workq_store_update_lease(e->call->store, lease, tid))
		return false;
	event.deadline = lease->deadline;
	event.reason = e->report->code;
	event.decision = "hold-lease";
	workq_store_add_event(e->call->store, &event);
	respond(e, "retry", e->report->code, e->report->body);
	workq_xact_count(WORKQ_CHANGE_FAILED, e->queue->number, 1);
	return true;
}

/*
 * False: the row has changed, look again.
 */
static bool
take_lease(const Ending *e, ItemPointer tid)
{
	int			queue = e->queue->number;
	WorkqPos	pos;
	int			lane;

	pos.since = e->lease->deadline;
	pos.job_id = e->lease->job.job_id;
	lane = workq_sched_pin_ending(queue, e->lease->job.lane);
	workq_xact_change(WORKQ_CHANGE_LEASE_END, queue, lane)->pos = pos;
	if (workq_store_delete(e->call->store, WORKQ_REL_LEASES, tid))
		return true;
	workq_xact_drop_last();
	workq_sched_unpin_lane(queue, lane);
	return false;
}

/*
 * False: the row has changed, look again.
 */
static bool
end_claim(WorkqCall *call, const ClaimQueue *queue, WorkqLease *lease,
		  ItemPointer tid, const WorkqReport *report)
{
	Ending		e;
	WorkqVerdict verdict;

	e.call = call;
	e.queue = queue;
	e.lease = lease;
	e.report = report;
	e.at = Max(call->now, lease->claimed_at);
	if (report->kind == WORKQ_REPORT_FAIL)
	{
		workq_verdict_of_fault(call->store, queue->info, &lease->job, report,
							   &verdict);
		if (report->hold_lease && verdict.kind == WORKQ_VERDICT_RETRY &&
			!(lease->job.flags & WORKQ_JOB_CANCEL))
			return hold_failed(&e, tid);
	}
	if (!take_lease(&e, tid))
		return false;
	switch (report->kind)
	{
		case WORKQ_REPORT_ACK:
			end_done(&e, "acked", "succeeded", NULL, report->body);
			break;
		case WORKQ_REPORT_ERROR:
			end_done(&e, "business_error", "error", report->code,
					 report->body);
			break;
		case WORKQ_REPORT_STATUS:
			end_done(&e, "status", "status", NULL, report->body);
			break;
		case WORKQ_REPORT_FAIL:
			end_failed(&e, &verdict);
			break;
		case WORKQ_REPORT_RELEASE:
			end_released(&e);
			break;
		case WORKQ_REPORT_PARK:
			end_parked(&e);
			break;
		case WORKQ_REPORT_RENEW:
		case WORKQ_REPORT_PROGRESS:
		case WORKQ_REPORT_CHECKPOINT:
		case WORKQ_REPORT_LOOK:
			break;
	}
	return true;
}

/*
 * Before anything else: its segment, held to the end of the transaction.
 */
static bool
hold_claim(WorkqCall *call, int64 job_id, WorkqAnswer *answer)
{
	answer->status = WORKQ_ANSWER_OK;
	answer->deadline = DT_NOBEGIN;
	answer->number = 0;
	answer->detail = NULL;
	if (workq_store_hold_segment(call->store, job_id))
		return true;
	answer->status = WORKQ_ANSWER_LOST;
	answer->detail = "The claim is unknown.";
	return false;
}

bool
workq_outcome_look(WorkqCall *call, const WorkqReport *report,
				   WorkqLease *lease, const WorkqQueueInfo **queue,
				   WorkqAnswer *answer)
{
	int64		job_id = workq_claim_id_job(report->claim_id);
	ItemPointerData tid;
	ClaimQueue	claim;

	if (!hold_claim(call, job_id, answer) ||
		!find_claim(call, job_id, report, lease, &tid, &claim, answer))
		return false;
	*queue = claim.info;
	return true;
}

void
workq_outcome_act(WorkqCall *call, const WorkqReport *report,
				  WorkqAnswer *answer)
{
	int64		job_id = workq_claim_id_job(report->claim_id);
	WorkqLease	lease;
	ItemPointerData tid;
	ClaimQueue	queue;
	bool		done = false;

	if (!hold_claim(call, job_id, answer))
		return;
	while (!done)
	{
		CHECK_FOR_INTERRUPTS();
		if (!find_claim(call, job_id, report, &lease, &tid, &queue, answer))
			return;
		if (ends_claim(report->kind))
			done = end_claim(call, &queue, &lease, &tid, report);
		else if (report->kind == WORKQ_REPORT_RENEW)
			done = renew(call, &queue, &lease, &tid, report, answer);
		else
			done = append(call, &queue, &lease, &tid, report, answer);
	}
}
