/*-------------------------------------------------------------------------
 *
 * claim.c
 *	  workq_claim and workq_claim_any: the next jobs, under a lease.
 *
 * For each job: reserve a turn (sched.c says which lane), look for the best
 * job there, delete its ready row without waiting, insert its lease.  A turn
 * whose look finds nothing is given back.  When nothing is offered, a job that
 * is due or whose lease has expired, and that the background worker has not
 * moved yet, is taken directly, but only to be returned.
 *
 * Order within a lane: effective rank, ready_since, job_id.  A job's rank is
 * its priority, or that of high once it has been ready for long enough.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "access.h"
#include "args.h"
#include "claim_int.h"
#include "compat.h"
#include "errors.h"
#include "guc.h"
#include "lease.h"
#include "overflow.h"
#include "queue.h"
#include "relane.h"
#include "sched.h"
#include "store.h"
#include "wait.h"
#include "xact.h"

PG_FUNCTION_INFO_V1(workq_claim);
PG_FUNCTION_INFO_V1(workq_claim_any);

#define CLAIM_COLUMNS	24
#define LANES_ADOPTED	64		/* at a time, when there are too many */
#define MAX_FRUITLESS	100		/* turns that lead nowhere */

/* One call. */
typedef struct ClaimCall
{
	ReturnSetInfo *rsinfo;
	char	   *worker;
	int64		lease;			/* microseconds; -1: the default */
	int			wanted;
	int			got;
	bool		listed;			/* queues in the order given */
	int			n;
	char	   *queue_name[WORKQ_MAX_WAIT_QUEUES];
	Claim	   *claim;			/* of each queue; made by each attempt */
} ClaimCall;

/* ------------------------------------------------------------------------
 * Granting a claim
 * ------------------------------------------------------------------------ */

static void
set_text(Datum *values, bool *nulls, int i, const char *value)
{
	nulls[i] = (value == NULL);
	if (value != NULL)
		values[i] = CStringGetTextDatum(value);
}

static void
set_jsonb(Datum *values, bool *nulls, int i, Jsonb *value)
{
	nulls[i] = (value == NULL);
	if (value != NULL)
		values[i] = JsonbPGetDatum(value);
}

/*
 * The row that the caller gets.
 */
static void
return_claim(Claim *claim, const WorkqLease *lease, const WorkqJobRow *row,
			 const WorkqEvent *event)
{
	Datum		values[CLAIM_COLUMNS];
	bool		nulls[CLAIM_COLUMNS];
	Interval	waited;

	memset(nulls, 0, sizeof(nulls));
	memset(&waited, 0, sizeof(waited));
	waited.time = Max(claim->now - lease->job.since, 0);
	values[0] = UUIDPGetDatum(&lease->claim_id);
	values[1] = Int64GetDatum(lease->job.job_id);
	set_text(values, nulls, 2, claim->queue_name);
	set_jsonb(values, nulls, 3, row->payload);
	set_jsonb(values, nulls, 4, row->headers);
	set_text(values, nulls, 5, row->tenant);
	set_text(values, nulls, 6, row->binding);
	set_text(values, nulls, 7, row->trigger_id);
	set_text(values, nulls, 8, workq_priority_names[lease->job.priority]);
	values[9] = Int32GetDatum(lease->job.attempt);
	values[10] = Int32GetDatum(lease->job.failures);
	values[11] = Int32GetDatum(lease->job.max_attempts);
	values[12] = TimestampTzGetDatum(lease->deadline);
	values[13] = TimestampTzGetDatum(row->enqueued_at);
	values[14] = TimestampTzGetDatum(claim->now);
	values[15] = IntervalPGetDatum(&waited);
	set_text(values, nulls, 16, event->fairness_key);
	set_text(values, nulls, 17, event->decision);
	nulls[18] = (event->promotion_deadline == DT_NOBEGIN);
	values[18] = TimestampTzGetDatum(event->promotion_deadline);
	nulls[19] = nulls[20] = nulls[21] = !event->has_share;
	values[19] = Int64GetDatum(event->round);
	values[20] = Int64GetDatum(event->credit);
	values[21] = Int32GetDatum(event->weight);
	values[22] = Int32GetDatum(event->policy_version);
	set_text(values, nulls, 23, row->correlation);
	tuplestore_putvalues(claim->rsinfo->setResult, claim->rsinfo->setDesc,
						 values, nulls);
}

/*
 * The log does not know a job whose live row has been taken: a foreign hand's
 * row, or a log that is incomplete, maybe just for now.  It must neither stop
 * the others nor be lost, so it is held; workq_requeue brings it back.
 */
static void
set_apart(Claim *claim, const WorkqJob *job)
{
	WorkqPos	pos = {0, 0};

	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("job " INT64_FORMAT " of queue \"%s\" is not in the log and is held",
					job->job_id, claim->queue_name)));
	workq_xact_row(WORKQ_CHANGE_HELD_ADD, claim->queue, -1, 0, pos);
	workq_store_add_held(claim->store, job, claim->now, "dead",
						 "not in the log");
}

/*
 * Give the job, whose live row has been taken, to the caller.  False: the log
 * does not know it, it is to be set apart.
 */
static bool
grant(Claim *claim, const WorkqJob *job, const WorkqSelection *selection,
	  bool promoted)
{
	WorkqLease	lease;
	WorkqJobRow row;
	WorkqEvent	event;
	WorkqPos	pos;

	if (!workq_store_job(claim->store, job->job_id, &row) &&
		!workq_store_job(claim->store, job->job_id, &row))
		return false;
	if (job->flags & WORKQ_JOB_PAYLOAD)
		row.payload = workq_store_new_payload(claim->store, job->job_id);
	lease.job = *job;
	lease.job.attempt++;
	lease.job.flags &= ~WORKQ_JOB_HOLD_LEASE;
	workq_claim_id_make(job->job_id, &lease.claim_id);
	lease.claimed_at = claim->now;
	lease.deadline = claim->now + claim->lease;
	lease.worker = claim->worker;
	workq_store_event_init(&event, "claimed", &lease.job, claim->now);
	workq_store_add_lease(claim->store, &lease);
	event.has_claim = true;
	event.claim_id = lease.claim_id;
	event.worker = lease.worker;
	event.deadline = lease.deadline;
	event.ready_since = job->since;
	event.lane = job->lane;
	event.policy_version = selection->policy_version;
	event.fairness_key = workq_fairness_key_of(claim->settings, row.tenant,
											   row.binding, row.trigger_id);
	event.has_share = selection->has_share;
	event.round = selection->round;
	event.credit = selection->credit;
	event.weight = selection->weight;
	if (selection->decision != NULL)
	{
		event.decision = selection->decision;
		event.promotion_deadline = selection->promotion_deadline;
	}
	else
	{
		event.decision = promoted ? "starvation-deadline" : "priority";
		event.promotion_deadline = workq_promotion_of(claim->settings,
													  job->priority, job->since);
	}
	workq_store_add_event(claim->store, &event);
	return_claim(claim, &lease, &row, &event);

	pos.since = lease.deadline;
	pos.job_id = job->job_id;
	workq_xact_row(WORKQ_CHANGE_LEASE_ADD, claim->queue, -1, 0, pos);
	claim->got++;
	return true;
}

/* ------------------------------------------------------------------------
 * The ways to find a job
 * ------------------------------------------------------------------------ */

/*
 * Take a lane out of the turns for the rest of this call.
 */
static void
set_aside(Claim *claim, int lane)
{
	WorkqWalk  *aside = workq_sched_set_aside(claim->queue, lane);

	if (aside == NULL)
		return;
	claim->aside = lappend(claim->aside, aside);
	claim->hid = true;
}

/*
 * Nothing can be had in this lane.  Usually it is not offered from here on.
 * If it stays on offer (a row there is merely locked, or it has changed while
 * we looked), it is set aside for the rest of this call, so that the turn goes
 * to other lanes.
 */
static void
lane_retire(Claim *claim, ClaimLane *lane)
{
	bool		locked = lane->locked;
	int			number = lane->look->lane;

	claim->lanes = list_delete_ptr(claim->lanes, lane);
	if (!workq_look_close(claim, lane) && !locked)
		claim->fruitless++;
	if (locked)
		set_aside(claim, number);
}

/*
 * One turn of the scheduler.  False: nothing is offered any more.
 */
static bool
claim_offered(Claim *claim)
{
	WorkqSelection selection;
	WorkqChange *change;
	ClaimLane  *lane;
	WorkqJob	job;
	TurnResult	result;
	bool		promoted = false;
	bool		moved = false;
	MemoryContext old;

	if (!workq_sched_select(claim->queue, claim->now, &selection))
	{
		if (selection.barred)
			set_aside(claim, selection.lane);
		return selection.barred;
	}
	lane = workq_look_open(claim, selection.lane);
	result = lane->exhausted ? TURN_EMPTY :
		workq_look_take(claim, lane, &selection, &job, &promoted, &moved);
	if (result != TURN_TAKEN)
	{
		claim->hid |= workq_sched_undo(claim->queue, &selection, claim->now);
		if (result == TURN_EMPTY)
			lane_retire(claim, lane);
		else
			claim->fruitless++;
		return true;
	}

	change = workq_xact_last();
	if (moved)
		change--;				/* the last is its place in flight */
	change->kind = moved ? WORKQ_CHANGE_CLAIM_MOVED : WORKQ_CHANGE_CLAIM;
	change->priority = job.priority;
	change->pos.since = job.since;
	change->pos.job_id = job.job_id;
	change->aged = promoted && selection.decision == NULL;
	old = MemoryContextSwitchTo(claim->per_job);
	if (!grant(claim, &job, &selection, promoted))
	{
		workq_sched_unreserve(claim->queue, selection.lane, claim->now);
		claim->hid = true;
		workq_xact_last()->kind = WORKQ_CHANGE_READY_TAKE;
		set_apart(claim, &job);
	}
	MemoryContextSwitchTo(old);
	return true;
}

/*
 * Reserve a place for the job a cursor stands on, and take it.  What undoes
 * both is in the list of changes before they are done; the reservation's is
 * the last.
 */
static bool
take_directly(Claim *claim, WorkqCursor *cursor, WorkqWalk *walk,
			  WorkqChangeKind kind, const char *old_key, const char *key,
			  WorkqSelection *selection)
{
	WorkqPos	pos = workq_store_pos(cursor);
	int			lane = -1;
	WorkqTake	taken;

	if (kind == WORKQ_CHANGE_LEASE_END)
		lane = workq_sched_pin_ending(claim->queue, old_key);
	workq_xact_change(kind, claim->queue, lane)->pos = pos;
	if (workq_sched_select_lane(claim->queue, key, claim->now, selection))
	{
		taken = workq_store_take(cursor);
		if (taken == WORKQ_TAKEN)
		{
			workq_walk_pass(walk, pos);
			return true;
		}
		claim->hid |= workq_sched_undo(claim->queue, selection, claim->now);
	}
	else
		taken = WORKQ_LOCKED;	/* it stays where it is */
	workq_xact_drop_last();
	workq_sched_unpin_lane(claim->queue, lane);
	if (taken == WORKQ_LOCKED)
		walk->blocked = true;
	else
		workq_walk_pass(walk, pos);
	return false;
}

/*
 * Move a walk along due times or deadlines on.  END: nothing more is overdue.
 */
static WorkqRow
next_overdue(Claim *claim, WorkqCursor *cursor, WorkqWalk *walk)
{
	WorkqRow	row = workq_store_next(cursor);
	WorkqPos	pos;

	CHECK_FOR_INTERRUPTS();
	if (row == WORKQ_ROW_END)
	{
		walk->ended = true;
		return row;
	}
	pos = workq_store_pos(cursor);
	if (row == WORKQ_ROW_PASS)
		workq_walk_pass(walk, pos);
	else if (pos.since > claim->now)
	{
		workq_walk_stop(walk, pos);
		return WORKQ_ROW_END;
	}
	return row;
}

/*
 * A job that is due and not yet moved to ready.
 */
static void
claim_due(Claim *claim)
{
	WorkqWalk  *walk;
	WorkqCursor *cursor;
	WorkqRow	row;

	walk = workq_sched_time_begin(claim->queue, WORKQ_TIME_DUE, claim->now);
	if (walk == NULL)
		return;
	cursor = workq_store_due_cursor(claim->store, claim->queue_id, walk->from);
	while (claim->got < claim->wanted)
	{
		WorkqSelection selection;
		WorkqJob	job;
		bool		aged;

		row = next_overdue(claim, cursor, walk);
		if (row == WORKQ_ROW_END)
			break;
		if (row == WORKQ_ROW_PASS)
			continue;
		workq_store_row(cursor, &job);
		workq_relane_job(claim->store, &job);
		(void) workq_look_rank(claim, job.priority, job.since, &aged);
		if (take_directly(claim, cursor, walk, WORKQ_CHANGE_DUE_TAKE, NULL,
						  job.lane, &selection) &&
			!grant(claim, &job, &selection, aged))
		{
			claim->hid |= workq_sched_undo(claim->queue, &selection,
										   claim->now);
			set_apart(claim, &job);
		}
	}
	workq_store_end(cursor);
	workq_sched_time_end(walk);
}

/*
 * A job whose lease has expired.  One that must not be claimed again (dead,
 * cancelled) is left to the background worker: in a long transaction we would
 * hide whatever we moved and do not return.
 */
static void
claim_expired(Claim *claim)
{
	WorkqWalk  *walk;
	WorkqCursor *cursor;
	WorkqRow	row;

	walk = workq_sched_time_begin(claim->queue, WORKQ_TIME_EXPIRY, claim->now);
	if (walk == NULL)
		return;
	cursor = workq_store_expired_cursor(claim->store, claim->queue_id,
										walk->from);
	while (claim->got < claim->wanted)
	{
		WorkqSelection selection;
		WorkqLease	lease;
		const char *old_lane;
		bool		aged;

		row = next_overdue(claim, cursor, walk);
		if (row == WORKQ_ROW_END)
			break;
		if (row == WORKQ_ROW_PASS)
			continue;
		workq_store_lease_row(cursor, &lease);
		if (workq_lease_next_state(&lease) != WORKQ_LEASE_TO_READY)
		{
			walk->blocked = true;
			continue;
		}
		old_lane = lease.job.lane;
		workq_relane_job(claim->store, &lease.job);
		if (!take_directly(claim, cursor, walk, WORKQ_CHANGE_LEASE_END,
						   old_lane, lease.job.lane, &selection))
			continue;
		workq_lease_log_expiry(claim->store, &lease, claim->now);
		(void) workq_look_rank(claim, lease.job.priority, lease.job.since, &aged);
		if (!grant(claim, &lease.job, &selection, aged))
		{
			claim->hid |= workq_sched_undo(claim->queue, &selection,
										   claim->now);
			set_apart(claim, &lease.job);
		}
	}
	workq_store_end(cursor);
	workq_sched_time_end(walk);
}

/*
 * Nothing is on offer, but there may be rows in lanes that have no record.
 */
static bool
adopt_lanes(Claim *claim)
{
	claim->fruitless++;
	return workq_sched_overflowing(claim->queue) &&
		workq_overflow_adopt(claim->store, claim->queue, LANES_ADOPTED) > 0;
}

static void
claim_begin(Claim *claim)
{
	claim->per_job = AllocSetContextCreate(CurrentMemoryContext,
										   "workq claim",
										   ALLOCSET_DEFAULT_SIZES);
	workq_xact_offer_own();
}

/*
 * Nothing is on offer; but others may have looked for the rows that our own
 * transaction brought, and found them not there.  Once a call.
 */
static bool
offer_again(Claim *claim)
{
	if (claim->offered_again)
		return false;
	claim->offered_again = true;
	return workq_xact_offer_again();
}

static void
claim_all_offered(Claim *claim)
{
	while (claim->got < claim->wanted)
	{
		int			before = claim->got;

		CHECK_FOR_INTERRUPTS();
		if (!claim_offered(claim) && !adopt_lanes(claim) &&
			!offer_again(claim))
			break;
		MemoryContextReset(claim->per_job);

		/*
		 * A lane that changes whenever we have found it empty is somebody
		 * else's business.  Of lanes that are found empty, and are no longer
		 * offered then, there may be many.
		 */
		if (claim->got > before)
			claim->fruitless = 0;
		else if (claim->fruitless > MAX_FRUITLESS)
			break;
	}
}

static void
claim_all_overdue(Claim *claim)
{
	if (claim->got < claim->wanted)
		claim_due(claim);
	if (claim->got < claim->wanted)
		claim_expired(claim);
}

/*
 * Let go of the lanes.
 */
static void
claim_end(Claim *claim)
{
	ListCell   *lc;

	while (claim->lanes != NIL)
	{
		(void) workq_look_close(claim, linitial(claim->lanes));
		claim->lanes = list_delete_first(claim->lanes);
	}
	foreach(lc, claim->aside)
		workq_sched_put_back(lfirst(lc), claim->now);
	claim->aside = NIL;
	MemoryContextReset(claim->per_job);
}

/*
 * From one queue.
 */
static void
claim_jobs(Claim *claim)
{
	claim_begin(claim);
	claim_all_offered(claim);
	claim_end(claim);
	claim_all_overdue(claim);
	if (claim->got > 0)
		workq_sched_served(claim->queue, claim->now);
	MemoryContextDelete(claim->per_job);
}

/*
 * The queue whose turn it is: the first that has something, or of those the
 * one that was served longest ago.  NULL: none has.
 */
static Claim *
next_queue(ClaimCall *call)
{
	Claim	   *best = NULL;
	int			i;

	for (i = 0; i < call->n; i++)
	{
		Claim	   *claim = &call->claim[i];

		if (claim->paused || claim->exhausted)
			continue;
		if (best == NULL ||
			(!call->listed && workq_sched_last_served(claim->queue) <
			 workq_sched_last_served(best->queue)))
			best = claim;
	}
	return best;
}

/*
 * From several queues, a job at a time.
 */
static void
claim_several(ClaimCall *call)
{
	Claim	   *claim;
	int			i;

	for (i = 0; i < call->n; i++)
	{
		if (!call->claim[i].paused)
			claim_begin(&call->claim[i]);
	}
	while (call->got < call->wanted && (claim = next_queue(call)) != NULL)
	{
		claim->wanted = claim->got + 1;
		claim_all_offered(claim);
		claim_all_overdue(claim);
		if (claim->got == claim->wanted)
		{
			call->got++;
			workq_sched_served(claim->queue, claim->now);
		}
		else
			claim->exhausted = true;
	}
	for (i = 0; i < call->n; i++)
	{
		if (!call->claim[i].paused)
			claim_end(&call->claim[i]);
	}
}

/*
 * Check the queue and the lease.
 */
static void
claim_open(Claim *claim, WorkqInstance *instance)
{
	WorkqQueueInfo *info = workq_queue_by_name(claim->queue_name, false);
	int			i;

	workq_access_require(info, WORKQ_RIGHT_CLAIM);
	claim->queue_id = info->queue_id;
	for (i = 0; i < WORKQ_N_SETTINGS; i++)
		claim->settings[i] = workq_queue_setting(info, i);
	claim->form = workq_lane_form(claim->settings, &info->settings);
	claim->queue = workq_sched_queue(instance, info->queue_id,
									 &info->settings);
	claim->now = workq_now();
	if (claim->lease < 0)
		claim->lease = Min(WORKQ_DEFAULT_LEASE,
						   claim->settings[WORKQ_SET_MAX_LEASE] * 1000);
	if (claim->lease > claim->settings[WORKQ_SET_MAX_LEASE] * 1000)
		ereport(ERROR,
				(errcode(ERRCODE_WORKQ_LEASE_LIMIT),
				 errmsg("lease is longer than queue \"%s\" allows",
						claim->queue_name),
				 errdetail("Its max_lease is " INT64_FORMAT " ms.",
						   claim->settings[WORKQ_SET_MAX_LEASE])));
	claim->paused = info->settings.paused;
}

/*
 * What an attempt means to those that wait for the queue.  While we held a
 * place that we gave back, or had set a lane aside, they may have looked, seen
 * nothing and gone to sleep.  So one of them looks again, unless we do; and
 * when we leave with a job, then after all.
 */
static void
claim_tell(WorkqWait *wait, const Claim *claim)
{
	if (claim->hid && !workq_wait_looks_again(claim->queue))
		workq_sched_wait_pass_on(claim->queue);
	else if (claim->hid)
		wait->saw_more = true;
	else if (claim->got > 0)
		wait->served[wait->n_served++] = claim->queue;
}

/*
 * One attempt to claim.
 */
static bool
claim_attempt(WorkqWait *wait)
{
	ClaimCall  *call = (ClaimCall *) wait->arg;
	WorkqInstance *instance = workq_sched_instance();
	WorkqStore *store = workq_store_open();
	int			i;

	call->claim = palloc0(call->n * sizeof(Claim));
	for (i = 0; i < call->n; i++)
	{
		Claim	   *claim = &call->claim[i];

		claim->store = store;
		claim->rsinfo = call->rsinfo;
		claim->queue_name = call->queue_name[i];
		claim->worker = call->worker;
		claim->lease = call->lease;
		claim->wanted = call->wanted;
		claim_open(claim, instance);
		wait->set.queue[i] = claim->queue;
		wait->set.queue_id[i] = claim->queue_id;
	}
	wait->set.n = call->n;
	if (call->n > 1)
		claim_several(call);
	else if (!call->claim[0].paused)
	{
		claim_jobs(&call->claim[0]);
		call->got = call->claim[0].got;
	}
	workq_store_close(store);
	for (i = 0; i < call->n; i++)
		claim_tell(wait, &call->claim[i]);
	return call->got > 0;
}

/*
 * The arguments that both verbs have, from worker to wait.
 */
static void
claim_call(FunctionCallInfo fcinfo, ClaimCall *call)
{
	WorkqWait	wait;
	int64		us;

	call->worker = workq_arg_name(fcinfo, 1, "worker");
	call->lease = workq_arg_interval(fcinfo, 2, "lease", 1000,
									 WORKQ_MAX_INTERVAL, -1);
	call->wanted = workq_arg_int(fcinfo, 3, "max_jobs", 1, WORKQ_MAX_BATCH, 1);
	us = workq_arg_interval(fcinfo, 4, "wait", 0, WORKQ_MAX_WAIT, 0);
	workq_compat_init_srf(fcinfo);
	call->rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	memset(&wait, 0, sizeof(wait));
	wait.attempt = claim_attempt;
	wait.arg = call;
	if (workq_wait_run(&wait, us))
		workq_wait_claimed(wait.served, wait.n_served);
	else
		workq_wait_tried(wait.set.queue, wait.set.n);
}

Datum
workq_claim(PG_FUNCTION_ARGS)
{
	ClaimCall	call;

	workq_store_require("workq_claim()", true);
	memset(&call, 0, sizeof(call));
	call.queue_name[0] = workq_arg_name(fcinfo, 0, "queue");
	call.n = 1;
	claim_call(fcinfo, &call);
	return (Datum) 0;
}

Datum
workq_claim_any(PG_FUNCTION_ARGS)
{
	static const char *const orders[] = {"least-recent", "listed", NULL};
	ClaimCall	call;

	workq_store_require("workq_claim_any()", true);
	memset(&call, 0, sizeof(call));
	call.n = workq_wait_queues(fcinfo, 0, call.queue_name);
	call.listed = workq_arg_enum(fcinfo, 5, "queue_order", orders, 0) == 1;
	claim_call(fcinfo, &call);
	return (Datum) 0;
}
