# Too few background worker slots (pitfall A6): one warning that says what to
# do, another try later, an error for who needs a segment.

use strict;
use warnings;
use WorkqTest;
use Test::More;
use PostgreSQL::Test::Utils;

# The server's own logical replication launcher takes no part in this.
my $node = workq_node('main', 'max_worker_processes = 2',
	'max_logical_replication_workers = 0');

sub workers
{
	return $node->safe_psql('postgres',
		q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'workq worker'});
}

sub warnings
{
	my $n = () = slurp_file($node->logfile) =~
	  /WARNING:  workq could not start a background worker/g;
	return $n;
}

# Room for the launcher and one worker.
wait_for($node, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'workq worker'});
like($node->safe_psql('postgres', q{SELECT workq_enqueue('q', '{}')}),
	qr/^\d+$/, 'the worker makes segments');
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', 'CREATE EXTENSION workq');
$node->wait_for_log(qr/WARNING:  workq could not start a background worker.*HINT:  Increase max_worker_processes/s);
pass('a warning with a hint');
my $start = time;
sql_fails($node, '53400', q{SELECT workq_enqueue('q', '{}')},
	'no slot to make a segment', 'other');
cmp_ok(time - $start, '<', 15, 'after a moment');
my (undef, undef, $err) = $node->psql('other', q{SELECT workq_enqueue('q', '{}')});
like($err, qr/DETAIL:  No worker slot is free\.\s+HINT:  Increase max_worker_processes/,
	'which says what to do');
is(warnings(), 1, 'one warning only');
is(workers(), '1', 'the other database has its worker');

# When the slot becomes free, the other database gets it without any event.
$node->safe_psql('postgres', 'DROP EXTENSION workq');
wait_for($node,
	q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'workq worker' AND datname = 'other'});
pass('a slot that becomes free is used');
like($node->safe_psql('other', q{SELECT workq_enqueue('q', '{}')}), qr/^\d+$/, 'enqueueing works');

# More slots after a restart.
$node->safe_psql('postgres', 'CREATE EXTENSION workq');
$node->adjust_conf('postgresql.conf', 'max_worker_processes', '8');
$node->restart;
wait_for($node, q{SELECT count(*) = 2 FROM pg_stat_activity WHERE backend_type = 'workq worker'});
pass('with more slots both have one');

# No slot at all, not even for the launcher: the queue works, as long as it has
# segments; claims take back expired leases themselves.
$node->safe_psql('postgres', q{SELECT workq_enqueue('q', '{}')});
$node->adjust_conf('postgresql.conf', 'max_worker_processes', '0');
$node->restart;
is(scalar(worker_pids($node)), 0, 'nothing runs');
like($node->safe_psql('postgres', q{SELECT workq_enqueue('q', '{}')}),
	qr/^\d+$/, 'enqueueing works without any slot');
$node->safe_psql('postgres', q{SELECT count(*) FROM workq_claim('q', 'w', '100 ms', max_jobs => 10)});
wait_for($node, q{SELECT count(*) = 1 FROM workq_claim('q', 'w2', '1 min')});
pass('an expired lease is taken back by a claim');

unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'nothing crashed');
done_testing();
