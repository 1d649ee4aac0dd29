/*-------------------------------------------------------------------------
 *
 * rowout.h
 *	  A row of a set-returning function, filled in column by column.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_ROWOUT_H
#define WORKQ_ROWOUT_H

#include "nodes/execnodes.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#define WORKQ_ROW_COLUMNS	32	/* at most */

typedef struct WorkqRowOut
{
	Datum		values[WORKQ_ROW_COLUMNS];
	bool		nulls[WORKQ_ROW_COLUMNS];
	int			n;
} WorkqRowOut;

/* The next column; NULL unless "present". */
static inline void
workq_put(WorkqRowOut *out, Datum value, bool present)
{
	out->values[out->n] = value;
	out->nulls[out->n] = !present;
	out->n++;
}

/* The same for types by reference; what is absent is a null pointer. */
static inline void
workq_put_text(WorkqRowOut *out, const char *value)
{
	workq_put(out, value != NULL ? CStringGetTextDatum(value) : (Datum) 0,
			  value != NULL);
}

static inline void
workq_put_jsonb(WorkqRowOut *out, const Jsonb *value, bool allowed)
{
	workq_put(out, PointerGetDatum(value), value != NULL && allowed);
}

/* End the row; "out" is ready for the next one. */
static inline void
workq_put_row(WorkqRowOut *out, ReturnSetInfo *rsinfo)
{
	Assert(out->n == rsinfo->setDesc->natts);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, out->values,
						 out->nulls);
	out->n = 0;
}

#endif							/* WORKQ_ROWOUT_H */
