/*-------------------------------------------------------------------------
 *
 * order.c
 *	  The order in which responses are followed.
 *
 * A response's place (responses.writer) is a base plus the full id of the
 * transaction that writes it.  Followers are shown what is below base plus
 * their snapshot's xmin: all transactions before that have ended, so nothing
 * can come in later in front of a place that has been given out.
 *
 * Transaction ids alone would not do.  A dump is restored into a cluster that
 * counts from elsewhere; a crash, a recovery to an earlier point or a standby's
 * promotion lets ids that followers have seen come again, when their commits
 * were lost.  So every load into shared memory, that is, every start of a
 * server, sets a new base, such that the first place then is behind
 *
 *	  - the time, in units that nobody uses up that fast.  So it is behind all
 *		that was ever given out, anywhere, as long as the clock does not
 *		contradict that;
 *	  - and, whatever the clock says, what the base before gave out, with more
 *		than a crash can lose; and every place that is stored.
 *
 * When a foreign hand was at the tables, a restore it may be, the next verb looks
 * whether places were stored that are not behind us, which happens only when
 * clocks differ, and sets a new base then.
 *
 * Nothing of it is to be restored with a dump, and nothing has to find out
 * where it is: a base that is too new does no harm.
 *
 * Races.  The base changes while the loader keeps all who write away (by
 * workq.ready, see sched_load.c), so no two writers use different ones.  It
 * stands in a sequence, because that changes at once, whatever becomes of the
 * loader's transaction, and reaches standbys.  It is flushed before it is used.
 * A follower reads it before he takes his snapshot: if he finds the new one, all
 * writers under the old one had ended, and his snapshot sees them; if the old
 * one, his horizon is below everything under the new one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_inherits.h"
#include "commands/sequence.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/fmgrprotos.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "order.h"
#include "sched_int.h"
#include "store.h"
#include "store_system.h"
#include "xact.h"

#define PLACES_PER_US	1024	/* transactions in a microsecond, at most */
#define LOST_AT_MOST	(UINT64CONST(1) << 31)	/* ids, by a crash */

/*
 * The oldest transaction that the snapshot takes for running, as a full id.
 */
static uint64
full_xmin(Snapshot snapshot)
{
	FullTransactionId next = ReadNextFullTransactionId();
	uint32		epoch = EpochFromFullTransactionId(next);

	if (snapshot->xmin > XidFromFullTransactionId(next))
		epoch--;
	return U64FromFullTransactionId(FullTransactionIdFromEpochAndXid(epoch,
																	 snapshot->xmin));
}

/*
 * The highest place of all stored responses, 0 for none.  In a restore the rows
 * of workq.segments come last, so ask what is attached to workq.responses.
 */
static int64
highest_stored(void)
{
	List	   *tables = find_inheritance_children(workq_store_oid(WORKQ_REL_RESPONSES),
												   NoLock);
	int64		result = 0;
	ListCell   *lc;

	foreach(lc, tables)
	{
		CHECK_FOR_INTERRUPTS();
		result = Max(result, workq_store_last_writer(lfirst_oid(lc)));
	}
	list_free(tables);
	return result;
}

/*
 * Write the base down for good, whoever we are: it is as little our
 * transaction's as the memory that we load.  Should this fail, the end of the
 * (sub)transaction restores what we set.
 */
static void
save_base(uint64 base)
{
	bool		read_only = XactReadOnly;
	Oid			user;
	int			context;

	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(BOOTSTRAP_SUPERUSERID,
						   context | SECURITY_LOCAL_USERID_CHANGE);
	XactReadOnly = false;
	DirectFunctionCall2(setval_oid,
						ObjectIdGetDatum(workq_store_oid(WORKQ_REL_RESPONSE_BASE)),
						Int64GetDatum((int64) base));
	XactReadOnly = read_only;
	SetUserIdAndSecContext(user, context);
	XLogFlush(XactLastRecEnd);
}

/*
 * Are we behind all places that are stored?
 */
static bool
is_behind(WorkqInstance *instance, int64 stored)
{
	return instance->has_base &&
		stored < (int64) (instance->base +
						  U64FromFullTransactionId(ReadNextFullTransactionId()));
}

void
workq_order_load(WorkqInstance *instance)
{
	uint32		epoch = instance->epoch;
	int64		stored = highest_stored();
	int64		start = GetCurrentTimestamp() * PLACES_PER_US;
	uint64		next;
	Snapshot	snapshot;
	uint64		base;

	instance->base_epoch = epoch;
	if (is_behind(instance, stored))
		return;
	start = Max(start, stored + 1);
	next = U64FromFullTransactionId(ReadNextFullTransactionId());
	if (workq_system_sequence(workq_store_oid(WORKQ_REL_RESPONSE_BASE),
							  (int64 *) &base))
		start = Max(start, (int64) (base + next + LOST_AT_MOST));

	/* also for those that have their ids already, though nobody has written */
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	base = (uint64) start - full_xmin(snapshot);
	UnregisterSnapshot(snapshot);
	save_base(base);
	instance->base = base;
	instance->has_base = true;
}

/*
 * A transaction that has written places already goes on as it began: it is as
 * old as what the foreign hand brought.
 */
void
workq_order_check(WorkqInstance *instance)
{
	Oid			gate = workq_store_oid(WORKQ_REL_READY);
	uint32		epoch = instance->epoch;

	if (is_behind(instance, highest_stored()))
		instance->base_epoch = epoch;
	else if (!workq_xact_pending())
	{
		LockRelationOid(gate, ShareRowExclusiveLock);
		workq_order_load(instance);
		UnlockRelationOid(gate, ShareRowExclusiveLock);
	}
}

int64
workq_order_place(void)
{
	WorkqInstance *instance = workq_sched_current();

	Assert(instance->has_base);
	return (int64) (instance->base +
					U64FromFullTransactionId(GetTopFullTransactionId()));
}

/*
 * Without a base nobody has written here: what there is was restored.  Unless
 * a base has come before the snapshot, so we look again.
 */
Snapshot
workq_order_snapshot(int64 *horizon)
{
	Oid			sequence = workq_store_oid(WORKQ_REL_RESPONSE_BASE);
	Snapshot	snapshot;
	int64		base;

	if (!workq_system_sequence(sequence, &base))
	{
		snapshot = RegisterSnapshot(GetLatestSnapshot());
		if (!workq_system_sequence(sequence, &base))
		{
			*horizon = PG_INT64_MAX;
			return snapshot;
		}
		UnregisterSnapshot(snapshot);
	}
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	*horizon = (int64) ((uint64) base + full_xmin(snapshot));
	return snapshot;
}
