/*-------------------------------------------------------------------------
 *
 * fuzz.c
 *	  The policy against its model, steps chosen by libFuzzer.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>

#include "steps.h"

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Source		source = {data, size, 0, 0};
	const char *complaint;
	int64_t		failed;

	if (size < 2)
		return 0;
	complaint = steps_run(&source, data[size - 1] % 2 ? STEPS_GROUPS :
						  STEPS_FLAT, INT64_MAX, &failed, NULL);
	if (complaint != NULL)
	{
		fprintf(stderr, "step %lld: %s\n", (long long) failed, complaint);
		abort();
	}
	return 0;
}
