/*-------------------------------------------------------------------------
 *
 * store_int.h
 *	  What store.c, store_live.c, store_log.c and store_follow.c share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_STORE_INT_H
#define WORKQ_STORE_INT_H

#include "access/genam.h"
#include "access/relscan.h"
#include "access/skey.h"
#include "executor/executor.h"
#include "nodes/execnodes.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "store.h"

#define STORE_GATHER	64		/* rows written by one multi-insert */

/*
 * Column numbers, from 0 as in a slot.  test/sql/attributes.sql compares them
 * with the catalog.
 */
enum LiveColumn
{
	LIVE_JOB_ID,
	LIVE_READY_SINCE,
	LIVE_QUEUE_ID,
	LIVE_ATTEMPT,
	LIVE_FAILURES,
	LIVE_MAX_ATTEMPTS,
	LIVE_EVENTS,
	LIVE_PRIORITY,
	LIVE_FLAGS,
	LIVE_LANE,
	LIVE_N_COMMON,

	LEASE_CLAIM_ID = LIVE_N_COMMON,
	LEASE_CLAIMED_AT,
	LEASE_DEADLINE,
	LEASE_WORKER,
	LEASE_N,

	HELD_HELD_AT = LIVE_N_COMMON,
	HELD_STATE,
	HELD_REASON,
	HELD_N
};

enum DedupColumn
{
	DEDUP_QUEUE_ID,
	DEDUP_KEY,
	DEDUP_JOB_ID,
	DEDUP_N
};

enum ResponseColumn
{
	RESPONSE_JOB_ID,
	RESPONSE_AT,
	RESPONSE_WRITER,
	RESPONSE_QUEUE_ID,
	RESPONSE_ATTEMPT,
	RESPONSE_NUMBER,
	RESPONSE_CLAIM_ID,
	RESPONSE_OUTCOME,
	RESPONSE_WORKER,
	RESPONSE_CODE,
	RESPONSE_MESSAGE,
	RESPONSE_BODY,
	RESPONSE_CORRELATION,
	RESPONSE_N
};

/*
 * A search by key that is kept between uses: making one costs more than using
 * it, and a batch uses it for every element.
 */
typedef struct StoreFinder
{
	Relation	index;			/* NULL: not open */
	IndexScanDesc scan;
	TupleTableSlot *slot;
	SnapshotData dirty;			/* of live tables */
} StoreFinder;

typedef struct StoreExtra StoreExtra;

/* A table as a verb has it open. */
typedef struct StoreTable
{
	Relation	rel;			/* NULL: not open */
	ResultRelInfo *result;		/* NULL: indexes not open */
	TupleTableSlot **gathered;	/* STORE_GATHER of them, made as needed */
	int			n_slots;
	int			n_gathered;
	StoreExtra *extra;			/* what is not ours; NULL: nothing */
} StoreTable;

typedef struct StoreSegment
{
	WorkqSegment segment;
	StoreTable	jobs;
	StoreTable	claims;
	StoreTable	responses;
	StoreFinder find_job;
	StoreFinder find_claim;
	StoreFinder find_response;
} StoreSegment;

struct WorkqStore
{
	EState	   *estate;
	LOCKMODE	lockmode;		/* of relations */
	bool		reader;
	MemoryContext context;		/* what must last as long as the store */
	StoreTable	live[WORKQ_N_RELATIONS];
	StoreFinder finder[WORKQ_N_RELATIONS];	/* by index */
	List	   *segments;		/* of StoreSegment */
	StoreSegment *last;			/* the one used last */
};

extern StoreTable *store_table(WorkqStore *store, WorkqRelation which);

/* Open one of our tables, by its OID or as one of those of fixed names. */
extern Relation store_open_oid(Oid relid, LOCKMODE lockmode);
extern Relation store_open_rel(WorkqRelation which, LOCKMODE lockmode);

/* n_columns: how many are ours, all of them filled in; 0: others stay NULL. */
extern void store_table_open(WorkqStore *store, StoreTable *table, Oid relid,
							 int n_columns);
extern void store_table_close(StoreTable *table);
extern void store_table_flush(WorkqStore *store, StoreTable *table);
extern void store_open_indexes(WorkqStore *store, StoreTable *table,
							   bool speculative);

/* A cleared slot with all columns NULL to fill in, then hand to store_append */
extern TupleTableSlot *store_new_row(WorkqStore *store, StoreTable *table);
extern void store_form(WorkqStore *store, StoreTable *table,
					   TupleTableSlot *slot);
extern void store_append(WorkqStore *store, StoreTable *table);

/* store_extra.c */
extern void store_extra_open(WorkqStore *store, StoreTable *table,
							 int n_columns);
extern void store_extra_fill(WorkqStore *store, StoreTable *table,
							 TupleTableSlot *slot);
extern void store_extra_check(WorkqStore *store, StoreTable *table,
							  TupleTableSlot *slot);

extern void store_finder_close(StoreFinder *finder);
extern void store_log_flush(WorkqStore *store);
extern void store_log_close(WorkqStore *store);

/* A table of the job's segment, open; raises if there is no such segment. */
extern StoreTable *store_log_table(WorkqStore *store, int64 job_id,
								   WorkqRelation which);

/* Which index a search needs: the columns it begins with. */
typedef struct StoreLogIndex
{
	const char *columns;		/* for an error */
	bool		partial;		/* it has not all rows */
	int			n;
	AttrNumber	attno[3];
} StoreLogIndex;

/* An index of a log table, open; NULL if there is none. */
extern Relation store_log_find_index(Relation rel,
									 const StoreLogIndex *wanted);

/* The same for one that every log table has, made with it; an administrator may
 * have added others. */
extern Relation store_log_open_index(Relation rel,
									 const StoreLogIndex *wanted);

/* The row of workq.responses in a slot; all is palloc'd. */
extern WorkqResponse *store_log_response(TupleTableSlot *slot);

/*
 * The next row of an index scan.  The index keeps notes between calls (entries
 * to mark dead) in whatever memory context is current; it must be one that
 * lasts as long as the scan, which the caller's need not.
 */
static inline bool
store_scan_next(MemoryContext context, IndexScanDesc scan,
				TupleTableSlot *slot)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	bool		found = index_getnext_slot(scan, ForwardScanDirection, slot);

	MemoryContextSwitchTo(old);
	return found;
}

static inline void
store_scan_restart(MemoryContext context, IndexScanDesc scan, ScanKey keys,
				   int nkeys)
{
	MemoryContext old = MemoryContextSwitchTo(context);

	index_rescan(scan, keys, nkeys, NULL, 0);
	MemoryContextSwitchTo(old);
}

static inline void
store_set(TupleTableSlot *slot, int column, Datum value)
{
	slot->tts_values[column] = value;
	slot->tts_isnull[column] = false;
}

static inline void
store_set_text(TupleTableSlot *slot, int column, const char *value)
{
	if (value != NULL)
		store_set(slot, column, CStringGetTextDatum(value));
}

static inline void
store_set_time(TupleTableSlot *slot, int column, TimestampTz value)
{
	if (value != DT_NOBEGIN)
		store_set(slot, column, TimestampTzGetDatum(value));
}

static inline char *
store_get_text(TupleTableSlot *slot, int column)
{
	return slot->tts_isnull[column] ? NULL :
		TextDatumGetCString(slot->tts_values[column]);
}

static inline TimestampTz
store_get_time(TupleTableSlot *slot, int column)
{
	return slot->tts_isnull[column] ? DT_NOBEGIN :
		DatumGetTimestampTz(slot->tts_values[column]);
}

#endif							/* WORKQ_STORE_INT_H */
