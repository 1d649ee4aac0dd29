/*-------------------------------------------------------------------------
 *
 * store.h
 *	  The tables: the only interface to heap and index access.
 *
 * A verb opens a WorkqStore, works through it, and closes it; relations stay
 * locked to the end of the transaction.  Inserts are gathered and written by
 * workq_store_flush (and by close), many at a time where there are many.
 *
 * Rows are read with dirty snapshots and every read is confirmed by the
 * delete or update that follows: whoever deletes a live row owns the job's
 * move to its next state.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_STORE_H
#define WORKQ_STORE_H

#include "nodes/pg_list.h"
#include "storage/itemptr.h"
#include "utils/jsonb.h"
#include "utils/snapshot.h"

#include "segment.h"
#include "workq.h"

/* Relations whose OIDs are cached.  The order is that of names[] in store.c. */
typedef enum WorkqRelation
{
	WORKQ_REL_QUEUES,
	WORKQ_REL_GRANTS,
	WORKQ_REL_KEYS,
	WORKQ_REL_ERROR_MAP,
	WORKQ_REL_SEGMENTS,
	WORKQ_REL_POLICIES,
	WORKQ_REL_JOBS,				/* parents: for DDL only */
	WORKQ_REL_CLAIMS,
	WORKQ_REL_RESPONSES,
	WORKQ_REL_READY,
	WORKQ_REL_LEASES,
	WORKQ_REL_SCHEDULED,
	WORKQ_REL_HELD,
	WORKQ_REL_DEDUP,
	WORKQ_REL_JOB_IDS,
	WORKQ_REL_RESPONSE_BASE,
	WORKQ_REL_READY_ORDER,		/* indexes */
	WORKQ_REL_LEASES_PKEY,
	WORKQ_REL_LEASES_DEADLINE,
	WORKQ_REL_SCHEDULED_PKEY,
	WORKQ_REL_SCHEDULED_DUE,
	WORKQ_REL_HELD_PKEY,
	WORKQ_REL_HELD_QUEUE,
	WORKQ_REL_DEDUP_PKEY,
	WORKQ_REL_QUEUES_PKEY,
	WORKQ_REL_QUEUES_NAME,
	WORKQ_REL_GRANTS_PKEY,
	WORKQ_REL_KEYS_PKEY,
	WORKQ_REL_ERROR_MAP_PKEY,
	WORKQ_REL_SEGMENTS_PKEY,
	WORKQ_N_RELATIONS
} WorkqRelation;

/*
 * Every verb begins here: is the library preloaded (else 55000 with a hint)
 * and does the extension exist here with this library's version (else 55000
 * or 42704)?  With "writes", also: not read-only (25006), not in recovery.
 */
extern void workq_store_require(const char *verb, bool writes);

/* OID of a relation; valid after workq_store_require. */
extern Oid	workq_store_oid(WorkqRelation which);

/* OID of the extension in this database, or InvalidOid; needs a transaction. */
extern Oid	workq_store_extension(void);

/* Was the extension created by a transaction that is still open (ours)? */
extern bool workq_store_is_new(void);

extern void workq_store_init(void);

/* ---- a verb's access ---- */

typedef struct WorkqStore WorkqStore;

extern WorkqStore *workq_store_open(void);

/* To look only: waits for nobody, locks nothing that matters; fit for a
 * standby.  What others are inserting is not there yet, what they are deleting
 * is still there. */
extern WorkqStore *workq_store_open_reader(void);
extern void workq_store_flush(WorkqStore *store);
extern void workq_store_close(WorkqStore *store);

/* ---- live tables ---- */

/* What became of a row that somebody wanted to take. */
typedef enum WorkqTake
{
	WORKQ_TAKEN,
	WORKQ_GONE,					/* deleted, or being deleted: whoever does it
								 * tells shared memory when it rolls back */
	WORKQ_LOCKED				/* merely locked: it may be there to stay */
} WorkqTake;

/* Where a cursor stands. */
typedef enum WorkqRow
{
	WORKQ_ROW_END,
	WORKQ_ROW_PASS,				/* being inserted or deleted by another */
	WORKQ_ROW_CANDIDATE
} WorkqRow;

typedef struct WorkqCursor WorkqCursor;

/*
 * Cursors in index order, strictly behind "after".  ready: one lane and
 * priority; due: a queue's scheduled jobs; expired: its leases by deadline;
 * held: its held jobs by id.
 */
extern WorkqCursor *workq_store_ready_cursor(WorkqStore *store, int32 queue_id,
											 const char *lane, int16 priority,
											 WorkqPos after);

/*
 * The same, but it ends (END) at the latest gap microseconds behind "after",
 * or, with a gap of 0, a few job ids behind it at the same time.  A scan reads
 * all entries of a page that its keys admit, before it returns the first; who
 * wants one row saves most of that.
 */
extern WorkqCursor *workq_store_near_cursor(WorkqStore *store, int32 queue_id,
											const char *lane, int16 priority,
											WorkqPos after, int64 gap);
extern WorkqCursor *workq_store_due_cursor(WorkqStore *store, int32 queue_id,
										   WorkqPos after);
extern WorkqCursor *workq_store_expired_cursor(WorkqStore *store,
											   int32 queue_id, WorkqPos after);
extern WorkqCursor *workq_store_held_cursor(WorkqStore *store, int32 queue_id,
											int64 after_job);

/* All of a queue's ready rows, lane by lane (purge, load). */
extern WorkqCursor *workq_store_queue_cursor(WorkqStore *store,
											 int32 queue_id);

/* The same behind a row's place, of which lane, priority, since and job_id
 * count (re-laning in steps). */
extern WorkqCursor *workq_store_queue_cursor_after(WorkqStore *store,
												   int32 queue_id,
												   const WorkqJob *after);

/* The same behind all of a lane's rows; NULL: from the first lane on. */
extern WorkqCursor *workq_store_lane_cursor(WorkqStore *store, int32 queue_id,
											const char *after);

/* Every row of a live table in heap order, for loading; skips invisible. */
extern WorkqCursor *workq_store_full_cursor(WorkqStore *store,
											WorkqRelation table);

extern WorkqRow workq_store_next(WorkqCursor *cursor);

/* The row a cursor stands on.  Strings live until the next move. */
extern void workq_store_row(WorkqCursor *cursor, WorkqJob *job);
extern void workq_store_lease_row(WorkqCursor *cursor, WorkqLease *lease);

/* Only its flags. */
extern int16 workq_store_flags(WorkqCursor *cursor);

/* Of a row to be passed: is another transaction deleting it? */
extern bool workq_store_being_deleted(WorkqCursor *cursor);

/* The row of a full cursor on workq.dedup. */
extern void workq_store_dedup_row(WorkqCursor *cursor, int32 *queue_id,
								  int64 *job_id);

/* Its place in the cursor's order. */
extern WorkqPos workq_store_pos(WorkqCursor *cursor);

/* Delete it without waiting for anybody. */
extern WorkqTake workq_store_take(WorkqCursor *cursor);
extern void workq_store_end(WorkqCursor *cursor);

/* Gathered inserts. */
extern void workq_store_add_ready(WorkqStore *store, const WorkqJob *job);
extern void workq_store_add_lease(WorkqStore *store, const WorkqLease *lease);
extern void workq_store_add_scheduled(WorkqStore *store, const WorkqJob *job);
extern void workq_store_add_held(WorkqStore *store, const WorkqJob *job,
								 TimestampTz at, const char *state,
								 const char *reason);

/*
 * Find a job's row by its id.  Waits for transactions that are inserting,
 * changing or deleting it, so that the answer is a settled one; false when
 * there is none.  Strings are palloc'd.
 */
extern bool workq_store_find_lease(WorkqStore *store, int64 job_id,
								   WorkqLease *lease, ItemPointer tid);
extern bool workq_store_find_scheduled(WorkqStore *store, int64 job_id,
									   WorkqJob *job, ItemPointer tid);
extern bool workq_store_find_held(WorkqStore *store, int64 job_id,
								  WorkqJob *job, TimestampTz *held_at,
								  char **state, ItemPointer tid);
extern bool workq_store_find_ready(WorkqStore *store, int32 queue_id,
								   const char *lane, int16 priority,
								   WorkqPos pos, WorkqJob *job,
								   ItemPointer tid);

/* Delete a row found; waits for lockers.  False: it is gone, look again. */
extern bool workq_store_delete(WorkqStore *store, WorkqRelation table,
							   ItemPointer tid);

/* Write a lease's deadline and flags anew; false as above. */
extern bool workq_store_update_lease(WorkqStore *store,
									 const WorkqLease *lease, ItemPointer tid);

/* The same for the row a cursor on leases stands on, without waiting. */
extern bool workq_store_rewrite_lease(WorkqStore *store, WorkqCursor *cursor,
									  const WorkqLease *lease);

/*
 * Take a deduplication key for job_id.  Waits for another transaction that
 * has it in hand.  False: *holder is the job that has it.
 */
extern bool workq_store_dedup_take(WorkqStore *store, int32 queue_id,
								   const char *key, int64 job_id,
								   int64 *holder);
extern void workq_store_dedup_drop(WorkqStore *store, int32 queue_id,
								   const char *key, int64 job_id);

/* ---- the log ---- */

/* A row of workq.jobs; what is absent is NULL. */
typedef struct WorkqJobRow
{
	int64		job_id;
	TimestampTz enqueued_at;
	TimestampTz run_at;			/* DT_NOBEGIN for none */
	int32		queue_id;
	int32		max_attempts;
	int16		priority;
	Jsonb	   *payload;
	Jsonb	   *headers;
	char	   *tenant;
	char	   *binding;
	char	   *trigger_id;
	char	   *lane;			/* NULL is "" */
	char	   *dedup_key;
	char	   *correlation;
	Jsonb	   *options;		/* what was given for this job alone */
} WorkqJobRow;

/* A row of workq.claims.  Times that are absent are DT_NOBEGIN. */
typedef struct WorkqEvent
{
	int64		job_id;
	TimestampTz at;
	int32		queue_id;
	int32		attempt;
	int32		failures;
	int32		number;			/* of the job's events, from 1 */
	int16		priority;
	bool		has_claim;
	bool		has_share;		/* round, credit and weight are given */
	pg_uuid_t	claim_id;
	TimestampTz deadline;
	TimestampTz ready_since;
	TimestampTz promotion_deadline;
	TimestampTz due;
	int64		round;
	int64		credit;
	int32		weight;
	int32		policy_version; /* 0 for none */
	const char *event;
	const char *lane;
	const char *worker;
	const char *decision;
	const char *fairness_key;
	const char *reason;
	const Jsonb *body;			/* progress, checkpoint; unparked: payload */
} WorkqEvent;

/* A row of workq.responses. */
typedef struct WorkqResponse
{
	int64		job_id;
	TimestampTz at;
	int32		queue_id;
	int32		attempt;
	int32		number;			/* of the job's last event before it */
	int64		writer;			/* its place, see order.c; filled in */
	bool		has_claim;
	pg_uuid_t	claim_id;
	const char *outcome;
	const char *worker;
	const char *code;
	const char *message;
	const Jsonb *body;
	const char *correlation;
} WorkqResponse;

/*
 * An event with its job, time and common columns set, the rest absent.  It is
 * the job's next one, which the job counts: so it comes before the job's live
 * row is written.  The number orders a job's events whatever the clock does.
 */
extern void workq_store_event_init(WorkqEvent *event, const char *what,
								   WorkqJob *job, TimestampTz at);

/* Gathered inserts; the segment must exist (see workq_segment_ensure). */
extern void workq_store_add_job(WorkqStore *store, const WorkqJobRow *row);
extern void workq_store_add_event(WorkqStore *store, const WorkqEvent *event);
extern void workq_store_add_response(WorkqStore *store,
									 const WorkqResponse *response);

/*
 * Lock the segment of a job for this transaction.  False when there is none.
 * A verb that changes a job's state holds its segment to the end.
 */
extern bool workq_store_hold_segment(WorkqStore *store, int64 job_id);

/*
 * Read the log of one job; palloc'd.  False or NIL when there is nothing.  The
 * events are all but those of its stream ("progress"), so that what they cost
 * does not depend on the stream's length.
 */
extern bool workq_store_job(WorkqStore *store, int64 job_id, WorkqJobRow *row);
extern List *workq_store_events(WorkqStore *store, int64 job_id);

/*
 * The job's events of one kind with numbers above "after", in their order, at
 * most limit of them.  Seen by the snapshot.
 */
extern List *workq_store_events_after(WorkqStore *store, int64 job_id,
									  const char *kind, Snapshot snapshot,
									  int32 after, int limit);

/*
 * Is there a checkpoint of this step?  The caller has the job's lease settled
 * and writes it after that, as everybody does who adds one.
 */
extern bool workq_store_has_checkpoint(WorkqStore *store, int64 job_id,
									   const char *step);

/*
 * The payload that was given when the job was unparked, the last one; NULL
 * when there is none.  Jobs that have one are flagged WORKQ_JOB_PAYLOAD.
 */
extern Jsonb *workq_store_new_payload(WorkqStore *store, int64 job_id);

/* Oldest first. */
extern List *workq_store_responses(WorkqStore *store, int64 job_id);

/* Where a follower of the responses stands: behind this one. */
typedef struct WorkqResponsePos
{
	int64		writer;
	int64		job_id;
	int32		number;
} WorkqResponsePos;

/*
 * The responses of one segment behind a position and before the horizon, in
 * the order (writer, job_id, number), about limit of them: all of a job's
 * responses by one transaction come together.  Seen by the snapshot.
 */
extern List *workq_store_follow(WorkqStore *store, int64 segment_id,
								Snapshot snapshot, WorkqResponsePos after,
								int64 horizon, int limit);

/*
 * The highest writer in a table of responses, of committed rows and our own;
 * 0 for none, also when the table has just gone.  Fast, unless a restore has not made the index yet.
 */
extern int64 workq_store_last_writer(Oid responses);

extern int	workq_response_cmp(WorkqResponsePos a, WorkqResponsePos b);

#endif							/* WORKQ_STORE_H */
