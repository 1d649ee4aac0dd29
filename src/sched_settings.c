/*-------------------------------------------------------------------------
 *
 * sched_settings.c
 *	  A queue's settings as the policy follows them.
 *
 * Shared memory has a queue's own values; what it does not set is the
 * server's.  The server's values are those of whoever looks: when a backend
 * finds that they are others than the policy was last told, it tells it.
 *
 * A lane is told what its key has of its own when it is made, read from the
 * catalog.  From then on the callback of whoever sets the key tells it, and
 * its weight by the list of weights (its own or the server's, too) changes
 * with that list: then whoever selects next goes through all lanes, in steps,
 * with the list in hand.  Nothing is read from the catalog for lanes that are
 * there.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "utils/hsearch.h"

#include "args.h"
#include "guc.h"
#include "queue.h"
#include "sched_int.h"
#include "sched_view.h"
#include "store.h"
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
 * The fingerprint of the list of weights in force for a queue: its own or the
 * server's, as this backend knows it.
 */
static uint32
list_in_force(const SchedQueue *queue)
{
	static uint32 generation = 0;
	static uint32 fingerprint = 0;

	if (queue->own.weights != 0)
		return queue->own.weights;
	if (fingerprint == 0 || generation != workq_guc_generation)
	{
		generation = workq_guc_generation;
		fingerprint = workq_guc_weights_fingerprint(workq_guc_weights);
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
	return workq_lane_form(values, &queue->own);
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
	queue->weights_seen = list_in_force(queue);
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

	/* takes as long as there are lanes, and most settings are not its own */
	if (memcmp(&params, &queue->policy.params, sizeof(params)) != 0)
		workq_policy_configure(&policy, &params, now);
	workq_policy_pause(&policy, queue->own.paused, now);
	queue->defaults = defaults_fingerprint();
	if (queue->n_lanes == 0)
		queue->weights_seen = list_in_force(queue);
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
 * Lanes that our transaction made may follow the list that is undone.
 */
void
workq_sched_keep_settings(int q)
{
	SchedQueue *queue = &sched_queues[q];

	LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	queue->keys_version++;
	queue->weights_seen = 0;
	LWLockRelease(&queue->lock);
}

/* ------------------------------------------------------------------------
 * Keys
 * ------------------------------------------------------------------------ */

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
 * The list of weights of a queue: its own or the server's.  The cache is
 * invalidated only after a commit has published that the list is another one:
 * then the catalog is asked.  What is not the list in force is one of our own
 * transaction, or of somebody who is just committing.
 */
static const char *
weights_of(int32 queue_id, bool fresh)
{
	WorkqQueueInfo *info = fresh ? workq_catalog_read(NULL, queue_id) :
	workq_queue_by_id(queue_id, true);

	return info != NULL && info->weights != NULL ? info->weights :
		workq_guc_weights;
}

static const char *
current_weights(const SchedQueue *queue)
{
	const char *list = weights_of(queue->queue_id, false);

	return workq_guc_weights_fingerprint(list) == list_in_force(queue) ? list :
		weights_of(queue->queue_id, true);
}

/*
 * What a lane's key has of its own, and its tenant if it is a tenant and
 * binding.
 */
static void
read_key(int32 queue_id, const char *list, const char *lane, SchedKey *key)
{
	WorkqStore *store = workq_store_open_reader();
	const char *separator = strchr(lane, WORKQ_LANE_SEPARATOR);
	WorkqKeyRow row = workq_catalog_get_key(store, queue_id, lane);

	key->key = lane;
	key->weight.own = row.weight;
	key->weight.listed = weight_in_list(list, lane);
	key->cap = row.max_concurrent;
	key->group_weight.own = key->group_weight.listed = WORKQ_POLICY_INHERIT;
	if (separator != NULL)
	{
		char	   *tenant = pnstrdup(lane, separator - lane);

		row = workq_catalog_get_key(store, queue_id, tenant);
		key->group_weight.own = row.weight;
		key->group_weight.listed = weight_in_list(list, tenant);
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
	read_key(queue_id, weights_of(queue_id, false), key, &own);
	result->weight = sched_weight(own.weight);
	if (result->weight == WORKQ_POLICY_INHERIT)
		result->weight = grouped ? 1 : weight;
	if (sched_weight(own.group_weight) != WORKQ_POLICY_INHERIT)
		weight = sched_weight(own.group_weight);
	result->paused = result->weight == 0 || (grouped && weight == 0);
	result->cap = own.cap != WORKQ_POLICY_INHERIT ? own.cap :
		settings[WORKQ_SET_MAX_CONCURRENT_PER_KEY];
}

/*
 * Runs in callbacks.
 */
void
workq_sched_set_key(int q, const char *key, const WorkqKeyRow *row)
{
	SchedQueue *queue = &sched_queues[q];
	WorkqPolicy policy = sched_policy(queue);
	TimestampTz now = workq_now();
	int			lane;

	LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	queue->keys_version++;
	lane = sched_lane_find(q, key);
	if (lane >= 0)
	{
		sched_lanes[lane].weight.own = row->weight;
		workq_policy_set_weight(&policy, lane,
								sched_weight(sched_lanes[lane].weight), now);
		workq_policy_set_cap(&policy, lane, row->max_concurrent, now);
	}
	lane = sched_group_find(q, key, strlen(key));
	if (lane >= 0)
	{
		sched_lanes[lane].weight.own = row->weight;
		workq_policy_set_weight(&policy, lane,
								sched_weight(sched_lanes[lane].weight), now);
	}
	sched_wait_wake_chain(queue);
	LWLockRelease(&queue->lock);
}

/* A list of weights, to look keys up. */
typedef struct ListedWeight
{
	char		key[WORKQ_MAX_LANE + 4];	/* hash key */
	int32		weight;
} ListedWeight;

static HTAB *
list_table(const char *list)
{
	HASHCTL		control;
	HTAB	   *result;
	const char *name;
	int			len;
	int32		weight;

	memset(&control, 0, sizeof(control));
	control.keysize = sizeof(((ListedWeight *) NULL)->key);
	control.entrysize = sizeof(ListedWeight);
	control.hcxt = CurrentMemoryContext;
	result = hash_create("workq weights", 64, &control,
						 HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	while (list != NULL && workq_guc_weights_next(&list, &name, &len, &weight))
	{
		char		key[WORKQ_MAX_LANE + 4];
		ListedWeight *entry;

		strlcpy(key, name, Min(len + 1, (int) sizeof(key)));
		entry = hash_search(result, key, HASH_ENTER, NULL);
		entry->weight = weight;
	}
	return result;
}

/*
 * Tell a lane, or a group, its weight by the list.  Queue lock held.
 */
static void
apply_list(SchedQueue *queue, int number, HTAB *table, TimestampTz now)
{
	SchedLane  *lane = &sched_lanes[number];
	WorkqPolicy policy = sched_policy(queue);
	char		key[WORKQ_MAX_LANE + 4];
	ListedWeight *entry;
	int32		before = sched_weight(lane->weight);

	sched_lane_copy_key(number, key);
	entry = hash_search(table, lane->is_group ? key + 2 : key, HASH_FIND,
						NULL);
	lane->weight.listed = entry != NULL ? entry->weight : WORKQ_POLICY_INHERIT;
	if (sched_weight(lane->weight) != before)
		workq_policy_set_weight(&policy, number, sched_weight(lane->weight),
								now);
}

/*
 * Is the list of weights in force another one than the lanes follow?
 */
bool
sched_weights_lag(const SchedQueue *queue)
{
	return queue->weights_seen != list_in_force(queue);
}

/*
 * If the list of weights in force is another one than the lanes follow, tell
 * them all, a few under each hold of the lock.  Nothing in between may fail.
 * Lanes that are made meanwhile are read with the new list, and if somebody
 * begins with a yet newer one, we stop.
 */
void
sched_settings_refresh_keys(int q, TimestampTz now)
{
	SchedQueue *queue = &sched_queues[q];
	uint32		wanted = list_in_force(queue);
	bool		current;
	const char *list;
	HTAB	   *table;
	int			step[64];
	int			i = 0;

	if (queue->weights_seen == wanted)
		return;
	list = current_weights(queue);
	if (workq_guc_weights_fingerprint(list) != wanted)
		return;					/* our own, not committed */
	table = list_table(list);
	LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	current = list_in_force(queue) == wanted;
	if (current)
	{
		queue->weights_seen = wanted;
		queue->keys_version++;
	}
	LWLockRelease(&queue->lock);
	while (current && i < sched_all_lanes())
	{
		int			n = 0;
		int			k;

		/* an unlocked look: what is not the queue's yet is made later */
		for (; i < sched_all_lanes() && n < lengthof(step); i++)
		{
			if (sched_lanes[i].queue == q)
				step[n++] = i;
		}
		LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
		current = queue->weights_seen == wanted;
		for (k = 0; current && k < n; k++)
		{
			if (sched_lanes[step[k]].queue == q)
				apply_list(queue, step[k], table, now);
		}
		LWLockRelease(&queue->lock);
	}
	hash_destroy(table);

	/* who looked meanwhile saw what was in force before */
	LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	sched_wait_wake_chain(queue);
	LWLockRelease(&queue->lock);
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
		read_key(queue->queue_id, current_weights(queue), key, &settings);
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
