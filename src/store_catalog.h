/*-------------------------------------------------------------------------
 *
 * store_catalog.h
 *	  Rows of the catalog: queues, keys, grants and policies (store_catalog.c,
 *	  store_grants.c), and a queue's rows in any table (store_counts.c).
 *
 * Whoever changes a queue locks its row first, then reads: what is read under
 * the lock holds until the transaction ends.  Keys, grants and policies of a
 * queue are written under the lock of its row, too.
 *
 * All of it goes by direct access with dirty snapshots, for two reasons: no
 * isolation level makes a change of a queue fail with 40001 because somebody
 * else changed a queue before, and no trigger takes it for a foreign hand's.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_STORE_CATALOG_H
#define WORKQ_STORE_CATALOG_H

#include "queue.h"
#include "store.h"

/*
 * Read a queue with its grants, by name or, if name is NULL, by id; palloc'd.
 * NULL when there is none that is committed or our own.  Opens the tables
 * (AccessShareLock), so the caller's invalidations are up to date.
 */
extern WorkqQueueInfo *workq_catalog_read(const char *name, int32 queue_id);

/*
 * Lock a queue's row to the end of the transaction, then read it as it is
 * now; palloc'd, *tid is where it stands.  drop: no one may reference it
 * either.  Waits for others that are creating, changing or dropping it.  NULL
 * when there is none.
 */
extern WorkqQueueInfo *workq_catalog_lock(WorkqStore *store, const char *name,
										  bool drop, ItemPointer tid);

/*
 * Insert a queue, giving it its id.  Waits for another transaction that has
 * the same name in hand; false: that one committed, nothing was inserted.
 */
extern bool workq_catalog_insert(WorkqStore *store, WorkqQueueInfo *queue);

/* Write a locked row anew; its grants are not written. */
extern void workq_catalog_update(WorkqStore *store,
								 const WorkqQueueInfo *queue, ItemPointer tid);

/* Delete a locked queue's row. */
extern void workq_catalog_delete(WorkqStore *store, ItemPointer tid);

/* Rows in workq.queues, those that others are inserting included. */
extern int	workq_catalog_count(WorkqStore *store);

/*
 * Rows of a queue in one table with an index that starts with queue_id:
 * count them, or delete them all.  For the latter the table must be locked
 * against other writers.
 */
extern int64 workq_catalog_count_rows(WorkqRelation table,
									  WorkqRelation index, int32 queue_id);
extern int64 workq_catalog_delete_rows(WorkqStore *store, WorkqRelation table,
									   WorkqRelation index, int32 queue_id);

/*
 * What the key has; {-1, -1} when there is no row.  Waits for nobody: claimers
 * ask this, too.
 */
extern WorkqKeyRow workq_catalog_get_key(WorkqStore *store, int32 queue_id,
										 const char *key);

/* Write that, or delete the row when it says nothing. */
extern void workq_catalog_set_key(WorkqStore *store, int32 queue_id,
								  const char *key, WorkqKeyRow row);

/* Names of the rights, in the order of their bits. */
extern const char *const workq_catalog_rights[];

/* Add or remove one grant; false: it was so already. */
extern bool workq_catalog_grant(WorkqStore *store, int32 queue_id, Oid grantee,
								uint32 right, Oid grantor, TimestampTz at);
extern bool workq_catalog_revoke(WorkqStore *store, int32 queue_id,
								 Oid grantee, uint32 right);

/*
 * The error map of a queue.  Reading fills in its rules; writing replaces them
 * all.  Copying is deep.
 */
extern const char *const workq_rule_actions[];
extern void workq_catalog_read_rules(WorkqQueueInfo *queue);
extern void workq_catalog_write_rules(WorkqStore *store,
									  const WorkqQueueInfo *queue);
extern WorkqRule *workq_catalog_copy_rules(const WorkqRule *rules, int n);

/* Append to the history of a queue; settings is JSON. */
extern void workq_catalog_policy(WorkqStore *store,
								 const WorkqQueueInfo *queue, const char *event,
								 TimestampTz at, const char *settings);

/*
 * Call for every queue (committed or our own) with the current role's rights
 * checked by the callee.
 */
typedef void (*WorkqQueueVisitor) (WorkqQueueInfo *queue, void *arg);
extern void workq_catalog_each(WorkqQueueVisitor visit, void *arg);

/* The schema in which the extension's functions are, or InvalidOid. */
extern Oid	workq_catalog_schema(void);

/* ---- for views ---- */

typedef struct WorkqTableCounts
{
	int64		ready;
	int64		scheduled;
	int64		leased;
	int64		held;
	TimestampTz oldest_ready;	/* DT_NOEND for none */
	TimestampTz next_due;		/* DT_NOEND for none */
} WorkqTableCounts;

/*
 * Count a queue's live rows in the tables, under the active snapshot: for a
 * standby, where there is nothing else.  Costs a scan of the queue's part of
 * one index per table.
 */
extern void workq_catalog_counts(int32 queue_id, WorkqTableCounts *counts);

/*
 * When did the queue's oldest ready job become ready?  DT_NOEND for none.
 * Probes the head of each lane and priority, of at most max_lanes lanes; with
 * more, the answer is the oldest among those.
 */
extern TimestampTz workq_catalog_oldest_ready(int32 queue_id, int max_lanes);

#endif							/* WORKQ_STORE_CATALOG_H */
