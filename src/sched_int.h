/*-------------------------------------------------------------------------
 *
 * sched_int.h
 *	  The shared structures; private to sched*.c, ids.c, check.c and to what
 *	  the background worker does (lease.c, relane.c, overflow.c, upkeep.c).
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
#define WORKQ_KEY_INLINE		40	/* bytes of a lane's key kept in its
									 * record */
#define WORKQ_KEY_CHUNK			56	/* and in each chunk beyond */
#define WORKQ_OWN_LANES			2	/* records of each queue's own: for a lane
									 * and its group; and chunks for their
									 * keys */
#define WORKQ_OWN_CHUNKS		(WORKQ_CHUNKS(WORKQ_MAX_LANE) + \
								 WORKQ_CHUNKS(WORKQ_MAX_NAME + 2))
#define WORKQ_CHUNKS(len)		(((len) - WORKQ_KEY_INLINE + \
								  WORKQ_KEY_CHUNK - 1) / WORKQ_KEY_CHUNK)
#define WORKQ_LANE_PARTITIONS	64
#define WORKQ_WINDOW			1000	/* selections in a window, at least */

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
	bool		has_base;		/* changes with workq.ready locked, order.c */
	uint64		base;			/* the same; of the places of responses */
	uint32		base_epoch;		/* epoch when the base was checked last */
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
	int64		gap;			/* queue lock; from low to the first row, last
								 * time; microseconds, -1 unknown */
} WorkqHint;

typedef struct SchedExact
{
	WorkqPos	pos;			/* queue lock */
	int			next;			/* queue lock, or pool when free */
	int16		priority;		/* queue lock */
	uint32		serial;			/* queue lock; the lane's change */
} SchedExact;

/* A key: what does not fit into its record continues in chunks. */
typedef struct SchedKeyText
{
	int			len;			/* set once */
	int			chunk;			/* set once; -1: all of it is here */
	char text[	WORKQ_KEY_INLINE];	/* set once */
} SchedKeyText;

/*
 * What metrics export of one key, whether it has a lane or not; see
 * sched_count.c.
 */
typedef struct SchedMetric
{
	int			queue;			/* queue lock; -1: free */
	int			next;			/* queue lock, or pool when free */
	int			hash_next;		/* partition lock */
	uint32		hash;			/* set once */
	int			lane;			/* queue lock; -1: it has none */
	int64		selected;		/* queue lock; by committed claims */
	int64		promoted;		/* queue lock; of these, by starvation */
	int64		deferred;		/* queue lock; plus what its lane counts */
	SchedKeyText key;
} SchedMetric;

/* The weights of a key; WORKQ_POLICY_INHERIT for none. */
typedef struct SchedWeight
{
	int32		own;			/* set for it: is the one that counts */
	int32		listed;			/* by the list in force for the queue */
} SchedWeight;

typedef struct SchedLane
{
	int			queue;			/* queue lock; -1: free */
	int			next;			/* queue lock, or pool when free */
	int			prev;			/* queue lock */
	int			hash_next;		/* partition lock */
	uint32		hash;			/* set once */
	int			pins;			/* queue lock; pending changes */
	uint32		changes;		/* queue lock; publications of ready rows */
	uint32		published;		/* queue lock; of anything, and made anew */
	bool		is_group;		/* set once; of a tenant's bindings */
	bool		uncounted;		/* queue lock; rows were there before it */
	bool		in_doubt;		/* queue lock; leases, too: not to be served */
	int64		ready;			/* queue lock; committed ready rows */
	WorkqHint	hint[WORKQ_PRIORITIES]; /* queue lock */
	int			first_exact;	/* queue lock */
	int			n_exact;		/* queue lock */
	SchedWeight weight;			/* queue lock */
	uint64		serial;			/* set once; of the queue's lanes */
	int			metric;			/* queue lock; -1: counted in "other" */
	uint32		window;			/* queue lock; that in_window is of */
	int			in_window;		/* queue lock; selections */
	int			before_window;	/* queue lock; in the window before */
	SchedKeyText key;
} SchedLane;

/* Selections counted at commit, so they never fall. */
typedef struct SchedTotals
{
	int64		selected;
	int64		promoted;
	int64		deferred;		/* plus what the policy counts */
} SchedTotals;

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
	uint32		keys_version;	/* queue lock; changes of what lanes go by */
	uint32		weights_seen;	/* queue lock; list of weights they follow */
	WorkqPolicyQueue policy;	/* queue lock */
	int			first_lane;		/* queue lock; list of all */
	int			plain_lane;		/* queue lock; the lane "" or -1 */
	int			n_lanes;		/* queue lock */
	int			own_lane;		/* queue lock; list of free records ... */
	int			own_chunk;		/* queue lock; ... and chunks of its own */
	uint8		form;			/* queue lock; WorkqLaneForm in force */
	uint8		forms;			/* queue lock; bits of those rows may have */
	uint32		forms_serial;	/* queue lock; counts reasons to look again */
	bool		misplaced;		/* queue lock; there may be such a row now */
	uint64		next_serial;	/* queue lock; of the next lane */
	int			first_metric;	/* queue lock; list, the newest first */
	int			n_metrics;		/* queue lock */
	int64		n_other;		/* queue lock; lanes made that have none */
	uint32		metrics_epoch;	/* queue lock; counts how often all went */
	int			dimension;		/* queue lock; what the keys are keys of */
	SchedTotals totals;			/* queue lock; of all keys, since loaded */
	SchedTotals other;			/* queue lock; of keys without a metric */
	uint32		window;			/* queue lock; number of the present one */
	int			in_window;		/* queue lock; selections */
	int			before_window;	/* queue lock; in the window before */
	int64		window_round;	/* queue lock; of the last selection */
	bool		overflowing;	/* queue lock; rows in lanes without record */
	bool		overflow_told;	/* queue lock; a warning said so */
	bool		leases_unrecorded;	/* queue lock; leases in such lanes */
	bool		chores;			/* queue lock; something for upkeep.c */
	uint32		overflow_serial;	/* queue lock; lanes that got no record */
	int			unrecorded;		/* queue lock; pending changes of such lanes */
	int			unrecorded_ends;	/* queue lock; the same, ends of leases */
	int			n_uncounted;	/* queue lock; lanes */
	int			n_in_doubt;		/* queue lock; lanes */
	bool		sweep_begun;	/* queue lock; overflow.c has come to ... */
	char		sweep_lane[WORKQ_MAX_LANE + 1]; /* queue lock; ... this one */
	WorkqHint	due;			/* queue lock */
	WorkqHint	expiry;			/* queue lock */
	WorkqCounters counters;		/* queue lock */
	TimestampTz notify_at;		/* queue lock; tell listeners then */
	TimestampTz notified_at;	/* queue lock; they were last told */
	SchedWaitList waiters;		/* queue lock; for a job to claim */
	SchedWaitList awaiters;		/* queue lock; for one job's end */
	int			keeper;			/* queue lock; the waiter that watches times */
	TimestampTz keeper_until;	/* queue lock; it sleeps until then */
	pg_atomic_uint64 served;	/* when it was served last */
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
	int			free_metric;	/* pool */
	int			n_free_lanes;	/* pool */
	LWLock		partition[WORKQ_LANE_PARTITIONS];
	WorkqInstance instances[WORKQ_MAX_INSTANCES];
} SchedShared;

extern SchedShared *sched_shared;
extern SchedQueue *sched_queues;
extern SchedLane *sched_lanes;
extern WorkqPolicyLane *sched_policy_lanes; /* same numbers; queue lock */
extern SchedExact *sched_exacts;
extern SchedChunk *sched_chunks;
extern SchedMetric *sched_metrics;

static const WorkqPos workq_pos_min = {PG_INT64_MIN, PG_INT64_MIN};
static const WorkqPos workq_pos_max = {PG_INT64_MAX, PG_INT64_MAX};

/* The position just before one. */
static inline WorkqPos
workq_pos_before(WorkqPos pos)
{
	if (pos.job_id > PG_INT64_MIN)
		pos.job_id--;
	return pos;
}

static inline LWLock *
sched_partition(uint32 hash)
{
	return &sched_shared->partition[hash % WORKQ_LANE_PARTITIONS];
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
	SchedWeight weight;
	int32		cap;
	SchedWeight group_weight;	/* of the tenant, for a tenant and binding */
} SchedKey;

static inline int32
sched_weight(SchedWeight weight)
{
	return weight.own >= 0 ? weight.own : weight.listed;
}

/* sched_mem.c */
extern int	sched_instance_number(Oid dbid, Oid relid, bool make);
extern int	sched_queue_find(int instance, int32 queue_id, bool make);
extern void sched_queue_free(int queue);	/* control and queue lock held */
extern int	sched_lane_find(int queue, const char *key);
extern int	sched_group_find(int queue, const char *tenant, int len);
extern int	sched_all_lanes(void);
extern int	sched_lane_make(int queue, const SchedKey *key);
extern void sched_lane_free(int lane);
extern void sched_free_all_lanes(int queue);
extern int	sched_free_idle_lanes(int queue, int most);
extern bool sched_has_idle_lanes(const SchedQueue *queue);
extern char *sched_lane_key(int lane);	/* palloc'd */
extern void sched_lane_copy_key(int lane, char *key);
extern bool sched_lanes_free(const SchedQueue *queue);
extern bool sched_key_store(SchedKeyText *to, const char *key, int len,
							SchedQueue *owner);
extern void sched_key_free(SchedKeyText *key);
extern bool sched_key_equals(const SchedKeyText *a, const char *key, int len);
extern void sched_key_copy(const SchedKeyText *from, char *key);
extern int	sched_n_buckets(int n);
extern int	sched_exact_alloc(void);
extern void sched_exact_free(int exact);

/* sched_count.c */
extern Size sched_count_size(void);
extern Size sched_count_place(char *at);
extern void sched_count_init_area(void);
extern void sched_count_reset(int queue);
extern void sched_count_carry(SchedQueue *queue);
extern void sched_count_set_dimension(int queue);
extern void sched_count_drop(int queue);
extern void sched_count_lane_made(int lane);
extern void sched_count_lane_freed(int lane);
extern uint32 sched_count_selection(SchedQueue *queue,
									const WorkqPolicySelection *turn);
extern void sched_count_undo(SchedQueue *queue,
							 const WorkqPolicySelection *turn, uint32 window);
extern void sched_count_commit(SchedQueue *queue, const WorkqChange *change);

/* sched_settings.c */
extern void sched_settings_refresh(SchedQueue *queue, TimestampTz now);
extern int64 sched_setting(const SchedQueue *queue, WorkqSettingId id);
extern void sched_settings_init(SchedQueue *queue, int64 round);
extern void sched_settings_refresh_keys(int queue, TimestampTz now);
extern bool sched_weights_lag(const SchedQueue *queue);
extern int	sched_lane_get(int queue, const char *key);

/* Rows of the queue may be in lanes of another form than that in force. */
static inline bool
sched_is_unsettled(const SchedQueue *queue)
{
	return queue->form != WORKQ_FORM_UNKNOWN &&
		(queue->forms & ~(1 << queue->form)) != 0;
}

/* sched.c */
extern void sched_hint_reset(WorkqHint *hint, WorkqPos low);
extern void sched_hint_publish(WorkqHint *hint, WorkqPos pos);
extern void sched_lane_offer(int lane, int priority, WorkqPos pos, bool single,
							 TimestampTz now, TimestampTz clock);
extern void sched_lane_offer_all(int lane, TimestampTz now);
extern void sched_notify(SchedQueue *queue, TimestampTz now);
extern void sched_wake_worker_at(SchedQueue *queue, TimestampTz when);
extern void sched_want_chores(SchedQueue *queue);

/* sched_wait.c */
extern void sched_wait_reset(SchedQueue *queue);
extern void sched_wait_wake(int queue, int n);
extern void sched_wait_wake_chain(SchedQueue *queue);
extern void sched_wait_time(SchedQueue *queue, TimestampTz when);
extern void sched_wait_job(SchedQueue *queue, int64 job_id);
extern void sched_wait_drop(SchedQueue *queue);

/* sched_load.c */
extern bool sched_load(WorkqInstance *instance);

#endif							/* WORKQ_SCHED_INT_H */
