/*-------------------------------------------------------------------------
 *
 * foreign.c
 *	  The trigger that notices foreign hands.
 *
 * Direct access fires no triggers, so whoever fires this one is not workq: a
 * restore, logical apply, a superuser's statement.  When its transaction ends
 * the shared memory is marked for a reload.
 *
 * It fires before the first row is touched: a statement that fails half-way
 * has had rows in hand that claimers took for being deleted.  Logical apply
 * fires no statement triggers, so it has one for each row, which fires for
 * nobody else.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/trigger.h"
#include "fmgr.h"

#include "queue.h"
#include "sched.h"
#include "xact.h"

PG_FUNCTION_INFO_V1(workq_foreign_write);

Datum
workq_foreign_write(PG_FUNCTION_ARGS)
{
	TriggerData *data;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("foreign_write can only be called as a trigger")));

	/* not preloaded: there is no memory to mislead */
	if (workq_sched_preloaded())
	{
		workq_xact_foreign();
		workq_queue_changed();
	}

	/* for each row: the row, which a BEFORE trigger lets through */
	data = (TriggerData *) fcinfo->context;
	if (!TRIGGER_FIRED_FOR_ROW(data->tg_event))
		return PointerGetDatum(NULL);
	return PointerGetDatum(TRIGGER_FIRED_BY_UPDATE(data->tg_event) ?
						   data->tg_newtuple : data->tg_trigtuple);
}
