/*-------------------------------------------------------------------------
 *
 * segment_make.c
 *	  Making segments of the event log.
 *
 * The only place that creates tables.  Which segments are missing follows from
 * the sequence of job ids and workq.segments alone, so whoever gets to it first
 * makes them, and there is nothing to hand over.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/syscache.h"

#include "compat.h"
#include "guc.h"
#include "segment.h"
#include "store.h"

#define AHEAD			2		/* whole segments beyond the ids in use */
#define MAKE_AT_ONCE	8		/* segments made in one transaction */

/* What there is, as far as a maker needs to know. */
typedef struct Extent
{
	int32		last;			/* number of the last segment, 0: none */
	int64		until;			/* its end, 1: none */
	int64		reserved;		/* largest id that may be in use, 0: none */
	int64		ahead;			/* segments that begin beyond that */
	bool		needed;			/* there is a queue */
} Extent;

static void
execute(const char *sql, int expected)
{
	int			rc = SPI_execute(sql, false, 0);

	if (rc != expected)
		elog(ERROR, "SPI_execute failed: %s", SPI_result_code_string(rc));
}

static int64
column(int number)
{
	bool		isnull;
	Datum		datum = SPI_getbinval(SPI_tuptable->vals[0],
									  SPI_tuptable->tupdesc, number, &isnull);

	return isnull ? 0 : DatumGetInt64(datum);
}

/*
 * A dump of the schema alone was restored: there are segments, all empty, no
 * queues and no rows in workq.segments, but somebody enqueues (without that, it
 * may be a dump with data that is still being restored).  Enter them.
 */
static bool
adopt_segments(void)
{
	execute("INSERT INTO workq.segments (segment, from_job_id, to_job_id, created_at)"
			" SELECT pg_catalog.substr(c.relname::pg_catalog.text, 6)::pg_catalog.int4,"
			"  b.bounds[1]::pg_catalog.int8, b.bounds[2]::pg_catalog.int8,"
			"  pg_catalog.clock_timestamp()"
			" FROM pg_catalog.pg_inherits i"
			" JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) i.inhrelid,"
			" LATERAL (SELECT pg_catalog.regexp_match("
			"   pg_catalog.pg_get_expr(c.relpartbound, c.oid),"
			"   'FROM \\(''?(\\d+)''?\\) TO \\(''?(\\d+)''?\\)') AS bounds) b"
			" WHERE i.inhparent OPERATOR(pg_catalog.=) 'workq.jobs'::pg_catalog.regclass"
			" AND c.relname::pg_catalog.text OPERATOR(pg_catalog.~) '^jobs_[0-9]+$'"
			" AND NOT EXISTS (SELECT FROM workq.queues)"
			" AND NOT EXISTS (SELECT FROM workq.segments)"
			" AND NOT EXISTS (SELECT FROM workq.jobs)",
			SPI_OK_INSERT);
	return SPI_processed > 0;
}

/*
 * Makers are locked out.  While a dump is being restored there may be
 * segments that workq.segments does not yet tell of: then hands off.
 */
static Extent
read_extent(bool asked)
{
	Extent		result;
	int64		rows;
	int64		tables;

	execute("SELECT s.rows, s.last, s.until, q.reserved, s.ahead, p.tables,"
			" (EXISTS (SELECT FROM workq.queues))::pg_catalog.int4::pg_catalog.int8"
			" FROM (SELECT CASE WHEN j.is_called"
			"   THEN j.last_value + i.seqincrement - 1 ELSE 0 END AS reserved"
			"  FROM workq.job_ids j, pg_catalog.pg_sequence i"
			"  WHERE i.seqrelid = 'workq.job_ids'::pg_catalog.regclass) q,"
			" LATERAL (SELECT pg_catalog.count(*) AS rows,"
			"   pg_catalog.max(segment)::pg_catalog.int8 AS last,"
			"   pg_catalog.max(to_job_id) AS until,"
			"   pg_catalog.count(*) FILTER (WHERE from_job_id > q.reserved) AS ahead"
			"  FROM workq.segments) s,"
			" (SELECT pg_catalog.count(*) AS tables FROM pg_catalog.pg_inherits"
			"  WHERE inhparent = 'workq.jobs'::pg_catalog.regclass) p",
			SPI_OK_SELECT);
	if (SPI_processed != 1)
		elog(ERROR, "could not read the extent of workq's log");
	memset(&result, 0, sizeof(result));
	rows = column(1);
	result.last = (int32) column(2);
	result.until = Max(column(3), 1);
	result.reserved = column(4);
	result.ahead = column(5);
	tables = column(6);
	result.needed = result.reserved > 0 || column(7) != 0;
	if (asked && rows == 0 && tables > 0 && adopt_segments())
		return read_extent(false);
	if (rows != tables)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("workq.jobs has " INT64_FORMAT " partitions, but workq.segments has " INT64_FORMAT " rows",
						tables, rows),
				 errhint("If a dump is being restored, wait until that is done.")));
	return result;
}

/*
 * Make one segment: plain tables first, then attached, which needs no lock
 * that readers or writers of the parents would meet and, the tables being
 * empty, scans nothing.
 */
static void
make_segment(int32 number, int64 from, int64 until)
{
	static const char *const parents[] = {"jobs", "claims", "responses"};
	char	   *like = "INCLUDING DEFAULTS INCLUDING GENERATED INCLUDING CONSTRAINTS INCLUDING STORAGE INCLUDING COMPRESSION";
	int			i;

	for (i = 0; i < lengthof(parents); i++)
	{
		const char *name = parents[i];

		if (i == 0)
			execute(psprintf("CREATE TABLE workq.%s_%d (LIKE workq.%s %s, CONSTRAINT %s_%d_pkey PRIMARY KEY (job_id)) USING heap",
							 name, number, name, like, name, number),
					SPI_OK_UTILITY);
		else
		{
			execute(psprintf("CREATE TABLE workq.%s_%d (LIKE workq.%s %s) USING heap",
							 name, number, name, like),
					SPI_OK_UTILITY);
			/* a job's events by their kind: its stream may be long */
			execute(psprintf("CREATE INDEX %s_%d_job_id ON workq.%s_%d USING btree (%s)",
							 name, number, name, number,
							 i == 1 ? "job_id, event, number" : "job_id"),
					SPI_OK_UTILITY);
			if (i == 2)			/* whom workq_responses follows */
				execute(psprintf("CREATE INDEX %s_%d_writer ON workq.%s_%d USING btree (writer, job_id) WHERE writer IS NOT NULL",
								 name, number, name, number),
						SPI_OK_UTILITY);
		}
		execute(psprintf("ALTER TABLE workq.%s ATTACH PARTITION workq.%s_%d FOR VALUES FROM ("
						 INT64_FORMAT ") TO (" INT64_FORMAT ")",
						 name, name, number, from, until),
				SPI_OK_UTILITY);
	}
	execute(psprintf("INSERT INTO workq.segments (segment, from_job_id, to_job_id, created_at) VALUES (%d, "
					 INT64_FORMAT ", " INT64_FORMAT ", pg_catalog.clock_timestamp())",
					 number, from, until),
			SPI_OK_INSERT);
}

/*
 * Who owns the log; the segments will be his, too.
 */
static Oid
log_owner(void)
{
	Oid			relid = workq_store_oid(WORKQ_REL_JOBS);
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			result;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	result = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return result;
}

/*
 * In a transaction with an active snapshot: make up to MAKE_AT_ONCE segments
 * of those that are missing.  Returns whether there are more to make.
 *
 * It acts as the owner of the tables, with a fixed search_path: whatever an
 * owner may have hung on his tables runs with his rights, not with ours.
 */
bool
workq_segment_make(bool asked)
{
	Extent		extent;
	Oid			user;
	int			context;
	int			nest;
	int			made = 0;
	bool		more = true;

	LockRelationOid(workq_store_oid(WORKQ_REL_SEGMENTS), ShareRowExclusiveLock);
	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(log_owner(), context |
						   SECURITY_LOCAL_USERID_CHANGE |
						   SECURITY_RESTRICTED_OPERATION);
	nest = NewGUCNestLevel();
	(void) set_config_option("search_path", "pg_catalog, pg_temp",
							 PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	SPI_connect();
	extent = read_extent(asked);
	while (more)
	{
		more = extent.needed && (extent.until <= extent.reserved ||
								 extent.ahead < AHEAD);
		if (!more || made++ == MAKE_AT_ONCE)
			break;
		make_segment(extent.last + 1, extent.until,
					 extent.until + workq_guc_segment_size);
		if (extent.until > extent.reserved)
			extent.ahead++;
		extent.until += workq_guc_segment_size;
		extent.last++;
	}
	SPI_finish();
	AtEOXact_GUC(false, nest);
	SetUserIdAndSecContext(user, context);
	return more;
}
