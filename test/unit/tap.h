/*-------------------------------------------------------------------------
 *
 * tap.h
 *	  Test Anything Protocol for C programs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TAP_H
#define TAP_H

#include <stdbool.h>
#include <stdint.h>

/* The name is printf's.  Returns what it was told. */
extern bool tap_ok(bool good, const char *name,...)
			__attribute__((format(printf, 2, 3)));
extern bool tap_is(const char *got, const char *expected, const char *name);
extern bool tap_equal(int64_t got, int64_t expected, const char *name);
extern bool tap_between(double got, double least, double most,
						const char *name);

/* Print the plan; returns the exit status. */
extern int	tap_done(void);

#endif							/* TAP_H */
