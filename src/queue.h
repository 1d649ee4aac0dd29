/*-------------------------------------------------------------------------
 *
 * queue.h
 *	  The catalog of queues as a backend caches it.
 *
 * Entries are dropped by the relcache callback on workq.queues: whoever
 * changes a queue, its grants or its keys calls workq_queue_changed().
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_QUEUE_H
#define WORKQ_QUEUE_H

#include "utils/jsonb.h"

#include "workq.h"

typedef struct WorkqGrant
{
	Oid			grantee;		/* 0 is PUBLIC */
	uint32		rights;
} WorkqGrant;

/* What a rule of an error map does; the order is that of workq_rule_actions. */
typedef enum WorkqRuleAction
{
	WORKQ_RULE_ERROR,
	WORKQ_RULE_STATUS,
	WORKQ_RULE_RETRY,
	WORKQ_RULE_DEAD
} WorkqRuleAction;

typedef struct WorkqRule
{
	char	   *pattern;		/* of fault codes, as LIKE has it */
	WorkqRuleAction action;
	char	   *code;			/* error; NULL: the fault's */
	Jsonb	   *value;			/* error, status; NULL: the fault's body */
	Jsonb	   *retry;			/* retry; NULL: the job's policy */
} WorkqRule;

typedef struct WorkqQueueInfo
{
	int32		queue_id;
	char		name[WORKQ_MAX_NAME + 1];
	Oid			owner;
	TimestampTz created_at;
	WorkqSettings settings;		/* the queue's own values */
	char	   *weights;		/* its own list (see guc.h), NULL: inherited */
	int			n_grants;
	WorkqGrant *grants;
	int			n_rules;		/* the error map, in its order */
	WorkqRule  *rules;

	/* what the current role may do; see access.c */
	Oid			checked_role;
	uint32		checked_rights;
	uint32		checked_generation;
} WorkqQueueInfo;

/*
 * Look up a queue.  missing_ok: NULL instead of 42704 (with a hint).  The
 * result is valid until the next lookup that follows an invalidation: look up
 * after opening relations, copy what must last.
 *
 * What a lookup sees is at least as new as when the caller last took a
 * relation lock.  A verb that opens a live table before it looks up a queue
 * therefore cannot write rows of a queue that has been dropped: the drop holds
 * a lock on all live tables that a verb's lock conflicts with.
 */
extern WorkqQueueInfo *workq_queue_by_name(const char *name, bool missing_ok);
extern WorkqQueueInfo *workq_queue_by_id(int32 queue_id, bool missing_ok);

/*
 * Enqueue's way: the queue, created if it does not exist and the caller may
 * create queues (EXECUTE on workq_create_queue), else 42501.  Waits for
 * another transaction that is creating it: if that commits, its queue is used,
 * if it aborts, we create ours.  No isolation level makes that an error.
 * The name must have passed workq_check_name.
 */
extern WorkqQueueInfo *workq_queue_get_or_create(const char *name);

/* A setting as it holds for the queue: its own value or the server's. */
extern int64 workq_queue_setting(const WorkqQueueInfo *queue, WorkqSettingId id);

/*
 * Check a name that becomes a row (queue, worker, tenant ...): 1 to 255 bytes,
 * no control characters, no surrounding white space.  "what" is the word for
 * the message.  Raises 22004 (NULL), 22023, or 54000 when too long.  Returns a
 * palloc'd C string.
 */
extern char *workq_check_name(const text *value, const char *what);

/* Tell all backends (at commit; this one now) that the catalog changed. */
extern void workq_queue_changed(void);

/* Raise 42704 for a queue that does not exist. */
extern void workq_queue_missing(const char *name) pg_attribute_noreturn();

extern void workq_queue_init(void);

#endif							/* WORKQ_QUEUE_H */
