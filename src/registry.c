/*-------------------------------------------------------------------------
 *
 * registry.c
 *	  Who works for which database; see registry.h for the states.
 *
 * One LWLock protects everything.  It is held for microseconds and never
 * while anything is waited for; the transaction callback takes it too.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "registry.h"
#include "workq.h"

#define TRANCHE			"workq registry"
#define MAX_MARKS		128
#define VACATE_WAIT		4000	/* ms; the server itself then waits 5 s */

typedef struct Mark
{
	Oid			dbid;
	int			pid;			/* of the backend whose transaction set it */
} Mark;

typedef struct Registry
{
	ConditionVariable ended;	/* a worker ended */

	/* all below: the lock */
	int			launcher;		/* its procno, -1: none */
	bool		look_at_all;	/* requests[] was too short */
	int			n_requests;
	Oid			requests[WORKQ_MAX_REQUESTS];
	int			n_marks;
	Mark		marks[MAX_MARKS];
	int			n_workers;
	WorkqWorker workers[FLEXIBLE_ARRAY_MEMBER];
} Registry;

static Registry *registry = NULL;
static LWLock *lock = NULL;

/* of this process, when it is a worker */
static int	my_entry = -1;
static WorkqVerdict my_verdict = WORKQ_ENDED_BADLY;

/* what this backend's transaction asks for; reset when it ends */
static bool recheck_asked = false;
static bool extension_changed = false;	/* in this database */
static bool marked = false;

/* ------------------------------------------------------------------------
 * Start
 * ------------------------------------------------------------------------ */

static Size
registry_size(void)
{
	return add_size(offsetof(Registry, workers),
					mul_size(max_worker_processes, sizeof(WorkqWorker)));
}

void
workq_registry_shmem_request(void)
{
	RequestAddinShmemSpace(registry_size());
	RequestNamedLWLockTranche(TRANCHE, 1);
}

/*
 * In the shmem startup hook, under AddinShmemInitLock.
 */
void
workq_registry_shmem_init(void)
{
	bool		found;

	registry = ShmemInitStruct(TRANCHE, registry_size(), &found);
	lock = &GetNamedLWLockTranche(TRANCHE)->lock;
	if (!found)
	{
		memset(registry, 0, registry_size());
		ConditionVariableInit(&registry->ended);
		registry->launcher = -1;
		registry->n_workers = max_worker_processes;
	}
}

/* ------------------------------------------------------------------------
 * The launcher's
 * ------------------------------------------------------------------------ */

/* lock held */
static void
wake_launcher(void)
{
	if (registry->launcher >= 0)
		SetLatch(&ProcGlobal->allProcs[registry->launcher].procLatch);
}

static void
launcher_detach(int code, Datum arg)
{
	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (registry->launcher == workq_compat_my_procno())
		registry->launcher = -1;
	LWLockRelease(lock);
}

void
workq_registry_launcher_attach(void)
{
	int			i;

	on_shmem_exit(launcher_detach, (Datum) 0);
	LWLockAcquire(lock, LW_EXCLUSIVE);
	registry->launcher = workq_compat_my_procno();
	for (i = 0; i < registry->n_workers; i++)
	{
		if (registry->workers[i].state != WORKQ_WORKER_RUNNING)
			registry->workers[i].state = WORKQ_WORKER_FREE;
	}
	LWLockRelease(lock);
}

int
workq_registry_size(void)
{
	return registry->n_workers;
}

WorkqWorker
workq_registry_read(int entry)
{
	WorkqWorker result;

	LWLockAcquire(lock, LW_SHARED);
	result = registry->workers[entry];
	LWLockRelease(lock);
	return result;
}

/* lock held */
static bool
is_marked(Oid dbid)
{
	int			i;

	for (i = 0; i < registry->n_marks; i++)
	{
		if (registry->marks[i].dbid == dbid)
			return true;
	}
	return false;
}

bool
workq_registry_is_marked(Oid dbid)
{
	bool		result;

	LWLockAcquire(lock, LW_SHARED);
	result = is_marked(dbid);
	LWLockRelease(lock);
	return result;
}

bool
workq_registry_reserve(Oid dbid, WorkqWorkerOrder *order)
{
	int			i = registry->n_workers;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (!is_marked(dbid))
	{
		for (i = 0; i < registry->n_workers; i++)
		{
			if (registry->workers[i].state == WORKQ_WORKER_FREE)
				break;
		}
	}
	if (i < registry->n_workers)
	{
		WorkqWorker *worker = &registry->workers[i];
		uint32		generation = worker->generation + 1;

		memset(worker, 0, sizeof(WorkqWorker));
		worker->state = WORKQ_WORKER_STARTING;
		worker->generation = generation;
		worker->dbid = dbid;
		memset(order, 0, sizeof(WorkqWorkerOrder));
		order->entry = i;
		order->generation = generation;
		order->dbid = dbid;
	}
	LWLockRelease(lock);
	return i < registry->n_workers;
}

void
workq_registry_free(int entry)
{
	LWLockAcquire(lock, LW_EXCLUSIVE);
	registry->workers[entry].state = WORKQ_WORKER_FREE;
	LWLockRelease(lock);
	ConditionVariableBroadcast(&registry->ended);
}

/*
 * Lock held exclusively.  The process is there as long as its entry says
 * RUNNING: one that cannot clear it takes the whole server down with it.
 */
static void
stop_worker(WorkqWorker *worker)
{
	worker->stop_requested = true;
	if (worker->state == WORKQ_WORKER_RUNNING)
		kill(worker->pid, SIGTERM);
}

void
workq_registry_stop(int entry, uint32 generation)
{
	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (registry->workers[entry].generation == generation)
		stop_worker(&registry->workers[entry]);
	LWLockRelease(lock);
}

int
workq_registry_take_requests(Oid *dbids, bool *all)
{
	int			i;
	int			n;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	n = registry->n_requests;
	memcpy(dbids, registry->requests, n * sizeof(Oid));
	*all = registry->look_at_all;
	registry->n_requests = 0;
	registry->look_at_all = false;

	/* marks go with their transaction; that of a process that is gone went */
	for (i = registry->n_marks - 1; i >= 0; i--)
	{
		if (BackendPidGetProc(registry->marks[i].pid) == NULL)
			registry->marks[i] = registry->marks[--registry->n_marks];
	}
	LWLockRelease(lock);
	return n;
}

/* ------------------------------------------------------------------------
 * A worker's
 * ------------------------------------------------------------------------ */

/*
 * Runs after the process has left its database, so whoever waits for that
 * finds the database free.
 */
static void
worker_detach(int code, Datum arg)
{
	WorkqWorker *worker = &registry->workers[my_entry];

	LWLockAcquire(lock, LW_EXCLUSIVE);
	worker->state = WORKQ_WORKER_ENDED;
	worker->verdict = worker->stop_requested ? WORKQ_ENDED_STOPPED : my_verdict;
	worker->pid = 0;
	wake_launcher();
	LWLockRelease(lock);
	ConditionVariableBroadcast(&registry->ended);
}

bool
workq_registry_worker_attach(const WorkqWorkerOrder *order)
{
	WorkqWorker *worker;
	bool		ours;
	bool		run = false;

	Assert(order->entry >= 0 && order->entry < registry->n_workers);
	worker = &registry->workers[order->entry];
	LWLockAcquire(lock, LW_EXCLUSIVE);
	ours = worker->state == WORKQ_WORKER_STARTING &&
		worker->generation == order->generation;
	if (ours)
	{
		run = !worker->stop_requested && !is_marked(order->dbid);
		worker->stop_requested = !run;
		worker->state = WORKQ_WORKER_RUNNING;
		worker->pid = MyProcPid;
		worker->procno = workq_compat_my_procno();
	}
	LWLockRelease(lock);
	if (ours)
	{
		my_entry = order->entry;
		on_shmem_exit(worker_detach, (Datum) 0);
	}
	return run;
}

void
workq_registry_confirm(void)
{
	LWLockAcquire(lock, LW_EXCLUSIVE);
	registry->workers[my_entry].confirmed = true;
	wake_launcher();
	LWLockRelease(lock);
}

void
workq_registry_set_verdict(WorkqVerdict verdict)
{
	my_verdict = verdict;
}

/* ------------------------------------------------------------------------
 * Everybody's
 * ------------------------------------------------------------------------ */

bool
workq_registry_wake_worker(Oid dbid)
{
	int			i;

	LWLockAcquire(lock, LW_SHARED);
	for (i = 0; i < registry->n_workers; i++)
	{
		WorkqWorker *worker = &registry->workers[i];

		if (worker->dbid == dbid && worker->confirmed &&
			worker->state == WORKQ_WORKER_RUNNING && !worker->stop_requested)
		{
			SetLatch(&ProcGlobal->allProcs[worker->procno].procLatch);
			break;
		}
	}
	LWLockRelease(lock);
	return i < registry->n_workers;
}

void
workq_registry_recheck(Oid dbid)
{
	Assert(!OidIsValid(dbid) || dbid == MyDatabaseId);
	recheck_asked = true;
	if (OidIsValid(dbid))
		extension_changed = true;
}

/* lock held */
static bool
has_worker(Oid dbid)
{
	int			i;

	for (i = 0; i < registry->n_workers; i++)
	{
		WorkqWorker *worker = &registry->workers[i];

		if (worker->dbid == dbid &&
			(worker->state == WORKQ_WORKER_STARTING ||
			 worker->state == WORKQ_WORKER_RUNNING))
			return true;
	}
	return false;
}

static bool
is_vacant(Oid dbid)
{
	bool		result;

	LWLockAcquire(lock, LW_SHARED);
	result = !has_worker(dbid);
	LWLockRelease(lock);
	return result;
}

/*
 * With more marks than there is room for, the worker is stopped without one:
 * it may come back too early and make the command fail, as any session would.
 */
void
workq_registry_vacate(Oid dbid)
{
	TimestampTz end;
	bool		vacant;
	int			i;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	marked = true;
	recheck_asked = true;
	if (registry->n_marks < MAX_MARKS)
	{
		registry->marks[registry->n_marks].dbid = dbid;
		registry->marks[registry->n_marks].pid = MyProcPid;
		registry->n_marks++;
	}
	for (i = 0; i < registry->n_workers; i++)
	{
		if (registry->workers[i].dbid == dbid)
			stop_worker(&registry->workers[i]);
	}
	vacant = !has_worker(dbid);
	LWLockRelease(lock);
	if (vacant)
		return;

	end = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), VACATE_WAIT);
	ConditionVariablePrepareToSleep(&registry->ended);
	while (!is_vacant(dbid) && GetCurrentTimestamp() < end)
		(void) ConditionVariableTimedSleep(&registry->ended, 100,
										   workq_compat_wait_event("workq worker exit"));
	ConditionVariableCancelSleep();
}

/* lock held */
static void
add_request(Oid dbid)
{
	int			i;

	for (i = 0; i < registry->n_requests; i++)
	{
		if (registry->requests[i] == dbid)
			return;
	}
	if (registry->n_requests < WORKQ_MAX_REQUESTS)
		registry->requests[registry->n_requests++] = dbid;
	else
		registry->look_at_all = true;
}

/*
 * The transaction ended, one way or the other: its marks go, and the launcher
 * looks at what has become of it.  At commit its effects are visible to
 * others by now, though its locks are still held: a worker that meets them
 * tries again.  Takes no memory, cannot fail.
 */
static void
at_xact(XactEvent event, void *arg)
{
	int			i;

	if (!recheck_asked)
		return;
	switch (event)
	{
		case XACT_EVENT_PRE_PREPARE:

			/* nobody would tell the launcher about COMMIT PREPARED */
			if (extension_changed)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot PREPARE a transaction that has created, altered or dropped extension \"workq\"")));
			return;
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
			return;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			break;
	}

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (marked)
	{
		for (i = registry->n_marks - 1; i >= 0; i--)
		{
			if (registry->marks[i].pid == MyProcPid)
				registry->marks[i] = registry->marks[--registry->n_marks];
		}
	}
	if (extension_changed)
		add_request(MyDatabaseId);
	wake_launcher();
	LWLockRelease(lock);
	recheck_asked = extension_changed = marked = false;
}

void
workq_registry_init(void)
{
	RegisterXactCallback(at_xact, NULL);
}
