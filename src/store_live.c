/*-------------------------------------------------------------------------
 *
 * store_live.c
 *	  The live tables: ready, leases, scheduled, held and dedup.
 *
 * Whoever deletes a job's live row owns its move to the next state; that is
 * what keeps two workers from holding one job.  A claimer deletes without
 * waiting and passes what others have in hand (SKIP LOCKED); an outcome waits,
 * and looks again when the row changed under it.
 *
 * Cursors read with a dirty snapshot: it shows committed rows and our own,
 * and says of the others whether they are being inserted or deleted.  Row
 * locks do not show in it, so a row that is merely locked is found out when
 * deleting it fails.  Dirty reads take no predicate locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/nbtree.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_collation.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "store_int.h"

#define NEAR_JOBS	16			/* how far a cursor without a gap looks */

struct WorkqCursor
{
	WorkqRelation which;
	Relation	rel;
	Relation	index;			/* NULL: heap order */
	IndexScanDesc scan;
	TableScanDesc heap_scan;
	MemoryContext context;		/* the scan's, for its notes */
	TupleTableSlot *slot;
	SnapshotData dirty;
	int			since_column;	/* what the cursor's order goes by */

	/* scan keys; they must last as long as the scan */
	ScanKeyData keys[6];
	ScanKeyData row[4];
};

/* ------------------------------------------------------------------------
 * Cursors
 * ------------------------------------------------------------------------ */

static void
key_int4(ScanKey key, AttrNumber attno, int32 value)
{
	ScanKeyEntryInitialize(key, 0, attno, BTEqualStrategyNumber, InvalidOid,
						   InvalidOid, F_INT4EQ, Int32GetDatum(value));
}

static void
key_int2(ScanKey key, AttrNumber attno, int16 value)
{
	ScanKeyEntryInitialize(key, 0, attno, BTEqualStrategyNumber, InvalidOid,
						   InvalidOid, F_INT2EQ, Int16GetDatum(value));
}

static void
key_int8(ScanKey key, AttrNumber attno, StrategyNumber strategy, int64 value)
{
	ScanKeyEntryInitialize(key, 0, attno, strategy, InvalidOid, InvalidOid,
						   strategy == BTEqualStrategyNumber ? F_INT8EQ : F_INT8GT,
						   Int64GetDatum(value));
}

static void
key_text(ScanKey key, AttrNumber attno, const char *value)
{
	ScanKeyEntryInitialize(key, 0, attno, BTEqualStrategyNumber, InvalidOid,
						   C_COLLATION_OID, F_TEXTEQ,
						   CStringGetTextDatum(value));
}

/*
 * (column attno, column attno + 1) > (since, job_id), as a row comparison:
 * a plain >= on the first column would walk over all entries of a batch that
 * has one time.
 */
static void
key_after(ScanKey key, ScanKey row, AttrNumber attno, WorkqPos after)
{
	ScanKeyEntryInitialize(&row[0], SK_ROW_MEMBER, attno,
						   BTGreaterStrategyNumber, InvalidOid, InvalidOid,
						   F_TIMESTAMPTZ_CMP,
						   TimestampTzGetDatum(after.since));
	ScanKeyEntryInitialize(&row[1], SK_ROW_MEMBER | SK_ROW_END, attno + 1,
						   BTGreaterStrategyNumber, InvalidOid, InvalidOid,
						   F_BTINT8CMP, Int64GetDatum(after.job_id));
	memset(key, 0, sizeof(ScanKeyData));
	key->sk_flags = SK_ROW_HEADER;
	key->sk_attno = attno;
	key->sk_strategy = BTGreaterStrategyNumber;
	key->sk_argument = PointerGetDatum(row);
}

static WorkqCursor *
cursor_make(WorkqStore *store, WorkqRelation which)
{
	WorkqCursor *cursor = palloc0(sizeof(WorkqCursor));

	cursor->which = which;
	cursor->context = CurrentMemoryContext;
	cursor->rel = store_table(store, which)->rel;
	cursor->slot = table_slot_create(cursor->rel, NULL);
	cursor->since_column = LIVE_READY_SINCE;
	InitDirtySnapshot(cursor->dirty);
	return cursor;
}

static WorkqCursor *
cursor_start(WorkqCursor *cursor, WorkqRelation index, int nkeys)
{
	cursor->index = index_open(workq_store_oid(index), AccessShareLock);
	cursor->scan = workq_compat_index_beginscan(cursor->rel, cursor->index,
												&cursor->dirty, nkeys);
	index_rescan(cursor->scan, cursor->keys, nkeys, NULL, 0);
	return cursor;
}

WorkqCursor *
workq_store_ready_cursor(WorkqStore *store, int32 queue_id, const char *lane,
						 int16 priority, WorkqPos after)
{
	WorkqCursor *cursor = cursor_make(store, WORKQ_REL_READY);

	key_int4(&cursor->keys[0], 1, queue_id);
	key_text(&cursor->keys[1], 2, lane);
	key_int2(&cursor->keys[2], 3, priority);
	key_after(&cursor->keys[3], cursor->row, 4, after);
	return cursor_start(cursor, WORKQ_REL_READY_ORDER, 4);
}

WorkqCursor *
workq_store_near_cursor(WorkqStore *store, int32 queue_id, const char *lane,
						int16 priority, WorkqPos after, int64 gap)
{
	WorkqCursor *cursor = cursor_make(store, WORKQ_REL_READY);
	ScanKey		keys = cursor->keys;
	bool		same = (gap == 0);

	key_int4(&keys[0], 1, queue_id);
	key_text(&keys[1], 2, lane);
	key_int2(&keys[2], 3, priority);
	ScanKeyEntryInitialize(&keys[3], 0, 4,
						   same ? BTEqualStrategyNumber :
						   BTLessEqualStrategyNumber, InvalidOid, InvalidOid,
						   same ? F_TIMESTAMPTZ_EQ : F_TIMESTAMPTZ_LE,
						   TimestampTzGetDatum(after.since + gap));
	if (same)
	{
		key_int8(&keys[4], 5, BTGreaterStrategyNumber, after.job_id);
		ScanKeyEntryInitialize(&keys[5], 0, 5, BTLessEqualStrategyNumber,
							   InvalidOid, InvalidOid, F_INT8LE,
							   Int64GetDatum(after.job_id + NEAR_JOBS));
	}
	else
		key_after(&keys[4], cursor->row, 4, after);
	return cursor_start(cursor, WORKQ_REL_READY_ORDER, same ? 6 : 5);
}

WorkqCursor *
workq_store_due_cursor(WorkqStore *store, int32 queue_id, WorkqPos after)
{
	WorkqCursor *cursor = cursor_make(store, WORKQ_REL_SCHEDULED);

	key_int4(&cursor->keys[0], 1, queue_id);
	key_after(&cursor->keys[1], cursor->row, 2, after);
	return cursor_start(cursor, WORKQ_REL_SCHEDULED_DUE, 2);
}

WorkqCursor *
workq_store_expired_cursor(WorkqStore *store, int32 queue_id, WorkqPos after)
{
	WorkqCursor *cursor = cursor_make(store, WORKQ_REL_LEASES);

	cursor->since_column = LEASE_DEADLINE;
	key_int4(&cursor->keys[0], 1, queue_id);
	key_after(&cursor->keys[1], cursor->row, 2, after);
	return cursor_start(cursor, WORKQ_REL_LEASES_DEADLINE, 2);
}

WorkqCursor *
workq_store_held_cursor(WorkqStore *store, int32 queue_id, int64 after_job)
{
	WorkqCursor *cursor = cursor_make(store, WORKQ_REL_HELD);

	key_int4(&cursor->keys[0], 1, queue_id);
	key_int8(&cursor->keys[1], 2, BTGreaterStrategyNumber, after_job);
	return cursor_start(cursor, WORKQ_REL_HELD_QUEUE, 2);
}

WorkqCursor *
workq_store_queue_cursor(WorkqStore *store, int32 queue_id)
{
	WorkqCursor *cursor = cursor_make(store, WORKQ_REL_READY);

	key_int4(&cursor->keys[0], 1, queue_id);
	return cursor_start(cursor, WORKQ_REL_READY_ORDER, 1);
}

/*
 * (lane, priority, ready_since, job_id) > those of a row.
 */
static void
key_behind(ScanKey key, ScanKey row, const WorkqJob *after)
{
	ScanKeyEntryInitialize(&row[0], SK_ROW_MEMBER, 2, BTGreaterStrategyNumber,
						   InvalidOid, C_COLLATION_OID, F_BTTEXTCMP,
						   CStringGetTextDatum(after->lane));
	ScanKeyEntryInitialize(&row[1], SK_ROW_MEMBER, 3, BTGreaterStrategyNumber,
						   InvalidOid, InvalidOid, F_BTINT2CMP,
						   Int16GetDatum(after->priority));
	ScanKeyEntryInitialize(&row[2], SK_ROW_MEMBER, 4, BTGreaterStrategyNumber,
						   InvalidOid, InvalidOid, F_TIMESTAMPTZ_CMP,
						   TimestampTzGetDatum(after->since));
	ScanKeyEntryInitialize(&row[3], SK_ROW_MEMBER | SK_ROW_END, 5,
						   BTGreaterStrategyNumber, InvalidOid, InvalidOid,
						   F_BTINT8CMP, Int64GetDatum(after->job_id));
	memset(key, 0, sizeof(ScanKeyData));
	key->sk_flags = SK_ROW_HEADER;
	key->sk_attno = 2;
	key->sk_strategy = BTGreaterStrategyNumber;
	key->sk_argument = PointerGetDatum(row);
}

WorkqCursor *
workq_store_queue_cursor_after(WorkqStore *store, int32 queue_id,
							   const WorkqJob *after)
{
	WorkqCursor *cursor = cursor_make(store, WORKQ_REL_READY);

	key_int4(&cursor->keys[0], 1, queue_id);
	key_behind(&cursor->keys[1], cursor->row, after);
	return cursor_start(cursor, WORKQ_REL_READY_ORDER, 2);
}

/*
 * lane > after
 */
static void
key_lane_after(WorkqCursor *cursor, const char *after)
{
	ScanKeyEntryInitialize(&cursor->keys[1], 0, 2, BTGreaterStrategyNumber,
						   InvalidOid, C_COLLATION_OID, F_TEXT_GT,
						   CStringGetTextDatum(after));
}

WorkqCursor *
workq_store_lane_cursor(WorkqStore *store, int32 queue_id, const char *after)
{
	WorkqCursor *cursor = cursor_make(store, WORKQ_REL_READY);

	key_int4(&cursor->keys[0], 1, queue_id);
	if (after == NULL)
		return cursor_start(cursor, WORKQ_REL_READY_ORDER, 1);
	key_lane_after(cursor, after);
	return cursor_start(cursor, WORKQ_REL_READY_ORDER, 2);
}

WorkqCursor *
workq_store_full_cursor(WorkqStore *store, WorkqRelation table)
{
	WorkqCursor *cursor = cursor_make(store, table);

	if (table == WORKQ_REL_LEASES)
		cursor->since_column = LEASE_DEADLINE;
	cursor->heap_scan = table_beginscan(cursor->rel, &cursor->dirty, 0, NULL);
	return cursor;
}

WorkqRow
workq_store_next(WorkqCursor *cursor)
{
	bool		found;

	if (cursor->heap_scan != NULL)
		found = table_scan_getnextslot(cursor->heap_scan,
									   ForwardScanDirection, cursor->slot);
	else
		found = store_scan_next(cursor->context, cursor->scan, cursor->slot);
	if (!found)
		return WORKQ_ROW_END;

	slot_getallattrs(cursor->slot);
	if (TransactionIdIsValid(cursor->dirty.xmin) ||
		TransactionIdIsValid(cursor->dirty.xmax))
		return WORKQ_ROW_PASS;
	return WORKQ_ROW_CANDIDATE;
}

/*
 * The common columns of the row in a slot.
 */
static void
deform_job(TupleTableSlot *slot, WorkqJob *job)
{
	Datum	   *values = slot->tts_values;

	job->job_id = DatumGetInt64(values[LIVE_JOB_ID]);
	job->since = DatumGetTimestampTz(values[LIVE_READY_SINCE]);
	job->queue_id = DatumGetInt32(values[LIVE_QUEUE_ID]);
	job->attempt = DatumGetInt32(values[LIVE_ATTEMPT]);
	job->failures = DatumGetInt32(values[LIVE_FAILURES]);
	job->max_attempts = DatumGetInt32(values[LIVE_MAX_ATTEMPTS]);
	job->events = DatumGetInt32(values[LIVE_EVENTS]);
	job->priority = DatumGetInt16(values[LIVE_PRIORITY]);
	job->flags = DatumGetInt16(values[LIVE_FLAGS]);
	job->lane = TextDatumGetCString(values[LIVE_LANE]);
}

static void
deform_lease(TupleTableSlot *slot, WorkqLease *lease)
{
	Datum	   *values = slot->tts_values;

	deform_job(slot, &lease->job);
	memcpy(&lease->claim_id, DatumGetUUIDP(values[LEASE_CLAIM_ID]),
		   sizeof(pg_uuid_t));
	lease->claimed_at = DatumGetTimestampTz(values[LEASE_CLAIMED_AT]);
	lease->deadline = DatumGetTimestampTz(values[LEASE_DEADLINE]);
	lease->worker = TextDatumGetCString(values[LEASE_WORKER]);
}

void
workq_store_row(WorkqCursor *cursor, WorkqJob *job)
{
	deform_job(cursor->slot, job);
}

int16
workq_store_flags(WorkqCursor *cursor)
{
	return DatumGetInt16(cursor->slot->tts_values[LIVE_FLAGS]);
}

void
workq_store_lease_row(WorkqCursor *cursor, WorkqLease *lease)
{
	deform_lease(cursor->slot, lease);
}

WorkqPos
workq_store_pos(WorkqCursor *cursor)
{
	WorkqPos	pos;

	pos.since = DatumGetTimestampTz(cursor->slot->tts_values[cursor->since_column]);
	pos.job_id = DatumGetInt64(cursor->slot->tts_values[LIVE_JOB_ID]);
	return pos;
}

bool
workq_store_being_deleted(WorkqCursor *cursor)
{
	return TransactionIdIsValid(cursor->dirty.xmax) &&
		!TransactionIdIsValid(cursor->dirty.xmin);
}

/*
 * Is the row merely locked, or is somebody deleting it?
 */
static WorkqTake
why_not_taken(WorkqCursor *cursor)
{
	TupleTableSlot *slot = table_slot_create(cursor->rel, NULL);
	SnapshotData dirty;
	WorkqTake	result = WORKQ_GONE;

	InitDirtySnapshot(dirty);
	if (table_tuple_fetch_row_version(cursor->rel, &cursor->slot->tts_tid,
									  &dirty, slot) &&
		!TransactionIdIsValid(dirty.xmax))
		result = WORKQ_LOCKED;
	ExecDropSingleTupleTableSlot(slot);
	return result;
}

/*
 * The slot keeps the row's page pinned, so the row cannot be pruned away
 * between finding and deleting it.
 */
WorkqTake
workq_store_take(WorkqCursor *cursor)
{
	TM_FailureData failure;
	TM_Result	result;

	result = table_tuple_delete(cursor->rel, &cursor->slot->tts_tid,
								GetCurrentCommandId(true), InvalidSnapshot,
								InvalidSnapshot, false, &failure, false);
	switch (result)
	{
		case TM_Ok:
			return WORKQ_TAKEN;
		case TM_BeingModified:
			return why_not_taken(cursor);
		case TM_Updated:
		case TM_Deleted:
		case TM_SelfModified:
			return WORKQ_GONE;
		case TM_Invisible:
		case TM_WouldBlock:
			break;
	}
	elog(ERROR, "unexpected result %d of deleting a row", (int) result);
	return WORKQ_GONE;			/* keep compiler quiet */
}

void
workq_store_end(WorkqCursor *cursor)
{
	if (cursor->scan != NULL)
	{
		index_endscan(cursor->scan);
		index_close(cursor->index, NoLock);
	}
	if (cursor->heap_scan != NULL)
		table_endscan(cursor->heap_scan);
	ExecDropSingleTupleTableSlot(cursor->slot);
	pfree(cursor);
}

/* ------------------------------------------------------------------------
 * Gathered inserts
 * ------------------------------------------------------------------------ */

static TupleTableSlot *
new_job_row(WorkqStore *store, WorkqRelation which, const WorkqJob *job)
{
	TupleTableSlot *slot = store_new_row(store, store_table(store, which));

	store_set(slot, LIVE_JOB_ID, Int64GetDatum(job->job_id));
	store_set(slot, LIVE_READY_SINCE, TimestampTzGetDatum(job->since));
	store_set(slot, LIVE_QUEUE_ID, Int32GetDatum(job->queue_id));
	store_set(slot, LIVE_ATTEMPT, Int32GetDatum(job->attempt));
	store_set(slot, LIVE_FAILURES, Int32GetDatum(job->failures));
	store_set(slot, LIVE_MAX_ATTEMPTS, Int32GetDatum(job->max_attempts));
	store_set(slot, LIVE_EVENTS, Int32GetDatum(job->events));
	store_set(slot, LIVE_PRIORITY, Int16GetDatum(job->priority));
	store_set(slot, LIVE_FLAGS, Int16GetDatum(job->flags));
	store_set_text(slot, LIVE_LANE, job->lane);
	return slot;
}

void
workq_store_add_ready(WorkqStore *store, const WorkqJob *job)
{
	new_job_row(store, WORKQ_REL_READY, job);
	store_append(store, &store->live[WORKQ_REL_READY]);
}

void
workq_store_add_scheduled(WorkqStore *store, const WorkqJob *job)
{
	new_job_row(store, WORKQ_REL_SCHEDULED, job);
	store_append(store, &store->live[WORKQ_REL_SCHEDULED]);
}

static TupleTableSlot *
new_lease_row(WorkqStore *store, const WorkqLease *lease)
{
	TupleTableSlot *slot = new_job_row(store, WORKQ_REL_LEASES, &lease->job);

	store_set(slot, LEASE_CLAIM_ID, UUIDPGetDatum(&lease->claim_id));
	store_set(slot, LEASE_CLAIMED_AT, TimestampTzGetDatum(lease->claimed_at));
	store_set(slot, LEASE_DEADLINE, TimestampTzGetDatum(lease->deadline));
	store_set_text(slot, LEASE_WORKER, lease->worker);
	return slot;
}

void
workq_store_add_lease(WorkqStore *store, const WorkqLease *lease)
{
	new_lease_row(store, lease);
	store_append(store, &store->live[WORKQ_REL_LEASES]);
}

void
workq_store_add_held(WorkqStore *store, const WorkqJob *job, TimestampTz at,
					 const char *state, const char *reason)
{
	TupleTableSlot *slot = new_job_row(store, WORKQ_REL_HELD, job);

	store_set(slot, HELD_HELD_AT, TimestampTzGetDatum(at));
	store_set_text(slot, HELD_STATE, state);
	store_set_text(slot, HELD_REASON, reason);
	store_append(store, &store->live[WORKQ_REL_HELD]);
}

/* ------------------------------------------------------------------------
 * One row by its key
 * ------------------------------------------------------------------------ */

/*
 * The finder of an index, made on first use.
 */
static StoreFinder *
live_finder(WorkqStore *store, WorkqRelation which, WorkqRelation index,
			int nkeys)
{
	StoreFinder *finder = &store->finder[index];
	Relation	rel = store_table(store, which)->rel;
	MemoryContext old;

	if (finder->index == NULL)
	{
		old = MemoryContextSwitchTo(store->context);
		InitDirtySnapshot(finder->dirty);
		finder->slot = table_slot_create(rel, NULL);
		finder->index = index_open(workq_store_oid(index), AccessShareLock);
		finder->scan = workq_compat_index_beginscan(rel, finder->index,
													&finder->dirty, nkeys);
		MemoryContextSwitchTo(old);
	}
	return finder;
}

/*
 * Find the one settled row that the keys of an index select; NULL if there is
 * none.  The result is valid until the finder's next use.  Transactions that
 * are inserting or deleting such a row are waited for (lock_timeout and the
 * deadlock detector apply), then the search starts again: only so can a row
 * that is being updated not be missed between its two versions.
 */
static TupleTableSlot *
find_settled(WorkqStore *store, WorkqRelation which, WorkqRelation index,
			 ScanKey keys, int nkeys, ItemPointer tid)
{
	StoreFinder *finder = live_finder(store, which, index, nkeys);
	TupleTableSlot *slot = finder->slot;
	SnapshotData *dirty = &finder->dirty;
	bool		found;
	int			misses = 0;

	for (;;)
	{
		TransactionId wait_for = InvalidTransactionId;

		CHECK_FOR_INTERRUPTS();
		store_scan_restart(store->context, finder->scan, keys, nkeys);
		found = store_scan_next(store->context, finder->scan, slot);
		if (store->reader)
		{
			while (found && TransactionIdIsValid(dirty->xmin))
				found = store_scan_next(store->context, finder->scan, slot);
			break;
		}

		/*
		 * Leases are updated.  We may have read the index before the new
		 * version's entry came and the old version after it went.
		 */
		if (!found && which == WORKQ_REL_LEASES && misses++ < 2)
			continue;
		if (found)
			wait_for = TransactionIdIsValid(dirty->xmin) ?
				dirty->xmin : dirty->xmax;
		if (!TransactionIdIsValid(wait_for))
			break;

		/* let go of the pages while we wait */
		*tid = slot->tts_tid;
		ExecClearTuple(slot);
		store_scan_restart(store->context, finder->scan, keys, nkeys);
		XactLockTableWait(wait_for, store_table(store, which)->rel, tid,
						  XLTW_Delete);
	}
	if (!found)
		return NULL;
	slot_getallattrs(slot);
	*tid = slot->tts_tid;
	return slot;
}

/*
 * Same for a live table whose primary key is job_id.
 */
static TupleTableSlot *
find_by_job(WorkqStore *store, WorkqRelation which, WorkqRelation index,
			int64 job_id, ItemPointer tid)
{
	ScanKeyData key;

	key_int8(&key, 1, BTEqualStrategyNumber, job_id);
	return find_settled(store, which, index, &key, 1, tid);
}

bool
workq_store_find_lease(WorkqStore *store, int64 job_id, WorkqLease *lease,
					   ItemPointer tid)
{
	TupleTableSlot *slot = find_by_job(store, WORKQ_REL_LEASES,
									   WORKQ_REL_LEASES_PKEY, job_id, tid);

	if (slot != NULL)
		deform_lease(slot, lease);
	return slot != NULL;
}

bool
workq_store_find_scheduled(WorkqStore *store, int64 job_id, WorkqJob *job,
						   ItemPointer tid)
{
	TupleTableSlot *slot = find_by_job(store, WORKQ_REL_SCHEDULED,
									   WORKQ_REL_SCHEDULED_PKEY, job_id, tid);

	if (slot != NULL)
		deform_job(slot, job);
	return slot != NULL;
}

bool
workq_store_find_held(WorkqStore *store, int64 job_id, WorkqJob *job,
					  TimestampTz *held_at, char **state, ItemPointer tid)
{
	TupleTableSlot *slot = find_by_job(store, WORKQ_REL_HELD,
									   WORKQ_REL_HELD_PKEY, job_id, tid);

	if (slot == NULL)
		return false;
	deform_job(slot, job);
	*held_at = store_get_time(slot, HELD_HELD_AT);
	*state = store_get_text(slot, HELD_STATE);
	return true;
}

bool
workq_store_find_ready(WorkqStore *store, int32 queue_id, const char *lane,
					   int16 priority, WorkqPos pos, WorkqJob *job,
					   ItemPointer tid)
{
	TupleTableSlot *slot;
	ScanKeyData keys[5];

	key_int4(&keys[0], 1, queue_id);
	key_text(&keys[1], 2, lane);
	key_int2(&keys[2], 3, priority);
	ScanKeyEntryInitialize(&keys[3], 0, 4, BTEqualStrategyNumber, InvalidOid,
						   InvalidOid, F_TIMESTAMPTZ_EQ,
						   TimestampTzGetDatum(pos.since));
	key_int8(&keys[4], 5, BTEqualStrategyNumber, pos.job_id);
	slot = find_settled(store, WORKQ_REL_READY, WORKQ_REL_READY_ORDER, keys,
						5, tid);
	if (slot != NULL)
		deform_job(slot, job);
	return slot != NULL;
}

/*
 * Delete a row that find_* returned; waits for whoever has it in hand.
 */
bool
workq_store_delete(WorkqStore *store, WorkqRelation table, ItemPointer tid)
{
	TM_FailureData failure;
	TM_Result	result;

	result = table_tuple_delete(store_table(store, table)->rel, tid,
								GetCurrentCommandId(true), InvalidSnapshot,
								InvalidSnapshot, true, &failure, false);
	return result == TM_Ok;
}

static bool
update_lease(WorkqStore *store, const WorkqLease *lease, ItemPointer tid,
			 bool wait)
{
	StoreTable *table = store_table(store, WORKQ_REL_LEASES);
	TupleTableSlot *slot;
	WORKQ_COMPAT_UPDATE_INDEXES update_indexes;
	TM_FailureData failure;
	LockTupleMode mode;
	TM_Result	result;

	store_table_flush(store, table);
	slot = new_lease_row(store, lease);
	store_form(store, table, slot);
	result = table_tuple_update(table->rel, tid, slot,
								GetCurrentCommandId(true), InvalidSnapshot,
								InvalidSnapshot, wait, &failure, &mode,
								&update_indexes);
	if (result != TM_Ok)
		return false;
	if (workq_compat_must_update_indexes(update_indexes))
	{
		store_open_indexes(store, table, false);
		workq_compat_insert_index_tuples(table->result, slot, store->estate,
										 false, NULL, NIL);
		ResetPerTupleExprContext(store->estate);
	}
	return true;
}

bool
workq_store_update_lease(WorkqStore *store, const WorkqLease *lease,
						 ItemPointer tid)
{
	return update_lease(store, lease, tid, true);
}

bool
workq_store_rewrite_lease(WorkqStore *store, WorkqCursor *cursor,
						  const WorkqLease *lease)
{
	ItemPointerData tid = cursor->slot->tts_tid;

	return update_lease(store, lease, &tid, false);
}

/* ------------------------------------------------------------------------
 * Deduplication keys
 * ------------------------------------------------------------------------ */

void
workq_store_dedup_row(WorkqCursor *cursor, int32 *queue_id, int64 *job_id)
{
	*queue_id = DatumGetInt32(cursor->slot->tts_values[DEDUP_QUEUE_ID]);
	*job_id = DatumGetInt64(cursor->slot->tts_values[DEDUP_JOB_ID]);
}

/*
 * Inserted speculatively: of two producers with one key, the second waits for
 * the first's transaction in the uniqueness check, holding nothing that the
 * first could need.  No error is raised and caught, so nothing is aborted, at
 * any isolation level.
 */
bool
workq_store_dedup_take(WorkqStore *store, int32 queue_id, const char *key,
					   int64 job_id, int64 *holder)
{
	StoreTable *table = store_table(store, WORKQ_REL_DEDUP);
	List	   *arbiters = list_make1_oid(workq_store_oid(WORKQ_REL_DEDUP_PKEY));
	TupleTableSlot *slot;
	TupleTableSlot *other;

	store_open_indexes(store, table, true);
	slot = store_new_row(store, table);
	store_set(slot, DEDUP_QUEUE_ID, Int32GetDatum(queue_id));
	store_set_text(slot, DEDUP_KEY, key);
	store_set(slot, DEDUP_JOB_ID, Int64GetDatum(job_id));
	store_form(store, table, slot);

	for (;;)
	{
		ItemPointerData conflict;
		SnapshotData dirty;
		uint32		token;
		bool		lost;
		bool		found;

		CHECK_FOR_INTERRUPTS();
		ResetPerTupleExprContext(store->estate);
		if (!workq_compat_check_index_constraints(table->result, slot,
												  store->estate, &conflict,
												  arbiters))
		{
			/* somebody has it; it may be gone again by now */
			other = table_slot_create(table->rel, NULL);
			InitDirtySnapshot(dirty);
			found = table_tuple_fetch_row_version(table->rel, &conflict,
												  &dirty, other) &&
				!TransactionIdIsValid(dirty.xmin) &&
				!TransactionIdIsValid(dirty.xmax);
			if (found)
			{
				slot_getallattrs(other);
				*holder = DatumGetInt64(other->tts_values[DEDUP_JOB_ID]);
			}
			ExecDropSingleTupleTableSlot(other);
			if (found)
				return false;
			continue;
		}

		token = SpeculativeInsertionLockAcquire(GetCurrentTransactionId());
		table_tuple_insert_speculative(table->rel, slot,
									   GetCurrentCommandId(true), 0, NULL,
									   token);
		lost = false;
		workq_compat_insert_index_tuples(table->result, slot, store->estate,
										 true, &lost, arbiters);
		table_tuple_complete_speculative(table->rel, slot, token, !lost);
		SpeculativeInsertionLockRelease(GetCurrentTransactionId());
		ResetPerTupleExprContext(store->estate);
		if (!lost)
			return true;
	}
}

void
workq_store_dedup_drop(WorkqStore *store, int32 queue_id, const char *key,
					   int64 job_id)
{
	TupleTableSlot *slot;
	ScanKeyData keys[2];
	ItemPointerData tid;

	key_int4(&keys[0], 1, queue_id);
	key_text(&keys[1], 2, key);
	while ((slot = find_settled(store, WORKQ_REL_DEDUP, WORKQ_REL_DEDUP_PKEY,
								keys, 2, &tid)) != NULL)
	{
		if (DatumGetInt64(slot->tts_values[DEDUP_JOB_ID]) != job_id)
			break;				/* the key is another job's by now */
		if (workq_store_delete(store, WORKQ_REL_DEDUP, &tid))
			break;
	}
}
