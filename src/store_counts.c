/*-------------------------------------------------------------------------
 *
 * store_counts.c
 *	  A queue's rows in any table: counting them, deleting them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "store_catalog_int.h"

int64
workq_catalog_count_rows(WorkqRelation table, WorkqRelation index,
						 int32 queue_id)
{
	Relation	rel = store_open_rel(table, AccessShareLock);
	Relation	idx = index_open(workq_store_oid(index), AccessShareLock);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	ScanKeyData key;
	IndexScanDesc scan;
	int64		n = 0;

	key_int4(&key, 1, queue_id);
	scan = workq_compat_index_beginscan(rel, idx, SnapshotSelf, 1);
	index_rescan(scan, &key, 1, NULL, 0);
	while (index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		n++;
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(idx, NoLock);
	table_close(rel, NoLock);
	return n;
}

int64
workq_catalog_delete_rows(WorkqStore *store, WorkqRelation table,
						  WorkqRelation index, int32 queue_id)
{
	Relation	rel = store_table(store, table)->rel;
	Relation	idx = index_open(workq_store_oid(index), AccessShareLock);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	ScanKeyData key;
	IndexScanDesc scan;
	int64		n = 0;

	key_int4(&key, 1, queue_id);
	scan = workq_compat_index_beginscan(rel, idx, SnapshotSelf, 1);
	index_rescan(scan, &key, 1, NULL, 0);
	while (index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		store_delete_row(rel, &slot->tts_tid);
		n++;
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(idx, NoLock);
	CommandCounterIncrement();
	return n;
}

/* ------------------------------------------------------------------------
 * For views
 * ------------------------------------------------------------------------ */

/*
 * Count a queue's rows as the active snapshot sees them; *earliest is the
 * least value of a time column.
 */
static int64
count_live(WorkqRelation table, WorkqRelation index, int32 queue_id,
		   int column, TimestampTz *earliest)
{
	Relation	rel = store_open_rel(table, AccessShareLock);
	Relation	idx = index_open(workq_store_oid(index), AccessShareLock);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	ScanKeyData key;
	IndexScanDesc scan;
	int64		n = 0;

	*earliest = DT_NOEND;
	key_int4(&key, 1, queue_id);
	scan = workq_compat_index_beginscan(rel, idx, GetActiveSnapshot(), 1);
	index_rescan(scan, &key, 1, NULL, 0);
	while (index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		TimestampTz at;
		bool		isnull;

		CHECK_FOR_INTERRUPTS();
		at = DatumGetTimestampTz(slot_getattr(slot, column + 1, &isnull));
		*earliest = Min(*earliest, at);
		n++;
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(idx, NoLock);
	table_close(rel, NoLock);
	return n;
}

void
workq_catalog_counts(int32 queue_id, WorkqTableCounts *counts)
{
	TimestampTz ignored;

	counts->ready = count_live(WORKQ_REL_READY, WORKQ_REL_READY_ORDER,
							   queue_id, LIVE_READY_SINCE,
							   &counts->oldest_ready);
	counts->scheduled = count_live(WORKQ_REL_SCHEDULED,
								   WORKQ_REL_SCHEDULED_DUE, queue_id,
								   LIVE_READY_SINCE, &counts->next_due);
	counts->leased = count_live(WORKQ_REL_LEASES, WORKQ_REL_LEASES_DEADLINE,
								queue_id, LEASE_DEADLINE, &ignored);
	counts->held = count_live(WORKQ_REL_HELD, WORKQ_REL_HELD_QUEUE, queue_id,
							  HELD_HELD_AT, &ignored);
}

/*
 * The first row of ready under the keys, in index order; false for none.
 */
static bool
first_ready(Relation rel, Relation index, ScanKey keys, int nkeys,
			TupleTableSlot *slot)
{
	IndexScanDesc scan;
	bool		found;

	scan = workq_compat_index_beginscan(rel, index, SnapshotSelf, nkeys);
	index_rescan(scan, keys, nkeys, NULL, 0);
	found = index_getnext_slot(scan, ForwardScanDirection, slot);
	if (found)
		slot_getallattrs(slot);
	index_endscan(scan);
	return found;
}

TimestampTz
workq_catalog_oldest_ready(int32 queue_id, int max_lanes)
{
	Relation	rel = store_open_rel(WORKQ_REL_READY, AccessShareLock);
	Relation	index = index_open(workq_store_oid(WORKQ_REL_READY_ORDER),
								   AccessShareLock);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	TimestampTz oldest = DT_NOEND;
	ScanKeyData keys[3];
	char	   *lane;
	int			n = 0;

	/* the first lane, then each time the first one behind */
	key_int4(&keys[0], 1, queue_id);
	if (first_ready(rel, index, keys, 1, slot))
	{
		do
		{
			int16		priority;

			CHECK_FOR_INTERRUPTS();
			lane = TextDatumGetCString(slot->tts_values[LIVE_LANE]);
			key_text(&keys[1], 2, BTEqualStrategyNumber, lane);
			for (priority = 0; priority < WORKQ_PRIORITIES; priority++)
			{
				key_int2(&keys[2], 3, priority);
				if (first_ready(rel, index, keys, 3, slot))
				{
					TimestampTz at = DatumGetTimestampTz(slot->tts_values[LIVE_READY_SINCE]);

					oldest = Min(oldest, at);
				}
			}
			key_text(&keys[1], 2, BTGreaterStrategyNumber, lane);
			pfree(lane);
		} while (++n < max_lanes && first_ready(rel, index, keys, 2, slot));
	}
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, NoLock);
	table_close(rel, NoLock);
	return oldest;
}
