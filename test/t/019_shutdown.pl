# A fast shutdown under load ends at once (pitfall C6), also when commits wait
# for a synchronous standby that is not there.

use strict;
use warnings;
use WorkqTest;
use Test::More;
use PostgreSQL::Test::Utils;
use IPC::Run;

my $node = workq_node('main', { init => { allows_streaming => 1 } });
my $script = $node->basedir . '/load.sql';
append_to_file($script,
	q{SELECT workq_enqueue('q', '{}', delay => '1 ms');
	SELECT count(workq_ack(claim_id)) FROM workq_claim('q', 'w', '1 min', max_jobs => 2);
	SELECT count(*) FROM workq_claim('q', 'dies', '10 ms');
	});

for my $round (1 .. 6)
{
	my $sync = $round > 3;
	if ($round == 4)
	{
		$node->append_conf('postgresql.conf', "synchronous_standby_names = 'nobody'");
		$node->reload;
	}
	my $log = -s $node->logfile;
	my $load = IPC::Run::start(
		[ 'pgbench', '-n', '-c', 4, '-T', 60, '-f', $script, '-h', $node->host, '-p', $node->port, 'postgres' ],
		'<', \undef, '>', \my $out, '2>', \my $err,
		init => sub { $ENV{PGOPTIONS} = '-c synchronous_commit=local' if $sync && $round < 6 });
	my $before = $node->safe_psql('postgres',
		q{SELECT coalesce(sum(n_tup_ins), 0) FROM pg_stat_user_tables WHERE relname = 'scheduled'});
	$round == 6
	  ? wait_for($node, q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep'})
	  : wait_for($node,
		qq{SELECT sum(n_tup_ins) > $before + 50 FROM pg_stat_user_tables WHERE relname = 'scheduled'});
	my $start = time;
	$node->stop('fast');
	cmp_ok(time - $start, '<', 10, "stopped at once, round $round");
	$load->finish;
	$node->start;
	wait_for($node, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'workq worker'});
}

# The worker itself does not wait for the standby.
$node->safe_psql('postgres', q{SET synchronous_commit = local;
	SELECT workq_enqueue('alone', '{}', delay => '10 ms')});
wait_for($node, q{SELECT count(*) = 1 FROM workq.ready JOIN workq.queues USING (queue_id) WHERE name = 'alone'});
pass('housekeeping goes on without the standby');

unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'nothing crashed');
done_testing();
