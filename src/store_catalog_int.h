/*-------------------------------------------------------------------------
 *
 * store_catalog_int.h
 *	  What store_catalog.c, store_grants.c and store_counts.c share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_STORE_CATALOG_INT_H
#define WORKQ_STORE_CATALOG_INT_H

#include "catalog/pg_collation.h"
#include "utils/fmgroids.h"

#include "store_catalog.h"
#include "store_int.h"

/* Column numbers, from 0 as in a slot; test/pgtap/schema.sql compares them. */
enum GrantColumn
{
	GRANT_QUEUE_ID,
	GRANT_GRANTEE,
	GRANT_PRIVILEGE,
	GRANT_GRANTOR,
	GRANT_GRANTED_AT,
	GRANT_N
};

/*
 * Find the one row that the keys (on a unique index) name, in its slot.
 *
 * wait: the answer is settled, nobody has the row in hand (but it is not
 * locked against what happens next).  Otherwise the answer is what was
 * committed, or our own, at some moment since the call.
 */
extern bool store_find_row(Relation rel, Oid index, ScanKey keys, int nkeys,
						   bool wait, TupleTableSlot *slot);

/* Delete one row that we hold or that nobody else can have in hand. */
extern void store_delete_row(Relation rel, ItemPointer tid);

static inline void
key_int4(ScanKey key, AttrNumber attno, int32 value)
{
	ScanKeyEntryInitialize(key, 0, attno, BTEqualStrategyNumber, InvalidOid,
						   InvalidOid, F_INT4EQ, Int32GetDatum(value));
}

static inline void
key_int2(ScanKey key, AttrNumber attno, int16 value)
{
	ScanKeyEntryInitialize(key, 0, attno, BTEqualStrategyNumber, InvalidOid,
						   InvalidOid, F_INT2EQ, Int16GetDatum(value));
}

static inline void
key_oid(ScanKey key, AttrNumber attno, Oid value)
{
	ScanKeyEntryInitialize(key, 0, attno, BTEqualStrategyNumber, InvalidOid,
						   InvalidOid, F_OIDEQ, ObjectIdGetDatum(value));
}

static inline void
key_text(ScanKey key, AttrNumber attno, StrategyNumber strategy,
		 const char *value)
{
	ScanKeyEntryInitialize(key, 0, attno, strategy, InvalidOid,
						   C_COLLATION_OID,
						   strategy == BTEqualStrategyNumber ? F_TEXTEQ : F_TEXT_GT,
						   CStringGetTextDatum(value));
}

#endif							/* WORKQ_STORE_CATALOG_INT_H */
