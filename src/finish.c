/*-------------------------------------------------------------------------
 *
 * finish.c
 *	  workq_ack_claim: finish and go on, in one call and one transaction.
 *
 * The commit is what a single job costs most; this halves their number.  The
 * claims are acknowledged first, so that the cap slots they free can be used.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "funcapi.h"

#include "report.h"

PG_FUNCTION_INFO_V1(workq_ack_claim);

extern Datum workq_claim(PG_FUNCTION_ARGS);

#define CLAIM_ARGS	16			/* what workq_claim has, at most */

Datum
workq_ack_claim(PG_FUNCTION_ARGS)
{
	LOCAL_FCINFO(claim, CLAIM_ARGS);
	WorkqReport *reports;
	WorkqCall	call;
	int			n;
	int			i;

	workq_store_require("workq_ack_claim()", true);
	reports = workq_report_read_batch(fcinfo, WORKQ_REPORT_ACK, &n);
	workq_report_begin(&call, "workq_ack_claim()");
	(void) workq_report_all(&call, reports, n, 0);

	/* the arguments behind ours are workq_claim's; further ones not given */
	InitFunctionCallInfoData(*claim, fcinfo->flinfo, CLAIM_ARGS,
							 fcinfo->fncollation, fcinfo->context,
							 fcinfo->resultinfo);
	for (i = 0; i < CLAIM_ARGS; i++)
	{
		claim->args[i].value = (Datum) 0;
		claim->args[i].isnull = true;
		if (i < 4)
			claim->args[i] = fcinfo->args[2 + i];
	}
	return workq_claim(claim);
}
