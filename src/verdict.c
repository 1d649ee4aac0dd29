/*-------------------------------------------------------------------------
 *
 * verdict.c
 *	  What a technical fault means for the job: the error map, then the retry
 *	  policy.
 *
 * It is judged here, under the lease, so that workers need not be trusted to
 * classify; unless the queue's trust says that they are: then they see the map
 * and the policy, and what they report stands.  max_attempts always holds.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "utils/builtins.h"
#include "utils/datum.h"

#include "retry.h"
#include "verdict.h"

/*
 * The first rule whose pattern matches the fault's code, or NULL.
 */
static const WorkqRule *
find_rule(const WorkqQueueInfo *queue, const char *code)
{
	Datum		subject = CStringGetTextDatum(code != NULL ? code : "");
	int			i;

	for (i = 0; i < queue->n_rules; i++)
	{
		Datum		pattern = CStringGetTextDatum(queue->rules[i].pattern);

		if (DatumGetBool(DirectFunctionCall2Coll(textlike, C_COLLATION_OID,
												 subject, pattern)))
			return &queue->rules[i];
	}
	return NULL;
}

static Jsonb *
copy_jsonb(Jsonb *value)
{
	return value == NULL ? NULL :
		(Jsonb *) DatumGetPointer(datumCopy(JsonbPGetDatum(value), false, -1));
}

/*
 * Again or dead.  retry_in: what the worker asked for, -1 for nothing.
 */
static void
judge_retry(const WorkqRetry *retry, const WorkqJob *job, int64 retry_in,
			bool trusted, WorkqVerdict *verdict)
{
	int			failures = job->failures + 1;
	int			limit = job->max_attempts;

	if (retry->max_attempts != 0)
		limit = Min(limit, retry->max_attempts);
	verdict->kind = WORKQ_VERDICT_DEAD;
	if (failures >= limit)
		verdict->decision = "exhausted";
	else if (retry->kind == WORKQ_RETRY_NONE && !(trusted && retry_in >= 0))
		verdict->decision = "no-retry";
	else
	{
		verdict->kind = WORKQ_VERDICT_RETRY;
		verdict->decision = "retry";
		verdict->delay = retry_in >= 0 ? retry_in :
			workq_retry_delay(retry, failures);
	}
}

void
workq_verdict_of_fault(WorkqStore *store, const WorkqQueueInfo *queue,
					   const WorkqJob *job, const WorkqReport *report,
					   WorkqVerdict *verdict)
{
	bool		trusted = workq_queue_setting(queue, WORKQ_SET_TRUST) ==
	WORKQ_TRUST_WORKER;
	const WorkqRule *rule = trusted ? NULL : find_rule(queue, report->code);
	WorkqRetry	retry;
	int64		retry_in = report->delay;

	memset(verdict, 0, sizeof(WorkqVerdict));
	if (rule == NULL || rule->action == WORKQ_RULE_RETRY)
	{
		Jsonb	   *policy = rule != NULL ? copy_jsonb(rule->retry) : NULL;

		workq_retry_of_job(store, queue, job, &retry);
		if (policy != NULL)
			workq_retry_parse(policy, &retry);
		if (rule != NULL)
			retry_in = -1;
		judge_retry(&retry, job, retry_in, trusted, verdict);
		return;
	}
	verdict->decision = "mapped";
	verdict->value = copy_jsonb(rule->value);
	if (rule->action == WORKQ_RULE_DEAD)
		verdict->kind = WORKQ_VERDICT_DEAD;
	else if (rule->action == WORKQ_RULE_STATUS)
		verdict->kind = WORKQ_VERDICT_STATUS;
	else
	{
		verdict->kind = WORKQ_VERDICT_ERROR;
		if (rule->code != NULL)
			verdict->code = pstrdup(rule->code);
		else
			verdict->code = report->code != NULL ? report->code : "failed";
	}
}
