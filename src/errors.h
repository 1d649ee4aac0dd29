/*-------------------------------------------------------------------------
 *
 * errors.h
 *	  SQLSTATEs of workq's own: conditions a client must branch on.
 *
 * They are part of the interface: documented, never reused.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKQ_ERRORS_H
#define WORKQ_ERRORS_H

#define ERRCODE_WORKQ_CLAIM_LOST	MAKE_SQLSTATE('W','Q','0','0','1')
#define ERRCODE_WORKQ_QUEUE_PAUSED	MAKE_SQLSTATE('W','Q','0','0','2')
#define ERRCODE_WORKQ_LEASE_LIMIT	MAKE_SQLSTATE('W','Q','0','0','3')
#define ERRCODE_WORKQ_CANCELLED		MAKE_SQLSTATE('W','Q','0','0','4')

#endif							/* WORKQ_ERRORS_H */
