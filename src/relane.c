/*-------------------------------------------------------------------------
 *
 * relane.c
 *	  Rows in lanes of an old form.
 *
 * Another strategy, fairness key or cap can change what makes a job's lane
 * (workq.h, WorkqLaneForm).  The flags of every row say of which form its lane
 * is.  Rows get to the right lanes in these ways:
 *
 *	  - the transaction that configures moves the ready rows and leases of the
 *		queue, but for those that others have in hand;
 *	  - a job that becomes ready, or is claimed, later than that gets its lane
 *		then (workq_relane_job, and claim.c for ready rows);
 *	  - what transactions that were open at the change leave behind is moved by
 *		the background worker (upkeep.c), as is everything when a server-wide
 *		setting has changed.
 *
 * Until then selection serves any lane that has rows.  A claim's place in
 * flight is in the right lane from the start, so caps hold for all claims made
 * under the new form.  Claims from before count for their new key as soon as
 * their lease is moved, which for all that are committed and in nobody's hand
 * is at the change.  If these are more than the cap, nothing is taken away;
 * there just is no further claim of that key until enough have ended.
 *
 * A row's move is a delete and an insert, in one transaction and without an
 * event in the log: who looks for a job by the log tries all forms (job.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "args.h"
#include "guc.h"
#include "queue.h"
#include "relane.h"
#include "sched.h"
#include "xact.h"

#define STEP			10000	/* rows moved in one, when configuring */
#define LOOKS			50000	/* rows looked at in one step */

/* ------------------------------------------------------------------------
 * One job
 * ------------------------------------------------------------------------ */

bool
workq_relane_to(WorkqStore *store, WorkqJob *job, WorkqLaneForm form)
{
	WorkqJobRow row;

	if (!workq_store_job(store, job->job_id, &row))
		return false;
	job->lane = workq_lane_of(form, row.tenant, row.binding, row.trigger_id);
	job->flags = workq_job_with_form(job->flags, form);
	return true;
}

/*
 * The form that the catalog says a queue has.
 */
static WorkqLaneForm
form_of(int32 queue_id)
{
	WorkqQueueInfo *info = workq_queue_by_id(queue_id, true);
	int64		settings[WORKQ_N_SETTINGS];
	int			i;

	if (info == NULL)
		return WORKQ_FORM_UNKNOWN;
	for (i = 0; i < WORKQ_N_SETTINGS; i++)
		settings[i] = workq_queue_setting(info, (WorkqSettingId) i);
	return workq_lane_form(settings, &info->settings);
}

void
workq_relane_job(WorkqStore *store, WorkqJob *job)
{
	WorkqLaneForm form = form_of(job->queue_id);

	if (form != WORKQ_FORM_UNKNOWN && workq_job_form(job->flags) != form)
		(void) workq_relane_to(store, job, form);
}

/* ------------------------------------------------------------------------
 * Ready rows
 * ------------------------------------------------------------------------ */

/* The rows that a step has taken. */
typedef struct Batch
{
	WorkqStore *store;
	int			queue;
	WorkqChange *take;			/* of the current lane and priority */
	char		lane[WORKQ_MAX_LANE + 1];	/* which is this one */
	WorkqJob   *jobs;
	int			n;
} Batch;

/*
 * Take the row that the cursor stands on.  What undoes it is in the list of
 * changes before: one for a run of rows of one lane and priority, which come
 * in order, so that the first is the lowest.
 */
static bool
take_row(Batch *batch, WorkqCursor *cursor)
{
	WorkqJob   *job = &batch->jobs[batch->n];

	workq_store_row(cursor, job);
	if (batch->take == NULL || batch->take->priority != job->priority ||
		strcmp(batch->lane, job->lane) != 0)
	{
		int			lane = workq_sched_pin_lane(batch->queue, job->lane);

		batch->take = workq_xact_change(WORKQ_CHANGE_READY_TAKE, batch->queue,
										lane);
		batch->take->priority = job->priority;
		batch->take->pos = workq_store_pos(cursor);
		batch->take->count = 0;
		strlcpy(batch->lane, job->lane, sizeof(batch->lane));
	}
	if (workq_store_take(cursor) != WORKQ_TAKEN)
		return false;
	batch->take->count++;
	batch->n++;
	return true;
}

static int
compare_jobs(const void *a, const void *b)
{
	const WorkqJob *x = (const WorkqJob *) a;
	const WorkqJob *y = (const WorkqJob *) b;
	int			result = strcmp(x->lane, y->lane);

	if (result == 0)
		result = (x->priority > y->priority) - (x->priority < y->priority);
	if (result == 0)
		result = (x->since > y->since) - (x->since < y->since);
	if (result == 0)
		result = (x->job_id > y->job_id) - (x->job_id < y->job_id);
	return result;
}

/*
 * Put what was taken into the right lanes.  A row that the log does not know
 * (a foreign hand's) stays where it is; whoever claims it drops it.
 */
static void
put_rows(Batch *batch, WorkqLaneForm form)
{
	MemoryContext per_row = AllocSetContextCreate(CurrentMemoryContext,
												  "workq relane row",
												  ALLOCSET_DEFAULT_SIZES);
	WorkqChange *add = NULL;
	const WorkqJob *last = NULL;
	int			i;

	for (i = 0; i < batch->n; i++)
	{
		WorkqJob   *job = &batch->jobs[i];
		MemoryContext old = MemoryContextSwitchTo(per_row);
		bool		known;

		CHECK_FOR_INTERRUPTS();
		known = workq_relane_to(batch->store, job, form);
		MemoryContextSwitchTo(old);
		if (known)
			job->lane = pstrdup(job->lane);
		else
			job->flags = workq_job_with_form(job->flags, form);
		MemoryContextReset(per_row);
	}
	qsort(batch->jobs, batch->n, sizeof(WorkqJob), compare_jobs);
	for (i = 0; i < batch->n; i++)
	{
		const WorkqJob *job = &batch->jobs[i];

		if (last == NULL || job->priority != last->priority ||
			strcmp(job->lane, last->lane) != 0)
		{
			int			lane = workq_sched_pin_lane(batch->queue, job->lane);

			add = workq_xact_change(WORKQ_CHANGE_READY_ADD, batch->queue,
									lane);
			add->priority = job->priority;
			add->pos.since = job->since;
			add->pos.job_id = job->job_id;
			add->count = 0;
		}
		add->count++;
		last = job;
		workq_store_add_ready(batch->store, job);
	}
	workq_store_flush(batch->store);
}

/*
 * Note where a walk over the ready rows stands.
 */
static void
remember_place(WorkqRelane *walk, WorkqCursor *cursor)
{
	workq_store_row(cursor, &walk->last);
	strlcpy(walk->last_lane, walk->last.lane, sizeof(walk->last_lane));
	walk->last.lane = walk->last_lane;
	walk->begun = true;
}

static int
relane_ready(Batch *batch, int32 queue_id, WorkqRelane *walk, int limit)
{
	WorkqCursor *cursor;
	WorkqRow	row = WORKQ_ROW_END;
	int			looks;

	batch->jobs = MemoryContextAllocHuge(CurrentMemoryContext,
										 (Size) limit * sizeof(WorkqJob));
	cursor = walk->begun ?
		workq_store_queue_cursor_after(batch->store, queue_id, &walk->last) :
		workq_store_queue_cursor(batch->store, queue_id);
	for (looks = 0; batch->n < limit && looks < LOOKS; looks++)
	{
		CHECK_FOR_INTERRUPTS();
		row = workq_store_next(cursor);
		if (row == WORKQ_ROW_END)
			break;
		if (workq_job_form(workq_store_flags(cursor)) == walk->form)
			continue;
		if (row == WORKQ_ROW_PASS || !take_row(batch, cursor))
			walk->left++;
	}
	if (row == WORKQ_ROW_END)
		walk->ended = true;
	else
		remember_place(walk, cursor);
	workq_store_end(cursor);
	put_rows(batch, walk->form);
	return batch->n;
}

/* ------------------------------------------------------------------------
 * Leases
 * ------------------------------------------------------------------------ */

/*
 * Move the lease that the cursor stands on.  It counts as in flight in both
 * lanes until the transaction has ended.
 */
static bool
move_lease(WorkqStore *store, int queue, WorkqCursor *cursor,
		   WorkqLaneForm form, TimestampTz now)
{
	WorkqPos	pos = workq_store_pos(cursor);
	WorkqLease	lease;
	int			old;

	workq_store_lease_row(cursor, &lease);
	old = workq_sched_pin_ending(queue, lease.job.lane);
	workq_xact_change(WORKQ_CHANGE_LEASE_END, queue, old)->pos = pos;
	workq_xact_change(WORKQ_CHANGE_LEASE_ADD, queue, WORKQ_NO_LANE)->pos = pos;
	if (workq_relane_to(store, &lease.job, form) &&
		workq_sched_hold(queue, lease.job.lane, now))
	{
		if (workq_store_rewrite_lease(store, cursor, &lease))
			return true;
		workq_sched_unhold(queue, now);
	}
	workq_xact_drop_last();
	workq_xact_drop_last();
	workq_sched_unpin_lane(queue, old);
	return false;
}

/*
 * Move a queue's leases; there are as many as there are workers, so all in
 * one go.  Returns how many could not be moved.
 */
static int64
relane_leases(WorkqStore *store, int queue, int32 queue_id,
			  WorkqLaneForm form, int *moved)
{
	WorkqPos	first = {DT_NOBEGIN, 0};
	WorkqCursor *cursor = workq_store_expired_cursor(store, queue_id, first);
	TimestampTz now = workq_now();
	int64		left = 0;
	WorkqRow	row;

	while ((row = workq_store_next(cursor)) != WORKQ_ROW_END)
	{
		CHECK_FOR_INTERRUPTS();
		if (workq_job_form(workq_store_flags(cursor)) == form)
			continue;
		if (row == WORKQ_ROW_CANDIDATE &&
			move_lease(store, queue, cursor, form, now))
			(*moved)++;
		else
			left++;
	}
	workq_store_end(cursor);
	return left;
}

/* ------------------------------------------------------------------------
 * A queue
 * ------------------------------------------------------------------------ */

int
workq_relane_step(WorkqStore *store, int queue, int32 queue_id,
				  WorkqRelane *walk, int limit)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "workq relane",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	Batch		batch;
	int			moved = 0;

	memset(&batch, 0, sizeof(batch));
	batch.store = store;
	batch.queue = queue;
	if (!walk->begun)
		walk->left += relane_leases(store, queue, queue_id, walk->form,
									&moved);
	moved += relane_ready(&batch, queue_id, walk, limit);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return moved;
}

void
workq_relane_queue(WorkqStore *store, int queue, int32 queue_id,
				   WorkqLaneForm form)
{
	WorkqRelane walk;

	memset(&walk, 0, sizeof(walk));
	walk.form = form;
	while (!walk.ended)
		(void) workq_relane_step(store, queue, queue_id, &walk, STEP);
}
