/*-------------------------------------------------------------------------
 *
 * tap.c
 *	  Test Anything Protocol for C programs.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tap.h"

static int	n_tests = 0;
static int	n_failures = 0;

bool
tap_ok(bool good, const char *name,...)
{
	va_list		args;

	n_tests++;
	n_failures += !good;
	printf("%s %d - ", good ? "ok" : "not ok", n_tests);
	va_start(args, name);
	vprintf(name, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	return good;
}

bool
tap_is(const char *got, const char *expected, const char *name)
{
	bool		good = strcmp(got, expected) == 0;

	tap_ok(good, "%s", name);
	if (!good)
		printf("#      got: %s\n# expected: %s\n", got, expected);
	return good;
}

bool
tap_equal(int64_t got, int64_t expected, const char *name)
{
	tap_ok(got == expected, "%s", name);
	if (got != expected)
		printf("# got %lld, expected %lld\n", (long long) got,
			   (long long) expected);
	return got == expected;
}

bool
tap_between(double got, double least, double most, const char *name)
{
	bool		good = got >= least && got <= most;

	tap_ok(good, "%s: %g", name, got);
	if (!good)
		printf("# expected %g to %g\n", least, most);
	return good;
}

int
tap_done(void)
{
	printf("1..%d\n", n_tests);
	return n_failures > 0;
}
