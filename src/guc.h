/*-------------------------------------------------------------------------
 *
 * guc.h
 *	  Settings: the server's (workq.*) and, by the same table, a queue's own.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_GUC_H
#define WORKQ_GUC_H

#include "workq.h"

typedef enum WorkqSettingKind
{
	WORKQ_KIND_ENUM,			/* text; value is the index in names[] */
	WORKQ_KIND_INTEGER,
	WORKQ_KIND_TIME				/* milliseconds; interval in SQL */
} WorkqSettingKind;

typedef struct WorkqSettingDef
{
	const char *name;			/* column, argument and, after "workq.", GUC */
	WorkqSettingKind kind;
	const char *const *names;	/* of an enum, NULL-terminated */
	int64		min;
	int64		max;
	int64		boot;
	const char *description;
} WorkqSettingDef;

extern const WorkqSettingDef workq_settings[WORKQ_N_SETTINGS];

/* The server-wide value now, as this backend knows it. */
extern int64 workq_guc_default(WorkqSettingId id);

/* Number of the enum value; raises 22023 that lists the valid ones. */
extern int	workq_guc_enum_parse(const WorkqSettingDef *def, const char *value);

/* The value, or 22023 that states the bounds (of an integer or a time). */
extern int64 workq_guc_check_range(const WorkqSettingDef *def, int64 value);

/* A value as workq_configure and the server take it, palloc'd. */
extern char *workq_guc_format(const WorkqSettingDef *def, int64 value);

/*
 * An interval argument in microseconds.  "what" is the parameter's name for
 * the message; min and max are bounds in microseconds, which every error
 * states.  Months or years, or a value beyond the bounds, are 22023; infinity,
 * and what does not fit into 64 bits, is 22008.
 */
extern int64 workq_interval_us(const Interval *value, const char *what,
							   int64 min, int64 max);

/* A span of microseconds for a message: "250 ms", "1 day", "10 years". */
extern char *workq_format_us(int64 us);

/*
 * A list of weights, "key:weight,key:weight".  A key may contain colons (the
 * last one counts) but no comma; white space around keys and weights does not
 * count; an empty key stands for the jobs without one.
 *
 * workq_guc_weights_next takes the next element: true, with *key (key_len
 * bytes, not terminated) and *weight set and *cursor moved behind it; false
 * at the end of the list.  The list must be well-formed, that is, have passed
 * workq_guc_weights_check.
 *
 * workq_guc_weights_check returns NULL when the list is well-formed, else a
 * sentence that says what is wrong with it and where, palloc'd.  Does not
 * raise (but for want of memory).
 */
extern bool workq_guc_weights_next(const char **cursor, const char **key,
								   int *key_len, int32 *weight);
extern char *workq_guc_weights_check(const char *list);

/* Tells one list from another; NULL is the empty one.  Never 0. */
extern uint32 workq_guc_weights_fingerprint(const char *list);

/* other settings */
extern int	workq_guc_max_lanes;	/* workq.max_lanes */
extern int	workq_guc_max_queues;	/* workq.max_queues */
extern int	workq_guc_metrics_max_keys; /* workq.metrics_max_keys */
extern int	workq_guc_segment_size; /* workq.segment_size, job ids */
extern bool workq_guc_worker_enabled;	/* workq.background_worker */
extern double workq_guc_clock_offset;	/* workq.clock_offset, milliseconds */
extern char *workq_guc_weights; /* workq.weights */

/* changes whenever a server-wide default changed in this backend */
extern uint32 workq_guc_generation;

extern void workq_guc_init(void);

/* workq's clock: clock_timestamp() plus workq.clock_offset. */
extern TimestampTz workq_now(void);

#endif							/* WORKQ_GUC_H */
