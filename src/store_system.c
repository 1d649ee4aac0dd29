/*-------------------------------------------------------------------------
 *
 * store_system.c
 *	  What background work reads: databases, the extension, the segments.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "commands/sequence.h"
#include "executor/tuptable.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "store_system.h"

/* columns of workq.segments, from 0 as in a slot */
enum SegmentColumn
{
	SEGMENT_SEGMENT,
	SEGMENT_FROM_JOB_ID,
	SEGMENT_TO_JOB_ID
};

/* a DROP DATABASE that was interrupted leaves this in datconnlimit */
#define CONNLIMIT_INVALID	(-2)

WorkqDatabase *
workq_system_databases(int *n)
{
	MemoryContext context = CurrentMemoryContext;
	WorkqDatabase *result;
	int			room = 32;
	Relation	rel;
	TableScanDesc scan;
	HeapTuple	tuple;

	result = palloc(room * sizeof(WorkqDatabase));
	*n = 0;
	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);

		if (*n == room)
		{
			room *= 2;
			result = repalloc(result, room * sizeof(WorkqDatabase));
		}
		result[*n].dbid = form->oid;
		result[*n].wants_worker = form->datallowconn &&
			!form->datistemplate && form->datconnlimit != CONNLIMIT_INVALID;
		(*n)++;
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	CommitTransactionCommand();
	MemoryContextSwitchTo(context);
	return result;
}

Oid
workq_system_extension(char **version)
{
	Relation	rel;
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;
	Oid			result = InvalidOid;

	*version = NULL;
	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber,
				F_NAMEEQ, CStringGetDatum("workq"));
	rel = table_open(ExtensionRelationId, AccessShareLock);
	scan = systable_beginscan(rel, ExtensionNameIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		bool		isnull;
		Datum		datum = heap_getattr(tuple, Anum_pg_extension_extversion,
										 RelationGetDescr(rel), &isnull);

		result = ((Form_pg_extension) GETSTRUCT(tuple))->oid;
		*version = isnull ? pstrdup("") : TextDatumGetCString(datum);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return result;
}

bool
workq_system_is_ours(Oid extension)
{
	Relation	rel;
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;
	bool		result = false;

	/* SnapshotSelf: a row just inserted is not yet visible otherwise */
	ScanKeyInit(&key, Anum_pg_extension_oid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(extension));
	rel = table_open(ExtensionRelationId, AccessShareLock);
	scan = systable_beginscan(rel, ExtensionOidIndexId, true, SnapshotSelf,
							  1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		Form_pg_extension form = (Form_pg_extension) GETSTRUCT(tuple);

		result = strcmp(NameStr(form->extname), "workq") == 0;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return result;
}

WorkqSegment *
workq_system_segments(Oid relid, int *n)
{
	Relation	rel = table_open(relid, AccessShareLock);
	TableScanDesc scan = table_beginscan(rel, SnapshotSelf, 0, NULL);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	WorkqSegment *result;
	int			room = 16;

	result = palloc(room * sizeof(WorkqSegment));
	*n = 0;
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		WorkqSegment *segment;

		slot_getallattrs(slot);
		if (*n == room)
		{
			room *= 2;
			result = repalloc(result, room * sizeof(WorkqSegment));
		}
		segment = &result[(*n)++];
		memset(segment, 0, sizeof(WorkqSegment));
		segment->segment = DatumGetInt32(slot->tts_values[SEGMENT_SEGMENT]);
		segment->from_id =
			DatumGetInt64(slot->tts_values[SEGMENT_FROM_JOB_ID]);
		segment->to_id = DatumGetInt64(slot->tts_values[SEGMENT_TO_JOB_ID]);
	}
	ExecDropSingleTupleTableSlot(slot);
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	return result;
}

bool
workq_system_sequence(Oid relid, int64 *value)
{
	Relation	rel = table_open(relid, AccessShareLock);
	TableScanDesc scan = table_beginscan(rel, SnapshotAny, 0, NULL);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	bool		result;

	if (!table_scan_getnextslot(scan, ForwardScanDirection, slot))
		elog(ERROR, "sequence %u has no row", relid);
	slot_getallattrs(slot);
	*value = DatumGetInt64(slot->tts_values[SEQ_COL_LASTVAL - 1]);
	result = DatumGetBool(slot->tts_values[SEQ_COL_CALLED - 1]);
	ExecDropSingleTupleTableSlot(slot);
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	return result;
}
