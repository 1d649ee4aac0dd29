/*-------------------------------------------------------------------------
 *
 * args.h
 *	  Arguments of the verbs: NULL, bounds, enumerations.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_ARGS_H
#define WORKQ_ARGS_H

#include "fmgr.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "workq.h"

/* Raises 22004: a value must be there. */
extern void workq_arg_missing(const char *what);

/* A required name (see workq_check_name); an optional one, or NULL. */
extern char *workq_arg_name(FunctionCallInfo fcinfo, int n, const char *what);
extern char *workq_arg_name_or_null(FunctionCallInfo fcinfo, int n,
									const char *what);

/* Free text of up to WORKQ_MAX_TEXT bytes, or NULL. */
extern char *workq_arg_text_or_null(FunctionCallInfo fcinfo, int n,
									const char *what);
extern char *workq_check_text(const text *value, const char *what);

/* An integer within bounds; missing if NULL. */
extern int	workq_arg_int(FunctionCallInfo fcinfo, int n, const char *what,
						  int min, int max, int missing);

/* An interval in microseconds within bounds; missing if NULL. */
extern int64 workq_arg_interval(FunctionCallInfo fcinfo, int n,
								const char *what, int64 min, int64 max,
								int64 missing);

/* Number of a text among a NULL-terminated list; missing if NULL. */
extern int	workq_arg_enum(FunctionCallInfo fcinfo, int n, const char *what,
						   const char *const *names, int missing);
extern int	workq_check_enum(const char *value, const char *what,
							 const char *const *names);

/* A jsonb of at most WORKQ_MAX_PAYLOAD bytes, or NULL. */
extern Jsonb *workq_arg_jsonb_or_null(FunctionCallInfo fcinfo, int n,
									  const char *what);
extern Jsonb *workq_check_jsonb(Datum value, const char *what);

/* An array of one dimension with at most WORKQ_MAX_BATCH elements. */
extern int	workq_arg_array(FunctionCallInfo fcinfo, int n, const char *what,
							Oid type, Datum **values, bool **nulls);

extern const char *const workq_priority_names[];
extern const char *const workq_on_lost_names[];

/*
 * Claim ids: UUIDs of version 8 that carry the job id and 66 random bits.
 */
extern void workq_claim_id_make(int64 job_id, pg_uuid_t *claim_id);

/* Raises 22023 when it is no claim id of workq's. */
extern int64 workq_claim_id_job(const pg_uuid_t *claim_id);
extern char *workq_claim_id_text(const pg_uuid_t *claim_id);

/* The form that a queue's lanes have.  own: of the queue itself. */
extern WorkqLaneForm workq_lane_form(const int64 *settings,
									 const WorkqSettings *own);

/*
 * When does a job's age raise its rank to that of high?  DT_NOBEGIN for never.
 */
extern TimestampTz workq_promotion_of(const int64 *settings, int priority,
									  TimestampTz since);

/*
 * A job's effective rank in its lane: its priority, or that of high when its
 * age has raised it.
 */
extern int	workq_rank_of(const int64 *settings, int priority,
						  TimestampTz since, TimestampTz now);

/* The lane and the name of the fairness key of a job, palloc'd. */
extern char *workq_lane_of(WorkqLaneForm form, const char *tenant,
						   const char *binding, const char *trigger_id);
extern char *workq_fairness_key_of(const int64 *settings, const char *tenant,
								   const char *binding,
								   const char *trigger_id);

#endif							/* WORKQ_ARGS_H */
