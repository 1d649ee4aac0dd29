/*-------------------------------------------------------------------------
 *
 * scheduler.h
 *	  What the scheduler's views and the metrics have in common.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_SCHEDULER_H
#define WORKQ_SCHEDULER_H

#include "queue.h"
#include "sched_view.h"

/* What stands for jobs that lack the key, and for all the other keys. */
#define WORKQ_LABEL_ALL			"_all"	/* the one lane of plain fifo */
#define WORKQ_LABEL_OTHER		"other"

/* How a lane's key is shown; palloc'd.  What is absent is NULL. */
typedef struct WorkqKeyNames
{
	char	   *fairness_key;	/* as in a claim's receipt */
	char	   *key;			/* as workq_set_key takes it */
	char	   *tenant;			/* where the dimension has it */
	char	   *binding;
} WorkqKeyNames;

extern void workq_scheduler_names(int dimension, const WorkqKeyView *view,
								  WorkqKeyNames *names);

/*
 * The fairness key as a label: the same, but no two keys are alike.  A key
 * that looks like one of the words that stand for something else, or begins
 * with "=", gets a "=" in front.
 */
extern char *workq_scheduler_label(int dimension, const WorkqKeyView *view);

/*
 * Call for one queue (42704, or 42501 without the right to monitor it), or,
 * if name is NULL, for all that the current role may monitor.
 */
extern void workq_scheduler_each(const char *name,
								 void (*visit) (WorkqQueueInfo *queue,
												void *arg),
								 void *arg);

/* Since when is the oldest job of a lane ready?  DT_NOEND: there is none. */
extern TimestampTz workq_scheduler_oldest(int32 queue_id,
										  const WorkqKeyView *view);

/*
 * At most max of a queue's keys, and as many of its tenants, in the order in
 * which they are shown: most ready jobs, most in flight, most selected, by
 * name.  Here a tenant's ready jobs are the sum of its bindings'.  palloc'd.
 */
typedef struct WorkqBestKeys
{
	int			n_keys;
	int			n_tenants;
	WorkqKeyView **keys;
	WorkqKeyView **tenants;
} WorkqBestKeys;

extern void workq_scheduler_best(int32 queue_id, int max,
								 WorkqBestKeys *best);

/* The default of max_keys. */
#define WORKQ_DEFAULT_MAX_KEYS	1000

#endif							/* WORKQ_SCHEDULER_H */
