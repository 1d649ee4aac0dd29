/*-------------------------------------------------------------------------
 *
 * sched_int.h
 *	  The shared structures; private to sched*.c, ids.c and check.c.
 *
 * Locks, in the order in which they are taken:
 *	  control	instances and which queue numbers are used; hash of queues
 *	  queue		one per queue: everything of the queue and its lanes
 *	  lanes		partitions of the hash of lanes
 *	  pool		spinlock: free lists of lanes, exact positions, key chunks
 * Each is held for microseconds, never across I/O, a row lock or a commit.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_SCHED_INT_H
#define WORKQ_SCHED_INT_H

#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/spin.h"

#include "policy.h"
#include "sched.h"

#define WORKQ_MAX_INSTANCES		256
#define WORKQ_KEY_INLINE		40	/* bytes of a lane's key kept in its record */
#define WORKQ_KEY_CHUNK			56	/* and in each chunk beyond */
#define WORKQ_LANE_PARTITIONS	64

struct WorkqInstance
{
	Oid			dbid;			/* control; InvalidOid: free */
	Oid			relid;			/* control; of workq.queues */
	bool		loaded;			/* control */
	bool		stale;			/* control; a foreign hand wrote */
	uint32		epoch;			/* control; counts foreign writes */
	int			worker;			/* control; pgprocno, -1 for none */
	pg_atomic_uint64 worker_until;	/* the worker sleeps until then */
	LWLock		ids_lock;		/* held across the reservation's flush */
	int64		id_next;		/* ids_lock */
	int64		id_end;			/* ids_lock; one past the reserved block */
};

/*
 * The start hint of one order of positions.
 *
 * Invariant: every committed live row stands behind "low", or is known
 * exactly, or its transaction's callback, which will publish it, has yet to
 * run.  So low may be too low, never too high.
 */
typedef struct WorkqHint
{
	WorkqPos	low;			/* queue lock */
	WorkqPos	brought;		/* queue lock; lowest published to a raiser */
	int			raiser;			/* queue lock; pid, 0 for none */
} WorkqHint;

typedef struct SchedExact
{
	WorkqPos	pos;			/* queue lock */
	int			next;			/* queue lock, or pool when free */
	int16		priority;		/* queue lock */
	uint32		serial;			/* queue lock; the lane's change */
} SchedExact;

typedef struct SchedLane
{
	int			queue;			/* queue lock; -1: free */
	int			next;			/* queue lock, or pool when free */
	int			prev;			/* queue lock */
	int			hash_next;		/* partition lock */
	uint32		hash;			/* set once */
	int			pins;			/* queue lock; pending changes */
	uint32		changes;		/* queue lock; publications */
	bool		is_group;		/* set once; of a tenant's bindings */
	int64		ready;			/* queue lock; committed ready rows */
	WorkqHint	hint[WORKQ_PRIORITIES]; /* queue lock */
	int			first_exact;	/* queue lock */
	int			n_exact;		/* queue lock */
	int			key_len;		/* set once */
	int			key_chunk;		/* set once; -1: the key is inline */
	char		key[WORKQ_KEY_INLINE];	/* set once */
} SchedLane;

typedef struct SchedChunk
{
	int			next;
	char		data[WORKQ_KEY_CHUNK];
} SchedChunk;

/* Who waits for a queue: entries of sched_wait.c, -1 if empty. */
typedef struct SchedWaitList
{
	int			first;			/* waits for longest */
	int			last;
} SchedWaitList;

typedef struct SchedQueue
{
	LWLock		lock;
	int			instance;		/* control; -1: free */
	int			hash_next;		/* control */
	int32		queue_id;		/* control */
	bool		has_settings;	/* queue lock */
	WorkqSettings own;			/* queue lock */
	uint32		defaults;		/* queue lock; what own was completed with */
	uint32		keys_version;	/* queue lock; changes of keys' settings */
	uint32		keys_seen;		/* queue lock; the lanes follow this one */
	uint32		weights_seen;	/* queue lock; and the server's list that was */
	WorkqPolicyQueue policy;	/* queue lock */
	int			first_lane;		/* queue lock; list of all */
	int			plain_lane;		/* queue lock; the lane "" or -1 */
	int			n_lanes;		/* queue lock */
	bool		overflowing;	/* queue lock; rows in lanes without record */
	WorkqHint	due;			/* queue lock */
	WorkqHint	expiry;			/* queue lock */
	WorkqCounters counters;		/* queue lock */
	TimestampTz notify_at;		/* queue lock; tell listeners then */
	TimestampTz notified_at;	/* queue lock; they were last told */
	SchedWaitList waiters;		/* queue lock; for a job to claim */
	SchedWaitList awaiters;		/* queue lock; for one job's end */
	int			keeper;			/* queue lock; the waiter that watches times */
	TimestampTz keeper_until;	/* queue lock; it sleeps until then */
	pg_atomic_uint64 served;	/* when it was served last, in turns */
} SchedQueue;

typedef enum SchedTranche
{
	SCHED_TRANCHE_CONTROL,
	SCHED_TRANCHE_QUEUE,
	SCHED_TRANCHE_LANES,
	SCHED_TRANCHE_IDS,
	SCHED_N_TRANCHES
} SchedTranche;

typedef struct SchedShared
{
	int			tranche[SCHED_N_TRANCHES];	/* set once */
	LWLock		control;
	slock_t		pool;
	int			max_lanes;
	int			max_queues;
	int			free_lane;		/* pool */
	int			free_exact;		/* pool */
	int			free_chunk;		/* pool */
	int			n_free_lanes;	/* pool */
	pg_atomic_uint64 turns;		/* served, of all queues */
	LWLock		partition[WORKQ_LANE_PARTITIONS];
	WorkqInstance instances[WORKQ_MAX_INSTANCES];
} SchedShared;

extern SchedShared *sched_shared;
extern SchedQueue *sched_queues;
extern SchedLane *sched_lanes;
extern WorkqPolicyLane *sched_policy_lanes; /* same numbers; queue lock */
extern SchedExact *sched_exacts;
extern SchedChunk *sched_chunks;

static const WorkqPos workq_pos_min = {PG_INT64_MIN, PG_INT64_MIN};
static const WorkqPos workq_pos_max = {PG_INT64_MAX, PG_INT64_MAX};

static inline int
workq_pos_compare(WorkqPos a, WorkqPos b)
{
	if (a.since != b.since)
		return a.since < b.since ? -1 : 1;
	return (a.job_id > b.job_id) - (a.job_id < b.job_id);
}

/* The position just before one. */
static inline WorkqPos
workq_pos_before(WorkqPos pos)
{
	if (pos.job_id > PG_INT64_MIN)
		pos.job_id--;
	return pos;
}

static inline WorkqPolicy
sched_policy(SchedQueue *queue)
{
	WorkqPolicy policy;

	policy.queue = &queue->policy;
	policy.lanes = sched_policy_lanes;
	return policy;
}

/* What a lane's key has of its own; WORKQ_POLICY_INHERIT for nothing. */
typedef struct SchedKey
{
	const char *key;
	int32		weight;
	int32		cap;
	int32		group_weight;	/* of the tenant, for a tenant and binding */
} SchedKey;

/* sched_mem.c */
extern int	sched_instance_number(Oid dbid, Oid relid, bool make);
extern int	sched_queue_find(int instance, int32 queue_id, bool make);
extern void sched_queue_free(int queue);	/* control and queue lock held */
extern int	sched_lane_find(int queue, const char *key);
extern int	sched_lane_make(int queue, const SchedKey *key);
extern void sched_lane_free(int lane);
extern void sched_free_all_lanes(int queue);
extern void sched_free_idle_lanes(int queue, int most);
extern char *sched_lane_key(int lane);	/* palloc'd */
extern void sched_lane_copy_key(int lane, char *key);
extern int	sched_exact_alloc(void);
extern void sched_exact_free(int exact);

/* sched_settings.c */
extern void sched_settings_refresh(SchedQueue *queue, TimestampTz now);
extern int64 sched_setting(const SchedQueue *queue, WorkqSettingId id);
extern void sched_settings_init(SchedQueue *queue, int64 round);
extern void sched_settings_refresh_keys(int queue, TimestampTz now);
extern int	sched_lane_get(int queue, const char *key);

/* sched.c */
extern void sched_hint_reset(WorkqHint *hint, WorkqPos low);
extern void sched_hint_publish(WorkqHint *hint, WorkqPos pos);
extern void sched_lane_offer(int lane, int priority, WorkqPos pos, bool single,
							 TimestampTz now, TimestampTz clock);
extern void sched_notify(SchedQueue *queue, TimestampTz now);
extern void sched_wake_worker_at(SchedQueue *queue, TimestampTz when);

/* sched_wait.c */
extern void sched_wait_reset(SchedQueue *queue);
extern void sched_wait_wake(int queue, int n);
extern void sched_wait_wake_chain(SchedQueue *queue);
extern void sched_wait_time(SchedQueue *queue, TimestampTz when);
extern void sched_wait_job(SchedQueue *queue, int64 job_id);
extern void sched_wait_drop(SchedQueue *queue);

/* sched_load.c */
extern void sched_load(WorkqInstance *instance);

#endif							/* WORKQ_SCHED_INT_H */
