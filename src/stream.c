/*-------------------------------------------------------------------------
 *
 * stream.c
 *	  What a job's claims said while they ran: workq_stream, the parts of its
 *	  progress, and workq_checkpoints, the steps that are done.
 *
 * Both are events of the job's log (outcome.c writes them), so a part is of
 * the attempt that wrote it, and all of it leaves with the log's segment.
 *
 * A part's position is its event's number.  Whoever gives a leased job a number
 * has written its lease, and holds that to the end of his transaction.  So the
 * numbers of one job are committed in their order: a reader who goes on behind
 * the last position he has seen misses nothing, provided that what he saw was
 * one snapshot.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "funcapi.h"
#include "miscadmin.h"
#include "utils/snapmgr.h"

#include "access.h"
#include "args.h"
#include "compat.h"
#include "job.h"
#include "rowout.h"

PG_FUNCTION_INFO_V1(workq_stream);
PG_FUNCTION_INFO_V1(workq_checkpoints);

#define RIGHTS_TO_READ	(WORKQ_RIGHT_MONITOR | WORKQ_RIGHT_CLAIM)

/* A look at a job's log. */
typedef struct StreamCall
{
	WorkqStore *store;
	Snapshot	snapshot;
	int64		job_id;
	bool		payload;		/* the role may see what was said */
} StreamCall;

static void
stream_begin(StreamCall *call, FunctionCallInfo fcinfo, const char *verb)
{
	WorkqQueueInfo *info;
	WorkqJobRow row;

	workq_store_require(verb, false);
	if (PG_ARGISNULL(0))
		workq_arg_missing("job_id");
	call->job_id = PG_GETARG_INT64(0);
	workq_compat_init_srf(fcinfo);
	call->store = workq_store_open_reader();
	info = workq_job_open(call->store, call->job_id, RIGHTS_TO_READ, &row);
	call->payload = workq_access_has_any(info, WORKQ_RIGHTS_FOR_PAYLOAD);
	call->snapshot = RegisterSnapshot(GetLatestSnapshot());
}

static void
stream_end(StreamCall *call)
{
	UnregisterSnapshot(call->snapshot);
	workq_store_close(call->store);
}

static int
compare_numbers(const ListCell *a, const ListCell *b)
{
	int32		x = ((const WorkqEvent *) lfirst(a))->number;
	int32		y = ((const WorkqEvent *) lfirst(b))->number;

	return (x > y) - (x < y);
}

Datum
workq_stream(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	WorkqRowOut out = {.n = 0};
	StreamCall	call;
	List	   *events;
	ListCell   *lc;
	int			after;
	int			limit;

	after = workq_arg_int(fcinfo, 1, "after", 0, PG_INT32_MAX, 0);
	limit = workq_arg_int(fcinfo, 2, "max_rows", 1, WORKQ_MAX_BATCH, 1000);
	stream_begin(&call, fcinfo, "workq_stream()");
	events = list_concat(workq_store_events_after(call.store, call.job_id,
												  "claimed", call.snapshot,
												  after, limit),
						 workq_store_events_after(call.store, call.job_id,
												  "progress", call.snapshot,
												  after, limit));
	list_sort(events, compare_numbers);
	foreach(lc, list_truncate(events, limit))
	{
		const WorkqEvent *event = (const WorkqEvent *) lfirst(lc);
		bool		part = strcmp(event->event, "progress") == 0;

		workq_put(&out, Int32GetDatum(event->number), true);
		workq_put(&out, Int32GetDatum(event->attempt), true);
		workq_put_text(&out, part ? "progress" : "attempt");
		workq_put_jsonb(&out, part ? event->body : NULL, call.payload);
		workq_put_text(&out, event->worker);
		workq_put(&out, TimestampTzGetDatum(event->at), true);
		workq_put_row(&out, rsinfo);
	}
	stream_end(&call);
	return (Datum) 0;
}

Datum
workq_checkpoints(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	WorkqRowOut out = {.n = 0};
	StreamCall	call;
	List	   *events;
	ListCell   *lc;

	stream_begin(&call, fcinfo, "workq_checkpoints()");
	events = workq_store_events_after(call.store, call.job_id, "checkpoint",
									  call.snapshot, 0, PG_INT32_MAX);
	foreach(lc, events)
	{
		const WorkqEvent *event = (const WorkqEvent *) lfirst(lc);

		workq_put_text(&out, event->reason);
		workq_put_jsonb(&out, event->body, call.payload);
		workq_put(&out, Int32GetDatum(event->attempt), true);
		workq_put_text(&out, event->worker);
		workq_put(&out, TimestampTzGetDatum(event->at), true);
		workq_put_row(&out, rsinfo);
	}
	stream_end(&call);
	return (Datum) 0;
}
