/*-------------------------------------------------------------------------
 *
 * ids.c
 *	  Job ids: taken from blocks that are reserved durably.
 *
 * nextval() alone may repeat after a crash: its WAL record need not have been
 * flushed when the transaction that used the value ended, or was seen by a
 * client, with synchronous_commit off.  Here a block's reservation is flushed
 * before its first id is handed out.  Blocks are the sequence's INCREMENT.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "catalog/pg_sequence.h"
#include "commands/sequence.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/syscache.h"

#include "compat.h"
#include "sched_int.h"
#include "store.h"

/*
 * The sequence's INCREMENT, that is, how many ids one fetch reserves.
 */
static int64
block_size(Oid sequence)
{
	HeapTuple	tuple = SearchSysCache1(SEQRELID, ObjectIdGetDatum(sequence));
	int64		result;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for sequence %u", sequence);
	result = ((Form_pg_sequence) GETSTRUCT(tuple))->seqincrement;
	ReleaseSysCache(tuple);
	return Max(result, 1);
}

/*
 * Up to where WAL has been written.  The insert position may stand behind the
 * header of a page on which there is nothing yet; that much cannot be flushed.
 */
static XLogRecPtr
end_of_wal(void)
{
	XLogRecPtr	end = GetXLogInsertRecPtr();

	if (end % XLOG_BLCKSZ == SizeOfXLogShortPHD ||
		XLogSegmentOffset(end, wal_segment_size) == SizeOfXLogLongPHD)
		end -= end % XLOG_BLCKSZ;
	return end;
}

int
workq_ids_take(WorkqInstance *instance, int want, int64 *first)
{
	Oid			sequence = workq_store_oid(WORKQ_REL_JOB_IDS);
	int			got;

	LWLockAcquire(&instance->ids_lock, LW_EXCLUSIVE);
	if (instance->id_next >= instance->id_end)
	{
		int64		size;
		int64		start;
		XLogRecPtr	before;

		/*
		 * Take the relation lock outside our lock: whoever waits for ours
		 * cannot be interrupted, and must not wait for somebody else's DDL.
		 */
		LWLockRelease(&instance->ids_lock);
		LockRelationOid(sequence, RowExclusiveLock);
		size = block_size(sequence);
		LWLockAcquire(&instance->ids_lock, LW_EXCLUSIVE);
		if (instance->id_next >= instance->id_end)
		{
			before = XactLastRecEnd;
			start = nextval_internal(sequence, false);

			/* nextval() logs some fetches ahead: maybe not this time */
			XLogFlush(XactLastRecEnd != before ? XactLastRecEnd :
					  end_of_wal());
			instance->id_next = start;
			instance->id_end = start + size;
		}
	}
	got = (int) Min((int64) want, instance->id_end - instance->id_next);
	*first = instance->id_next;
	instance->id_next += got;
	LWLockRelease(&instance->ids_lock);
	return got;
}
