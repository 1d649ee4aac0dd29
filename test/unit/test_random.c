/*-------------------------------------------------------------------------
 *
 * test_random.c
 *	  Millions of random steps against a slow, obvious model.
 *
 * usage: test_random [STEPS [SEED]]
 *
 * Every run of RUN_LENGTH steps starts with a new queue and has a seed of its
 * own, which is printed if it fails.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "steps.h"

#define RUN_LENGTH	4000

int
main(int argc, char **argv)
{
	int64_t		n = argc > 1 ? strtoll(argv[1], NULL, 10) : 2000000;
	uint64_t	seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 20240607;
	int64_t		counts[STEPS_COUNTS];
	int64_t		done = 0;
	int			failures = 0;
	int			k;

	memset(counts, 0, sizeof(counts));
	printf("1..%d\n", 2 + STEPS_COUNTS);
	printf("# %lld steps, seed %llu\n", (long long) n,
		   (unsigned long long) seed);
	for (k = 0; k < STEPS_KINDS; k++)
	{
		bool		good = true;

		for (done = 0; done < n / STEPS_KINDS && good; done += RUN_LENGTH)
		{
			Source		source = {NULL, 0, 0, 0};
			const char *complaint;
			int64_t		failed;

			source.state = seed + (uint64_t) done * STEPS_KINDS + (uint64_t) k;
			complaint = steps_run(&source, (StepsKind) k, RUN_LENGTH, &failed,
								  counts);
			if (complaint != NULL)
			{
				printf("# seed %llu, step %lld: %s\n",
					   (unsigned long long) (seed + (uint64_t) done *
											 STEPS_KINDS + (uint64_t) k),
					   (long long) failed, complaint);
				good = false;
			}
		}
		printf("%s %d - agrees with the model %s\n", good ? "ok" : "not ok",
			   k + 1, k == STEPS_FLAT ? "without groups" : "with groups");
		failures += !good;
	}
	/* a test that never gets there shows nothing */
	for (k = 0; k < STEPS_COUNTS; k++)
	{
		bool		often = counts[k] > n / 2000;

		printf("%s %d - %s: %lld\n", often ? "ok" : "not ok", 3 + k,
			   steps_names[k], (long long) counts[k]);
		failures += !often;
	}
	return failures > 0;
}
