/*-------------------------------------------------------------------------
 *
 * verdict.c
 *	  What a technical fault means for the job: retry policies.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "common/pg_prng.h"

#include "compat.h"
#include "verdict.h"

/*
 * How long to wait before the next attempt, in microseconds: base * 2^(n-1)
 * for the n-th failure, at most the cap, +- 20 % so that a fleet that failed
 * together does not come back together.
 */
static int64
backoff(const int64 *settings, int failures)
{
	double		base = settings[WORKQ_SET_RETRY_BASE] * 1000.0;
	double		cap = settings[WORKQ_SET_RETRY_CAP] * 1000.0;
	double		delay = Min(base * pow(2.0, Min(failures - 1, 62)), cap);

	return (int64) (delay * (0.8 + 0.4 * workq_compat_random_double()));
}

void
workq_verdict_of_fault(WorkqStore *store, const int64 *settings,
					   const WorkqJob *job, const WorkqReport *report,
					   WorkqVerdict *verdict)
{
	memset(verdict, 0, sizeof(WorkqVerdict));
	if (job->failures + 1 >= job->max_attempts)
	{
		verdict->kind = WORKQ_VERDICT_DEAD;
		verdict->decision = "exhausted";
		return;
	}
	verdict->kind = WORKQ_VERDICT_RETRY;
	verdict->decision = "retry";
	verdict->delay = report->delay >= 0 ? report->delay :
		backoff(settings, job->failures + 1);
}
