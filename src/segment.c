/*-------------------------------------------------------------------------
 *
 * segment.c
 *	  Segments of the event log: which tables hold a job, and asking for more.
 *
 * Each backend caches workq.segments.  A cached segment is forgotten by way of
 * the relcache callback when one of its tables changes or goes; that there
 * are new ones is noticed when an id is not found, so nobody is told.
 *
 * Segments are made in transactions of their own, because the locks that this
 * takes would otherwise last as long as some user's transaction.  Who needs
 * one asks the database's worker, or, when there is none or it does not get
 * to it, starts a process that makes it and ends (workq_segment_main); then
 * it waits.  At most one such process runs per database, and a lock on
 * workq.segments keeps it and the worker apart.
 *
 * A run is one attempt to make all that is missing.  Runs are numbered, so
 * that a waiter knows whether a failed run began after it had asked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "tcop/tcopprot.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "registry.h"
#include "segment.h"
#include "store.h"
#include "store_system.h"
#include "worker.h"

#define TRANCHE			"workq segments"
#define LOCK_TIMEOUT	2000	/* ms a maker waits for a lock */
#define WORKER_TIMEOUT	3000	/* ms until the worker counts as busy */
#define SLOT_TIMEOUT	5000	/* ms to wait for a free worker slot */
#define WAIT_TIMEOUT	30000	/* ms without progress until an enqueue fails */
#define PROCESS_TIMEOUT 15000	/* ms after which a process is given up */
#define MAX_MAKERS		64
#define MAX_MESSAGE		256

/* The making of segments in one database. */
typedef struct Maker
{
	Oid			dbid;			/* InvalidOid: free */
	bool		wanted;			/* asked for since the last run began */
	uint32		started;		/* number of the last run begun ... */
	uint32		finished;		/* ... and ended */
	int			sqlerrcode;		/* how that ended; 0: well */
	char		message[MAX_MESSAGE];
	TimestampTz process_since;	/* a process runs, or starts; 0: none */
	TimestampTz used_at;
} Maker;

typedef struct Shared
{
	ConditionVariable made;		/* something changed in makers[] */
	Maker		makers[MAX_MAKERS]; /* the lock */
} Shared;

static Shared *shared = NULL;
static LWLock *lock = NULL;

/* ------------------------------------------------------------------------
 * The cache
 * ------------------------------------------------------------------------ */

static WorkqSegment *segments = NULL;	/* by from_id; OIDs found when needed */
static int	n_segments = 0;
static bool segments_valid = false;
static Oid	segments_relid = InvalidOid;
static int64 comfortable = 0;	/* ids below: all there, nothing to ask for */

/*
 * Relcache callback: a table of ours changed, or everything may have.
 */
static void
forget_segments(Datum arg, Oid relid)
{
	int			i;

	if (!segments_valid)
		return;
	if (relid == InvalidOid || relid == segments_relid)
	{
		segments_valid = false;
		return;
	}
	for (i = 0; i < n_segments; i++)
	{
		if (segments[i].jobs == relid || segments[i].claims == relid ||
			segments[i].responses == relid)
			segments_valid = false;
	}
}

static int
compare_segments(const void *a, const void *b)
{
	int64		x = ((const WorkqSegment *) a)->from_id;
	int64		y = ((const WorkqSegment *) b)->from_id;

	return (x > y) - (x < y);
}

/*
 * The cached segment of an id, or NULL.
 */
static WorkqSegment *
search(int64 job_id)
{
	int			low = 0;
	int			high = n_segments;

	while (low < high)
	{
		int			middle = low + (high - low) / 2;

		if (segments[middle].to_id <= job_id)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < n_segments && segments[low].from_id <= job_id)
		return &segments[low];
	return NULL;
}

/*
 * Read workq.segments.  While the cache is valid what it knows about tables
 * stays known.
 */
static void
read_segments(void)
{
	Oid			relid = workq_store_oid(WORKQ_REL_SEGMENTS);
	WorkqSegment *list;
	WorkqSegment *copy;
	bool		keep;
	int			n;
	int			i;

	/* a change that comes while we read resets it */
	keep = segments_valid && segments_relid == relid;
	segments_valid = true;
	segments_relid = relid;
	list = workq_system_segments(relid, &n);
	keep = keep && segments_valid;
	qsort(list, n, sizeof(WorkqSegment), compare_segments);
	for (i = 0; keep && i < n; i++)
	{
		WorkqSegment *old = search(list[i].from_id);

		if (old != NULL && old->segment == list[i].segment)
		{
			list[i].jobs = old->jobs;
			list[i].claims = old->claims;
			list[i].responses = old->responses;
		}
	}

	copy = MemoryContextAlloc(TopMemoryContext,
							  Max(n, 1) * sizeof(WorkqSegment));
	memcpy(copy, list, n * sizeof(WorkqSegment));
	pfree(list);
	if (segments != NULL)
		pfree(segments);
	segments = copy;
	n_segments = n;
	comfortable = n > 0 ? segments[n - 1].from_id : 0;
}

/*
 * Find the tables of a segment; false if they are not there.
 */
static bool
resolve(WorkqSegment *segment)
{
	Oid			nsp;
	char		name[NAMEDATALEN];
	WorkqSegment found = *segment;

	/*
	 * The row may have become visible before the message that invalidates our
	 * snapshot of the catalog has come.
	 */
	InvalidateCatalogSnapshot();
	nsp = get_namespace_oid(WORKQ_SCHEMA, false);
	snprintf(name, sizeof(name), "jobs_%d", found.segment);
	found.jobs = get_relname_relid(name, nsp);
	snprintf(name, sizeof(name), "claims_%d", found.segment);
	found.claims = get_relname_relid(name, nsp);
	snprintf(name, sizeof(name), "responses_%d", found.segment);
	found.responses = get_relname_relid(name, nsp);
	if (!OidIsValid(found.jobs) || !OidIsValid(found.claims) ||
		!OidIsValid(found.responses))
		return false;
	*segment = found;
	return true;
}

bool
workq_segment_find(int64 job_id, WorkqSegment *result)
{
	bool		fresh = false;
	WorkqSegment *segment;

	for (;;)
	{
		if (!segments_valid)
		{
			read_segments();
			fresh = true;
		}
		segment = search(job_id);
		if (segment != NULL &&
			(OidIsValid(segment->jobs) || resolve(segment)))
		{
			*result = *segment;
			return true;
		}
		if (fresh)
			return false;
		segments_valid = false;
	}
}

bool
workq_segment_next(int64 job_id, WorkqSegment *result)
{
	int			i;

	if (job_id == 0 || !segments_valid)
		read_segments();
	for (i = 0; i < n_segments; i++)
	{
		if (segments[i].to_id > job_id &&
			(OidIsValid(segments[i].jobs) || resolve(&segments[i])))
		{
			*result = segments[i];
			return true;
		}
	}
	return false;
}

static bool
covers(int64 job_id)
{
	return n_segments > 0 && job_id < segments[n_segments - 1].to_id;
}

/* ------------------------------------------------------------------------
 * Asking for segments
 * ------------------------------------------------------------------------ */

/*
 * In the caller's own transaction.  The tables must not become members of an
 * extension whose script happens to be running.
 */
static void
make_inline(int64 upto)
{
	if (creating_extension)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot enqueue in an extension's script right after creating extension \"workq\"")));
	while (workq_segment_make(true))
		CHECK_FOR_INTERRUPTS();
	read_segments();
	if (!covers(upto))
		elog(ERROR, "no segment for job " INT64_FORMAT, upto);
}

/*
 * The entry of this database; the one not used for longest makes room.  Lock
 * held exclusively.
 */
static Maker *
my_maker(void)
{
	Maker	   *oldest = &shared->makers[0];
	int			i;

	for (i = 0; i < MAX_MAKERS; i++)
	{
		Maker	   *maker = &shared->makers[i];

		if (maker->dbid == MyDatabaseId)
			return maker;
		if (maker->used_at < oldest->used_at)
			oldest = maker;
	}
	memset(oldest, 0, sizeof(Maker));
	oldest->dbid = MyDatabaseId;
	return oldest;
}

static Maker
read_maker(void)
{
	Maker		result;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	result = *my_maker();
	LWLockRelease(lock);
	return result;
}

/*
 * Ask for segments.  Returns the number of the first run that begins later.
 */
static uint32
ask(void)
{
	Maker	   *maker;
	uint32		result;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	maker = my_maker();
	maker->wanted = true;
	maker->used_at = GetCurrentTimestamp();
	result = maker->started + 1;
	LWLockRelease(lock);
	return result;
}

bool
workq_segment_wanted(void)
{
	bool		result = false;
	int			i;

	LWLockAcquire(lock, LW_SHARED);
	for (i = 0; i < MAX_MAKERS; i++)
	{
		if (shared->makers[i].dbid == MyDatabaseId)
			result = shared->makers[i].wanted;
	}
	LWLockRelease(lock);
	return result;
}

/*
 * Say that no process makes segments (that was started at this time).
 */
static void
clear_process(TimestampTz since)
{
	Maker	   *maker;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	maker = my_maker();
	if (since == 0 || maker->process_since == since)
		maker->process_since = 0;
	LWLockRelease(lock);
}

/*
 * Start a process that makes segments, unless one is at it.  *since is set
 * when it is ours.  False: no worker slot is free.
 */
static bool
start_process(BackgroundWorkerHandle **handle, TimestampTz *since)
{
	TimestampTz now = GetCurrentTimestamp();
	BackgroundWorker worker;
	Maker	   *maker;
	bool		busy;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	maker = my_maker();
	busy = maker->process_since != 0 &&
		!TimestampDifferenceExceeds(maker->process_since, now,
									PROCESS_TIMEOUT);
	if (!busy)
		maker->process_since = now;
	LWLockRelease(lock);
	if (busy)
		return true;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "workq", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "workq_segment_main", BGW_MAXLEN);
	snprintf(worker.bgw_name, BGW_MAXLEN,
			 "workq segment maker for database %u", MyDatabaseId);
	strlcpy(worker.bgw_type, "workq segment maker", BGW_MAXLEN);
	worker.bgw_main_arg = ObjectIdGetDatum(MyDatabaseId);
	worker.bgw_notify_pid = MyProcPid;
	if (!RegisterDynamicBackgroundWorker(&worker, handle))
	{
		clear_process(now);
		return false;
	}
	*since = now;
	return true;
}

static void
no_segment(int64 upto, const char *why, const char *hint)
{
	ConditionVariableCancelSleep();
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("could not make a segment of workq's log for job "
					INT64_FORMAT, upto),
			 errdetail("%s", why),
			 hint != NULL ? errhint("%s", hint) : 0));
}

/*
 * Has the run that we wait for ended, and well?  Raises if it is of no use to
 * try again.
 */
static bool
run_ended(const Maker *maker, uint32 ticket, int64 upto, int *runs)
{
	if ((int32) (maker->finished - ticket) < 0)
		return false;
	if ((maker->sqlerrcode != 0 &&
		 maker->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE) || ++*runs > 100)
		no_segment(upto, maker->message, NULL);
	return true;
}

/*
 * Wait until somebody has made the segments up to this id.
 */
static void
wait_for_segment(int64 upto)
{
	TimestampTz began = GetCurrentTimestamp();
	TimestampTz progress = began;
	TimestampTz since = 0;
	int			n_before = n_segments;
	BackgroundWorkerHandle *handle = NULL;
	int			runs = 0;
	uint32		ticket = ask();
	bool		has_worker = workq_registry_wake_worker(MyDatabaseId);

	ConditionVariablePrepareToSleep(&shared->made);
	for (;;)
	{
		Maker		maker = read_maker();
		TimestampTz now = GetCurrentTimestamp();
		pid_t		pid;

		/* in this order: a run that had ended before has left its rows */
		read_segments();
		if (covers(upto))
			break;
		if (run_ended(&maker, ticket, upto, &runs))
		{
			ticket = ask();
			(void) workq_registry_wake_worker(MyDatabaseId);
		}
		if (n_segments != n_before)
			progress = now;
		n_before = n_segments;
		if (TimestampDifferenceExceeds(progress, now, WAIT_TIMEOUT))
			no_segment(upto, maker.sqlerrcode != 0 ? maker.message :
					   "Nobody has made it in time.", NULL);
		if (handle != NULL &&
			GetBackgroundWorkerPid(handle, &pid) == BGWH_STOPPED)
		{
			clear_process(since);
			handle = NULL;
		}
		if (handle == NULL &&
			(!has_worker ||
			 TimestampDifferenceExceeds(began, now, WORKER_TIMEOUT)) &&
			!start_process(&handle, &since) &&
			TimestampDifferenceExceeds(began, now, SLOT_TIMEOUT))
			no_segment(upto, "No worker slot is free.",
					   "Increase max_worker_processes in postgresql.conf and restart the server.");
		(void) ConditionVariableTimedSleep(&shared->made, 200,
										   workq_compat_wait_event("workq segment"));
	}
	ConditionVariableCancelSleep();
}

void
workq_segment_ensure(int64 upto)
{
	if (segments_valid && upto < comfortable)
		return;

	read_segments();
	if (!covers(upto))
	{
		if (workq_store_is_new() || !IsUnderPostmaster)
			make_inline(upto);
		else
			wait_for_segment(upto);
	}
	else if (upto >= comfortable)
	{
		/* there is none beyond this one: let the worker know, but only once */
		comfortable = segments[n_segments - 1].to_id;
		(void) ask();
		(void) workq_registry_wake_worker(MyDatabaseId);
	}
}

/* ------------------------------------------------------------------------
 * Makers
 * ------------------------------------------------------------------------ */

/*
 * A run begins; *asked: an enqueuer is waiting for it.
 */
static uint32
begin_run(bool *asked)
{
	Maker	   *maker;
	uint32		result;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	maker = my_maker();
	*asked = maker->wanted;
	maker->wanted = false;
	maker->used_at = GetCurrentTimestamp();
	result = ++maker->started;
	LWLockRelease(lock);
	return result;
}

/*
 * A run ended; NULL: well.  Logs what went wrong, but not again and again.
 */
static void
end_run(uint32 number, int sqlerrcode, const char *message)
{
	Maker	   *maker;
	bool		news;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	maker = my_maker();
	news = sqlerrcode != 0 && sqlerrcode != maker->sqlerrcode;
	if ((int32) (number - maker->finished) > 0)
		maker->finished = number;
	maker->sqlerrcode = sqlerrcode;
	strlcpy(maker->message, message, MAX_MESSAGE);
	LWLockRelease(lock);
	ConditionVariableBroadcast(&shared->made);
	if (news)
		ereport(LOG,
				(errcode(sqlerrcode),
				 errmsg("workq could not make segments of its log in database %u: %s",
						MyDatabaseId, message)));
}

static WorkqTurn
make_all(bool asked)
{
	bool		more = true;

	while (more)
	{
		WorkqTurn	turn = workq_worker_begin();

		if (turn != WORKQ_TURN_BEGUN)
			return turn;
		more = workq_segment_make(asked);
		workq_worker_end();
		ConditionVariableBroadcast(&shared->made);
		CHECK_FOR_INTERRUPTS();
	}
	return WORKQ_TURN_BEGUN;
}

void
workq_segment_run(void)
{
	MemoryContext context = CurrentMemoryContext;
	bool		asked;
	uint32		number = begin_run(&asked);
	volatile WorkqTurn turn = WORKQ_TURN_BEGUN;
	ErrorData  *volatile error = NULL;

	workq_worker_lock_timeout(LOCK_TIMEOUT);
	PG_TRY();
	{
		turn = make_all(asked);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		AbortCurrentTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);

	if (error != NULL)
		end_run(number, error->sqlerrcode, error->message);
	else if (turn == WORKQ_TURN_BUSY)
		end_run(number, ERRCODE_LOCK_NOT_AVAILABLE,
				"The extension is being altered or dropped.");
	else if (turn == WORKQ_TURN_ABSENT)
		end_run(number, ERRCODE_UNDEFINED_OBJECT,
				"There is no extension of this version.");
	else
		end_run(number, 0, "");
}

/*
 * A process that makes segments ended, in whatever way.
 */
static void
process_ended(int code, Datum arg)
{
	clear_process(0);
	ConditionVariableBroadcast(&shared->made);
}

/*
 * Main function of the process that an enqueuer starts.
 */
void
workq_segment_main(Datum main_arg)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(main_arg),
											  InvalidOid, 0);
	before_shmem_exit(process_ended, (Datum) 0);
	workq_worker_settings("workq segment maker");
	MemoryContextSwitchTo(AllocSetContextCreate(TopMemoryContext,
												"workq segment maker",
												ALLOCSET_DEFAULT_SIZES));
	workq_segment_run();
}

/* ------------------------------------------------------------------------
 * Start
 * ------------------------------------------------------------------------ */

void
workq_segment_shmem_request(void)
{
	RequestAddinShmemSpace(sizeof(Shared));
	RequestNamedLWLockTranche(TRANCHE, 1);
}

/*
 * In the shmem startup hook, under AddinShmemInitLock.
 */
void
workq_segment_shmem_init(void)
{
	bool		found;

	shared = ShmemInitStruct(TRANCHE, sizeof(Shared), &found);
	lock = &GetNamedLWLockTranche(TRANCHE)->lock;
	if (!found)
	{
		memset(shared, 0, sizeof(Shared));
		ConditionVariableInit(&shared->made);
	}
}

void
workq_segment_init(void)
{
	CacheRegisterRelcacheCallback(forget_segments, (Datum) 0);
}
