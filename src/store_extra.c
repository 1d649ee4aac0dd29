/*-------------------------------------------------------------------------
 *
 * store_extra.c
 *	  What an administrator has added to the tables of jobs.
 *
 * Rows are inserted without the executor, which would fill in the defaults of
 * columns and check constraints.  Our own columns need neither: all are filled
 * in, with values that fit.  So this costs nothing until somebody adds a
 * column, a constraint or a generated column; then it is done as the executor
 * does it.  Row triggers are not fired.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/nodeModifyTable.h"
#include "rewrite/rewriteHandler.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "store_int.h"

struct StoreExtra
{
	int			first;			/* column that is not ours */
	ExprState **defaults;		/* of all columns; NULL: prepared on first use */
};

/*
 * Is there anything that is not ours?
 */
void
store_extra_open(WorkqStore *store, StoreTable *table, int n_columns)
{
	TupleDesc	desc = RelationGetDescr(table->rel);

	if (store->reader || n_columns == 0 ||
		(desc->natts == n_columns &&
		 (desc->constr == NULL || (desc->constr->num_check == 0 &&
								   !desc->constr->has_generated_stored))))
		return;
	table->extra = MemoryContextAllocZero(store->context, sizeof(StoreExtra));
	table->extra->first = n_columns;
}

static void
prepare_defaults(WorkqStore *store, StoreTable *table)
{
	TupleDesc	desc = RelationGetDescr(table->rel);
	MemoryContext old = MemoryContextSwitchTo(store->context);
	int			i;

	table->extra->defaults = palloc0(desc->natts * sizeof(ExprState *));
	for (i = table->extra->first; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		Node	   *expr = att->attisdropped || att->attgenerated ? NULL :
		build_column_default(table->rel, i + 1);

		if (expr != NULL)
			table->extra->defaults[i] = ExecPrepareExpr((Expr *) expr,
														store->estate);
	}
	MemoryContextSwitchTo(old);
}

/*
 * Fill in the defaults of columns that are not ours.
 */
void
store_extra_fill(WorkqStore *store, StoreTable *table, TupleTableSlot *slot)
{
	int			natts = RelationGetDescr(table->rel)->natts;
	int			i;

	if (table->extra == NULL)
		return;
	if (table->extra->defaults == NULL)
		prepare_defaults(store, table);
	for (i = table->extra->first; i < natts; i++)
	{
		ExprState  *expr = table->extra->defaults[i];

		if (expr != NULL)
			slot->tts_values[i] =
				ExecEvalExprSwitchContext(expr,
										  GetPerTupleExprContext(store->estate),
										  &slot->tts_isnull[i]);
	}
}

/*
 * Compute generated columns of a row that is formed, and check constraints.
 */
void
store_extra_check(WorkqStore *store, StoreTable *table, TupleTableSlot *slot)
{
	TupleConstr *constr = RelationGetDescr(table->rel)->constr;
	MemoryContext old;

	if (table->extra == NULL || constr == NULL)
		return;
	store_open_indexes(store, table, false);
	old = MemoryContextSwitchTo(store->context);
	if (constr->has_generated_stored)
		ExecComputeStoredGenerated(table->result, store->estate, slot,
								   CMD_INSERT);
	ExecConstraints(table->result, slot, store->estate);
	MemoryContextSwitchTo(old);
}
