/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  Every difference between PostgreSQL 14 and 18 that workq meets.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_COMPAT_H
#define WORKQ_COMPAT_H

#if PG_VERSION_NUM < 140000
#error "workq needs PostgreSQL 14 or later"
#endif

/* 16: ExecInsertIndexTuples also tells whether only BRIN needs the update */
#if PG_VERSION_NUM >= 160000
#define workq_compat_insert_index_tuples(result, slot, estate, nodup, conflict, arbiters) \
	ExecInsertIndexTuples(result, slot, estate, false, nodup, conflict, \
						  arbiters, false)
#else
#define workq_compat_insert_index_tuples(result, slot, estate, nodup, conflict, arbiters) \
	ExecInsertIndexTuples(result, slot, estate, false, nodup, conflict, \
						  arbiters)
#endif

/* 18: ExecCheckIndexConstraints is told of a row to ignore */
#if PG_VERSION_NUM >= 180000
#define workq_compat_check_index_constraints(result, slot, estate, conflict, arbiters) \
	ExecCheckIndexConstraints(result, slot, estate, conflict, \
							  &(slot)->tts_tid, arbiters)
#else
#define workq_compat_check_index_constraints(result, slot, estate, conflict, arbiters) \
	ExecCheckIndexConstraints(result, slot, estate, conflict, arbiters)
#endif

/* 16: table_tuple_update tells which indexes to update, not just whether */
#if PG_VERSION_NUM >= 160000
#define WORKQ_COMPAT_UPDATE_INDEXES TU_UpdateIndexes
#define workq_compat_must_update_indexes(u) ((u) != TU_None)
#else
#define WORKQ_COMPAT_UPDATE_INDEXES bool
#define workq_compat_must_update_indexes(u) (u)
#endif

/* 18: index_beginscan takes an instrumentation argument */
#if PG_VERSION_NUM >= 180000
#define workq_compat_index_beginscan(heap, index, snapshot, nkeys) \
	index_beginscan(heap, index, snapshot, NULL, nkeys, 0)
#else
#define workq_compat_index_beginscan(heap, index, snapshot, nkeys) \
	index_beginscan(heap, index, snapshot, nkeys, 0)
#endif

/*
 * Set up a set-returning function that fills rsinfo->setResult by
 * tuplestore_putvalues.  15 has a function for it; its name settled in 15.0.
 * The caller's descriptor saves putting one together from the catalog.
 */
#if PG_VERSION_NUM >= 150000
#define workq_compat_init_srf(fcinfo) \
	InitMaterializedSRF(fcinfo, \
						((ReturnSetInfo *) (fcinfo)->resultinfo) != NULL && \
						IsA((fcinfo)->resultinfo, ReturnSetInfo) && \
						((ReturnSetInfo *) (fcinfo)->resultinfo)->expectedDesc != NULL ? \
						MAT_SRF_USE_EXPECTED_DESC : 0)
#else
extern void workq_compat_init_srf(FunctionCallInfo fcinfo);
#endif

/* 15: random numbers that are no secrets */
#if PG_VERSION_NUM >= 150000
#define workq_compat_random_double() pg_prng_double(&pg_global_prng_state)
#else
#define workq_compat_random_double() \
	((double) random() / ((double) MAX_RANDOM_VALUE + 1))
#endif

/* 17: intervals may be infinite */
#if PG_VERSION_NUM >= 170000
#define workq_compat_interval_not_finite(i) INTERVAL_NOT_FINITE(i)
#else
#define workq_compat_interval_not_finite(i) false
#endif

/* 15: a prefix for settings can be reserved */
#if PG_VERSION_NUM >= 150000
#define workq_compat_reserve_guc_prefix(prefix) MarkGUCPrefixReserved(prefix)
#else
#define workq_compat_reserve_guc_prefix(prefix) \
	EmitWarningsOnPlaceholders(prefix)
#endif

/* 16: one function checks the rights on objects of every kind */
#if PG_VERSION_NUM >= 160000
#define workq_compat_may_execute(proc, role) \
	(object_aclcheck(ProcedureRelationId, proc, role, ACL_EXECUTE) == ACLCHECK_OK)
#else
#define workq_compat_may_execute(proc, role) \
	(pg_proc_aclcheck(proc, role, ACL_EXECUTE) == ACLCHECK_OK)
#endif

/* 17: the number of our PGPROC has moved out of it */
#if PG_VERSION_NUM >= 170000
#define workq_compat_my_procno() MyProcNumber
#else
#define workq_compat_my_procno() ((int) MyProc->pgprocno)
#endif

/*
 * 15: how many processes there can be is known when shared memory is asked
 * for; before, the library has to count as the server will.
 */
#if PG_VERSION_NUM >= 150000
#define workq_compat_max_backends() MaxBackends
#else
#define workq_compat_max_backends() \
	(MaxConnections + autovacuum_max_workers + 1 + max_worker_processes + \
	 max_wal_senders)
#endif

/* 15: a closed connection can be seen while waiting for a latch */
#if PG_VERSION_NUM >= 150000
#define workq_compat_socket_closed() \
	(WaitEventSetCanReportClosed() ? WL_SOCKET_CLOSED : 0)
#else
#define workq_compat_socket_closed() 0
#endif

/* 17: wait events of extensions have names */
#if PG_VERSION_NUM >= 170000
#define workq_compat_wait_event(name) WaitEventExtensionNew(name)
#else
#define workq_compat_wait_event(name) PG_WAIT_EXTENSION
#endif

/* 16: one function checks the ownership of objects of every kind */
#if PG_VERSION_NUM >= 160000
#define workq_compat_owns_database(dbid, role) \
	object_ownercheck(DatabaseRelationId, dbid, role)
#else
#define workq_compat_owns_database(dbid, role) \
	pg_database_ownercheck(dbid, role)
#endif

/* 15: shared memory is asked for in a hook, not while the library loads */
#if PG_VERSION_NUM >= 150000
#define WORKQ_COMPAT_SHMEM_REQUEST
#endif

#endif							/* WORKQ_COMPAT_H */
