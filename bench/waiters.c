/*-------------------------------------------------------------------------
 *
 * waiters.c
 *	  Many consumers in one process, or one producer; for "bench/run wait".
 *
 * usage: waiters WAY QUEUE CONNECTIONS
 *		  waiters produce WAY QUEUE FIRST JOBS GAP
 *
 * A consumer waits for a job, claims it, acks it, and begins anew.  How it waits
 * is the way:
 *
 *	 claim	 a claim that waits
 *	 call	 CALL workq_wait, then claims until there is nothing
 *	 listen	 LISTEN; when notified claims from the table QUEUE, with SKIP
 *			 LOCKED, until there is nothing
 *	 hear	 LISTEN, and does nothing when notified
 *
 * It says "ready" when all are connected and wait.  At SIGTERM it says, for each
 * job, its number and when its row had arrived, then how many claims were sent.
 *
 * The producer commits one job at a time, a transaction each: BEGIN, the
 * enqueue (listen: INSERT and NOTIFY), COMMIT.  Jobs are numbered from FIRST;
 * between two of them are half to one and a half GAP milliseconds, so that they
 * fall into step with nothing.  It says, for each job, its number, when the
 * COMMIT was sent and when its reply had arrived.
 *
 * All times are nanoseconds of CLOCK_MONOTONIC, which processes share.
 *
 * One process serves all connections, with epoll: so a consumer costs a few
 * microseconds of CPU for each message, and the two hundred do not need two
 * hundred processes, which would be in the way of the server's.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include <libpq-fe.h>

#define MAX_TEXT	1024

/* What a consumer does now. */
typedef enum State
{
	IDLE,						/* listens */
	WAITING,					/* in workq_wait */
	CLAIMING,
	ACKING
} State;

typedef struct Way
{
	const char *name;
	const char *listen;			/* at the beginning, or NULL */
	const char *wait;			/* says t when to claim; or NULL */
	const char *claim;			/* gives what ack wants, and the number */
	const char *ack;
	const char *enqueue;		/* $1 is the number */
} Way;

/* %s is the queue or table */
static const Way ways[] = {
	{"claim", NULL, NULL,
		"SELECT claim_id, payload FROM workq_claim('%s', 'w', wait => '5 min')",
		"SELECT workq_ack($1)",
	"SELECT workq_enqueue('%s', $1)"},
	{"call", NULL,
		"CALL workq_wait(ARRAY['%s'], '5 min')",
		"SELECT claim_id, payload FROM workq_claim('%s', 'w')",
		"SELECT workq_ack($1)",
	"SELECT workq_enqueue('%s', $1)"},
	{"listen", "LISTEN %s", NULL,
		"UPDATE %1$s SET state = 'leased', worker = 'w', "
		"deadline = clock_timestamp() + interval '5 min' WHERE id = "
		"(SELECT id FROM %1$s WHERE state = 'ready' ORDER BY priority, id "
		"FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING id, payload",
		"DELETE FROM %s WHERE id = $1",
		"WITH x AS (INSERT INTO %1$s (payload) VALUES ($1)) "
	"SELECT pg_notify('%1$s', '')"},
	{"hear", "LISTEN %s", NULL, NULL, NULL, NULL}
};

typedef struct Consumer
{
	PGconn	   *conn;
	State		state;
	bool		notified;		/* since the last claim was sent */
} Consumer;

typedef struct Got
{
	int			number;
	int64_t		when;
} Got;

static const Way *way;
static Got *got = NULL;
static int	n_got = 0;
static int	max_got = 0;
static long n_claims = 0;
static volatile sig_atomic_t stop = 0;

/*
 * Say what is wrong, and end.
 */
static void
__attribute__((format(printf, 1, 2), noreturn))
die(const char *format,...)
{
	va_list		args;

	va_start(args, format);
	fputs("waiters: ", stderr);
	vfprintf(stderr, format, args);
	fputs("\n", stderr);
	va_end(args);
	exit(1);
}

/*
 * Signal handler.  It interrupts epoll_wait, which is where consumers are.
 */
static void
on_term(int number)
{
	stop = 1;
}

/*
 * Nanoseconds of the clock that processes share.
 */
static int64_t
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t) t.tv_sec * 1000000000 + t.tv_nsec;
}

/*
 * The way of this name; none is the end.
 */
static const Way *
find_way(const char *name)
{
	size_t		i;

	for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
	{
		if (strcmp(ways[i].name, name) == 0)
			return &ways[i];
	}
	die("no way \"%s\"", name);
}

/*
 * A statement's text for this queue.  The texts are all above.
 */
static const char *
text(const char *format, const char *queue)
{
	static char buffer[MAX_TEXT];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(buffer, sizeof(buffer), format, queue);
#pragma GCC diagnostic pop
	return buffer;
}

/*
 * The result, if it is no error; else the end.
 */
static PGresult *
good(PGconn * conn, PGresult * result)
{
	ExecStatusType status = PQresultStatus(result);

	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
		die("%s", PQerrorMessage(conn));
	return result;
}

/*
 * As libpq's environment variables say.
 */
static PGconn *
connect_to_server(void)
{
	PGconn	   *conn = PQconnectdb("");

	if (PQstatus(conn) != CONNECTION_OK)
		die("%s", PQerrorMessage(conn));
	return conn;
}

/*
 * Prepare a statement, if the way has it.
 */
static void
prepare(PGconn * conn, const char *name, const char *format, const char *queue)
{
	if (format != NULL)
		PQclear(good(conn, PQprepare(conn, name, text (format, queue), 0,
									 NULL)));
}

/* ------------------------------------------------------------------------
 * Consumers
 * ------------------------------------------------------------------------ */

/*
 * Send a prepared statement, with one parameter or none.
 */
static void
send_statement(Consumer *c, State state, const char *name, const char *value)
{
	c->state = state;
	if (!PQsendQueryPrepared(c->conn, name, value != NULL ? 1 : 0, &value,
							 NULL, NULL, 0))
		die("%s", PQerrorMessage(c->conn));
	if (PQflush(c->conn) != 0)
		die("a short statement did not fit into the socket");
}

/*
 * Whoever notifies us from now on may have committed after the claim looked.
 */
static void
send_claim(Consumer *c)
{
	c->notified = false;
	n_claims++;
	send_statement(c, CLAIMING, "claim", NULL);
}

/*
 * There was nothing to claim, or nobody has looked yet.
 */
static void
send_wait(Consumer *c)
{
	if (way->wait != NULL)
		send_statement(c, WAITING, "wait", NULL);
	else if (way->listen == NULL)
		send_claim(c);
	else if (c->notified && way->claim != NULL)
		send_claim(c);
	else
		c->state = IDLE;
}

/*
 * Keep that a job has arrived.
 */
static void
keep(const char *number, int64_t when)
{
	if (n_got == max_got)
	{
		max_got = max_got * 2 + 1000;
		got = realloc(got, max_got * sizeof(Got));
		if (got == NULL)
			die("out of memory");
	}
	got[n_got].number = atoi(number);
	got[n_got].when = when;
	n_got++;
}

/*
 * A statement has ended: go on with the next one.
 */
static void
next_step(Consumer *c, const PGresult * result, int64_t when)
{
	switch (c->state)
	{
		case IDLE:
			break;
		case WAITING:
			if (strcmp(PQgetvalue(result, 0, 0), "t") == 0)
				send_claim(c);
			else
				send_wait(c);
			break;
		case CLAIMING:
			if (PQntuples(result) == 0)
				send_wait(c);
			else
			{
				keep(PQgetvalue(result, 0, 1), when);
				send_statement(c, ACKING, "ack", PQgetvalue(result, 0, 0));
			}
			break;
		case ACKING:
			send_claim(c);
			break;
	}
}

/*
 * Something has arrived.
 */
static void
receive(Consumer *c)
{
	PGnotify   *notify;

	if (!PQconsumeInput(c->conn))
		die("%s", PQerrorMessage(c->conn));
	if (c->state != IDLE && !PQisBusy(c->conn))
	{
		int64_t		when = now();
		PGresult   *result = good(c->conn, PQgetResult(c->conn));

		/* the end of the statement has arrived with its result, or will */
		PQclear(PQgetResult(c->conn));
		while ((notify = PQnotifies(c->conn)) != NULL)
		{
			c->notified = true;
			PQfreemem(notify);
		}
		next_step(c, result, when);
		PQclear(result);
	}
	while ((notify = PQnotifies(c->conn)) != NULL)
	{
		c->notified = true;
		PQfreemem(notify);
	}
	if (c->state == IDLE)
		send_wait(c);
}

/*
 * Connect, prepare, listen; not yet the first wait.
 */
static void
open_consumer(Consumer *c, const char *queue)
{
	c->conn = connect_to_server();
	c->notified = false;
	prepare(c->conn, "wait", way->wait, queue);
	prepare(c->conn, "claim", way->claim, queue);
	prepare(c->conn, "ack", way->ack, queue);
	if (way->listen != NULL)
		PQclear(good(c->conn, PQexec(c->conn, text (way->listen, queue))));
	if (PQsetnonblocking(c->conn, 1) != 0)
		die("%s", PQerrorMessage(c->conn));
}

/*
 * What was kept, to stdout.
 */
static void
tell_results(void)
{
	int			i;

	for (i = 0; i < n_got; i++)
		printf("%d %lld\n", got[i].number, (long long) got[i].when);
	printf("claims %ld\n", n_claims);
}

/*
 * n consumers, until SIGTERM.
 */
static void
consume(const char *queue, int n)
{
	Consumer   *consumers = calloc(n, sizeof(Consumer));
	int			poll = epoll_create1(0);
	struct epoll_event events[64];
	int			i;

	if (consumers == NULL || poll < 0)
		die("%s", strerror(errno));
	for (i = 0; i < n; i++)
	{
		struct epoll_event event;

		open_consumer(&consumers[i], queue);
		event.events = EPOLLIN;
		event.data.u32 = i;
		if (epoll_ctl(poll, EPOLL_CTL_ADD, PQsocket(consumers[i].conn),
					  &event) != 0)
			die("%s", strerror(errno));
		send_wait(&consumers[i]);
	}
	printf("ready\n");
	fflush(stdout);
	while (!stop)
	{
		int			ready = epoll_wait(poll, events, 64, -1);

		for (i = 0; i < ready; i++)
			receive(&consumers[events[i].data.u32]);
	}
	tell_results();
}

/* ------------------------------------------------------------------------
 * The producer
 * ------------------------------------------------------------------------ */

/*
 * Half to one and a half gap milliseconds.
 */
static void
rest(double gap)
{
	double		ms = gap * (0.5 + drand48());
	struct timespec t;

	t.tv_sec = (time_t) (ms / 1000);
	t.tv_nsec = (long) ((ms - 1000 * t.tv_sec) * 1e6);
	nanosleep(&t, NULL);
}

/*
 * One producer, until its jobs are committed.
 */
static void
produce(const char *queue, int first, int jobs, double gap)
{
	PGconn	   *conn = connect_to_server();
	int			i;

	prepare(conn, "enqueue", way->enqueue, queue);
	prepare(conn, "begin", "BEGIN", "");
	prepare(conn, "commit", "COMMIT", "");
	srand48(first);
	for (i = first; i < first + jobs && !stop; i++)
	{
		char		number[16];
		const char *value = number;
		int64_t		sent;
		PGresult   *result;

		rest(gap);
		snprintf(number, sizeof(number), "%d", i);
		PQclear(good(conn, PQexecPrepared(conn, "begin", 0, NULL, NULL, NULL,
										  0)));
		PQclear(good(conn, PQexecPrepared(conn, "enqueue", 1, &value, NULL,
										  NULL, 0)));
		sent = now();
		result = PQexecPrepared(conn, "commit", 0, NULL, NULL, NULL, 0);
		printf("%d %lld %lld\n", i, (long long) sent, (long long) now());
		PQclear(good(conn, result));
	}
	PQfinish(conn);
}

int
main(int argc, char **argv)
{
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	action.sa_handler = on_term;
	sigaction(SIGTERM, &action, NULL);
	if (argc == 7 && strcmp(argv[1], "produce") == 0)
	{
		way = find_way(argv[2]);
		produce(argv[3], atoi(argv[4]), atoi(argv[5]), atof(argv[6]));
	}
	else if (argc == 4)
	{
		way = find_way(argv[1]);
		consume(argv[2], atoi(argv[3]));
	}
	else
		die("usage: waiters WAY QUEUE CONNECTIONS | "
			"waiters produce WAY QUEUE FIRST JOBS GAP");
	return 0;
}
