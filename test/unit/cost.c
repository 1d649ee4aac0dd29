/*-------------------------------------------------------------------------
 *
 * cost.c
 *	  What a claim costs, and is the policy consistent?  See cost.h.
 *
 *-------------------------------------------------------------------------
 */
#include "cost.h"
#include "tap.h"

#define NOT_COUNTED	__attribute__((no_instrument_function))

/* called by what the compiler puts into every function */
extern void __cyg_profile_func_enter(void *function, void *caller) NOT_COUNTED;
extern void __cyg_profile_func_exit(void *function, void *caller) NOT_COUNTED;

int64_t		cost_calls = 0;

void
__cyg_profile_func_enter(void *function, void *caller)
{
	cost_calls++;
}

void
__cyg_profile_func_exit(void *function, void *caller)
{
}

int64_t
cost_worst(World *w, int claims)
{
	int64_t		worst = 0;

	while (claims-- > 0)
	{
		int64_t		before = cost_calls;

		world_serve(w);
		if (cost_calls - before > worst)
			worst = cost_calls - before;
	}
	return worst;
}

void
consistent(World *w, const char *name)
{
	const char *complaint = workq_policy_check(&w->policy);

	tap_ok(complaint == NULL, "%s: consistent%s%s", name,
		   complaint != NULL ? ": " : "", complaint != NULL ? complaint : "");
}
