/*-------------------------------------------------------------------------
 *
 * scheduler.c
 *	  Who takes turns with whom: workq.scheduler, workq.scheduler_keys and
 *	  workq_scheduler_state().
 *
 * As in stats.c, each function checks the current role's rights itself, none
 * writes, and none waits for writers.  What is shown comes from shared memory;
 * only the age of a key's oldest job is looked up, in the index of workq.ready,
 * for the keys that are shown.  On a standby there is no scheduler: queues are
 * shown with their settings alone, and no keys.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/xlog.h"
#include "funcapi.h"
#include "lib/binaryheap.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "access.h"
#include "args.h"
#include "compat.h"
#include "guc.h"
#include "scheduler.h"
#include "store_catalog.h"

#define DEFAULT_MAX_KEYS	1000

/* Rows being inserted or deleted that a look for the oldest job passes. */
#define MAX_PASSED_ROWS		1000

static const char *const state_names[WORKQ_KEY_STATES] = {
	"ready", "capped", "paused", "leased", "idle"
};

/* ------------------------------------------------------------------------
 * Names of keys
 * ------------------------------------------------------------------------ */

static const char *const no_name[] = {
	[WORKQ_KEY_TENANT] = "_no_tenant",
	[WORKQ_KEY_BINDING] = "_no_binding",
	[WORKQ_KEY_TRIGGER_ID] = "_no_trigger_id",
	[WORKQ_KEY_TENANT_AND_BINDING] = "_no_tenant"
};

/*
 * A part of a key as shown.  unique: so that no other value is shown alike.
 */
static char *
show_part(const char *value, const char *none, bool unique)
{
	int			i;

	if (value[0] == '\0')
		return pstrdup(none);
	if (unique)
	{
		bool		reserved = value[0] == '=' ||
		strcmp(value, WORKQ_LABEL_ALL) == 0 ||
		strcmp(value, WORKQ_LABEL_OTHER) == 0;

		for (i = 0; i < lengthof(no_name); i++)
			reserved = reserved || strcmp(value, no_name[i]) == 0;
		if (reserved)
			return psprintf("=%s", value);
	}
	return pstrdup(value);
}

/*
 * Split a lane's key into tenant and binding.  False: it has one part only.
 */
static bool
split_key(const char *key, char **tenant, const char **binding)
{
	const char *separator = strchr(key, WORKQ_LANE_SEPARATOR);

	if (separator == NULL)
		return false;
	*tenant = pnstrdup(key, separator - key);
	*binding = separator + 1;
	return true;
}

static char *
show_key(int dimension, const WorkqKeyView *view, bool unique)
{
	char	   *tenant;
	const char *binding;

	if (dimension < 0 && view->key[0] == '\0')
		return pstrdup(WORKQ_LABEL_ALL);
	if (!view->is_group && split_key(view->key, &tenant, &binding))
		return psprintf("%s%c%s",
						show_part(tenant, no_name[WORKQ_KEY_TENANT], unique),
						WORKQ_LANE_SEPARATOR,
						show_part(binding, no_name[WORKQ_KEY_BINDING],
								  unique));
	return show_part(view->key, no_name[Max(dimension, 0)], unique);
}

char *
workq_scheduler_label(int dimension, const WorkqKeyView *view)
{
	return show_key(dimension, view, true);
}

static char *
null_if_empty(const char *value)
{
	return value[0] == '\0' ? NULL : pstrdup(value);
}

void
workq_scheduler_names(int dimension, const WorkqKeyView *view,
					  WorkqKeyNames *names)
{
	char	   *tenant;
	const char *binding;

	names->fairness_key = show_key(dimension, view, false);
	names->key = pstrdup(view->key);
	names->tenant = names->binding = NULL;
	if (!view->is_group && split_key(view->key, &tenant, &binding))
	{
		names->tenant = null_if_empty(tenant);
		names->binding = null_if_empty(binding);
	}
	else if (dimension == WORKQ_KEY_TENANT || view->is_group)
		names->tenant = null_if_empty(view->key);
	else if (dimension == WORKQ_KEY_BINDING)
		names->binding = null_if_empty(view->key);
}

/* ------------------------------------------------------------------------
 * Queues
 * ------------------------------------------------------------------------ */

typedef struct EachMonitored
{
	void		(*visit) (WorkqQueueInfo *queue, void *arg);
	void	   *arg;
} EachMonitored;

static void
visit_monitored(WorkqQueueInfo *queue, void *arg)
{
	EachMonitored *each = (EachMonitored *) arg;

	if (workq_access_has(queue, WORKQ_RIGHT_MONITOR))
		each->visit(queue, each->arg);
}

void
workq_scheduler_each(const char *name,
					 void (*visit) (WorkqQueueInfo *queue, void *arg),
					 void *arg)
{
	EachMonitored each = {visit, arg};
	WorkqQueueInfo *queue;
	WorkqQueueInfo copy;

	if (name == NULL)
	{
		workq_catalog_each(visit_monitored, &each);
		return;
	}
	queue = workq_queue_by_name(name, false);
	workq_access_require(queue, WORKQ_RIGHT_MONITOR);

	/* what the cache has may go when the visitor opens tables */
	copy = *queue;
	if (queue->weights != NULL)
		copy.weights = pstrdup(queue->weights);
	copy.grants = NULL;
	copy.n_grants = 0;
	visit(&copy, arg);
}

TimestampTz
workq_scheduler_oldest(int32 queue_id, const WorkqKeyView *view)
{
	TimestampTz oldest = DT_NOEND;
	MemoryContext context;
	MemoryContext old;
	WorkqStore *store;
	int			p;

	if (!view->has_lane || view->is_group || view->ready <= 0)
		return DT_NOEND;
	context = AllocSetContextCreate(CurrentMemoryContext, "workq oldest job",
									ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(context);
	store = workq_store_open_reader();
	for (p = 0; p < WORKQ_PRIORITIES; p++)
	{
		WorkqCursor *cursor;
		WorkqRow	row = WORKQ_ROW_PASS;
		int			n = 0;

		if (view->none[p])
			continue;
		cursor = workq_store_ready_cursor(store, queue_id, view->key, p,
										  view->from[p]);
		while (row == WORKQ_ROW_PASS && n++ < MAX_PASSED_ROWS)
			row = workq_store_next(cursor);
		if (row == WORKQ_ROW_CANDIDATE)
			oldest = Min(oldest, workq_store_pos(cursor).since);
		workq_store_end(cursor);
	}
	workq_store_close(store);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return oldest;
}

/* ------------------------------------------------------------------------
 * The keys with most to do
 * ------------------------------------------------------------------------ */

/* At most max of a queue's keys, and of its tenants: those first in order. */
typedef struct KeyGather
{
	int			max;
	binaryheap *keys;			/* of WorkqKeyView *, the last at the top */
	binaryheap *groups;			/* the same of tenants */
	HTAB	   *in_group;		/* GroupReady; NULL before the first */
} KeyGather;

typedef struct GroupReady
{
	int			group;			/* hash key */
	int64		ready;
} GroupReady;

/*
 * The order in which keys are shown: most ready jobs, most in flight, most
 * selected, by name.
 */
static int
compare_views(const WorkqKeyView *a, const WorkqKeyView *b)
{
	if (a->ready != b->ready)
		return a->ready > b->ready ? -1 : 1;
	if (a->in_flight != b->in_flight)
		return a->in_flight > b->in_flight ? -1 : 1;
	if (a->selected != b->selected)
		return a->selected > b->selected ? -1 : 1;
	return strcmp(a->key, b->key);
}

static int
compare_in_heap(Datum a, Datum b, void *arg)
{
	return compare_views((const WorkqKeyView *) DatumGetPointer(a),
						 (const WorkqKeyView *) DatumGetPointer(b));
}

static int
compare_in_array(const void *a, const void *b)
{
	return compare_views(*(WorkqKeyView *const *) a,
						 *(WorkqKeyView *const *) b);
}

/*
 * A copy that takes no more room than its key needs.
 */
static Datum
copy_view(const WorkqKeyView *view)
{
	Size		size = offsetof(WorkqKeyView, key) + strlen(view->key) + 1;
	void	   *copy = palloc(size);

	memcpy(copy, view, size);
	return PointerGetDatum(copy);
}

static void
gather_best(binaryheap *heap, int max, const WorkqKeyView *view)
{
	WorkqKeyView *last;

	if (heap->bh_size < max)
	{
		binaryheap_add(heap, copy_view(view));
		return;
	}
	last = (WorkqKeyView *) DatumGetPointer(binaryheap_first(heap));
	if (compare_views(view, last) >= 0)
		return;
	binaryheap_replace_first(heap, copy_view(view));
	pfree(last);
}

static void
count_in_group(KeyGather *gather, const WorkqKeyView *view)
{
	GroupReady *entry;
	bool		found;

	if (gather->in_group == NULL)
	{
		HASHCTL		control;

		memset(&control, 0, sizeof(control));
		control.keysize = sizeof(int);
		control.entrysize = sizeof(GroupReady);
		control.hcxt = CurrentMemoryContext;
		gather->in_group = hash_create("workq tenants", 256, &control,
									   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	entry = hash_search(gather->in_group, &view->group, HASH_ENTER, &found);
	if (!found)
		entry->ready = 0;
	entry->ready += view->ready;
}

static void
gather_key(const WorkqKeyView *view, void *arg)
{
	KeyGather  *gather = (KeyGather *) arg;

	if (view->is_group)
		gather_best(gather->groups, gather->max, view);
	else
	{
		gather_best(gather->keys, gather->max, view);
		if (view->group >= 0)
			count_in_group(gather, view);
	}
}

/*
 * The heap's views in order, palloc'd.
 */
static WorkqKeyView **
sorted_views(binaryheap *heap)
{
	WorkqKeyView **views = palloc(Max(heap->bh_size, 1) *
								  sizeof(WorkqKeyView *));
	int			n = heap->bh_size;
	int			i;

	for (i = 0; i < n; i++)
		views[i] = (WorkqKeyView *)
			DatumGetPointer(binaryheap_remove_first(heap));
	qsort(views, n, sizeof(WorkqKeyView *), compare_in_array);
	return views;
}

static void
gather_views(int32 queue_id, int max, KeyGather *gather)
{
	gather->max = max;
	gather->keys = binaryheap_allocate(max, compare_in_heap, NULL);
	gather->groups = binaryheap_allocate(max, compare_in_heap, NULL);
	gather->in_group = NULL;
	workq_sched_view_keys(queue_id, false, gather_key, gather);
}

static int64
ready_in_group(const KeyGather *gather, int group)
{
	GroupReady *entry = gather->in_group == NULL ? NULL :
	hash_search(gather->in_group, &group, HASH_FIND, NULL);

	return entry != NULL ? entry->ready : 0;
}

/* ------------------------------------------------------------------------
 * workq.scheduler
 * ------------------------------------------------------------------------ */

enum QueueColumn
{
	QUEUE_NAME,
	QUEUE_STRATEGY,
	QUEUE_FAIRNESS_KEY,
	QUEUE_PAUSED,
	QUEUE_ROUNDS,
	QUEUE_SELECTIONS,
	QUEUE_DEFERRALS,
	QUEUE_PROMOTIONS,
	QUEUE_LANES,
	QUEUE_ELIGIBLE,
	QUEUE_CAPPED,
	QUEUE_LANES_PAUSED,
	QUEUE_LEASED,
	QUEUE_IDLE,
	QUEUE_LONGEST_WAIT,
	QUEUE_RECENT,
	QUEUE_OVERFLOWING,
	QUEUE_POLICY_VERSION,
	QUEUE_N
};

static void
count_state(const WorkqKeyView *view, void *arg)
{
	int		   *counts = (int *) arg;

	if (!view->is_group)
		counts[view->state]++;
}

/*
 * The time from "since" to now; never negative.
 */
static Datum
age_of(TimestampTz since)
{
	Interval   *age = palloc0(sizeof(Interval));

	age->time = Max(workq_now() - since, 0);
	return IntervalPGetDatum(age);
}

static Datum
text_setting(const WorkqQueueInfo *queue, WorkqSettingId id)
{
	return CStringGetTextDatum(workq_guc_format(&workq_settings[id],
												workq_queue_setting(queue,
																	id)));
}

static void
emit_queue(WorkqQueueInfo *queue, void *arg)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) arg;
	Datum		values[QUEUE_N] = {0};
	bool		nulls[QUEUE_N] = {false};
	int			counts[WORKQ_KEY_STATES] = {0};
	int			lanes = 0;
	int			i;
	WorkqQueueView view;

	values[QUEUE_NAME] = CStringGetTextDatum(queue->name);
	values[QUEUE_STRATEGY] = text_setting(queue, WORKQ_SET_STRATEGY);
	values[QUEUE_FAIRNESS_KEY] = text_setting(queue, WORKQ_SET_FAIRNESS_KEY);
	values[QUEUE_PAUSED] = BoolGetDatum(queue->settings.paused);
	values[QUEUE_POLICY_VERSION] = Int32GetDatum(queue->settings.version);
	if (RecoveryInProgress())
	{
		for (i = QUEUE_ROUNDS; i <= QUEUE_OVERFLOWING; i++)
			nulls[i] = true;
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		return;
	}
	workq_sched_view_queue(queue->queue_id, &view);
	workq_sched_view_keys(queue->queue_id, true, count_state, counts);
	for (i = 0; i < WORKQ_KEY_STATES; i++)
		lanes += counts[i];
	values[QUEUE_ROUNDS] = Int64GetDatum(view.rounds);
	values[QUEUE_SELECTIONS] = Int64GetDatum(view.selected);
	values[QUEUE_DEFERRALS] = Int64GetDatum(view.deferred);
	values[QUEUE_PROMOTIONS] = Int64GetDatum(view.promoted);
	values[QUEUE_LANES] = Int32GetDatum(lanes);
	values[QUEUE_ELIGIBLE] = Int32GetDatum(counts[WORKQ_KEY_IS_READY]);
	values[QUEUE_CAPPED] = Int32GetDatum(counts[WORKQ_KEY_IS_CAPPED]);
	values[QUEUE_LANES_PAUSED] = Int32GetDatum(counts[WORKQ_KEY_IS_PAUSED]);
	values[QUEUE_LEASED] = Int32GetDatum(counts[WORKQ_KEY_IS_LEASED]);
	values[QUEUE_IDLE] = Int32GetDatum(counts[WORKQ_KEY_IS_IDLE]);
	nulls[QUEUE_LONGEST_WAIT] = view.longest_wait == DT_NOEND;
	if (view.longest_wait != DT_NOEND)
		values[QUEUE_LONGEST_WAIT] = age_of(view.longest_wait);
	values[QUEUE_RECENT] = Int32GetDatum(view.recent);
	values[QUEUE_OVERFLOWING] = BoolGetDatum(view.overflowing);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

PG_FUNCTION_INFO_V1(workq_scheduler_queues);

Datum
workq_scheduler_queues(PG_FUNCTION_ARGS)
{
	workq_store_require("workq.scheduler_queues()", false);
	workq_compat_init_srf(fcinfo);
	workq_scheduler_each(NULL, emit_queue, fcinfo->resultinfo);
	return (Datum) 0;
}

/* ------------------------------------------------------------------------
 * workq.scheduler_keys
 * ------------------------------------------------------------------------ */

enum KeyColumn
{
	KEY_QUEUE,
	KEY_LEVEL,
	KEY_FAIRNESS_KEY,
	KEY_KEY,
	KEY_TENANT,
	KEY_BINDING,
	KEY_STATE,
	KEY_WEIGHT,
	KEY_DEFICIT,
	KEY_IN_FLIGHT,
	KEY_CAP,
	KEY_READY_JOBS,
	KEY_OLDEST_READY_AGE,
	KEY_SELECTED,
	KEY_DEFERRED,
	KEY_PROMOTED,
	KEY_RECENT,
	KEY_RECENT_SHARE,
	KEY_ENTITLED_SHARE,
	KEY_N
};

typedef struct KeysCall
{
	ReturnSetInfo *rsinfo;
	int			max_keys;
} KeysCall;

static void
set_text(Datum *values, bool *nulls, int column, const char *value)
{
	nulls[column] = value == NULL;
	if (value != NULL)
		values[column] = CStringGetTextDatum(value);
}

/*
 * A share with four digits, as a part of 1.
 */
static double
round_share(double share)
{
	return rint(share * 10000) / 10000;
}

static void
emit_key(ReturnSetInfo *rsinfo, const WorkqQueueInfo *queue,
		 const WorkqQueueView *whole, const WorkqKeyView *view, int64 ready)
{
	Datum		values[KEY_N] = {0};
	bool		nulls[KEY_N] = {false};
	TimestampTz oldest = workq_scheduler_oldest(queue->queue_id, view);
	WorkqKeyNames names;

	workq_scheduler_names(whole->dimension, view, &names);
	values[KEY_QUEUE] = CStringGetTextDatum(queue->name);
	values[KEY_LEVEL] = CStringGetTextDatum(view->is_group ? "tenant" : "key");
	set_text(values, nulls, KEY_FAIRNESS_KEY, names.fairness_key);
	set_text(values, nulls, KEY_KEY, names.key);
	set_text(values, nulls, KEY_TENANT, names.tenant);
	set_text(values, nulls, KEY_BINDING, names.binding);
	values[KEY_STATE] = CStringGetTextDatum(state_names[view->state]);
	values[KEY_WEIGHT] = Int32GetDatum(view->weight);
	nulls[KEY_DEFICIT] = nulls[KEY_ENTITLED_SHARE] = !whole->has_shares;
	values[KEY_DEFICIT] = Int64GetDatum(view->deficit);
	values[KEY_IN_FLIGHT] = Int32GetDatum(view->in_flight);
	nulls[KEY_CAP] = view->cap == 0;
	values[KEY_CAP] = Int32GetDatum(view->cap);
	values[KEY_READY_JOBS] = Int64GetDatum(ready);
	nulls[KEY_OLDEST_READY_AGE] = oldest == DT_NOEND;
	if (oldest != DT_NOEND)
		values[KEY_OLDEST_READY_AGE] = age_of(oldest);
	values[KEY_SELECTED] = Int64GetDatum(view->selected);
	values[KEY_DEFERRED] = Int64GetDatum(view->deferred);
	values[KEY_PROMOTED] = Int64GetDatum(view->promoted);
	values[KEY_RECENT] = Int32GetDatum(view->recent);
	nulls[KEY_RECENT_SHARE] = whole->recent == 0;
	if (whole->recent > 0)
		values[KEY_RECENT_SHARE] =
			Float8GetDatum(round_share((double) view->recent / whole->recent));
	values[KEY_ENTITLED_SHARE] = Float8GetDatum(round_share(view->share));
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

static void
emit_keys(WorkqQueueInfo *queue, void *arg)
{
	KeysCall   *call = (KeysCall *) arg;
	MemoryContext context;
	MemoryContext old;
	KeyGather	gather;
	WorkqQueueView whole;
	int			n;
	int			i;
	WorkqKeyView **views;

	if (RecoveryInProgress() ||
		!workq_sched_view_queue(queue->queue_id, &whole))
		return;
	context = AllocSetContextCreate(CurrentMemoryContext, "workq keys",
									ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	gather_views(queue->queue_id, call->max_keys, &gather);
	n = gather.groups->bh_size;
	views = sorted_views(gather.groups);
	for (i = 0; i < n; i++)
		emit_key(call->rsinfo, queue, &whole, views[i],
				 ready_in_group(&gather, views[i]->lane));
	n = gather.keys->bh_size;
	views = sorted_views(gather.keys);
	for (i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		emit_key(call->rsinfo, queue, &whole, views[i], views[i]->ready);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

PG_FUNCTION_INFO_V1(workq_scheduler_keys);

Datum
workq_scheduler_keys(PG_FUNCTION_ARGS)
{
	KeysCall	call;
	char	   *name;

	workq_store_require("workq_scheduler_keys()", false);
	name = workq_arg_name_or_null(fcinfo, 0, "queue");
	call.max_keys = workq_arg_int(fcinfo, 1, "max_keys", 1, WORKQ_MAX_BATCH,
								  DEFAULT_MAX_KEYS);
	workq_compat_init_srf(fcinfo);
	call.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	workq_scheduler_each(name, emit_keys, &call);
	return (Datum) 0;
}

/* ------------------------------------------------------------------------
 * workq_scheduler_state
 * ------------------------------------------------------------------------ */

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
	KeyGather	gather;
	WorkqKeyView **views;
	int			n = 0;
	int			i;

	memset(&whole, 0, sizeof(whole));
	memset(&gather, 0, sizeof(gather));
	if (!RecoveryInProgress() &&
		workq_sched_view_queue(queue->queue_id, &whole))
	{
		gather_views(queue->queue_id, call->max_keys, &gather);
		n = gather.keys->bh_size;
	}
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
	views = n > 0 ? sorted_views(gather.keys) : NULL;
	for (i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (i > 0)
			appendStringInfoString(json, ", ");
		append_key(json, queue, &whole, views[i]);
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
								  DEFAULT_MAX_KEYS);
	call.policy = NULL;
	initStringInfo(&call.per_queue);
	workq_scheduler_each(name, append_queue, &call);
	json = psprintf("{\"scheduler\": {\"policy\": %s, \"per_queue\": [%s]}}",
					name != NULL ? call.policy : policy_json(NULL),
					call.per_queue.data);
	PG_RETURN_DATUM(DirectFunctionCall1(jsonb_in, CStringGetDatum(json)));
}
