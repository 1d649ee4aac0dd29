/*-------------------------------------------------------------------------
 *
 * configure.c
 *	  The verbs that create, change and drop queues.
 *
 * Every change locks the queue's row first, then reads it and checks rights
 * against what it read, writes the row with the next policy version, and
 * appends to workq.policies what the policy is from then on.  Shared memory
 * and other backends' caches follow at commit.
 *
 * A change that changes nothing writes nothing: the policy version stays.  One
 * that changes the form of the queue's lanes moves its rows (relane.c).
 *
 * Shared memory must know the queue, with the settings that hold until then,
 * before they are changed: otherwise a verb that comes later in the same
 * transaction would enter the new ones there, where they outlive a rollback,
 * or one that read the old ones before our commit would enter those after it.
 *
 * Dropping is the one verb that others must not overlap with: a verb holds no
 * lock on the queue's row, so without more, an enqueue that looked the queue
 * up before the drop could insert its rows after it, and they would be there
 * for ever.  Therefore the drop locks the live tables in SHARE ROW EXCLUSIVE
 * mode, which every verb's ROW EXCLUSIVE conflicts with: it waits for the
 * transactions that have used workq to end, and those that come later wait for
 * it, then look the queue up and find it gone.  So a drop stops all queues for
 * as long as the oldest open transaction takes that has used workq: set
 * lock_timeout to bound it.
 *
 * Locks are taken in this order: workq.ready (the gate), the other live tables
 * (drop only), the queue's row.  A transaction that has used workq and then
 * drops a queue raises its lock on the gate; of two that do, the deadlock
 * detector ends one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/sequence.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/timestamp.h"

#include "access.h"
#include "args.h"
#include "configure.h"
#include "guc.h"
#include "relane.h"
#include "sched.h"
#include "xact.h"

/* a key's list of weights has this place among workq_configure's settings */
#define WEIGHTS_BEHIND	WORKQ_SET_DEFAULT_WEIGHT

/* Tables with live rows of a queue, in the order in which a drop locks them. */
static const struct
{
	WorkqRelation table;
	WorkqRelation index;
	const char *name;			/* of the jobs in it; NULL: no jobs */
}			queue_tables[] = {
	{WORKQ_REL_READY, WORKQ_REL_READY_ORDER, "ready"},
	{WORKQ_REL_LEASES, WORKQ_REL_LEASES_DEADLINE, "leased"},
	{WORKQ_REL_SCHEDULED, WORKQ_REL_SCHEDULED_DUE, "scheduled"},
	{WORKQ_REL_HELD, WORKQ_REL_HELD_QUEUE, "held"},
	{WORKQ_REL_DEDUP, WORKQ_REL_DEDUP_PKEY, NULL},
	{WORKQ_REL_KEYS, WORKQ_REL_KEYS_PKEY, NULL},
	{WORKQ_REL_ERROR_MAP, WORKQ_REL_ERROR_MAP_PKEY, NULL},
	{WORKQ_REL_GRANTS, WORKQ_REL_GRANTS_PKEY, NULL}
};

/* ------------------------------------------------------------------------
 * History
 * ------------------------------------------------------------------------ */

/*
 * What the policy is now, as JSON: every setting with its value (times in
 * milliseconds), and which of them are the queue's own.
 */
static char *
describe(const WorkqQueueInfo *queue, const char *detail)
{
	StringInfoData json;
	StringInfoData own;
	int			i;

	initStringInfo(&json);
	initStringInfo(&own);
	appendStringInfoChar(&json, '{');
	for (i = 0; i < WORKQ_N_SETTINGS; i++)
	{
		const WorkqSettingDef *def = &workq_settings[i];
		int64		value = workq_queue_setting(queue, (WorkqSettingId) i);

		if (def->kind == WORKQ_KIND_ENUM)
			appendStringInfo(&json, "\"%s\": \"%s\", ", def->name,
							 def->names[value]);
		else
			appendStringInfo(&json, "\"%s\": " INT64_FORMAT ", ", def->name,
							 value);
		if (queue->settings.own & ((uint32) 1 << i))
			appendStringInfo(&own, "%s\"%s\"", own.len > 0 ? ", " : "",
							 def->name);
	}
	appendStringInfoString(&json, "\"weights\": ");
	if (queue->weights != NULL)
	{
		escape_json(&json, queue->weights);
		appendStringInfo(&own, "%s\"weights\"", own.len > 0 ? ", " : "");
	}
	else
		escape_json(&json, workq_guc_weights != NULL ? workq_guc_weights : "");
	appendStringInfo(&json, ", \"paused\": %s, \"enqueue_paused\": %s, \"own\": [%s]",
					 queue->settings.paused ? "true" : "false",
					 queue->settings.enqueue_paused ? "true" : "false",
					 own.data);
	if (detail != NULL)
		appendStringInfo(&json, ", \"detail\": {%s}", detail);
	appendStringInfoChar(&json, '}');
	return json.data;
}

/*
 * Append a member to a JSON object's inside.
 */
static void
add_text(StringInfo detail, const char *name, const char *value)
{
	if (detail->len > 0)
		appendStringInfoString(detail, ", ");
	appendStringInfo(detail, "\"%s\": ", name);
	if (value != NULL)
		escape_json(detail, value);
	else
		appendStringInfoString(detail, "null");
}

/* ------------------------------------------------------------------------
 * The frame of every change
 * ------------------------------------------------------------------------ */

/*
 * The form of the queue's lanes.
 */
static WorkqLaneForm
queue_form(const WorkqQueueInfo *queue)
{
	int64		settings[WORKQ_N_SETTINGS];
	int			i;

	for (i = 0; i < WORKQ_N_SETTINGS; i++)
		settings[i] = workq_queue_setting(queue, (WorkqSettingId) i);
	return workq_lane_form(settings, &queue->settings);
}

void
workq_configure_begin(WorkqQueueChange *change, FunctionCallInfo fcinfo)
{
	char	   *queue = workq_arg_name(fcinfo, 0, "queue");
	WorkqInstance *instance;

	/* refuse before locking: who has no rights must not hold up others */
	workq_access_require(workq_queue_by_name(queue, false),
						 WORKQ_RIGHT_MANAGE);

	instance = workq_sched_instance();
	LockRelationOid(workq_store_oid(WORKQ_REL_READY), RowExclusiveLock);
	change->store = workq_store_open();
	change->queue = workq_catalog_lock(change->store, queue, false,
									   &change->tid);
	if (change->queue == NULL)
		workq_queue_missing(queue);
	workq_access_require(change->queue, WORKQ_RIGHT_MANAGE);
	change->number = workq_sched_queue(instance, change->queue->queue_id,
									   &change->queue->settings);
	change->form = queue_form(change->queue);
}

int32
workq_configure_end(WorkqQueueChange *change, bool changed, const char *event,
					const char *detail)
{
	WorkqQueueInfo *queue = change->queue;
	WorkqLaneForm form = queue_form(queue);
	int32		version = queue->settings.version;

	if (changed)
	{
		if (version == PG_INT32_MAX)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("queue \"%s\" has been changed too often",
							queue->name)));
		version = ++queue->settings.version;
		workq_catalog_update(change->store, queue, &change->tid);
		workq_catalog_policy(change->store, queue, event, workq_now(),
							 describe(queue, detail));
	}
	if (changed && form != change->form)
		workq_relane_queue(change->store, change->number, queue->queue_id,
						   form);
	workq_store_close(change->store);
	if (changed)
	{
		queue->settings.weights = queue->weights == NULL ? 0 :
			workq_guc_weights_fingerprint(queue->weights);
		workq_queue_changed();
		workq_xact_queue_settings(queue->queue_id, &queue->settings);
	}
	return version;
}

/* ------------------------------------------------------------------------
 * Creating
 * ------------------------------------------------------------------------ */

bool
workq_configure_create(const char *name)
{
	WorkqInstance *instance = workq_sched_instance();
	WorkqStore *store = workq_store_open();
	WorkqQueueInfo *queue = palloc0(sizeof(WorkqQueueInfo));
	bool		created;

	strlcpy(queue->name, name, sizeof(queue->name));
	queue->owner = GetUserId();
	queue->created_at = workq_now();
	queue->settings.version = 1;

	created = workq_catalog_insert(store, queue);
	if (created)
	{
		/*
		 * Count with our row in: of two creators at the limit, at least one
		 * sees the other's row and fails.
		 */
		if (workq_catalog_count(store) > workq_guc_max_queues)
			ereport(ERROR,
					(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
					 errmsg("cannot create queue \"%s\": there are workq.max_queues (%d) queues already",
							name, workq_guc_max_queues),
					 errhint("Drop a queue, or raise workq.max_queues in postgresql.conf and restart the server.")));
		workq_catalog_policy(store, queue, "created", queue->created_at,
							 describe(queue, NULL));
		workq_xact_queue_created(workq_sched_queue(instance, queue->queue_id,
												   &queue->settings));
	}
	workq_store_close(store);
	if (created)
		workq_queue_changed();
	pfree(queue);
	return created;
}

PG_FUNCTION_INFO_V1(workq_create_queue);

Datum
workq_create_queue(PG_FUNCTION_ARGS)
{
	char	   *name;

	workq_store_require("workq_create_queue()", true);
	name = workq_arg_name(fcinfo, 0, "queue");
	if (PG_ARGISNULL(1))
		workq_arg_missing("if_not_exists");

	if (workq_queue_by_name(name, true) == NULL &&
		workq_configure_create(name))
		PG_RETURN_BOOL(true);
	if (!PG_GETARG_BOOL(1))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("queue \"%s\" already exists", name),
				 errhint("Use if_not_exists => true if that is fine.")));
	PG_RETURN_BOOL(false);
}

/* ------------------------------------------------------------------------
 * Settings
 * ------------------------------------------------------------------------ */

/* The argument's number of a setting of workq_configure. */
static int
setting_arg(WorkqSettingId id)
{
	return 1 + id + (id > WEIGHTS_BEHIND ? 1 : 0);
}

#define WEIGHTS_ARG		(2 + WEIGHTS_BEHIND)

/*
 * The value of a setting's argument, checked.
 */
static int64
parse_setting(WorkqSettingId id, Datum arg)
{
	const WorkqSettingDef *def = &workq_settings[id];
	int64		us;

	switch (def->kind)
	{
		case WORKQ_KIND_ENUM:
			return workq_guc_enum_parse(def, TextDatumGetCString(arg));
		case WORKQ_KIND_INTEGER:
			return workq_guc_check_range(def, DatumGetInt32(arg));
		case WORKQ_KIND_TIME:
			us = workq_interval_us(DatumGetIntervalP(arg), def->name,
								   def->min * 1000, def->max * 1000);
			if (us % 1000 != 0)
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						 errmsg("%s must be a whole number of milliseconds",
								def->name)));
			return us / 1000;
	}
	return 0;					/* keep the compiler quiet */
}

static char *
parse_weights(const text *arg)
{
	char	   *weights = text_to_cstring(arg);
	char	   *problem = workq_guc_weights_check(weights);

	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for weights: \"%s\"", weights),
				 errdetail("%s", problem),
				 errhint("Write weights as \"key:weight,key:weight\", weights between 0 and 1000000.")));
	return weights;
}

/*
 * All arguments are checked before the queue is locked.
 */
PG_FUNCTION_INFO_V1(workq_configure);

Datum
workq_configure(PG_FUNCTION_ARGS)
{
	WorkqQueueChange change;
	WorkqSettings *settings;
	int64		value[WORKQ_N_SETTINGS] = {0};
	char	   *weights = NULL;
	bool		changed = false;
	int			i;

	workq_store_require("workq_configure()", true);
	for (i = 0; i < WORKQ_N_SETTINGS; i++)
	{
		int			arg = setting_arg((WorkqSettingId) i);

		if (!PG_ARGISNULL(arg))
			value[i] = parse_setting((WorkqSettingId) i, PG_GETARG_DATUM(arg));
	}
	if (!PG_ARGISNULL(WEIGHTS_ARG))
		weights = parse_weights(PG_GETARG_TEXT_PP(WEIGHTS_ARG));

	workq_configure_begin(&change, fcinfo);
	settings = &change.queue->settings;
	for (i = 0; i < WORKQ_N_SETTINGS; i++)
	{
		uint32		bit = (uint32) 1 << i;

		if (PG_ARGISNULL(setting_arg((WorkqSettingId) i)) ||
			((settings->own & bit) && settings->value[i] == value[i]))
			continue;
		settings->own |= bit;
		settings->value[i] = value[i];
		changed = true;
	}
	if (weights != NULL && (change.queue->weights == NULL ||
							strcmp(weights, change.queue->weights) != 0))
	{
		change.queue->weights = weights;
		changed = true;
	}
	PG_RETURN_INT32(workq_configure_end(&change, changed, "configured", NULL));
}

/*
 * Which setting a name means: its number, or WORKQ_N_SETTINGS for "weights".
 */
static int
setting_by_name(const char *name)
{
	StringInfoData valid;
	int			i;

	initStringInfo(&valid);
	for (i = 0; i < WORKQ_N_SETTINGS; i++)
	{
		if (strcmp(workq_settings[i].name, name) == 0)
			return i;
		appendStringInfo(&valid, "\"%s\", ", workq_settings[i].name);
	}
	if (strcmp(name, "weights") == 0)
		return WORKQ_N_SETTINGS;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for setting: \"%s\"", name),
			 errhint("Valid values are %s\"weights\".", valid.data)));
	return 0;					/* keep the compiler quiet */
}

PG_FUNCTION_INFO_V1(workq_reset);

Datum
workq_reset(PG_FUNCTION_ARGS)
{
	WorkqQueueChange change;
	StringInfoData detail;
	char	   *name = NULL;
	uint32		bits = ~(uint32) 0;
	bool		weights = true;
	bool		changed;

	workq_store_require("workq_reset()", true);
	initStringInfo(&detail);
	if (!PG_ARGISNULL(1))
	{
		int			which;

		name = text_to_cstring(PG_GETARG_TEXT_PP(1));
		which = setting_by_name(name);
		weights = which == WORKQ_N_SETTINGS;
		bits = weights ? 0 : (uint32) 1 << which;
	}
	add_text(&detail, "setting", name);

	workq_configure_begin(&change, fcinfo);
	changed = (change.queue->settings.own & bits) != 0 ||
		(weights && change.queue->weights != NULL);
	change.queue->settings.own &= ~bits;
	if (weights)
		change.queue->weights = NULL;
	PG_RETURN_INT32(workq_configure_end(&change, changed, "reset",
										detail.data));
}

/*
 * A fairness key: a name, or "" for the jobs without one, or, for a queue by
 * tenant and binding, the two with U+001F between them.
 */
static char *
check_key(const text *value)
{
	const char *start;
	const char *separator;
	int			len;

	start = VARDATA_ANY(value);
	len = VARSIZE_ANY_EXHDR(value);
	separator = memchr(start, WORKQ_LANE_SEPARATOR, len);
	if (separator != NULL)
	{
		int			first = separator - start;

		if (first > 0)
			(void) workq_check_name(cstring_to_text_with_len(start, first),
									"key");
		if (first + 1 < len)
			(void) workq_check_name(cstring_to_text_with_len(separator + 1,
															 len - first - 1),
									"key");
	}
	else if (len > 0)
		(void) workq_check_name(value, "key");
	return text_to_cstring(value);
}

/*
 * Does a key have a limit of its own, for which the queue's keys must be told
 * apart?
 */
static bool
is_limited(const WorkqKeyRow *row)
{
	return row->max_concurrent > 0 || row->weight == 0;
}

PG_FUNCTION_INFO_V1(workq_set_key);

Datum
workq_set_key(PG_FUNCTION_ARGS)
{
	WorkqQueueChange change;
	WorkqKeyRow old;
	WorkqKeyRow row;
	StringInfoData detail;
	char	   *key;
	bool		changed;

	workq_store_require("workq_set_key()", true);
	if (PG_ARGISNULL(1))
		workq_arg_missing("key");
	key = check_key(PG_GETARG_TEXT_PP(1));
	row.weight = workq_arg_int(fcinfo, 2, "weight", 0,
							   (int) workq_settings[WORKQ_SET_DEFAULT_WEIGHT].max,
							   -1);
	row.max_concurrent = workq_arg_int(fcinfo, 3, "max_concurrent", 0,
									   (int) workq_settings[WORKQ_SET_MAX_CONCURRENT_PER_KEY].max,
									   -1);

	workq_configure_begin(&change, fcinfo);
	old = workq_catalog_get_key(change.store, change.queue->queue_id, key);

	/* one of the two given: the other stays; none: both are taken away */
	if (row.weight >= 0 && row.max_concurrent < 0)
		row.max_concurrent = old.max_concurrent;
	else if (row.weight < 0 && row.max_concurrent >= 0)
		row.weight = old.weight;

	initStringInfo(&detail);
	add_text(&detail, "key", key);
	if (row.weight >= 0)
		appendStringInfo(&detail, ", \"weight\": %d", row.weight);
	if (row.max_concurrent >= 0)
		appendStringInfo(&detail, ", \"max_concurrent\": %d",
						 row.max_concurrent);

	changed = row.weight != old.weight ||
		row.max_concurrent != old.max_concurrent;
	if (changed)
	{
		change.queue->settings.limited_keys +=
			is_limited(&row) - is_limited(&old);
		workq_catalog_set_key(change.store, change.queue->queue_id, key, row);
		workq_xact_key(change.queue->queue_id, key, &old, &row);
	}
	PG_RETURN_INT32(workq_configure_end(&change, changed, "key_set",
										detail.data));
}

/* ------------------------------------------------------------------------
 * Pausing
 * ------------------------------------------------------------------------ */

PG_FUNCTION_INFO_V1(workq_pause);

Datum
workq_pause(PG_FUNCTION_ARGS)
{
	WorkqQueueChange change;
	WorkqSettings *settings;
	StringInfoData detail;
	char	   *reason;
	bool		enqueue;
	bool		changed;

	workq_store_require("workq_pause()", true);
	if (PG_ARGISNULL(1))
		workq_arg_missing("enqueue");
	enqueue = PG_GETARG_BOOL(1);
	reason = workq_arg_text_or_null(fcinfo, 2, "reason");
	initStringInfo(&detail);
	add_text(&detail, "reason", reason);

	workq_configure_begin(&change, fcinfo);
	settings = &change.queue->settings;
	changed = !settings->paused || settings->enqueue_paused != enqueue;
	settings->paused = true;
	settings->enqueue_paused = enqueue;
	(void) workq_configure_end(&change, changed, "paused", detail.data);
	PG_RETURN_BOOL(changed);
}

PG_FUNCTION_INFO_V1(workq_resume);

Datum
workq_resume(PG_FUNCTION_ARGS)
{
	WorkqQueueChange change;
	WorkqSettings *settings;
	bool		changed;

	workq_store_require("workq_resume()", true);
	workq_configure_begin(&change, fcinfo);
	settings = &change.queue->settings;
	changed = settings->paused || settings->enqueue_paused;
	settings->paused = settings->enqueue_paused = false;
	(void) workq_configure_end(&change, changed, "resumed", NULL);
	PG_RETURN_BOOL(changed);
}

/* ------------------------------------------------------------------------
 * Dropping
 * ------------------------------------------------------------------------ */

/*
 * Without confirm: say what would go.
 */
static void
refuse_drop(const WorkqQueueInfo *queue)
{
	StringInfoData parts;
	char	   *name = pstrdup(queue->name);
	int32		queue_id = queue->queue_id;
	int64		total = 0;
	int			i;

	initStringInfo(&parts);
	for (i = 0; i < lengthof(queue_tables); i++)
	{
		int64		n;

		if (queue_tables[i].name == NULL)
			continue;
		n = workq_catalog_count_rows(queue_tables[i].table,
									 queue_tables[i].index, queue_id);
		total += n;
		appendStringInfo(&parts, "%s" INT64_FORMAT " %s",
						 parts.len > 0 ? ", " : "", n, queue_tables[i].name);
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("dropping queue \"%s\" would remove " INT64_FORMAT " jobs",
					name, total),
			 errdetail("They are: %s.", parts.data),
			 errhint("Say confirm => true to do it.")));
}

/*
 * Wait for everybody, and keep everybody out.
 */
static void
lock_tables(void)
{
	int			i;

	for (i = 0; i < lengthof(queue_tables); i++)
		LockRelationOid(workq_store_oid(queue_tables[i].table),
						ShareRowExclusiveLock);
}

/*
 * The tables and the queue's row are locked: remove all that is live.
 */
static void
drop_queue(WorkqStore *store, WorkqQueueInfo *queue, ItemPointer tid)
{
	StringInfoData detail;
	int			i;

	initStringInfo(&detail);
	for (i = 0; i < lengthof(queue_tables); i++)
	{
		int64		n = workq_catalog_delete_rows(store,
												  queue_tables[i].table,
												  queue_tables[i].index,
												  queue->queue_id);

		if (queue_tables[i].name != NULL)
			appendStringInfo(&detail, "%s\"%s\": " INT64_FORMAT,
							 detail.len > 0 ? ", " : "", queue_tables[i].name,
							 n);
	}
	queue->settings.version++;
	workq_catalog_policy(store, queue, "dropped", workq_now(),
						 describe(queue, detail.data));
	workq_catalog_delete(store, tid);
}

PG_FUNCTION_INFO_V1(workq_drop_queue);

Datum
workq_drop_queue(PG_FUNCTION_ARGS)
{
	WorkqStore *store;
	WorkqQueueInfo *queue;
	ItemPointerData tid;
	char	   *name;

	workq_store_require("workq_drop_queue()", true);
	name = workq_arg_name(fcinfo, 0, "queue");
	if (PG_ARGISNULL(1) || PG_ARGISNULL(2))
		workq_arg_missing(PG_ARGISNULL(1) ? "confirm" : "if_exists");

	queue = workq_queue_by_name(name, PG_GETARG_BOOL(2));
	if (queue == NULL)
		PG_RETURN_BOOL(false);
	workq_access_require(queue, WORKQ_RIGHT_MANAGE);
	if (!PG_GETARG_BOOL(1))
		refuse_drop(queue);

	(void) workq_sched_instance();
	lock_tables();
	store = workq_store_open();
	queue = workq_catalog_lock(store, name, true, &tid);
	if (queue == NULL)
	{
		/* somebody else dropped it first */
		workq_store_close(store);
		if (!PG_GETARG_BOOL(2))
			workq_queue_missing(name);
		PG_RETURN_BOOL(false);
	}
	workq_access_require(queue, WORKQ_RIGHT_MANAGE);
	drop_queue(store, queue, &tid);
	workq_store_close(store);
	workq_queue_changed();
	workq_xact_queue_dropped(queue->queue_id);
	PG_RETURN_BOOL(true);
}
