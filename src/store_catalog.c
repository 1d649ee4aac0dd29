/*-------------------------------------------------------------------------
 *
 * store_catalog.c
 *	  Rows of workq.queues, and finding rows of the catalog.
 *
 * Reads use a dirty snapshot: it shows committed rows and our own, says which
 * rows others have in hand, and takes no predicate locks.  Unlike an MVCC
 * snapshot it may meet both versions of a row that is just being updated, or,
 * when the updater commits between the two looks, neither; store_find_row()
 * deals with that.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_extension.h"
#include "commands/sequence.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/acl.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "guc.h"
#include "store_catalog_int.h"

/* Column numbers, from 0 as in a slot; test/pgtap/schema.sql compares them. */
enum QueueColumn
{
	QUEUE_QUEUE_ID,
	QUEUE_NAME,
	QUEUE_OWNER,
	QUEUE_CREATED_AT,
	QUEUE_PAUSED,
	QUEUE_ENQUEUE_PAUSED,
	QUEUE_POLICY_VERSION,
	QUEUE_SETTINGS,				/* WORKQ_N_SETTINGS of them, in their order */
	QUEUE_WEIGHTS = QUEUE_SETTINGS + WORKQ_N_SETTINGS,
	QUEUE_LIMITED_KEYS,
	QUEUE_N
};

/* ------------------------------------------------------------------------
 * Finding rows
 * ------------------------------------------------------------------------ */

/*
 * Wait until the transaction that has a row in hand has ended, or has taken
 * back its speculative insertion.
 */
static void
wait_for_row(Relation rel, TransactionId xid, uint32 token, ItemPointer tid,
			 bool deleting)
{
	if (token != 0)
		SpeculativeInsertionWait(xid, token);
	else
		XactLockTableWait(xid, rel, tid,
						  deleting ? XLTW_Delete : XLTW_InsertIndexUnique);
}

/*
 * Without waiting there is a race: we pass the new version of a row, which its
 * transaction has not committed, then come to the old one, which meanwhile is
 * dead because it has.  So if we found nothing but passed an insertion of a
 * transaction that has ended by now, we look again.
 */
bool
store_find_row(Relation rel, Oid index_oid, ScanKey keys, int nkeys, bool wait,
			   TupleTableSlot *slot)
{
	Relation	index = index_open(index_oid, AccessShareLock);
	bool		found;
	bool		again;

	do
	{
		SnapshotData dirty;
		IndexScanDesc scan;
		TransactionId passed = InvalidTransactionId;
		TransactionId wait_xid = InvalidTransactionId;
		uint32		wait_token = 0;
		bool		wait_deleting = false;

		CHECK_FOR_INTERRUPTS();
		found = again = false;
		InitDirtySnapshot(dirty);
		scan = workq_compat_index_beginscan(rel, index, &dirty, nkeys);
		index_rescan(scan, keys, nkeys, NULL, 0);
		while (!found && !TransactionIdIsValid(wait_xid) &&
			   index_getnext_slot(scan, ForwardScanDirection, slot))
		{
			if (TransactionIdIsValid(dirty.xmin))
			{
				passed = dirty.xmin;
				if (wait)
				{
					wait_xid = dirty.xmin;
					wait_token = dirty.speculativeToken;
				}
			}
			else if (wait && TransactionIdIsValid(dirty.xmax))
			{
				wait_xid = dirty.xmax;
				wait_deleting = true;
			}
			else
				found = true;
		}
		index_endscan(scan);

		if (TransactionIdIsValid(wait_xid))
		{
			ItemPointerData tid = slot->tts_tid;

			ExecClearTuple(slot);	/* hold no pin while waiting */
			wait_for_row(rel, wait_xid, wait_token, &tid, wait_deleting);
			again = true;
		}
		else if (!found && TransactionIdIsValid(passed))
			again = !TransactionIdIsInProgress(passed);
	} while (again);

	index_close(index, NoLock);
	if (found)
		slot_getallattrs(slot);
	else
		ExecClearTuple(slot);
	return found;
}

static int
queue_keys(ScanKey keys, const char *name, int32 queue_id, WorkqRelation *index)
{
	if (name != NULL)
	{
		*index = WORKQ_REL_QUEUES_NAME;
		key_text(&keys[0], 1, BTEqualStrategyNumber, name);
	}
	else
	{
		*index = WORKQ_REL_QUEUES_PKEY;
		key_int4(&keys[0], 1, queue_id);
	}
	return 1;
}

/* ------------------------------------------------------------------------
 * Queues
 * ------------------------------------------------------------------------ */

/*
 * A setting's column as its number.  What a foreign hand wrote wrongly is an
 * error rather than a policy that nobody asked for.
 */
static int64
deform_setting(const WorkqSettingDef *def, Datum value)
{
	switch (def->kind)
	{
		case WORKQ_KIND_ENUM:
			return workq_guc_enum_parse(def, TextDatumGetCString(value));
		case WORKQ_KIND_INTEGER:
			return workq_guc_check_range(def, DatumGetInt32(value));
		case WORKQ_KIND_TIME:
			return workq_guc_check_range(def, DatumGetInt64(value));
	}
	return 0;					/* keep the compiler quiet */
}

static WorkqQueueInfo *
deform_queue(TupleTableSlot *slot)
{
	WorkqQueueInfo *queue = palloc0(sizeof(WorkqQueueInfo));
	WorkqSettings *settings = &queue->settings;
	Datum	   *values = slot->tts_values;
	char	   *name = TextDatumGetCString(values[QUEUE_NAME]);
	int			i;

	queue->queue_id = DatumGetInt32(values[QUEUE_QUEUE_ID]);
	strlcpy(queue->name, name, sizeof(queue->name));
	pfree(name);
	queue->owner = DatumGetObjectId(values[QUEUE_OWNER]);
	queue->created_at = DatumGetTimestampTz(values[QUEUE_CREATED_AT]);
	settings->paused = DatumGetBool(values[QUEUE_PAUSED]);
	settings->enqueue_paused = DatumGetBool(values[QUEUE_ENQUEUE_PAUSED]);
	settings->version = DatumGetInt32(values[QUEUE_POLICY_VERSION]);
	settings->limited_keys = DatumGetInt32(values[QUEUE_LIMITED_KEYS]);
	for (i = 0; i < WORKQ_N_SETTINGS; i++)
	{
		if (slot->tts_isnull[QUEUE_SETTINGS + i])
			continue;
		settings->value[i] = deform_setting(&workq_settings[i],
											values[QUEUE_SETTINGS + i]);
		settings->own |= (uint32) 1 << i;
	}
	queue->weights = store_get_text(slot, QUEUE_WEIGHTS);
	queue->settings.weights = queue->weights == NULL ? 0 :
		workq_guc_weights_fingerprint(queue->weights);
	return queue;
}

/*
 * Fill a row of workq.queues.
 */
static TupleTableSlot *
form_queue(WorkqStore *store, StoreTable *table, const WorkqQueueInfo *queue)
{
	const WorkqSettings *settings = &queue->settings;
	TupleTableSlot *slot = store_new_row(store, table);
	int			i;

	store_set(slot, QUEUE_QUEUE_ID, Int32GetDatum(queue->queue_id));
	store_set_text(slot, QUEUE_NAME, queue->name);
	store_set(slot, QUEUE_OWNER, ObjectIdGetDatum(queue->owner));
	store_set(slot, QUEUE_CREATED_AT,
			  TimestampTzGetDatum(queue->created_at));
	store_set(slot, QUEUE_PAUSED, BoolGetDatum(settings->paused));
	store_set(slot, QUEUE_ENQUEUE_PAUSED,
			  BoolGetDatum(settings->enqueue_paused));
	store_set(slot, QUEUE_POLICY_VERSION, Int32GetDatum(settings->version));
	for (i = 0; i < WORKQ_N_SETTINGS; i++)
	{
		const WorkqSettingDef *def = &workq_settings[i];
		int64		value = settings->value[i];

		if ((settings->own & ((uint32) 1 << i)) == 0)
			continue;
		switch (def->kind)
		{
			case WORKQ_KIND_ENUM:
				store_set_text(slot, QUEUE_SETTINGS + i, def->names[value]);
				break;
			case WORKQ_KIND_INTEGER:
				store_set(slot, QUEUE_SETTINGS + i,
						  Int32GetDatum((int32) value));
				break;
			case WORKQ_KIND_TIME:
				store_set(slot, QUEUE_SETTINGS + i, Int64GetDatum(value));
				break;
		}
	}
	store_set_text(slot, QUEUE_WEIGHTS, queue->weights);
	store_set(slot, QUEUE_LIMITED_KEYS, Int32GetDatum(settings->limited_keys));
	slot->tts_tableOid = RelationGetRelid(table->rel);
	ExecStoreVirtualTuple(slot);
	return slot;
}

/* Which bit a privilege's name stands for; 0 for a name we do not know. */
static uint32
right_by_name(const char *name)
{
	int			i;

	for (i = 0; workq_catalog_rights[i] != NULL; i++)
	{
		if (strcmp(workq_catalog_rights[i], name) == 0)
			return (uint32) 1 << i;
	}
	return 0;
}

/*
 * Read the grants of a queue, merged by grantee.  Rows of grants are inserted
 * and deleted, never updated, so a dirty scan meets each exactly once.
 */
static void
read_grants(WorkqQueueInfo *queue)
{
	Relation	rel = store_open_rel(WORKQ_REL_GRANTS, AccessShareLock);
	Relation	index = index_open(workq_store_oid(WORKQ_REL_GRANTS_PKEY),
								   AccessShareLock);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	SnapshotData dirty;
	ScanKeyData key;
	IndexScanDesc scan;
	int			n_max = 8;

	queue->grants = palloc(n_max * sizeof(WorkqGrant));
	InitDirtySnapshot(dirty);
	key_int4(&key, 1, queue->queue_id);
	scan = workq_compat_index_beginscan(rel, index, &dirty, 1);
	index_rescan(scan, &key, 1, NULL, 0);
	while (index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		WorkqGrant *last = NULL;
		Oid			grantee;
		char	   *privilege;

		if (TransactionIdIsValid(dirty.xmin))
			continue;
		if (queue->n_grants > 0)
			last = &queue->grants[queue->n_grants - 1];
		slot_getallattrs(slot);
		grantee = DatumGetObjectId(slot->tts_values[GRANT_GRANTEE]);
		privilege = TextDatumGetCString(slot->tts_values[GRANT_PRIVILEGE]);
		if (last == NULL || last->grantee != grantee)
		{
			if (queue->n_grants == n_max)
			{
				n_max *= 2;
				queue->grants = repalloc(queue->grants,
										 n_max * sizeof(WorkqGrant));
			}
			last = &queue->grants[queue->n_grants++];
			last->grantee = grantee;
			last->rights = 0;
		}
		last->rights |= right_by_name(privilege);
		pfree(privilege);
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, NoLock);
	table_close(rel, NoLock);
}

WorkqQueueInfo *
workq_catalog_read(const char *name, int32 queue_id)
{
	Relation	rel = store_open_rel(WORKQ_REL_QUEUES, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	WorkqQueueInfo *queue = NULL;
	WorkqRelation index;
	ScanKeyData key;
	int			nkeys = queue_keys(&key, name, queue_id, &index);

	if (store_find_row(rel, workq_store_oid(index), &key, nkeys, false, slot))
		queue = deform_queue(slot);
	ExecDropSingleTupleTableSlot(slot);
	table_close(rel, NoLock);
	if (queue != NULL)
	{
		read_grants(queue);
		workq_catalog_read_rules(queue);
	}
	return queue;
}

WorkqQueueInfo *
workq_catalog_lock(WorkqStore *store, const char *name, bool drop,
				   ItemPointer tid)
{
	Relation	rel = store_table(store, WORKQ_REL_QUEUES)->rel;
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	WorkqQueueInfo *queue = NULL;
	WorkqRelation index;
	ScanKeyData key;
	int			nkeys = queue_keys(&key, name, 0, &index);

	while (store_find_row(rel, workq_store_oid(index), &key, nkeys, true, slot))
	{
		TM_FailureData failure;
		TM_Result	result;

		*tid = slot->tts_tid;
		result = table_tuple_lock(rel, tid, SnapshotSelf, slot,
								  GetCurrentCommandId(true),
								  drop ? LockTupleExclusive : LockTupleNoKeyExclusive,
								  LockWaitBlock, 0, &failure);
		if (result == TM_Ok)
		{
			slot_getallattrs(slot);
			queue = deform_queue(slot);
			break;
		}
		/* changed or gone since we looked: look again */
		if (result != TM_Updated && result != TM_Deleted)
			elog(ERROR, "unexpected table_tuple_lock status: %u", result);
	}
	ExecDropSingleTupleTableSlot(slot);
	if (queue != NULL)
	{
		read_grants(queue);
		workq_catalog_read_rules(queue);
	}
	return queue;
}

/*
 * Inserted speculatively, as INSERT ... ON CONFLICT does: of two creators of
 * one name, the second waits for the first's transaction in the uniqueness
 * check, and no error is raised and caught.
 */
bool
workq_catalog_insert(WorkqStore *store, WorkqQueueInfo *queue)
{
	StoreTable *table = store_table(store, WORKQ_REL_QUEUES);
	List	   *arbiters = list_make1_oid(workq_store_oid(WORKQ_REL_QUEUES_NAME));
	Oid			sequence = get_relname_relid("queue_ids",
											 get_namespace_oid(WORKQ_SCHEMA, false));
	TupleTableSlot *slot;
	bool		lost;

	queue->queue_id = (int32) nextval_internal(sequence, false);
	store_open_indexes(store, table, true);
	slot = form_queue(store, table, queue);
	do
	{
		ItemPointerData conflict;
		uint32		token;

		CHECK_FOR_INTERRUPTS();
		ResetPerTupleExprContext(store->estate);
		ItemPointerSetInvalid(&slot->tts_tid);

		/* waits for whoever has the name in hand */
		if (!workq_compat_check_index_constraints(table->result, slot,
												  store->estate, &conflict,
												  arbiters))
			return false;

		token = SpeculativeInsertionLockAcquire(GetCurrentTransactionId());
		table_tuple_insert_speculative(table->rel, slot,
									   GetCurrentCommandId(true), 0, NULL,
									   token);
		lost = false;
		workq_compat_insert_index_tuples(table->result, slot, store->estate,
										 true, &lost, arbiters);
		table_tuple_complete_speculative(table->rel, slot, token, !lost);
		SpeculativeInsertionLockRelease(GetCurrentTransactionId());
	} while (lost);

	ResetPerTupleExprContext(store->estate);
	CommandCounterIncrement();
	return true;
}

void
workq_catalog_update(WorkqStore *store, const WorkqQueueInfo *queue,
					 ItemPointer tid)
{
	StoreTable *table = store_table(store, WORKQ_REL_QUEUES);
	TupleTableSlot *slot = form_queue(store, table, queue);
	WORKQ_COMPAT_UPDATE_INDEXES update_indexes;
	TM_FailureData failure;
	LockTupleMode mode;
	TM_Result	result;

	result = table_tuple_update(table->rel, tid, slot,
								GetCurrentCommandId(true), InvalidSnapshot,
								InvalidSnapshot, true, &failure, &mode,
								&update_indexes);
	if (result != TM_Ok)		/* we hold its lock */
		elog(ERROR, "unexpected table_tuple_update status: %u", result);
	if (workq_compat_must_update_indexes(update_indexes))
	{
		store_open_indexes(store, table, true);
		workq_compat_insert_index_tuples(table->result, slot, store->estate,
										 false, NULL, NIL);
		ResetPerTupleExprContext(store->estate);
	}
	CommandCounterIncrement();
}

void
store_delete_row(Relation rel, ItemPointer tid)
{
	TM_FailureData failure;
	TM_Result	result;

	result = table_tuple_delete(rel, tid, GetCurrentCommandId(true),
								InvalidSnapshot, InvalidSnapshot, true,
								&failure, false);
	if (result != TM_Ok)
		elog(ERROR, "unexpected table_tuple_delete status: %u", result);
}

void
workq_catalog_delete(WorkqStore *store, ItemPointer tid)
{
	store_delete_row(store_table(store, WORKQ_REL_QUEUES)->rel, tid);
	CommandCounterIncrement();
}

int
workq_catalog_count(WorkqStore *store)
{
	Relation	rel = store_table(store, WORKQ_REL_QUEUES)->rel;
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	SnapshotData dirty;
	TableScanDesc scan;
	int			n = 0;

	/*
	 * A row that another transaction is inserting counts, one that it is
	 * updating counts once (by its new version), one that it is deleting does
	 * not.  So of two that create queues at a time, each counts the other's.
	 */
	InitDirtySnapshot(dirty);
	scan = table_beginscan(rel, &dirty, 0, NULL);
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		if (!TransactionIdIsValid(dirty.xmax))
			n++;
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	return n;
}

void
workq_catalog_each(WorkqQueueVisitor visit, void *arg)
{
	Relation	rel = store_open_rel(WORKQ_REL_QUEUES, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	List	   *queues = NIL;
	ListCell   *cell;
	TableScanDesc scan;

	/* all rows first: a visitor may look into other tables, or raise */
	scan = table_beginscan(rel, GetActiveSnapshot(), 0, NULL);
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		slot_getallattrs(slot);
		queues = lappend(queues, deform_queue(slot));
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	table_close(rel, NoLock);

	foreach(cell, queues)
	{
		WorkqQueueInfo *queue = (WorkqQueueInfo *) lfirst(cell);

		read_grants(queue);
		visit(queue, arg);
	}
}

Oid
workq_catalog_schema(void)
{
	Relation	rel = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			schema = InvalidOid;

	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber,
				F_NAMEEQ, CStringGetDatum("workq"));
	scan = systable_beginscan(rel, ExtensionNameIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		schema = ((Form_pg_extension) GETSTRUCT(tuple))->extnamespace;
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return schema;
}
