/*-------------------------------------------------------------------------
 *
 * launcher.h
 *	  The launcher: one background worker for each database that has workq.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_LAUNCHER_H
#define WORKQ_LAUNCHER_H

#include "fmgr.h"

/* Registers it; only when preloading, and not for pg_upgrade. */
extern void workq_launcher_init(void);

extern PGDLLEXPORT void workq_launcher_main(Datum main_arg);

#endif							/* WORKQ_LAUNCHER_H */
