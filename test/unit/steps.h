/*-------------------------------------------------------------------------
 *
 * steps.h
 *	  Random steps of the policy and its model, side by side.
 *
 * A source of numbers, random or a fuzzer's, decides what happens.  After
 * every step the two must agree in all that can be seen.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STEPS_H
#define STEPS_H

#include "model.h"

typedef struct Source
{
	const uint8_t *data;		/* NULL: random */
	size_t		size;
	size_t		at;
	uint64_t	state;			/* of the generator */
} Source;

typedef enum StepsKind
{
	STEPS_FLAT,					/* lanes without groups */
	STEPS_GROUPS,				/* groups, and some lanes without */
	STEPS_KINDS
} StepsKind;

/*
 * Take n steps, or until the data ends.  NULL, or what differed, and *failed
 * at which step.  counts: how often each kind of step did something, if not
 * NULL.
 */
#define STEPS_COUNTS	16

extern const char *steps_run(Source *source, StepsKind kind, int64_t n,
							 int64_t *failed, int64_t *counts);
extern const char *const steps_names[STEPS_COUNTS];

extern uint64_t source_next(Source *source);
extern int	source_below(Source *source, int n);

#endif							/* STEPS_H */
