/*-------------------------------------------------------------------------
 *
 * sched_wait.c
 *	  Who waits for what: the lists of waiters in shared memory.
 *
 * Each backend has one record, found by its number among the processes, with
 * an entry for each queue that it can wait for at a time.  So there is always
 * room, also when all connections wait, and nothing is ever allocated.
 *
 * A waiter enters the lists of its queues, each under the queue's lock, then
 * looks whether something is on offer, then sleeps.  Whoever makes a job
 * claimable does so under the same lock and afterwards takes as many waiters
 * off the list as there are jobs, those that wait for longest first.  So
 * either the look finds the job or the waiter is found.
 *
 * A waiter's state:
 *
 *	 idle --enter--> waiting --taken off a list--> woken
 *	   ^                |  ^                         |
 *	   +-----leave------+  +----------enter----------+
 *	   +---------------------leave-------------------+
 *
 * The step from waiting to woken is made once, by whoever comes first; other
 * queues pass a woken waiter over, so that one wake-up is one look.  The wake-up
 * is the waiter's to use: if it leaves without a job of the queue that woke
 * it, it wakes the next one there (in leave, also after an error and at exit).
 *
 * Times.  Of all that wait for a queue one, its keeper, sleeps no longer than
 * until the queue's next due time or lease expiry; a time that comes up
 * earlier is told to it.  When it leaves, another one is told to take over.
 *
 * Awaiting one job is the same with another list: whatever ends a claim or
 * takes a job out of a table wakes those that await this very job, and leaves
 * them on the list.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/shmem.h"

#include "compat.h"
#include "guc.h"
#include "sched_int.h"

/* a waiter's state: one of these, or by what it was woken */
#define STATE_IDLE		0
#define STATE_WAITING	1
#define STATE_WOKEN		2		/* plus 2 * queue, plus 1 for one of a chain */

typedef struct WaitEntry
{
	int			queue;			/* its backend; the number in whose list */
	int32		queue_id;		/* its backend; what had this number then */
	int			next;			/* queue lock */
	int			prev;			/* queue lock */
	bool		linked;			/* queue lock */
} WaitEntry;

typedef struct Waiter
{
	pg_atomic_uint32 state;
	int			n_entries;		/* its backend */
	uint64		ticket;			/* set before it is linked; when it came */
	int64		job_id;			/* set before it is linked; 0: waits for work */
	bool		announces;		/* its backend; see WorkqWaitSet */
	WaitEntry	entry[WORKQ_MAX_WAIT_QUEUES];
} Waiter;

typedef struct WaitShared
{
	pg_atomic_uint64 ticket;	/* the last */
	int			n_waiters;		/* set once */
	Waiter		waiter[FLEXIBLE_ARRAY_MEMBER];	/* by process number */
} WaitShared;

static WaitShared *shared = NULL;

/* the queue in which this backend's last look found something, or -1 */
static int	offered = -1;

#define ENTRY(number) \
	(shared->waiter[(number) / WORKQ_MAX_WAIT_QUEUES].entry[(number) % WORKQ_MAX_WAIT_QUEUES])
#define OWNER(number)	(shared->waiter[(number) / WORKQ_MAX_WAIT_QUEUES])

static Size
wait_size(void)
{
	return add_size(offsetof(WaitShared, waiter),
					mul_size(workq_compat_max_backends(), sizeof(Waiter)));
}

void
workq_sched_wait_shmem_request(void)
{
	RequestAddinShmemSpace(wait_size());
}

/*
 * In the shmem startup hook, under AddinShmemInitLock.
 */
void
workq_sched_wait_shmem_init(void)
{
	bool		found;
	int			i;

	shared = ShmemInitStruct("workq waiters", wait_size(), &found);
	if (found)
		return;
	memset(shared, 0, wait_size());
	pg_atomic_init_u64(&shared->ticket, 0);
	shared->n_waiters = workq_compat_max_backends();
	for (i = 0; i < shared->n_waiters; i++)
		pg_atomic_init_u32(&shared->waiter[i].state, STATE_IDLE);
}

/*
 * No one waits.  For a queue's number that is taken into use.
 */
void
sched_wait_reset(SchedQueue *queue)
{
	queue->waiters.first = queue->waiters.last = -1;
	queue->awaiters.first = queue->awaiters.last = -1;
	queue->keeper = -1;
	queue->keeper_until = DT_NOEND;
}

static inline void
set_latch(int procno)
{
	SetLatch(&ProcGlobal->allProcs[procno].procLatch);
}

static Waiter *
my_waiter(void)
{
	Assert(workq_compat_my_procno() < shared->n_waiters);
	return &shared->waiter[workq_compat_my_procno()];
}

/* ------------------------------------------------------------------------
 * Lists; queue lock held
 * ------------------------------------------------------------------------ */

static SchedWaitList *
list_of(SchedQueue *queue, const Waiter *waiter)
{
	return waiter->job_id != 0 ? &queue->awaiters : &queue->waiters;
}

static void
unlink_entry(SchedQueue *queue, int number)
{
	WaitEntry  *entry = &ENTRY(number);
	SchedWaitList *list = list_of(queue, &OWNER(number));

	if (entry->prev >= 0)
		ENTRY(entry->prev).next = entry->next;
	else
		list->first = entry->next;
	if (entry->next >= 0)
		ENTRY(entry->next).prev = entry->prev;
	else
		list->last = entry->prev;
	entry->linked = false;
}

/*
 * Those that came first stand first.  Who is new goes to the end; who was
 * woken in vain comes back to the front.
 */
static void
link_entry(SchedQueue *queue, int number)
{
	WaitEntry  *entry = &ENTRY(number);
	SchedWaitList *list = list_of(queue, &OWNER(number));
	uint64		ticket = OWNER(number).ticket;
	int			after = list->last;

	if (after >= 0 && OWNER(after).ticket > ticket)
	{
		int			before = list->first;

		while (OWNER(before).ticket <= ticket)
			before = ENTRY(before).next;
		after = ENTRY(before).prev;
	}
	entry->prev = after;
	entry->next = after >= 0 ? ENTRY(after).next : list->first;
	if (after >= 0)
		ENTRY(after).next = number;
	else
		list->first = number;
	if (entry->next >= 0)
		ENTRY(entry->next).prev = number;
	else
		list->last = number;
	entry->linked = true;
}

/*
 * Take up to most waiters off a queue's list.  Those that another queue has
 * woken already are taken off, too, but do not count.
 */
static int
pop(int q, int most, bool chain, int *procnos)
{
	SchedQueue *queue = &sched_queues[q];
	int			n = 0;

	while (n < most && queue->waiters.first >= 0)
	{
		int			number = queue->waiters.first;
		uint32		expected = STATE_WAITING;

		unlink_entry(queue, number);
		if (pg_atomic_compare_exchange_u32(&OWNER(number).state, &expected,
										   STATE_WOKEN + 2 * (uint32) q +
										   (chain ? 1 : 0)))
			procnos[n++] = number / WORKQ_MAX_WAIT_QUEUES;
	}
	return n;
}

/*
 * May a claim find something there now?  Lanes without a record are looked for
 * by the background worker when there is one: without it nobody would tell of
 * a record that is free again.
 */
static bool
on_offer(SchedQueue *queue)
{
	WorkqPolicy policy = sched_policy(queue);

	/* another list of weights is applied by whoever selects next */
	return !queue->policy.paused &&
		(workq_policy_has_turn(&policy) || sched_weights_lag(queue) ||
		 (queue->overflowing && queue->counters.ready > 0 &&
		  queue->instance >= 0 &&
		  sched_shared->instances[queue->instance].worker < 0));
}

/*
 * The same for somebody who will not look himself: a lane is on offer until a
 * look has found it empty.  Rows that are not committed do not count.
 */
static bool
has_rows(const SchedQueue *queue)
{
	return queue->counters.ready > 0 ||
		sched_shared->instances[queue->instance].stale;
}

/*
 * Can an attempt be of any use?  Not while the queue is paused or all lanes
 * with jobs are at their caps: who ends that wakes waiters himself.  What has
 * no record yet, or is yet to be loaded, an attempt may find.
 */
static bool
worth_a_look(SchedQueue *queue)
{
	if (on_offer(queue))
		return true;
	return !queue->policy.paused &&
		(queue->overflowing ||
		 (queue->instance >= 0 &&
		  sched_shared->instances[queue->instance].stale));
}

static TimestampTz
next_time(const SchedQueue *queue)
{
	return Min(queue->due.low.since, queue->expiry.low.since);
}

/* ------------------------------------------------------------------------
 * Waking.  All of this is called by callbacks: it cannot fail.
 * ------------------------------------------------------------------------ */

/*
 * n jobs have become claimable: wake as many waiters.  Queue lock not held.
 */
void
sched_wait_wake(int q, int n)
{
	SchedQueue *queue = &sched_queues[q];
	int			procnos[32];
	int			woken = lengthof(procnos);
	int			i;

	/* who enters after the caller let go of the lock sees what is there */
	while (n > 0 && woken == lengthof(procnos) && queue->waiters.first >= 0)
	{
		LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
		woken = worth_a_look(queue) ?
			pop(q, Min(n, lengthof(procnos)), false, procnos) : 0;
		LWLockRelease(&queue->lock);
		for (i = 0; i < woken; i++)
			set_latch(procnos[i]);
		n -= woken;
	}
}

/*
 * Jobs may have become claimable, nobody knows how many: wake one waiter, and
 * if it finds a job it wakes the next.  Queue lock held.
 */
void
sched_wait_wake_chain(SchedQueue *queue)
{
	int			procno;

	if (queue->waiters.first >= 0 && on_offer(queue) &&
		pop(queue - sched_queues, 1, true, &procno) == 1)
		set_latch(procno);
}

/*
 * Something is due in this queue at "when".  Queue lock held.
 */
void
sched_wait_time(SchedQueue *queue, TimestampTz when)
{
	if (queue->keeper >= 0)
	{
		if (when < queue->keeper_until)
			set_latch(queue->keeper);
	}
	else if (queue->waiters.last >= 0)
		set_latch(queue->waiters.last / WORKQ_MAX_WAIT_QUEUES);
}

/*
 * A job has moved; job_id 0: some jobs.  Queue lock held.
 */
void
sched_wait_job(SchedQueue *queue, int64 job_id)
{
	int			number;

	for (number = queue->awaiters.first; number >= 0;
		 number = ENTRY(number).next)
	{
		if (job_id == 0 || OWNER(number).job_id == job_id)
			set_latch(number / WORKQ_MAX_WAIT_QUEUES);
	}
}

/*
 * The queue goes away: let them see it.  Queue lock held.
 */
void
sched_wait_drop(SchedQueue *queue)
{
	SchedWaitList *lists[2];
	int			i;

	lists[0] = &queue->waiters;
	lists[1] = &queue->awaiters;
	for (i = 0; i < 2; i++)
	{
		while (lists[i]->first >= 0)
		{
			int			number = lists[i]->first;

			unlink_entry(queue, number);
			set_latch(number / WORKQ_MAX_WAIT_QUEUES);
		}
	}
	sched_wait_reset(queue);
}

/* ------------------------------------------------------------------------
 * The waiter's side
 * ------------------------------------------------------------------------ */

/*
 * Is it the same queue, or has its number been given to another?  And is it
 * loaded, or has the extension been dropped?  Queue lock held.
 */
static bool
still_there(const SchedQueue *queue, const WaitEntry *entry)
{
	return queue->instance >= 0 && queue->queue_id == entry->queue_id &&
		sched_shared->instances[queue->instance].dbid == MyDatabaseId &&
		sched_shared->instances[queue->instance].loaded;
}

/*
 * Stop being the keeper; the one that came last takes over.  The same if there
 * is none: we may be the one that was told to, and have not come to it.  Queue
 * lock held.
 */
static void
give_up_keeping(SchedQueue *queue)
{
	if (queue->keeper >= 0 && queue->keeper != workq_compat_my_procno())
		return;
	queue->keeper = -1;
	queue->keeper_until = DT_NOEND;
	if (queue->waiters.last >= 0 && !queue->policy.paused &&
		next_time(queue) != DT_NOEND)
		set_latch(queue->waiters.last / WORKQ_MAX_WAIT_QUEUES);
}

/*
 * Leave the lists, whatever they are.
 */
static void
leave_lists(Waiter *waiter)
{
	int			base = workq_compat_my_procno() * WORKQ_MAX_WAIT_QUEUES;
	int			i;

	for (i = 0; i < waiter->n_entries; i++)
	{
		SchedQueue *queue = &sched_queues[waiter->entry[i].queue];

		LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
		if (waiter->entry[i].linked)
			unlink_entry(queue, base + i);
		give_up_keeping(queue);
		LWLockRelease(&queue->lock);
	}
	waiter->n_entries = 0;
}

/*
 * Does this backend stand in these lists, or was it taken off by a wake-up?
 */
static bool
same_lists(const Waiter *waiter, const WorkqWaitSet *set)
{
	int			i;

	if (waiter->n_entries != set->n || waiter->job_id != set->job_id)
		return false;
	for (i = 0; i < set->n; i++)
	{
		if (waiter->entry[i].queue != set->queue[i] ||
			waiter->entry[i].queue_id != set->queue_id[i])
			return false;
	}
	return true;
}

/*
 * The place among those that wait is that of the first call since the last
 * leave.
 */
bool
workq_sched_wait_enter(const WorkqWaitSet *set)
{
	Waiter	   *waiter = my_waiter();
	int			base = workq_compat_my_procno() * WORKQ_MAX_WAIT_QUEUES;
	bool		anew = !same_lists(waiter, set);
	int			i;

	Assert(set->n <= WORKQ_MAX_WAIT_QUEUES);
	offered = -1;
	if (anew)
	{
		leave_lists(waiter);
		waiter->job_id = set->job_id;
		waiter->announces = set->announces;
		if (pg_atomic_read_u32(&waiter->state) == STATE_IDLE)
			waiter->ticket = pg_atomic_add_fetch_u64(&shared->ticket, 1);
	}

	/* before the lists: a wake-up that comes from now on must not be lost */
	pg_atomic_exchange_u32(&waiter->state, STATE_WAITING);
	for (i = 0; i < set->n; i++)
	{
		WaitEntry  *entry = &waiter->entry[i];
		SchedQueue *queue = &sched_queues[set->queue[i]];

		if (i >= waiter->n_entries)
		{
			entry->queue = set->queue[i];
			entry->queue_id = set->queue_id[i];
			entry->linked = false;
			waiter->n_entries = i + 1;
		}
		LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
		if (!entry->linked && still_there(queue, entry))
			link_entry(queue, base + i);
		LWLockRelease(&queue->lock);
	}
	return anew;
}

WorkqWaitLook
workq_sched_wait_look(TimestampTz now, TimestampTz *until)
{
	Waiter	   *waiter = my_waiter();
	int			me = workq_compat_my_procno();
	WorkqWaitLook result = WORKQ_WAIT_NOTHING;
	int			i;

	*until = DT_NOEND;
	offered = -1;
	for (i = 0; i < waiter->n_entries; i++)
	{
		SchedQueue *queue = &sched_queues[waiter->entry[i].queue];
		TimestampTz next;

		LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
		if (!still_there(queue, &waiter->entry[i]))
		{
			LWLockRelease(&queue->lock);
			return WORKQ_WAIT_GONE;
		}
		if (waiter->job_id == 0)
		{
			next = next_time(queue);
			if ((on_offer(queue) &&
				 (!waiter->announces || has_rows(queue))) ||
				(next <= now && !queue->policy.paused))
			{
				result = WORKQ_WAIT_OFFERED;
				offered = waiter->entry[i].queue;
			}
			else if (next == DT_NOEND || queue->policy.paused)
				give_up_keeping(queue);
			else if (queue->keeper < 0 || queue->keeper == me ||
					 next < queue->keeper_until)
			{
				queue->keeper = me;
				queue->keeper_until = next;
				*until = Min(*until, next);
			}
		}
		LWLockRelease(&queue->lock);
	}
	return result;
}

bool
workq_sched_wait_entered(void)
{
	return my_waiter()->n_entries > 0;
}

bool
workq_sched_wait_woken(void)
{
	return pg_atomic_read_u32(&my_waiter()->state) >= STATE_WOKEN;
}

bool
workq_sched_wait_in_chain(void)
{
	uint32		state = pg_atomic_read_u32(&my_waiter()->state);

	return state >= STATE_WOKEN && (state - STATE_WOKEN) % 2 == 1;
}

/*
 * Give a wake-up on.
 */
static void
pass_on(int q)
{
	SchedQueue *queue = &sched_queues[q];

	LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	sched_wait_wake_chain(queue);
	LWLockRelease(&queue->lock);
}

/*
 * What was on offer in a queue that gave us nothing is for the next one, also
 * if we were not woken for it: entering again forgets by whom we were woken.
 */
void
workq_sched_wait_leave(const int *served, int n_served, WorkqWakeUp *keep)
{
	Waiter	   *waiter = my_waiter();
	int			n = waiter->n_entries;
	WorkqWakeUp wake_up = {offered, false, false};
	uint32		state;
	int			i;

	leave_lists(waiter);
	state = pg_atomic_exchange_u32(&waiter->state, STATE_IDLE);
	if (state >= STATE_WOKEN)
	{
		wake_up.queue = (state - STATE_WOKEN) / 2;
		wake_up.woken = true;
		wake_up.chain = (state - STATE_WOKEN) % 2 == 1;
	}
	if (keep != NULL)
		*keep = wake_up;
	for (i = 0; i < n; i++)
	{
		int			q = waiter->entry[i].queue;
		bool		used = keep != NULL && q == wake_up.queue;
		int			k;

		for (k = 0; k < n_served && !used; k++)
			used = served[k] == q && !(q == wake_up.queue && wake_up.chain);
		if (!used && waiter->job_id == 0)
			pass_on(q);
	}
}

void
workq_sched_wait_pass_on(int queue)
{
	pass_on(queue);
}
