/*-------------------------------------------------------------------------
 *
 * registry.h
 *	  Who works for which database: the memory that the launcher, its workers
 *	  and DDL share.
 *
 * A worker's entry goes
 *
 *		FREE -> STARTING -> RUNNING -> ENDED -> FREE
 *
 * The launcher reserves it (STARTING) before it registers the worker, the
 * worker takes it (RUNNING) before it connects to its database and leaves a
 * verdict in it when it exits (ENDED); the launcher reads that and frees it.
 * A launcher that starts anew frees what is STARTING: a worker that then
 * comes for an entry of an older generation exits.  RUNNING workers outlive
 * their launcher, and the next one adopts them.
 *
 * A mark says that some transaction needs a database to itself; it goes at
 * the end of that transaction.  No worker is started while there is one.
 *
 * All of it is a hint: zeroed, it comes right again.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_REGISTRY_H
#define WORKQ_REGISTRY_H

typedef enum WorkqWorkerState
{
	WORKQ_WORKER_FREE,
	WORKQ_WORKER_STARTING,
	WORKQ_WORKER_RUNNING,
	WORKQ_WORKER_ENDED
} WorkqWorkerState;

typedef enum WorkqVerdict
{
	WORKQ_ENDED_BADLY,			/* the default: error, crash, signal */
	WORKQ_ENDED_NOTHING_TO_DO,	/* no extension there, or not our version */
	WORKQ_ENDED_STOPPED			/* for DDL, or by the launcher */
} WorkqVerdict;

typedef struct WorkqWorker
{
	WorkqWorkerState state;
	WorkqVerdict verdict;
	Oid			dbid;
	uint32		generation;		/* changes with every use of the entry */
	int			pid;			/* RUNNING */
	int			procno;			/* RUNNING */
	bool		confirmed;		/* it found the extension */
	bool		stop_requested;
} WorkqWorker;

/* What a worker is told at its registration. */
typedef struct WorkqWorkerOrder
{
	int			entry;
	uint32		generation;
	Oid			dbid;
} WorkqWorkerOrder;

extern void workq_registry_shmem_request(void);
extern void workq_registry_shmem_init(void);
extern void workq_registry_init(void);

/* ---- the launcher's ---- */

/* This process is the launcher: wake it from now on.  Frees entries left
 * STARTING or ENDED by a launcher before it. */
extern void workq_registry_launcher_attach(void);

extern int	workq_registry_size(void);
extern WorkqWorker workq_registry_read(int entry);

/* Reserve an entry; false: none is free, or the database is marked. */
extern bool workq_registry_reserve(Oid dbid, WorkqWorkerOrder *order);
extern void workq_registry_free(int entry);

/* SIGTERM a worker that runs, if it is still this one. */
extern void workq_registry_stop(int entry, uint32 generation);

/* Is there a mark on this database? */
extern bool workq_registry_is_marked(Oid dbid);

#define WORKQ_MAX_REQUESTS	64

/* What was asked for since the last call: fills dbids (room for
 * WORKQ_MAX_REQUESTS), returns how many; *all: look at every database. */
extern int	workq_registry_take_requests(Oid *dbids, bool *all);

/* ---- a worker's ---- */

/* Take the entry.  False: it is not ours any more, or not to run now. */
extern bool workq_registry_worker_attach(const WorkqWorkerOrder *order);

/* It found the extension. */
extern void workq_registry_confirm(void);

/* What it will leave behind when it exits. */
extern void workq_registry_set_verdict(WorkqVerdict verdict);

/* ---- everybody's ---- */

/* Wake the worker of a database.  False: no confirmed one runs. */
extern bool workq_registry_wake_worker(Oid dbid);

/*
 * Ask the launcher to look again when the current transaction ends, at the
 * databases in general and at dbid's extension in particular (InvalidOid: in
 * no one's).
 */
extern void workq_registry_recheck(Oid dbid);

/*
 * Let nobody work in this database until the current transaction ends: mark
 * it, SIGTERM its worker and wait a moment until it is gone.
 */
extern void workq_registry_vacate(Oid dbid);

#endif							/* WORKQ_REGISTRY_H */
