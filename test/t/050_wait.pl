# Waiting (scenarios 15, 29, 32): whatever makes a job claimable wakes one that
# waits, who sleeps without holding anything, and nothing that happens to a
# waiter loses a wake-up.

use strict;
use warnings;
use WorkqTest;
use Test::More;
use PostgreSQL::Test::Utils;
use IPC::Run;
use Time::HiRes qw(time);

# restart_after_crash: the framework's default is off
my $node = workq_node('main', 'max_connections = 260', 'restart_after_crash = on', 'log_min_messages = warning');

sub sql { return $node->safe_psql('postgres', @_); }

sub claim { my ($q, $more) = @_; return "SELECT payload, attempt FROM workq_claim('$q', 'w'" . ($more // '') . ", wait => '100 s')"; }

# How many backends are asleep in our wait.
sub asleep
{
	my ($n) = @_;
	return wait_for($node,
		q{SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND backend_type = 'client backend'}, $n);
}

my @s = map { session($node) } 1 .. 3;
session_pid($_) foreach @s;

# Let the first session wait, run the SQL, and see what it gets and that it
# did not take long.
sub wakes
{
	my ($name, $statement, $sql, $expected) = @_;

	start_query($s[0], $statement);
	asleep(1);
	my $pid = session_pid($s[0]);
	is(sql(qq{SELECT count(*) FROM pg_locks WHERE pid = $pid AND locktype = 'relation'}), '0', "$name: it sleeps without locks");
	sql($sql);
	my $began = time();
	my ($out, $err) = end_query($s[0]);
	is($out, $expected, $name) or diag($err);
	cmp_ok(time() - $began, '<', 20, "$name: soon");
	return;
}

sql(q{SELECT workq_create_queue('q')});
for my $worker ('on', 'off')
{
	sql("ALTER SYSTEM SET workq.background_worker = $worker");
	$node->reload;
	wait_for($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'workq worker'", $worker eq 'on' ? 1 : 0);
	wakes("a commit, worker $worker", claim('q', ", '1 h'"), q{SELECT workq_enqueue('q', '1')}, '1|1');
	wakes("a due time, worker $worker", claim('q', ", '1 h'"), q{SELECT workq_enqueue('q', '2', delay => '300 ms')}, '2|1');
	wakes("a release, worker $worker", claim('q', ", '1 h'"), q{SELECT workq_release(claim_id) FROM workq.active_claims ORDER BY job_id LIMIT 1}, '1|2');
	sql(q{SELECT count(workq_ack(claim_id)) FROM workq.active_claims; SELECT workq_purge('q', true)});
	wakes("the end of a lease, worker $worker", claim('q', ", '1 h'"), q{BEGIN; SELECT workq_enqueue('q', '1');
		SELECT count(*) FROM workq_claim('q', 'dead', '300 ms'); COMMIT}, '1|2');
	sql(q{SELECT workq_purge('q', true); SELECT count(workq_ack(claim_id)) FROM workq.active_claims});
	wait_for($node, q{SELECT count(*) FROM workq.leases}, 0);
	sql(q{SELECT workq_purge('q', true)});
	wakes("a paused queue's resumption, worker $worker", claim('q'), q{SELECT workq_pause('q'); SELECT workq_enqueue('q', '3'); SELECT workq_resume('q')}, '3|1');
	sql(q{SELECT workq_ack(claim_id) FROM workq.active_claims});
}
sql('ALTER SYSTEM RESET workq.background_worker');
$node->reload;

# Held back by what a key may: weight 0, its cap, the queue's cap.
sql(q{SELECT workq_create_queue('drr'); SELECT workq_configure('drr', strategy => 'drr');
	SELECT workq_set_key('drr', 'a', 0); SELECT workq_enqueue('drr', '1', tenant => 'a')});
wakes('a raised weight', claim('drr'), q{SELECT workq_set_key('drr', 'a', 1)}, '1|1');
sql(q{SELECT workq_configure('drr', weights => 'b:0'); SELECT workq_enqueue('drr', '2', tenant => 'b')});
wakes('a raised weight in the list', claim('drr'), q{SELECT workq_configure('drr', weights => 'b:2')}, '2|1');
sql(q{SELECT workq_set_key('drr', 'b', max_concurrent => 1); SELECT workq_enqueue('drr', '3', tenant => 'b')});
wakes('a raised cap', claim('drr'), q{SELECT workq_set_key('drr', 'b', max_concurrent => 2)}, '3|1');
sql(q{SELECT workq_enqueue('drr', '4', tenant => 'b')});
wakes('a freed place', claim('drr'), q{SELECT workq_ack(claim_id) FROM workq.active_claims WHERE lane = 'b' LIMIT 1}, '4|1');
sql(q{SELECT count(workq_ack(claim_id)) FROM workq.active_claims});

# A claim that is rolled back, by ROLLBACK and by a session that dies.
for my $how ('ROLLBACK', 'terminate', 'savepoint')
{
	sql(q{SELECT workq_enqueue('q', '5')});
	$s[1] = session($node) if $how eq 'terminate';
	$s[1]->query_safe('BEGIN; SAVEPOINT s');
	is($s[1]->query_safe(claim('q')), '5|1', "$how: somebody has it");
	my $pid = session_pid($s[1]);
	start_query($s[0], claim('q'));
	asleep(1);
	if ($how eq 'terminate') { sql("SELECT pg_terminate_backend($pid)"); }
	else { $s[1]->query_safe($how eq 'ROLLBACK' ? 'ROLLBACK' : 'ROLLBACK TO s'); }
	is((end_query($s[0]))[0], '5|1', "$how: the claim that was rolled back wakes");
	$s[1]->query_safe('ROLLBACK') if $how eq 'savepoint';
	if ($how eq 'terminate') { eval { $s[1]->quit }; $s[1] = session($node); session_pid($s[1]); }
	sql(q{SELECT count(workq_ack(claim_id)) FROM workq.active_claims});
}
wakes('an open transaction of its own', "BEGIN; SELECT 1; " . claim('q'), q{SELECT workq_enqueue('q', '6')}, "1\n6|1");
$s[0]->query_safe('COMMIT');
sql(q{SELECT count(workq_ack(claim_id)) FROM workq.active_claims});

# The procedure holds no snapshot; in a block it works, too.
start_query($s[0], q{CALL workq_wait(ARRAY['drr', 'q'], '100 s')});
asleep(1);
my $pid = session_pid($s[0]);
is(sql(qq{SELECT backend_xmin IS NULL AND backend_xid IS NULL FROM pg_stat_activity WHERE pid = $pid}), 't', 'workq_wait holds no snapshot');
is(sql(qq{SELECT count(*) FROM pg_locks WHERE pid = $pid AND locktype <> 'virtualxid'}), '0', 'and no lock');
my $job = sql(q{SELECT workq_enqueue('q', '7')});
is((end_query($s[0]))[0], 't', 'workq_wait is woken');
$s[0]->query_safe('BEGIN');
is($s[0]->query_safe(q{CALL workq_wait(ARRAY['q'], '100 s')}), 't', 'workq_wait in a block');
$s[0]->query_safe('ROLLBACK');

# The end of one job.
start_query($s[0], "CALL workq_await($job, '100 s')");
asleep(1);
is(sql(qq{SELECT backend_xmin IS NULL FROM pg_stat_activity WHERE pid = $pid}), 't', 'workq_await holds no snapshot');
sql(q{SELECT workq_ack(claim_id) FROM workq_claim('q', 'w')});
is((end_query($s[0]))[0], 'succeeded', 'workq_await is woken');

# Who is cancelled, terminated or disconnected stops waiting at once ...
start_query($s[0], claim('q'));
asleep(1);
sql("SELECT pg_cancel_backend($pid)");
like((end_query($s[0]))[1], qr/canceling statement due to user request/, 'cancelled');
start_query($s[0], "SET statement_timeout = '100 ms'; " . claim('q'));
like((end_query($s[0]))[1], qr/canceling statement due to statement timeout/, 'timed out');
$s[0]->query_safe('RESET statement_timeout');
for my $statement (claim('q'), q{CALL workq_wait(ARRAY['q'], '100 s')})
{
	my $t = session($node);
	my $tpid = session_pid($t);

	start_query($t, $statement);
	asleep(1);
	sql("SELECT pg_terminate_backend($tpid)");
	wait_for($node, "SELECT count(*) FROM pg_stat_activity WHERE pid = $tpid", 0);
	eval { $t->quit };
	pass('terminated');
	$t = session($node);
	$tpid = session_pid($t);
	start_query($t, $statement);
	asleep(1);
	$t->{run}->kill_kill;
	wait_for($node, "SELECT count(*) FROM pg_stat_activity WHERE pid = $tpid", 0);
	pass('disconnected');
}

# ... and the next one gets what it was woken for: rounds in which one of three
# is cancelled or terminated just when a job comes.
for my $round (1 .. 20)
{
	my $t = session($node);
	my $tpid = session_pid($t);

	start_query($t, claim('q'));
	asleep(1);
	start_query($s[1], claim('q'));
	asleep(2);
	my $do = $round % 2 ? 'pg_cancel_backend' : 'pg_terminate_backend';
	sql("BEGIN; SELECT workq_enqueue('q', '$round'); SELECT $do($tpid) FROM (SELECT pg_sleep(0.0001 * $round)) x; COMMIT")
	  if $round <= 10;
	sql("SELECT workq_enqueue('q', '$round'); SELECT $do($tpid)") if $round > 10;
	wait_until(
		sub { $_->{run}->pump_nb() foreach $t, $s[1]; return $t->{stdout} =~ /\|1/ || $s[1]->{stdout} =~ /\|1/; },
		'one of two has it', 30);
	if ($s[1]->{stdout} !~ /\|1/) { sql(q{SELECT workq_enqueue('q', '0')}); }
	end_query($s[1]);
	eval { $t->quit };
	sql(q{SELECT count(workq_ack(claim_id)) FROM workq.active_claims; SELECT workq_purge('q', true)});
}
pass('a wake-up is passed on');

# How often those that are asleep have gone to sleep.
sub switches
{
	my $n = 0;
	foreach my $p (split /\n/, sql(q{SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND backend_type = 'client backend'}))
	{
		open my $f, '<', "/proc/$p/status" or next;
		/^voluntary_ctxt_switches:\s+(\d+)/ and $n += $1 foreach <$f>;
	}
	return $n;
}

# Jobs that nobody may have wake nobody: the queue is paused, the key is at its
# cap.  When that ends all waiters get theirs.
sql(q{SELECT workq_set_key('drr', 'c', max_concurrent => 1); SELECT workq_enqueue('drr', '0', tenant => 'c')});
is(sql(q{SELECT count(*) FROM workq_claim('drr', 'w', '1 h')}), '1', 'a key at its cap');
sql(q{SELECT workq_pause('q')});
for my $q ('q', 'drr')
{
	start_query($_, claim($q)) foreach @s;
	asleep(3);
	my $before = switches();
	for (1 .. 5)
	{
		sql("SELECT workq_enqueue('$q', to_jsonb(i), tenant => 'c') FROM generate_series(1, 3) i");
		asleep(3);
	}
	cmp_ok(switches() - $before, '<', 5, "$q: nobody is woken in vain");
	sql($q eq 'q' ? q{SELECT workq_resume('q')} : q{SELECT workq_set_key('drr', 'c', max_concurrent => 4)});
	is(join(' ', sort map { (end_query($_))[0] } @s), '1|1 2|1 3|1', "$q: and then all are");
	sql(q{SELECT count(workq_ack(claim_id)) FROM workq.active_claims WHERE queue = 'q'; SELECT workq_purge('q', true)});
}
sql(q{SELECT workq_purge('drr', true); SELECT count(workq_ack(claim_id)) FROM workq.active_claims; SELECT workq_purge('drr', true)});

# 200 waiters.
my $dir = PostgreSQL::Test::Utils::tempdir;
PostgreSQL::Test::Utils::append_to_file("$dir/wait.sql",
	"SELECT count(*) AS got FROM workq_claim('q', 'w', wait => '200 s');\n");
my ($in, $out) = ('', '');
my $run = IPC::Run::start([ 'pgbench', '-n', '-c', '200', '-j', '1', '-t', '1', '-f', "$dir/wait.sql", $node->connstr('postgres') ],
	\$in, \$out, \$out);
asleep(200);
sub waits { return sql(q{SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND backend_type = 'client backend'}); }
my $before = switches();
sql('SELECT pg_sleep(1)');
is(switches(), $before, 'none of 200 waiters moves when nothing happens');
my @first = split /\n/, sql(q{SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND backend_type = 'client backend' ORDER BY query_start LIMIT 1});
sql(q{SELECT workq_enqueue('q', '8')});
asleep(199);
is(sql('SELECT count(*) FROM workq.leases'), '1', 'one job, 200 waiters: one has it');
sql('SELECT pg_sleep(0.2)');
is(waits(), '199', 'the others wait');
cmp_ok(switches() - $before, '<=', 10, 'and were not woken');
sql(q{SELECT count(workq_enqueue('q', to_jsonb(i))) FROM generate_series(1, 50) i});
wait_for($node, 'SELECT count(*) FROM workq.leases', 51);
asleep(149);
is(sql('SELECT count(*) FROM workq.leases'), '51', '50 jobs in one commit: 50 have them');
sql(q{SELECT count(workq_enqueue('q', to_jsonb(i))) FROM generate_series(1, 149) i});
asleep(0);
$run->finish;
is(sql('SELECT count(*) FROM workq.leases'), '200', 'all have one in the end');
is(sql('SELECT * FROM workq_check()'), '', 'workq_check() finds nothing');
sql(q{SELECT count(workq_ack(claim_id)) FROM workq.active_claims});

# A queue that goes away; a crash.
sql(q{SELECT workq_create_queue('gone')});
start_query($s[0], claim('gone'));
asleep(1);
sql(q{SELECT workq_drop_queue('gone', true)});
like((end_query($s[0]))[1], qr/queue "gone" does not exist/, 'dropped');

start_query($s[0], claim('q'));
start_query($s[1], q{CALL workq_wait(ARRAY['q'], '100 s')});
asleep(2);
kill_process(session_pid($s[2]), 'KILL');
eval { $_->quit } foreach @s;
wait_until(sub { return (eval { $node->psql('postgres', 'SELECT 1') } // 1) == 0; }, 'the restart');
@s = (session($node));
session_pid($s[0]);
wakes('after a crash', claim('q'), q{SELECT workq_enqueue('q', '9')}, '9|1');
$s[0]->quit;
done_testing();
