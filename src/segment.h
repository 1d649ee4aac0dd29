/*-------------------------------------------------------------------------
 *
 * segment.h
 *	  Segments of the event log: which tables hold a job, and their making.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_SEGMENT_H
#define WORKQ_SEGMENT_H

#include "workq.h"

typedef struct WorkqSegment
{
	int32		segment;
	int64		from_id;		/* first job id */
	int64		to_id;			/* one past the last */
	Oid			jobs;
	Oid			claims;
	Oid			responses;
} WorkqSegment;

/*
 * The segment that holds job_id, or false when there is none (never made, or
 * dropped).  The result is a copy into *result.  Looks into workq.segments
 * again when the cache does not know the id.
 */
extern bool workq_segment_find(int64 job_id, WorkqSegment *result);

/*
 * The first segment that ends beyond an id, by ids.  From 0 on it is looked
 * anew which there are.  False: there is none.
 */
extern bool workq_segment_next(int64 job_id, WorkqSegment *result);

/*
 * Make sure that segments exist for all ids up to and including upto, which
 * must have been taken from the sequence before.  Raises 53400 when they
 * cannot be made; never makes one in the caller's transaction, unless that
 * transaction made the extension itself.  May wait for another process that
 * makes them, so the caller must hold no LWLock.
 */
extern void workq_segment_ensure(int64 upto);

/*
 * In a background process, outside a transaction: make what segments are
 * missing, two ahead of the ids in use.  Errors are logged, and told to those
 * who wait for a segment, but not raised.
 */
extern void workq_segment_run(void);

/*
 * In a transaction with an active snapshot: make some of the segments that are
 * missing (segment_make.c).  asked: an enqueuer is waiting for it.  Returns
 * whether there are more to make.
 */
extern bool workq_segment_make(bool asked);

/* Does anybody in this database ask for a segment? */
extern bool workq_segment_wanted(void);

extern void workq_segment_shmem_request(void);
extern void workq_segment_shmem_init(void);
extern void workq_segment_init(void);

extern PGDLLEXPORT void workq_segment_main(Datum main_arg);

#endif							/* WORKQ_SEGMENT_H */
