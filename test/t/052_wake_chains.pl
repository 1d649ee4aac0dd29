# Whose wake-up is it?  A wake-up that is handed to a session by workq_wait, or
# that somebody got while others could not see what is on offer, reaches those
# that wait; and what cannot be had is looked at from time to time, not tossed
# about.

use strict;
use warnings;
use WorkqTest;
use Test::More;
use Time::HiRes qw(time);

# without the worker and autovacuum nothing but what is tested wakes anybody
my $node = workq_node('main', 'log_min_messages = warning', 'workq.background_worker = off', 'autovacuum = off');
my @open;
my $started = 0;

sub sql { return $node->safe_psql('postgres', @_); }

# How many backends are asleep in our wait.
sub asleep
{
	my ($n) = @_;
	return wait_for($node,
		q{SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND backend_type = 'client backend'}, $n);
}

# A new session that runs this; those that wait are asleep one after the other.
# Its process id is not asked for there: ten seconds after a query the server
# sets the latch once more, for the statistics.
sub starts
{
	my ($statement, $asleep) = @_;
	my $name = 'starts ' . ++$started;
	local $ENV{PGAPPNAME} = $name;
	my $s = session($node);

	push @open, $s;
	$s->{workq_pid} = sql("SELECT pid FROM pg_stat_activity WHERE application_name = '$name' AND pid <> pg_backend_pid()");
	start_query($s, $statement);
	asleep($asleep) if $asleep;
	return $s;
}

sub claim { my ($q) = @_; return "SELECT fairness_key FROM workq_claim('$q', 'w', wait => '100 s')"; }

# Waits with the procedure until it has claimed one job, then is idle.
sub worker
{
	my ($q) = @_;
	return "DO \$\$DECLARE ready boolean; BEGIN LOOP
		CALL workq_wait(ARRAY['$q'], '100 s', ready);
		EXIT WHEN ready AND EXISTS (SELECT FROM workq_claim('$q', 'w'));
		END LOOP; END\$\$";
}

sub over
{
	foreach my $s (@open)
	{
		sql('SELECT pg_terminate_backend(' . session_pid($s) . ')');
		eval { $s->quit };
	}
	@open = ();
	asleep(0);
	sql(q{SELECT count(workq_drop_queue(name, true)) FROM workq.queues});
	return;
}

# A queue whose key "a" is paused and has jobs, and which is known; one of its
# waiters, the last, will keep the time of a job that is due in two minutes, so
# that no lease that begins (of five minutes) wakes anybody.
sub paused_key
{
	my ($jobs) = @_;

	sql(qq{SELECT workq_create_queue('q'), workq_configure('q', strategy => 'drr'), workq_set_key('q', 'a', 0);
		SELECT count(workq_enqueue('q', '1', tenant => 'a')) FROM generate_series(1, $jobs)});
	is(sql(q{SELECT count(*) FROM workq_claim('q', 'w')}), '0', 'the key is paused');
	return;
}

sub leases
{
	return eval { wait_for($node, 'SELECT count(*) FROM workq.leases', $_[0], undef, 20) };
}

# What a session's query has printed, when it has ended.
sub result
{
	my ($s) = @_;
	my ($out) = eval { end_query($s) };

	return $out // 'it does not end';
}

# One that waits for two queues, is told of a job in one, and takes one of the
# other.
sql(q{SELECT workq_create_queue('a'), workq_create_queue('b')});
my $any = starts(q{CALL workq_wait(ARRAY['a', 'b'], '100 s')}, 1);
my $other = starts(claim('a'), 2);
sql(q{SELECT workq_enqueue('a', '1')});
is(result($any), 't', 'told of a job in a');
sql(q{SELECT workq_enqueue('b', '1')});
is($any->query_safe(q{SELECT queue FROM workq_claim_any(ARRAY['b', 'a'], 'w', queue_order => 'listed')}), 'b', 'it takes one of b');
is(result($other), '_no_tenant', 'the next one gets that of a');
over();

# The same, told and gone.
sql(q{SELECT workq_create_queue('a')});
$any = starts(q{CALL workq_wait(ARRAY['a'], '100 s')}, 1);
$other = starts(claim('a'), 2);
sql(q{SELECT workq_enqueue('a', '1')});
is(result($any), 't', 'told');
$any->quit;
@open = ($other);
is(result($other), '_no_tenant', 'and gone: the next one gets it');
over();

# Nobody counted how many jobs a raised weight makes claimable: each wakes the
# next, also of those that wait with the procedure.
paused_key(4);
starts(worker('q'), $_) foreach 1 .. 5;
sql(q{SELECT workq_enqueue('q', '1', tenant => 'b', delay => '2 min')});
sql(q{SELECT workq_set_key('q', 'a', 1)});
ok(leases(4), 'a raised weight, four jobs: four have them');
over();

# One finds a row locked, waits for something else and gets it; what it passed
# over is looked at by another one.
paused_key(1);
starts(claim('q'), $_) foreach 1 .. 4;
sql(q{SELECT workq_enqueue('q', '1', tenant => 'c', delay => '2 min')});
my $locker = session($node);
$locker->query_safe('BEGIN');
$locker->query_safe(q{SELECT job_id FROM workq.ready FOR UPDATE});
sql(q{SELECT workq_set_key('q', 'a', 1)});
sql(q{SELECT workq_enqueue('q', '1', tenant => 'b')});
leases(1);
sql(q{SELECT workq_enqueue('q', '1', tenant => 'b')});
leases(2);
is(sql(q{SELECT string_agg(lane, ' ') FROM workq.leases}), 'b b', 'a row is locked');
$locker->query_safe('COMMIT');
$locker->quit;
ok(leases(3), 'a row that somebody had locked is claimed');
over();

# While it is locked those that wait look again, but not without end: first
# workers that try to claim, then ones that never do.
for my $mode ('true', 'false')
{
	sql(q{SELECT workq_create_queue('q'), workq_pause('q'); CREATE TABLE IF NOT EXISTS looks (pid int);
		SELECT workq_enqueue('q', '1')});
	$locker = session($node);
	$locker->query_safe('BEGIN');
	$locker->query_safe(q{SELECT job_id FROM workq.ready FOR UPDATE});
	starts("DO \$\$DECLARE ready boolean; BEGIN LOOP
		CALL workq_wait(ARRAY['q'], '100 s', ready);
		EXIT WHEN $mode AND EXISTS (SELECT FROM workq_claim('q', 'w'));
		INSERT INTO looks VALUES (pg_backend_pid()); COMMIT;
		END LOOP; END\$\$", $_) foreach 1 .. 3;
	sql(q{TRUNCATE looks; SELECT workq_resume('q')});
	wait_for($node, 'SELECT count(*) > 2 FROM looks');
	sql('SELECT pg_sleep(2)');

	# 10, 20, 40, ... ms each
	cmp_ok(sql('SELECT count(*) FROM looks'), '<', 60, "a locked row, claiming: $mode: they look from time to time");
	starts(claim('q')) if $mode eq 'false';
	$locker->query_safe('COMMIT');
	$locker->quit;
	ok(leases(1), 'and one gets it');
	over();
}

# The extension goes away, and comes back.
for my $back (0, 1)
{
	my $create = q{CREATE EXTENSION workq; SELECT workq_create_queue('q')};

	sql(q{SELECT workq_create_queue('q')});
	my $job = sql(q{SELECT workq_enqueue('q', '1', delay => '1 hour')});
	my @waiting = (starts(claim('q'), 1), starts(worker('q'), 2), starts("CALL workq_await($job, '100 s')", 3));

	sql('BEGIN; DROP EXTENSION workq; ROLLBACK');
	sql('BEGIN; DROP EXTENSION workq; ' . ($back ? $create : '') . '; COMMIT');
	if ($back)
	{
		asleep(2);
		sql(q{SELECT count(workq_enqueue('q', '1')) FROM generate_series(1, 2) i});
		is(result($waiting[0]), '_no_tenant', 'the extension is replaced: claim waits for the new one');
		is(result($waiting[1]), '', 'workq_wait, too');
		wait_until(sub { end_query($waiting[2]); }, 'workq_await');
	}
	else
	{
		foreach my $s (@waiting)
		{
			like((eval { end_query($s) })[1], qr/extension "workq" does not exist/, 'the extension is dropped');
		}
		sql($create);
	}
	over();
}
done_testing();
