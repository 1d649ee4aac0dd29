/*-------------------------------------------------------------------------
 *
 * ddl.h
 *	  Commands that concern background work.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_DDL_H
#define WORKQ_DDL_H

extern void workq_ddl_init(void);

#endif							/* WORKQ_DDL_H */
