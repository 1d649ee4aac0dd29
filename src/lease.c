/*-------------------------------------------------------------------------
 *
 * lease.c
 *	  workq_renew, and the background worker's part: leases that ran out and
 *	  jobs that became due.
 *
 * Passing the deadline only allows others to take a job back; a claim is valid
 * until somebody does.  Taking back passes lease rows that somebody has in
 * hand: an outcome or a renewal under way wins.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "guc.h"
#include "lease.h"
#include "outcome.h"
#include "relane.h"
#include "sched_int.h"
#include "xact.h"

/*
 * An expired lease is a failure, so a job that kills its workers is dead one
 * day.  A failed job that was left leased has been charged already.
 */
static int
failures_after(const WorkqLease *lease)
{
	return lease->job.failures +
		((lease->job.flags & WORKQ_JOB_HOLD_LEASE) ? 0 : 1);
}

WorkqLeaseEnd
workq_lease_next_state(const WorkqLease *lease)
{
	if (lease->job.flags & WORKQ_JOB_CANCEL)
		return WORKQ_LEASE_TO_CANCELLED;
	if (failures_after(lease) >= lease->job.max_attempts)
		return WORKQ_LEASE_TO_DEAD;
	return WORKQ_LEASE_TO_READY;
}

void
workq_lease_log_expiry(WorkqStore *store, WorkqLease *lease, TimestampTz now)
{
	WorkqEvent	event;

	lease->job.failures = failures_after(lease);
	lease->job.flags &= ~WORKQ_JOB_HOLD_LEASE;
	workq_store_event_init(&event, "expired", &lease->job,
						   Max(now, lease->claimed_at));
	event.has_claim = true;
	event.claim_id = lease->claim_id;
	event.worker = lease->worker;
	event.deadline = lease->deadline;
	event.ready_since = lease->job.since;
	event.lane = lease->job.lane;
	workq_store_add_event(store, &event);
}

/*
 * Take back one expired lease whose row has been deleted.
 */
static void
take_back(WorkqStore *store, int queue, WorkqLease *lease, TimestampTz now)
{
	WorkqLeaseEnd end = workq_lease_next_state(lease);

	if (end == WORKQ_LEASE_TO_READY)
		workq_relane_job(store, &lease->job);
	workq_lease_log_expiry(store, lease, now);
	switch (end)
	{
		case WORKQ_LEASE_TO_READY:
			workq_outcome_to_ready(store, queue, &lease->job);
			break;
		case WORKQ_LEASE_TO_DEAD:
			workq_outcome_to_dead(store, queue, &lease->job, now,
								  "exhausted", "lease expired");
			workq_outcome_respond(store, &lease->job, now, "dead",
								  "lease expired");
			break;
		case WORKQ_LEASE_TO_CANCELLED:
			workq_outcome_to_cancelled(store, queue, &lease->job, now, NULL);
			workq_outcome_respond(store, &lease->job, now, "cancelled", NULL);
			break;
	}
}

/*
 * Take the row a cursor stands on, for housekeeping.  The change that undoes
 * it is in the list before.
 */
static bool
take_row(int queue, WorkqCursor *cursor, WorkqWalk *walk,
		 WorkqChangeKind kind, const char *key)
{
	WorkqPos	pos = workq_store_pos(cursor);
	int			lane = -1;
	WorkqTake	taken;

	if (kind == WORKQ_CHANGE_LEASE_END)
		lane = workq_sched_pin_ending(queue, key);
	workq_xact_change(kind, queue, lane)->pos = pos;
	taken = workq_store_take(cursor);
	if (taken != WORKQ_TAKEN)
	{
		workq_xact_drop_last();
		workq_sched_unpin_lane(queue, lane);
	}
	if (taken == WORKQ_LOCKED)
		walk->blocked = true;
	else
		workq_walk_pass(walk, pos);
	return taken == WORKQ_TAKEN;
}

/*
 * Walk a queue's expired leases or due jobs.
 */
static int
housekeep_queue(WorkqStore *store, int queue, int32 queue_id,
				WorkqTimeKind kind, TimestampTz now, int limit)
{
	WorkqWalk  *walk = workq_sched_time_begin(queue, kind, now);
	WorkqCursor *cursor;
	WorkqRow	row;
	int			moved = 0;

	if (walk == NULL)
		return 0;
	cursor = kind == WORKQ_TIME_DUE ?
		workq_store_due_cursor(store, queue_id, walk->from) :
		workq_store_expired_cursor(store, queue_id, walk->from);
	for (;;)
	{
		WorkqPos	pos;
		WorkqLease	lease;

		if (moved >= limit)
			break;
		row = workq_store_next(cursor);
		if (row == WORKQ_ROW_END)
		{
			walk->ended = true;
			break;
		}
		pos = workq_store_pos(cursor);
		if (row == WORKQ_ROW_PASS)
		{
			workq_walk_pass(walk, pos);
			continue;
		}
		if (pos.since > now)
		{
			/* the first that is not due: that is when to come again */
			workq_walk_stop(walk, pos);
			break;
		}
		if (kind == WORKQ_TIME_DUE)
		{
			workq_store_row(cursor, &lease.job);
			if (take_row(queue, cursor, walk, WORKQ_CHANGE_DUE_TAKE, NULL))
			{
				workq_outcome_to_ready(store, queue, &lease.job);
				moved++;
			}
		}
		else
		{
			workq_store_lease_row(cursor, &lease);
			if (take_row(queue, cursor, walk, WORKQ_CHANGE_LEASE_END,
						 lease.job.lane))
			{
				take_back(store, queue, &lease, now);
				moved++;
			}
		}
		CHECK_FOR_INTERRUPTS();
	}
	workq_store_end(cursor);
	workq_sched_time_end(walk);
	return moved;
}

int
workq_lease_housekeep(WorkqInstance *instance, int limit)
{
	int		   *queues;
	int			n = workq_sched_queues(instance, &queues);
	WorkqStore *store = workq_store_open();
	TimestampTz now = workq_now();
	int			moved = 0;
	int			i;

	for (i = 0; i < n && moved < limit; i++)
	{
		int32		queue_id = sched_queues[queues[i]].queue_id;

		moved += housekeep_queue(store, queues[i], queue_id, WORKQ_TIME_EXPIRY,
								 now, limit - moved);
		moved += housekeep_queue(store, queues[i], queue_id, WORKQ_TIME_DUE,
								 now, limit - moved);
	}
	workq_store_close(store);
	return moved;
}
