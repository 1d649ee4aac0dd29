/*-------------------------------------------------------------------------
 *
 * retry.h
 *	  Retry policies: of a queue, of a job, of a rule of an error map.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_RETRY_H
#define WORKQ_RETRY_H

#include "queue.h"
#include "store.h"

typedef struct WorkqRetry
{
	int			kind;			/* WORKQ_RETRY_... */
	int64		base;			/* milliseconds */
	int64		cap;			/* milliseconds */
	int			factor;
	int			jitter;			/* percent */
	int			max_attempts;	/* 0: not given */
} WorkqRetry;

/*
 * Put what a JSON object says over *retry; 22023 and others for what is wrong
 * with it.
 */
extern void workq_retry_parse(Jsonb *json, WorkqRetry *retry);

/* What goes into jobs.options for a job with a policy of its own. */
extern Jsonb *workq_retry_options(Jsonb *retry);

/* The policy that holds for a job: the queue's, and over it the job's own. */
extern void workq_retry_of_job(WorkqStore *store, const WorkqQueueInfo *queue,
							   const WorkqJob *job, WorkqRetry *retry);

/* How long to wait after the n-th failure, in microseconds. */
extern int64 workq_retry_delay(const WorkqRetry *retry, int failures);

#endif							/* WORKQ_RETRY_H */
