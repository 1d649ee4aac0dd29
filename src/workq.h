/*-------------------------------------------------------------------------
 *
 * workq.h
 *	  Types and limits shared by all of workq.
 *
 * A job is in exactly one of the live tables (ready, leases, scheduled,
 * held) or it is done.  What travels with it from one to the next is a
 * WorkqJob.  Where a ready job stands in its lane is a WorkqPos.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_H
#define WORKQ_H

#include "datatype/timestamp.h"
#include "fmgr.h"
#include "utils/uuid.h"

#define WORKQ_VERSION			"1.0"
#define WORKQ_SCHEMA			"workq"

/* Limits; each is stated in the error that enforces it. */
#define WORKQ_MAX_NAME			255 /* bytes in a name or key */
#define WORKQ_MAX_LANE			(2 * WORKQ_MAX_NAME + 1)
#define WORKQ_MAX_PAYLOAD		(64 * 1024 * 1024)	/* bytes as jsonb */
#define WORKQ_MAX_TEXT			8192	/* bytes in a reason, code, message */
#define WORKQ_MAX_BATCH			100000	/* elements in one call */
#define WORKQ_MAX_ATTEMPTS		1000000
#define WORKQ_MAX_EVENTS		1000000000	/* of one job, by progress */
#define WORKQ_MAX_INTERVAL		INT64CONST(315576000000000) /* 10 years, us */
#define WORKQ_DEFAULT_LEASE		INT64CONST(300000000)	/* 5 minutes, us */
#define WORKQ_MAX_RULES			100 /* in an error map */
#define WORKQ_PRIORITIES		3

/* separates tenant and binding in the lane of a tenant-and-binding queue */
#define WORKQ_LANE_SEPARATOR	'\x1f'

typedef enum WorkqPriority
{
	WORKQ_HIGH = 0,
	WORKQ_NORMAL = 1,
	WORKQ_LOW = 2
} WorkqPriority;

/* the right to do something with a queue; bits, as in AclMode */
typedef enum WorkqRight
{
	WORKQ_RIGHT_ENQUEUE = 1 << 0,
	WORKQ_RIGHT_CLAIM = 1 << 1,
	WORKQ_RIGHT_MONITOR = 1 << 2,
	WORKQ_RIGHT_MANAGE = 1 << 3
} WorkqRight;

#define WORKQ_RIGHT_ALL			0x0f

/* any of these: may see payloads, results and claim ids */
#define WORKQ_RIGHTS_FOR_PAYLOAD	(WORKQ_RIGHT_CLAIM | WORKQ_RIGHT_MANAGE)

/* flags that travel with a job */
#define WORKQ_JOB_DEDUP			0x0001	/* holds a deduplication key */
#define WORKQ_JOB_HOLD_LEASE	0x0002	/* failed, waits for its lease's end */
#define WORKQ_JOB_CANCEL		0x0004	/* cancel requested while leased */
#define WORKQ_JOB_CORRELATED	0x0008	/* was given a correlation */
#define WORKQ_JOB_RETRY			0x0100	/* has a retry policy of its own */
#define WORKQ_JOB_PAYLOAD		0x0200	/* has a newer payload in the log */
#define WORKQ_JOB_FORM			0x0070	/* form of its lane, see below */
#define WORKQ_JOB_FORM_SHIFT	4

typedef enum WorkqFairnessKey
{
	WORKQ_KEY_TENANT,
	WORKQ_KEY_BINDING,
	WORKQ_KEY_TRIGGER_ID,
	WORKQ_KEY_TENANT_AND_BINDING
} WorkqFairnessKey;

/*
 * The form of lanes: what of a job makes its lane.  It follows from a queue's
 * strategy, fairness key and cap.  A job's flags say of which form its lane
 * is, so that one of an old form is known without a look into the log.
 */
typedef enum WorkqLaneForm
{
	WORKQ_FORM_PLAIN,			/* one lane for all: "" */
	WORKQ_FORM_TENANT,
	WORKQ_FORM_BINDING,
	WORKQ_FORM_TRIGGER_ID,
	WORKQ_FORM_TENANT_AND_BINDING,
	WORKQ_N_FORMS,
	WORKQ_FORM_UNKNOWN			/* of a queue; fits into WORKQ_JOB_FORM */
} WorkqLaneForm;

/* Place in a lane: the order of one priority.  Also (due, job_id) and
 * (deadline, job_id), which are kept the same way. */
typedef struct WorkqPos
{
	TimestampTz since;
	int64		job_id;
} WorkqPos;

static inline int
workq_pos_compare(WorkqPos a, WorkqPos b)
{
	if (a.since != b.since)
		return a.since < b.since ? -1 : 1;
	return (a.job_id > b.job_id) - (a.job_id < b.job_id);
}

/* What the four live tables have in common, in their column order. */
typedef struct WorkqJob
{
	int64		job_id;
	TimestampTz since;			/* ready_since, or due in scheduled */
	int32		queue_id;
	int32		attempt;		/* claims so far */
	int32		failures;
	int32		max_attempts;
	int32		events;			/* in the log so far; numbers them */
	int16		priority;
	int16		flags;
	const char *lane;			/* "" for none; never NULL */
} WorkqJob;

static inline WorkqLaneForm
workq_job_form(int16 flags)
{
	return (WorkqLaneForm) ((flags & WORKQ_JOB_FORM) >> WORKQ_JOB_FORM_SHIFT);
}

static inline int16
workq_job_with_form(int16 flags, WorkqLaneForm form)
{
	return (int16) ((flags & ~WORKQ_JOB_FORM) | (form << WORKQ_JOB_FORM_SHIFT));
}

/* A row of workq.leases. */
typedef struct WorkqLease
{
	WorkqJob	job;			/* job.since is where it stood when claimed */
	pg_uuid_t	claim_id;
	TimestampTz claimed_at;
	TimestampTz deadline;
	const char *worker;
} WorkqLease;

/*
 * A queue's settings.  The order is that of workq_settings[] in guc.c and of
 * the columns of workq.queues; bit i of "own" says that value i is the
 * queue's own, otherwise it was inherited from the server's setting.
 */
typedef enum WorkqSettingId
{
	WORKQ_SET_STRATEGY,
	WORKQ_SET_FAIRNESS_KEY,
	WORKQ_SET_QUANTUM,
	WORKQ_SET_STARVATION_AGE,
	WORKQ_SET_STARVATION_MODE,
	WORKQ_SET_PROMOTE_NORMAL_AFTER,
	WORKQ_SET_PROMOTE_LOW_AFTER,
	WORKQ_SET_MAX_CONCURRENT_PER_KEY,
	WORKQ_SET_DEFAULT_WEIGHT,
	WORKQ_SET_MAX_LEASE,
	WORKQ_SET_MAX_ATTEMPTS,
	WORKQ_SET_RETRY_BASE,
	WORKQ_SET_RETRY_CAP,
	WORKQ_SET_RETRY_KIND,
	WORKQ_SET_RETRY_FACTOR,
	WORKQ_SET_RETRY_JITTER,
	WORKQ_SET_TRUST,
	WORKQ_SET_NOTIFY_EVERY,
	WORKQ_N_SETTINGS
} WorkqSettingId;

typedef struct WorkqSettings
{
	int64		value[WORKQ_N_SETTINGS];	/* enums as their number, ms */
	uint32		own;
	int32		version;		/* policy version of the queue */
	uint32		weights;		/* fingerprint of its list; 0: inherited */
	int32		limited_keys;	/* that have a cap of their own or are paused */
	bool		paused;			/* claiming */
	bool		enqueue_paused;
} WorkqSettings;

/* A key's own weight and cap; -1 is "none of its own". */
typedef struct WorkqKeyRow
{
	int32		weight;
	int32		max_concurrent;
} WorkqKeyRow;

#define WORKQ_STRATEGY_FIFO		0
#define WORKQ_STRATEGY_DRR		1
#define WORKQ_STARVATION_BOUNDED 0
#define WORKQ_STARVATION_STRICT	1
#define WORKQ_RETRY_EXPONENTIAL	0
#define WORKQ_RETRY_FIXED		1
#define WORKQ_RETRY_NONE		2
#define WORKQ_TRUST_ENGINE		0
#define WORKQ_TRUST_WORKER		1

#endif							/* WORKQ_H */
