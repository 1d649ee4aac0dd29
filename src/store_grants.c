/*-------------------------------------------------------------------------
 *
 * store_grants.c
 *	  Rows that hang on a queue: its keys, grants and policies.
 *
 * All of them are written under the lock of the queue's row.
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
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "store_catalog_int.h"

/* Column numbers, from 0 as in a slot; test/pgtap/schema.sql compares them. */
enum KeyColumn
{
	KEY_QUEUE_ID,
	KEY_KEY,
	KEY_WEIGHT,
	KEY_MAX_CONCURRENT,
	KEY_N
};

enum PolicyColumn
{
	POLICY_QUEUE_ID,
	POLICY_VERSION,
	POLICY_AT,
	POLICY_EVENT,
	POLICY_BY_ROLE,
	POLICY_QUEUE,
	POLICY_SETTINGS,
	POLICY_N
};

const char *const workq_catalog_rights[] = {
	"enqueue", "claim", "monitor", "manage", NULL
};

/* ------------------------------------------------------------------------
 * Keys and grants
 * ------------------------------------------------------------------------ */

static bool
find_key(WorkqStore *store, int32 queue_id, const char *key, bool wait,
		 TupleTableSlot *slot)
{
	ScanKeyData keys[2];

	key_int4(&keys[0], 1, queue_id);
	key_text(&keys[1], 2, BTEqualStrategyNumber, key);
	return store_find_row(store_table(store, WORKQ_REL_KEYS)->rel,
						  workq_store_oid(WORKQ_REL_KEYS_PKEY), keys, 2, wait,
						  slot);
}

WorkqKeyRow
workq_catalog_get_key(WorkqStore *store, int32 queue_id, const char *key)
{
	TupleTableSlot *slot;
	WorkqKeyRow row = {-1, -1};

	slot = table_slot_create(store_table(store, WORKQ_REL_KEYS)->rel, NULL);
	if (find_key(store, queue_id, key, false, slot))
	{
		if (!slot->tts_isnull[KEY_WEIGHT])
			row.weight = DatumGetInt32(slot->tts_values[KEY_WEIGHT]);
		if (!slot->tts_isnull[KEY_MAX_CONCURRENT])
			row.max_concurrent =
				DatumGetInt32(slot->tts_values[KEY_MAX_CONCURRENT]);
	}
	ExecDropSingleTupleTableSlot(slot);
	return row;
}

/*
 * Old row out, new row in.  A reader meanwhile finds the old one, as with an
 * update; see store_find_row().
 */
void
workq_catalog_set_key(WorkqStore *store, int32 queue_id, const char *key,
					  WorkqKeyRow row)
{
	StoreTable *table = store_table(store, WORKQ_REL_KEYS);
	TupleTableSlot *slot = table_slot_create(table->rel, NULL);

	if (find_key(store, queue_id, key, true, slot))
		store_delete_row(table->rel, &slot->tts_tid);
	ExecDropSingleTupleTableSlot(slot);
	CommandCounterIncrement();

	if (row.weight < 0 && row.max_concurrent < 0)
		return;
	slot = store_new_row(store, table);
	store_set(slot, KEY_QUEUE_ID, Int32GetDatum(queue_id));
	store_set_text(slot, KEY_KEY, key);
	if (row.weight >= 0)
		store_set(slot, KEY_WEIGHT, Int32GetDatum(row.weight));
	if (row.max_concurrent >= 0)
		store_set(slot, KEY_MAX_CONCURRENT, Int32GetDatum(row.max_concurrent));
	store_append(store, table);
	workq_store_flush(store);
}

/*
 * The index's third column has the database's default collation, which we do
 * not want to know here: there are four privileges, so just look at them.
 */
static bool
find_grant(WorkqStore *store, int32 queue_id, Oid grantee,
		   const char *privilege, ItemPointer tid)
{
	Relation	rel = store_table(store, WORKQ_REL_GRANTS)->rel;
	Relation	index = index_open(workq_store_oid(WORKQ_REL_GRANTS_PKEY),
								   AccessShareLock);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	ScanKeyData keys[2];
	IndexScanDesc scan;
	bool		found = false;

	key_int4(&keys[0], 1, queue_id);
	key_oid(&keys[1], 2, grantee);
	scan = workq_compat_index_beginscan(rel, index, SnapshotSelf, 2);
	index_rescan(scan, keys, 2, NULL, 0);
	while (!found && index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		char	   *value;

		slot_getallattrs(slot);
		value = TextDatumGetCString(slot->tts_values[GRANT_PRIVILEGE]);
		found = strcmp(value, privilege) == 0;
		pfree(value);
		*tid = slot->tts_tid;
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, NoLock);
	return found;
}

static const char *
right_name(uint32 right)
{
	int			i;

	for (i = 0; workq_catalog_rights[i] != NULL; i++)
	{
		if (right == (uint32) 1 << i)
			return workq_catalog_rights[i];
	}
	elog(ERROR, "unexpected right: %u", right);
	return NULL;				/* keep the compiler quiet */
}

bool
workq_catalog_grant(WorkqStore *store, int32 queue_id, Oid grantee,
					uint32 right, Oid grantor, TimestampTz at)
{
	StoreTable *table = store_table(store, WORKQ_REL_GRANTS);
	TupleTableSlot *slot;
	ItemPointerData tid;

	if (find_grant(store, queue_id, grantee, right_name(right), &tid))
		return false;
	slot = store_new_row(store, table);
	store_set(slot, GRANT_QUEUE_ID, Int32GetDatum(queue_id));
	store_set(slot, GRANT_GRANTEE, ObjectIdGetDatum(grantee));
	store_set_text(slot, GRANT_PRIVILEGE, right_name(right));
	store_set(slot, GRANT_GRANTOR, ObjectIdGetDatum(grantor));
	store_set(slot, GRANT_GRANTED_AT, TimestampTzGetDatum(at));
	store_append(store, table);
	workq_store_flush(store);
	return true;
}

bool
workq_catalog_revoke(WorkqStore *store, int32 queue_id, Oid grantee,
					 uint32 right)
{
	ItemPointerData tid;

	if (!find_grant(store, queue_id, grantee, right_name(right), &tid))
		return false;
	store_delete_row(store_table(store, WORKQ_REL_GRANTS)->rel, &tid);
	CommandCounterIncrement();
	return true;
}

void
workq_catalog_policy(WorkqStore *store, const WorkqQueueInfo *queue,
					 const char *event, TimestampTz at, const char *settings)
{
	StoreTable *table = store_table(store, WORKQ_REL_POLICIES);
	TupleTableSlot *slot = store_new_row(store, table);

	store_set(slot, POLICY_QUEUE_ID, Int32GetDatum(queue->queue_id));
	store_set(slot, POLICY_VERSION, Int32GetDatum(queue->settings.version));
	store_set(slot, POLICY_AT, TimestampTzGetDatum(at));
	store_set_text(slot, POLICY_EVENT, event);
	store_set_text(slot, POLICY_BY_ROLE, GetUserNameFromId(GetUserId(), false));
	store_set_text(slot, POLICY_QUEUE, queue->name);
	store_set(slot, POLICY_SETTINGS,
			  DirectFunctionCall1(jsonb_in, CStringGetDatum(settings)));
	store_append(store, table);
	workq_store_flush(store);
}
