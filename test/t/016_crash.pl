# Processes that are killed, and a server that is: everything that was committed
# is there, and everything that should run does (pitfall A8).

use strict;
use warnings;
use WorkqTest;
use Test::More;
use PostgreSQL::Test::Utils;

my $node = workq_node('main', 'restart_after_crash = on');

sub sql { return $node->safe_psql('postgres', @_); }

sub pid
{
	my ($type) = @_;
	wait_for($node,
		qq{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = '$type'});
	return sql(qq{SELECT pid FROM pg_stat_activity WHERE backend_type = '$type'});
}

# The server restarts all processes after a crash of one; shared memory is
# empty then.
sub crash
{
	my ($what, $victim) = @_;
	my $launcher = pid('workq launcher');
	my $worker = pid('workq worker');
	my $pid = $victim ? pid($victim) : undef;
	my $s = session($node);

	$s->query_safe('BEGIN');
	$s->query_safe(q{SELECT workq_enqueue('lost', '{}')});
	$s->query_safe(q{SELECT count(*) FROM workq_claim('q', 'lost')});
	kill_process($pid // session_pid($s), 'KILL');
	wait_for($node,
		qq{SELECT count(*) = 2 FROM pg_stat_activity
			WHERE backend_type IN ('workq launcher', 'workq worker') AND pid NOT IN ($launcher, $worker)});
	eval { $s->quit };
	is( sql(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'workq%'}),
		'2',
		"$what: one launcher and one worker");
	return;
}

sub state
{
	return sql(q{SELECT (SELECT count(*) FROM workq.ready), (SELECT count(*) FROM workq.leases),
		(SELECT count(*) FROM workq.scheduled), (SELECT count(*) FROM workq.jobs)});
}

sql(q{SELECT workq_enqueue('q', jsonb_build_object('n', i), delay => CASE WHEN i > 8 THEN interval '1 day' END)
	FROM generate_series(1, 10) i;
	SELECT count(*) FROM workq_claim('q', 'w', '1 day', max_jobs => 3)});
is(state(), '5|3|2|10', 'before');
for my $victim ('workq worker', 'workq launcher', undef)
{
	my $what = ($victim // 'a backend') . ' killed';
	crash($what, $victim);
	is(state(), '5|3|2|10', "$what: nothing is lost or added");
	sql(q{SELECT workq_enqueue('due', '{}', delay => '50 ms')});
	wait_for($node, q{SELECT count(*) = 1 FROM workq.ready JOIN workq.queues USING (queue_id) WHERE name = 'due'});
	is(sql(q{SELECT workq_ack(claim_id) FROM workq_claim('due', 'w')}), 't', "$what: it works");
	sql(q{DELETE FROM workq.jobs j USING workq.queues q WHERE q.queue_id = j.queue_id AND q.name = 'due'});
}

# A lease that runs out while the server is down is taken back after its start;
# a job that becomes due then is ready.
sql(q{SELECT workq_enqueue('down', '{"a": 1}'); SELECT count(*) FROM workq_claim('down', 'w', '1500 ms');
	SELECT workq_enqueue('down', '{"b": 1}', delay => '1500 ms')});
$node->stop('immediate');
$node->start;
wait_for($node, q{SELECT count(*) = 2 FROM workq.ready JOIN workq.queues USING (queue_id) WHERE name = 'down'});
pass('what ran out or became due around a crash is ready');
is( sql(q{SELECT count(*) FROM workq_claim('q', 'w', max_jobs => 100)}),
	'5',
	'and claimable is what was ready');

# Crash in the middle of making segments: the log is whole.
sql('ALTER SYSTEM SET workq.segment_size = 10');
$node->reload;
for my $i (1 .. 3)
{
	my $s = session($node);
	my $before = sql('SELECT count(*) FROM workq.segments');

	sql(q{SELECT count(nextval('workq.job_ids')) FROM generate_series(1, 2000)}) if $i == 1;
	start_query($s, q{SELECT workq_enqueue('q', '{}')});
	wait_until(
		sub {
			$s->{run}->pump_nb();
			return sql('SELECT count(*) FROM workq.segments') > $before || $s->{stdout} =~ /end/;
		},
		'some segments');
	$node->stop('immediate');
	$node->start;
	eval { $s->quit };
	is( sql(q{SELECT count(*) FROM workq.segments g, unnest(ARRAY['jobs', 'claims', 'responses']) t
			WHERE to_regclass(format('workq.%s_%s', t, segment)) IS NULL}),
		'0',
		"killed while segments are made, $i: rows have tables");
	is( sql(q{SELECT count(*) - (SELECT count(*) FROM workq.segments)
			FROM pg_inherits WHERE inhparent = 'workq.jobs'::regclass}),
		'0',
		'and tables have rows');
}
done_testing();
