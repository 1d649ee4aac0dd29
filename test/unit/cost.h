/*-------------------------------------------------------------------------
 *
 * cost.h
 *	  What a claim costs, and is the policy consistent?
 *
 * Cost is counted in function calls: the tests are compiled with
 * -finstrument-functions, so it is the same on every machine.  Every loop of
 * the policy that could be long calls functions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef COST_H
#define COST_H

#include "world.h"

extern int64_t cost_calls;		/* so far */

/* The most calls that one of so many claims takes. */
extern int64_t cost_worst(World *w, int claims);

/* A test: workq_policy_check finds nothing. */
extern void consistent(World *w, const char *name);

#endif							/* COST_H */
