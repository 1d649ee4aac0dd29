/*-------------------------------------------------------------------------
 *
 * guc.c
 *	  Settings and their check hooks.
 *
 * workq_settings[] is the one place that knows a policy setting's name, kind,
 * bounds and server-wide default.  The same table serves the workq.* settings
 * of the server, the columns of workq.queues and the arguments of
 * workq_configure.
 *
 * The variables live in process memory only: a parallel worker restores them,
 * a check hook touches nothing shared.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "common/int.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "args.h"
#include "compat.h"
#include "guc.h"

#define GUC_MAX_MS			2073600000	/* 24 days: whole ones that fit an int */
#define GUC_MAX_WEIGHT		1000000
#define GUC_MAX_ENUM		4	/* values of an enum, at most */

/* bounds of workq.clock_offset: ten years either way, in milliseconds */
#define GUC_MAX_OFFSET		((double) (WORKQ_MAX_INTERVAL / 1000))

static const char *const strategies[] = {"fifo", "drr", NULL};
static const char *const fairness_keys[] = {
	"tenant", "binding", "trigger-id", "tenant-and-binding", NULL
};
static const char *const starvation_modes[] = {"bounded", "strict", NULL};
static const char *const retry_kinds[] = {
	"exponential", "fixed", "none", NULL
};
static const char *const trusts[] = {"engine", "worker", NULL};

const WorkqSettingDef workq_settings[WORKQ_N_SETTINGS] = {
	[WORKQ_SET_STRATEGY] = {
		"strategy", WORKQ_KIND_ENUM, strategies, 0, 1, WORKQ_STRATEGY_FIFO,
		"Who gets the next turn: \"fifo\" by priority and age, \"drr\" by fair share."
	},
	[WORKQ_SET_FAIRNESS_KEY] = {
		"fairness_key", WORKQ_KIND_ENUM, fairness_keys, 0, 3, WORKQ_KEY_TENANT,
		"What jobs are grouped by for fair share and per-key caps."
	},
	[WORKQ_SET_QUANTUM] = {
		"quantum", WORKQ_KIND_INTEGER, NULL, 1, 1000000, 1,
		"Selections per round that a key of weight 1 gets."
	},
	[WORKQ_SET_STARVATION_AGE] = {
		"starvation_age", WORKQ_KIND_TIME, NULL, 0, GUC_MAX_MS, 300000,
		"How long a key may wait for its turn before it goes first; 0 is never."
	},
	[WORKQ_SET_STARVATION_MODE] = {
		"starvation_mode", WORKQ_KIND_ENUM, starvation_modes, 0, 1,
		WORKQ_STARVATION_BOUNDED,
		"Whether a starving key's turns are charged (\"bounded\") or not (\"strict\")."
	},
	[WORKQ_SET_PROMOTE_NORMAL_AFTER] = {
		"promote_normal_after", WORKQ_KIND_TIME, NULL, 0, GUC_MAX_MS, 900000,
		"Age at which a normal job is served like a high-priority one; 0 is never."
	},
	[WORKQ_SET_PROMOTE_LOW_AFTER] = {
		"promote_low_after", WORKQ_KIND_TIME, NULL, 0, GUC_MAX_MS, 1800000,
		"Age at which a low-priority job is served like a high-priority one; 0 is never."
	},
	[WORKQ_SET_MAX_CONCURRENT_PER_KEY] = {
		"max_concurrent_per_key", WORKQ_KIND_INTEGER, NULL, 0, 1000000, 0,
		"How many jobs of one key may be leased at a time; 0 is no limit."
	},
	[WORKQ_SET_DEFAULT_WEIGHT] = {
		"default_weight", WORKQ_KIND_INTEGER, NULL, 0, GUC_MAX_WEIGHT, 1,
		"Weight of a key that has none of its own; 0 pauses such keys."
	},
	[WORKQ_SET_MAX_LEASE] = {
		"max_lease", WORKQ_KIND_TIME, NULL, 1, GUC_MAX_MS, 86400000,
		"How long one claim may last at most, renewals included."
	},
	[WORKQ_SET_MAX_ATTEMPTS] = {
		"max_attempts", WORKQ_KIND_INTEGER, NULL, 1, WORKQ_MAX_ATTEMPTS, 25,
		"Failures after which a job is dead."
	},
	[WORKQ_SET_RETRY_BASE] = {
		"retry_base", WORKQ_KIND_TIME, NULL, 0, GUC_MAX_MS, 250,
		"Delay before the first retry, or before each if they are fixed."
	},
	[WORKQ_SET_RETRY_CAP] = {
		"retry_cap", WORKQ_KIND_TIME, NULL, 0, GUC_MAX_MS, 30000,
		"Delay before a retry at most."
	},
	[WORKQ_SET_RETRY_KIND] = {
		"retry_kind", WORKQ_KIND_ENUM, retry_kinds, 0, 2,
		WORKQ_RETRY_EXPONENTIAL,
		"How delays before retries grow: \"exponential\", \"fixed\" (not at all), or \"none\" for no retries."
	},
	[WORKQ_SET_RETRY_FACTOR] = {
		"retry_factor", WORKQ_KIND_INTEGER, NULL, 1, 100, 2,
		"By what an exponential delay grows with every failure."
	},
	[WORKQ_SET_RETRY_JITTER] = {
		"retry_jitter", WORKQ_KIND_INTEGER, NULL, 0, 100, 20,
		"Percentage by which a delay before a retry may be shorter or longer."
	},
	[WORKQ_SET_TRUST] = {
		"trust", WORKQ_KIND_ENUM, trusts, 0, 1, WORKQ_TRUST_ENGINE,
		"Who judges faults: \"engine\" by error map and retry policy here, \"worker\" the workers."
	},
	[WORKQ_SET_NOTIFY_EVERY] = {
		"notify_every", WORKQ_KIND_TIME, NULL, 0, GUC_MAX_MS, 0,
		"How often at most listeners are notified that a queue has ready jobs; 0 is never."
	}
};

int			workq_guc_max_lanes = 100000;
int			workq_guc_max_queues = 1000;
int			workq_guc_metrics_max_keys = 100;
int			workq_guc_segment_size = 1000000;
bool		workq_guc_worker_enabled = true;
double		workq_guc_clock_offset = 0;
char	   *workq_guc_weights = NULL;
uint32		workq_guc_generation = 1;

/* the server-wide defaults, once defined; by WorkqSettingId */
static int	values[WORKQ_N_SETTINGS];
static bool defined = false;

/* the enums' values in the form that guc.c of the server wants */
static struct config_enum_entry options[WORKQ_N_SETTINGS][GUC_MAX_ENUM + 1];

int64
workq_guc_default(WorkqSettingId id)
{
	return defined ? values[id] : workq_settings[id].boot;
}

int
workq_guc_enum_parse(const WorkqSettingDef *def, const char *value)
{
	Assert(def->kind == WORKQ_KIND_ENUM);
	return workq_check_enum(value, def->name, def->names);
}

int64
workq_guc_check_range(const WorkqSettingDef *def, int64 value)
{
	if (value >= def->min && value <= def->max)
		return value;
	if (def->kind == WORKQ_KIND_TIME)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be between %s and %s", def->name,
						workq_format_us(def->min * 1000),
						workq_format_us(def->max * 1000))));
	else
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be between " INT64_FORMAT " and " INT64_FORMAT,
						def->name, def->min, def->max)));
	return value;				/* keep the compiler quiet */
}

char *
workq_guc_format(const WorkqSettingDef *def, int64 value)
{
	switch (def->kind)
	{
		case WORKQ_KIND_ENUM:
			return pstrdup(def->names[value]);
		case WORKQ_KIND_INTEGER:
			return psprintf(INT64_FORMAT, value);
		case WORKQ_KIND_TIME:
			return psprintf(INT64_FORMAT " ms", value);
	}
	return NULL;				/* keep the compiler quiet */
}

/*
 * The largest unit in which the span is a whole number.
 */
char *
workq_format_us(int64 us)
{
	static const struct
	{
		int64		us;
		const char *one;
		const char *many;
	}			units[] = {
		{INT64CONST(31557600000000), "year", "years"},
		{USECS_PER_DAY, "day", "days"},
		{USECS_PER_HOUR, "hour", "hours"},
		{USECS_PER_MINUTE, "min", "min"},
		{USECS_PER_SEC, "s", "s"},
		{1000, "ms", "ms"}
	};
	int			i;

	for (i = 0; i < lengthof(units); i++)
	{
		if (us != 0 && us % units[i].us == 0)
		{
			int64		n = us / units[i].us;

			return psprintf(INT64_FORMAT " %s", n,
							n == 1 ? units[i].one : units[i].many);
		}
	}
	if (us == 0)
		return pstrdup("0");
	return psprintf(INT64_FORMAT " us", us);
}

int64
workq_interval_us(const Interval *value, const char *what, int64 min,
				  int64 max)
{
	int64		us;

	if (workq_compat_interval_not_finite(value))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_FIELD_OVERFLOW),
				 errmsg("%s must not be infinite", what),
				 errdetail("It must be between %s and %s.",
						   workq_format_us(min), workq_format_us(max))));
	if (value->month != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must not contain months or years", what),
				 errdetail("Their length varies.  It must be between %s and %s.",
						   workq_format_us(min), workq_format_us(max)),
				 errhint("Give days, hours, minutes and seconds, for example '90 days'.")));
	if (pg_mul_s64_overflow(value->day, USECS_PER_DAY, &us) ||
		pg_add_s64_overflow(us, value->time, &us))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_FIELD_OVERFLOW),
				 errmsg("%s is out of range", what),
				 errdetail("It must be between %s and %s.",
						   workq_format_us(min), workq_format_us(max))));
	if (us < min || us > max)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be between %s and %s", what,
						workq_format_us(min), workq_format_us(max))));
	return us;
}

TimestampTz
workq_now(void)
{
	TimestampTz now = GetCurrentTimestamp();

	if (unlikely(workq_guc_clock_offset != 0))
		now += (TimestampTz) (workq_guc_clock_offset * 1000.0);
	return now;
}

/* ------------------------------------------------------------------------
 * Lists of weights
 * ------------------------------------------------------------------------ */

static const char *
skip_space(const char *p, const char *end)
{
	while (p < end && *p == ' ')
		p++;
	return p;
}

static const char *
trim_space(const char *start, const char *end)
{
	while (end > start && end[-1] == ' ')
		end--;
	return end;
}

/*
 * Take one element from *cursor on, which is not at the end of the list.
 * Returns NULL and moves *cursor behind it (and its comma), or returns what is
 * wrong with it, *fault pointing to where.
 */
static const char *
weights_element(const char **cursor, const char **key, int *key_len,
				int32 *weight, const char **fault)
{
	const char *start = *cursor;
	const char *end = start + strcspn(start, ",");
	const char *colon = end;
	const char *p;
	int64		number = 0;

	*key = *fault = skip_space(start, end);
	while (colon > start && colon[-1] != ':')
		colon--;
	if (colon == start)
		return "expected \"key:weight\"";
	colon--;
	*key_len = trim_space(*key, Max(colon, *key)) - *key;
	if (*key_len > WORKQ_MAX_LANE)
		return "the key is too long";

	p = *fault = skip_space(colon + 1, end);
	if (p == trim_space(p, end))
		return "the weight is missing";
	for (; p < trim_space(*fault, end); p++)
	{
		if (*p < '0' || *p > '9')
		{
			*fault = p;
			return "the weight must be an integer";
		}
		number = Min(number * 10 + (*p - '0'), GUC_MAX_WEIGHT + 1);
	}
	if (number > GUC_MAX_WEIGHT)
		return "the weight must be between 0 and 1000000";

	*weight = (int32) number;
	*cursor = *end == ',' ? end + 1 : end;
	return NULL;
}

/*
 * Is the list at its end?  A list may be empty, but a comma wants an element
 * behind it.
 */
static bool
weights_end(const char *list, const char *cursor)
{
	const char *end = cursor + strlen(cursor);

	if (skip_space(cursor, end) < end)
		return false;
	return cursor == list || cursor[-1] != ',';
}

bool
workq_guc_weights_next(const char **cursor, const char **key, int *key_len,
					   int32 *weight)
{
	const char *fault;

	if (skip_space(*cursor, *cursor + strlen(*cursor))[0] == '\0')
		return false;
	return weights_element(cursor, key, key_len, weight, &fault) == NULL;
}

/* for qsort: by key, then by place in the list */
typedef struct WeightKey
{
	const char *key;
	int			len;
} WeightKey;

static int
weight_key_cmp(const void *a, const void *b)
{
	const WeightKey *ka = (const WeightKey *) a;
	const WeightKey *kb = (const WeightKey *) b;
	int			cmp = memcmp(ka->key, kb->key, Min(ka->len, kb->len));

	if (cmp != 0)
		return cmp;
	if (ka->len != kb->len)
		return ka->len < kb->len ? -1 : 1;
	return ka->key < kb->key ? -1 : (ka->key > kb->key ? 1 : 0);
}

/*
 * The first key that occurs a second time, or NULL.
 */
static const char *
weights_duplicate(WeightKey *keys, int n)
{
	const char *second = NULL;
	int			i;

	qsort(keys, n, sizeof(WeightKey), weight_key_cmp);
	for (i = 1; i < n; i++)
	{
		if (keys[i].len == keys[i - 1].len &&
			memcmp(keys[i].key, keys[i - 1].key, keys[i].len) == 0 &&
			(second == NULL || keys[i].key < second))
			second = keys[i].key;
	}
	return second;
}

char *
workq_guc_weights_check(const char *list)
{
	const char *cursor = list;
	const char *problem = NULL;
	const char *fault = NULL;
	WeightKey  *keys;
	int			n = 0;
	int			n_max = 1;

	for (cursor = list; *cursor != '\0'; cursor++)
		n_max += (*cursor == ',');
	keys = palloc_extended(n_max * sizeof(WeightKey), MCXT_ALLOC_HUGE);

	cursor = list;
	while (problem == NULL && !weights_end(list, cursor))
	{
		int32		weight;

		problem = weights_element(&cursor, &keys[n].key, &keys[n].len,
								  &weight, &fault);
		n++;
	}
	if (problem == NULL)
	{
		fault = weights_duplicate(keys, n);
		if (fault != NULL)
			problem = "the key occurs twice";
	}
	pfree(keys);

	if (problem == NULL)
		return NULL;
	return psprintf("At position %d: %s.", (int) (fault - list) + 1, problem);
}

uint32
workq_guc_weights_fingerprint(const char *list)
{
	if (list == NULL)
		list = "";
	return hash_bytes((const unsigned char *) list, strlen(list)) | 1;
}

static bool
check_weights(char **newval, void **extra, GucSource source)
{
	char	   *problem;

	if (*newval == NULL)
		return true;
	problem = workq_guc_weights_check(*newval);
	if (problem == NULL)
		return true;
	GUC_check_errdetail("%s", problem);
	GUC_check_errhint("Write weights as \"key:weight,key:weight\", weights between 0 and 1000000.");
	return false;
}

/* ------------------------------------------------------------------------
 * Definition
 * ------------------------------------------------------------------------ */

static void
assign_int(int newval, void *extra)
{
	workq_guc_generation++;
}

static void
assign_string(const char *newval, void *extra)
{
	workq_guc_generation++;
}

static void
define_setting(WorkqSettingId id)
{
	const WorkqSettingDef *def = &workq_settings[id];
	char	   *name = psprintf("workq.%s", def->name);
	int			i;

	values[id] = (int) def->boot;
	switch (def->kind)
	{
		case WORKQ_KIND_ENUM:
			for (i = 0; def->names[i] != NULL; i++)
			{
				Assert(i < GUC_MAX_ENUM);
				options[id][i].name = def->names[i];
				options[id][i].val = i;
			}
			DefineCustomEnumVariable(name, def->description, NULL,
									 &values[id], (int) def->boot,
									 options[id], PGC_SIGHUP, 0, NULL,
									 assign_int, NULL);
			break;
		case WORKQ_KIND_INTEGER:
		case WORKQ_KIND_TIME:
			DefineCustomIntVariable(name, def->description, NULL, &values[id],
									(int) def->boot, (int) def->min,
									(int) def->max, PGC_SIGHUP,
									def->kind == WORKQ_KIND_TIME ? GUC_UNIT_MS : 0,
									NULL, assign_int, NULL);
			break;
	}
	pfree(name);				/* the server made its own copy */
}

/*
 * Define the settings.  Only while preloading: without it, there is no shared
 * memory to size, and every function raises 55000 anyway.
 */
void
workq_guc_init(void)
{
	int			i;

	if (!process_shared_preload_libraries_in_progress)
		return;

	for (i = 0; i < WORKQ_N_SETTINGS; i++)
		define_setting((WorkqSettingId) i);
	defined = true;

	DefineCustomStringVariable("workq.weights",
							   "Weights of keys, as \"key:weight,key:weight\".",
							   "A key may contain colons; the last one counts.",
							   &workq_guc_weights, "", PGC_SIGHUP, 0,
							   check_weights, assign_string, NULL);
	DefineCustomIntVariable("workq.max_lanes",
							"Number of lanes, of all queues of all databases, that fit into shared memory.",
							NULL, &workq_guc_max_lanes, 100000, 16, 10000000,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("workq.max_queues",
							"Number of queues, of all databases, that fit into shared memory.",
							NULL, &workq_guc_max_queues, 1000, 1, 1000000,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("workq.metrics_max_keys",
							"Number of keys of a queue that metrics are exported for one by one.",
							"The first ones seen; the others are counted together.",
							&workq_guc_metrics_max_keys, 100, 0, 1000000,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("workq.segment_size",
							"Number of job ids in a new segment of the event log.",
							NULL, &workq_guc_segment_size, 1000000, 10,
							PG_INT32_MAX, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("workq.background_worker",
							 "Runs a background worker in every database that has the extension.",
							 NULL, &workq_guc_worker_enabled, true, PGC_SIGHUP,
							 0, NULL, NULL, NULL);
	DefineCustomRealVariable("workq.clock_offset",
							 "Added to workq's clock; for tests.",
							 NULL, &workq_guc_clock_offset, 0,
							 -GUC_MAX_OFFSET, GUC_MAX_OFFSET, PGC_SUSET,
							 GUC_UNIT_MS | GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	workq_compat_reserve_guc_prefix("workq");
}
