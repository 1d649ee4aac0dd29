/*-------------------------------------------------------------------------
 *
 * store_rules.c
 *	  Rows of workq.error_map: the rules by which faults are judged.
 *
 * A map is small and read whole, into the cache of queues, and it is written
 * whole, under the lock of the queue's row.  It is read with the latest MVCC
 * snapshot: a map that is just being replaced is seen as it was or as it will
 * be, never a part of each.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "utils/datum.h"

#include "args.h"
#include "compat.h"
#include "store_catalog_int.h"

/* Column numbers, from 0 as in a slot; test/pgtap/schema.sql compares them. */
enum RuleColumn
{
	RULE_QUEUE_ID,
	RULE_ORD,
	RULE_PATTERN,
	RULE_ACTION,
	RULE_CODE,
	RULE_VALUE,
	RULE_RETRY,
	RULE_N
};

const char *const workq_rule_actions[] = {
	"error", "status", "retry", "dead", NULL
};

/*
 * A jsonb column, detoasted and copied.
 */
static Jsonb *
get_jsonb(TupleTableSlot *slot, int column)
{
	if (slot->tts_isnull[column])
		return NULL;
	return (Jsonb *) PG_DETOAST_DATUM_COPY(slot->tts_values[column]);
}

void
workq_catalog_read_rules(WorkqQueueInfo *queue)
{
	Relation	rel = store_open_rel(WORKQ_REL_ERROR_MAP, AccessShareLock);
	Relation	index = index_open(workq_store_oid(WORKQ_REL_ERROR_MAP_PKEY),
								   AccessShareLock);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	ScanKeyData key;
	IndexScanDesc scan;
	int			n_max = 0;

	queue->n_rules = 0;
	queue->rules = NULL;
	key_int4(&key, 1, queue->queue_id);
	scan = workq_compat_index_beginscan(rel, index, snapshot, 1);
	index_rescan(scan, &key, 1, NULL, 0);
	while (index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		WorkqRule  *rule;
		char	   *action;

		if (queue->n_rules == n_max)
		{
			n_max = Max(2 * n_max, 8);
			queue->rules = queue->rules == NULL ?
				palloc(n_max * sizeof(WorkqRule)) :
				repalloc(queue->rules, n_max * sizeof(WorkqRule));
		}
		rule = &queue->rules[queue->n_rules++];
		slot_getallattrs(slot);
		rule->pattern = store_get_text(slot, RULE_PATTERN);
		action = store_get_text(slot, RULE_ACTION);
		rule->action = (WorkqRuleAction) workq_check_enum(action, "action",
														  workq_rule_actions);
		rule->code = store_get_text(slot, RULE_CODE);
		rule->value = get_jsonb(slot, RULE_VALUE);
		rule->retry = get_jsonb(slot, RULE_RETRY);
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	UnregisterSnapshot(snapshot);
	index_close(index, NoLock);
	table_close(rel, NoLock);
}

void
workq_catalog_write_rules(WorkqStore *store, const WorkqQueueInfo *queue)
{
	StoreTable *table = store_table(store, WORKQ_REL_ERROR_MAP);
	int			i;

	(void) workq_catalog_delete_rows(store, WORKQ_REL_ERROR_MAP,
									 WORKQ_REL_ERROR_MAP_PKEY,
									 queue->queue_id);
	CommandCounterIncrement();
	for (i = 0; i < queue->n_rules; i++)
	{
		const WorkqRule *rule = &queue->rules[i];
		TupleTableSlot *slot = store_new_row(store, table);

		store_set(slot, RULE_QUEUE_ID, Int32GetDatum(queue->queue_id));
		store_set(slot, RULE_ORD, Int32GetDatum(i + 1));
		store_set_text(slot, RULE_PATTERN, rule->pattern);
		store_set_text(slot, RULE_ACTION, workq_rule_actions[rule->action]);
		store_set_text(slot, RULE_CODE, rule->code);
		if (rule->value != NULL)
			store_set(slot, RULE_VALUE, JsonbPGetDatum(rule->value));
		if (rule->retry != NULL)
			store_set(slot, RULE_RETRY, JsonbPGetDatum(rule->retry));
		store_append(store, table);
	}
	workq_store_flush(store);
}

static Jsonb *
copy_jsonb(const Jsonb *value)
{
	return value == NULL ? NULL :
		(Jsonb *) DatumGetPointer(datumCopy(PointerGetDatum(value), false, -1));
}

WorkqRule *
workq_catalog_copy_rules(const WorkqRule *rules, int n)
{
	WorkqRule  *copy = palloc(Max(n, 1) * sizeof(WorkqRule));
	int			i;

	for (i = 0; i < n; i++)
	{
		copy[i].pattern = pstrdup(rules[i].pattern);
		copy[i].action = rules[i].action;
		copy[i].code = rules[i].code != NULL ? pstrdup(rules[i].code) : NULL;
		copy[i].value = copy_jsonb(rules[i].value);
		copy[i].retry = copy_jsonb(rules[i].retry);
	}
	return copy;
}
