# Behind a transaction pooler: sessions of many clients share few backends, so
# nothing may depend on a session, and a client that goes away in mid-transaction
# leaves nothing behind.

use strict;
use warnings;
use WorkqTest;
use WorkqHistory;
use Test::More;
use PostgreSQL::Test::Utils;

my $node = workq_node('main', 'fsync = off');
my $pool = pgbouncer($node, 'transaction', default_pool_size => 3);

sub sql { return $node->safe_psql('postgres', @_); }
sub pooled { return $node->safe_psql('postgres', $_[0], connstr => $pool->connstr('postgres')); }

sql(q{SELECT workq_create_queue('q')});

# a life, each step on whatever backend there is
for my $n (1 .. 20)
{
	my $job = pooled(qq{SELECT workq_enqueue('q', '$n')});
	my $claim = pooled(q{SELECT claim_id FROM workq_claim('q', 'w', '10 min')});
	pooled(qq{SELECT workq_renew('$claim', '20 min')});
	pooled(qq{BEGIN; SELECT workq_ack('$claim'); ROLLBACK});
	is(pooled(qq{SELECT workq_ack('$claim', '"ok"'), workq_ack('$claim')}), 't|f', "life $n") if $n % 5 == 0 || pooled(qq{SELECT workq_ack('$claim')}) ne 't';
}

# clients that are more than backends, with prepared statements off, and some that vanish
my $dir = PostgreSQL::Test::Utils::tempdir();
append_to_file("$dir/life", q{
\set r random(1, 100)
SELECT workq_enqueue('q', '{"n": :r}', delay => CASE WHEN :r < 10 THEN interval '10 ms' END);
BEGIN;
SELECT coalesce(min(claim_id::text), '') AS claim, count(*) AS n FROM workq_claim('q', 'w', '2 s') \gset
\if :r <= 10
ROLLBACK;
\else
COMMIT;
\if :n > 0 and :r <= 95
BEGIN;
SAVEPOINT s;
SELECT workq_release(':claim', on_lost => 'report');
ROLLBACK TO s;
SELECT workq_ack(':claim', on_lost => 'report');
COMMIT;
\endif
\endif
});
my ($in, $out, $err) = ('', '', '');
my $bench = IPC::Run::start(
	[ 'pgbench', '-n', '-c', 20, '-j', 1, '-T', 4, '-M', 'simple', '-f', "$dir/life", '-h', $pool->host, '-p', $pool->port, 'postgres' ],
	'<', \$in, '>', \$out, '2>', \$err);
my $vanished = 0;
while ($bench->pumpable)
{
	my $s = session($node, 'postgres', connstr => $pool->connstr('postgres'));
	eval {
		$s->query(q{BEGIN; SELECT workq_enqueue('q', '"vanished"'); SELECT count(*) FROM workq_claim('q', 'vanished', max_jobs => 3)});
		kill 'KILL', $s->{run}->{KIDS}[0]{PID};
		$vanished++;
	};
	eval { $s->{run}->kill_kill };
	$bench->pump_nb;
}
$bench->finish;
is($err =~ /ERROR|expected one row/ ? $err : '', '', 'no client saw an error');
like($out, qr/number of transactions actually processed: [1-9]\d\d/, 'hundreds of lives');
cmp_ok($vanished, '>', 2, "clients vanished in mid-transaction ($vanished)");
wait_for($node, q{SELECT count(*) = 0 FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'});
is(sql(q{SELECT count(*) FROM workq.jobs WHERE payload = '"vanished"'}), '0', 'what they did is undone');
is(sql(q{SELECT count(*) FROM workq.leases WHERE worker = 'vanished'}), '0', 'and what they claimed');
history_ok($node, 'after the clients');
drain($node, 'q');
all_done_ok($node, 'at the end', 'q');
history_ok($node, 'at the end');

$pool->stop;

done_testing();
