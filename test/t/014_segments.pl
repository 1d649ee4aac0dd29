# Segments of the event log: made in time, by the background worker or by a
# process that an enqueuer starts, never in a user's transaction, and complete
# whatever many enqueuers do at once.

use strict;
use warnings;
use WorkqTest;
use Test::More;
use PostgreSQL::Test::Utils;

my $node = workq_node('main', 'workq.segment_size = 10');

sub sql { return $node->safe_psql('postgres', @_); }

# Everything that must hold for the log as it is.
sub check_log
{
	my ($what, $jobs) = @_;
	is(sql('SELECT count(*), count(DISTINCT job_id) FROM workq.jobs'),
		"$jobs|$jobs", "$what: every job is there once");
	is( sql(q{SELECT count(*) FROM (SELECT from_job_id,
				lag(to_job_id, 1, 1::bigint) OVER (ORDER BY segment) AS expected
			FROM workq.segments) s WHERE from_job_id <> expected}),
		'0',
		"$what: segments follow each other");
	is( sql(q{SELECT count(*) FROM workq.segments g, unnest(ARRAY['jobs', 'claims', 'responses']) t
			WHERE NOT EXISTS (SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
				JOIN pg_index x ON x.indrelid = c.oid AND x.indisvalid
				WHERE i.inhparent = ('workq.' || t)::regclass
					AND c.relname = t || '_' || g.segment
					AND pg_get_expr(c.relpartbound, c.oid) = format('FOR VALUES FROM (%L) TO (%L)',
						from_job_id, to_job_id))}),
		'0',
		"$what: each has its three tables, attached and with an index");
	is( sql(q{SELECT count(*) - 3 * (SELECT count(*) FROM workq.segments)
			FROM pg_inherits WHERE inhparent IN ('workq.jobs'::regclass,
				'workq.claims'::regclass, 'workq.responses'::regclass)}),
		'0',
		"$what: and there are no others");
	cmp_ok(
		sql(q{SELECT count(*) FROM workq.segments
			WHERE from_job_id > (SELECT max(job_id) FROM workq.jobs)}),
		'>=', 2, "$what: two are ahead");
	return;
}

sub enqueue_with
{
	my ($clients, $each, $what) = @_;
	$node->pgbench(
		"-n -c $clients -j 2 -t $each", 0,
		[qr{processed: (\d+)/\1}],
		[qr/^$/], $what,
		{
			"014_$each" =>
			  q{SELECT workq_enqueue('q' || :client_id, '{}', delay => '1 day');}
		});
	return;
}

# None before the first queue.
wait_for($node,
	q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'workq worker' AND state = 'idle'});
$node->reload;
is(sql('SELECT count(*) FROM workq.segments'), '0', 'no segments before the first queue');

# Many enqueuers, tiny segments, with the worker and without.
enqueue_with(8, 150, 'eight enqueuers, with a background worker');
check_log('with a worker', 1200);
sql('ALTER SYSTEM SET workq.background_worker = off');
$node->reload;
wait_until(sub { !worker_pids($node, 'workq worker') }, 'no worker');
enqueue_with(8, 250, 'eight enqueuers, without one');
check_log('without a worker', 3200);
wait_until(sub { !worker_pids($node, 'workq segment%') }, 'makers end');
pass('the process that makes segments ends');
sql('ALTER SYSTEM RESET workq.background_worker');
$node->reload;
wait_for($node,
	q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'workq worker'});

# A batch larger than a block and many segments; in a transaction that is
# rolled back: the segments stay, they were never a part of it.  From here on
# larger segments do.
sql('ALTER SYSTEM SET workq.segment_size = 300');
$node->reload;
my $before = sql('SELECT count(*) FROM workq.segments');
sql(q{BEGIN; SELECT count(*) FROM workq_enqueue_batch('batch',
	(SELECT jsonb_agg(jsonb_build_object('payload', '{}'::jsonb)) FROM generate_series(1, 2500)));
	ROLLBACK});
cmp_ok(sql('SELECT count(*) FROM workq.segments'),
	'>', $before + 3, 'segments outlive a rollback');
sql(q{SELECT count(*) FROM workq_enqueue_batch('batch',
	(SELECT jsonb_agg(jsonb_build_object('payload', '{}'::jsonb)) FROM generate_series(1, 2500)))});
check_log('after batches', 5700);

# A verb in an open transaction holds no lock on the parents, at any isolation
# level, and does not keep others from going on into new segments.
for my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	my $s = session($node);
	$s->query_safe("BEGIN ISOLATION LEVEL $level");
	$s->query_safe(q{SELECT workq_enqueue('open', '{}')});
	is( sql(q{SELECT count(*) FROM pg_locks WHERE relation IN ('workq.jobs'::regclass,
			'workq.claims'::regclass, 'workq.responses'::regclass) AND pid = } . session_pid($s)),
		'0',
		"$level: the parents are not locked");
	sql(q{SELECT count(*) FROM workq_enqueue_batch('batch',
		(SELECT jsonb_agg(jsonb_build_object('payload', '{}'::jsonb)) FROM generate_series(1, 1500)))});
	like($s->query_safe(q{SELECT workq_enqueue('open', '{}')}),
		qr/^\d+$/, "$level: sees segments younger than its snapshot");
	$s->query_safe('COMMIT');
	$s->quit;
}
check_log('after open transactions', 5700 + 3 * 1502);

# Waiting for a segment can be interrupted, and ends when it can be made.
my $locker = session($node);
$locker->query_safe('BEGIN');
$locker->query_safe('LOCK TABLE workq.segments IN SHARE ROW EXCLUSIVE MODE');
my $e = session($node);
my $big = q{SELECT count(*) FROM workq_enqueue_batch('batch',
		(SELECT jsonb_agg(jsonb_build_object('payload', '{}'::jsonb)) FROM generate_series(1, 2500)))};
start_query($e, $big);
wait_until_waiting($node, $e);
sql('SELECT pg_cancel_backend(' . session_pid($e) . ')');
my ($out, $err) = end_query($e);
like($err, qr/canceling statement due to user request/, 'the wait can be cancelled');
start_query($e, $big);
wait_until_waiting($node, $e);
$locker->query_safe('COMMIT');
($out, $err) = end_query($e);
is($out, '2500', 'and ends when the way is free');
is($err, '', 'without an error');
$locker->quit;

# The maker is killed: somebody else makes it.
$locker = session($node);
$locker->query_safe('BEGIN');
$locker->query_safe('LOCK TABLE workq.segments IN SHARE ROW EXCLUSIVE MODE');
start_query($e, $big);
wait_until_waiting($node, $e);
sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity
	WHERE backend_type IN ('workq worker', 'workq segment maker')});
$locker->query_safe('COMMIT');
($out, $err) = end_query($e);
is($out, '2500', 'a maker that is killed is replaced');
$locker->quit;

# Tables and catalog disagree, as while a dump is being restored: hands off.
my $last = sql('SELECT max(segment) FROM workq.segments');
sql("ALTER TABLE workq.jobs DETACH PARTITION workq.jobs_$last");
(undef, $err) = do { start_query($e, $big); end_query($e) };
like($err, qr/could not make a segment.*partitions, but workq\.segments has/s,
	'an incomplete log is not added to');
sql_fails($node, '53400', $big, 'SQLSTATE 53400');
my $range = sql("SELECT from_job_id || ') TO (' || to_job_id FROM workq.segments WHERE segment = $last");
sql("ALTER TABLE workq.jobs ATTACH PARTITION workq.jobs_$last FOR VALUES FROM ($range)");
is(sql($big), '2500', 'and once it is complete, it is');

# A segment that is dropped is forgotten by those who had it in their cache.
my $job = sql(q{SELECT workq_enqueue('gone', '{}', delay => '1 day')});
like($e->query_safe("SELECT workq_cancel($job)"), qr/cancelled/, 'cached');
my $segment =
  sql("SELECT segment FROM workq.segments WHERE from_job_id <= $job AND to_job_id > $job");
sql("DROP TABLE workq.jobs_$segment, workq.claims_$segment, workq.responses_$segment;
	DELETE FROM workq.segments WHERE segment = $segment");
(undef, $err) = do { start_query($e, "SELECT workq_cancel($job)"); end_query($e) };
like($err, qr/ERROR/, 'a job in a dropped segment is unknown');
unlike($err, qr/could not open relation|cache lookup/, 'and says so properly');
$e->quit;

# The segments belong to the owner of the log, who need not be a superuser.
sql('CREATE DATABASE kept');
$node->safe_psql(
	'kept', q{CREATE EXTENSION workq; CREATE ROLE keeper;
	DO $$ DECLARE r record; BEGIN
		FOR r IN SELECT c.oid::regclass, relkind FROM pg_class c
			WHERE relnamespace = 'workq'::regnamespace AND relkind IN ('r', 'p', 'S') LOOP
			EXECUTE format('ALTER %s %s OWNER TO keeper',
				CASE r.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, r.oid);
		END LOOP; END $$;
	ALTER SCHEMA workq OWNER TO keeper});
like($node->safe_psql('kept', q{SELECT workq_enqueue('q', '{}')}), qr/^\d+$/, 'another owner');
is( $node->safe_psql('kept', q{SELECT string_agg(DISTINCT relowner::regrole::text, ' ') FROM pg_class
		WHERE oid IN (SELECT ('workq.' || t || '_' || segment)::regclass
			FROM workq.segments, unnest(ARRAY['jobs', 'claims', 'responses']) t)}),
	'keeper',
	'segments belong to the owner of the log');

# New segments have what an administrator has added to the log.
$node->safe_psql('kept', q{ALTER TABLE workq.jobs ADD COLUMN twice bigint GENERATED ALWAYS AS (job_id * 2) STORED,
	ADD COLUMN region text NOT NULL DEFAULT 'eu', ADD COLUMN gone text DEFAULT 'gone', ADD CHECK (job_id > 0)});
$node->safe_psql('kept', q{ALTER TABLE workq.jobs DROP COLUMN gone});
$node->safe_psql('kept', q{SELECT workq_enqueue('q', '{}')}) for 1 .. 40;
is($node->safe_psql('kept', q{SELECT count(*) - count(*) FILTER (WHERE twice = job_id * 2 AND region = 'eu') FROM workq.jobs}),
	'0', 'added columns in new segments');

my $log = slurp_file($node->logfile);
unlike($log, qr/PANIC|TRAP|terminated by signal/, 'nothing crashed');
done_testing();
