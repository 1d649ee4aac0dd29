/*-------------------------------------------------------------------------
 *
 * follow.c
 *	  workq_result: how a job ended; workq_responses: all outcomes, one after
 *	  the other, for whoever follows them.
 *
 * The order is that of the transactions that wrote the responses (order.c);
 * what follows is read up to the oldest that is still open.  So no late commit
 * is skipped.  The price: a writing transaction that stays open, anywhere on
 * the server, holds followers up.
 *
 * Only responses of jobs that were given a correlation have a writer and can be
 * followed: the others are spared its cost.
 *
 * Each segment has an index on (writer, job_id), so a call costs a descent per
 * segment and what it returns, however long the history is.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/string.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "access.h"
#include "args.h"
#include "compat.h"
#include "guc.h"
#include "job.h"
#include "order.h"
#include "rowout.h"

PG_FUNCTION_INFO_V1(workq_result);
PG_FUNCTION_INFO_V1(workq_responses);

/* Does this outcome end a job, unless an operator revives it? */
static bool
is_final(const char *outcome)
{
	return strcmp(outcome, "retry") != 0;
}

/*
 * What both verbs tell of a response: nine columns.
 */
static void
put_response(WorkqRowOut *out, const WorkqResponse *response, bool payload)
{
	bool		there = response != NULL;

	workq_put_text(out, there ? response->outcome : NULL);
	workq_put(out, there ? PointerGetDatum(response->body) : (Datum) 0,
			  there && response->body != NULL && payload);
	workq_put_text(out, there ? response->code : NULL);
	workq_put_text(out, there ? response->message : NULL);
	workq_put_text(out, there ? response->worker : NULL);
	workq_put(out, there ? Int32GetDatum(response->attempt) : (Datum) 0, there);
	workq_put(out, there ? TimestampTzGetDatum(response->at) : (Datum) 0, there);
}

static bool
may_see_payload(WorkqQueueInfo *info)
{
	return workq_access_has_any(info, WORKQ_RIGHTS_FOR_PAYLOAD);
}

Datum
workq_result(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	WorkqStore *store;
	WorkqQueueInfo *info;
	WorkqFoundJob found;
	List	   *responses;
	WorkqRowOut out = {.n = 0};
	TimestampTz since;
	bool		done;

	workq_store_require("workq_result()", false);
	if (PG_ARGISNULL(0))
		workq_arg_missing("job_id");
	workq_compat_init_srf(fcinfo);
	store = workq_store_open_reader();
	info = workq_job_find(store, PG_GETARG_INT64(0), WORKQ_RIGHT_MONITOR,
						  &found);
	responses = workq_store_responses(store, found.row.job_id);
	if (found.events == NIL)
		found.events = workq_store_events(store, found.row.job_id);
	done = found.place == WORKQ_PLACE_DONE ||
		(found.place == WORKQ_PLACE_HELD &&
		 strcmp(found.held_state, "dead") == 0);
	workq_put(&out, Int64GetDatum(found.row.job_id), true);
	workq_put_text(&out, info != NULL ? info->name : NULL);
	workq_put(&out, BoolGetDatum(done), true);
	workq_put_text(&out, workq_job_state(&found, &since));
	put_response(&out, responses != NIL ? llast(responses) : NULL,
				 info != NULL && may_see_payload(info));
	workq_put_text(&out, found.row.correlation);
	workq_put_row(&out, rsinfo);
	workq_store_close(store);
	return (Datum) 0;
}

/* ------------------------------------------------------------------------
 * Following
 * ------------------------------------------------------------------------ */

/*
 * A position as users have it: "writer/job/number".
 */
static WorkqResponsePos
arg_position(FunctionCallInfo fcinfo)
{
	WorkqResponsePos pos = {0, 0, 0};
	char	   *given;
	char	   *end;

	if (PG_ARGISNULL(0))
		return pos;
	given = text_to_cstring(PG_GETARG_TEXT_PP(0));
	errno = 0;
	pos.writer = strtoi64(given, &end, 10);
	if (errno == 0 && *end == '/')
		pos.job_id = strtoi64(end + 1, &end, 10);
	if (errno == 0 && *end == '/')
		pos.number = strtoint(end + 1, &end, 10);
	if (errno != 0 || *end != '\0' || strchr(given, '/') == strrchr(given, '/') ||
		strspn(given, "0123456789/") != strlen(given) ||
		given[0] == '/' || end[-1] == '/')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid position: \"%s\"", given),
				 errhint("Give the position of the last row seen, or NULL to begin with the first.")));
	return pos;
}

static WorkqResponsePos
pos_of(const WorkqResponse *response)
{
	WorkqResponsePos pos;

	pos.writer = response->writer;
	pos.job_id = response->job_id;
	pos.number = response->number;
	return pos;
}

static int
compare_responses(const ListCell *a, const ListCell *b)
{
	return workq_response_cmp(pos_of(lfirst(a)), pos_of(lfirst(b)));
}

/*
 * The next responses of all segments, in order.
 */
static List *
next_responses(WorkqStore *store, WorkqResponsePos after, int limit)
{
	int64		horizon;
	Snapshot	snapshot = workq_order_snapshot(&horizon);
	List	   *result = NIL;
	WorkqSegment segment;
	int64		from = 0;

	while (workq_segment_next(from, &segment))
	{
		result = list_concat(result,
							 workq_store_follow(store, segment.from_id,
												snapshot, after, horizon,
												limit));
		from = segment.to_id;
	}
	UnregisterSnapshot(snapshot);
	list_sort(result, compare_responses);
	return list_truncate(result, limit);
}

static bool
is_wanted(const WorkqResponse *response, const char *prefix,
		  WorkqQueueInfo *info)
{
	if (info == NULL || !workq_access_has(info, WORKQ_RIGHT_MONITOR))
		return false;
	return prefix == NULL || (response->correlation != NULL &&
							  strncmp(response->correlation, prefix, strlen(prefix)) == 0);
}

Datum
workq_responses(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	WorkqResponsePos after;
	WorkqStore *store;
	List	   *responses;
	ListCell   *lc;
	char	   *prefix;
	int			limit;

	workq_store_require("workq_responses()", false);
	after = arg_position(fcinfo);
	prefix = workq_arg_name_or_null(fcinfo, 1, "correlation_prefix");
	limit = workq_arg_int(fcinfo, 2, "max_rows", 1, WORKQ_MAX_BATCH, 1000);
	workq_compat_init_srf(fcinfo);
	store = workq_store_open_reader();
	responses = next_responses(store, after, limit);
	foreach(lc, responses)
	{
		const WorkqResponse *response = (const WorkqResponse *) lfirst(lc);
		WorkqQueueInfo *info = workq_queue_by_id(response->queue_id, true);
		bool		wanted = is_wanted(response, prefix, info);
		WorkqRowOut out = {.n = 0};

		if (!wanted && lnext(responses, lc) != NULL)
			continue;
		workq_put_text(&out, psprintf(INT64_FORMAT "/" INT64_FORMAT "/%d",
									  response->writer, response->job_id,
									  response->number));
		workq_put(&out, Int64GetDatum(response->job_id), wanted);
		workq_put_text(&out, wanted ? info->name : NULL);
		workq_put_text(&out, wanted ? response->correlation : NULL);
		workq_put(&out, BoolGetDatum(is_final(response->outcome)), wanted);
		put_response(&out, wanted ? response : NULL,
					 wanted && may_see_payload(info));
		workq_put(&out, UUIDPGetDatum(&response->claim_id),
				  wanted && response->has_claim && may_see_payload(info));
		workq_put_row(&out, rsinfo);
	}
	workq_store_close(store);
	return (Datum) 0;
}
