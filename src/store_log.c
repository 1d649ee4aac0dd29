/*-------------------------------------------------------------------------
 *
 * store_log.c
 *	  The event log: jobs, claims and responses, in segments by job id.
 *
 * Log rows are inserted and read, never updated or deleted.  They are read
 * with SnapshotSelf: all that is committed, and our own.  For rows that never
 * change that is as good as the latest snapshot, and it takes no predicate
 * locks.  The parents are never opened here: a lock on a parent held by a
 * user's transaction would stop everybody when a segment is attached.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "catalog/pg_collation.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "compat.h"
#include "order.h"
#include "store_int.h"

enum JobColumn
{
	JOB_JOB_ID,
	JOB_ENQUEUED_AT,
	JOB_RUN_AT,
	JOB_QUEUE_ID,
	JOB_MAX_ATTEMPTS,
	JOB_PRIORITY,
	JOB_PAYLOAD,
	JOB_HEADERS,
	JOB_TENANT,
	JOB_BINDING,
	JOB_TRIGGER_ID,
	JOB_LANE,
	JOB_DEDUP_KEY,
	JOB_CORRELATION,
	JOB_OPTIONS,
	JOB_N
};

enum EventColumn
{
	EVENT_JOB_ID,
	EVENT_AT,
	EVENT_QUEUE_ID,
	EVENT_ATTEMPT,
	EVENT_FAILURES,
	EVENT_NUMBER,
	EVENT_PRIORITY,
	EVENT_EVENT,
	EVENT_CLAIM_ID,
	EVENT_DEADLINE,
	EVENT_READY_SINCE,
	EVENT_PROMOTION_DEADLINE,
	EVENT_DUE,
	EVENT_ROUND,
	EVENT_CREDIT,
	EVENT_WEIGHT,
	EVENT_POLICY_VERSION,
	EVENT_LANE,
	EVENT_WORKER,
	EVENT_DECISION,
	EVENT_FAIRNESS_KEY,
	EVENT_REASON,
	EVENT_BODY,
	EVENT_N
};

/* ------------------------------------------------------------------------
 * Segments
 * ------------------------------------------------------------------------ */

/*
 * The segment of a job among those the verb has open, opened if need be.
 * NULL when there is none.
 */
static StoreSegment *
segment_for(WorkqStore *store, int64 job_id)
{
	StoreSegment *result;
	WorkqSegment segment;
	ListCell   *lc;
	MemoryContext old;

	result = store->last;
	if (result != NULL && job_id >= result->segment.from_id &&
		job_id < result->segment.to_id)
		return result;
	foreach(lc, store->segments)
	{
		result = (StoreSegment *) lfirst(lc);
		if (job_id >= result->segment.from_id && job_id < result->segment.to_id)
		{
			store->last = result;
			return result;
		}
	}
	if (!workq_segment_find(job_id, &segment))
		return NULL;

	old = MemoryContextSwitchTo(store->context);
	result = palloc0(sizeof(StoreSegment));
	result->segment = segment;
	store->segments = lappend(store->segments, result);
	store->last = result;
	MemoryContextSwitchTo(old);
	return result;
}

StoreTable *
store_log_table(WorkqStore *store, int64 job_id, WorkqRelation which)
{
	StoreSegment *segment = segment_for(store, job_id);
	StoreTable *table;
	Oid			relid;
	int			n_columns;

	if (segment == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("the log segment of job " INT64_FORMAT " does not exist",
						job_id)));
	if (which == WORKQ_REL_JOBS)
	{
		table = &segment->jobs;
		relid = segment->segment.jobs;
		n_columns = JOB_N;
	}
	else if (which == WORKQ_REL_CLAIMS)
	{
		table = &segment->claims;
		relid = segment->segment.claims;
		n_columns = EVENT_N;
	}
	else
	{
		table = &segment->responses;
		relid = segment->segment.responses;
		n_columns = RESPONSE_N;
	}
	if (table->rel == NULL)
		store_table_open(store, table, relid, n_columns);
	return table;
}

bool
workq_store_hold_segment(WorkqStore *store, int64 job_id)
{
	if (segment_for(store, job_id) == NULL)
		return false;
	store_log_table(store, job_id, WORKQ_REL_CLAIMS);
	return true;
}

void
store_log_flush(WorkqStore *store)
{
	ListCell   *lc;

	foreach(lc, store->segments)
	{
		StoreSegment *segment = (StoreSegment *) lfirst(lc);

		store_table_flush(store, &segment->jobs);
		store_table_flush(store, &segment->claims);
		store_table_flush(store, &segment->responses);
	}
}

void
store_log_close(WorkqStore *store)
{
	ListCell   *lc;

	foreach(lc, store->segments)
	{
		StoreSegment *segment = (StoreSegment *) lfirst(lc);

		store_finder_close(&segment->find_job);
		store_finder_close(&segment->find_claim);
		store_finder_close(&segment->find_response);
		store_table_close(&segment->jobs);
		store_table_close(&segment->claims);
		store_table_close(&segment->responses);
	}
	list_free_deep(store->segments);
	store->segments = NIL;
	store->last = NULL;
}

/* ------------------------------------------------------------------------
 * Writing
 * ------------------------------------------------------------------------ */

void
workq_store_add_job(WorkqStore *store, const WorkqJobRow *row)
{
	StoreTable *table = store_log_table(store, row->job_id, WORKQ_REL_JOBS);
	TupleTableSlot *slot = store_new_row(store, table);

	store_set(slot, JOB_JOB_ID, Int64GetDatum(row->job_id));
	store_set(slot, JOB_ENQUEUED_AT, TimestampTzGetDatum(row->enqueued_at));
	store_set_time(slot, JOB_RUN_AT, row->run_at);
	store_set(slot, JOB_QUEUE_ID, Int32GetDatum(row->queue_id));
	store_set(slot, JOB_MAX_ATTEMPTS, Int32GetDatum(row->max_attempts));
	store_set(slot, JOB_PRIORITY, Int16GetDatum(row->priority));
	store_set(slot, JOB_PAYLOAD, JsonbPGetDatum(row->payload));
	if (row->headers != NULL)
		store_set(slot, JOB_HEADERS, JsonbPGetDatum(row->headers));
	store_set_text(slot, JOB_TENANT, row->tenant);
	store_set_text(slot, JOB_BINDING, row->binding);
	store_set_text(slot, JOB_TRIGGER_ID, row->trigger_id);
	if (row->lane != NULL && row->lane[0] != '\0')
		store_set_text(slot, JOB_LANE, row->lane);
	store_set_text(slot, JOB_DEDUP_KEY, row->dedup_key);
	store_set_text(slot, JOB_CORRELATION, row->correlation);
	if (row->options != NULL)
		store_set(slot, JOB_OPTIONS, JsonbPGetDatum(row->options));
	store_append(store, table);
}

void
workq_store_event_init(WorkqEvent *event, const char *what,
					   WorkqJob *job, TimestampTz at)
{
	memset(event, 0, sizeof(WorkqEvent));
	event->event = what;
	event->job_id = job->job_id;
	event->queue_id = job->queue_id;
	event->attempt = job->attempt;
	event->failures = job->failures;
	event->number = ++job->events;
	event->priority = job->priority;
	event->at = at;
	event->deadline = DT_NOBEGIN;
	event->ready_since = DT_NOBEGIN;
	event->promotion_deadline = DT_NOBEGIN;
	event->due = DT_NOBEGIN;
}

void
workq_store_add_event(WorkqStore *store, const WorkqEvent *event)
{
	StoreTable *table = store_log_table(store, event->job_id, WORKQ_REL_CLAIMS);
	TupleTableSlot *slot = store_new_row(store, table);

	store_set(slot, EVENT_JOB_ID, Int64GetDatum(event->job_id));
	store_set(slot, EVENT_AT, TimestampTzGetDatum(event->at));
	store_set(slot, EVENT_QUEUE_ID, Int32GetDatum(event->queue_id));
	store_set(slot, EVENT_ATTEMPT, Int32GetDatum(event->attempt));
	store_set(slot, EVENT_FAILURES, Int32GetDatum(event->failures));
	store_set(slot, EVENT_NUMBER, Int32GetDatum(event->number));
	store_set(slot, EVENT_PRIORITY, Int16GetDatum(event->priority));
	store_set_text(slot, EVENT_EVENT, event->event);
	if (event->has_claim)
		store_set(slot, EVENT_CLAIM_ID, UUIDPGetDatum(&event->claim_id));
	store_set_time(slot, EVENT_DEADLINE, event->deadline);
	store_set_time(slot, EVENT_READY_SINCE, event->ready_since);
	store_set_time(slot, EVENT_PROMOTION_DEADLINE, event->promotion_deadline);
	store_set_time(slot, EVENT_DUE, event->due);
	if (event->has_share)
	{
		store_set(slot, EVENT_ROUND, Int64GetDatum(event->round));
		store_set(slot, EVENT_CREDIT, Int64GetDatum(event->credit));
		store_set(slot, EVENT_WEIGHT, Int32GetDatum(event->weight));
	}
	if (event->policy_version != 0)
		store_set(slot, EVENT_POLICY_VERSION,
				  Int32GetDatum(event->policy_version));
	if (event->lane != NULL && event->lane[0] != '\0')
		store_set_text(slot, EVENT_LANE, event->lane);
	store_set_text(slot, EVENT_WORKER, event->worker);
	store_set_text(slot, EVENT_DECISION, event->decision);
	store_set_text(slot, EVENT_FAIRNESS_KEY, event->fairness_key);
	store_set_text(slot, EVENT_REASON, event->reason);
	if (event->body != NULL)
		store_set(slot, EVENT_BODY, JsonbPGetDatum(event->body));
	store_append(store, table);
}

void
workq_store_add_response(WorkqStore *store, const WorkqResponse *response)
{
	StoreTable *table = store_log_table(store, response->job_id,
										WORKQ_REL_RESPONSES);
	TupleTableSlot *slot = store_new_row(store, table);

	store_set(slot, RESPONSE_JOB_ID, Int64GetDatum(response->job_id));
	store_set(slot, RESPONSE_AT, TimestampTzGetDatum(response->at));
	if (response->correlation != NULL)
		store_set(slot, RESPONSE_WRITER, Int64GetDatum(workq_order_place()));
	store_set(slot, RESPONSE_QUEUE_ID, Int32GetDatum(response->queue_id));
	store_set(slot, RESPONSE_ATTEMPT, Int32GetDatum(response->attempt));
	store_set(slot, RESPONSE_NUMBER, Int32GetDatum(response->number));
	if (response->has_claim)
		store_set(slot, RESPONSE_CLAIM_ID, UUIDPGetDatum(&response->claim_id));
	store_set_text(slot, RESPONSE_OUTCOME, response->outcome);
	store_set_text(slot, RESPONSE_WORKER, response->worker);
	store_set_text(slot, RESPONSE_CODE, response->code);
	store_set_text(slot, RESPONSE_MESSAGE, response->message);
	if (response->body != NULL)
		store_set(slot, RESPONSE_BODY, JsonbPGetDatum(response->body));
	store_set_text(slot, RESPONSE_CORRELATION, response->correlation);
	store_append(store, table);
}

/* ------------------------------------------------------------------------
 * Reading
 * ------------------------------------------------------------------------ */

static const StoreLogIndex by_job = {
	"job_id", false, 1, {JOB_JOB_ID + 1}
};

static const StoreLogIndex by_event = {
	"job_id, event and number", false, 3,
	{EVENT_JOB_ID + 1, EVENT_EVENT + 1, EVENT_NUMBER + 1}
};

static bool
begins_with(Relation index, const StoreLogIndex *wanted)
{
	int			i;

	if (!index->rd_index->indisvalid ||
		index->rd_rel->relam != BTREE_AM_OID ||
		index->rd_index->indnkeyatts < wanted->n ||
		(!wanted->partial && RelationGetIndexPredicate(index) != NIL))
		return false;
	for (i = 0; i < wanted->n; i++)
	{
		if (index->rd_index->indkey.values[i] != wanted->attno[i])
			return false;
	}
	return true;
}

Relation
store_log_find_index(Relation rel, const StoreLogIndex *wanted)
{
	List	   *indexes = RelationGetIndexList(rel);
	Relation	result = NULL;
	ListCell   *lc;

	foreach(lc, indexes)
	{
		result = index_open(lfirst_oid(lc), AccessShareLock);
		if (begins_with(result, wanted))
			break;
		index_close(result, AccessShareLock);
		result = NULL;
	}
	list_free(indexes);
	return result;
}

Relation
store_log_open_index(Relation rel, const StoreLogIndex *wanted)
{
	Relation	result = store_log_find_index(rel, wanted);

	if (result == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("log table \"%s\" has no index on %s",
						RelationGetRelationName(rel), wanted->columns)));
	return result;
}

/*
 * Begin a search; the finder is made on first use, then for the same index
 * and the same number of keys.
 */
static void
finder_seek(WorkqStore *store, StoreFinder *finder, Relation rel,
			const StoreLogIndex *wanted, ScanKey keys, int nkeys)
{
	MemoryContext old;

	if (finder->index == NULL)
	{
		old = MemoryContextSwitchTo(store->context);
		finder->index = store_log_open_index(rel, wanted);
		finder->slot = table_slot_create(rel, NULL);
		finder->scan = workq_compat_index_beginscan(rel, finder->index,
													SnapshotSelf, nkeys);
		MemoryContextSwitchTo(old);
	}
	store_scan_restart(store->context, finder->scan, keys, nkeys);
}

static void
key_job(ScanKey key, int64 job_id)
{
	ScanKeyEntryInitialize(key, 0, 1, BTEqualStrategyNumber, InvalidOid,
						   InvalidOid, F_INT8EQ, Int64GetDatum(job_id));
}

/*
 * event =, < or > a kind, as the strategy says.
 */
static void
key_event(ScanKey key, StrategyNumber strategy, const char *kind)
{
	ScanKeyEntryInitialize(key, 0, 2, strategy, InvalidOid, C_COLLATION_OID,
						   strategy == BTLessStrategyNumber ? F_TEXT_LT :
						   strategy == BTGreaterStrategyNumber ? F_TEXT_GT :
						   F_TEXTEQ,
						   CStringGetTextDatum(kind));
}

/*
 * Begin to read the rows of a job in jobs or responses.
 */
static void
seek_job(WorkqStore *store, StoreFinder *finder, WorkqRelation which,
		 int64 job_id)
{
	ScanKeyData key;

	key_job(&key, job_id);
	finder_seek(store, finder, store_log_table(store, job_id, which)->rel, &by_job,
				&key, 1);
}

/*
 * Begin to read the events of a job whose kind is in this relation to one.
 * What the verb has gathered is written first, so that it is found.
 */
static StoreFinder *
seek_events(WorkqStore *store, int64 job_id, StrategyNumber strategy,
			const char *kind)
{
	StoreSegment *segment = segment_for(store, job_id);
	ScanKeyData keys[2];

	store_log_flush(store);
	key_job(&keys[0], job_id);
	key_event(&keys[1], strategy, kind);
	finder_seek(store, &segment->find_claim,
				store_log_table(store, job_id, WORKQ_REL_CLAIMS)->rel, &by_event,
				keys, 2);
	return &segment->find_claim;
}

static TupleTableSlot *
finder_next(WorkqStore *store, StoreFinder *finder)
{
	if (!store_scan_next(store->context, finder->scan, finder->slot))
		return NULL;
	slot_getallattrs(finder->slot);
	return finder->slot;
}

/*
 * A jsonb column, copied; out-of-line values stay out of line.
 */
static Jsonb *
get_jsonb(TupleTableSlot *slot, int column)
{
	if (slot->tts_isnull[column])
		return NULL;
	return (Jsonb *) DatumGetPointer(datumCopy(slot->tts_values[column],
											   false, -1));
}

bool
workq_store_job(WorkqStore *store, int64 job_id, WorkqJobRow *row)
{
	StoreSegment *segment = segment_for(store, job_id);
	TupleTableSlot *slot;

	if (segment == NULL)
		return false;
	seek_job(store, &segment->find_job, WORKQ_REL_JOBS, job_id);
	slot = finder_next(store, &segment->find_job);
	if (slot != NULL)
	{
		row->job_id = job_id;
		row->enqueued_at = store_get_time(slot, JOB_ENQUEUED_AT);
		row->run_at = store_get_time(slot, JOB_RUN_AT);
		row->queue_id = DatumGetInt32(slot->tts_values[JOB_QUEUE_ID]);
		row->max_attempts = DatumGetInt32(slot->tts_values[JOB_MAX_ATTEMPTS]);
		row->priority = DatumGetInt16(slot->tts_values[JOB_PRIORITY]);
		row->payload = get_jsonb(slot, JOB_PAYLOAD);
		row->headers = get_jsonb(slot, JOB_HEADERS);
		row->tenant = store_get_text(slot, JOB_TENANT);
		row->binding = store_get_text(slot, JOB_BINDING);
		row->trigger_id = store_get_text(slot, JOB_TRIGGER_ID);
		row->lane = store_get_text(slot, JOB_LANE);
		row->dedup_key = store_get_text(slot, JOB_DEDUP_KEY);
		row->correlation = store_get_text(slot, JOB_CORRELATION);
		row->options = get_jsonb(slot, JOB_OPTIONS);
	}
	return slot != NULL;
}

static WorkqEvent *
deform_event(TupleTableSlot *slot)
{
	WorkqEvent *event = palloc0(sizeof(WorkqEvent));
	Datum	   *values = slot->tts_values;

	event->job_id = DatumGetInt64(values[EVENT_JOB_ID]);
	event->at = DatumGetTimestampTz(values[EVENT_AT]);
	event->queue_id = DatumGetInt32(values[EVENT_QUEUE_ID]);
	event->attempt = DatumGetInt32(values[EVENT_ATTEMPT]);
	event->failures = DatumGetInt32(values[EVENT_FAILURES]);
	event->number = DatumGetInt32(values[EVENT_NUMBER]);
	event->priority = DatumGetInt16(values[EVENT_PRIORITY]);
	event->event = store_get_text(slot, EVENT_EVENT);
	if (!slot->tts_isnull[EVENT_CLAIM_ID])
	{
		event->has_claim = true;
		memcpy(&event->claim_id, DatumGetUUIDP(values[EVENT_CLAIM_ID]),
			   sizeof(pg_uuid_t));
	}
	event->deadline = store_get_time(slot, EVENT_DEADLINE);
	event->ready_since = store_get_time(slot, EVENT_READY_SINCE);
	event->promotion_deadline = store_get_time(slot, EVENT_PROMOTION_DEADLINE);
	event->due = store_get_time(slot, EVENT_DUE);
	if (!slot->tts_isnull[EVENT_ROUND])
	{
		event->has_share = true;
		event->round = DatumGetInt64(values[EVENT_ROUND]);
		event->credit = DatumGetInt64(values[EVENT_CREDIT]);
		event->weight = DatumGetInt32(values[EVENT_WEIGHT]);
	}
	if (!slot->tts_isnull[EVENT_POLICY_VERSION])
		event->policy_version = DatumGetInt32(values[EVENT_POLICY_VERSION]);
	event->lane = store_get_text(slot, EVENT_LANE);
	event->worker = store_get_text(slot, EVENT_WORKER);
	event->decision = store_get_text(slot, EVENT_DECISION);
	event->fairness_key = store_get_text(slot, EVENT_FAIRNESS_KEY);
	event->reason = store_get_text(slot, EVENT_REASON);
	event->body = get_jsonb(slot, EVENT_BODY);
	return event;
}

static int
event_compare(const ListCell *a, const ListCell *b)
{
	const WorkqEvent *x = lfirst(a);
	const WorkqEvent *y = lfirst(b);

	return (x->number > y->number) - (x->number < y->number);
}

List *
workq_store_events(WorkqStore *store, int64 job_id)
{
	static const StrategyNumber sides[] = {
		BTLessStrategyNumber, BTGreaterStrategyNumber
	};
	TupleTableSlot *slot;
	List	   *result = NIL;
	int			i;

	if (segment_for(store, job_id) == NULL)
		return NIL;
	for (i = 0; i < lengthof(sides); i++)
	{
		StoreFinder *finder = seek_events(store, job_id, sides[i], "progress");

		while ((slot = finder_next(store, finder)) != NULL)
			result = lappend(result, deform_event(slot));
	}
	list_sort(result, event_compare);
	return result;
}

List *
workq_store_events_after(WorkqStore *store, int64 job_id, const char *kind,
						 Snapshot snapshot, int32 after, int limit)
{
	Relation	rel = store_log_table(store, job_id, WORKQ_REL_CLAIMS)->rel;
	Relation	index = store_log_open_index(rel, &by_event);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	List	   *result = NIL;
	ScanKeyData keys[3];
	IndexScanDesc scan;

	key_job(&keys[0], job_id);
	key_event(&keys[1], BTEqualStrategyNumber, kind);
	ScanKeyEntryInitialize(&keys[2], 0, 3, BTGreaterStrategyNumber, InvalidOid,
						   InvalidOid, F_INT4GT, Int32GetDatum(after));
	scan = workq_compat_index_beginscan(rel, index, snapshot, 3);
	index_rescan(scan, keys, 3, NULL, 0);
	while (list_length(result) < limit &&
		   index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		slot_getallattrs(slot);
		result = lappend(result, deform_event(slot));
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, NoLock);
	return result;
}

bool
workq_store_has_checkpoint(WorkqStore *store, int64 job_id, const char *step)
{
	StoreFinder *finder;
	TupleTableSlot *slot;
	Size		len = strlen(step);

	if (segment_for(store, job_id) == NULL)
		return false;
	finder = seek_events(store, job_id, BTEqualStrategyNumber, "checkpoint");
	while ((slot = finder_next(store, finder)) != NULL)
	{
		text	   *other;

		CHECK_FOR_INTERRUPTS();
		if (slot->tts_isnull[EVENT_REASON])
			continue;
		other = DatumGetTextPP(slot->tts_values[EVENT_REASON]);
		if (VARSIZE_ANY_EXHDR(other) == len &&
			memcmp(VARDATA_ANY(other), step, len) == 0)
			return true;
	}
	return false;
}

Jsonb *
workq_store_new_payload(WorkqStore *store, int64 job_id)
{
	StoreFinder *finder;
	TupleTableSlot *slot;
	Jsonb	   *result = NULL;

	if (segment_for(store, job_id) == NULL)
		return NULL;
	finder = seek_events(store, job_id, BTEqualStrategyNumber, "unparked");

	/* by their numbers: the last one that brought a payload */
	while ((slot = finder_next(store, finder)) != NULL)
	{
		if (!slot->tts_isnull[EVENT_BODY])
			result = get_jsonb(slot, EVENT_BODY);
	}
	return result;
}

static int
response_compare(const ListCell *a, const ListCell *b)
{
	const WorkqResponse *x = lfirst(a);
	const WorkqResponse *y = lfirst(b);

	return (x->number > y->number) - (x->number < y->number);
}

WorkqResponse *
store_log_response(TupleTableSlot *slot)
{
	WorkqResponse *response = palloc0(sizeof(WorkqResponse));
	Datum	   *values = slot->tts_values;

	response->job_id = DatumGetInt64(values[RESPONSE_JOB_ID]);
	response->at = store_get_time(slot, RESPONSE_AT);
	if (!slot->tts_isnull[RESPONSE_WRITER])
		response->writer = DatumGetInt64(values[RESPONSE_WRITER]);
	response->queue_id = DatumGetInt32(values[RESPONSE_QUEUE_ID]);
	response->attempt = DatumGetInt32(values[RESPONSE_ATTEMPT]);
	response->number = DatumGetInt32(values[RESPONSE_NUMBER]);
	if (!slot->tts_isnull[RESPONSE_CLAIM_ID])
	{
		response->has_claim = true;
		memcpy(&response->claim_id, DatumGetUUIDP(values[RESPONSE_CLAIM_ID]),
			   sizeof(pg_uuid_t));
	}
	response->outcome = store_get_text(slot, RESPONSE_OUTCOME);
	response->worker = store_get_text(slot, RESPONSE_WORKER);
	response->code = store_get_text(slot, RESPONSE_CODE);
	response->message = store_get_text(slot, RESPONSE_MESSAGE);
	response->body = get_jsonb(slot, RESPONSE_BODY);
	response->correlation = store_get_text(slot, RESPONSE_CORRELATION);
	return response;
}

List *
workq_store_responses(WorkqStore *store, int64 job_id)
{
	StoreSegment *segment = segment_for(store, job_id);
	TupleTableSlot *slot;
	List	   *result = NIL;

	if (segment == NULL)
		return NIL;
	store_log_flush(store);
	seek_job(store, &segment->find_response, WORKQ_REL_RESPONSES, job_id);
	while ((slot = finder_next(store, &segment->find_response)) != NULL)
		result = lappend(result, store_log_response(slot));
	list_sort(result, response_compare);
	return result;
}
