/*-------------------------------------------------------------------------
 *
 * scheduler.c
 *	  What the scheduler's views and the metrics have in common: names of
 *	  keys, the keys with most to do, their oldest jobs.
 *
 * What is shown comes from shared memory; only the age of a key's oldest job
 * is looked up, in the index of workq.ready, for the keys that are shown.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/binaryheap.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "access.h"
#include "scheduler.h"
#include "store_catalog.h"

/* Rows being inserted or deleted that a look for the oldest job passes. */
#define MAX_PASSED_ROWS		1000

/* ------------------------------------------------------------------------
 * Names of keys
 * ------------------------------------------------------------------------ */

static const char *const no_name[] = {
	[WORKQ_KEY_TENANT] = "_no_tenant",
	[WORKQ_KEY_BINDING] = "_no_binding",
	[WORKQ_KEY_TRIGGER_ID] = "_no_trigger_id",
	[WORKQ_KEY_TENANT_AND_BINDING] = "_no_tenant"
};

/*
 * A part of a key as shown.  unique: so that no other value is shown alike.
 */
static char *
show_part(const char *value, const char *none, bool unique)
{
	int			i;

	if (value[0] == '\0')
		return pstrdup(none);
	if (unique)
	{
		bool		reserved = value[0] == '=' ||
		strcmp(value, WORKQ_LABEL_ALL) == 0 ||
		strcmp(value, WORKQ_LABEL_OTHER) == 0;

		for (i = 0; i < lengthof(no_name); i++)
			reserved = reserved || strcmp(value, no_name[i]) == 0;
		if (reserved)
			return psprintf("=%s", value);
	}
	return pstrdup(value);
}

/*
 * Split a lane's key into tenant and binding.  False: it has one part only.
 */
static bool
split_key(const char *key, char **tenant, const char **binding)
{
	const char *separator = strchr(key, WORKQ_LANE_SEPARATOR);

	if (separator == NULL)
		return false;
	*tenant = pnstrdup(key, separator - key);
	*binding = separator + 1;
	return true;
}

static char *
show_key(int dimension, const WorkqKeyView *view, bool unique)
{
	char	   *tenant;
	const char *binding;

	if (dimension < 0 && view->key[0] == '\0')
		return pstrdup(WORKQ_LABEL_ALL);
	if (!view->is_group && split_key(view->key, &tenant, &binding))
		return psprintf("%s%c%s",
						show_part(tenant, no_name[WORKQ_KEY_TENANT], unique),
						WORKQ_LANE_SEPARATOR,
						show_part(binding, no_name[WORKQ_KEY_BINDING],
								  unique));
	return show_part(view->key, no_name[Max(dimension, 0)], unique);
}

char *
workq_scheduler_label(int dimension, const WorkqKeyView *view)
{
	return show_key(dimension, view, true);
}

static char *
null_if_empty(const char *value)
{
	return value[0] == '\0' ? NULL : pstrdup(value);
}

void
workq_scheduler_names(int dimension, const WorkqKeyView *view,
					  WorkqKeyNames *names)
{
	char	   *tenant;
	const char *binding;

	names->fairness_key = show_key(dimension, view, false);
	names->key = pstrdup(view->key);
	names->tenant = names->binding = NULL;
	if (!view->is_group && split_key(view->key, &tenant, &binding))
	{
		names->tenant = null_if_empty(tenant);
		names->binding = null_if_empty(binding);
	}
	else if (dimension == WORKQ_KEY_TENANT || view->is_group)
		names->tenant = null_if_empty(view->key);
	else if (dimension == WORKQ_KEY_BINDING)
		names->binding = null_if_empty(view->key);
}

/* ------------------------------------------------------------------------
 * Queues
 * ------------------------------------------------------------------------ */

typedef struct EachMonitored
{
	void		(*visit) (WorkqQueueInfo *queue, void *arg);
	void	   *arg;
} EachMonitored;

static void
visit_monitored(WorkqQueueInfo *queue, void *arg)
{
	EachMonitored *each = (EachMonitored *) arg;

	if (workq_access_has(queue, WORKQ_RIGHT_MONITOR))
		each->visit(queue, each->arg);
}

void
workq_scheduler_each(const char *name,
					 void (*visit) (WorkqQueueInfo *queue, void *arg),
					 void *arg)
{
	EachMonitored each = {visit, arg};
	WorkqQueueInfo *queue;
	WorkqQueueInfo copy;

	if (name == NULL)
	{
		workq_catalog_each(visit_monitored, &each);
		return;
	}
	queue = workq_queue_by_name(name, false);
	workq_access_require(queue, WORKQ_RIGHT_MONITOR);

	/* what the cache has may go when the visitor opens tables */
	copy = *queue;
	if (queue->weights != NULL)
		copy.weights = pstrdup(queue->weights);
	copy.grants = NULL;
	copy.n_grants = 0;
	visit(&copy, arg);
}

TimestampTz
workq_scheduler_oldest(int32 queue_id, const WorkqKeyView *view)
{
	TimestampTz oldest = DT_NOEND;
	MemoryContext context;
	MemoryContext old;
	WorkqStore *store;
	int			p;

	if (!view->has_lane || view->is_group || view->ready <= 0)
		return DT_NOEND;
	context = AllocSetContextCreate(CurrentMemoryContext, "workq oldest job",
									ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(context);
	store = workq_store_open_reader();
	for (p = 0; p < WORKQ_PRIORITIES; p++)
	{
		WorkqCursor *cursor;
		WorkqRow	row = WORKQ_ROW_PASS;
		int			n = 0;

		if (view->none[p])
			continue;
		cursor = workq_store_ready_cursor(store, queue_id, view->key, p,
										  view->from[p]);
		while (row == WORKQ_ROW_PASS && n++ < MAX_PASSED_ROWS)
			row = workq_store_next(cursor);
		if (row == WORKQ_ROW_CANDIDATE)
			oldest = Min(oldest, workq_store_pos(cursor).since);
		workq_store_end(cursor);
	}
	workq_store_close(store);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return oldest;
}

/* ------------------------------------------------------------------------
 * The keys with most to do
 * ------------------------------------------------------------------------ */

/* At most max of a queue's keys, and of its tenants: those first in order. */
typedef struct KeyGather
{
	int			max;
	binaryheap *keys;			/* of WorkqKeyView *, the last at the top */
	binaryheap *groups;			/* the same of tenants */
	HTAB	   *in_group;		/* GroupReady; NULL before the first */
} KeyGather;

typedef struct GroupReady
{
	int			group;			/* hash key */
	int64		ready;
} GroupReady;

/*
 * The order in which keys are shown: most ready jobs, most in flight, most
 * selected, by name.
 */
static int
compare_views(const WorkqKeyView *a, const WorkqKeyView *b)
{
	if (a->ready != b->ready)
		return a->ready > b->ready ? -1 : 1;
	if (a->in_flight != b->in_flight)
		return a->in_flight > b->in_flight ? -1 : 1;
	if (a->selected != b->selected)
		return a->selected > b->selected ? -1 : 1;
	return strcmp(a->key, b->key);
}

static int
compare_in_heap(Datum a, Datum b, void *arg)
{
	return compare_views((const WorkqKeyView *) DatumGetPointer(a),
						 (const WorkqKeyView *) DatumGetPointer(b));
}

static int
compare_in_array(const void *a, const void *b)
{
	return compare_views(*(WorkqKeyView *const *) a,
						 *(WorkqKeyView *const *) b);
}

/*
 * A copy that takes no more room than its key needs.
 */
static Datum
copy_view(const WorkqKeyView *view)
{
	Size		size = offsetof(WorkqKeyView, key) + strlen(view->key) + 1;
	void	   *copy = palloc(size);

	memcpy(copy, view, size);
	return PointerGetDatum(copy);
}

static void
gather_best(binaryheap *heap, int max, const WorkqKeyView *view)
{
	WorkqKeyView *last;

	if (heap->bh_size < max)
	{
		binaryheap_add(heap, copy_view(view));
		return;
	}
	last = (WorkqKeyView *) DatumGetPointer(binaryheap_first(heap));
	if (compare_views(view, last) >= 0)
		return;
	binaryheap_replace_first(heap, copy_view(view));
	pfree(last);
}

static void
count_in_group(KeyGather *gather, const WorkqKeyView *view)
{
	GroupReady *entry;
	bool		found;

	if (gather->in_group == NULL)
	{
		HASHCTL		control;

		memset(&control, 0, sizeof(control));
		control.keysize = sizeof(int);
		control.entrysize = sizeof(GroupReady);
		control.hcxt = CurrentMemoryContext;
		gather->in_group = hash_create("workq tenants", 256, &control,
									   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	entry = hash_search(gather->in_group, &view->group, HASH_ENTER, &found);
	if (!found)
		entry->ready = 0;
	entry->ready += view->ready;
}

static void
gather_key(const WorkqKeyView *view, void *arg)
{
	KeyGather  *gather = (KeyGather *) arg;

	if (view->is_group)
		gather_best(gather->groups, gather->max, view);
	else
	{
		gather_best(gather->keys, gather->max, view);
		if (view->group >= 0)
			count_in_group(gather, view);
	}
}

/*
 * The heap's views in order, palloc'd.
 */
static WorkqKeyView **
sorted_views(binaryheap *heap, int *n)
{
	WorkqKeyView **views;
	int			i;

	*n = heap->bh_size;
	views = palloc(Max(*n, 1) * sizeof(WorkqKeyView *));
	for (i = 0; i < *n; i++)
		views[i] = (WorkqKeyView *)
			DatumGetPointer(binaryheap_remove_first(heap));
	qsort(views, *n, sizeof(WorkqKeyView *), compare_in_array);
	return views;
}

void
workq_scheduler_best(int32 queue_id, int max, WorkqBestKeys *best)
{
	KeyGather	gather;
	int			i;

	gather.max = max;
	gather.keys = binaryheap_allocate(max, compare_in_heap, NULL);
	gather.groups = binaryheap_allocate(max, compare_in_heap, NULL);
	gather.in_group = NULL;
	workq_sched_view_keys(queue_id, false, gather_key, &gather);
	best->keys = sorted_views(gather.keys, &best->n_keys);
	best->tenants = sorted_views(gather.groups, &best->n_tenants);
	for (i = 0; i < best->n_tenants && gather.in_group != NULL; i++)
	{
		GroupReady *entry = hash_search(gather.in_group,
										&best->tenants[i]->lane, HASH_FIND,
										NULL);

		best->tenants[i]->ready = entry != NULL ? entry->ready : 0;
	}
}
