/*-------------------------------------------------------------------------
 *
 * sched_settings.c
 *	  A queue's settings as the policy follows them.
 *
 * Shared memory has a queue's own values; what it does not set is the
 * server's.  The server's values are those of whoever looks: when a backend
 * finds that they are others than the policy was last told, it tells it.  A
 * lane is told its key's own weight and cap when it is made.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"

#include "args.h"
#include "guc.h"
#include "sched_int.h"
#include "sched_view.h"
#include "store_catalog.h"

/*
 * Tells one set of server-wide values from another.
 */
static uint32
defaults_fingerprint(void)
{
	static uint32 generation = 0;
	static uint32 fingerprint = 0;

	if (fingerprint == 0 || generation != workq_guc_generation)
	{
		int64		values[WORKQ_N_SETTINGS];
		int			i;

		for (i = 0; i < WORKQ_N_SETTINGS; i++)
			values[i] = workq_guc_default(i);
		generation = workq_guc_generation;
		fingerprint = hash_bytes((const unsigned char *) values,
								 sizeof(values)) | 1;
	}
	return fingerprint;
}

/*
 * The same for the server's list of weights.
 */
static uint32
weights_fingerprint(void)
{
	static uint32 generation = 0;
	static uint32 fingerprint = 0;

	if (fingerprint == 0 || generation != workq_guc_generation)
	{
		const char *list = workq_guc_weights != NULL ? workq_guc_weights : "";

		generation = workq_guc_generation;
		fingerprint = hash_bytes((const unsigned char *) list,
								 strlen(list)) | 1;
	}
	return fingerprint;
}

/*
 * A setting as it holds for the queue.  Queue lock held; also in callbacks.
 */
int64
sched_setting(const SchedQueue *queue, WorkqSettingId id)
{
	return (queue->own.own & (1u << id)) ? queue->own.value[id] :
		workq_guc_default(id);
}

/*
 * What the policy is to be told; returns the form of lanes that follows.
 */
static WorkqLaneForm
make_params(const SchedQueue *queue, WorkqPolicyParams *params)
{
	int64		values[WORKQ_N_SETTINGS];
	int			i;

	for (i = 0; i < WORKQ_N_SETTINGS; i++)
		values[i] = sched_setting(queue, (WorkqSettingId) i);
	memset(params, 0, sizeof(WorkqPolicyParams));
	params->strategy = values[WORKQ_SET_STRATEGY] == WORKQ_STRATEGY_DRR ?
		WORKQ_POLICY_DRR : WORKQ_POLICY_FIFO;
	params->fairness_key = (int32) values[WORKQ_SET_FAIRNESS_KEY];
	params->starvation_mode =
		values[WORKQ_SET_STARVATION_MODE] == WORKQ_STARVATION_STRICT ?
		WORKQ_POLICY_STRICT : WORKQ_POLICY_BOUNDED;
	params->quantum = (int32) values[WORKQ_SET_QUANTUM];
	params->default_weight = (int32) values[WORKQ_SET_DEFAULT_WEIGHT];
	params->max_concurrent_per_key =
		(int32) values[WORKQ_SET_MAX_CONCURRENT_PER_KEY];
	params->starvation_age = values[WORKQ_SET_STARVATION_AGE] * 1000;
	params->promote_after[WORKQ_NORMAL] =
		values[WORKQ_SET_PROMOTE_NORMAL_AFTER] * 1000;
	params->promote_after[WORKQ_LOW] =
		values[WORKQ_SET_PROMOTE_LOW_AFTER] * 1000;
	return workq_lane_form(values);
}

/*
 * Another form of lanes: rows that are there, and those of transactions that
 * are open now, have the old one.  Queue lock held.
 */
static void
set_form(SchedQueue *queue, WorkqLaneForm form)
{
	if (queue->form == form)
		return;
	if (queue->form != WORKQ_FORM_UNKNOWN)
		queue->forms |= (1 << queue->form) | (1 << form);
	queue->form = form;
	queue->forms_serial++;
	if (sched_is_unsettled(queue))
		sched_want_chores(queue);
}

/*
 * Begin with no lanes, rounds going on from "round".  Queue lock held.
 */
void
sched_settings_init(SchedQueue *queue, int64 round)
{
	WorkqPolicyParams params;
	WorkqLaneForm form = make_params(queue, &params);

	queue->form = queue->has_settings ? form : WORKQ_FORM_UNKNOWN;
	queue->forms = 0;
	queue->forms_serial++;
	sched_count_carry(queue);
	workq_policy_queue_init(&queue->policy, &params, round);
	queue->policy.paused = queue->own.paused;
	queue->defaults = defaults_fingerprint();
	sched_count_set_dimension(queue - sched_queues);
}

/*
 * See that the policy follows the queue's values and the server's as this
 * backend knows them.  Queue lock held.
 */
void
sched_settings_refresh(SchedQueue *queue, TimestampTz now)
{
	WorkqPolicyParams params;
	WorkqPolicy policy = sched_policy(queue);

	if (queue->defaults == defaults_fingerprint())
		return;
	set_form(queue, make_params(queue, &params));
	workq_policy_configure(&policy, &params, now);
	workq_policy_pause(&policy, queue->own.paused, now);
	queue->defaults = defaults_fingerprint();
	sched_count_set_dimension(queue - sched_queues);
}

void
workq_sched_note_form(int q, WorkqLaneForm form)
{
	SchedQueue *queue = &sched_queues[q];

	if (queue->form == form)
		return;
	LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	if (queue->form != form && queue->form != WORKQ_FORM_UNKNOWN)
	{
		queue->forms |= 1 << form;
		queue->forms_serial++;
		sched_want_chores(queue);
	}
	LWLockRelease(&queue->lock);
}

void
workq_sched_note_misplaced(int q)
{
	SchedQueue *queue = &sched_queues[q];

	if (queue->misplaced)
		return;
	LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	queue->misplaced = true;
	sched_want_chores(queue);
	LWLockRelease(&queue->lock);
}

void
workq_sched_set_settings(int q, const WorkqSettings *own)
{
	SchedQueue *queue = &sched_queues[q];

	LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	queue->own = *own;
	queue->has_settings = true;
	queue->defaults = 0;
	queue->keys_version++;
	sched_settings_refresh(queue, workq_now());
	sched_wait_wake_chain(queue);
	sched_notify(queue, workq_now());
	LWLockRelease(&queue->lock);
}

/*
 * A key's own weight among "key:weight,key:weight"; the last one counts.
 */
static int32
weight_in_list(const char *list, const char *key)
{
	const char *name;
	int			len;
	int32		weight;
	int32		result = WORKQ_POLICY_INHERIT;

	while (list != NULL && workq_guc_weights_next(&list, &name, &len, &weight))
	{
		if (strlen(key) == len && memcmp(name, key, len) == 0)
			result = weight;
	}
	return result;
}

/*
 * The list of weights of a queue: its own or the server's.
 */
static const char *
weights_of(int32 queue_id)
{
	WorkqQueueInfo *info = workq_queue_by_id(queue_id, true);

	return info != NULL && info->weights != NULL ? info->weights :
		workq_guc_weights;
}

/*
 * What a key has of its own: as set for it, or else by the list.
 */
static void
read_one_key(WorkqStore *store, int32 queue_id, const char *key,
			 int32 *weight, int32 *cap)
{
	WorkqKeyRow row = workq_catalog_get_key(store, queue_id, key);

	*weight = row.weight >= 0 ? row.weight :
		weight_in_list(weights_of(queue_id), key);
	*cap = row.max_concurrent;
}

/*
 * The same for a lane, and for its tenant if it is a tenant and binding.
 */
static void
read_key(int32 queue_id, const char *lane, SchedKey *key)
{
	WorkqStore *store = workq_store_open_reader();
	const char *separator = strchr(lane, WORKQ_LANE_SEPARATOR);
	int32		no_cap;

	key->key = lane;
	key->group_weight = WORKQ_POLICY_INHERIT;
	read_one_key(store, queue_id, lane, &key->weight, &key->cap);
	if (separator != NULL)
	{
		char	   *tenant = pnstrdup(lane, separator - lane);

		read_one_key(store, queue_id, tenant, &key->group_weight, &no_cap);
		pfree(tenant);
	}
	workq_store_close(store);
}

void
workq_sched_key_in_force(int32 queue_id, const int64 *settings,
						 const char *key, WorkqKeyInForce *result)
{
	bool		grouped = strchr(key, WORKQ_LANE_SEPARATOR) != NULL;
	int64		weight = settings[WORKQ_SET_DEFAULT_WEIGHT];
	SchedKey	own;

	/* as the policy has it: a default of 0 pauses nothing in fifo */
	if (weight == 0 &&
		settings[WORKQ_SET_STRATEGY] == WORKQ_STRATEGY_FIFO)
		weight = 1;
	read_key(queue_id, key, &own);
	if (own.weight != WORKQ_POLICY_INHERIT)
		result->weight = own.weight;
	else
		result->weight = grouped ? 1 : weight;
	if (own.group_weight != WORKQ_POLICY_INHERIT)
		weight = own.group_weight;
	result->paused = result->weight == 0 || (grouped && weight == 0);
	result->cap = own.cap != WORKQ_POLICY_INHERIT ? own.cap :
		settings[WORKQ_SET_MAX_CONCURRENT_PER_KEY];
}

/*
 * Tell the policy what a lane's key has of its own now.  Queue lock held.
 */
static void
apply_key(int q, const SchedKey *key, TimestampTz now)
{
	WorkqPolicy policy = sched_policy(&sched_queues[q]);
	int			lane = sched_lane_find(q, key->key);

	if (lane < 0)
		return;
	workq_policy_set_weight(&policy, lane, key->weight, now);
	workq_policy_set_cap(&policy, lane, key->cap, now);
	lane = sched_policy_lanes[lane].group;
	if (lane >= 0)
		workq_policy_set_weight(&policy, lane, key->group_weight, now);
}

/*
 * Copy a lane's key.  False: it is no lane of the queue (any more).
 */
static bool
copy_key(int q, int lane, char *key)
{
	bool		found;

	LWLockAcquire(&sched_queues[q].lock, LW_SHARED);
	found = sched_lanes[lane].queue == q && !sched_lanes[lane].is_group;
	if (found)
		sched_lane_copy_key(lane, key);
	LWLockRelease(&sched_queues[q].lock);
	return found;
}

/*
 * The keys' settings as they are now, for all lanes there are, if a commit has
 * changed some or the server's list of weights has changed.  Reads the
 * catalog, so it is for verbs, not for callbacks; the queue lock is not held.
 */
void
sched_settings_refresh_keys(int q, TimestampTz now)
{
	SchedQueue *queue = &sched_queues[q];
	uint32		version = queue->keys_version;
	uint32		weights = weights_fingerprint();
	char		lane_key[WORKQ_MAX_LANE + 4];
	const WorkqQueueInfo *info;
	int		   *lanes;
	int			room;
	int			n = 0;
	int			i;

	if (queue->keys_seen == version && queue->weights_seen == weights)
		return;

	/* a commit publishes before it invalidates our copy of the catalog */
	info = workq_queue_by_id(queue->queue_id, true);
	if (info != NULL && info->settings.version < queue->own.version)
		return;
	room = queue->n_lanes + 16;
	lanes = palloc(room * sizeof(int));
	LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	for (i = queue->first_lane; i >= 0 && n < room; i = sched_lanes[i].next)
		lanes[n++] = i;

	/* lanes made from here on read the new values themselves */
	queue->keys_seen = version;
	queue->weights_seen = weights;
	LWLockRelease(&queue->lock);
	for (i = 0; i < n; i++)
	{
		SchedKey	key;

		if (!copy_key(q, lanes[i], lane_key))
			continue;
		read_key(queue->queue_id, lane_key, &key);
		LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
		apply_key(q, &key, now);
		LWLockRelease(&queue->lock);
	}
	pfree(lanes);
}

/*
 * Settings of keys have changed, and the change is committed: whoever selects
 * next reads them.
 */
void
workq_sched_keys_changed(int q)
{
	LWLockAcquire(&sched_queues[q].lock, LW_EXCLUSIVE);
	sched_queues[q].keys_version++;
	sched_wait_wake_chain(&sched_queues[q]);
	LWLockRelease(&sched_queues[q].lock);
}

/*
 * The lane of a key, made if need be; -1: no record is free.  Returns with the
 * queue lock held.  The catalog is read without the lock; if a key's settings
 * changed meanwhile, once more.
 */
int
sched_lane_get(int q, const char *key)
{
	SchedQueue *queue = &sched_queues[q];
	int			lane;

	LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	while ((lane = sched_lane_find(q, key)) < 0)
	{
		uint32		version = queue->keys_version;
		SchedKey	settings;

		LWLockRelease(&queue->lock);
		read_key(queue->queue_id, key, &settings);
		LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
		if (version == queue->keys_version)
		{
			lane = sched_lane_find(q, key);
			if (lane < 0)
				lane = sched_lane_make(q, &settings);
			break;
		}
	}
	return lane;
}
