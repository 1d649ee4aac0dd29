/*-------------------------------------------------------------------------
 *
 * scheduler_state.c
 *	  workq_scheduler_state(): the scheduler as one JSON document.
 *
 * The document is
 *
 *	  scheduler.policy			the queue's, or the server's defaults
 *	  scheduler.per_queue[]		queue, strategy, fairness_key, policy,
 *								rounds_completed, starvation_promotions_total
 *		.keys[]					fairness_key, weight, deficit, in_flight,
 *								selected_total, deferred_total, ready_jobs,
 *								oldest_ready_age_ms
 *
 * where a policy is strategy {kind, quantum, starvation_age_ms}, fairness_key,
 * weights, default_weight, max_concurrent_per_key.  As the views, it knows no
 * keys on a standby.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "args.h"
#include "guc.h"
#include "scheduler.h"
#include "store.h"

typedef struct StateCall
{
	StringInfoData per_queue;
	int			max_keys;
	char	   *policy;			/* of the last queue */
} StateCall;

/*
 * A list of weights as a JSON object.
 */
static void
append_weights(StringInfo json, const char *list)
{
	const char *name;
	const char *separator = "";
	int			len;
	int32		weight;

	appendStringInfoChar(json, '{');
	while (list != NULL && workq_guc_weights_next(&list, &name, &len, &weight))
	{
		char	   *key = pnstrdup(name, len);

		appendStringInfoString(json, separator);
		escape_json(json, key);
		appendStringInfo(json, ": %d", weight);
		separator = ", ";
		pfree(key);
	}
	appendStringInfoChar(json, '}');
}

static const char *
kind_of(int64 strategy)
{
	return strategy == WORKQ_STRATEGY_DRR ? "deficit-round-robin" : "fifo";
}

/*
 * The policy of a queue, or, if that is NULL, the server's defaults.
 */
static char *
policy_json(const WorkqQueueInfo *queue)
{
	int64		values[WORKQ_N_SETTINGS];
	StringInfoData json;
	int			i;

	for (i = 0; i < WORKQ_N_SETTINGS; i++)
		values[i] = queue != NULL ?
			workq_queue_setting(queue, (WorkqSettingId) i) :
			workq_guc_default((WorkqSettingId) i);
	initStringInfo(&json);
	appendStringInfo(&json,
					 "{\"strategy\": {\"kind\": \"%s\", \"quantum\": " INT64_FORMAT
					 ", \"starvation_age_ms\": " INT64_FORMAT
					 "}, \"fairness_key\": \"%s\", \"weights\": ",
					 kind_of(values[WORKQ_SET_STRATEGY]),
					 values[WORKQ_SET_QUANTUM],
					 values[WORKQ_SET_STARVATION_AGE],
					 workq_settings[WORKQ_SET_FAIRNESS_KEY].names[values[WORKQ_SET_FAIRNESS_KEY]]);
	append_weights(&json, queue != NULL && queue->weights != NULL ?
				   queue->weights : workq_guc_weights);
	appendStringInfo(&json,
					 ", \"default_weight\": " INT64_FORMAT
					 ", \"max_concurrent_per_key\": " INT64_FORMAT "}",
					 values[WORKQ_SET_DEFAULT_WEIGHT],
					 values[WORKQ_SET_MAX_CONCURRENT_PER_KEY]);
	return json.data;
}

static void
append_key(StringInfo json, const WorkqQueueInfo *queue,
		   const WorkqQueueView *whole, const WorkqKeyView *view)
{
	TimestampTz oldest = workq_scheduler_oldest(queue->queue_id, view);
	WorkqKeyNames names;

	workq_scheduler_names(whole->dimension, view, &names);
	appendStringInfoString(json, "{\"fairness_key\": ");
	escape_json(json, names.fairness_key);
	appendStringInfo(json, ", \"weight\": %d, \"deficit\": ", view->weight);
	if (whole->has_shares)
		appendStringInfo(json, INT64_FORMAT, view->deficit);
	else
		appendStringInfoString(json, "null");
	appendStringInfo(json, ", \"in_flight\": %d, \"selected_total\": " INT64_FORMAT
					 ", \"deferred_total\": " INT64_FORMAT
					 ", \"ready_jobs\": " INT64_FORMAT
					 ", \"oldest_ready_age_ms\": ",
					 view->in_flight, view->selected, view->deferred,
					 view->ready);
	if (oldest != DT_NOEND)
		appendStringInfo(json, INT64_FORMAT "}",
						 Max(workq_now() - oldest, 0) / 1000);
	else
		appendStringInfoString(json, "null}");
}

static void
append_queue(WorkqQueueInfo *queue, void *arg)
{
	StateCall  *call = (StateCall *) arg;
	StringInfo	json = &call->per_queue;
	WorkqQueueView whole;
	WorkqBestKeys best;
	int			i;

	memset(&whole, 0, sizeof(whole));
	memset(&best, 0, sizeof(best));
	if (!RecoveryInProgress() &&
		workq_sched_view_queue(queue->queue_id, &whole))
		workq_scheduler_best(queue->queue_id, call->max_keys, &best);
	call->policy = policy_json(queue);
	appendStringInfoString(json, json->len > 0 ? ", {\"queue\": " :
						   "{\"queue\": ");
	escape_json(json, queue->name);
	appendStringInfo(json, ", \"strategy\": \"%s\", \"fairness_key\": \"%s\", \"policy\": %s"
					 ", \"rounds_completed\": " INT64_FORMAT
					 ", \"starvation_promotions_total\": " INT64_FORMAT
					 ", \"keys\": [",
					 kind_of(workq_queue_setting(queue, WORKQ_SET_STRATEGY)),
					 workq_guc_format(&workq_settings[WORKQ_SET_FAIRNESS_KEY],
									  workq_queue_setting(queue,
														  WORKQ_SET_FAIRNESS_KEY)),
					 call->policy, whole.rounds, whole.promoted);
	for (i = 0; i < best.n_keys; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (i > 0)
			appendStringInfoString(json, ", ");
		append_key(json, queue, &whole, best.keys[i]);
	}
	appendStringInfoString(json, "]}");
}

PG_FUNCTION_INFO_V1(workq_scheduler_state);

Datum
workq_scheduler_state(PG_FUNCTION_ARGS)
{
	StateCall	call;
	char	   *name;
	char	   *json;

	workq_store_require("workq_scheduler_state()", false);
	name = workq_arg_name_or_null(fcinfo, 0, "queue");
	call.max_keys = workq_arg_int(fcinfo, 1, "max_keys", 1, WORKQ_MAX_BATCH,
								  WORKQ_DEFAULT_MAX_KEYS);
	call.policy = NULL;
	initStringInfo(&call.per_queue);
	workq_scheduler_each(name, append_queue, &call);
	json = psprintf("{\"scheduler\": {\"policy\": %s, \"per_queue\": [%s]}}",
					name != NULL ? call.policy : policy_json(NULL),
					call.per_queue.data);
	PG_RETURN_DATUM(DirectFunctionCall1(jsonb_in, CStringGetDatum(json)));
}
