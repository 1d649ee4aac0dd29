# More lanes than records (scenario 22): nothing fails, no job is lost, caps hold,
# memory says what the tables say all the time, and in the end all records are
# free.

use strict;
use warnings;
use WorkqTest;
use Test::More;

my $node = workq_node('main', 'workq.max_lanes = 1000', 'log_statement = none');
my $tenants = 20_000;

sub sql { return $node->safe_psql('postgres', @_); }

sub check_clean
{
	my ($what) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(sql(q{SET lock_timeout = '60 s'; SELECT * FROM workq_check()}), '',
		"$what: memory says what the tables say");
}

sub all_free
{
	my ($what) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	wait_for($node, 'SELECT free_lanes = max_lanes AND overflowing_queues = 0 FROM workq.lane_memory()');
	return pass("$what: all records are free");
}

sub drain
{
	my ($queue, $batch) = @_;

	return sql("CALL drain('$queue', $batch, NULL)");
}

sub warnings
{
	my $log = PostgreSQL::Test::Utils::slurp_file($node->logfile);
	my $n = () = $log =~ /WARNING:.*more lanes than there is memory for/g;
	my $over = () = $log =~ /LOG:.*are in memory again/g;

	return "$n $over";
}

sql(q{CREATE PROCEDURE drain(queue text, batch int, INOUT served bigint) LANGUAGE plpgsql AS $$
DECLARE
	claims uuid[];
BEGIN
	served := 0;
	LOOP
		SELECT array_agg(claim_id) INTO claims FROM workq_claim(queue, 'w', '1 day', max_jobs => batch);
		EXIT WHEN claims IS NULL;
		COMMIT;
		PERFORM workq_ack_batch(claims);
		COMMIT;
		served := served + cardinality(claims);
	END LOOP;
END $$});

# ------------------------------------------------------------------------
# One-job tenants pass through
# ------------------------------------------------------------------------

sql(q{SELECT workq_create_queue(q), workq_configure(q, strategy => 'drr') FROM unnest(ARRAY['many', 'deep', 'caps', 'two']) q});
all_free('nothing there');
sql(qq{SELECT count(*) FROM workq_enqueue_batch('many',
	(SELECT jsonb_agg(jsonb_build_object('payload', i, 'tenant', 'tenant ' || i)) FROM generate_series(1, $tenants) i))});
is(sql('SELECT overflowing_queues, overflows FROM workq.lane_memory()'), '1|1', 'the queue overflows');
is(sql('SELECT free_lanes FROM workq.lane_memory()'), '0', 'no record is free');
is(warnings(), '1 0', 'one warning');
check_clean('overflowing');
is(sql(q{SELECT count(*) FROM workq_claim('many', 'w', '1 day', max_jobs => 100)}), '100', 'a batch');
check_clean('after a batch');
is(sql(q{SELECT count(workq_ack(claim_id)) FROM workq.active_claims}), '100', 'is acked');
is(drain('many', 50), $tenants - 100, 'every job is served');
is(sql('SELECT count(*) FROM workq.ready'), '0', 'nothing is left');
all_free('drained');
is(warnings(), '1 1', 'told once that it is over');
check_clean('drained');

# the same while they come in, and with others that have work all the time
sql(q{SELECT count(*) FROM workq_enqueue_batch('many',
	(SELECT jsonb_agg(jsonb_build_object('payload', i, 'tenant', 'deep ' || i % 10)) FROM generate_series(1, 2000) i))});
my $script = PostgreSQL::Test::Utils::tempdir() . '/flow.sql';
PostgreSQL::Test::Utils::append_to_file($script, q{
\set n random(1, 1000000000)
SELECT workq_enqueue('many', '{}', tenant => 'flow ' || :n);
SELECT workq_enqueue('many', '{}', tenant => 'flow more ' || :n);
SELECT claim_id AS c FROM workq_claim('many', 'w', '1 day') \gset
SELECT workq_ack(':c');
});
$node->command_ok([ 'pgbench', '-n', '-c', '4', '-t', '1000', '-f', $script, 'postgres' ], 'tenants pass through');
check_clean('passing through');
is(sql(q{SELECT count(*) FROM workq.ready}), '6000', 'what is left');
is(drain('many', 100), '6000', 'is served');
all_free('passed through');
check_clean('passed through');

# ------------------------------------------------------------------------
# Deep lanes, rollbacks
# ------------------------------------------------------------------------

sql(qq{SELECT count(*) FROM workq_enqueue_batch('deep',
	(SELECT jsonb_agg(jsonb_build_object('payload', i, 'tenant', (i % 3000)::text)) FROM generate_series(1, 9000) i))});
sql(q{BEGIN; SELECT count(*) FROM workq_claim('deep', 'w', '1 day', max_jobs => 500); ROLLBACK});
check_clean('a rollback');
sql(qq{BEGIN; SELECT count(workq_enqueue('deep', '{}', tenant => 'x' || i)) FROM generate_series(1, 100) i; ROLLBACK});
check_clean('a rolled back enqueue');
my $job = sql(q{SELECT max(job_id) FROM workq.ready});
sql(qq{BEGIN; SELECT workq_cancel($job); ROLLBACK});
check_clean('a rolled back cancel');
is(sql(qq{SELECT workq_cancel($job)}), 'cancelled', 'a cancel');
check_clean('a cancel');
is(drain('deep', 20), '8999', 'every job of deep lanes is served');
all_free('deep');
check_clean('deep');

# two levels need a record for each tenant, too
sql(q{SELECT workq_configure('two', fairness_key => 'tenant-and-binding')});
sql(qq{SELECT count(*) FROM workq_enqueue_batch('two',
	(SELECT jsonb_agg(jsonb_build_object('payload', i, 'tenant', (i % 700)::text, 'binding', i::text)) FROM generate_series(1, 2000) i))});
check_clean('two levels');
is(drain('two', 20), '2000', 'every job of two levels is served');
all_free('two levels');

# ------------------------------------------------------------------------
# A restart: more lanes with leases than records
# ------------------------------------------------------------------------

sql(q{SELECT workq_configure('caps', max_concurrent_per_key => 1)});
sql(qq{SELECT count(*) FROM workq_enqueue_batch('caps',
	(SELECT jsonb_agg(jsonb_build_object('payload', i, 'tenant', (i % 300)::text)) FROM generate_series(1, 900) i))});
is(sql(q{SELECT count(*) FROM workq_claim('caps', 'w', '1 day', max_jobs => 900)}), '300', 'one claim of each');
$node->append_conf('postgresql.conf', 'workq.max_lanes = 100');
$node->restart;
check_clean('restarted with fewer records');
my $over_cap = q{SELECT count(*) FROM (SELECT lane FROM workq.leases GROUP BY lane HAVING count(*) > 1) x};
is(sql(q{SELECT count(*) FROM workq_claim('caps', 'w', '1 day', max_jobs => 900)}), '0', 'all are at their cap');
is(sql($over_cap), '0', 'no key is above its cap');
my $acked = 0;
my $claimed = 300;
for my $turn (1 .. 12)
{
	my $n = sql(q{SELECT count(workq_ack(claim_id)) FROM
		(SELECT claim_id FROM workq.active_claims ORDER BY claim_id LIMIT 100) x});

	$acked += $n;
	$claimed += sql(q{SELECT count(*) FROM workq_claim('caps', 'w', '1 day', max_jobs => 50)});
	$claimed += sql(q{SELECT count(*) FROM workq_claim('caps', 'w', '1 day')});
	is(sql($over_cap), '0', "turn $turn: no key is above its cap") or last;
	check_clean("turn $turn");
}
wait_for($node, q{SELECT count(*) FROM (SELECT workq_ack(claim_id) FROM workq.active_claims) x}, '0');
my $rest = 0;
wait_until(sub {
	$rest += drain('caps', 10);
	return sql('SELECT count(*) FROM workq.ready') eq '0';
}, 'every job is served');
is($claimed + $rest, 900, 'every job is served');
all_free('caps');
check_clean('caps');

done_testing();
