/*-------------------------------------------------------------------------
 *
 * metrics.c
 *	  workq_metrics() and workq_metrics_text(): what a monitoring system reads.
 *
 * Everything comes from counters in shared memory, but for the ages of oldest
 * jobs, which are looked up in an index: so the cost grows with the number of
 * queues and of exported keys, and not with that of jobs.  Which keys are
 * exported, and why no counter ever falls, tells sched_count.c.
 *
 * As in stats.c, the functions check the current role's rights themselves.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "guc.h"
#include "scheduler.h"
#include "store_catalog.h"

#define METRICS_MAX_LANES	1000	/* looked at for a queue's oldest job */
#define MAX_LABELS			3

typedef enum FamilyId
{
	SELECTIONS,
	DEFERRALS,
	PROMOTIONS,
	DEFICIT,
	OLDEST_ELIGIBLE,
	IN_FLIGHT,
	ROUNDS,
	LONGEST_WAIT,
	OVERFLOWING,
	JOBS,
	OLDEST_READY,
	ENQUEUED,
	DONE,
	FAILED,
	PAUSED,
	LANE_RECORDS,
	LANE_RECORDS_FREE,
	N_FAMILIES
} FamilyId;

typedef struct Family
{
	const char *name;
	bool		is_counter;		/* else a gauge */
	const char *help;
} Family;

static const Family families[N_FAMILIES] = {
	[SELECTIONS] = {
		"workq_scheduler_selections_total", true,
		"Committed claims of a fairness key's jobs."
	},
	[DEFERRALS] = {
		"workq_scheduler_deferrals_total", true,
		"Selections that went by while a fairness key had work and was at its cap."
	},
	[PROMOTIONS] = {
		"workq_scheduler_starvation_promotions_total", true,
		"Committed claims that went to a fairness key out of turn because it was starving."
	},
	[DEFICIT] = {
		"workq_scheduler_deficit", false,
		"Selections that a fairness key has left in its round; negative when it owes some."
	},
	[OLDEST_ELIGIBLE] = {
		"workq_scheduler_oldest_eligible_age_seconds", false,
		"Age of the oldest ready job of a fairness key that may be served; 0 without one."
	},
	[IN_FLIGHT] = {
		"workq_scheduler_in_flight", false,
		"Claims of a fairness key that have not ended."
	},
	[ROUNDS] = {
		"workq_scheduler_rounds_total", true,
		"Rounds that a queue has completed."
	},
	[LONGEST_WAIT] = {
		"workq_scheduler_longest_wait_seconds", false,
		"How long the eligible fairness key that has waited longest has waited for a turn."
	},
	[OVERFLOWING] = {
		"workq_scheduler_overflowing", false,
		"1 if a queue has keys without a record in shared memory (raise workq.max_lanes)."
	},
	[JOBS] = {
		"workq_queue_jobs", false,
		"Jobs of a queue by state."
	},
	[OLDEST_READY] = {
		"workq_queue_oldest_ready_age_seconds", false,
		"Age of a queue's oldest ready job; 0 without one."
	},
	[ENQUEUED] = {
		"workq_queue_enqueued_total", true,
		"Jobs that were enqueued."
	},
	[DONE] = {
		"workq_queue_done_total", true,
		"Jobs that were finished."
	},
	[FAILED] = {
		"workq_queue_failed_total", true,
		"Failures of jobs."
	},
	[PAUSED] = {
		"workq_queue_paused", false,
		"1 if claiming from a queue is paused."
	},
	[LANE_RECORDS] = {
		"workq_lane_records", false,
		"Lane records in shared memory (workq.max_lanes)."
	},
	[LANE_RECORDS_FREE] = {
		"workq_lane_records_free", false,
		"Lane records that are free."
	}
};

static const char *const dimension_names[] = {
	[WORKQ_KEY_TENANT] = "tenant",
	[WORKQ_KEY_BINDING] = "binding",
	[WORKQ_KEY_TRIGGER_ID] = "trigger-id",
	[WORKQ_KEY_TENANT_AND_BINDING] = "tenant-and-binding"
};

typedef struct Sample
{
	const char *label[MAX_LABELS];	/* NULL behind the last */
	const char *label_value[MAX_LABELS];
	double		value;
} Sample;

/* All samples, family by family. */
typedef struct Samples
{
	List	   *of[N_FAMILIES];
} Samples;

/* ------------------------------------------------------------------------
 * Collecting
 * ------------------------------------------------------------------------ */

static Sample *
add_sample(Samples *samples, FamilyId family, double value)
{
	Sample	   *sample = palloc0(sizeof(Sample));

	sample->value = value;
	samples->of[family] = lappend(samples->of[family], sample);
	return sample;
}

static void
set_label(Sample *sample, int i, const char *name, const char *value)
{
	sample->label[i] = name;
	sample->label_value[i] = value;
}

static Sample *
add_of_queue(Samples *samples, FamilyId family, const char *queue,
			 double value)
{
	Sample	   *sample = add_sample(samples, family, value);

	set_label(sample, 0, "queue", queue);
	return sample;
}

static void
add_of_key(Samples *samples, FamilyId family, const char *queue,
		   int dimension, const char *key, double value)
{
	Sample	   *sample = add_of_queue(samples, family, queue, value);

	set_label(sample, 1, "fairness_dimension",
			  dimension < 0 ? "none" : dimension_names[dimension]);
	set_label(sample, 2, "fairness_key", key);
}

static double
age_in_seconds(TimestampTz since)
{
	if (since == DT_NOEND)
		return 0;
	return (double) Max(workq_now() - since, 0) / USECS_PER_SEC;
}

static void
collect_key(Samples *samples, const WorkqQueueInfo *queue, const char *name,
			const WorkqQueueView *whole, const WorkqKeyView *view)
{
	char	   *key = workq_scheduler_label(whole->dimension, view);
	int			dimension = whole->dimension;
	TimestampTz oldest = view->state == WORKQ_KEY_IS_READY ?
	workq_scheduler_oldest(queue->queue_id, view) : DT_NOEND;

	add_of_key(samples, SELECTIONS, name, dimension, key, view->selected);
	add_of_key(samples, DEFERRALS, name, dimension, key, view->deferred);
	add_of_key(samples, PROMOTIONS, name, dimension, key, view->promoted);
	if (whole->has_shares && view->has_lane)
		add_of_key(samples, DEFICIT, name, dimension, key, view->deficit);
	add_of_key(samples, OLDEST_ELIGIBLE, name, dimension, key,
			   age_in_seconds(oldest));
	add_of_key(samples, IN_FLIGHT, name, dimension, key, view->in_flight);
}

static void
collect_scheduler(Samples *samples, const WorkqQueueInfo *queue,
				  const char *name)
{
	WorkqQueueView whole;
	WorkqKeyView *views;
	int			n;
	int			i;

	if (!workq_sched_view_queue(queue->queue_id, &whole))
		return;
	n = workq_sched_view_metrics(queue->queue_id, &views);
	for (i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		collect_key(samples, queue, name, &whole, &views[i]);
	}
	if (n > 0)
		pfree(views);
	if (whole.has_other)
	{
		add_of_key(samples, SELECTIONS, name, whole.dimension,
				   WORKQ_LABEL_OTHER, whole.other_selected);
		add_of_key(samples, DEFERRALS, name, whole.dimension,
				   WORKQ_LABEL_OTHER, whole.other_deferred);
		add_of_key(samples, PROMOTIONS, name, whole.dimension,
				   WORKQ_LABEL_OTHER, whole.other_promoted);
	}
	add_of_queue(samples, ROUNDS, name, whole.rounds);
	add_of_queue(samples, LONGEST_WAIT, name,
				 age_in_seconds(whole.longest_wait));
	add_of_queue(samples, OVERFLOWING, name, whole.overflowing ? 1 : 0);
}

static void
add_jobs(Samples *samples, const char *queue, const char *state, int64 n)
{
	Sample	   *sample = add_of_queue(samples, JOBS, queue, n);

	set_label(sample, 1, "state", state);
}

static void
collect_queue(WorkqQueueInfo *queue, void *arg)
{
	Samples    *samples = (Samples *) arg;
	char	   *name = pstrdup(queue->name);
	WorkqCounters counters;

	/* false: nothing has happened to it, all is zero */
	(void) workq_sched_counters(queue->queue_id, &counters);
	collect_scheduler(samples, queue, name);
	add_jobs(samples, name, "ready", counters.ready);
	add_jobs(samples, name, "scheduled", counters.scheduled);
	add_jobs(samples, name, "leased", counters.leased);
	add_jobs(samples, name, "held", counters.held);
	add_of_queue(samples, OLDEST_READY, name, counters.ready <= 0 ? 0 :
				 age_in_seconds(workq_catalog_oldest_ready(queue->queue_id,
														   METRICS_MAX_LANES)));
	add_of_queue(samples, ENQUEUED, name, counters.enqueued);
	add_of_queue(samples, DONE, name, counters.done);
	add_of_queue(samples, FAILED, name, counters.failed);
	add_of_queue(samples, PAUSED, name, queue->settings.paused ? 1 : 0);
}

/*
 * On a standby there is nothing to export.
 */
static void
collect(Samples *samples)
{
	int			lanes;
	int			unused;

	memset(samples, 0, sizeof(Samples));
	if (RecoveryInProgress())
		return;
	workq_scheduler_each(NULL, collect_queue, samples);
	workq_sched_view_pool(&lanes, &unused);
	add_sample(samples, LANE_RECORDS, lanes);
	add_sample(samples, LANE_RECORDS_FREE, unused);
}

/* ------------------------------------------------------------------------
 * Showing
 * ------------------------------------------------------------------------ */

static const char *
type_name(const Family *family)
{
	return family->is_counter ? "counter" : "gauge";
}

static Datum
labels_jsonb(const Sample *sample)
{
	StringInfoData json;
	Datum		result;
	int			i;

	initStringInfo(&json);
	appendStringInfoChar(&json, '{');
	for (i = 0; i < MAX_LABELS && sample->label[i] != NULL; i++)
	{
		appendStringInfo(&json, "%s\"%s\": ", i > 0 ? ", " : "",
						 sample->label[i]);
		escape_json(&json, sample->label_value[i]);
	}
	appendStringInfoChar(&json, '}');
	result = DirectFunctionCall1(jsonb_in, CStringGetDatum(json.data));
	pfree(json.data);
	return result;
}

PG_FUNCTION_INFO_V1(workq_metrics);

Datum
workq_metrics(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo;
	Samples		samples;
	int			i;

	workq_store_require("workq_metrics()", false);
	workq_compat_init_srf(fcinfo);
	rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	collect(&samples);
	for (i = 0; i < N_FAMILIES; i++)
	{
		ListCell   *cell;

		foreach(cell, samples.of[i])
		{
			const Sample *sample = (const Sample *) lfirst(cell);
			Datum		values[5];
			bool		nulls[5] = {false};

			values[0] = CStringGetTextDatum(families[i].name);
			values[1] = CStringGetTextDatum(type_name(&families[i]));
			values[2] = CStringGetTextDatum(families[i].help);
			values[3] = labels_jsonb(sample);
			values[4] = Float8GetDatum(sample->value);
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values,
								 nulls);
		}
	}
	return (Datum) 0;
}

/*
 * A label's value between its quotes.
 */
static void
append_escaped(StringInfo text, const char *value)
{
	for (; *value != '\0'; value++)
	{
		if (*value == '\n')
			appendStringInfoString(text, "\\n");
		else
		{
			if (*value == '"' || *value == '\\')
				appendStringInfoChar(text, '\\');
			appendStringInfoChar(text, *value);
		}
	}
}

static void
append_sample(StringInfo text, const Family *family, const Sample *sample)
{
	int			i;

	appendStringInfoString(text, family->name);
	for (i = 0; i < MAX_LABELS && sample->label[i] != NULL; i++)
	{
		appendStringInfo(text, "%s%s=\"", i == 0 ? "{" : ",",
						 sample->label[i]);
		append_escaped(text, sample->label_value[i]);
		appendStringInfoChar(text, '"');
	}
	appendStringInfo(text, "%s %.15g\n", i > 0 ? "}" : "", sample->value);
}

PG_FUNCTION_INFO_V1(workq_metrics_text);

Datum
workq_metrics_text(PG_FUNCTION_ARGS)
{
	StringInfoData text;
	Samples		samples;
	int			i;

	workq_store_require("workq_metrics_text()", false);
	collect(&samples);
	initStringInfo(&text);
	for (i = 0; i < N_FAMILIES; i++)
	{
		const Family *family = &families[i];
		ListCell   *cell;

		if (samples.of[i] == NIL)
			continue;
		appendStringInfo(&text, "# HELP %s %s\n# TYPE %s %s\n", family->name,
						 family->help, family->name, type_name(family));
		foreach(cell, samples.of[i])
			append_sample(&text, family, (const Sample *) lfirst(cell));
	}
	PG_RETURN_TEXT_P(cstring_to_text_with_len(text.data, text.len));
}
