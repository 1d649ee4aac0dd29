/*-------------------------------------------------------------------------
 *
 * outcome.h
 *	  What a claim's holder says of it, and what becomes of the job.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_OUTCOME_H
#define WORKQ_OUTCOME_H

#include "queue.h"
#include "sched.h"
#include "store.h"

/* The order is that of report_events[] in outcome.c. */
typedef enum WorkqReportKind
{
	WORKQ_REPORT_RENEW,
	WORKQ_REPORT_ACK,
	WORKQ_REPORT_FAIL,
	WORKQ_REPORT_RELEASE,
	WORKQ_REPORT_ERROR,			/* a business verdict */
	WORKQ_REPORT_STATUS,		/* the other one */
	WORKQ_REPORT_PARK,
	WORKQ_REPORT_PROGRESS,		/* these two do not end the claim */
	WORKQ_REPORT_CHECKPOINT,
	WORKQ_REPORT_LOOK			/* changes nothing */
} WorkqReportKind;

/* What a holder says of one claim. */
typedef struct WorkqReport
{
	WorkqReportKind kind;
	const pg_uuid_t *claim_id;
	int64		lease;			/* renew: microseconds, -1 for the default */
	int64		delay;			/* fail, release: -1 for none given */
	bool		hold_lease;		/* fail */
	const char *code;			/* fail, error */
	const char *message;		/* fail, error */
	const char *reason;			/* release, park; checkpoint: the step */
	Jsonb	   *body;			/* ack, fail, error, status, progress,
								 * checkpoint */
	const struct WorkqReport *more; /* progress: further parts of the claim */
} WorkqReport;

typedef enum WorkqAnswerStatus
{
	WORKQ_ANSWER_OK,
	WORKQ_ANSWER_REPEATED,
	WORKQ_ANSWER_LOST,
	WORKQ_ANSWER_CANCELLED,
	WORKQ_ANSWER_LIMIT
} WorkqAnswerStatus;

typedef struct WorkqAnswer
{
	WorkqAnswerStatus status;
	TimestampTz deadline;		/* of a claim that goes on */
	int32		number;			/* of the last part of progress */
	char	   *detail;			/* a sentence, for an error */
} WorkqAnswer;

/* One call of a verb. */
typedef struct WorkqCall
{
	WorkqInstance *instance;
	WorkqStore *store;
	TimestampTz now;
} WorkqCall;

/* Do what a holder says of one claim. */
extern void workq_outcome_act(WorkqCall *call, const WorkqReport *report,
							  WorkqAnswer *answer);

/*
 * Only find the claim, with the queue as the cache has it.  False: it is lost,
 * *answer says how.
 */
extern bool workq_outcome_look(WorkqCall *call, const WorkqReport *report,
							   WorkqLease *lease,
							   const WorkqQueueInfo **queue,
							   WorkqAnswer *answer);

/*
 * Move a job whose live row has been deleted into its next state, and append
 * the changes.  "queue" is its number in shared memory.
 */
extern void workq_outcome_to_ready(WorkqStore *store, int queue,
								   const WorkqJob *job);
extern void workq_outcome_to_scheduled(WorkqStore *store, int queue,
									   const WorkqJob *job);

/* Logs that, too.  decision: why it is dead, a word for the log. */
extern void workq_outcome_to_dead(WorkqStore *store, int queue, WorkqJob *job,
								  TimestampTz now, const char *decision,
								  const char *reason);
extern void workq_outcome_to_cancelled(WorkqStore *store, int queue,
									   WorkqJob *job, TimestampTz now,
									   const char *reason);

/*
 * Answer whoever waits for the job's outcome, when no holder reported it: the
 * job is dead or cancelled, with message as the reason.  After the move.
 */
extern void workq_outcome_respond(WorkqStore *store, const WorkqJob *job,
								  TimestampTz at, const char *outcome,
								  const char *message);

/* Give up the job's deduplication key, if it has one. */
extern void workq_outcome_drop_key(WorkqStore *store, WorkqJob *job);

#endif							/* WORKQ_OUTCOME_H */
