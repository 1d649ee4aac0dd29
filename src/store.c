/*-------------------------------------------------------------------------
 *
 * store.c
 *	  Opening the tables, the cache of their OIDs, and gathered inserts.
 *
 * OIDs are resolved once per backend and forgotten by the relcache callback;
 * the callback touches no catalog.  Relations are opened with RowExclusiveLock
 * and stay locked to the end of the transaction: that is what lets the loader
 * in sched.c wait for exactly the transactions whose changes are not yet
 * published.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_extension.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "compat.h"
#include "sched.h"
#include "store_int.h"
#include "xact.h"

static const char *const names[WORKQ_N_RELATIONS] = {
	"queues",
	"grants",
	"keys",
	"error_map",
	"segments",
	"policies",
	"jobs",
	"claims",
	"responses",
	"ready",
	"leases",
	"scheduled",
	"held",
	"dedup",
	"job_ids",
	"response_base",
	"ready_order",
	"leases_pkey",
	"leases_deadline",
	"scheduled_pkey",
	"scheduled_due",
	"held_pkey",
	"held_queue",
	"dedup_pkey",
	"queues_pkey",
	"queues_name_key",
	"grants_pkey",
	"keys_pkey",
	"error_map_pkey",
	"segments_pkey"
};

/* how many columns the tables of jobs have; 0: others */
static const int live_columns[WORKQ_N_RELATIONS] = {
	[WORKQ_REL_READY] = LIVE_N_COMMON,
	[WORKQ_REL_LEASES] = LEASE_N,
	[WORKQ_REL_SCHEDULED] = LIVE_N_COMMON,
	[WORKQ_REL_HELD] = HELD_N,
	[WORKQ_REL_DEDUP] = DEDUP_N
};

/* OIDs of this database's extension, while oids_valid */
static Oid	oids[WORKQ_N_RELATIONS];
static bool oids_valid = false;
static bool oids_new = false;	/* created by our own open transaction */

static void resolve_oids(void);

/*
 * Relcache callback: one of ours changed, or everything may have.
 */
static void
forget_oids(Datum arg, Oid relid)
{
	int			i;

	if (!oids_valid)
		return;
	if (relid == InvalidOid)
	{
		oids_valid = false;
		return;
	}
	for (i = 0; i < WORKQ_N_RELATIONS; i++)
	{
		/* the catalog of queues is invalidated on every change of a queue */
		if (oids[i] == relid && (i != WORKQ_REL_QUEUES || oids_new))
			oids_valid = false;
	}
}

/*
 * DROP EXTENSION invalidates pg_extension's cache only by way of its tables,
 * which the callback above sees, so nothing else is needed here.
 */
void
workq_store_init(void)
{
	CacheRegisterRelcacheCallback(forget_oids, (Datum) 0);
}

Oid
workq_store_extension(void)
{
	return get_extension_oid("workq", true);
}

/*
 * The version of the extension as its SQL objects are, palloc'd, or NULL.
 */
static char *
extension_version(void)
{
	Relation	rel;
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;
	char	   *version = NULL;

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

		if (!isnull)
			version = TextDatumGetCString(datum);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return version;
}

/*
 * Whoever waits for the lock of a table while the extension is dropped finds
 * that there is none.  If it is there again by now, it is another one: what the
 * caller knows of the old one (its place in shared memory) does not fit.
 */
Relation
store_open_oid(Oid relid, LOCKMODE lockmode)
{
	Relation	rel = try_table_open(relid, lockmode);

	if (rel != NULL)
		return rel;
	oids_valid = false;
	resolve_oids();
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("a table of extension \"workq\" has been dropped meanwhile"),
			 errhint("Try again.")));
	return NULL;				/* keep the compiler quiet */
}

Relation
store_open_rel(WorkqRelation which, LOCKMODE lockmode)
{
	return store_open_oid(workq_store_oid(which), lockmode);
}

/*
 * Is the creation of our tables still uncommitted?
 */
static bool
created_by_us(void)
{
	Relation	queues = store_open_oid(oids[WORKQ_REL_QUEUES],
										AccessShareLock);
	bool		result = (queues->rd_createSubid != InvalidSubTransactionId);

	table_close(queues, AccessShareLock);
	return result;
}

/*
 * Resolve all OIDs, or raise why not.
 */
static void
resolve_oids(void)
{
	char	   *version = extension_version();
	Oid			nsp;
	int			i;

	if (version == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("extension \"workq\" does not exist in this database"),
				 errhint("Type: CREATE EXTENSION workq;")));
	else if (strcmp(version, WORKQ_VERSION) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("workq's library has version %s but the extension in this database has version %s",
						WORKQ_VERSION, version),
				 errhint("Type: ALTER EXTENSION workq UPDATE; and if the library is the older one, restart the server.")));

	nsp = get_namespace_oid(WORKQ_SCHEMA, false);

	/* set first: a change that comes while we look resets it */
	oids_valid = true;
	for (i = 0; i < WORKQ_N_RELATIONS; i++)
	{
		oids[i] = get_relname_relid(names[i], nsp);
		if (!OidIsValid(oids[i]))
		{
			oids_valid = false;
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("relation \"%s.%s\" of extension \"workq\" is missing",
							WORKQ_SCHEMA, names[i]),
					 errhint("Restore it from a backup, or drop and create the extension.")));
		}
	}
	oids_new = created_by_us();
}

void
workq_store_require(const char *verb, bool writes)
{
	if (!workq_sched_preloaded())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("workq is not preloaded"),
				 errhint("Put shared_preload_libraries = 'workq' (after a comma, if the setting has a value) into postgresql.conf and restart the server.")));
	if (writes)
	{
		PreventCommandIfReadOnly(verb);
		PreventCommandDuringRecovery(verb);
		PreventCommandIfParallelMode(verb);
	}
	if (!oids_valid)
		resolve_oids();
}

Oid
workq_store_oid(WorkqRelation which)
{
	if (!oids_valid)
		resolve_oids();
	return oids[which];
}

bool
workq_store_is_new(void)
{
	if (!oids_valid)
		resolve_oids();

	/* the commit that makes it old sends us no invalidation */
	if (oids_new)
		oids_new = created_by_us();
	return oids_new;
}

/*
 * An index scan takes some 28 kB, more than memory contexts keep for reuse, so
 * every verb would have the C library give its memory back to the system and
 * fetch it again: a tenth of a verb's time.  glibc raises the limit above
 * which it does that when a block it had mapped is freed (mallopt(3),
 * M_MMAP_THRESHOLD); elsewhere this does nothing.
 */
static void
keep_memory(void)
{
	static bool done = false;

	if (!done)
		pfree(palloc(1024 * 1024));
	done = true;
}

/*
 * Begin a verb's access.  Everything it makes lives in the current memory
 * context.
 */
WorkqStore *
workq_store_open(void)
{
	WorkqStore *store = palloc0(sizeof(WorkqStore));

	keep_memory();
	workq_xact_note_use();
	store->context = CurrentMemoryContext;
	store->estate = CreateExecutorState();
	store->lockmode = RowExclusiveLock;

	/* the gate of the loader, see sched_load.c: always before the others */
	store_table(store, WORKQ_REL_READY);
	return store;
}

WorkqStore *
workq_store_open_reader(void)
{
	WorkqStore *store = palloc0(sizeof(WorkqStore));

	store->context = CurrentMemoryContext;
	store->estate = CreateExecutorState();
	store->lockmode = AccessShareLock;
	store->reader = true;
	return store;
}

void
store_table_open(WorkqStore *store, StoreTable *table, Oid relid,
				 int n_columns)
{
	table->rel = store_open_oid(relid, store->lockmode);
	store_extra_open(store, table, n_columns);
}

/*
 * The live table, opened on first use.
 */
StoreTable *
store_table(WorkqStore *store, WorkqRelation which)
{
	StoreTable *table = &store->live[which];

	if (table->rel == NULL)
		store_table_open(store, table, workq_store_oid(which),
						 live_columns[which]);
	return table;
}

/*
 * Open a table's indexes for inserts: all of them, also those that an
 * administrator added, with their expressions and predicates.
 */
void
store_open_indexes(WorkqStore *store, StoreTable *table, bool speculative)
{
	MemoryContext old;

	if (table->result != NULL)
		return;
	old = MemoryContextSwitchTo(store->context);
	table->result = makeNode(ResultRelInfo);
	InitResultRelInfo(table->result, table->rel, 0, NULL, 0);
	ExecOpenIndices(table->result, speculative);
	MemoryContextSwitchTo(old);
}

TupleTableSlot *
store_new_row(WorkqStore *store, StoreTable *table)
{
	TupleTableSlot *slot;
	int			natts = RelationGetDescr(table->rel)->natts;

	if (table->gathered == NULL)
		table->gathered = MemoryContextAllocZero(store->context,
												 STORE_GATHER * sizeof(TupleTableSlot *));
	if (table->n_gathered == table->n_slots)
	{
		MemoryContext old = MemoryContextSwitchTo(store->context);

		table->gathered[table->n_slots++] =
			MakeSingleTupleTableSlot(RelationGetDescr(table->rel),
									 &TTSOpsHeapTuple);
		MemoryContextSwitchTo(old);
	}
	slot = table->gathered[table->n_gathered];
	ExecClearTuple(slot);
	memset(slot->tts_values, 0, natts * sizeof(Datum));
	memset(slot->tts_isnull, true, natts * sizeof(bool));
	return slot;
}

/*
 * Make the values filled into a slot its tuple.
 */
void
store_form(WorkqStore *store, StoreTable *table, TupleTableSlot *slot)
{
	MemoryContext old;
	HeapTuple	tuple;

	store_extra_fill(store, table, slot);
	old = MemoryContextSwitchTo(store->context);
	tuple = heap_form_tuple(RelationGetDescr(table->rel), slot->tts_values,
							slot->tts_isnull);
	MemoryContextSwitchTo(old);
	ExecStoreHeapTuple(tuple, slot, true);
	slot->tts_tableOid = RelationGetRelid(table->rel);
	store_extra_check(store, table, slot);
}

/*
 * Take the row just filled in: form the tuple that the heap will take as it is.
 * The caller may free what it pointed to.
 */
void
store_append(WorkqStore *store, StoreTable *table)
{
	TupleTableSlot *slot = table->gathered[table->n_gathered++];

	store_form(store, table, slot);
	if (table->n_gathered == STORE_GATHER)
		store_table_flush(store, table);
}

void
store_table_flush(WorkqStore *store, StoreTable *table)
{
	CommandId	cid;
	int			i;

	if (table->n_gathered == 0)
		return;

	store_open_indexes(store, table, false);
	cid = GetCurrentCommandId(true);
	if (table->n_gathered == 1)
		table_tuple_insert(table->rel, table->gathered[0], cid, 0, NULL);
	else
		table_multi_insert(table->rel, table->gathered, table->n_gathered,
						   cid, 0, NULL);
	for (i = 0; i < table->n_gathered; i++)
	{
		ResetPerTupleExprContext(store->estate);
		workq_compat_insert_index_tuples(table->result, table->gathered[i],
										 store->estate, false, NULL, NIL);
		ExecClearTuple(table->gathered[i]);
	}
	ResetPerTupleExprContext(store->estate);
	table->n_gathered = 0;
}

void
store_table_close(StoreTable *table)
{
	int			i;

	if (table->rel == NULL)
		return;
	for (i = 0; i < table->n_slots; i++)
		ExecDropSingleTupleTableSlot(table->gathered[i]);
	if (table->result != NULL)
		ExecCloseIndices(table->result);
	table_close(table->rel, NoLock);
	memset(table, 0, sizeof(StoreTable));
}

void
store_finder_close(StoreFinder *finder)
{
	if (finder->index == NULL)
		return;
	index_endscan(finder->scan);
	index_close(finder->index, NoLock);
	ExecDropSingleTupleTableSlot(finder->slot);
	finder->index = NULL;
}

/*
 * Write what was gathered.  The log first: if a segment has gone meanwhile the
 * verb fails before it touched a live table.
 */
void
workq_store_flush(WorkqStore *store)
{
	int			i;

	if (store->reader)
		return;
	store_log_flush(store);
	for (i = 0; i < WORKQ_N_RELATIONS; i++)
	{
		if (store->live[i].n_gathered > 0)
			store_table_flush(store, &store->live[i]);
	}
	CommandCounterIncrement();
}

/*
 * End a verb's access: write what was gathered, make it visible to the
 * transaction's next command, keep the locks.
 */
void
workq_store_close(WorkqStore *store)
{
	int			i;

	workq_store_flush(store);
	store_log_close(store);
	for (i = 0; i < WORKQ_N_RELATIONS; i++)
		store_finder_close(&store->finder[i]);
	for (i = 0; i < WORKQ_N_RELATIONS; i++)
		store_table_close(&store->live[i]);
	FreeExecutorState(store->estate);
	pfree(store);
}
