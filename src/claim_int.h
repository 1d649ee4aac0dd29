/*-------------------------------------------------------------------------
 *
 * claim_int.h
 *	  What claim.c and look.c share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_CLAIM_INT_H
#define WORKQ_CLAIM_INT_H

#include "funcapi.h"

#include "sched.h"
#include "store.h"

/* A call's part that is about one queue. */
typedef struct Claim
{
	WorkqStore *store;
	ReturnSetInfo *rsinfo;
	MemoryContext per_job;
	char	   *queue_name;
	char	   *worker;
	int32		queue_id;
	int			queue;			/* number in shared memory */
	int64		settings[WORKQ_N_SETTINGS];
	WorkqLaneForm form;			/* of the queue's lanes */
	TimestampTz now;			/* one reading of the clock for all */
	int64		lease;			/* microseconds */
	int			wanted;
	int			got;
	List	   *lanes;			/* of ClaimLane */
	List	   *aside;			/* lanes with locked rows */
	int			fruitless;		/* turns since the last job that led nowhere */
	bool		offered_again;	/* our own rows, in this call */
	bool		paused;
	bool		exhausted;		/* nothing can be had any more */
	bool		hid;			/* for a moment, jobs from others' looks */
} Claim;

/* A lane that the call is looking into. */
typedef struct ClaimLane
{
	WorkqLook  *look;
	WorkqCursor *cursor[WORKQ_PRIORITIES];
	bool		near[WORKQ_PRIORITIES]; /* the cursor does not go far */
	bool		has_head[WORKQ_PRIORITIES]; /* the cursor is on a candidate */
	WorkqCursor *exact_cursor[WORKQ_PRIORITIES];
	int			exact_head[WORKQ_PRIORITIES];	/* index into look->exact, -1 */
	bool		exact_locked[WORKQ_MAX_EXACT];
	bool		locked;			/* met a row that was merely locked */
	bool		exhausted;
} ClaimLane;

/* What came of a turn. */
typedef enum TurnResult
{
	TURN_TAKEN,
	TURN_EMPTY,					/* nothing there that can be had */
	TURN_OTHER					/* not the job that the turn was given for */
} TurnResult;

/*
 * The look into a lane, begun if need be.  Few lanes are kept open, so that a
 * claim over many is no slower for each of them: those that were served last.
 */
extern ClaimLane *workq_look_open(Claim *claim, int number);

/*
 * Done with a lane.  Returns whether it is offered no longer.
 */
extern bool workq_look_close(Claim *claim, ClaimLane *lane);

/*
 * Take the best job of a lane.  *moved: it is in flight in another lane (see
 * workq_sched_move_turn).
 */
extern TurnResult workq_look_take(Claim *claim, ClaimLane *lane,
								  const WorkqSelection *selection,
								  WorkqJob *job, bool *promoted, bool *moved);

/*
 * Effective rank, and whether age has raised it.
 */
extern int	workq_look_rank(Claim *claim, int priority, TimestampTz since,
							bool *promoted);

#endif							/* WORKQ_CLAIM_INT_H */
