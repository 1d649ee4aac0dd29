/*-------------------------------------------------------------------------
 *
 * stats.c
 *	  What the views are made of.
 *
 * The functions here are called by the views of schema workq, and as functions
 * in a view run as whoever looks, anybody may call them: each one checks the
 * current role's rights itself, and says nothing about queues that the role
 * may not monitor.  None of them writes or waits for writers, so that a view
 * answers when nothing else does.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "access.h"
#include "compat.h"
#include "guc.h"
#include "sched.h"
#include "store_catalog.h"

/* Where the lanes of a queue are looked at one by one, this many at most. */
#define STATS_MAX_LANES		1000

/*
 * Has the current role any of these rights on a queue?
 */
static bool
may(int32 queue_id, uint32 rights)
{
	WorkqQueueInfo *queue = workq_queue_by_id(queue_id, true);

	return queue != NULL && workq_access_has_any(queue, rights);
}

PG_FUNCTION_INFO_V1(workq_may_monitor);

Datum
workq_may_monitor(PG_FUNCTION_ARGS)
{
	workq_store_require("workq.may_monitor()", false);
	PG_RETURN_BOOL(!PG_ARGISNULL(0) &&
				   may(PG_GETARG_INT32(0), WORKQ_RIGHT_MONITOR));
}

PG_FUNCTION_INFO_V1(workq_may_see_payload);

Datum
workq_may_see_payload(PG_FUNCTION_ARGS)
{
	workq_store_require("workq.may_see_payload()", false);
	PG_RETURN_BOOL(!PG_ARGISNULL(0) &&
				   may(PG_GETARG_INT32(0), WORKQ_RIGHTS_FOR_PAYLOAD));
}

PG_FUNCTION_INFO_V1(workq_clock);

Datum
workq_clock(PG_FUNCTION_ARGS)
{
	PG_RETURN_TIMESTAMPTZ(workq_now());
}

/* ------------------------------------------------------------------------
 * Counters
 * ------------------------------------------------------------------------ */

enum CounterColumn
{
	COUNTER_QUEUE_ID,
	COUNTER_READY,
	COUNTER_SCHEDULED,
	COUNTER_LEASED,
	COUNTER_HELD,
	COUNTER_ENQUEUED,
	COUNTER_DONE,
	COUNTER_FAILED,
	COUNTER_OLDEST_READY,
	COUNTER_NEXT_DUE,
	COUNTER_N
};

static void
set_time(Datum *values, bool *nulls, int column, TimestampTz at)
{
	nulls[column] = TIMESTAMP_NOT_FINITE(at);
	values[column] = TimestampTzGetDatum(at);
}

/*
 * A queue's counters: from shared memory, or, where it is not there, from the
 * tables.  That is so on a standby, in a queue without jobs (where the tables
 * are quick to look at), and for a moment after the server's start.
 */
static void
emit_counters(WorkqQueueInfo *queue, void *arg)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) arg;
	Datum		values[COUNTER_N] = {0};
	bool		nulls[COUNTER_N] = {false};
	bool		standby = RecoveryInProgress();
	WorkqCounters counters;

	if (!workq_access_has(queue, WORKQ_RIGHT_MONITOR))
		return;

	values[COUNTER_QUEUE_ID] = Int32GetDatum(queue->queue_id);
	if (!standby && workq_sched_counters(queue->queue_id, &counters))
	{
		values[COUNTER_READY] = Int64GetDatum(counters.ready);
		values[COUNTER_SCHEDULED] = Int64GetDatum(counters.scheduled);
		values[COUNTER_LEASED] = Int64GetDatum(counters.leased);
		values[COUNTER_HELD] = Int64GetDatum(counters.held);
		values[COUNTER_ENQUEUED] = Int64GetDatum(counters.enqueued);
		values[COUNTER_DONE] = Int64GetDatum(counters.done);
		values[COUNTER_FAILED] = Int64GetDatum(counters.failed);
		set_time(values, nulls, COUNTER_OLDEST_READY, counters.ready > 0 ?
				 workq_catalog_oldest_ready(queue->queue_id, STATS_MAX_LANES) :
				 DT_NOEND);
		set_time(values, nulls, COUNTER_NEXT_DUE, counters.scheduled > 0 ?
				 counters.next_due : DT_NOEND);
	}
	else
	{
		WorkqTableCounts counts;

		workq_catalog_counts(queue->queue_id, &counts);
		values[COUNTER_READY] = Int64GetDatum(counts.ready);
		values[COUNTER_SCHEDULED] = Int64GetDatum(counts.scheduled);
		values[COUNTER_LEASED] = Int64GetDatum(counts.leased);
		values[COUNTER_HELD] = Int64GetDatum(counts.held);
		nulls[COUNTER_ENQUEUED] = standby;
		nulls[COUNTER_DONE] = standby;
		nulls[COUNTER_FAILED] = standby;
		set_time(values, nulls, COUNTER_OLDEST_READY, counts.oldest_ready);
		set_time(values, nulls, COUNTER_NEXT_DUE, counts.next_due);
	}
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

PG_FUNCTION_INFO_V1(workq_queue_counters);

Datum
workq_queue_counters(PG_FUNCTION_ARGS)
{
	workq_store_require("workq.queue_counters()", false);
	workq_compat_init_srf(fcinfo);
	workq_catalog_each(emit_counters, fcinfo->resultinfo);
	return (Datum) 0;
}

/* ------------------------------------------------------------------------
 * Settings
 * ------------------------------------------------------------------------ */

#define SETTING_N	4			/* queue_id, setting, value, own */

static void
emit_setting(ReturnSetInfo *rsinfo, const WorkqQueueInfo *queue,
			 const char *name, const char *value, bool own)
{
	Datum		values[SETTING_N];
	bool		nulls[SETTING_N] = {false};

	values[0] = Int32GetDatum(queue->queue_id);
	values[1] = CStringGetTextDatum(name);
	values[2] = CStringGetTextDatum(value);
	values[3] = BoolGetDatum(own);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

static void
emit_settings(WorkqQueueInfo *queue, void *arg)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) arg;
	const char *weights = queue->weights;
	int			i;

	if (!workq_access_has(queue, WORKQ_RIGHT_MONITOR))
		return;
	for (i = 0; i < WORKQ_N_SETTINGS; i++)
	{
		const WorkqSettingDef *def = &workq_settings[i];
		int64		value = workq_queue_setting(queue, (WorkqSettingId) i);

		emit_setting(rsinfo, queue, def->name, workq_guc_format(def, value),
					 (queue->settings.own & ((uint32) 1 << i)) != 0);
	}
	if (weights == NULL)
		weights = workq_guc_weights != NULL ? workq_guc_weights : "";
	emit_setting(rsinfo, queue, "weights", weights, queue->weights != NULL);
}

PG_FUNCTION_INFO_V1(workq_queue_settings);

Datum
workq_queue_settings(PG_FUNCTION_ARGS)
{
	workq_store_require("workq.queue_settings()", false);
	workq_compat_init_srf(fcinfo);
	workq_catalog_each(emit_settings, fcinfo->resultinfo);
	return (Datum) 0;
}

/* ------------------------------------------------------------------------
 * Jobs
 * ------------------------------------------------------------------------ */

PG_FUNCTION_INFO_V1(workq_job_payload);

Datum
workq_job_payload(PG_FUNCTION_ARGS)
{
	WorkqStore *store;
	WorkqJobRow row;
	bool		found;

	workq_store_require("workq.job_payload()", false);
	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();

	store = workq_store_open_reader();
	found = workq_store_job(store, PG_GETARG_INT64(0), &row) &&
		may(row.queue_id, WORKQ_RIGHTS_FOR_PAYLOAD);
	if (found)
	{
		/* the one it was unparked with, if there is one */
		Jsonb	   *payload = workq_store_new_payload(store, row.job_id);

		if (payload != NULL)
			row.payload = payload;
	}
	workq_store_close(store);
	if (!found || row.payload == NULL)
		PG_RETURN_NULL();
	PG_RETURN_JSONB_P(row.payload);
}

/*
 * Does this response tell of a fault?
 */
static bool
is_fault(const WorkqResponse *response)
{
	return response->code != NULL || response->message != NULL;
}

PG_FUNCTION_INFO_V1(workq_job_error);

Datum
workq_job_error(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Datum		values[2] = {0};
	bool		nulls[2] = {true, true};
	const WorkqResponse *last = NULL;

	workq_store_require("workq.job_error()", false);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	desc = BlessTupleDesc(desc);

	if (!PG_ARGISNULL(0))
	{
		WorkqStore *store = workq_store_open_reader();
		List	   *responses = workq_store_responses(store,
													  PG_GETARG_INT64(0));
		ListCell   *cell;

		foreach(cell, responses)
		{
			const WorkqResponse *response = (const WorkqResponse *) lfirst(cell);

			if (is_fault(response) &&
				(last == NULL || response->at >= last->at))
				last = response;
		}
		if (last != NULL && !may(last->queue_id, WORKQ_RIGHT_MONITOR))
			last = NULL;
		workq_store_close(store);
	}
	if (last != NULL && last->code != NULL)
	{
		values[0] = CStringGetTextDatum(last->code);
		nulls[0] = false;
	}
	if (last != NULL && last->message != NULL)
	{
		values[1] = CStringGetTextDatum(last->message);
		nulls[1] = false;
	}
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(desc, values, nulls)));
}
