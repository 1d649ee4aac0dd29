/*-------------------------------------------------------------------------
 *
 * verdict.h
 *	  What a technical fault means for the job.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_VERDICT_H
#define WORKQ_VERDICT_H

#include "outcome.h"
#include "queue.h"

typedef enum WorkqVerdictKind
{
	WORKQ_VERDICT_RETRY,
	WORKQ_VERDICT_DEAD,
	WORKQ_VERDICT_ERROR,		/* a business error */
	WORKQ_VERDICT_STATUS		/* a business status */
} WorkqVerdictKind;

typedef struct WorkqVerdict
{
	WorkqVerdictKind kind;
	int64		delay;			/* retry: microseconds */
	const char *decision;		/* a word for the log */
	const char *code;			/* error, status */
	const Jsonb *value;			/* error, status; NULL: the fault's body */
} WorkqVerdict;

/*
 * Judge a fault of a leased job that has not been counted in job->failures.
 * All of the verdict is palloc'd or static.
 */
extern void workq_verdict_of_fault(WorkqStore *store,
								   const WorkqQueueInfo *queue,
								   const WorkqJob *job,
								   const WorkqReport *report,
								   WorkqVerdict *verdict);

#endif							/* WORKQ_VERDICT_H */
