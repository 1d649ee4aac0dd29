# Each event that makes a job claimable wakes one that waits; with the background
# worker, and without it where it is not the worker's doing.

use strict;
use warnings;
use WorkqTest;
use Test::More;

my $node = workq_node('main', 'log_min_messages = error', 'workq.max_lanes = 16', 'autovacuum = off');
my @open;
my $started = 0;

sub sql { return $node->safe_psql('postgres', @_); }

sub asleep
{
	my ($n) = @_;
	return wait_for($node,
		q{SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND backend_type = 'client backend'}, $n);
}

# As in 052_wake_chains: nothing else is to set its latch.
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

sub result
{
	my ($s) = @_;
	my ($out, $err) = eval { end_query($s) };

	return defined $out ? "$out$err" : 'it does not end';
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

my $claim = q{SELECT payload FROM workq_claim_any(ARRAY['other', 'q'], 'w', wait => '100 s')};
my $cap = q{SELECT workq_configure('q', max_concurrent_per_key => 1);
	SELECT count(workq_enqueue('q', to_jsonb(i), tenant => 'a', max_attempts => 1)) FROM generate_series(1, 2) i;
	SELECT count(*) FROM workq_claim('q', 'w', '1 h')};
my $held = q{SELECT workq_enqueue('q', '1'); SELECT %s FROM workq_claim('q', 'w')};
my $of_a = q{FROM workq.active_claims WHERE lane LIKE 'a%%' LIMIT 1};

# name, what is there, what happens, the job that is claimed then, is it the
# worker's doing
my @events = (
	[ 'unpark', sprintf($held, 'workq_park(claim_id)'), q{SELECT workq_unpark(max(job_id)) FROM workq.held}, '1' ],
	[ 'requeue', q{SELECT workq_enqueue('q', '1', max_attempts => 1); SELECT workq_fail(claim_id) FROM workq_claim('q', 'w')},
		q{SELECT workq_requeue(max(job_id)) FROM workq.held}, '1' ],
	[ 'a cap in fifo, ack', $cap, "SELECT workq_ack(claim_id) $of_a", '2' ],
	[ 'a cap in fifo, fail', $cap, "SELECT workq_fail(claim_id) $of_a", '2' ],
	[ 'a cap in fifo, release', $cap, "SELECT workq_release(claim_id, '1 hour') $of_a", '2' ],
	[ 'a cap in fifo, park', $cap, "SELECT workq_park(claim_id) $of_a", '2' ],
	[ 'a cap in fifo, a lease that ends with a dead job', $cap =~ s/1 h/2 s/r, 'SELECT 1', '2', 'on' ],
	[ 'the cap itself', $cap, q{SELECT workq_configure('q', max_concurrent_per_key => 2)}, '2' ],
	[ 'no cap any more', $cap, q{SELECT workq_reset('q', 'max_concurrent_per_key')}, '2' ],
	[ 'tenant and binding', q{SELECT workq_configure('q', strategy => 'drr', fairness_key => 'tenant-and-binding', max_concurrent_per_key => 1);
		SELECT count(workq_enqueue('q', to_jsonb(i), tenant => 'a', binding => 'b')) FROM generate_series(1, 2) i;
		SELECT count(*) FROM workq_claim('q', 'w', '1 h')}, "SELECT workq_ack(claim_id) $of_a", '2' ],
	[ 'the default weight', q{SELECT workq_configure('q', strategy => 'drr', default_weight => 0);
		SELECT workq_enqueue('q', '1', tenant => 'a')}, q{SELECT workq_configure('q', default_weight => 1)}, '1' ],
	[ 'another strategy', q{SELECT workq_configure('q', strategy => 'drr', weights => 'a:0'); SELECT workq_enqueue('q', '1', tenant => 'a')},
		q{SELECT workq_configure('q', strategy => 'fifo')}, '1' ],
	[ 'lanes without memory', q{SELECT workq_configure('q', strategy => 'drr');
		SELECT count(workq_enqueue('q', to_jsonb(i), tenant => 'a' || i)) FROM generate_series(1, 18) i;
		SELECT count(*) FROM workq_claim('q', 'w', '1 h', max_jobs => 18);
		SELECT workq_enqueue('q', '19', tenant => 'b')}, 'SELECT count(workq_ack(claim_id)) FROM workq.active_claims', '19' ],
);

for my $worker ('on', 'off')
{
	sql("ALTER SYSTEM SET workq.background_worker = $worker");
	$node->reload;
	wait_for($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'workq worker'", $worker eq 'on' ? 1 : 0);
	foreach my $event (@events)
	{
		my ($name, $before, $sql, $expected, $on) = @$event;

		next if ($on // $worker) ne $worker;
		sql("SELECT workq_create_queue('q'), workq_create_queue('other')");
		# one after the other: a claim does not see what is not committed
		sql($before);
		my $s = starts($claim, 1);
		sql($sql);
		is(result($s), $expected, "$name, worker $worker");
		over();
	}
}

# A leased job that is cancelled goes when its worker learns of it.
sql("SELECT workq_create_queue('q'), workq_create_queue('other')");
sql($cap);
my $s = starts($claim, 1);
sql('SELECT workq_cancel(job_id) FROM workq.active_claims');
sql("SELECT workq_fail(claim_id) $of_a");
is(result($s), '2', 'a cap in fifo, cancelled');
over();

# The one that keeps the time, or that has just been told to, is terminated,
# cancelled, or gets something else; another one keeps it then.
for my $end ('pg_terminate_backend', 'pg_cancel_backend', 'a job')
{
	for my $told ('keeps', 'was told')
	{
		sql("SELECT workq_create_queue('q'), workq_create_queue('other')");
		my @waiting = map { starts($claim, $_) } 1 .. 3;
		my $pid = session_pid($waiting[2]);
		my $due = q{SELECT workq_enqueue('q', '"due"', delay => '1500 ms')};

		# the last one keeps the first time that comes up
		kill_process($pid, 'STOP') if $told eq 'was told';
		sql($due);
		if ($end ne 'a job') { sql("SELECT $end($pid)"); }
		else { sql(q{SELECT count(workq_enqueue('q', '"else"')) FROM generate_series(1, 2)}); }
		kill_process($pid, 'CONT') if $told eq 'was told';
		is(eval { wait_for($node, q{SELECT count(*) FROM workq.scheduled}, 0, undef, 20) }, 1, "another one: $told, $end");
		over();
	}
}

# The order of queues.
for my $order ('listed', 'least-recent')
{
	sql(q{SELECT workq_create_queue('q'), workq_create_queue('other');
		SELECT count(workq_enqueue(queue, to_jsonb(queue))) FROM unnest(ARRAY['q', 'other']) queue, generate_series(1, 2)});
	is(sql("SELECT string_agg(payload #>> '{}', ' ' ORDER BY ord) FROM workq_claim_any(ARRAY['other', 'q'], 'w', max_jobs => 4, wait => '1 s',
			queue_order => '$order') WITH ORDINALITY AS c(" . sql(q{SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) || ', ord' FROM pg_attribute
			WHERE attrelid = 'workq.claim'::regclass AND attnum > 0}) . ')'),
		$order eq 'listed' ? 'other other q q' : 'other q other q', "queues in order: $order");
	over();
}

# In a server process that waits often nothing piles up.
sql(q{SELECT workq_create_queue('q')});
my $often = session($node);
my $memory = q{SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name IN ('TopMemoryContext', 'CacheMemoryContext', 'workq store')};
my $wait = q{DO $$DECLARE ready boolean; BEGIN FOR i IN 1 .. 300 LOOP
	CALL workq_wait(ARRAY['q'], '1 ms', ready);
	PERFORM FROM workq_claim('q', 'w', wait => '1 ms');
	END LOOP; END$$};
$often->query_safe($wait);
my $first = $often->query_safe($memory);
$often->query_safe($wait) foreach 1 .. 2;
cmp_ok($often->query_safe($memory) - $first, '<', 65536, 'memory');
$often->quit;
is(sql('SELECT * FROM workq_check()'), '', 'workq_check() finds nothing');
done_testing();
