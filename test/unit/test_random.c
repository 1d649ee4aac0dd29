/*-------------------------------------------------------------------------
 *
 * test_random.c
 *	  Millions of random steps against a slow, obvious model.
 *
 * usage: test_random [STEPS [SEED]]
 *
 * Every run of RUN_LENGTH steps starts with a new queue.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "steps.h"
#include "tap.h"

#define RUN_LENGTH	4000

/* All runs of a kind; true if they agree with the model. */
static bool
runs(StepsKind kind, int64_t n, uint64_t seed, int64_t *counts)
{
	int64_t		done;

	for (done = 0; done < n / STEPS_KINDS; done += RUN_LENGTH)
	{
		Source		source = {NULL, 0, 0, 0};
		const char *complaint;
		int64_t		failed;

		source.state = seed + (uint64_t) (done * STEPS_KINDS + kind);
		complaint = steps_run(&source, kind, RUN_LENGTH, &failed, counts);
		if (complaint != NULL)
		{
			printf("# run %lld, step %lld: %s\n",
				   (long long) (done / RUN_LENGTH), (long long) failed,
				   complaint);
			return false;
		}
	}
	return true;
}

int
main(int argc, char **argv)
{
	int64_t		n = argc > 1 ? strtoll(argv[1], NULL, 10) : 2000000;
	uint64_t	seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 20240607;
	int64_t		counts[STEPS_COUNTS];
	int			k;

	memset(counts, 0, sizeof(counts));
	printf("# %lld steps, seed %llu\n", (long long) n,
		   (unsigned long long) seed);
	tap_ok(runs(STEPS_FLAT, n, seed, counts),
		   "agrees with the model without groups");
	tap_ok(runs(STEPS_GROUPS, n, seed, counts),
		   "agrees with the model with groups");
	/* a test that never gets there shows nothing */
	for (k = 0; k < STEPS_COUNTS; k++)
		tap_ok(counts[k] > n / 2000, "%s: %lld", steps_names[k],
			   (long long) counts[k]);
	return tap_done();
}
