/*-------------------------------------------------------------------------
 *
 * sched_mem.c
 *	  The fixed area of shared memory: instances, queues, lanes and pools.
 *
 * Everything is addressed by number.  Records are taken by verbs, which may
 * fail, and given back by callbacks, which may not.  Keys longer than fits
 * into a lane's record continue in chunks.
 *
 * The pools are the whole server's, and what holds a lane's record may last
 * (its jobs are leased).  So that nobody's lanes can stop another queue, each
 * queue has records and chunks of its own besides, enough for one lane with
 * the longest key and its group; they follow those of the pools.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#include "compat.h"
#include "guc.h"
#include "sched_int.h"

SchedShared *sched_shared = NULL;
SchedQueue *sched_queues = NULL;
SchedLane  *sched_lanes = NULL;
WorkqPolicyLane *sched_policy_lanes = NULL;
SchedExact *sched_exacts = NULL;
SchedChunk *sched_chunks = NULL;
SchedMetric *sched_metrics = NULL;

static const char *const tranche_names[SCHED_N_TRANCHES] = {
	"workq control",
	"workq queue",
	"workq lanes",
	"workq ids"
};

static int *queue_buckets = NULL;	/* control lock */
static int *lane_buckets = NULL;	/* partition lock */

/* Exact positions: 32 for each lane would be many times the rest. */
static int
max_exacts(void)
{
	return Max(workq_guc_max_lanes / 2, 4096);
}

static int
max_chunks(void)
{
	return Max(workq_guc_max_lanes / 2, 1024);
}

/*
 * With the queues' own ones.
 */
int
sched_all_lanes(void)
{
	return workq_guc_max_lanes + workq_guc_max_queues * WORKQ_OWN_LANES;
}

static int
all_chunks(void)
{
	return max_chunks() + workq_guc_max_queues * WORKQ_OWN_CHUNKS;
}

int
sched_n_buckets(int n)
{
	return (int) pg_nextpower2_32((uint32) Max(n, 64));
}

Size
workq_sched_shmem_size(void)
{
	Size		size = MAXALIGN(sizeof(SchedShared));

	size = add_size(size, MAXALIGN(mul_size(workq_guc_max_queues,
											sizeof(SchedQueue))));
	size = add_size(size, MAXALIGN(mul_size(sched_all_lanes(),
											sizeof(SchedLane))));
	size = add_size(size, MAXALIGN(mul_size(sched_all_lanes(),
											sizeof(WorkqPolicyLane))));
	size = add_size(size, MAXALIGN(mul_size(max_exacts(),
											sizeof(SchedExact))));
	size = add_size(size, MAXALIGN(mul_size(all_chunks(),
											sizeof(SchedChunk))));
	size = add_size(size, sched_count_size());
	size = add_size(size, MAXALIGN(mul_size(sched_n_buckets(workq_guc_max_queues),
											sizeof(int))));
	size = add_size(size, MAXALIGN(mul_size(sched_n_buckets(workq_guc_max_lanes),
											sizeof(int))));
	return size;
}

static void *
carve(char **at, Size size)
{
	void	   *result = *at;

	*at += MAXALIGN(size);
	return result;
}

/*
 * The records and chunks that only this queue may use.
 */
static void
init_own(int q)
{
	int			lane = workq_guc_max_lanes + q * WORKQ_OWN_LANES;
	int			chunk = max_chunks() + q * WORKQ_OWN_CHUNKS;
	int			i;

	sched_queues[q].own_lane = sched_queues[q].own_chunk = -1;
	for (i = 0; i < WORKQ_OWN_LANES; i++)
	{
		sched_lanes[lane + i].queue = -1;
		sched_lanes[lane + i].next = sched_queues[q].own_lane;
		sched_queues[q].own_lane = lane + i;
	}
	for (i = 0; i < WORKQ_OWN_CHUNKS; i++)
	{
		sched_chunks[chunk + i].next = sched_queues[q].own_chunk;
		sched_queues[q].own_chunk = chunk + i;
	}
}

/*
 * Everything empty.  Only the process that made the area runs this.
 */
static void
init_area(int n_queue_buckets, int n_lane_buckets)
{
	int			i;
	int		   *tranche = sched_shared->tranche;

	for (i = 0; i < SCHED_N_TRANCHES; i++)
		tranche[i] = LWLockNewTrancheId();
	LWLockInitialize(&sched_shared->control, tranche[SCHED_TRANCHE_CONTROL]);
	SpinLockInit(&sched_shared->pool);
	sched_shared->max_lanes = workq_guc_max_lanes;
	sched_shared->max_queues = workq_guc_max_queues;
	for (i = 0; i < WORKQ_LANE_PARTITIONS; i++)
		LWLockInitialize(&sched_shared->partition[i],
						 tranche[SCHED_TRANCHE_LANES]);
	for (i = 0; i < WORKQ_MAX_INSTANCES; i++)
	{
		WorkqInstance *instance = &sched_shared->instances[i];

		instance->worker = -1;
		pg_atomic_init_u64(&instance->worker_until, (uint64) DT_NOBEGIN);
		LWLockInitialize(&instance->ids_lock, tranche[SCHED_TRANCHE_IDS]);
	}
	for (i = 0; i < workq_guc_max_queues; i++)
	{
		LWLockInitialize(&sched_queues[i].lock,
						 tranche[SCHED_TRANCHE_QUEUE]);
		sched_queues[i].instance = -1;
		pg_atomic_init_u64(&sched_queues[i].served, 0);
		sched_wait_reset(&sched_queues[i]);
		init_own(i);
	}
	for (i = 0; i < workq_guc_max_lanes; i++)
	{
		sched_lanes[i].queue = -1;
		sched_lanes[i].next = i + 1 < workq_guc_max_lanes ? i + 1 : -1;
	}
	sched_shared->free_lane = 0;
	sched_shared->n_free_lanes = workq_guc_max_lanes;
	for (i = 0; i < max_exacts(); i++)
		sched_exacts[i].next = i + 1 < max_exacts() ? i + 1 : -1;
	sched_shared->free_exact = 0;
	for (i = 0; i < max_chunks(); i++)
		sched_chunks[i].next = i + 1 < max_chunks() ? i + 1 : -1;
	sched_shared->free_chunk = 0;
	sched_count_init_area();
	for (i = 0; i < n_queue_buckets; i++)
		queue_buckets[i] = -1;
	for (i = 0; i < n_lane_buckets; i++)
		lane_buckets[i] = -1;
}

/*
 * In the shmem startup hook, under AddinShmemInitLock.
 */
void
workq_sched_shmem_init(void)
{
	bool		found;
	char	   *at;
	int			n_queue_buckets = sched_n_buckets(workq_guc_max_queues);
	int			n_lane_buckets = sched_n_buckets(workq_guc_max_lanes);
	int			i;

	at = ShmemInitStruct("workq scheduler", workq_sched_shmem_size(), &found);
	if (!found)
		memset(at, 0, workq_sched_shmem_size());
	sched_shared = carve(&at, sizeof(SchedShared));
	sched_queues = carve(&at, workq_guc_max_queues * sizeof(SchedQueue));
	sched_lanes = carve(&at, sched_all_lanes() * sizeof(SchedLane));
	sched_policy_lanes = carve(&at, sched_all_lanes() * sizeof(WorkqPolicyLane));
	sched_exacts = carve(&at, max_exacts() * sizeof(SchedExact));
	sched_chunks = carve(&at, all_chunks() * sizeof(SchedChunk));
	at += sched_count_place(at);
	queue_buckets = carve(&at, n_queue_buckets * sizeof(int));
	lane_buckets = carve(&at, n_lane_buckets * sizeof(int));
	if (!found)
		init_area(n_queue_buckets, n_lane_buckets);
	for (i = 0; i < SCHED_N_TRANCHES; i++)
		LWLockRegisterTranche(sched_shared->tranche[i], tranche_names[i]);
}

bool
workq_sched_preloaded(void)
{
	return sched_shared != NULL;
}

/* ------------------------------------------------------------------------
 * Instances
 * ------------------------------------------------------------------------ */

/*
 * The instance of an extension, made if asked; -1 if there is none.  Takes
 * the control lock.  Raises 53400 when there is no room.
 */
int
sched_instance_number(Oid dbid, Oid relid, bool make)
{
	int			i;
	int			unused = -1;

	LWLockAcquire(&sched_shared->control, LW_SHARED);
	for (i = 0; i < WORKQ_MAX_INSTANCES; i++)
	{
		if (sched_shared->instances[i].dbid == dbid &&
			sched_shared->instances[i].relid == relid)
			break;
	}
	LWLockRelease(&sched_shared->control);
	if (i < WORKQ_MAX_INSTANCES)
		return i;
	if (!make)
		return -1;

	LWLockAcquire(&sched_shared->control, LW_EXCLUSIVE);
	for (i = 0; i < WORKQ_MAX_INSTANCES; i++)
	{
		WorkqInstance *instance = &sched_shared->instances[i];

		if (instance->dbid == dbid && instance->relid == relid)
			break;
		if (instance->dbid == InvalidOid && unused < 0)
			unused = i;
	}
	if (i == WORKQ_MAX_INSTANCES && unused >= 0)
	{
		WorkqInstance *instance = &sched_shared->instances[unused];

		i = unused;
		instance->dbid = dbid;
		instance->relid = relid;
		instance->loaded = false;
		instance->stale = false;
		instance->worker = -1;
		pg_atomic_write_u64(&instance->worker_until, (uint64) DT_NOBEGIN);
		instance->id_next = instance->id_end = 0;
		instance->has_base = false;
	}
	LWLockRelease(&sched_shared->control);
	if (i == WORKQ_MAX_INSTANCES)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("more than %d databases use workq on this server",
						WORKQ_MAX_INSTANCES)));
	return i;
}

void
workq_sched_forget(Oid dbid, Oid keep_relid)
{
	int			i;
	int			q;

	LWLockAcquire(&sched_shared->control, LW_EXCLUSIVE);
	for (i = 0; i < WORKQ_MAX_INSTANCES; i++)
	{
		WorkqInstance *instance = &sched_shared->instances[i];

		if (instance->dbid != dbid || instance->relid == keep_relid)
			continue;
		for (q = 0; q < sched_shared->max_queues; q++)
		{
			if (sched_queues[q].instance != i)
				continue;
			LWLockAcquire(&sched_queues[q].lock, LW_EXCLUSIVE);
			sched_queue_free(q);
			LWLockRelease(&sched_queues[q].lock);
		}
		instance->dbid = InvalidOid;
		instance->relid = InvalidOid;
		instance->loaded = false;
		instance->worker = -1;
	}
	LWLockRelease(&sched_shared->control);
}

int
workq_sched_databases(Oid **dbids)
{
	int			i;
	int			n = 0;

	*dbids = palloc(WORKQ_MAX_INSTANCES * sizeof(Oid));
	LWLockAcquire(&sched_shared->control, LW_SHARED);
	for (i = 0; i < WORKQ_MAX_INSTANCES; i++)
	{
		if (OidIsValid(sched_shared->instances[i].dbid))
			(*dbids)[n++] = sched_shared->instances[i].dbid;
	}
	LWLockRelease(&sched_shared->control);
	return n;
}

/* ------------------------------------------------------------------------
 * Queues
 * ------------------------------------------------------------------------ */

static int *
queue_bucket(int instance, int32 queue_id)
{
	uint32		hash = hash_combine(murmurhash32((uint32) instance),
									murmurhash32((uint32) queue_id));

	return &queue_buckets[hash & (sched_n_buckets(sched_shared->max_queues) - 1)];
}

/* control held */
static int
queue_in_bucket(int instance, int32 queue_id)
{
	int			q;

	for (q = *queue_bucket(instance, queue_id); q >= 0;
		 q = sched_queues[q].hash_next)
	{
		if (sched_queues[q].instance == instance &&
			sched_queues[q].queue_id == queue_id)
			return q;
	}
	return -1;
}

static void
queue_reset(SchedQueue *queue)
{
	queue->has_settings = false;
	memset(&queue->own, 0, sizeof(WorkqSettings));
	memset(&queue->policy, 0, sizeof(WorkqPolicyQueue));
	queue->first_lane = -1;
	queue->plain_lane = -1;
	queue->n_lanes = 0;
	queue->next_serial = 1;
	sched_count_reset(queue - sched_queues);
	queue->overflowing = false;
	queue->overflow_told = false;
	queue->leases_unrecorded = false;
	queue->misplaced = false;
	queue->chores = false;
	queue->unrecorded = queue->unrecorded_ends = 0;
	queue->n_uncounted = queue->n_in_doubt = 0;
	queue->sweep_begun = false;
	sched_hint_reset(&queue->due, workq_pos_max);
	sched_hint_reset(&queue->expiry, workq_pos_max);
	memset(&queue->counters, 0, sizeof(WorkqCounters));
	sched_settings_init(queue, 0);
	pg_atomic_write_u64(&queue->served, 0);
	queue->notify_at = DT_NOEND;
	queue->notified_at = DT_NOBEGIN;
	sched_wait_reset(queue);
}

/*
 * The number of a queue, taken if asked; -1 if it has none and (when make) no
 * number is free.  Takes the control lock.
 */
int
sched_queue_find(int instance, int32 queue_id, bool make)
{
	int			q;
	int		   *bucket;

	LWLockAcquire(&sched_shared->control, LW_SHARED);
	q = queue_in_bucket(instance, queue_id);
	LWLockRelease(&sched_shared->control);
	if (q >= 0 || !make)
		return q;

	LWLockAcquire(&sched_shared->control, LW_EXCLUSIVE);
	q = queue_in_bucket(instance, queue_id);
	if (q < 0)
	{
		for (q = 0; q < sched_shared->max_queues; q++)
		{
			if (sched_queues[q].instance < 0)
				break;
		}
		if (q == sched_shared->max_queues)
			q = -1;
		else
		{
			bucket = queue_bucket(instance, queue_id);
			LWLockAcquire(&sched_queues[q].lock, LW_EXCLUSIVE);
			queue_reset(&sched_queues[q]);
			sched_queues[q].queue_id = queue_id;
			sched_queues[q].instance = instance;
			sched_queues[q].hash_next = *bucket;
			*bucket = q;
			LWLockRelease(&sched_queues[q].lock);
		}
	}
	LWLockRelease(&sched_shared->control);
	return q;
}

/*
 * Give all lanes back: those of groups before the groups.  Queue lock held.
 */
void
sched_free_all_lanes(int q)
{
	int			groups;

	for (groups = 0; groups < 2; groups++)
	{
		int			lane = sched_queues[q].first_lane;

		while (lane >= 0)
		{
			int			next = sched_lanes[lane].next;

			if (sched_lanes[lane].is_group == (groups == 1))
				sched_lane_free(lane);
			lane = next;
		}
	}
}

/*
 * Give a queue's number and all its lanes back.  Control and queue lock held.
 */
void
sched_queue_free(int q)
{
	SchedQueue *queue = &sched_queues[q];
	int		   *link = queue_bucket(queue->instance, queue->queue_id);

	sched_wait_drop(queue);
	sched_free_all_lanes(q);
	sched_count_drop(q);
	while (*link != q)
		link = &sched_queues[*link].hash_next;
	*link = queue->hash_next;
	queue->instance = -1;
	queue->queue_id = 0;
}

/* ------------------------------------------------------------------------
 * Lanes
 * ------------------------------------------------------------------------ */

static inline int *
lane_bucket(uint32 hash)
{
	/* the low bits choose the partition, so a bucket is in one partition */
	return &lane_buckets[hash & (sched_n_buckets(sched_shared->max_lanes) - 1)];
}

/*
 * A chunk, from the pool or from those that are a queue's own; -1: none.
 */
static int
pop_chunk(SchedQueue *owner)
{
	int			chunk;

	if (owner != NULL)
	{
		chunk = owner->own_chunk;
		if (chunk >= 0)
			owner->own_chunk = sched_chunks[chunk].next;
		return chunk;
	}
	SpinLockAcquire(&sched_shared->pool);
	chunk = sched_shared->free_chunk;
	if (chunk >= 0)
		sched_shared->free_chunk = sched_chunks[chunk].next;
	SpinLockRelease(&sched_shared->pool);
	return chunk;
}

static void
push_chunks(int chunk)
{
	while (chunk >= 0)
	{
		int			next = sched_chunks[chunk].next;
		int			own = chunk - max_chunks();

		if (own >= 0)
		{
			SchedQueue *owner = &sched_queues[own / WORKQ_OWN_CHUNKS];

			sched_chunks[chunk].next = owner->own_chunk;
			owner->own_chunk = chunk;
		}
		else
		{
			SpinLockAcquire(&sched_shared->pool);
			sched_chunks[chunk].next = sched_shared->free_chunk;
			sched_shared->free_chunk = chunk;
			SpinLockRelease(&sched_shared->pool);
		}
		chunk = next;
	}
}

/*
 * Store a key, in chunks of its own if owner is given, whose lock is held.
 * False: out of chunks (what was taken is given back).
 */
bool
sched_key_store(SchedKeyText *to, const char *key, int len, SchedQueue *owner)
{
	int			done = Min(len, WORKQ_KEY_INLINE);
	int		   *link = &to->chunk;

	to->len = len;
	to->chunk = -1;
	memcpy(to->text, key, done);
	while (done < len)
	{
		int			part = Min(len - done, WORKQ_KEY_CHUNK);
		int			chunk = pop_chunk(owner);

		if (chunk < 0)
		{
			sched_key_free(to);
			return false;
		}
		memcpy(sched_chunks[chunk].data, key + done, part);
		sched_chunks[chunk].next = -1;
		*link = chunk;
		link = &sched_chunks[chunk].next;
		done += part;
	}
	return true;
}

/*
 * Give back what it took.
 */
void
sched_key_free(SchedKeyText *key)
{
	push_chunks(key->chunk);
	key->chunk = -1;
}

bool
sched_key_equals(const SchedKeyText *a, const char *key, int len)
{
	int			done = Min(len, WORKQ_KEY_INLINE);
	int			chunk = a->chunk;

	if (a->len != len || memcmp(a->text, key, done) != 0)
		return false;
	while (done < len)
	{
		int			part = Min(len - done, WORKQ_KEY_CHUNK);

		if (memcmp(sched_chunks[chunk].data, key + done, part) != 0)
			return false;
		done += part;
		chunk = sched_chunks[chunk].next;
	}
	return true;
}

/*
 * Copy a key; there is room for WORKQ_MAX_LANE + 4 bytes.
 */
void
sched_key_copy(const SchedKeyText *from, char *key)
{
	int			done = Min(from->len, WORKQ_KEY_INLINE);
	int			chunk = from->chunk;

	memcpy(key, from->text, done);
	while (done < from->len)
	{
		int			part = Min(from->len - done, WORKQ_KEY_CHUNK);

		memcpy(key + done, sched_chunks[chunk].data, part);
		done += part;
		chunk = sched_chunks[chunk].next;
	}
	key[from->len] = '\0';
}

/*
 * Copy a lane's key, as sched_key_copy.
 */
void
sched_lane_copy_key(int number, char *key)
{
	sched_key_copy(&sched_lanes[number].key, key);
}

char *
sched_lane_key(int number)
{
	char	   *key = palloc(sched_lanes[number].key.len + 1);

	sched_lane_copy_key(number, key);
	return key;
}

/*
 * Give a record back to where it is from.  Queue lock held.
 */
static void
push_lane(int number)
{
	int			own = number - workq_guc_max_lanes;

	if (own >= 0)
	{
		SchedQueue *owner = &sched_queues[own / WORKQ_OWN_LANES];

		sched_lanes[number].next = owner->own_lane;
		owner->own_lane = number;
		return;
	}
	SpinLockAcquire(&sched_shared->pool);
	sched_lanes[number].next = sched_shared->free_lane;
	sched_shared->free_lane = number;
	sched_shared->n_free_lanes++;
	SpinLockRelease(&sched_shared->pool);
}

/*
 * A record from the pool with its key stored, or -1.
 */
static int
lane_from_pool(const char *key, int len)
{
	int			number;

	SpinLockAcquire(&sched_shared->pool);
	number = sched_shared->free_lane;
	if (number >= 0)
	{
		sched_shared->free_lane = sched_lanes[number].next;
		sched_shared->n_free_lanes--;
	}
	SpinLockRelease(&sched_shared->pool);
	if (number >= 0 &&
		!sched_key_store(&sched_lanes[number].key, key, len, NULL))
	{
		push_lane(number);
		return -1;
	}
	return number;
}

/*
 * The same, or else one of the queue's own.  Queue lock held.
 */
static int
lane_alloc(SchedQueue *queue, const char *key, int len)
{
	int			number = lane_from_pool(key, len);

	if (number >= 0 || queue->own_lane < 0)
		return number;
	number = queue->own_lane;
	if (!sched_key_store(&sched_lanes[number].key, key, len, queue))
		return -1;
	queue->own_lane = sched_lanes[number].next;
	return number;
}

/*
 * May there be a record for another lane?  An unlocked look.
 */
bool
sched_lanes_free(const SchedQueue *queue)
{
	return sched_shared->n_free_lanes > 0 || queue->own_lane >= 0;
}

/*
 * No record is free for a lane of this queue.
 */
static void
overflow(SchedQueue *queue)
{
	queue->overflow_serial++;
	if (!queue->overflowing)
		queue->counters.overflows++;
	queue->overflowing = true;
	sched_want_chores(queue);
}

/*
 * A record for a key, linked into its queue's list and the hash.  Queue lock
 * held, which keeps others from making the same one.
 */
static int
lane_make(int q, const char *key, uint32 hash)
{
	SchedQueue *queue = &sched_queues[q];
	int			len = strlen(key);
	int			number = lane_alloc(queue, key, len);
	SchedLane  *lane;
	int			p;

	if (number < 0 && sched_free_idle_lanes(q, 4) > 0)
		number = lane_alloc(queue, key, len);
	if (number < 0)
	{
		overflow(queue);
		return -1;
	}
	lane = &sched_lanes[number];
	lane->queue = q;
	lane->hash = hash;
	lane->pins = 0;
	lane->changes = 0;
	lane->published++;
	lane->is_group = false;
	lane->uncounted = false;
	lane->in_doubt = false;
	lane->ready = 0;
	lane->first_exact = -1;
	lane->n_exact = 0;
	lane->serial = queue->next_serial++;
	lane->metric = -1;
	lane->window = queue->window;
	lane->in_window = lane->before_window = 0;
	for (p = 0; p < WORKQ_PRIORITIES; p++)
		sched_hint_reset(&lane->hint[p], workq_pos_max);
	lane->prev = -1;
	lane->next = queue->first_lane;
	if (queue->first_lane >= 0)
		sched_lanes[queue->first_lane].prev = number;
	queue->first_lane = number;
	queue->n_lanes++;
	if (len == 0)
		queue->plain_lane = number;
	else
	{
		LWLockAcquire(sched_partition(hash), LW_EXCLUSIVE);
		lane->hash_next = *lane_bucket(hash);
		*lane_bucket(hash) = number;
		LWLockRelease(sched_partition(hash));
	}
	return number;
}

static uint32
lane_hash(int q, const char *key)
{
	return hash_combine(murmurhash32((uint32) q),
						hash_bytes((const unsigned char *) key, strlen(key)));
}

/*
 * The lane of a key, or -1.  Queue lock held.
 */
int
sched_lane_find(int q, const char *key)
{
	int			len = strlen(key);
	uint32		hash;
	int			number;

	if (len == 0)
		return sched_queues[q].plain_lane;
	hash = lane_hash(q, key);
	LWLockAcquire(sched_partition(hash), LW_SHARED);
	for (number = *lane_bucket(hash); number >= 0;
		 number = sched_lanes[number].hash_next)
	{
		SchedLane  *lane = &sched_lanes[number];

		if (lane->queue == q && lane->hash == hash &&
			sched_key_equals(&lane->key, key, len))
			break;
	}
	LWLockRelease(sched_partition(hash));
	return number;
}

/*
 * The key of the group of a tenant's bindings: the tenant behind two
 * separators, of which a lane's key has one only.
 */
static void
group_key_of(char *group_key, const char *tenant, int len)
{
	len = Min(len, WORKQ_MAX_NAME);
	group_key[0] = WORKQ_LANE_SEPARATOR;
	group_key[1] = WORKQ_LANE_SEPARATOR;
	memcpy(group_key + 2, tenant, len);
	group_key[len + 2] = '\0';
}

/*
 * The group of a tenant's lanes, or -1.  Queue lock held.
 */
int
sched_group_find(int q, const char *tenant, int len)
{
	char		group_key[WORKQ_MAX_NAME + 3];

	group_key_of(group_key, tenant, len);
	return sched_lane_find(q, group_key);
}

static int
group_get(int q, const char *key, int tenant_len, SchedWeight weight)
{
	WorkqPolicy policy = sched_policy(&sched_queues[q]);
	char		group_key[WORKQ_MAX_NAME + 3];
	int			number = sched_group_find(q, key, tenant_len);

	if (number < 0)
	{
		group_key_of(group_key, key, tenant_len);
		number = lane_make(q, group_key, lane_hash(q, group_key));
		if (number >= 0)
		{
			sched_lanes[number].is_group = true;
			sched_lanes[number].weight = weight;
			workq_policy_group_add(&policy, number, sched_weight(weight));
		}
	}
	return number;
}

/*
 * The lane may have rows from before it had a record: it is offered, and
 * nothing is excluded.  Queue lock held.
 */
static void
lane_adopt(int q, int number)
{
	SchedQueue *queue = &sched_queues[q];
	SchedLane  *lane = &sched_lanes[number];

	lane->uncounted = true;
	queue->n_uncounted++;
	lane->in_doubt = queue->leases_unrecorded;
	queue->n_in_doubt += lane->in_doubt;
	sched_lane_offer_all(number, workq_now());
	sched_wait_wake_chain(queue);
	sched_want_chores(queue);
}

/*
 * Make a lane that is not there.  -1: no record is free; the queue is marked
 * overflowing.  Queue lock held.
 */
int
sched_lane_make(int q, const SchedKey *key)
{
	SchedQueue *queue = &sched_queues[q];
	WorkqPolicy policy = sched_policy(queue);
	const char *separator = strchr(key->key, WORKQ_LANE_SEPARATOR);
	int			group = -1;
	int			number;

	if (separator != NULL)
	{
		group = group_get(q, key->key, separator - key->key,
						  key->group_weight);
		if (group < 0)
			return -1;
		sched_lanes[group].pins++;	/* making the lane may free others */
	}
	number = lane_make(q, key->key, lane_hash(q, key->key));
	if (group >= 0)
		sched_lanes[group].pins--;
	if (number >= 0)
	{
		sched_lanes[number].weight = key->weight;
		workq_policy_lane_add(&policy, number, group,
							  sched_weight(key->weight), key->cap);
		if (queue->overflowing)
			lane_adopt(q, number);
		sched_count_lane_made(number);
	}
	return number;
}

/*
 * Give a lane back.  Queue lock held.
 */
void
sched_lane_free(int number)
{
	SchedLane  *lane = &sched_lanes[number];
	SchedQueue *queue = &sched_queues[lane->queue];
	WorkqPolicy policy = sched_policy(queue);

	sched_count_lane_freed(number);
	workq_policy_lane_remove(&policy, number);
	while (lane->first_exact >= 0)
	{
		int			exact = lane->first_exact;

		lane->first_exact = sched_exacts[exact].next;
		sched_exact_free(exact);
	}
	if (lane->key.len > 0)
	{
		int		   *link = lane_bucket(lane->hash);

		LWLockAcquire(sched_partition(lane->hash), LW_EXCLUSIVE);
		while (*link != number)
			link = &sched_lanes[*link].hash_next;
		*link = lane->hash_next;
		LWLockRelease(sched_partition(lane->hash));
	}
	else
		queue->plain_lane = -1;
	if (lane->prev >= 0)
		sched_lanes[lane->prev].next = lane->next;
	else
		queue->first_lane = lane->next;
	if (lane->next >= 0)
		sched_lanes[lane->next].prev = lane->prev;
	queue->n_lanes--;
	queue->n_uncounted -= lane->uncounted;
	queue->n_in_doubt -= lane->in_doubt;
	sched_key_free(&lane->key);
	lane->queue = -1;
	push_lane(number);
}

/*
 * The plain lane of a queue that has no other stays: it is needed again at
 * once.
 */
static bool
is_permanent(const SchedQueue *queue, int number)
{
	return number == queue->plain_lane &&
		(queue->form == WORKQ_FORM_PLAIN ||
		 queue->form == WORKQ_FORM_UNKNOWN);
}

/*
 * Would the lane's rows be found without its record?  There are none, or the
 * queue's lanes without record are being looked for.
 */
static bool
is_dispensable(const SchedQueue *queue, int number)
{
	const SchedLane *lane = &sched_lanes[number];

	if (lane->pins > 0 || lane->in_doubt || is_permanent(queue, number))
		return false;
	return lane->uncounted ? queue->overflowing : lane->ready == 0;
}

/*
 * Give lanes back that nothing needs, a few at a time; returns how many.
 * Queue lock held.
 */
int
sched_free_idle_lanes(int q, int most)
{
	WorkqPolicy policy = sched_policy(&sched_queues[q]);
	int			freed = 0;

	while (most-- > 0)
	{
		int			number = workq_policy_next_removable(&policy);

		if (number < 0)
			break;
		if (is_dispensable(&sched_queues[q], number))
		{
			sched_lane_free(number);
			freed++;
		}
	}
	return freed;
}

/*
 * Is there more than the lane that stays?  Queue lock held.
 */
bool
sched_has_idle_lanes(const SchedQueue *queue)
{
	const WorkqPolicyList *idle = &queue->policy.idle;

	return idle->first >= 0 &&
		!(idle->first == idle->last && is_permanent(queue, idle->first));
}

int
sched_exact_alloc(void)
{
	int			exact;

	SpinLockAcquire(&sched_shared->pool);
	exact = sched_shared->free_exact;
	if (exact >= 0)
		sched_shared->free_exact = sched_exacts[exact].next;
	SpinLockRelease(&sched_shared->pool);
	return exact;
}

void
sched_exact_free(int exact)
{
	SpinLockAcquire(&sched_shared->pool);
	sched_exacts[exact].next = sched_shared->free_exact;
	sched_shared->free_exact = exact;
	SpinLockRelease(&sched_shared->pool);
}
