/*-------------------------------------------------------------------------
 *
 * wait.h
 *	  Sleeping until there is something to claim.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_WAIT_H
#define WORKQ_WAIT_H

#include "sched.h"

#define WORKQ_MAX_WAIT			INT64CONST(300000000)	/* 5 minutes, us */
#define WORKQ_MAX_WAIT_CALL		INT64CONST(86400000000) /* 1 day, us */

typedef struct WorkqWait
{
	WorkqWaitSet set;			/* filled by the attempt */
	int			n_served;		/* queues that gave a job; by the attempt */
	int			served[WORKQ_MAX_WAIT_QUEUES];

	/*
	 * Try; true ends the wait.  Opens what it needs, and closes it.  Runs in
	 * a memory context of its own that is reset.
	 */
	bool		(*attempt) (struct WorkqWait *wait);
	void	   *arg;
	long		backoff;		/* ms to wait if something is on offer */
	bool		saw_more;		/* on offer, but not to be had; it still is */
	bool		commits;		/* before it sleeps */
	bool		keeps;			/* a wake-up, when it is done */
	WorkqWakeUp kept;			/* that one */
	TupleDesc	result;			/* of a procedure */
} WorkqWait;

/*
 * Try, and sleep as long as it fails, for "us" microseconds at most; 0: try
 * once.  While asleep the transaction has no lock that the attempts took,
 * unless they wrote.  Returns what the last attempt returned.
 */
extern bool workq_wait_run(WorkqWait *wait, int64 us);

/*
 * The argument with the names of queues: one to WORKQ_MAX_WAIT_QUEUES; one
 * that is there twice counts once.  Returns how many.
 */
extern int	workq_wait_queues(FunctionCallInfo fcinfo, int n, char **names);

/*
 * This session has claimed something, of these queues: a wake-up that
 * workq_wait has handed to it is used, or, if it came from elsewhere, is
 * passed on.
 */
extern void workq_wait_claimed(const int *served, int n_served);

/*
 * It has tried to claim, of these queues, and got nothing.  So it is not one
 * that waits and never claims, and what it was woken for it has seen.
 */
extern void workq_wait_tried(const int *tried, int n_tried);

/*
 * Will this backend look at the queue again by itself: does it wait, or has
 * workq_wait told it of something there?
 */
extern bool workq_wait_looks_again(int queue);

#endif							/* WORKQ_WAIT_H */
