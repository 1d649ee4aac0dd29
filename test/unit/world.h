/*-------------------------------------------------------------------------
 *
 * world.h
 *	  A queue with jobs, for tests of the policy: lanes are just numbers of
 *	  jobs, a look is exact, the clock stands until it is moved.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORLD_H
#define WORLD_H

#include "../../src/policy.h"

#define SECOND	INT64_C(1000000)
#define MINUTE	(60 * SECOND)
#define DEEP	1000000000		/* jobs; enough for any test */

typedef struct World
{
	WorkqPolicyQueue queue;
	WorkqPolicy policy;
	int			n_lanes;		/* records */
	int64_t    *jobs;			/* ready ones, per lane */
	int64_t    *served;			/* claims, per lane */
	int64_t		now;
	int64_t		looks;			/* also those that found nothing */
	uint64_t	random;
	WorkqPolicySelection selection; /* the last one */
} World;

/* drr, quantum 1, ages off, no cap, weight 1 */
extern WorkqPolicyParams world_params(void);
extern World *world_new(int n_lanes, const WorkqPolicyParams *params);
extern void world_free(World *w);

/* Lanes 0 to n - 1 with these weights; NULL: all inherit. */
extern void world_add(World *w, int n, const int *weights);
extern void world_add_lane(World *w, int lane, int weight);

/* A queue whose n lanes are all deep; there is room for 8 more. */
extern World *world_deep(int n, const int *weights,
						 const WorkqPolicyParams *params);
extern void world_enqueue(World *w, int lane, int64_t n);

/* Claim a job; returns its lane, or -1. */
extern int	world_claim(World *w);
extern void world_ack(World *w, int lane);
extern void world_rollback(World *w, int lane);

/* Claim and ack. */
extern int	world_serve(World *w);

/* n times; the lanes as letters, blanks between rounds if blanks. */
extern const char *world_sequence(World *w, int n, bool blanks);
extern int	world_random(World *w, int n);

#endif							/* WORLD_H */
