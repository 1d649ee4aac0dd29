/*-------------------------------------------------------------------------
 *
 * store_follow.c
 *	  Responses in the order of their writers.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "store_int.h"

/* the responses that somebody may follow: those with a correlation */
static const StoreLogIndex by_writer = {
	"writer and job_id", true, 2, {RESPONSE_WRITER + 1, RESPONSE_JOB_ID + 1}
};

int
workq_response_cmp(WorkqResponsePos a, WorkqResponsePos b)
{
	if (a.writer != b.writer)
		return a.writer < b.writer ? -1 : 1;
	if (a.job_id != b.job_id)
		return a.job_id < b.job_id ? -1 : 1;
	return (a.number > b.number) - (a.number < b.number);
}

List *
workq_store_follow(WorkqStore *store, int64 segment_id, Snapshot snapshot,
				   WorkqResponsePos after, int64 horizon, int limit)
{
	Relation	rel = store_log_table(store, segment_id, WORKQ_REL_RESPONSES)->rel;
	Relation	index = store_log_open_index(rel, &by_writer);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	List	   *result = NIL;
	ScanKeyData key[2];
	IndexScanDesc scan;

	ScanKeyEntryInitialize(&key[0], 0, 1, BTGreaterEqualStrategyNumber,
						   InvalidOid, InvalidOid, F_INT8GE,
						   Int64GetDatum(after.writer));
	ScanKeyEntryInitialize(&key[1], 0, 1, BTLessStrategyNumber, InvalidOid,
						   InvalidOid, F_INT8LT, Int64GetDatum(horizon));
	scan = workq_compat_index_beginscan(rel, index, snapshot, 2);
	index_rescan(scan, key, 2, NULL, 0);
	while (index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		WorkqResponsePos pos;
		const WorkqResponse *last = result == NIL ? NULL : llast(result);

		CHECK_FOR_INTERRUPTS();
		slot_getallattrs(slot);
		pos.writer = DatumGetInt64(slot->tts_values[RESPONSE_WRITER]);
		pos.job_id = DatumGetInt64(slot->tts_values[RESPONSE_JOB_ID]);
		pos.number = DatumGetInt32(slot->tts_values[RESPONSE_NUMBER]);
		if (list_length(result) >= limit && last != NULL &&
			(last->writer != pos.writer || last->job_id != pos.job_id))
			break;
		if (workq_response_cmp(pos, after) > 0)
			result = lappend(result, store_log_response(slot));
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, NoLock);
	return result;
}

/*
 * workq_store_last_writer without an index.
 */
static int64
scan_for_last_writer(Relation rel, TupleTableSlot *slot)
{
	TableScanDesc scan = table_beginscan(rel, SnapshotSelf, 0, NULL);
	int64		result = 0;

	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		slot_getallattrs(slot);
		if (!slot->tts_isnull[RESPONSE_WRITER])
			result = Max(result, DatumGetInt64(slot->tts_values[RESPONSE_WRITER]));
	}
	table_endscan(scan);
	return result;
}

int64
workq_store_last_writer(Oid responses)
{
	Relation	rel = try_relation_open(responses, AccessShareLock);
	Relation	index;
	TupleTableSlot *slot;
	int64		result = 0;

	if (rel == NULL)
		return 0;
	index = store_log_find_index(rel, &by_writer);
	slot = table_slot_create(rel, NULL);
	if (index == NULL)
		result = scan_for_last_writer(rel, slot);
	else
	{
		ScanKeyData key;
		IndexScanDesc scan;

		ScanKeyEntryInitialize(&key, 0, 1, BTGreaterStrategyNumber, InvalidOid,
							   InvalidOid, F_INT8GT, Int64GetDatum(0));
		scan = workq_compat_index_beginscan(rel, index, SnapshotSelf, 1);
		index_rescan(scan, &key, 1, NULL, 0);
		if (index_getnext_slot(scan, BackwardScanDirection, slot))
		{
			slot_getallattrs(slot);
			result = DatumGetInt64(slot->tts_values[RESPONSE_WRITER]);
		}
		index_endscan(scan);
		index_close(index, AccessShareLock);
	}
	ExecDropSingleTupleTableSlot(slot);
	table_close(rel, AccessShareLock);
	return result;
}
