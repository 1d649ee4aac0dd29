/*-------------------------------------------------------------------------
 *
 * store_system.h
 *	  What background work reads: databases, the extension, the segments.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_STORE_SYSTEM_H
#define WORKQ_STORE_SYSTEM_H

#include "segment.h"

/*
 * The databases of the server, palloc'd in the current context; wants_worker
 * tells for each whether a worker may run there: it is no template, allows
 * connections and is not half dropped.  Opens and ends a transaction.
 */
typedef struct WorkqDatabase
{
	Oid			dbid;
	bool		wants_worker;
} WorkqDatabase;

extern WorkqDatabase *workq_system_databases(int *n);

/*
 * Our extension in this database: its OID and *version (palloc'd), or
 * InvalidOid.  Needs a transaction.
 */
extern Oid	workq_system_extension(char **version);

/* Is this (maybe uncommitted) extension ours? */
extern bool workq_system_is_ours(Oid extension);

/*
 * The rows of workq.segments, committed ones and our own, in no order and
 * without the OIDs of their tables; palloc'd.
 */
extern WorkqSegment *workq_system_segments(Oid relid, int *n);

/*
 * The value of a sequence that only C code sets; false if it has not been set.
 */
extern bool workq_system_sequence(Oid relid, int64 *value);

#endif							/* WORKQ_STORE_SYSTEM_H */
