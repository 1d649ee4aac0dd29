/*-------------------------------------------------------------------------
 *
 * report.h
 *	  What the verbs of a claim's holder share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_REPORT_H
#define WORKQ_REPORT_H

#include "outcome.h"

/* Check that the library is there, open the store, read the clock. */
extern void workq_report_begin(WorkqCall *call, const char *verb);

/* Raise what a report came to, unless it went well. */
extern void workq_report_raise(const WorkqReport *report,
							   const WorkqAnswer *answer);

/* Argument 0 as a claim id; 22004 or 22023 if it is none. */
extern const pg_uuid_t *workq_report_claim_id(FunctionCallInfo fcinfo);

/* One report: the verb's result.  on_lost: 0 raises. */
extern Datum workq_report_one(FunctionCallInfo fcinfo, const char *verb,
							  WorkqReport *report, int on_lost);

/* Argument 0 as an array of claim ids, each with what "common" says. */
extern WorkqReport *workq_report_args(FunctionCallInfo fcinfo,
									  const WorkqReport *common, int *n);

/* An optional array that goes with the claim ids; NULL if it is not given. */
extern Datum *workq_report_parallel(FunctionCallInfo fcinfo, int arg,
									const char *what, Oid type, int n,
									bool **nulls);

/*
 * Do many reports in the order of their jobs, so that two batches cannot wait
 * for each other; the answers are in the order given, palloc'd.  Closes the
 * call's store.
 */
extern WorkqAnswer *workq_report_all(WorkqCall *call, WorkqReport *reports,
									 int n, int on_lost);

#endif							/* WORKQ_REPORT_H */
