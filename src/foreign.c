/*-------------------------------------------------------------------------
 *
 * foreign.c
 *	  The trigger that notices foreign hands.
 *
 * Direct access fires no triggers, so whoever fires this one is not workq: a
 * restore, logical apply, a superuser's statement.  When its transaction ends
 * the shared memory is marked for a reload.
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
	return PointerGetDatum(NULL);
}
