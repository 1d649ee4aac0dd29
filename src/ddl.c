/*-------------------------------------------------------------------------
 *
 * ddl.c
 *	  Commands that concern background work: databases and the extension.
 *
 * Some commands need a database that nobody is connected to.  Our worker makes
 * way for them: it is stopped before the command looks, and the launcher
 * brings it back when the transaction has ended, if the database is still
 * there.  The hook works in every database of the server, with or without the
 * extension, and only for those who may give the command: nobody else can
 * stop a worker by trying.
 *
 * That the extension was created, altered or dropped is seen where objects are
 * made and dropped, whatever the command was called (DROP OWNED, DROP SCHEMA
 * ... CASCADE).  The launcher looks when the transaction has ended, in
 * whatever way.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/acl.h"

#include "compat.h"
#include "ddl.h"
#include "registry.h"
#include "store_system.h"
#include "xact.h"

static ProcessUtility_hook_type prev_process_utility = NULL;
static object_access_hook_type prev_object_access = NULL;

/*
 * The string value of an option, or the default.
 */
static const char *
option(List *options, const char *name, const char *missing)
{
	ListCell   *cell;

	foreach(cell, options)
	{
		DefElem    *element = lfirst_node(DefElem, cell);

		if (strcmp(element->defname, name) == 0 && element->arg != NULL)
			return defGetString(element);
	}
	return missing;
}

/*
 * Which database does this command need to itself, and does it change
 * databases at all?
 */
static const char *
database_needed(Node *command, bool *changes)
{
	*changes = true;
	switch (nodeTag(command))
	{
		case T_DropdbStmt:
			return castNode(DropdbStmt, command)->dbname;
		case T_CreatedbStmt:
			return option(castNode(CreatedbStmt, command)->options,
						  "template", "template1");
		case T_AlterDatabaseStmt:
			{
				AlterDatabaseStmt *alter = castNode(AlterDatabaseStmt, command);

				if (option(alter->options, "tablespace", NULL) != NULL)
					return alter->dbname;
				return NULL;
			}
		case T_RenameStmt:
			if (castNode(RenameStmt, command)->renameType == OBJECT_DATABASE)
				return castNode(RenameStmt, command)->subname;
			break;
		default:
			break;
	}
	*changes = false;
	return NULL;
}

/*
 * Make way for a command on databases.
 */
static void
before_utility(Node *command)
{
	bool		changes;
	const char *name;
	Oid			dbid;

	name = database_needed(command, &changes);
	if (changes)
		workq_registry_recheck(InvalidOid);
	if (name == NULL)
		return;
	dbid = get_database_oid(name, true);
	if (OidIsValid(dbid) && dbid != MyDatabaseId &&
		workq_compat_owns_database(dbid, GetUserId()))
		workq_registry_vacate(dbid);
}

static void
process_utility(PlannedStmt *pstmt, const char *query, bool read_only_tree,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *env, DestReceiver *dest,
				QueryCompletion *completion)
{
	if (!IsParallelWorker() && !IsBinaryUpgrade)
		before_utility(pstmt->utilityStmt);
	if (prev_process_utility != NULL)
		prev_process_utility(pstmt, query, read_only_tree, context, params,
							 env, dest, completion);
	else
		standard_ProcessUtility(pstmt, query, read_only_tree, context, params,
								env, dest, completion);
}

static void
object_access(ObjectAccessType access, Oid class_id, Oid object_id,
			  int sub_id, void *arg)
{
	if (prev_object_access != NULL)
		prev_object_access(access, class_id, object_id, sub_id, arg);
	if (class_id != ExtensionRelationId || IsParallelWorker() ||
		(access != OAT_POST_CREATE && access != OAT_POST_ALTER &&
		 access != OAT_DROP) ||
		!workq_system_is_ours(object_id))
		return;

	/*
	 * Its row becomes visible to others a moment before their caches are told
	 * what went and what came; this keeps the worker out until they are.
	 */
	if (access == OAT_POST_CREATE)
		LockDatabaseObject(ExtensionRelationId, object_id, 0,
						   AccessExclusiveLock);
	if (access == OAT_DROP)
		workq_xact_extension_dropped();
	workq_registry_recheck(MyDatabaseId);
}

void
workq_ddl_init(void)
{
	prev_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
	prev_object_access = object_access_hook;
	object_access_hook = object_access;
}
