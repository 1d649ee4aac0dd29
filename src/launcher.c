/*-------------------------------------------------------------------------
 *
 * launcher.c
 *	  Starts and stops the workers: one for each database that has workq.
 *
 * The launcher compares what is with what should be, each turn, and never
 * relies on having seen an event: a turn comes when a worker starts or ends,
 * when somebody asked for one (registry.h), and at least every NAP.  It
 * belongs to no database and cannot see whether one has the extension; so for
 * a database it knows nothing about it starts a worker that looks:
 *
 *		UNKNOWN --start--> ACTIVE --no extension--> ABSENT
 *		   ^                 |                         |
 *		   +----- ended -----+        looked at again --> UNKNOWN
 *
 * What it knows is in its own memory, for any number of databases; only what
 * others need is shared.  A launcher that dies is started anew by the
 * postmaster, adopts the workers that run and looks at all databases.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "guc.h"
#include "launcher.h"
#include "registry.h"
#include "sched.h"
#include "store_system.h"

#define NAP				60000	/* ms between looks when nothing happens */
#define RESTART_LAUNCHER 2		/* s */
#define MAX_PROBES		2		/* databases looked into at a time */
#define DELAY_MIN		1000	/* ms until a failed start is repeated ... */
#define DELAY_MAX		60000	/* ... growing up to this */
#define LONG_ENOUGH		60000	/* ms a worker runs to count as healthy */

typedef enum DatabaseState
{
	DATABASE_UNKNOWN,
	DATABASE_ACTIVE,
	DATABASE_ABSENT
} DatabaseState;

typedef struct Database
{
	Oid			dbid;			/* hash key */
	DatabaseState state;
	bool		exists;			/* in the last look at pg_database */
	bool		wants_worker;
	bool		had_extension;
	bool		look_again;		/* asked for since the worker started */
	bool		wake;			/* ... and the worker not yet told */
	bool		stopping;
	int			entry;			/* ACTIVE: in the registry */
	uint32		generation;
	BackgroundWorkerHandle *handle; /* ACTIVE: NULL when adopted */
	TimestampTz started_at;
	TimestampTz not_before;
	int			failures;
} Database;

static HTAB *databases = NULL;
static MemoryContext turn_context = NULL;

/* when no worker slot was free */
static bool slots_warned = false;
static TimestampTz slots_not_before = 0;
static int	slots_failures = 0;

void
workq_launcher_init(void)
{
	BackgroundWorker worker;

	if (IsBinaryUpgrade)
		return;
	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = RESTART_LAUNCHER;
	strlcpy(worker.bgw_library_name, "workq", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "workq_launcher_main", BGW_MAXLEN);
	strlcpy(worker.bgw_name, "workq launcher", BGW_MAXLEN);
	strlcpy(worker.bgw_type, "workq launcher", BGW_MAXLEN);
	RegisterBackgroundWorker(&worker);
}

/*
 * How long to wait after this many failures in a row, in microseconds.
 */
static int64
delay(int failures)
{
	int64		ms = (int64) DELAY_MIN << Min(failures, 10);

	return Min(ms, DELAY_MAX) * 1000;
}

static Database *
find_database(Oid dbid)
{
	bool		found;
	Database   *db = hash_search(databases, &dbid, HASH_ENTER, &found);

	if (!found)
	{
		memset(db, 0, sizeof(Database));
		db->dbid = dbid;
	}
	return db;
}

/* ------------------------------------------------------------------------
 * What is
 * ------------------------------------------------------------------------ */

/*
 * Take over the workers that a launcher before us started.
 */
static void
adopt_workers(void)
{
	int			i;

	for (i = 0; i < workq_registry_size(); i++)
	{
		WorkqWorker worker = workq_registry_read(i);

		if (worker.state == WORKQ_WORKER_RUNNING)
		{
			Database   *db = find_database(worker.dbid);

			db->state = DATABASE_ACTIVE;
			db->entry = i;
			db->generation = worker.generation;
			db->had_extension = worker.confirmed;
			db->started_at = GetCurrentTimestamp();
		}
	}
}

/*
 * Look at pg_database.  The list of databases in shared memory is read first:
 * what is in it and not in pg_database afterwards is gone.
 */
static void
read_databases(void)
{
	HASH_SEQ_STATUS status;
	Database   *db;
	WorkqDatabase *list;
	Oid		   *in_memory;
	int			n_in_memory = workq_sched_databases(&in_memory);
	int			n;
	int			i;

	list = workq_system_databases(&n);
	hash_seq_init(&status, databases);
	while ((db = hash_seq_search(&status)) != NULL)
		db->exists = false;
	for (i = 0; i < n; i++)
	{
		db = find_database(list[i].dbid);
		db->exists = true;
		db->wants_worker = list[i].wants_worker;
	}
	for (i = 0; i < n_in_memory; i++)
	{
		db = hash_search(databases, &in_memory[i], HASH_FIND, NULL);
		if (db == NULL || !db->exists)
			workq_sched_forget(in_memory[i], InvalidOid);
	}
}

/*
 * Note what others asked for.
 */
static void
take_requests(void)
{
	Oid			dbids[WORKQ_MAX_REQUESTS];
	bool		all;
	int			n = workq_registry_take_requests(dbids, &all);
	HASH_SEQ_STATUS status;
	Database   *db;
	int			i;

	for (i = 0; i < n; i++)
	{
		db = find_database(dbids[i]);
		db->look_again = db->wake = true;
	}
	if (!all)
		return;
	hash_seq_init(&status, databases);
	while ((db = hash_seq_search(&status)) != NULL)
		db->look_again = db->wake = true;
}

/*
 * A worker is no more: what does that mean for its database?  Its verdict may
 * be older than a request to look again.
 */
static void
worker_ended(Database *db, const WorkqWorker *worker, TimestampTz now)
{
	bool		healthy = TimestampDifferenceExceeds(db->started_at, now,
													 LONG_ENOUGH);
	WorkqVerdict verdict = WORKQ_ENDED_BADLY;

	if (worker->state == WORKQ_WORKER_ENDED)
		verdict = worker->verdict;
	if (worker->confirmed)
		db->had_extension = true;
	if (db->stopping)
		verdict = WORKQ_ENDED_STOPPED;
	db->state = DATABASE_UNKNOWN;
	switch (verdict)
	{
		case WORKQ_ENDED_NOTHING_TO_DO:
			db->had_extension = false;
			db->failures = 0;
			if (!db->look_again)
				db->state = DATABASE_ABSENT;
			break;
		case WORKQ_ENDED_STOPPED:
			db->failures = 0;
			break;
		case WORKQ_ENDED_BADLY:
			if (healthy)
				db->failures = 0;
			db->not_before = now + delay(db->failures++);
			break;
	}
	workq_registry_free(db->entry);
	if (db->handle != NULL)
		pfree(db->handle);
	db->handle = NULL;
	db->stopping = false;
}

/*
 * See which workers ended.  One that never got as far as its entry is known
 * by its handle alone; one that was adopted by its entry alone.
 */
static void
collect_workers(TimestampTz now)
{
	HASH_SEQ_STATUS status;
	Database   *db;

	hash_seq_init(&status, databases);
	while ((db = hash_seq_search(&status)) != NULL)
	{
		WorkqWorker worker;
		pid_t		pid;
		bool		ended;

		if (db->state != DATABASE_ACTIVE)
			continue;
		ended = db->handle != NULL &&
			GetBackgroundWorkerPid(db->handle, &pid) == BGWH_STOPPED;

		/* in this order: it writes its verdict before it is gone */
		worker = workq_registry_read(db->entry);
		if (db->handle == NULL)
			ended = worker.state != WORKQ_WORKER_RUNNING;
		if (ended)
			worker_ended(db, &worker, now);
	}
}

/* ------------------------------------------------------------------------
 * What should be
 * ------------------------------------------------------------------------ */

/*
 * No worker slot: say so once, and try again later.
 */
static void
no_slot(TimestampTz now)
{
	slots_not_before = now + delay(slots_failures++);
	if (slots_warned)
		return;
	slots_warned = true;
	ereport(WARNING,
			(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
			 errmsg("workq could not start a background worker: no worker slot is free"),
			 errdetail("Leases that ran out and delayed jobs wait for the next claim, in at least one database."),
			 errhint("Increase max_worker_processes in postgresql.conf and restart the server.")));
}

static void
start_worker(Database *db, TimestampTz now)
{
	BackgroundWorker worker;
	WorkqWorkerOrder order;
	MemoryContext old;
	bool		started;

	StaticAssertStmt(sizeof(WorkqWorkerOrder) <= BGW_EXTRALEN,
					 "bgw_extra is too small");
	if (now < slots_not_before)
		return;
	if (!workq_registry_reserve(db->dbid, &order))
		return;
	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "workq", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "workq_worker_main", BGW_MAXLEN);
	snprintf(worker.bgw_name, BGW_MAXLEN, "workq worker for database %u",
			 db->dbid);
	strlcpy(worker.bgw_type, "workq worker", BGW_MAXLEN);
	worker.bgw_notify_pid = MyProcPid;
	memcpy(worker.bgw_extra, &order, sizeof(order));

	old = MemoryContextSwitchTo(TopMemoryContext);
	started = RegisterDynamicBackgroundWorker(&worker, &db->handle);
	MemoryContextSwitchTo(old);
	if (!started)
	{
		db->handle = NULL;
		workq_registry_free(order.entry);
		no_slot(now);
		return;
	}
	slots_failures = 0;
	slots_not_before = 0;
	db->state = DATABASE_ACTIVE;
	db->look_again = db->wake = false;
	db->stopping = false;
	db->entry = order.entry;
	db->generation = order.generation;
	db->started_at = now;
}

static void
stop_worker(Database *db)
{
	if (db->stopping)
		return;
	db->stopping = true;
	if (db->handle != NULL)
		TerminateBackgroundWorker(db->handle);
	else
		workq_registry_stop(db->entry, db->generation);
}

/*
 * How many workers are there that have not yet found an extension?
 */
static int
count_probes(void)
{
	HASH_SEQ_STATUS status;
	Database   *db;
	int			n = 0;

	hash_seq_init(&status, databases);
	while ((db = hash_seq_search(&status)) != NULL)
	{
		if (db->state == DATABASE_ACTIVE && !db->had_extension &&
			!workq_registry_read(db->entry).confirmed)
			n++;
	}
	return n;
}

/*
 * Take one database a step towards what it should be.
 */
static void
reconcile(Database *db, TimestampTz now, int *probes)
{
	bool		wanted;

	wanted = db->exists && db->wants_worker && workq_guc_worker_enabled;
	if (db->look_again && db->state == DATABASE_ABSENT)
		db->state = DATABASE_UNKNOWN;
	switch (db->state)
	{
		case DATABASE_ACTIVE:
			if (!wanted)
				stop_worker(db);
			else if (db->wake)
				(void) workq_registry_wake_worker(db->dbid);
			db->wake = false;
			break;
		case DATABASE_UNKNOWN:
			if (!wanted || now < db->not_before ||
				workq_registry_is_marked(db->dbid))
				break;
			if (!db->had_extension && *probes >= MAX_PROBES)
				break;
			start_worker(db, now);
			if (db->state == DATABASE_ACTIVE && !db->had_extension)
				(*probes)++;
			break;
		case DATABASE_ABSENT:
			break;
	}
}

/*
 * Milliseconds until there is something to do that nobody wakes us for.
 */
static long
next_turn(TimestampTz now)
{
	HASH_SEQ_STATUS status;
	Database   *db;
	long		result = NAP;

	if (slots_not_before > now)
		result = Min(result,
					 TimestampDifferenceMilliseconds(now, slots_not_before));
	hash_seq_init(&status, databases);
	while ((db = hash_seq_search(&status)) != NULL)
	{
		if (db->state == DATABASE_UNKNOWN && db->wants_worker &&
			db->not_before > now)
			result = Min(result,
						 TimestampDifferenceMilliseconds(now, db->not_before));
	}
	return result;
}

/*
 * One turn; returns how long to sleep.
 */
static long
take_turn(void)
{
	HASH_SEQ_STATUS status;
	Database   *db;
	TimestampTz now = GetCurrentTimestamp();
	bool		waiting = false;
	int			probes;

	take_requests();
	collect_workers(now);
	read_databases();
	probes = count_probes();
	hash_seq_init(&status, databases);
	while ((db = hash_seq_search(&status)) != NULL)
	{
		reconcile(db, now, &probes);
		if (db->state == DATABASE_UNKNOWN)
			waiting = true;
		if (!db->exists && db->state != DATABASE_ACTIVE)
			(void) hash_search(databases, &db->dbid, HASH_REMOVE, NULL);
	}
	if (!waiting)
		slots_warned = false;
	return next_turn(now);
}

void
workq_launcher_main(Datum main_arg)
{
	HASHCTL		control;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	turn_context = AllocSetContextCreate(TopMemoryContext,
										 "workq launcher turn",
										 ALLOCSET_DEFAULT_SIZES);
	memset(&control, 0, sizeof(control));
	control.keysize = sizeof(Oid);
	control.entrysize = sizeof(Database);
	control.hcxt = TopMemoryContext;
	databases = hash_create("workq databases", 64, &control,
							HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);

	workq_registry_launcher_attach();
	adopt_workers();
	for (;;)
	{
		long		nap;

		/* asleep there is nothing to cancel, and being told to go is no news */
		QueryCancelPending = false;
		if (ProcDiePending)
			proc_exit(1);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		MemoryContextSwitchTo(turn_context);
		nap = take_turn();
		MemoryContextReset(turn_context);

		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, nap,
						 workq_compat_wait_event("workq launcher"));
		ResetLatch(MyLatch);
	}
}
