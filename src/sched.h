/*-------------------------------------------------------------------------
 *
 * sched.h
 *	  The scheduler's memory: what is where, who is next, what is due.
 *
 * Shared memory is an index over the live tables.  It may offer a job that is
 * not there (the claimer looks and finds nothing); it must not forget one
 * that is.  Nothing depends on it for safety.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_SCHED_H
#define WORKQ_SCHED_H

#include "policy.h"
#include "workq.h"

typedef struct WorkqInstance WorkqInstance; /* a database's extension */

extern Size workq_sched_shmem_size(void);
extern void workq_sched_shmem_init(void);

/* Is shared memory there, that is, was the library preloaded? */
extern bool workq_sched_preloaded(void);

/*
 * This database's instance, made if need be, with the live tables loaded
 * into shared memory (which locks them for a moment: call it before opening
 * them).  Not in recovery.
 */
extern WorkqInstance *workq_sched_instance(void);

/* The same, as the verb that runs has got it, and nothing gets loaded. */
extern WorkqInstance *workq_sched_current(void);

/* ---- queues and lanes ---- */

/*
 * The number of a queue in shared memory.  own: its settings, used if it is
 * new there.  The number stays valid while this transaction holds
 * workq.ready open.  Raises 53400 when there are workq.max_queues.
 */
extern int	workq_sched_queue(WorkqInstance *instance, int32 queue_id,
							  const WorkqSettings *own);

/* The number of a queue if it is in shared memory, else -1. */
extern int	workq_sched_find_queue(int32 queue_id);

/*
 * The number of a lane, made if need be and pinned for a pending change (see
 * xact.c, which unpins).  WORKQ_NO_RECORD: none is free, the queue is
 * overflowing; this, too, is to be put into the change, or unpinned.
 */
extern int	workq_sched_pin_lane(int queue, const char *key);

/* The same for a LEASE_END. */
extern int	workq_sched_pin_ending(int queue, const char *key);

extern void workq_sched_unpin_lane(int queue, int lane);

/* the lane of a change */
#define WORKQ_NO_LANE			(-1)	/* it is not about a lane */
#define WORKQ_NO_RECORD			(-2)	/* its lane has no record */
#define WORKQ_NO_RECORD_END		(-3)	/* the same, of a LEASE_END */

/* Are there rows in lanes without a record?  An unlocked look. */
extern bool workq_sched_overflowing(int queue);

/*
 * A row of another form than the queue's in force is being added (by a backend
 * that knows older or newer settings).
 */
extern void workq_sched_note_form(int queue, WorkqLaneForm form);

/* A claimer met a row of an old form: the background worker is to move it. */
extern void workq_sched_note_misplaced(int queue);

/* ---- selecting and looking ---- */

/* One selection: whose turn it is. */
typedef struct WorkqSelection
{
	int			lane;
	bool		barred;			/* not given: see workq_sched_select */
	const char *key;			/* of the lane */
	const char *decision;		/* NULL: the look within the lane decides */
	bool		has_share;
	int64		round;
	int64		credit;
	int32		weight;
	TimestampTz promotion_deadline; /* DT_NOBEGIN for never */
	int32		policy_version;
	bool		exact;			/* the job at expected, or ask again */
	int			expected_priority;
	WorkqPos	expected;
	WorkqPolicySelection turn;
	uint32		window;			/* in which it was counted */
} WorkqSelection;

/*
 * Reserve the next turn: charged, counted as in flight, undone if this
 * (sub)transaction aborts.  False: nothing is eligible; or, when barred, only
 * what a cap forbids that this transaction has set itself and not committed:
 * set the lane aside and ask again.
 */
extern bool workq_sched_select(int queue, TimestampTz now,
							   WorkqSelection *selection);

/*
 * The look found nothing: give the turn back.  Returns whether a place under a
 * cap was given back with it: meanwhile others may have looked and found the
 * lane at its cap.
 */
extern bool workq_sched_undo(int queue, const WorkqSelection *selection,
							 TimestampTz now);

/* The turn led to a row that is no job: it is not in flight after all. */
extern void workq_sched_unreserve(int queue, int lane, TimestampTz now);

/*
 * A claim of a job that was not offered (due, or its lease expired) takes its
 * place in flight.  False: its lane is at its cap, or paused.
 */
extern bool workq_sched_select_lane(int queue, const char *key,
									TimestampTz now,
									WorkqSelection *selection);

/*
 * The row that a turn has led to is in a lane of an old form: the turn stays
 * that lane's, but the place in flight becomes that of the row's right lane.
 * False: there is none (its cap, weight 0, no record).  Appends a change;
 * move_back, before anything else is appended, undoes it.
 */
extern bool workq_sched_move_turn(int queue, const WorkqSelection *selection,
								  const char *key, TimestampTz now);
extern void workq_sched_move_back(int queue, const WorkqSelection *selection,
								  TimestampTz now);

/*
 * A lease moves to this lane: its place in flight there, whatever the cap.
 * Appends a change.  False: no record is free.
 */
extern bool workq_sched_hold(int queue, const char *key, TimestampTz now);
extern void workq_sched_unhold(int queue, TimestampTz now);

/*
 * A walk along one order of positions: the ready rows of a lane and priority,
 * a queue's due times, its lease deadlines.  It starts behind "from": nothing
 * that is live stands at or before it.  The walker tells what it passed; if
 * it is the one raiser of this hint, the hint is raised at the end.
 */
typedef struct WorkqWalk
{
	struct WorkqWalk *next;		/* list of the open ones, for an abort */
	SubTransactionId subid;		/* whose abort ends it */
	int			queue;
	int			lane;			/* pinned by this one, or -1 */
	struct WorkqHint *hint;		/* NULL: the lane was set aside */
	WorkqPos	from;
	WorkqPos	passed;			/* all up to here is gone or being deleted */
	int64		gap;			/* from "from" to the first row; -1 unknown */
	bool		raiser;
	bool		blocked;		/* stopped passing: something live stands
								 * there */
	bool		ended;			/* no row behind passed */
} WorkqWalk;

#define WORKQ_MAX_EXACT		32	/* positions kept exactly, per lane */

typedef struct WorkqExact
{
	WorkqPos	pos;
	int16		priority;
	uint32		serial;			/* which publication it comes from */
	bool		tried;			/* gone or taken: forget it */
} WorkqExact;

/* A claimer's look into one lane. */
typedef struct WorkqLook
{
	int			queue;
	int			lane;
	uint32		changes;
	WorkqWalk	walk[WORKQ_PRIORITIES];
	bool		empty[WORKQ_PRIORITIES];	/* known to have nothing */
	int			n_exact;
	WorkqExact	exact[WORKQ_MAX_EXACT];
} WorkqLook;

extern WorkqLook *workq_sched_look_begin(int queue, int lane);

/* nothing: no claimable row was left; the lane is not offered until something
 * changes there. */
extern bool workq_sched_look_end(WorkqLook *look, bool nothing,
								 TimestampTz now);

/*
 * A look found where the lane's first rows stand; NULL for no row.  Does
 * nothing if the lane has changed since the look began; then it returns false.
 */
extern bool workq_sched_set_heads(WorkqLook *look,
								  const WorkqPos *heads[WORKQ_PRIORITIES]);

/*
 * Take a lane out of the turns for a moment, though rows are there, and put
 * it back.  In between it may be offered by a change.  It is pinned meanwhile.
 * Who looked meanwhile did not see it: the caller is to see to that.
 * NULL: it is no lane of the queue any more.
 */
extern WorkqWalk *workq_sched_set_aside(int queue, int lane);
extern void workq_sched_put_back(WorkqWalk *aside, TimestampTz now);

typedef enum WorkqTimeKind
{
	WORKQ_TIME_DUE,
	WORKQ_TIME_EXPIRY
} WorkqTimeKind;

/* NULL: nothing can be due by now. */
extern WorkqWalk *workq_sched_time_begin(int queue, WorkqTimeKind kind,
										 TimestampTz now);
extern void workq_sched_time_end(WorkqWalk *walk);

static inline void
workq_walk_pass(WorkqWalk *walk, WorkqPos pos)
{
	if (!walk->blocked)
		walk->passed = pos;
}

/* The first row that is not due yet stands at pos. */
static inline void
workq_walk_stop(WorkqWalk *walk, WorkqPos pos)
{
	if (!walk->blocked)
	{
		walk->passed = pos;
		walk->passed.job_id--;
	}
}

/* ---- waiting (sched_wait.c) ---- */

#define WORKQ_MAX_WAIT_QUEUES	64	/* that one call can claim from */

/* What a backend waits for. */
typedef struct WorkqWaitSet
{
	int			n;
	int			queue[WORKQ_MAX_WAIT_QUEUES];	/* numbers */
	int32		queue_id[WORKQ_MAX_WAIT_QUEUES];
	int64		job_id;			/* for this job's end; 0: for work */
	bool		announces;		/* looks at counts, will not look at rows */
} WorkqWaitSet;

typedef enum WorkqWaitLook
{
	WORKQ_WAIT_NOTHING,
	WORKQ_WAIT_OFFERED,			/* a claim may find something */
	WORKQ_WAIT_GONE				/* a queue is not there any more */
} WorkqWaitLook;

extern void workq_sched_wait_shmem_request(void);
extern void workq_sched_wait_shmem_init(void);

/* What a waiter was told and has not used yet. */
typedef struct WorkqWakeUp
{
	int			queue;			/* number; -1 for nothing */
	bool		woken;			/* by somebody, not found by a look */
	bool		chain;			/* to be passed on even if it is used */
} WorkqWakeUp;

/*
 * Enter the queues' lists, or enter them again after a wake-up.  Whatever
 * makes a job claimable from now on sets our latch, if it is our turn.
 * Returns whether these are others than before.
 */
extern bool workq_sched_wait_enter(const WorkqWaitSet *set);

/* Is something there already?  If not: *until, when to look again at last. */
extern WorkqWaitLook workq_sched_wait_look(TimestampTz now,
										   TimestampTz *until);

/*
 * Is there a wake-up that is ours to use?  And is it one of a chain: something
 * is on offer there, maybe not new?
 */
extern bool workq_sched_wait_woken(void);
extern bool workq_sched_wait_in_chain(void);

/*
 * Leave the lists.  served: the queues of which jobs were claimed; what is on
 * offer in others is passed on.  keep: not NULL if the caller will use later
 * what it was woken for or what the last look found; it is told.  Does not
 * fail.
 */
extern void workq_sched_wait_leave(const int *served, int n_served,
								   WorkqWakeUp *keep);
extern void workq_sched_wait_pass_on(int queue);

/* Does this backend wait, or is it between two attempts? */
extern bool workq_sched_wait_entered(void);

/* A job was claimed from this queue; and which was served longest ago. */
extern void workq_sched_served(int queue, TimestampTz now);
extern uint64 workq_sched_last_served(int queue);

/* ---- what transactions change (called by xact.c's callbacks) ---- */

typedef enum WorkqChangeKind
{
	WORKQ_CHANGE_READY_ADD,
	WORKQ_CHANGE_READY_TAKE,
	WORKQ_CHANGE_SELECT,		/* reserved: in flight already */
	WORKQ_CHANGE_CLAIM,			/* the same, and its ready row was taken */
	WORKQ_CHANGE_CLAIM_MOVED,	/* the same, but in flight in another lane: */
	WORKQ_CHANGE_HOLD,			/* there, or moved there: in flight already */
	WORKQ_CHANGE_UNDONE,		/* a SELECT that is not made yet */
	WORKQ_CHANGE_LEASE_ADD,		/* pos is (deadline, job_id) */
	WORKQ_CHANGE_LEASE_MOVE,	/* renewed: pos is the old deadline */
	WORKQ_CHANGE_DEADLINE,		/* renewed: pos is the new deadline */
	WORKQ_CHANGE_LEASE_END,		/* pos as above; a claim ended */
	WORKQ_CHANGE_DUE_ADD,
	WORKQ_CHANGE_DUE_TAKE,
	WORKQ_CHANGE_HELD_ADD,
	WORKQ_CHANGE_HELD_TAKE,
	WORKQ_CHANGE_ENQUEUED,		/* totals */
	WORKQ_CHANGE_DONE,
	WORKQ_CHANGE_FAILED,
	WORKQ_CHANGE_SETTINGS,
	WORKQ_CHANGE_KEY,
	WORKQ_CHANGE_CREATED,
	WORKQ_CHANGE_DROP,
	WORKQ_CHANGE_FOREIGN,
	WORKQ_CHANGE_EXTENSION		/* dropped */
} WorkqChangeKind;

typedef struct WorkqChange
{
	uint8		kind;			/* WorkqChangeKind */
	int8		priority;
	int			queue;			/* -1: not about a queue */
	int			lane;			/* pinned, or one of WORKQ_NO_... */
	bool		promoted;		/* a selection by starvation */
	bool		aged;			/* a claim of a job whose age raised it (fifo) */
	int			count;			/* rows from pos on; pos is the lowest */
	WorkqPos	pos;
} WorkqChange;

/*
 * Make a run of changes of one queue take effect, or be undone.  Does not
 * fail, allocates nothing.
 */
extern void workq_sched_publish(const WorkqChange *changes, int n,
								bool commit);

/* The transaction ends: give its open walks' roles back (an error left them). */
extern void workq_sched_end_walks(SubTransactionId subid);
extern bool workq_sched_has_walks(void);

/* Let our own uncommitted ready rows be found by our own claim. */
extern void workq_sched_offer_own(const WorkqChange *changes, int n);

/* What is set for a key is "row" from now on. */
extern void workq_sched_set_key(int queue, const char *key,
								const WorkqKeyRow *row);
extern void workq_sched_set_settings(int queue, const WorkqSettings *own);

/* They were changed, and the change is undone. */
extern void workq_sched_keep_settings(int queue);
extern void workq_sched_drop_queue(int queue);
extern void workq_sched_set_stale(void);
extern void workq_sched_extension_dropped(void);

/* ---- for views ---- */

typedef struct WorkqCounters
{
	int64		ready;
	int64		scheduled;
	int64		leased;
	int64		held;
	int64		enqueued;		/* totals since loaded */
	int64		selected;
	int64		done;
	int64		failed;
	TimestampTz next_due;		/* DT_NOEND for none; may be too early */
	TimestampTz next_expiry;
	int64		overflows;		/* times that lanes began to be too many */
	bool		overflowing;
} WorkqCounters;

/* False: the queue is not in shared memory, it has no live jobs. */
extern bool workq_sched_counters(int32 queue_id, WorkqCounters *result);

/* ---- the background worker's ---- */

/* It is this process that the instance wakes.  Detaches at exit by itself. */
extern void workq_sched_worker_attach(WorkqInstance *instance);

/*
 * When is something due next (a scheduled job, a lease expiry)?  DT_NOEND for
 * never.  Remembers that the worker sleeps until then, so that an earlier
 * time that comes up wakes it.
 */
extern TimestampTz workq_sched_next_due(WorkqInstance *instance);

/*
 * The id of a queue whose listeners are to be told now that it has ready jobs,
 * or 0; and that they have been.
 */
extern int32 workq_sched_notify_due(int queue, TimestampTz now);
extern void workq_sched_notified(int queue, TimestampTz now);

/* The queues of an instance: fills queue numbers and ids, returns how many. */
extern int	workq_sched_queues(WorkqInstance *instance, int **queues);

/* Give back everything that belongs to databases (or extensions in them)
 * that are gone: all of dbid except keep_relid (InvalidOid: all). */
extern void workq_sched_forget(Oid dbid, Oid keep_relid);

/* The databases that have instances, palloc'd; returns their number. */
extern int	workq_sched_databases(Oid **dbids);

/* ---- job ids (ids.c) ---- */

/*
 * Take up to want job ids in a row that are nobody's, and never were, not even
 * before a crash.  Returns how many, at least one; *first is the first.
 */
extern int	workq_ids_take(WorkqInstance *instance, int want, int64 *first);

#endif							/* WORKQ_SCHED_H */
