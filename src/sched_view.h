/*-------------------------------------------------------------------------
 *
 * sched_view.h
 *	  Shared memory as views and metrics show it.
 *
 * Everything here copies under the queue's lock, a few records at a time, so
 * that a look at a queue with 100,000 keys holds up nobody.  What is copied of
 * one key belongs together; different keys are of different moments.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_SCHED_VIEW_H
#define WORKQ_SCHED_VIEW_H

#include "sched.h"

/* The first that applies, in this order: paused, capped, ready, leased, idle. */
typedef enum WorkqKeyState
{
	WORKQ_KEY_IS_READY,			/* has work, takes turns */
	WORKQ_KEY_IS_CAPPED,		/* has work, is at its cap */
	WORKQ_KEY_IS_PAUSED,		/* weight 0, or its tenant's is */
	WORKQ_KEY_IS_LEASED,		/* has no work, but some in flight */
	WORKQ_KEY_IS_IDLE,			/* neither; it is remembered for its round */
	WORKQ_KEY_STATES
} WorkqKeyState;

/* A queue as a whole. */
typedef struct WorkqQueueView
{
	bool		has_shares;		/* drr */
	int			dimension;		/* WorkqFairnessKey; -1: all jobs in one lane */
	int64		rounds;			/* completed */
	int64		selected;		/* totals since it was loaded: never fall */
	int64		deferred;
	int64		promoted;
	int64		other_selected; /* of these, keys without a metric */
	int64		other_deferred;
	int64		other_promoted;
	bool		has_other;		/* are there such keys? */
	int			recent;			/* selections in the last two windows */
	TimestampTz longest_wait;	/* since when; DT_NOEND: nobody waits */
	bool		overflowing;
} WorkqQueueView;

/* A lane, the group of a tenant's lanes, or a key that only metrics know. */
typedef struct WorkqKeyView
{
	bool		has_lane;		/* else only the totals mean something */
	bool		is_group;		/* of a tenant's bindings; its key: the tenant */
	int			lane;			/* number of the record */
	int			group;			/* number of the group's record, or -1 */
	WorkqKeyState state;
	int			weight;
	int			cap;			/* 0: none */
	int			in_flight;
	int64		deficit;
	int64		ready;			/* jobs; 0 of a group */
	int64		selected;
	int64		deferred;
	int64		promoted;
	int			recent;			/* selections in the queue's last two windows */
	double		share;			/* that its weight entitles it to */
	WorkqPos	from[WORKQ_PRIORITIES]; /* ready rows stand behind this */
	bool		none[WORKQ_PRIORITIES]; /* there are none of this priority */
	char		key[WORKQ_MAX_LANE + 4];
} WorkqKeyView;

/*
 * False: the queue is not in shared memory, nothing has happened to it.  Sees
 * to it that what is shown follows the settings as they are now.
 */
extern bool workq_sched_view_queue(int32 queue_id, WorkqQueueView *view);

/*
 * Call for every lane, and every group, of a queue; without a lock.  brief:
 * state, group and is_group are enough.
 */
typedef void (*WorkqKeyVisitor) (const WorkqKeyView *view, void *arg);
extern void workq_sched_view_keys(int32 queue_id, bool brief,
								  WorkqKeyVisitor visit, void *arg);

/* One lane of a queue, by its key.  False: it has no record. */
extern bool workq_sched_view_key(int32 queue_id, const char *key,
								 WorkqKeyView *view);

/*
 * What holds for a key by the tables, whether it has a lane or not; settings:
 * the queue's in force.
 */
typedef struct WorkqKeyInForce
{
	int			weight;
	int			cap;			/* 0: none */
	bool		paused;			/* weight 0, or its tenant's is */
} WorkqKeyInForce;

extern void workq_sched_key_in_force(int32 queue_id, const int64 *settings,
									 const char *key, WorkqKeyInForce *result);

/*
 * The keys of a queue that metrics are exported for, those seen last
 * first; palloc'd.  Returns how many.
 */
extern int	workq_sched_view_metrics(int32 queue_id, WorkqKeyView **views);

/* Lane records of the server: how many there are, how many are free. */
extern void workq_sched_view_pool(int *lanes, int *unused);

#endif							/* WORKQ_SCHED_VIEW_H */
