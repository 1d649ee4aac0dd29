/*-------------------------------------------------------------------------
 *
 * worker.h
 *	  The background worker of one database.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_WORKER_H
#define WORKQ_WORKER_H

#include "fmgr.h"

typedef enum WorkqTurn
{
	WORKQ_TURN_BEGUN,			/* in a transaction, the extension locked */
	WORKQ_TURN_BUSY,			/* somebody is altering or dropping it */
	WORKQ_TURN_ABSENT,			/* no extension, or not our version */
} WorkqTurn;

/*
 * The two functions that own the transaction sequence of all background
 * processes that work in a database.  Unless begin returns BEGUN there is no
 * transaction afterwards.  BEGUN: an active snapshot is set, and the
 * extension cannot be dropped before workq_worker_end.
 */
extern WorkqTurn workq_worker_begin(void);
extern void workq_worker_end(void);

/*
 * Settings of a background process that has just connected: what its SQL
 * means must not depend on the database's or the server's defaults.
 */
extern void workq_worker_settings(const char *name);

/* Give up waiting for locks after so many milliseconds. */
extern void workq_worker_lock_timeout(int ms);

extern PGDLLEXPORT void workq_worker_main(Datum main_arg);

#endif							/* WORKQ_WORKER_H */
