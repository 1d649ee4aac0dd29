/*-------------------------------------------------------------------------
 *
 * errormap.c
 *	  workq_map_error, workq_unmap_error: what fault codes mean in a queue;
 *	  workq_claim_policy: what workers may know of it.
 *
 * A change of the map is a change of the queue: it takes the lock of the
 * queue's row, gives it a new policy version and tells all caches at commit.
 * A fault is judged by the map as it was when its verb looked the queue up.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/json.h"
#include "utils/jsonb.h"

#include "args.h"
#include "configure.h"
#include "guc.h"
#include "report.h"
#include "retry.h"
#include "store_catalog.h"

PG_FUNCTION_INFO_V1(workq_map_error);
PG_FUNCTION_INFO_V1(workq_unmap_error);
PG_FUNCTION_INFO_V1(workq_claim_policy);

/* ------------------------------------------------------------------------
 * Changing the map
 * ------------------------------------------------------------------------ */

/*
 * A pattern must not end with the escape character: LIKE would raise an error
 * when somebody's fault is judged.
 */
static char *
arg_pattern(FunctionCallInfo fcinfo)
{
	char	   *pattern = workq_arg_name(fcinfo, 1, "pattern");
	int			escapes = 0;
	int			i;

	for (i = (int) strlen(pattern) - 1; i >= 0 && pattern[i] == '\\'; i--)
		escapes++;
	if (escapes % 2 != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("pattern must not end with an escape character"),
				 errdetail("It is \"%s\".", pattern)));
	return pattern;
}

static void
refuse_with(const char *what, const char *action)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%s cannot be given with action \"%s\"", what, action)));
}

/*
 * The rule that the arguments describe, checked.
 */
static WorkqRule
arg_rule(FunctionCallInfo fcinfo)
{
	WorkqRule	rule;
	WorkqRetry	retry;

	memset(&retry, 0, sizeof(retry));
	rule.pattern = arg_pattern(fcinfo);
	if (PG_ARGISNULL(2))
		workq_arg_missing("action");
	rule.action = (WorkqRuleAction) workq_arg_enum(fcinfo, 2, "action",
												   workq_rule_actions, 0);
	rule.code = workq_arg_name_or_null(fcinfo, 3, "code");
	rule.value = workq_arg_jsonb_or_null(fcinfo, 4, "value");
	rule.retry = workq_arg_jsonb_or_null(fcinfo, 5, "retry");
	if (rule.value != NULL)
		rule.value = DatumGetJsonbP(JsonbPGetDatum(rule.value));
	if (rule.retry != NULL)
	{
		rule.retry = DatumGetJsonbP(JsonbPGetDatum(rule.retry));
		workq_retry_parse(rule.retry, &retry);
	}
	if (rule.code != NULL && rule.action != WORKQ_RULE_ERROR)
		refuse_with("code", workq_rule_actions[rule.action]);
	if (rule.value != NULL && rule.action != WORKQ_RULE_ERROR &&
		rule.action != WORKQ_RULE_STATUS)
		refuse_with("value", workq_rule_actions[rule.action]);
	if (rule.retry != NULL && rule.action != WORKQ_RULE_RETRY)
		refuse_with("retry", workq_rule_actions[rule.action]);
	return rule;
}

static bool
same_jsonb(Jsonb *a, Jsonb *b)
{
	if (a == NULL || b == NULL)
		return a == b;
	return datumIsEqual(JsonbPGetDatum(a), JsonbPGetDatum(b), false, -1);
}

static bool
same_rule(const WorkqRule *a, const WorkqRule *b)
{
	return a->action == b->action &&
		(a->code == NULL || b->code == NULL ? a->code == b->code :
		 strcmp(a->code, b->code) == 0) &&
		same_jsonb(a->value, b->value) && same_jsonb(a->retry, b->retry);
}

/* Place of the rule of a pattern, from 0; -1: there is none. */
static int
place_of(const WorkqQueueInfo *queue, const char *pattern)
{
	int			i;

	for (i = 0; i < queue->n_rules; i++)
	{
		if (strcmp(queue->rules[i].pattern, pattern) == 0)
			return i;
	}
	return -1;
}

static void
remove_rule(WorkqQueueInfo *queue, int place)
{
	memmove(&queue->rules[place], &queue->rules[place + 1],
			(queue->n_rules - place - 1) * sizeof(WorkqRule));
	queue->n_rules--;
}

static void
insert_rule(WorkqQueueInfo *queue, int place, const WorkqRule *rule)
{
	WorkqRule  *rules = palloc((queue->n_rules + 1) * sizeof(WorkqRule));

	if (queue->n_rules > 0)
	{
		memcpy(rules, queue->rules, place * sizeof(WorkqRule));
		memcpy(&rules[place + 1], &queue->rules[place],
			   (queue->n_rules - place) * sizeof(WorkqRule));
	}
	rules[place] = *rule;
	queue->rules = rules;
	queue->n_rules++;
}

/* For the history: the inside of an object. */
static char *
describe_rule(const WorkqRule *rule)
{
	StringInfoData out;

	initStringInfo(&out);
	appendStringInfoString(&out, "\"pattern\": ");
	escape_json(&out, rule->pattern);
	appendStringInfo(&out, ", \"action\": \"%s\"",
					 workq_rule_actions[rule->action]);
	if (rule->code != NULL)
	{
		appendStringInfoString(&out, ", \"code\": ");
		escape_json(&out, rule->code);
	}
	if (rule->value != NULL)
	{
		appendStringInfoString(&out, ", \"value\": ");
		(void) JsonbToCString(&out, &rule->value->root, VARSIZE(rule->value));
	}
	if (rule->retry != NULL)
	{
		appendStringInfoString(&out, ", \"retry\": ");
		(void) JsonbToCString(&out, &rule->retry->root, VARSIZE(rule->retry));
	}
	return out.data;
}

Datum
workq_map_error(PG_FUNCTION_ARGS)
{
	WorkqQueueChange change;
	WorkqQueueInfo *queue;
	WorkqRule	rule;
	int			wanted;
	int			old;
	int			place;
	bool		changed;

	workq_store_require("workq_map_error()", true);
	rule = arg_rule(fcinfo);
	wanted = workq_arg_int(fcinfo, 6, "place", 1, WORKQ_MAX_RULES, 0);

	workq_configure_begin(&change, fcinfo);
	queue = change.queue;
	old = place_of(queue, rule.pattern);
	if (old < 0 && queue->n_rules >= WORKQ_MAX_RULES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("queue \"%s\" has %d rules in its error map already",
						queue->name, WORKQ_MAX_RULES)));
	place = wanted > 0 ? wanted - 1 : old >= 0 ? old : queue->n_rules;
	place = Min(place, queue->n_rules - (old >= 0 ? 1 : 0));
	changed = old != place || !same_rule(&queue->rules[old], &rule);
	if (changed)
	{
		if (old >= 0)
			remove_rule(queue, old);
		insert_rule(queue, place, &rule);
		workq_catalog_write_rules(change.store, queue);
	}
	PG_RETURN_INT32(workq_configure_end(&change, changed, "error_mapped",
										describe_rule(&rule)));
}

Datum
workq_unmap_error(PG_FUNCTION_ARGS)
{
	WorkqQueueChange change;
	WorkqRule	rule;
	char	   *pattern;
	char	   *detail = NULL;
	int			place;

	workq_store_require("workq_unmap_error()", true);
	pattern = arg_pattern(fcinfo);

	workq_configure_begin(&change, fcinfo);
	place = place_of(change.queue, pattern);
	if (place >= 0)
	{
		rule = change.queue->rules[place];
		detail = describe_rule(&rule);
		remove_rule(change.queue, place);
		workq_catalog_write_rules(change.store, change.queue);
	}
	(void) workq_configure_end(&change, place >= 0, "error_unmapped", detail);
	PG_RETURN_BOOL(place >= 0);
}

/* ------------------------------------------------------------------------
 * What workers may know
 * ------------------------------------------------------------------------ */

static char *
describe_policy(WorkqStore *store, const WorkqQueueInfo *queue,
				const WorkqJob *job)
{
	WorkqRule  *rules = workq_catalog_copy_rules(queue->rules, queue->n_rules);
	int			n_rules = queue->n_rules;
	WorkqRetry	retry;
	StringInfoData out;
	int			i;

	initStringInfo(&out);
	if (workq_queue_setting(queue, WORKQ_SET_TRUST) != WORKQ_TRUST_WORKER)
		return pstrdup("{\"trust\": \"engine\"}");
	workq_retry_of_job(store, queue, job, &retry);
	appendStringInfo(&out, "{\"trust\": \"worker\", \"retry\": {\"kind\": \"%s\", \"base\": "
					 INT64_FORMAT ", \"cap\": " INT64_FORMAT
					 ", \"factor\": %d, \"jitter\": %d, \"max_attempts\": %d}, \"error_map\": [",
					 workq_settings[WORKQ_SET_RETRY_KIND].names[retry.kind],
					 retry.base, retry.cap, retry.factor, retry.jitter,
					 retry.max_attempts);
	for (i = 0; i < n_rules; i++)
		appendStringInfo(&out, "%s{%s}", i > 0 ? ", " : "",
						 describe_rule(&rules[i]));
	appendStringInfoString(&out, "]}");
	return out.data;
}

Datum
workq_claim_policy(PG_FUNCTION_ARGS)
{
	WorkqReport report = {.kind = WORKQ_REPORT_LOOK};
	WorkqCall	call;
	WorkqAnswer answer;
	WorkqLease	lease;
	const WorkqQueueInfo *queue;
	char	   *policy = NULL;
	int			on_lost;

	workq_store_require("workq_claim_policy()", true);
	report.claim_id = workq_report_claim_id(fcinfo);
	on_lost = workq_arg_enum(fcinfo, 1, "on_lost", workq_on_lost_names, 0);
	workq_report_begin(&call, "workq_claim_policy()");
	if (workq_outcome_look(&call, &report, &lease, &queue, &answer))
		policy = describe_policy(call.store, queue, &lease.job);
	workq_store_close(call.store);
	if (policy == NULL)
	{
		if (on_lost == 0)
			workq_report_raise(&report, &answer);
		PG_RETURN_NULL();
	}
	PG_RETURN_DATUM(DirectFunctionCall1(jsonb_in, CStringGetDatum(policy)));
}
