/*-------------------------------------------------------------------------
 *
 * args.c
 *	  Arguments of the verbs: NULL, bounds, enumerations, claim ids, lanes.
 *
 * Every limit is stated in the error that enforces it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "args.h"
#include "guc.h"
#include "queue.h"

const char *const workq_priority_names[] = {"high", "normal", "low", NULL};
const char *const workq_on_lost_names[] = {"error", "report", NULL};

void
workq_arg_missing(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("%s must not be null", what)));
}

char *
workq_arg_name_or_null(FunctionCallInfo fcinfo, int n, const char *what)
{
	if (PG_ARGISNULL(n))
		return NULL;
	return workq_check_name(PG_GETARG_TEXT_PP(n), what);
}

char *
workq_arg_name(FunctionCallInfo fcinfo, int n, const char *what)
{
	if (PG_ARGISNULL(n))
		workq_arg_missing(what);
	return workq_check_name(PG_GETARG_TEXT_PP(n), what);
}

char *
workq_check_text(const text *value, const char *what)
{
	if (VARSIZE_ANY_EXHDR(value) > WORKQ_MAX_TEXT)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("%s is too long", what),
				 errdetail("It has %d bytes; at most %d are allowed.",
						   (int) VARSIZE_ANY_EXHDR(value), WORKQ_MAX_TEXT)));
	return text_to_cstring(value);
}

char *
workq_arg_text_or_null(FunctionCallInfo fcinfo, int n, const char *what)
{
	if (PG_ARGISNULL(n))
		return NULL;
	return workq_check_text(PG_GETARG_TEXT_PP(n), what);
}

int
workq_arg_int(FunctionCallInfo fcinfo, int n, const char *what, int min,
			  int max, int missing)
{
	int			value;

	if (PG_ARGISNULL(n))
		return missing;
	value = PG_GETARG_INT32(n);
	if (value < min || value > max)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be between %d and %d, not %d",
						what, min, max, value)));
	return value;
}

int64
workq_arg_interval(FunctionCallInfo fcinfo, int n, const char *what,
				   int64 min, int64 max, int64 missing)
{
	if (PG_ARGISNULL(n))
		return missing;
	return workq_interval_us(PG_GETARG_INTERVAL_P(n), what, min, max);
}

int
workq_check_enum(const char *value, const char *what,
				 const char *const *names)
{
	StringInfoData valid;
	int			i;

	for (i = 0; names[i] != NULL; i++)
	{
		if (strcmp(value, names[i]) == 0)
			return i;
	}
	initStringInfo(&valid);
	for (i = 0; names[i] != NULL; i++)
		appendStringInfo(&valid, "%s\"%s\"", i == 0 ? "" : ", ", names[i]);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid %s: \"%s\"", what, value),
			 errhint("Valid values are %s.", valid.data)));
	return -1;					/* keep compiler quiet */
}

int
workq_arg_enum(FunctionCallInfo fcinfo, int n, const char *what,
			   const char *const *names, int missing)
{
	if (PG_ARGISNULL(n))
		return missing;
	return workq_check_enum(text_to_cstring(PG_GETARG_TEXT_PP(n)), what,
							names);
}

Jsonb *
workq_check_jsonb(Datum value, const char *what)
{
	Size		size = toast_raw_datum_size(value);

	if (size > WORKQ_MAX_PAYLOAD)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("%s is too large", what),
				 errdetail("It has %zu bytes as jsonb; at most %d are allowed.",
						   size, WORKQ_MAX_PAYLOAD)));
	return (Jsonb *) DatumGetPointer(value);
}

Jsonb *
workq_arg_jsonb_or_null(FunctionCallInfo fcinfo, int n, const char *what)
{
	if (PG_ARGISNULL(n))
		return NULL;
	return workq_check_jsonb(PG_GETARG_DATUM(n), what);
}

int
workq_arg_array(FunctionCallInfo fcinfo, int n, const char *what, Oid type,
				Datum **values, bool **nulls)
{
	ArrayType  *array;
	int16		len;
	bool		byval;
	char		align;
	int			count;

	if (PG_ARGISNULL(n))
		workq_arg_missing(what);
	array = PG_GETARG_ARRAYTYPE_P(n);
	if (ARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("%s must be an array of one dimension, not %d",
						what, ARR_NDIM(array))));
	get_typlenbyvalalign(type, &len, &byval, &align);
	deconstruct_array(array, type, len, byval, align, values, nulls, &count);
	if (count > WORKQ_MAX_BATCH)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("%s has too many elements", what),
				 errdetail("It has %d elements; at most %d are allowed.",
						   count, WORKQ_MAX_BATCH)));
	return count;
}

/* ------------------------------------------------------------------------
 * Claim ids
 * ------------------------------------------------------------------------ */

/*
 * UUID_LEN bytes that nobody can guess, from a supply: one call of the random
 * number generator costs as much for many as for few.  What was handed out is
 * wiped.
 */
static void
random_bytes(unsigned char *result)
{
	static unsigned char supply[256 * UUID_LEN];
	static int	left = 0;

	if (left == 0)
	{
		if (!pg_strong_random(supply, sizeof(supply)))
			ereport(ERROR,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("could not generate random values")));
		left = sizeof(supply);
	}
	left -= UUID_LEN;
	memcpy(result, supply + left, UUID_LEN);
	memset(supply + left, 0, UUID_LEN);
}

/*
 * Bytes 0 to 5 and 7 are the job id, the high half of byte 6 is the version,
 * the two high bits of byte 8 the variant; the rest is random.
 */
void
workq_claim_id_make(int64 job_id, pg_uuid_t *claim_id)
{
	unsigned char *b = claim_id->data;
	uint64		id = (uint64) job_id;
	int			i;

	random_bytes(b);
	for (i = 0; i < 6; i++)
		b[i] = (id >> (8 * (6 - i))) & 0xff;
	b[6] = 0x80 | (b[6] & 0x0f);
	b[7] = id & 0xff;
	b[8] = 0x80 | (b[8] & 0x3f);
}

char *
workq_claim_id_text(const pg_uuid_t *claim_id)
{
	return DatumGetCString(DirectFunctionCall1(uuid_out,
											   UUIDPGetDatum(claim_id)));
}

int64
workq_claim_id_job(const pg_uuid_t *claim_id)
{
	const unsigned char *b = claim_id->data;
	uint64		id = 0;
	int			i;

	for (i = 0; i < 6; i++)
		id = (id << 8) | b[i];
	id = (id << 8) | b[7];
	if ((b[6] & 0xf0) != 0x80 || (b[8] & 0xc0) != 0x80 || id == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" is not a claim id of workq",
						workq_claim_id_text(claim_id)),
				 errhint("Use the claim_id that workq_claim returned.")));
	return (int64) id;
}

/* ------------------------------------------------------------------------
 * Lanes
 * ------------------------------------------------------------------------ */

static const char *
empty_if_null(const char *value)
{
	return value == NULL ? "" : value;
}

/*
 * One lane for all jobs of a fifo queue without a cap for each key or for some
 * of them; otherwise a lane for each fairness key.
 */
WorkqLaneForm
workq_lane_form(const int64 *settings, const WorkqSettings *own)
{
	if (settings[WORKQ_SET_STRATEGY] == WORKQ_STRATEGY_FIFO &&
		settings[WORKQ_SET_MAX_CONCURRENT_PER_KEY] == 0 &&
		own->limited_keys == 0)
		return WORKQ_FORM_PLAIN;
	switch ((WorkqFairnessKey) settings[WORKQ_SET_FAIRNESS_KEY])
	{
		case WORKQ_KEY_TENANT:
			return WORKQ_FORM_TENANT;
		case WORKQ_KEY_BINDING:
			return WORKQ_FORM_BINDING;
		case WORKQ_KEY_TRIGGER_ID:
			return WORKQ_FORM_TRIGGER_ID;
		case WORKQ_KEY_TENANT_AND_BINDING:
			return WORKQ_FORM_TENANT_AND_BINDING;
	}
	return WORKQ_FORM_PLAIN;	/* keep compiler quiet */
}

TimestampTz
workq_promotion_of(const int64 *settings, int priority, TimestampTz since)
{
	int64		after = 0;

	if (priority == WORKQ_NORMAL)
		after = settings[WORKQ_SET_PROMOTE_NORMAL_AFTER];
	else if (priority == WORKQ_LOW)
		after = settings[WORKQ_SET_PROMOTE_LOW_AFTER];
	return after > 0 ? since + after * 1000 : DT_NOBEGIN;
}

int
workq_rank_of(const int64 *settings, int priority, TimestampTz since,
			  TimestampTz now)
{
	TimestampTz when = workq_promotion_of(settings, priority, since);

	return when != DT_NOBEGIN && now >= when ? WORKQ_HIGH : priority;
}

/*
 * "" for a job without what the form asks for.
 */
char *
workq_lane_of(WorkqLaneForm form, const char *tenant, const char *binding,
			  const char *trigger_id)
{
	switch (form)
	{
		case WORKQ_FORM_TENANT:
			return pstrdup(empty_if_null(tenant));
		case WORKQ_FORM_BINDING:
			return pstrdup(empty_if_null(binding));
		case WORKQ_FORM_TRIGGER_ID:
			return pstrdup(empty_if_null(trigger_id));
		case WORKQ_FORM_TENANT_AND_BINDING:
			return psprintf("%s%c%s", empty_if_null(tenant),
							WORKQ_LANE_SEPARATOR, empty_if_null(binding));
		case WORKQ_FORM_PLAIN:
		case WORKQ_N_FORMS:
		case WORKQ_FORM_UNKNOWN:
			break;
	}
	return pstrdup("");
}

char *
workq_fairness_key_of(const int64 *settings, const char *tenant,
					  const char *binding, const char *trigger_id)
{
	switch ((WorkqFairnessKey) settings[WORKQ_SET_FAIRNESS_KEY])
	{
		case WORKQ_KEY_TENANT:
			return pstrdup(tenant == NULL ? "_no_tenant" : tenant);
		case WORKQ_KEY_BINDING:
			return pstrdup(binding == NULL ? "_no_binding" : binding);
		case WORKQ_KEY_TRIGGER_ID:
			return pstrdup(trigger_id == NULL ? "_no_trigger_id" : trigger_id);
		case WORKQ_KEY_TENANT_AND_BINDING:
			return psprintf("%s%c%s", tenant == NULL ? "_no_tenant" : tenant,
							WORKQ_LANE_SEPARATOR,
							binding == NULL ? "_no_binding" : binding);
	}
	return NULL;				/* keep compiler quiet */
}
