# The launcher and the worker of one database: they start, sleep without
# holding or using anything, come back when killed, follow the setting, and do
# their work without being in anyone's way.

use strict;
use warnings;
use WorkqTest;
use Test::More;
use PostgreSQL::Test::Utils;

my $node = workq_node('main', 'log_min_messages = debug1');

sub worker
{
	return wait_until(
		sub {
			(worker_pids($node, 'workq worker'))[0];
		},
		'a worker');
}

sub worker_other_than
{
	my ($old) = @_;
	return wait_until(
		sub {
			my $pid = (worker_pids($node, 'workq worker'))[0];
			return defined $pid && $pid != $old && $pid;
		},
		"a worker other than $old");
}

sub context_switches
{
	my ($pid) = @_;
	my $status = slurp_file("/proc/$pid/status");
	return $status =~ /^voluntary_ctxt_switches:\s+(\d+)/m ? $1 : die;
}

# Milliseconds of processor time.
sub cpu
{
	my ($pid) = @_;
	my @stat = split / /, slurp_file("/proc/$pid/stat") =~ s/^.*\) //r;
	return 10 * ($stat[11] + $stat[12]);
}

my $pid = worker();
my ($launcher) = worker_pids($node, 'workq launcher');
ok($launcher, 'there is a launcher');

# Idle: no transaction, no snapshot, no turns (D7).
wait_for($node, qq{SELECT state = 'idle' FROM pg_stat_activity WHERE pid = $pid});
is( $node->safe_psql(
		'postgres', qq{SELECT backend_xmin IS NULL, backend_xid IS NULL,
			xact_start IS NULL, application_name, datname
		FROM pg_stat_activity WHERE pid = $pid}),
	't|t|t|workq worker|postgres',
	'an idle worker holds nothing');
is( $node->safe_psql(
		'postgres', qq{SELECT backend_xmin IS NULL, backend_xid IS NULL, datid IS NULL
		FROM pg_stat_activity WHERE pid = $launcher}),
	't|t|t',
	'an idle launcher holds nothing');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_locks WHERE pid IN ($pid, $launcher)"),
	'0', 'and neither locks anything');
my ($before, $before_launcher) =
  (context_switches($pid), context_switches($launcher));
my $cpu = cpu($pid) + cpu($launcher);
sleep 3;    # not to order events: to see that nothing happens
cmp_ok(cpu($pid) + cpu($launcher) - $cpu, '<=', 20, 'neither uses the processor');
cmp_ok(context_switches($pid) - $before, '<=', 2, 'an idle worker sleeps');
cmp_ok(context_switches($launcher) - $before_launcher,
	'<=', 2, 'an idle launcher sleeps');

# It does its work: what is due becomes ready, what expired too.
$node->safe_psql('postgres',
	q{SELECT workq_enqueue('q', '{}', delay => '300 ms')});
is($node->safe_psql('postgres', 'SELECT count(*) FROM workq.scheduled'),
	'1', 'a delayed job is scheduled');
wait_for($node, 'SELECT count(*) = 1 FROM workq.ready');
pass('the worker made a due job ready');
my $claims = $node->safe_psql('postgres',
	q{SELECT count(*) FROM workq_claim('q', 'w', '300 ms')});
is($claims, '1', 'claimed');
wait_for($node,
	'SELECT (SELECT count(*) = 1 FROM workq.ready) AND NOT EXISTS (SELECT FROM workq.leases)');
pass('the worker took back an expired lease');

# Statistics arrive, or autovacuum would never come (D8).
wait_for($node,
	q{SELECT n_tup_del >= 1 FROM pg_stat_user_tables WHERE schemaname = 'workq' AND relname = 'leases'});
pass('what the worker does is counted');

# A locked table: the worker waits its turn and lives.
$pid = worker();
my $s = session($node);
$s->query_safe('BEGIN');
$s->query_safe('LOCK TABLE workq.ready IN ACCESS EXCLUSIVE MODE');
my $log = -s $node->logfile;
$s->query_safe(q{SELECT workq_enqueue('other', '{}', delay => '200 ms')});
$s->query_safe('COMMIT');
wait_for($node,
	q{SELECT count(*) = 1 FROM workq.ready r JOIN workq.queues q USING (queue_id) WHERE q.name = 'other'});
is(worker(), $pid, 'a worker that found a table locked is the same');
$s->quit;

# Locked for longer than it waits, with work to do.
$node->safe_psql('postgres',
	q{SELECT workq_enqueue('later', '{}', delay => '1 s')});
$s = session($node);
$s->query_safe('BEGIN');
$s->query_safe('LOCK TABLE workq.ready IN SHARE MODE');
$node->wait_for_log(qr/workq worker gave up for now/, $log);
$s->query_safe('COMMIT');
wait_for($node,
	q{SELECT count(*) = 1 FROM workq.ready r JOIN workq.queues q USING (queue_id) WHERE q.name = 'later'});
is(worker(), $pid, 'nor did it die of a lock timeout');
$s->quit;

# A lease that ran out while somebody has its row locked cannot be taken back:
# the worker does not spin until it can.
$node->safe_psql('postgres',
	q{SELECT workq_enqueue('busy', '{}'); SELECT count(*) FROM workq_claim('busy', 'w', '500 ms')});
$s = session($node);
$s->query_safe('BEGIN');
$s->query_safe('SELECT FROM workq.leases FOR UPDATE');
wait_for($node,
	q{SELECT count(*) = 1 FROM workq.leases WHERE deadline < clock_timestamp()});
$before = cpu($pid);
sleep 2;    # to see that little happens
cmp_ok(cpu($pid) - $before,
	'<=', 200, 'an expired lease that is locked does not make the worker spin');
$s->query_safe('COMMIT');
wait_for($node, 'SELECT count(*) = 0 FROM workq.leases');
pass('and is taken back once it can be');
$s->quit;

# Cancelled: it goes on.  Terminated: there is another one (A8).
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
$node->safe_psql('postgres', 'SELECT pg_reload_conf()');
$node->safe_psql('postgres',
	q{SELECT workq_enqueue('cancelled', '{}', delay => '100 ms')});
wait_for($node,
	q{SELECT count(*) = 1 FROM workq.ready r JOIN workq.queues q USING (queue_id) WHERE q.name = 'cancelled'});
is(worker(), $pid, 'a cancelled worker goes on');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
my $second = worker_other_than($pid);
pass('a terminated worker is replaced');

# A new launcher adopts the worker, and replaces it when it ends.
kill_process($launcher, 'TERM');
wait_until(
	sub {
		my ($l) = worker_pids($node, 'workq launcher');
		return defined $l && $l != $launcher;
	},
	'a new launcher');
is(worker(), $second, 'the worker outlives the launcher');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($second)");
my $third = worker_other_than($second);
is(scalar(worker_pids($node, 'workq worker')), 1, 'one worker');

# The setting stops and starts it.
$node->safe_psql('postgres', 'ALTER SYSTEM SET workq.background_worker = off');
$node->reload;
wait_until(sub { !worker_pids($node, 'workq worker') }, 'no worker');
pass('workq.background_worker = off stops the worker');
is($node->safe_psql('postgres', q{SELECT workq_enqueue('q', '{}') > 0}),
	't', 'enqueueing works without');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET workq.background_worker');
$node->reload;
$third = worker();
pass('and on starts it');

# Memory does not grow from turn to turn (D9).
sub memory
{
	my $status = slurp_file("/proc/$third/status");
	return $status =~ /^RssAnon:\s+(\d+)/m ? $1 : die;
}
my $job = q{SELECT workq_enqueue('m', '{}', delay => '1 ms')};
sub turns
{
	my ($n) = @_;
	for (1 .. $n)
	{
		$node->safe_psql('postgres', join ';', ($job) x 20);
		wait_for($node, 'SELECT count(*) = 0 FROM workq.scheduled');
	}
}
turns(20);
my $memory = memory();
turns(60);
cmp_ok(memory() - $memory, '<', 600, 'the worker does not grow');

unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/,
	'nothing crashed');
done_testing();
