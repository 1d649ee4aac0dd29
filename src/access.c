/*-------------------------------------------------------------------------
 *
 * access.c
 *	  Who may do what with a queue.
 *
 * Direct table access bypasses the server's own checks, so the verbs ask here.
 * Rights belong to the role that is current when the verb runs (so SECURITY
 * DEFINER functions and SET ROLE work as everywhere), by membership as
 * has_privs_of_role() has it: NOINHERIT counts.
 *
 * What a role may do with a queue is worked out once and kept in the queue's
 * cache entry, for the role that asked last.  It holds until the queue's entry
 * is dropped or access_generation moves on, which the syscache callbacks on
 * roles and memberships do.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/json.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "access.h"
#include "args.h"
#include "compat.h"
#include "configure.h"
#include "guc.h"

static uint32 access_generation = 1;

/*
 * May create_role create queues?  Valid while create_generation is
 * access_generation, which changes of functions move on, too: rights are
 * granted and taken away there.
 */
static Oid	create_role = InvalidOid;
static bool create_allowed;
static uint32 create_generation = 0;

static void
access_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	access_generation++;
}

/*
 * DROP and CREATE EXTENSION make a new function, which the callback on
 * functions sees, so the extension itself need not be watched.
 */
void
workq_access_init(void)
{
	CacheRegisterSyscacheCallback(AUTHOID, access_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, access_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(PROCOID, access_changed, (Datum) 0);
}

/*
 * What a role may do with a queue.
 */
static uint32
compute_rights(const WorkqQueueInfo *queue, Oid role)
{
	uint32		rights = 0;
	int			i;

	if (has_privs_of_role(role, queue->owner))	/* superusers have */
		return WORKQ_RIGHT_ALL;
	for (i = 0; i < queue->n_grants; i++)
	{
		const WorkqGrant *grant = &queue->grants[i];

		if (grant->grantee == InvalidOid ||
			has_privs_of_role(role, grant->grantee))
			rights |= grant->rights;
	}
	if (rights & WORKQ_RIGHT_MANAGE)
		rights |= WORKQ_RIGHT_MONITOR;
	if ((rights & WORKQ_RIGHT_MONITOR) == 0 &&
		has_privs_of_role(role, ROLE_PG_MONITOR))
		rights |= WORKQ_RIGHT_MONITOR;
	return rights;
}

static uint32
rights_of_current(WorkqQueueInfo *queue)
{
	Oid			role = GetUserId();

	if (queue->checked_role != role ||
		queue->checked_generation != access_generation)
	{
		/* before looking: a change that comes meanwhile moves it on */
		uint32		generation = access_generation;

		queue->checked_rights = compute_rights(queue, role);
		queue->checked_role = role;
		queue->checked_generation = generation;
	}
	return queue->checked_rights;
}

bool
workq_access_has(WorkqQueueInfo *queue, uint32 rights)
{
	return (rights_of_current(queue) & rights) == rights;
}

bool
workq_access_has_any(WorkqQueueInfo *queue, uint32 rights)
{
	return (rights_of_current(queue) & rights) != 0;
}

void
workq_access_require(WorkqQueueInfo *queue, uint32 rights)
{
	uint32		missing = rights & ~rights_of_current(queue);
	StringInfoData names;
	int			i;

	if (missing == 0)
		return;
	initStringInfo(&names);
	for (i = 0; workq_catalog_rights[i] != NULL; i++)
	{
		if (missing & ((uint32) 1 << i))
			appendStringInfo(&names, "%s\"%s\"", names.len > 0 ? ", " : "",
							 workq_catalog_rights[i]);
	}
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied for queue \"%s\"", queue->name),
			 errdetail("Role \"%s\" lacks %s.",
					   GetUserNameFromId(GetUserId(), false), names.data),
			 errhint("Its owner can grant it with workq_grant.")));
}

/* ------------------------------------------------------------------------
 * Who may create queues
 * ------------------------------------------------------------------------ */

/*
 * Looked up by its exact name and arguments in the extension's own schema:
 * a function of that name elsewhere gives nobody a right.
 */
static Oid
create_function(void)
{
	Oid			args[2] = {TEXTOID, BOOLOID};
	oidvector  *argtypes = buildoidvector(args, 2);

	return GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
						   CStringGetDatum("workq_create_queue"),
						   PointerGetDatum(argtypes),
						   ObjectIdGetDatum(workq_catalog_schema()));
}

bool
workq_access_may_create(void)
{
	Oid			role = GetUserId();

	if (create_role != role || create_generation != access_generation)
	{
		uint32		generation = access_generation;
		Oid			function = create_function();

		create_allowed = OidIsValid(function) &&
			workq_compat_may_execute(function, role);
		create_role = role;
		create_generation = generation;
	}
	return create_allowed;
}

/* ------------------------------------------------------------------------
 * Granting
 * ------------------------------------------------------------------------ */

/*
 * A role by its name; "public" is everybody.  To take a grant away from a role
 * that has been dropped meanwhile, its number will do: nothing else is left.
 */
static Oid
parse_role(const char *name, bool number_ok)
{
	Oid			role = InvalidOid;

	if (strcmp(name, "public") == 0)
		return InvalidOid;
	if (strlen(name) < NAMEDATALEN) /* the lookup would cut it short */
		role = get_role_oid(name, true);
	if (!OidIsValid(role) && number_ok && name[0] != '\0' &&
		strspn(name, "0123456789") == strlen(name) && strlen(name) <= 10)
		role = (Oid) strtoul(name, NULL, 10);
	if (!OidIsValid(role))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("role \"%s\" does not exist", name)));
	return role;
}

/*
 * workq_grant and workq_revoke: the same but for what they do in the end.
 */
static bool
change_grant(FunctionCallInfo fcinfo, bool grant)
{
	WorkqQueueChange change;
	StringInfoData detail;
	char	   *role;
	char	   *privilege;
	Oid			grantee;
	uint32		right;
	bool		changed;

	workq_store_require(grant ? "workq_grant()" : "workq_revoke()", true);
	if (PG_ARGISNULL(1) || PG_ARGISNULL(2))
		workq_arg_missing(PG_ARGISNULL(1) ? "role" : "privilege");
	role = text_to_cstring(PG_GETARG_TEXT_PP(1));
	privilege = text_to_cstring(PG_GETARG_TEXT_PP(2));
	right = (uint32) 1 << workq_check_enum(privilege, "privilege",
										   workq_catalog_rights);
	grantee = parse_role(role, !grant);

	workq_configure_begin(&change, fcinfo);
	if (grant)
		changed = workq_catalog_grant(change.store, change.queue->queue_id,
									  grantee, right, GetUserId(),
									  workq_now());
	else
		changed = workq_catalog_revoke(change.store, change.queue->queue_id,
									   grantee, right);

	initStringInfo(&detail);
	appendStringInfoString(&detail, "\"role\": ");
	escape_json(&detail, role);
	appendStringInfo(&detail, ", \"privilege\": \"%s\"", privilege);
	(void) workq_configure_end(&change, changed, grant ? "granted" : "revoked",
							   detail.data);
	return changed;
}

PG_FUNCTION_INFO_V1(workq_grant);

Datum
workq_grant(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(change_grant(fcinfo, true));
}

PG_FUNCTION_INFO_V1(workq_revoke);

Datum
workq_revoke(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(change_grant(fcinfo, false));
}
