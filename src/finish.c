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

#include "args.h"
#include "errors.h"
#include "report.h"

PG_FUNCTION_INFO_V1(workq_ack_claim);

extern Datum workq_claim(PG_FUNCTION_ARGS);

#define CLAIM_ARGS	16			/* what workq_claim has, at most */

/*
 * The rows are those of the next jobs, so who only wants to be told which
 * claims were lost is told in notices.
 */
static void
tell_lost(const WorkqReport *reports, const WorkqAnswer *answers, int n)
{
	int			i;

	for (i = 0; i < n; i++)
	{
		if (answers[i].status == WORKQ_ANSWER_LOST)
			ereport(NOTICE,
					(errcode(ERRCODE_WORKQ_CLAIM_LOST),
					 errmsg("claim %s is lost",
							workq_claim_id_text(reports[i].claim_id)),
					 errdetail_internal("%s", answers[i].detail)));
	}
}

Datum
workq_ack_claim(PG_FUNCTION_ARGS)
{
	LOCAL_FCINFO(claim, CLAIM_ARGS);
	WorkqReport *reports;
	WorkqAnswer *answers;
	WorkqCall	call;
	int			on_lost;
	int			n;
	int			i;

	workq_store_require("workq_ack_claim()", true);
	reports = workq_report_read_batch(fcinfo, WORKQ_REPORT_ACK, &n);
	on_lost = workq_arg_enum(fcinfo, 6, "on_lost", workq_on_lost_names, 0);
	workq_report_begin(&call, "workq_ack_claim()");
	answers = workq_report_all(&call, reports, n, on_lost);
	tell_lost(reports, answers, n);

	/* what lies between ours is workq_claim's; further ones are not given */
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
