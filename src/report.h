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

/*
 * The reports of a batch: one for each claim of argument 0, with what the
 * further arguments of the kind's batch verb say of it.
 */
extern WorkqReport *workq_report_read_batch(FunctionCallInfo fcinfo,
											WorkqReportKind kind, int *n);

/*
 * Do many reports in the order of their jobs, so that two batches cannot wait
 * for each other; the answers are in the order given, palloc'd.  Closes the
 * call's store.
 */
extern WorkqAnswer *workq_report_all(WorkqCall *call, WorkqReport *reports,
									 int n, int on_lost);

#endif							/* WORKQ_REPORT_H */
