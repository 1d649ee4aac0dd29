/*-------------------------------------------------------------------------
 *
 * look.c
 *	  A claim's look into one lane: which is the best job there, and take it.
 *
 * A lane has for each priority a walk along its ready rows from the start hint
 * on (see sched.c), and exact positions before it.  The head of a priority is
 * the first row of the two that can be had; the best head, by effective rank,
 * ready_since and job_id, is the lane's next job.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/timestamp.h"

#include "args.h"
#include "claim_int.h"
#include "relane.h"
#include "xact.h"

#define MAX_LANES_OPEN	32		/* looked into at a time */
#define MAX_GAP			INT64CONST(1000000000000)	/* keeps sums in range */
#define NEAR_WANTED		4		/* who wants more reads whole index pages */

bool
workq_look_close(Claim *claim, ClaimLane *lane)
{
	bool		off;
	int			p;

	for (p = 0; p < WORKQ_PRIORITIES; p++)
	{
		if (lane->cursor[p] != NULL)
			workq_store_end(lane->cursor[p]);
		if (lane->exact_cursor[p] != NULL)
			workq_store_end(lane->exact_cursor[p]);
	}
	off = workq_sched_look_end(lane->look, lane->exhausted && !lane->locked,
							   claim->now);
	pfree(lane);
	return off;
}

ClaimLane *
workq_look_open(Claim *claim, int number)
{
	ClaimLane  *lane;
	ListCell   *lc;
	int			p;

	foreach(lc, claim->lanes)
	{
		lane = (ClaimLane *) lfirst(lc);
		if (lane->look->lane != number)
			continue;
		claim->lanes = lappend(list_delete_cell(claim->lanes, lc), lane);
		return lane;
	}
	if (list_length(claim->lanes) == MAX_LANES_OPEN)
	{
		(void) workq_look_close(claim, linitial(claim->lanes));
		claim->lanes = list_delete_first(claim->lanes);
	}
	lane = palloc0(sizeof(ClaimLane));
	lane->look = workq_sched_look_begin(claim->queue, number);
	for (p = 0; p < WORKQ_PRIORITIES; p++)
		lane->exact_head[p] = -1;
	claim->lanes = lappend(claim->lanes, lane);
	return lane;
}

/*
 * Open the cursor of a walk behind what it has passed.  Who wants few jobs
 * looks near first, as far as the row was from the hint the last time.
 */
static void
cursor_open(Claim *claim, ClaimLane *lane, const char *key, int p)
{
	WorkqWalk  *walk = &lane->look->walk[p];

	lane->near[p] = claim->wanted <= NEAR_WANTED && walk->gap >= 0 &&
		!walk->blocked;
	lane->cursor[p] = lane->near[p] ?
		workq_store_near_cursor(claim->store, claim->queue_id, key, p,
								walk->passed, walk->gap * 4) :
		workq_store_ready_cursor(claim->store, claim->queue_id, key, p,
								 walk->passed);
}

/*
 * How far was the row from where the walk began?
 */
static void
learn_gap(WorkqWalk *walk, WorkqPos pos)
{
	walk->gap = walk->from.since == PG_INT64_MIN ? -1 :
		Min(pos.since - walk->from.since, MAX_GAP);
}

/*
 * See that the walk of a priority stands on a candidate, or has ended.
 */
static bool
walk_to_head(Claim *claim, ClaimLane *lane, const char *key, int p)
{
	WorkqWalk  *walk = &lane->look->walk[p];

	if (lane->has_head[p])
		return true;
	if (walk->ended)
		return false;
	if (lane->look->empty[p])
	{
		walk->ended = true;
		return false;
	}
	if (lane->cursor[p] == NULL)
		cursor_open(claim, lane, key, p);
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		switch (workq_store_next(lane->cursor[p]))
		{
			case WORKQ_ROW_END:
				if (lane->near[p])
				{
					/* nothing near; where we are from here on, we know */
					walk->gap = -1;
					workq_store_end(lane->cursor[p]);
					cursor_open(claim, lane, key, p);
					break;
				}
				walk->ended = true;
				return false;
			case WORKQ_ROW_PASS:
				workq_walk_pass(walk, workq_store_pos(lane->cursor[p]));
				break;
			case WORKQ_ROW_CANDIDATE:
				lane->has_head[p] = true;
				learn_gap(walk, workq_store_pos(lane->cursor[p]));
				return true;
		}
	}
}

/*
 * The lowest exact position of a priority that is still to be tried, or -1.
 */
static int
lowest_exact(ClaimLane *lane, int p)
{
	WorkqLook  *look = lane->look;
	int			best = -1;
	int			i;

	for (i = 0; i < look->n_exact; i++)
	{
		if (look->exact[i].priority == p && !look->exact[i].tried &&
			!lane->exact_locked[i] &&
			(best < 0 || workq_pos_compare(look->exact[i].pos, look->exact[best].pos) < 0))
			best = i;
	}
	return best;
}

/*
 * Look up an exact position.  True: its cursor stands on a candidate.
 */
static bool
exact_lookup(Claim *claim, ClaimLane *lane, const char *key, int p, int i)
{
	WorkqPos	pos = lane->look->exact[i].pos;
	WorkqPos	after = pos;
	WorkqPos	found;

	after.job_id--;
	lane->exact_cursor[p] = workq_store_ready_cursor(claim->store,
													 claim->queue_id, key, p,
													 after);
	if (workq_store_next(lane->exact_cursor[p]) == WORKQ_ROW_CANDIDATE)
	{
		found = workq_store_pos(lane->exact_cursor[p]);
		if (workq_pos_compare(found, pos) == 0)
		{
			lane->exact_head[p] = i;
			return true;
		}
	}
	workq_store_end(lane->exact_cursor[p]);
	lane->exact_cursor[p] = NULL;
	lane->look->exact[i].tried = true;
	return false;
}

/*
 * The first candidate of a priority: from an exact position or from the walk.
 * NULL when there is none.
 */
static WorkqCursor *
lane_head(Claim *claim, ClaimLane *lane, const char *key, int p, WorkqPos *pos)
{
	bool		walked = walk_to_head(claim, lane, key, p);

	if (walked)
		*pos = workq_store_pos(lane->cursor[p]);
	while (lane->exact_head[p] < 0)
	{
		int			i = lowest_exact(lane, p);

		if (i < 0 || (walked && workq_pos_compare(*pos, lane->look->exact[i].pos) < 0))
			return walked ? lane->cursor[p] : NULL;
		exact_lookup(claim, lane, key, p, i);
	}
	if (walked &&
		workq_pos_compare(*pos, lane->look->exact[lane->exact_head[p]].pos) < 0)
		return lane->cursor[p];
	*pos = lane->look->exact[lane->exact_head[p]].pos;
	return lane->exact_cursor[p];
}

int
workq_look_rank(Claim *claim, int priority, TimestampTz since, bool *promoted)
{
	int			rank = workq_rank_of(claim->settings, priority, since,
									 claim->now);

	*promoted = rank != priority;
	return rank;
}

/*
 * Move on from the row on which a head stands, which became "result".
 */
static void
leave_head(ClaimLane *lane, WorkqCursor *cursor, int p, WorkqPos pos,
		   WorkqTake result)
{
	if (cursor == lane->cursor[p])
	{
		lane->has_head[p] = false;
		if (result == WORKQ_LOCKED)
			lane->look->walk[p].blocked = true;
		else
			workq_walk_pass(&lane->look->walk[p], pos);
	}
	else
	{
		if (result == WORKQ_LOCKED)
			lane->exact_locked[lane->exact_head[p]] = true;
		else
			lane->look->exact[lane->exact_head[p]].tried = true;
		workq_store_end(cursor);
		lane->exact_cursor[p] = NULL;
		lane->exact_head[p] = -1;
	}
	if (result == WORKQ_LOCKED)
		lane->locked = true;
}

/* The first row of a lane, as far as can be seen without taking it. */
typedef struct LaneBest
{
	WorkqCursor *cursor;
	WorkqPos	pos;
	int			priority;
	bool		promoted;		/* by age */
} LaneBest;

/*
 * The best job of a lane.  False: there is none.
 */
static bool
lane_best(Claim *claim, ClaimLane *lane, const char *key, LaneBest *best)
{
	int			best_rank = 0;
	int			p;

	best->cursor = NULL;
	for (p = 0; p < WORKQ_PRIORITIES; p++)
	{
		WorkqPos	pos = {0, 0};
		WorkqCursor *head = lane_head(claim, lane, key, p, &pos);
		bool		aged;
		int			rank;

		if (head == NULL)
			continue;
		rank = workq_look_rank(claim, p, pos.since, &aged);
		if (best->cursor == NULL || rank < best_rank ||
			(rank == best_rank && workq_pos_compare(pos, best->pos) < 0))
		{
			best->cursor = head;
			best->pos = pos;
			best->priority = p;
			best->promoted = aged;
			best_rank = rank;
		}
	}
	if (best->cursor == NULL)
		lane->exhausted = true;
	return best->cursor != NULL;
}

/*
 * Tell the scheduler where the lane's first rows stand.
 */
static bool
tell_heads(Claim *claim, ClaimLane *lane, const char *key)
{
	WorkqPos	pos[WORKQ_PRIORITIES];
	const WorkqPos *heads[WORKQ_PRIORITIES];
	int			p;

	for (p = 0; p < WORKQ_PRIORITIES; p++)
		heads[p] = lane_head(claim, lane, key, p, &pos[p]) != NULL ?
			&pos[p] : NULL;
	return workq_sched_set_heads(lane->look, heads);
}

/*
 * The best row is in a lane of an old form: get it a place in flight in its
 * right one.  False: there is none, the row stays where it is.
 */
static bool
find_place(Claim *claim, const WorkqSelection *selection, WorkqJob *job)
{
	workq_sched_note_misplaced(claim->queue);
	return workq_relane_to(claim->store, job, claim->form) &&
		workq_sched_move_turn(claim->queue, selection, job->lane, claim->now);
}

/*
 * Try to take the best row of a lane; moves on from it in any case.
 */
static WorkqTake
take_best(Claim *claim, ClaimLane *lane, const WorkqSelection *selection,
		  const LaneBest *best, WorkqJob *job, bool *moved)
{
	WorkqTake	result = WORKQ_LOCKED;

	*moved = workq_job_form(workq_store_flags(best->cursor)) != claim->form;
	if (*moved)
		workq_store_row(best->cursor, job);
	if (!*moved || find_place(claim, selection, job))
	{
		result = workq_store_take(best->cursor);
		if (result == WORKQ_TAKEN && !*moved)
			workq_store_row(best->cursor, job);
		else if (result != WORKQ_TAKEN && *moved)
		{
			workq_sched_move_back(claim->queue, selection, claim->now);
			claim->hid = true;
		}
	}
	leave_head(lane, best->cursor, best->priority, best->pos, result);
	return result;
}

TurnResult
workq_look_take(Claim *claim, ClaimLane *lane, const WorkqSelection *selection,
				WorkqJob *job, bool *promoted, bool *moved)
{
	LaneBest	best = {NULL, {0, 0}, 0, false};

	while (lane_best(claim, lane, selection->key, &best))
	{
		if (selection->exact &&
			(best.priority != selection->expected_priority ||
			 best.pos.since != selection->expected.since ||
			 best.pos.job_id != selection->expected.job_id) &&
			tell_heads(claim, lane, selection->key))
			return TURN_OTHER;
		if (take_best(claim, lane, selection, &best, job,
					  moved) == WORKQ_TAKEN)
		{
			*promoted = best.promoted;
			if (selection->exact)
				tell_heads(claim, lane, selection->key);
			return TURN_TAKEN;
		}
	}
	return TURN_EMPTY;
}
