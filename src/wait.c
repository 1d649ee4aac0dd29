/*-------------------------------------------------------------------------
 *
 * wait.c
 *	  Sleeping until there is something to claim: wait => on claims, and the
 *	  procedures workq_wait and workq_await.
 *
 * sched_wait.c has the lists and says who is woken.  Here is the sleeping: on
 * the process latch, without LWLock, reservation or relation lock that the
 * call took.  Each attempt runs under a resource owner of its own, so that
 * its locks, on the loader's gate above all, can be given back when it found
 * nothing and wrote nothing.
 *
 * When something is on offer and yet an attempt gets nothing, because a
 * foreign transaction has locked the row, say, we look again after a while,
 * later and later: nobody would tell us.
 *
 * The procedures, called outside a transaction block, commit before they
 * sleep, so that they hold no snapshot.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "tcop/dest.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "access.h"
#include "args.h"
#include "compat.h"
#include "guc.h"
#include "job.h"
#include "queue.h"
#include "store.h"
#include "wait.h"
#include "xact.h"

#define BACKOFF_MIN		10		/* ms until what could not be had is tried */
#define BACKOFF_MAX		1000	/* again; doubles up to this */

/*
 * As in libpq/libpq.h, which cannot be included: it wants headers of libraries
 * with which the server was built and that need not be here.
 */
extern PGDLLIMPORT WaitEventSet *FeBeWaitSet;

#define FEBE_SOCKET_POS	0		/* FeBeWaitSetSocketPos */

/* of workq_wait: as long as what it announces is not claimed */
static long fruitless = 0;

/*
 * What workq_wait has told its caller.  It is the caller's to use.  If it has
 * not tried when it waits again it is passed on, lest a session that waits and
 * never claims keeps wake-ups from others; if it has, and got nothing, then
 * there is nothing, or it looks again from time to time as a waiter does.
 */
static WorkqWakeUp promised = {-1, false, false};

static void
pass_on_promised(void)
{
	if (promised.queue >= 0)
		workq_sched_wait_pass_on(promised.queue);
	promised.queue = -1;
}

void
workq_wait_claimed(const int *served, int n_served)
{
	int			i;

	fruitless = 0;
	for (i = 0; i < n_served && served[i] != promised.queue; i++)
		;
	if (i == n_served || promised.chain)
		pass_on_promised();
	promised.queue = -1;
}

void
workq_wait_tried(const int *tried, int n_tried)
{
	int			i;

	for (i = 0; i < n_tried; i++)
	{
		if (tried[i] == promised.queue)
			promised.woken = false;
	}
}

bool
workq_wait_looks_again(int queue)
{
	return workq_sched_wait_entered() || promised.queue == queue;
}

/* ------------------------------------------------------------------------
 * Sleeping
 * ------------------------------------------------------------------------ */

static uint32
wait_event(void)
{
	static uint32 event = 0;

	if (event == 0)
		event = workq_compat_wait_event("workq wait");
	return event;
}

/*
 * Sleep on the latch and, where the system can tell that the client goes away,
 * on its socket; elsewhere client_connection_check_interval does that.
 */
static void
wait_for_latch(long ms)
{
	WaitEvent	events[3];
	int			n;
	int			i;

	if (FeBeWaitSet == NULL || whereToSendOutput != DestRemote ||
		workq_compat_socket_closed() == 0)
	{
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ms,
						 wait_event());
		return;
	}

	/* as pq_check_connection does: who uses the set says what it waits for */
	ModifyWaitEvent(FeBeWaitSet, FEBE_SOCKET_POS,
					workq_compat_socket_closed(), NULL);
	n = WaitEventSetWait(FeBeWaitSet, ms, events, lengthof(events),
						 wait_event());
	for (i = 0; i < n; i++)
	{
		if (events[i].events & WL_POSTMASTER_DEATH)
			proc_exit(1);
		if (events[i].events & workq_compat_socket_closed())
		{
			ClientConnectionLost = true;
			InterruptPending = true;
		}
	}
}

static void
sleep_for(long ms)
{
	wait_for_latch(ms);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/*
 * Milliseconds from now until then, rounded up.
 */
static long
ms_until(TimestampTz now, TimestampTz then)
{
	if (then <= now)
		return 0;
	if (then - now >= WORKQ_MAX_WAIT)
		return WORKQ_MAX_WAIT / 1000;
	return (then - now + 999) / 1000;
}

/*
 * At an error and at exit: leave the lists, pass a wake-up on.
 */
static void
leave_at_error(int code, Datum arg)
{
	workq_sched_wait_leave(NULL, 0, NULL);
}

/*
 * Sleep, without a transaction's snapshot and locks if it may be ended.
 */
static void
sleep_outside(const WorkqWait *wait, long ms)
{
	if (wait->commits)
	{
		SPI_commit();
		SPI_start_transaction();	/* of 14.2 and before */
	}
	sleep_for(ms);
}

static long
longer(long backoff)
{
	return Min(Max(backoff * 2, BACKOFF_MIN), BACKOFF_MAX);
}

/*
 * A wake-up that was passed on tells of nothing new.  If what we were told
 * last was of no use, we take our time, else two sessions that wait and never
 * claim would toss it to each other without end.
 */
static bool
must_rest(const WorkqWait *wait)
{
	return wait->keeps && wait->backoff != 0 && workq_sched_wait_in_chain();
}

/*
 * Something is on offer that could not be had the last time.  Returns how many
 * ms to wait until it is time to try again; *end: when that is, 0 if we begin
 * to wait now.  A latch that is set meanwhile does not make it shorter.
 */
static long
rest(WorkqWait *wait, TimestampTz *end)
{
	TimestampTz now = GetCurrentTimestamp();

	if (*end == 0)
		*end = now + wait->backoff * 1000;
	if (now < *end)
		return ms_until(now, *end);
	wait->backoff = longer(wait->backoff);
	return 0;
}

/*
 * Sleep until it is time for an attempt; false when the time is up.
 */
static bool
sleep_until_offered(WorkqWait *wait, TimestampTz end)
{
	bool		anew = workq_sched_wait_enter(&wait->set);
	TimestampTz rest_end = 0;

	for (;;)
	{
		TimestampTz now = workq_now();
		TimestampTz until = now;
		WorkqWaitLook look = WORKQ_WAIT_OFFERED;
		long		ms = ms_until(GetCurrentTimestamp(), end);
		bool		woken;

		CHECK_FOR_INTERRUPTS();
		woken = workq_sched_wait_woken();
		if (woken && (ms == 0 || !must_rest(wait)))
			return true;
		if (!woken)
			look = workq_sched_wait_look(now, &until);
		if (look == WORKQ_WAIT_GONE)
			return true;
		if (ms == 0 && (look == WORKQ_WAIT_NOTHING || wait->backoff != 0))
			return false;
		if (wait->set.job_id != 0)
		{
			/* whenever we wake we look at the job; also after entering */
			if (!anew)
				sleep_outside(wait, ms);
			return true;
		}
		if (look == WORKQ_WAIT_NOTHING)
		{
			wait->backoff = 0;
			wait->saw_more = false;
			rest_end = 0;
			ms = Min(ms, ms_until(now, until));
		}
		else
		{
			long		more;

			if (wait->backoff != 0)
				wait->saw_more = true;
			more = rest(wait, &rest_end);
			if (more == 0)
				return true;
			ms = Min(ms, more);
		}
		if (ms > 0)
			sleep_outside(wait, ms);
	}
}

/*
 * One attempt whose locks are given back if it fails.
 */
static bool
attempt(WorkqWait *wait, MemoryContext context)
{
	ResourceOwner old_owner = CurrentResourceOwner;
	ResourceOwner owner;
	MemoryContext old = MemoryContextSwitchTo(context);
	bool		done;
	bool		keep;

	wait->n_served = 0;
	AcceptInvalidationMessages();
	owner = ResourceOwnerCreate(old_owner, "workq wait");
	CurrentResourceOwner = owner;
	done = wait->attempt(wait);
	CurrentResourceOwner = old_owner;

	/* committing hands the locks to the parent, aborting gives them back */
	keep = done || workq_xact_pending();
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_BEFORE_LOCKS, keep, false);
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_LOCKS, keep, false);
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_AFTER_LOCKS, keep, false);
	ResourceOwnerDelete(owner);
	MemoryContextSwitchTo(old);
	MemoryContextReset(context);
	return done;
}

static bool
try_until(WorkqWait *wait, MemoryContext context, TimestampTz end)
{
	bool		done = false;

	while (!done && sleep_until_offered(wait, end))
		done = attempt(wait, context);
	return done;
}

static bool
run(WorkqWait *wait, MemoryContext context, TimestampTz end)
{
	volatile bool done = false;

	PG_ENSURE_ERROR_CLEANUP(leave_at_error, (Datum) 0);
	{
		done = try_until(wait, context, end);
	}
	PG_END_ENSURE_ERROR_CLEANUP(leave_at_error, (Datum) 0);

	/*
	 * If we have looked from time to time at what could not be had, somebody
	 * else is to do so, even if we got another job of the same queue.
	 */
	workq_sched_wait_leave(wait->served, wait->saw_more ? 0 : wait->n_served,
						   done && wait->keeps ? &wait->kept : NULL);
	wait->kept.chain |= wait->saw_more;
	return done;
}

bool
workq_wait_run(WorkqWait *wait, int64 us)
{
	TimestampTz end;
	MemoryContext context;
	bool		done;

	if (us == 0)
		return wait->attempt(wait);
	end = GetCurrentTimestamp() + us;
	context = AllocSetContextCreate(CurrentMemoryContext, "workq attempt",
									ALLOCSET_DEFAULT_SIZES);
	done = attempt(wait, context);
	if (!done)
		done = run(wait, context, end);
	MemoryContextDelete(context);
	return done;
}

/* ------------------------------------------------------------------------
 * Arguments
 * ------------------------------------------------------------------------ */

int
workq_wait_queues(FunctionCallInfo fcinfo, int n, char **names)
{
	Datum	   *values;
	bool	   *nulls;
	int			n_values = workq_arg_array(fcinfo, n, "queues", TEXTOID,
										   &values, &nulls);
	int			n_names = 0;
	int			i;

	if (n_values == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("queues must not be empty")));
	for (i = 0; i < n_values; i++)
	{
		char	   *name;
		int			k;

		if (nulls[i])
			workq_arg_missing("queue");
		name = workq_check_name(DatumGetTextPP(values[i]), "queue");
		for (k = 0; k < n_names && strcmp(names[k], name) != 0; k++)
			;
		if (k < n_names)
			continue;
		if (n_names == WORKQ_MAX_WAIT_QUEUES)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("too many queues in one call"),
					 errdetail("At most %d are allowed.",
							   WORKQ_MAX_WAIT_QUEUES)));
		names[n_names++] = name;
	}
	return n_names;
}

/* ------------------------------------------------------------------------
 * Procedures
 * ------------------------------------------------------------------------ */

/*
 * Begin a procedure that waits, and say how it must: if it may end its
 * transaction, it does so before it sleeps.  When it has slept, the procedure
 * may have been dropped.
 */
static void
begin_call(FunctionCallInfo fcinfo, WorkqWait *wait)
{
	CallContext *context = (CallContext *) fcinfo->context;

	memset(wait, 0, sizeof(WorkqWait));
	wait->kept.queue = -1;
	wait->commits = context != NULL && IsA(context, CallContext) &&
		!context->atomic && !IsSubTransaction();
	if (get_call_result_type(fcinfo, NULL,
							 &wait->result) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	wait->result = BlessTupleDesc(wait->result);
	if (SPI_connect_ext(wait->commits ? SPI_OPT_NONATOMIC : 0) != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect_ext failed");
}

/*
 * What it returns: its one INOUT argument.
 */
static Datum
finish_call(const WorkqWait *wait, Datum value, bool isnull)
{
	return HeapTupleGetDatum(heap_form_tuple(wait->result, &value, &isnull));
}

/*
 * Open the gate, so that numbers of queues are good, and have a snapshot.
 */
static WorkqInstance *
open_for_attempt(void)
{
	WorkqInstance *instance = workq_sched_instance();

	LockRelationOid(workq_store_oid(WORKQ_REL_READY), RowExclusiveLock);
	PushActiveSnapshot(GetTransactionSnapshot());
	return instance;
}

typedef struct WaitCall
{
	int			n;
	char	   *queue_name[WORKQ_MAX_WAIT_QUEUES];
} WaitCall;

/*
 * Is something there?  Until we are in the lists, nobody knows.
 */
static bool
wait_attempt(WorkqWait *wait)
{
	const WaitCall *call = (const WaitCall *) wait->arg;
	WorkqInstance *instance = open_for_attempt();
	TimestampTz until;
	int			i;

	for (i = 0; i < call->n; i++)
	{
		WorkqQueueInfo *info = workq_queue_by_name(call->queue_name[i], false);

		workq_access_require(info, WORKQ_RIGHT_CLAIM);
		wait->set.queue_id[i] = info->queue_id;
		wait->set.queue[i] = workq_sched_queue(instance, info->queue_id,
											   &info->settings);
	}
	wait->set.n = call->n;
	PopActiveSnapshot();
	return workq_sched_wait_woken() ||
		workq_sched_wait_look(workq_now(), &until) == WORKQ_WAIT_OFFERED;
}

static void
pass_on_at_exit(int code, Datum arg)
{
	pass_on_promised();
}

PG_FUNCTION_INFO_V1(workq_wait);

Datum
workq_wait(PG_FUNCTION_ARGS)
{
	static bool registered = false;
	WorkqWait	wait;
	WaitCall	call;
	int64		us;
	bool		ready;

	workq_store_require("workq_wait()", false);
	PreventCommandDuringRecovery("workq_wait()");
	if (!registered)
		before_shmem_exit(pass_on_at_exit, (Datum) 0);
	registered = true;
	if (promised.woken)
		pass_on_promised();
	promised.queue = -1;

	begin_call(fcinfo, &wait);
	call.n = workq_wait_queues(fcinfo, 0, call.queue_name);
	us = workq_arg_interval(fcinfo, 1, "timeout", 0, WORKQ_MAX_WAIT_CALL,
							WORKQ_MAX_WAIT);
	wait.attempt = wait_attempt;
	wait.arg = &call;
	wait.keeps = true;
	wait.set.announces = true;

	/* what was announced before and not claimed is no news */
	wait.backoff = fruitless;
	ready = workq_wait_run(&wait, Max(us, 1));
	promised = wait.kept;
	fruitless = ready ? Max(wait.backoff, BACKOFF_MIN) : wait.backoff;
	SPI_finish();
	return finish_call(&wait, BoolGetDatum(ready), false);
}

typedef struct AwaitCall
{
	int64		job_id;
	char		state[64];
} AwaitCall;

/*
 * The state in which a job has ended; NULL while it goes on.  A dead one has
 * ended, as long as nobody requeues it.
 */
static const char *
end_state(const WorkqFoundJob *found)
{
	TimestampTz since;
	const char *state = workq_job_state(found, &since);

	if (found->place == WORKQ_PLACE_DONE ||
		(found->place == WORKQ_PLACE_HELD && strcmp(state, "dead") == 0))
		return state;
	return NULL;
}

static bool
await_attempt(WorkqWait *wait)
{
	AwaitCall  *call = (AwaitCall *) wait->arg;
	WorkqInstance *instance = open_for_attempt();
	WorkqStore *store = workq_store_open_reader();
	WorkqFoundJob found;
	WorkqQueueInfo *info = workq_job_find(store, call->job_id,
										  WORKQ_RIGHT_MONITOR, &found);
	const char *state;

	found.events = workq_store_events(store, call->job_id);
	state = info == NULL ? "dropped" : end_state(&found);
	if (state != NULL)
		strlcpy(call->state, state, sizeof(call->state));
	else
	{
		wait->set.n = 1;
		wait->set.queue_id[0] = info->queue_id;
		wait->set.queue[0] = workq_sched_queue(instance, info->queue_id,
											   &info->settings);
		wait->set.job_id = call->job_id;
	}
	workq_store_close(store);
	PopActiveSnapshot();
	return state != NULL;
}

PG_FUNCTION_INFO_V1(workq_await);

Datum
workq_await(PG_FUNCTION_ARGS)
{
	WorkqWait	wait;
	AwaitCall	call;
	int64		us;
	bool		done;

	workq_store_require("workq_await()", false);
	PreventCommandDuringRecovery("workq_await()");
	if (PG_ARGISNULL(0))
		workq_arg_missing("job_id");
	us = workq_arg_interval(fcinfo, 1, "timeout", 0, WORKQ_MAX_WAIT_CALL,
							WORKQ_MAX_WAIT);
	call.job_id = PG_GETARG_INT64(0);
	begin_call(fcinfo, &wait);
	wait.attempt = await_attempt;
	wait.arg = &call;
	done = workq_wait_run(&wait, Max(us, 1));
	SPI_finish();
	return finish_call(&wait,
					   done ? CStringGetTextDatum(call.state) : (Datum) 0,
					   !done);
}
