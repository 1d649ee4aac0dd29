/*-------------------------------------------------------------------------
 *
 * park.c
 *	  workq_unpark: a job that waited for something outside goes on.
 *
 * A parked job is in held and keeps its deduplication key.  A new payload is
 * appended to the log with the event, for payloads are never rewritten; the
 * job's flag tells claims to look for it there.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

#include "args.h"
#include "guc.h"
#include "job.h"
#include "outcome.h"
#include "xact.h"

PG_FUNCTION_INFO_V1(workq_unpark);
PG_FUNCTION_INFO_V1(workq_unpark_batch);

/*
 * A parked job whose row has been deleted becomes ready, or due later.
 */
static void
resume(WorkqStore *store, int queue, WorkqJob *job, const Jsonb *payload,
	   int64 delay)
{
	TimestampTz now = workq_now();
	WorkqEvent	event;

	job->since = now + delay;
	if (payload != NULL)
		job->flags |= WORKQ_JOB_PAYLOAD;
	workq_store_event_init(&event, "unparked", job, now);
	event.lane = job->lane;
	event.body = payload;
	if (delay > 0)
		event.due = job->since;
	else
		event.ready_since = job->since;
	workq_store_add_event(store, &event);
	if (delay > 0)
		workq_outcome_to_scheduled(store, queue, job);
	else
		workq_outcome_to_ready(store, queue, job);
}

/*
 * False: the job is not parked.
 */
static bool
unpark(WorkqInstance *instance, WorkqStore *store, int64 job_id,
	   const Jsonb *payload, int64 delay)
{
	WorkqFoundJob found;

	for (;;)
	{
		WorkqQueueInfo *info = workq_job_find(store, job_id,
											  WORKQ_RIGHT_MANAGE, &found);
		int			queue;

		CHECK_FOR_INTERRUPTS();
		if (found.place != WORKQ_PLACE_HELD ||
			strcmp(found.held_state, "parked") != 0)
			return false;
		queue = workq_sched_queue(instance, info->queue_id, &info->settings);
		if (workq_job_remove(store, queue, &found))
		{
			resume(store, queue, &found.lease.job, payload, delay);
			return true;
		}
	}
}

Datum
workq_unpark(PG_FUNCTION_ARGS)
{
	WorkqInstance *instance;
	WorkqStore *store;
	Jsonb	   *payload;
	int64		delay;
	bool		result;

	workq_store_require("workq_unpark()", true);
	if (PG_ARGISNULL(0))
		workq_arg_missing("job_id");
	payload = workq_arg_jsonb_or_null(fcinfo, 1, "payload");
	delay = workq_arg_interval(fcinfo, 2, "delay", 0, WORKQ_MAX_INTERVAL, 0);
	instance = workq_sched_instance();
	store = workq_store_open();
	result = unpark(instance, store, PG_GETARG_INT64(0), payload, delay);
	workq_store_close(store);
	PG_RETURN_BOOL(result);
}

/* What goes with the job ids of a batch. */
typedef struct UnparkBatch
{
	Datum	   *payloads;		/* NULL: none given */
	bool	   *nulls;
	int64		delay;
} UnparkBatch;

static const char *
unpark_action(WorkqInstance *instance, WorkqStore *store, int64 job_id,
			  int ord, const void *arg)
{
	const UnparkBatch *batch = (const UnparkBatch *) arg;
	const Jsonb *payload = NULL;

	if (batch->payloads != NULL && !batch->nulls[ord])
		payload = workq_check_jsonb(batch->payloads[ord], "a payload");
	return unpark(instance, store, job_id, payload, batch->delay) ?
		"unparked" : "not_parked";
}

Datum
workq_unpark_batch(PG_FUNCTION_ARGS)
{
	UnparkBatch batch = {NULL, NULL, 0};

	workq_store_require("workq_unpark_batch()", true);
	batch.delay = workq_arg_interval(fcinfo, 2, "delay", 0,
									 WORKQ_MAX_INTERVAL, 0);
	if (!PG_ARGISNULL(1))
	{
		Datum	   *ids;
		bool	   *nulls;
		int			n = workq_arg_array(fcinfo, 0, "job_ids", INT8OID, &ids,
										&nulls);
		int			count = workq_arg_array(fcinfo, 1, "payloads", JSONBOID,
											&batch.payloads, &batch.nulls);

		if (count != n)
			ereport(ERROR,
					(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
					 errmsg("payloads must have as many elements as job_ids"),
					 errdetail("It has %d, job_ids has %d.", count, n)));
	}
	return workq_job_batch(fcinfo, unpark_action, &batch);
}
