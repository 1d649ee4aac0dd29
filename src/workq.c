/*-------------------------------------------------------------------------
 *
 * workq.c
 *	  The library's entry point.
 *
 * The library must be in shared_preload_libraries.  Loaded in another way, by
 * pg_upgrade or by CREATE EXTENSION, it does nothing, and every function says
 * what is missing (workq_store_require).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "access.h"
#include "compat.h"
#include "ddl.h"
#include "guc.h"
#include "launcher.h"
#include "queue.h"
#include "registry.h"
#include "sched.h"
#include "segment.h"
#include "store.h"
#include "xact.h"

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

#ifdef WORKQ_COMPAT_SHMEM_REQUEST
static shmem_request_hook_type prev_shmem_request = NULL;
#endif
static shmem_startup_hook_type prev_shmem_startup = NULL;

static void
shmem_request(void)
{
#ifdef WORKQ_COMPAT_SHMEM_REQUEST
	if (prev_shmem_request != NULL)
		prev_shmem_request();
#endif
	RequestAddinShmemSpace(workq_sched_shmem_size());
	workq_sched_wait_shmem_request();
	workq_registry_shmem_request();
	workq_segment_shmem_request();
}

static void
shmem_startup(void)
{
	if (prev_shmem_startup != NULL)
		prev_shmem_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	workq_sched_shmem_init();
	workq_sched_wait_shmem_init();
	workq_registry_shmem_init();
	workq_segment_shmem_init();
	LWLockRelease(AddinShmemInitLock);
}

void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;

	workq_guc_init();
#ifdef WORKQ_COMPAT_SHMEM_REQUEST
	prev_shmem_request = shmem_request_hook;
	shmem_request_hook = shmem_request;
#else
	shmem_request();
#endif
	prev_shmem_startup = shmem_startup_hook;
	shmem_startup_hook = shmem_startup;

	workq_store_init();
	workq_queue_init();
	workq_access_init();
	workq_segment_init();
	workq_xact_init();
	workq_registry_init();
	workq_ddl_init();
	workq_launcher_init();
}
