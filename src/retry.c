/*-------------------------------------------------------------------------
 *
 * retry.c
 *	  Retry policies: of a queue, of a job, of a rule of an error map.
 *
 * A queue's policy is among its settings.  The others are JSON objects that
 * are put over it, so that each says only what is different.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "common/pg_prng.h"
#include "utils/builtins.h"

#include "args.h"
#include "compat.h"
#include "guc.h"
#include "retry.h"

typedef enum RetryField
{
	RETRY_KIND,
	RETRY_BASE,
	RETRY_CAP,
	RETRY_FACTOR,
	RETRY_JITTER,
	RETRY_MAX_ATTEMPTS
} RetryField;

static const char *const field_names[] = {
	"kind", "base", "cap", "factor", "jitter", "max_attempts", NULL
};

/* the settings that say the same of a queue, and have the same bounds */
static const WorkqSettingId field_settings[] = {
	WORKQ_SET_RETRY_KIND, WORKQ_SET_RETRY_BASE, WORKQ_SET_RETRY_CAP,
	WORKQ_SET_RETRY_FACTOR, WORKQ_SET_RETRY_JITTER, WORKQ_SET_MAX_ATTEMPTS
};

static void
bad_type(RetryField field, const char *wanted)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("retry's %s must be %s", field_names[field], wanted)));
}

/*
 * A whole number within the bounds of the setting.
 */
static int64
field_number(RetryField field, const JsonbValue *value)
{
	const WorkqSettingDef *def = &workq_settings[field_settings[field]];
	char	   *digits;
	char	   *end;
	int64		result;

	if (value->type != jbvNumeric)
		bad_type(field, def->kind == WORKQ_KIND_TIME ?
				 "an interval or a number of milliseconds" : "a number");
	digits = DatumGetCString(DirectFunctionCall1(numeric_out,
												 NumericGetDatum(value->val.numeric)));
	errno = 0;
	result = strtoi64(digits, &end, 10);
	if (errno != 0 || *end != '\0')
		bad_type(field, "a whole number");
	return workq_guc_check_range(def, result);
}

/*
 * A time: an interval as a string, or milliseconds.
 */
static int64
field_time(RetryField field, const JsonbValue *value)
{
	const WorkqSettingDef *def = &workq_settings[field_settings[field]];
	Datum		interval;
	char	   *string;

	if (value->type != jbvString)
		return field_number(field, value);
	string = pnstrdup(value->val.string.val, value->val.string.len);
	interval = DirectFunctionCall3(interval_in, CStringGetDatum(string),
								   ObjectIdGetDatum(InvalidOid),
								   Int32GetDatum(-1));
	return workq_interval_us(DatumGetIntervalP(interval), def->name,
							 def->min * 1000, def->max * 1000) / 1000;
}

static void
set_field(WorkqRetry *retry, RetryField field, const JsonbValue *value)
{
	switch (field)
	{
		case RETRY_KIND:
			if (value->type != jbvString)
				bad_type(field, "a string");
			retry->kind = workq_guc_enum_parse(&workq_settings[WORKQ_SET_RETRY_KIND],
											   pnstrdup(value->val.string.val,
														value->val.string.len));
			break;
		case RETRY_BASE:
			retry->base = field_time(field, value);
			break;
		case RETRY_CAP:
			retry->cap = field_time(field, value);
			break;
		case RETRY_FACTOR:
			retry->factor = (int) field_number(field, value);
			break;
		case RETRY_JITTER:
			retry->jitter = (int) field_number(field, value);
			break;
		case RETRY_MAX_ATTEMPTS:
			retry->max_attempts = (int) field_number(field, value);
			break;
	}
}

void
workq_retry_parse(Jsonb *json, WorkqRetry *retry)
{
	JsonbIterator *it;
	JsonbValue	value;

	if (!JB_ROOT_IS_OBJECT(json))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("retry must be an object"),
				 errhint("For example '{\"kind\": \"fixed\", \"base\": \"10 s\"}'.")));
	it = JsonbIteratorInit(&json->root);
	(void) JsonbIteratorNext(&it, &value, false);
	while (JsonbIteratorNext(&it, &value, true) != WJB_END_OBJECT)
	{
		char	   *key = pnstrdup(value.val.string.val, value.val.string.len);
		int			field = workq_check_enum(key, "field of retry", field_names);

		(void) JsonbIteratorNext(&it, &value, true);
		if (value.type != jbvNull)
			set_field(retry, (RetryField) field, &value);
	}
}

static char options_key[] = "retry";

Jsonb *
workq_retry_options(Jsonb *retry)
{
	JsonbParseState *state = NULL;
	JsonbValue	key;
	JsonbValue	value;

	key.type = jbvString;
	key.val.string.val = options_key;
	key.val.string.len = strlen(options_key);
	value.type = jbvBinary;
	value.val.binary.data = &retry->root;
	value.val.binary.len = VARSIZE(retry) - VARHDRSZ;
	(void) pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	(void) pushJsonbValue(&state, WJB_KEY, &key);
	(void) pushJsonbValue(&state, WJB_VALUE, &value);
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

void
workq_retry_of_job(WorkqStore *store, const WorkqQueueInfo *queue,
				   const WorkqJob *job, WorkqRetry *retry)
{
	WorkqJobRow row;
	Jsonb	   *options;
	JsonbValue	value;

	retry->kind = (int) workq_queue_setting(queue, WORKQ_SET_RETRY_KIND);
	retry->base = workq_queue_setting(queue, WORKQ_SET_RETRY_BASE);
	retry->cap = workq_queue_setting(queue, WORKQ_SET_RETRY_CAP);
	retry->factor = (int) workq_queue_setting(queue, WORKQ_SET_RETRY_FACTOR);
	retry->jitter = (int) workq_queue_setting(queue, WORKQ_SET_RETRY_JITTER);
	if ((job->flags & WORKQ_JOB_RETRY) &&
		workq_store_job(store, job->job_id, &row) && row.options != NULL)
	{
		options = DatumGetJsonbP(JsonbPGetDatum(row.options));
		if (getKeyJsonValueFromContainer(&options->root, options_key,
										 strlen(options_key), &value) != NULL)
			workq_retry_parse(JsonbValueToJsonb(&value), retry);
	}
	/* the job's limit was fixed when it was enqueued */
	retry->max_attempts = job->max_attempts;
}

/*
 * Jitter, so that a fleet that failed together does not come back together.
 */
int64
workq_retry_delay(const WorkqRetry *retry, int failures)
{
	double		delay = retry->base * 1000.0;
	double		spread = retry->jitter / 100.0;

	if (retry->kind == WORKQ_RETRY_EXPONENTIAL)
		delay = Min(delay * pow(retry->factor, Min(failures - 1, 62)),
					retry->cap * 1000.0);
	return (int64) (delay * (1.0 - spread +
							 2.0 * spread * workq_compat_random_double()));
}
