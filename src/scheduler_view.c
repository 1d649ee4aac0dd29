/*-------------------------------------------------------------------------
 *
 * scheduler_view.c
 *	  Who takes turns with whom: workq.scheduler, workq.scheduler_keys and
 *	  workq.scheduler_tenants.
 *
 * As in stats.c, each function checks the current role's rights itself, none
 * writes, and none waits for writers.  On a standby there is no scheduler:
 * queues are shown with their settings alone, and no keys.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/xlog.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "args.h"
#include "compat.h"
#include "guc.h"
#include "scheduler.h"
#include "store.h"

static const char *const state_names[WORKQ_KEY_STATES] = {
	"ready", "capped", "paused", "leased", "idle"
};

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
		 const WorkqQueueView *whole, const WorkqKeyView *view)
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
	values[KEY_READY_JOBS] = Int64GetDatum(view->ready);
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
	WorkqBestKeys best;
	WorkqQueueView whole;
	int			i;

	if (RecoveryInProgress() ||
		!workq_sched_view_queue(queue->queue_id, &whole))
		return;
	context = AllocSetContextCreate(CurrentMemoryContext, "workq keys",
									ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	workq_scheduler_best(queue->queue_id, call->max_keys, &best);
	for (i = 0; i < best.n_tenants; i++)
		emit_key(call->rsinfo, queue, &whole, best.tenants[i]);
	for (i = 0; i < best.n_keys; i++)
	{
		CHECK_FOR_INTERRUPTS();
		emit_key(call->rsinfo, queue, &whole, best.keys[i]);
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
								  WORKQ_DEFAULT_MAX_KEYS);
	workq_compat_init_srf(fcinfo);
	call.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	workq_scheduler_each(name, emit_keys, &call);
	return (Datum) 0;
}
