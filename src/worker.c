/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  The background worker of one database: housekeeping.
 *
 * A turn is a row of short transactions, each of which first makes sure that
 * the extension is there and cannot be dropped meanwhile: load what is not in
 * shared memory yet; make segments if they run out; move due jobs to ready and
 * take back expired leases, a batch at a time; tidy up (upkeep.c).  Then it sleeps, outside any
 * transaction, until the next thing is due or somebody wakes it.
 *
 * It is never in the way.  It waits for the extension's lock not at all and
 * for others for LOCK_TIMEOUT: less than deadlock_timeout by default, so that
 * in a deadlock with DDL it is the worker that gives up.  Giving up is not a
 * failure: it tries again, later and later.  On other errors it dies, and the
 * launcher starts it again, with a growing delay.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "commands/async.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lock.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "compat.h"
#include "guc.h"
#include "lease.h"
#include "queue.h"
#include "registry.h"
#include "sched.h"
#include "segment.h"
#include "store.h"
#include "store_system.h"
#include "upkeep.h"
#include "worker.h"

#define NAP				60000	/* ms between looks when nothing is due */
#define BATCH			1000	/* rows moved in one transaction */
#define LOCK_TIMEOUT	500		/* ms */
#define LOAD_TIMEOUT	10000	/* ms; the same for loading, see load() */
#define RETRY_MIN		50		/* ms until a turn is tried again ... */
#define RETRY_MAX		5000	/* ... growing up to this */

static MemoryContext turn_context = NULL;

/* OID of the workq.queues that we are attached to */
static Oid	attached_to = InvalidOid;

/* ------------------------------------------------------------------------
 * What background processes have in common
 * ------------------------------------------------------------------------ */

/*
 * Complain once about an extension that is not of our version.
 */
static void
report_version(const char *version)
{
	static bool reported = false;

	if (reported)
		return;
	reported = true;
	ereport(LOG,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("workq's library has version %s but the extension in database %u has version %s: nothing is done there",
					WORKQ_VERSION, MyDatabaseId, version),
			 errhint("Type there: ALTER EXTENSION workq UPDATE; and if the library is the older one, restart the server.")));
}

/*
 * Lock the extension against being dropped; false when somebody is at it.  Who
 * creates one has it locked, too (ddl.c), and releases it after the messages
 * that invalidate caches were sent: so once we have the lock, we do not meet
 * the tables of one that was there before.
 */
static bool
lock_extension(Oid extension)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, ExtensionRelationId, extension, 0);
	if (LockAcquire(&tag, AccessShareLock, false, true) ==
		LOCKACQUIRE_NOT_AVAIL)
		return false;
	AcceptInvalidationMessages();
	return true;
}

WorkqTurn
workq_worker_begin(void)
{
	WorkqTurn	result = WORKQ_TURN_ABSENT;
	char	   *version;
	Oid			extension;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	extension = workq_system_extension(&version);
	if (OidIsValid(extension))
	{
		if (!lock_extension(extension))
			result = WORKQ_TURN_BUSY;
		else if (workq_system_extension(&version) != extension)
			result = WORKQ_TURN_BUSY;	/* dropped or made anew just now */
		else if (strcmp(version, WORKQ_VERSION) != 0)
			report_version(version);
		else
			result = WORKQ_TURN_BEGUN;
	}
	PopActiveSnapshot();
	if (result == WORKQ_TURN_BEGUN)
		PushActiveSnapshot(GetTransactionSnapshot());	/* one after the lock */
	else
		CommitTransactionCommand();
	return result;
}

void
workq_worker_end(void)
{
	PopActiveSnapshot();
	CommitTransactionCommand();
}

/*
 * Settings that this version of the server does not have are left alone.
 */
static void
set(const char *name, const char *value)
{
	if (GetConfigOption(name, true, false) != NULL)
		SetConfigOption(name, value, PGC_SUSET, PGC_S_OVERRIDE);
}

void
workq_worker_lock_timeout(int ms)
{
	char		value[16];

	snprintf(value, sizeof(value), "%d", ms);
	set("lock_timeout", value);
}

/*
 * synchronous_commit is off: a commit that a crash loses took back a lease,
 * moved a due job or made a segment, all of which is done again; and whoever
 * builds on it with a commit that is flushed flushes ours before it.  Also it
 * must not wait for a standby that is not there: it has to stop when told to.
 */
void
workq_worker_settings(const char *name)
{
	set("application_name", name);
	set("search_path", "pg_catalog, pg_temp");
	set("synchronous_commit", "off");
	set("default_transaction_isolation", "read committed");
	set("default_transaction_read_only", "off");
	set("default_transaction_deferrable", "off");
	set("statement_timeout", "0");
	set("transaction_timeout", "0");
	set("idle_in_transaction_session_timeout", "0");
	set("session_replication_role", "origin");
	set("row_security", "off");
	workq_worker_lock_timeout(LOCK_TIMEOUT);
}

/* ------------------------------------------------------------------------
 * A turn
 * ------------------------------------------------------------------------ */

/*
 * Has the database become a template since the launcher looked?
 */
static bool
is_template(void)
{
	HeapTuple	tuple;
	bool		result = true;

	StartTransactionCommand();
	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(MyDatabaseId));
	if (HeapTupleIsValid(tuple))
	{
		result = ((Form_pg_database) GETSTRUCT(tuple))->datistemplate;
		ReleaseSysCache(tuple);
	}
	CommitTransactionCommand();
	return result;
}

/*
 * In a transaction of its own: have the live tables loaded into shared memory
 * if they are not, which waits for the transactions that are changing them,
 * and attach to what is there.  After the first time, or when the extension
 * was dropped and created anew, what belonged to an older one is given back.
 *
 * The wait for those transactions is longer than others: claims cannot go on
 * before somebody has loaded, and it is better us than a client who would
 * lose patience every time.
 */
static WorkqTurn
load(WorkqInstance **instance)
{
	WorkqTurn	result;

	workq_worker_lock_timeout(LOAD_TIMEOUT);
	result = workq_worker_begin();
	if (result == WORKQ_TURN_BEGUN)
	{
		Oid			relid = workq_store_oid(WORKQ_REL_QUEUES);

		*instance = workq_sched_instance();
		if (relid != attached_to)
		{
			workq_sched_forget(MyDatabaseId, relid);
			workq_sched_worker_attach(*instance);
			workq_registry_confirm();
			attached_to = relid;
		}
		workq_worker_end();
	}
	workq_worker_lock_timeout(LOCK_TIMEOUT);
	return result;
}

/*
 * Tell the listeners of queues that have ready jobs, in one transaction, and
 * remember it when that is committed: at worst they are told twice.
 */
static WorkqTurn
notify(WorkqInstance *instance)
{
	int		   *queues;
	int			n = workq_sched_queues(instance, &queues);
	TimestampTz now = workq_now();
	WorkqTurn	result = WORKQ_TURN_BEGUN;
	int			told = 0;
	int			i;

	for (i = 0; i < n; i++)
	{
		if (workq_sched_notify_due(queues[i], now) != 0)
			queues[told++] = queues[i];
	}
	if (told > 0)
		result = workq_worker_begin();
	if (told == 0 || result != WORKQ_TURN_BEGUN)
	{
		pfree(queues);
		return result;
	}
	for (i = 0; i < told; i++)
	{
		int32		queue_id = workq_sched_notify_due(queues[i], now);
		WorkqQueueInfo *queue = workq_queue_by_id(queue_id, true);

		if (queue != NULL)
			Async_Notify("workq", queue->name);
	}
	workq_worker_end();
	for (i = 0; i < told; i++)
		workq_sched_notified(queues[i], now);
	pfree(queues);
	return result;
}

/*
 * Do all there is to do now.  *moved counts the rows that were moved.
 */
static WorkqTurn
take_turn(WorkqInstance **instance, bool look_at_segments, int64 *moved)
{
	WorkqTurn	result = load(instance);
	int			batch;
	bool		more;

	do
	{
		CHECK_FOR_INTERRUPTS();
		if (result != WORKQ_TURN_BEGUN)
			return result;
		if (look_at_segments || workq_segment_wanted())
		{
			workq_segment_run();
			workq_worker_lock_timeout(LOCK_TIMEOUT);
		}
		look_at_segments = false;

		result = workq_worker_begin();
		if (result != WORKQ_TURN_BEGUN)
			return result;
		batch = workq_lease_housekeep(*instance, BATCH);
		workq_worker_end();
		*moved += batch;

		result = workq_worker_begin();
		if (result != WORKQ_TURN_BEGUN)
			return result;
		more = workq_upkeep_run(*instance);
		workq_worker_end();
	} while (batch >= BATCH || more);
	return notify(*instance);
}

/*
 * The same, where having to give up in favour of others counts as BUSY.
 */
static WorkqTurn
try_turn(WorkqInstance **instance, bool look_at_segments, int64 *moved)
{
	volatile WorkqTurn result = WORKQ_TURN_BUSY;

	PG_TRY();
	{
		result = take_turn(instance, look_at_segments, moved);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(turn_context);
		error = CopyErrorData();
		if (error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE &&
			error->sqlerrcode != ERRCODE_T_R_DEADLOCK_DETECTED &&
			error->sqlerrcode != ERRCODE_QUERY_CANCELED)
			PG_RE_THROW();
		FlushErrorState();
		AbortCurrentTransaction();
		workq_upkeep_failed();
		MemoryContextSwitchTo(turn_context);
		ereport(DEBUG1,
				(errmsg_internal("workq worker gave up for now: %s",
								 error->message)));
	}
	PG_END_TRY();
	return result;
}

/*
 * Milliseconds until then, by workq's clock.
 */
static long
until(TimestampTz when)
{
	TimestampTz now = workq_now();

	if (when <= now)
		return 0;
	if (when - now >= NAP * INT64CONST(1000))
		return NAP;
	return TimestampDifferenceMilliseconds(now, when);
}

/*
 * Sleep.  Forcing the statistics out first lets autovacuum hear of what we
 * did to the tables.  Returns whether the time ran out.
 */
static bool
sleep_for(long ms)
{
	int			events;

	pgstat_report_stat(true);
	pgstat_report_activity(STATE_IDLE, NULL);
	events = WaitLatch(MyLatch,
					   WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ms,
					   workq_compat_wait_event("workq worker"));
	ResetLatch(MyLatch);
	return (events & WL_TIMEOUT) != 0;
}

/*
 * Take turns for ever, or until there is no extension any more.
 *
 * What is due but cannot be moved, because somebody has its row locked, is
 * looked at later and later, like everything that we gave up for now: whoever
 * lets go of it wakes us anyway.
 */
static void
take_turns(void)
{
	WorkqInstance *instance = NULL;
	bool		look_at_segments = true;
	long		retry = RETRY_MIN;

	for (;;)
	{
		int64		moved = 0;
		long		ms = 0;
		WorkqTurn	turn;

		/* asleep there is nothing to cancel, and being told to go is no news */
		QueryCancelPending = false;
		if (ProcDiePending)
			proc_exit(0);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		MemoryContextSwitchTo(turn_context);
		pgstat_report_activity(STATE_RUNNING, "workq housekeeping");
		turn = try_turn(&instance, look_at_segments, &moved);
		if (turn == WORKQ_TURN_ABSENT)
			return;
		if (turn == WORKQ_TURN_BEGUN)
			ms = workq_upkeep_until(until(workq_sched_next_due(instance)));
		if (ms > 0 || moved > 0)
			retry = RETRY_MIN;
		else
		{
			ms = retry;
			retry = Min(retry * 2, RETRY_MAX);
		}
		look_at_segments = sleep_for(ms) ||
			(turn == WORKQ_TURN_BUSY && look_at_segments);
		MemoryContextSwitchTo(TopMemoryContext);
		MemoryContextReset(turn_context);
	}
}

void
workq_worker_main(Datum main_arg)
{
	WorkqWorkerOrder order;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();

	memcpy(&order, MyBgworkerEntry->bgw_extra, sizeof(order));
	if (!workq_registry_worker_attach(&order))
		return;
	BackgroundWorkerInitializeConnectionByOid(order.dbid, InvalidOid, 0);
	workq_worker_settings("workq worker");
	turn_context = AllocSetContextCreate(TopMemoryContext, "workq worker turn",
										 ALLOCSET_DEFAULT_SIZES);
	if (!RecoveryInProgress() && !is_template())
		take_turns();
	workq_registry_set_verdict(WORKQ_ENDED_NOTHING_TO_DO);
}
