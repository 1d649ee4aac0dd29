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
	bool		commits;		/* before it sleeps */
	bool		keeps;			/* a wake-up, when it is done */
	int			kept;			/* the queue of the wake-up, or -1 */
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

/* This session has claimed something. */
extern void workq_wait_claimed(void);

#endif							/* WORKQ_WAIT_H */
