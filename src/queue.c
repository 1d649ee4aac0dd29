/*-------------------------------------------------------------------------
 *
 * queue.c
 *	  The catalog of queues as a backend caches it, and creation on first use.
 *
 * Every verb looks up its queue; the cache makes that two hash lookups and no
 * table access.  It is filled one queue at a time and dropped as a whole when
 * the relcache callback says that workq.queues was invalidated, which is how
 * changes of a queue are told (see workq_queue_changed).  Queues that do not
 * exist are not cached, so that creating one need not be told to anybody.
 *
 * What makes a lookup current: an invalidation is sent before its transaction
 * lets go of its locks, and received when a relation is locked.  So after a
 * verb has locked a table, a change whose transaction conflicted with that
 * lock has been noticed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "access.h"
#include "configure.h"
#include "guc.h"
#include "queue.h"
#include "store_catalog.h"
#include "xact.h"

typedef struct ByName
{
	char		name[WORKQ_MAX_NAME + 1];	/* hash key */
	WorkqQueueInfo *queue;
} ByName;

typedef struct ById
{
	int32		queue_id;		/* hash key */
	WorkqQueueInfo *queue;
} ById;

/*
 * The cache.  All of it lives in cache_context.  When cache_valid is false it
 * is rebuilt by the next lookup, not by the callback: the result of the last
 * lookup stays where it is until then.
 */
static MemoryContext cache_context = NULL;
static HTAB *by_name;
static HTAB *by_id;
static Oid	cache_relid;		/* workq.queues when the cache was begun */
static bool cache_valid = false;

static void
forget_queues(Datum arg, Oid relid)
{
	if (relid == InvalidOid || relid == cache_relid)
		cache_valid = false;
}

void
workq_queue_init(void)
{
	CacheRegisterRelcacheCallback(forget_queues, (Datum) 0);
}

/*
 * The command counter is moved on so that our own invalidation is processed
 * now and, should this (sub)transaction abort, once more: an entry that we
 * cache in between must not survive it.  That happens only if the command
 * counts as having written.
 */
void
workq_queue_changed(void)
{
	CacheInvalidateRelcacheByRelid(workq_store_oid(WORKQ_REL_QUEUES));
	(void) GetCurrentCommandId(true);
	CommandCounterIncrement();
	cache_valid = false;
}

/*
 * Make the cache ready for a lookup, empty if it was not valid.
 */
static void
begin_lookup(void)
{
	HASHCTL		ctl;
	Oid			relid = workq_store_oid(WORKQ_REL_QUEUES);

	if (cache_valid && cache_relid == relid)
		return;

	if (cache_context == NULL)
		cache_context = AllocSetContextCreate(CacheMemoryContext,
											  "workq queues",
											  ALLOCSET_DEFAULT_SIZES);
	else
		MemoryContextReset(cache_context);
	by_name = by_id = NULL;

	memset(&ctl, 0, sizeof(ctl));
	ctl.keysize = sizeof(((ByName *) NULL)->name);
	ctl.entrysize = sizeof(ByName);
	ctl.hcxt = cache_context;
	by_name = hash_create("workq queues by name", 64, &ctl,
						  HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	memset(&ctl, 0, sizeof(ctl));
	ctl.keysize = sizeof(int32);
	ctl.entrysize = sizeof(ById);
	ctl.hcxt = cache_context;
	by_id = hash_create("workq queues by id", 64, &ctl,
						HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);

	/* before reading: an invalidation that comes meanwhile resets it */
	cache_relid = relid;
	cache_valid = true;
}

/*
 * Copy a queue into the cache.  If the cache was invalidated while the queue
 * was read, it is entered all the same: the next lookup begins anew.
 */
static WorkqQueueInfo *
enter(const WorkqQueueInfo *queue)
{
	MemoryContext old = MemoryContextSwitchTo(cache_context);
	WorkqQueueInfo *copy = palloc(sizeof(WorkqQueueInfo));
	ByName	   *name_entry;
	ById	   *id_entry;

	*copy = *queue;
	copy->grants = palloc(Max(queue->n_grants, 1) * sizeof(WorkqGrant));
	memcpy(copy->grants, queue->grants, queue->n_grants * sizeof(WorkqGrant));
	if (queue->weights != NULL)
		copy->weights = pstrdup(queue->weights);
	copy->rules = workq_catalog_copy_rules(queue->rules, queue->n_rules);
	MemoryContextSwitchTo(old);

	name_entry = hash_search(by_name, queue->name, HASH_ENTER, NULL);
	name_entry->queue = copy;
	id_entry = hash_search(by_id, &queue->queue_id, HASH_ENTER, NULL);
	id_entry->queue = copy;
	return copy;
}

/*
 * Read a queue that was not in the cache, by name or id, and enter it.
 */
static WorkqQueueInfo *
load(const char *name, int32 queue_id)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "workq queue lookup",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	WorkqQueueInfo *queue = workq_catalog_read(name, queue_id);

	MemoryContextSwitchTo(old);
	if (queue != NULL)
		queue = enter(queue);
	MemoryContextDelete(context);
	return queue;
}

void
workq_queue_missing(const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("queue \"%s\" does not exist", name),
			 errhint("Check the name, or create the queue: SELECT workq_create_queue(%s);",
					 quote_literal_cstr(name))));
}

WorkqQueueInfo *
workq_queue_by_name(const char *name, bool missing_ok)
{
	WorkqQueueInfo *queue = NULL;

	if (strlen(name) <= WORKQ_MAX_NAME)
	{
		ByName	   *entry;

		begin_lookup();
		entry = hash_search(by_name, name, HASH_FIND, NULL);
		queue = entry != NULL ? entry->queue : load(name, 0);
	}
	if (queue == NULL && !missing_ok)
		workq_queue_missing(name);
	return queue;
}

WorkqQueueInfo *
workq_queue_by_id(int32 queue_id, bool missing_ok)
{
	WorkqQueueInfo *queue;
	ById	   *entry;

	begin_lookup();
	entry = hash_search(by_id, &queue_id, HASH_FIND, NULL);
	queue = entry != NULL ? entry->queue : load(NULL, queue_id);
	if (queue == NULL && !missing_ok)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("queue with id %d does not exist", queue_id),
				 errdetail("It has been dropped.")));
	return queue;
}

WorkqQueueInfo *
workq_queue_get_or_create(const char *name)
{
	WorkqQueueInfo *queue;

	while ((queue = workq_queue_by_name(name, true)) == NULL)
	{
		CHECK_FOR_INTERRUPTS();
		if (!workq_access_may_create())
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("permission denied to create queue \"%s\"", name),
					 errdetail("The queue does not exist, and creating it needs EXECUTE on function workq_create_queue."),
					 errhint("Check the name, or ask for the queue to be created.")));

		/*
		 * If somebody else's creation of that name came first, the next
		 * lookup finds it, or it is gone again by now.
		 */
		(void) workq_configure_create(name);
	}
	return queue;
}

int64
workq_queue_setting(const WorkqQueueInfo *queue, WorkqSettingId id)
{
	if (queue->settings.own & ((uint32) 1 << id))
		return queue->settings.value[id];
	return workq_guc_default(id);
}

/* ------------------------------------------------------------------------
 * Names
 * ------------------------------------------------------------------------ */

/*
 * A control character: of ASCII, and, where we know the encoding, U+0080 to
 * U+009F.
 */
static bool
is_control(const unsigned char *p, bool utf8)
{
	if (*p < 0x20 || *p == 0x7f)
		return true;
	return utf8 && p[0] == 0xc2 && p[1] < 0xa0;
}

/*
 * White space other than control characters.  Of Unicode's: U+00A0, U+1680,
 * U+2000 to U+200A, U+2028, U+2029, U+202F, U+205F, U+3000.
 */
static bool
is_space(const unsigned char *p, bool utf8)
{
	pg_wchar	c;

	if (*p == ' ')
		return true;
	if (!utf8 || *p < 0x80)
		return false;
	c = utf8_to_unicode(p);
	return c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
		c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

char *
workq_check_name(const text *value, const char *what)
{
	bool		utf8 = GetDatabaseEncoding() == PG_UTF8;
	const unsigned char *p;
	const unsigned char *last;
	char	   *name;

	if (value == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", what)));
	name = text_to_cstring(value);
	if (name[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must not be empty", what),
				 errdetail("It must have 1 to %d bytes.", WORKQ_MAX_NAME)));
	if (strlen(name) > WORKQ_MAX_NAME)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("%s is too long", what),
				 errdetail("It has %zu bytes; it must have 1 to %d.",
						   strlen(name), WORKQ_MAX_NAME)));

	last = (const unsigned char *) name;
	for (p = (const unsigned char *) name; *p != '\0';
		 p += pg_mblen((const char *) p))
	{
		if (is_control(p, utf8))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("%s must not contain control characters", what),
					 errdetail("There is one at byte %d.",
							   (int) (p - (const unsigned char *) name) + 1)));
		last = p;
	}
	if (is_space((const unsigned char *) name, utf8) || is_space(last, utf8))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must not begin or end with white space", what),
				 errdetail("It is \"%s\".", name)));
	return name;
}
