# The extension is created, dropped, altered, and all that rolled back, while
# the background worker runs (pitfalls B1 to B7, B9).

use strict;
use warnings;
use WorkqTest;
use Test::More;
use PostgreSQL::Test::Utils;

my $node = workq_node('main', { extension => 0 },
	'max_prepared_transactions = 5',
	'log_min_messages = debug1');

sub sql { return $node->safe_psql('postgres', @_); }

my $worker_query = q{SELECT pid FROM pg_stat_activity
	WHERE backend_type = 'workq worker' AND datname = 'postgres'};

sub worker
{
	wait_for($node,
		q{SELECT count(*) = 1 FROM pg_stat_activity
		WHERE backend_type = 'workq worker' AND datname = 'postgres' AND state = 'idle'});
	return sql($worker_query);
}

# How often a worker for database postgres, or for others, was registered.
my $oid;

sub starts
{
	my ($others) = @_;
	my $which = $others ? qr/(?!$oid")\d+/ : qr/$oid/;
	my $n = () = slurp_file($node->logfile) =~
	  /registering background worker "workq worker for database $which"/g;
	return $n;
}

# No worker, and none that comes and goes.  The launcher has looked when it has
# started a probe of a new database.  It may look once more than it must: when
# it was asked to while the worker that found nothing was still there.
my $probes = 0;

sub no_worker
{
	my ($what) = @_;
	my $before;

	for (1 .. 3)
	{
		wait_for($node, "SELECT NOT EXISTS ($worker_query)");
		$before = starts();
		my $others = starts(1);
		my $name = 'probe' . ++$probes;
		sql("CREATE DATABASE $name");
		wait_until(sub { starts(1) > $others }, 'a turn of the launcher');
		sql("DROP DATABASE $name");
		last if starts() == $before;
	}
	is(starts(), $before, $what);
	return;
}

sub works
{
	my ($what) = @_;
	sql(q{SELECT workq_enqueue('work', '{}', delay => '50 ms')});
	wait_for($node,
		q{SELECT count(*) = 0 FROM workq.scheduled});
	sql(q{SELECT workq_ack(claim_id) FROM workq_claim('work', 'w', max_jobs => 100)});
	pass($what);
	return;
}

$oid = sql(q{SELECT oid FROM pg_database WHERE datname = 'postgres'});

# CREATE, rolled back and committed.
no_worker('no extension, no worker');
sql('BEGIN; CREATE EXTENSION workq; ROLLBACK');
no_worker('CREATE EXTENSION rolled back: no worker');
sql('BEGIN; SAVEPOINT a; CREATE EXTENSION workq; ROLLBACK TO a; COMMIT');
no_worker('also with a savepoint');
sql('CREATE EXTENSION workq');
my $pid = worker();
works('CREATE EXTENSION: a worker');

# DROP rolled back, the worker having met it.
my $s = session($node);
$s->query_safe('BEGIN');
$s->query_safe('DROP EXTENSION workq');
$node->reload;
wait_for($node, "SELECT state = 'idle' FROM pg_stat_activity WHERE pid = $pid");
is(sql("SELECT count(*) FROM pg_locks WHERE pid = $pid AND NOT granted"),
	'0', 'the worker does not wait for DROP EXTENSION');
$s->query_safe('ROLLBACK');
works('DROP EXTENSION rolled back: work goes on');
is(worker(), $pid, 'with the same worker');

# DROP committed, idle and busy.
sql('DROP EXTENSION workq CASCADE');
no_worker('DROP EXTENSION: no worker');
sql('CREATE EXTENSION workq');
worker();
sql(q{SELECT count(*) FROM workq_enqueue_batch('busy',
		(SELECT jsonb_agg(jsonb_build_object('payload', '{}'::jsonb, 'delay', '1 ms'))
		 FROM generate_series(1, 50000)))});
sql('DROP EXTENSION workq CASCADE');
no_worker('DROP EXTENSION under a busy worker');

# Segments are no members: they go with the tables they are partitions of.
is( sql(q{SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = 'workq'}),
	'0',
	'nothing is left');

# With a claim in flight in an open transaction, DROP waits for that.
sql('CREATE EXTENSION workq');
sql(q{SELECT workq_enqueue('q', '{}')});
$s->query_safe('BEGIN');
$s->query_safe(q{SELECT count(*) FROM workq_claim('q', 'w')});
my $d = session($node);
start_query($d, 'DROP EXTENSION workq CASCADE');
wait_until_blocked($node, $d);
$s->query_safe('COMMIT');
end_query($d);
no_worker('dropped after a claim in flight');
my ($out, $ret) = $s->query(q{SELECT count(*) FROM workq_claim('q', 'w')});
like($s->{stderr}, qr/does not exist/, 'a session that used it gets an error');
$s->{stderr} = '';
$d->quit;

# Verbs that wait for a DROP find that there is nothing any more; or, if it was
# made anew meanwhile, that it is not the one they knew.  (Of those that return
# rows of a type of their own, like workq_claim, the server itself may have
# waited for the type before it called them.)
my %verbs = (
	enqueue => q{SELECT workq_enqueue('q', '{}')},
	purge => q{SELECT workq_purge('q', confirm => true)},
	create => q{SELECT workq_create_queue('new')},
	configure => q{SELECT workq_configure('q', quantum => 2)},
	drop => q{SELECT workq_drop_queue('q', confirm => true)},
	job => q{SELECT state FROM workq_job(1)},
	cancel => q{SELECT workq_cancel(1)},
	check => q{SELECT count(*) FROM workq_check()},
	scheduler => q{SELECT workq_scheduler_state('q')},
	metrics => q{SELECT count(*) FROM workq_metrics()});
for my $again ('', 'CREATE EXTENSION workq;')
{
	my %sessions;

	sql('CREATE EXTENSION IF NOT EXISTS workq');
	sql(q{SELECT workq_enqueue('q', '{}')});
	foreach my $verb (sort keys %verbs)
	{
		$sessions{$verb} = session($node);
		$sessions{$verb}->query(q{\set VERBOSITY sqlstate});
		$sessions{$verb}->query_safe(q{SELECT workq_enqueue('q', '{}')});
	}
	$s->query_safe(qq{BEGIN; DROP EXTENSION workq CASCADE; $again});
	start_query($sessions{$_}, $verbs{$_}) foreach sort keys %verbs;
	wait_until_blocked($node, $sessions{$_}) foreach sort keys %verbs;
	$s->query_safe('COMMIT');
	foreach my $verb (sort keys %verbs)
	{
		my (undef, $error) = end_query($sessions{$verb});

		if ($again && $verb eq 'check')
		{
			is($error, '', 'check has nothing to do with the old one');
		}
		else
		{
			like($error, qr/ERROR:  42704/, ($again ? 'made anew: ' : 'dropped: ') . $verb);
		}
		$sessions{$verb}->quit;
	}
}
sql('DROP EXTENSION workq CASCADE');
no_worker('dropped under verbs that waited');

# By other names: DROP SCHEMA of the schema it lives in, DROP OWNED.
sql('CREATE SCHEMA app; CREATE EXTENSION workq SCHEMA app');
worker();
sql('BEGIN; DROP SCHEMA app CASCADE; ROLLBACK');
wait_for($node, "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'workq worker'");
sql('DROP SCHEMA app CASCADE');
no_worker('DROP SCHEMA CASCADE: no worker');
sql(q{CREATE ROLE boss SUPERUSER; SET ROLE boss; CREATE EXTENSION workq});
worker();
sql('DROP OWNED BY boss CASCADE');
no_worker('DROP OWNED: no worker');

# A schema of that name without the extension.
sql('CREATE SCHEMA workq; CREATE TABLE workq.queues (a int)');
no_worker("somebody else's schema workq: no worker");
sql('DROP SCHEMA workq CASCADE');

# Dropped and made anew in one transaction, and in one session with caches.
sql('CREATE EXTENSION workq');
$pid = worker();
sql(q{SELECT workq_enqueue('q', '{}')});
$s->query_safe(q{SELECT workq_enqueue('q', '{}')});
$s->query_safe(
	'BEGIN; DROP EXTENSION workq CASCADE; CREATE EXTENSION workq; COMMIT');
is($s->query_safe(q{SELECT workq_enqueue('q', '{}')}),
	'1', 'the session uses the new one');
works('the worker too');
sql('DROP EXTENSION workq CASCADE');
sql('CREATE EXTENSION workq');
is($s->query_safe(q{SELECT workq_enqueue('q', '{}')}),
	'1', 'also when another session did it');

# Over and over, with a worker that looks all the time: it must not meet the
# tables that were there before.
my $waker = session($node);
start_query($waker,
	join(';', ('SELECT pg_reload_conf()', 'SELECT pg_sleep(0.003)') x 500));
for (1 .. 30)
{
	$s->query_safe(
		'BEGIN; DROP EXTENSION workq CASCADE; CREATE EXTENSION workq; COMMIT');
	$s->query_safe(q{SELECT workq_enqueue('work', '{}', delay => '1 ms')});
}
end_query($waker);
$waker->quit;
works('after many times');

# Used in the transaction that creates it: segments are made right there.
sql('DROP EXTENSION workq CASCADE');
no_worker('dropped');
my $inline = q{CREATE EXTENSION workq;
	SELECT workq_enqueue('q', jsonb_build_object('n', i)) FROM generate_series(1, 3) i;
	SELECT workq_ack(claim_id) FROM workq_claim('q', 'w')};
$s->query_safe("BEGIN; $inline; ROLLBACK");
is( $s->query_safe(
		q{SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = 'workq'}),
	'0',
	'rolled back: nothing is left');
(undef) = $s->query(q{SELECT workq_enqueue('q', '{}')});
like($s->{stderr}, qr/does not exist/, 'and the session knows');
$s->{stderr} = '';
$s->query_safe("BEGIN; SAVEPOINT a; $inline; ROLLBACK TO a; $inline; COMMIT");
is($s->query_safe('SELECT count(*) FROM workq.ready'), '2', 'committed: jobs are there');
is($s->query_safe('SELECT count(*) > 0 FROM workq.segments'), 't', 'and segments');
is( sql(q{SELECT count(*) FROM pg_depend d JOIN workq.segments g
		ON d.objid IN (('workq.jobs_' || segment)::regclass, ('workq.claims_' || segment)::regclass,
			('workq.responses_' || segment)::regclass)
		WHERE d.refclassid = 'pg_extension'::regclass}),
	'0',
	'which are no members of the extension');
works('and a worker');

# Another version of the SQL objects than the library's.
sql(q{UPDATE pg_extension SET extversion = '0.9' WHERE extname = 'workq'});
$node->reload;
wait_for($node, "SELECT NOT EXISTS ($worker_query)");
sql_fails($node, '55000', q{SELECT workq_enqueue('q', '{}')},
	'another version: functions refuse');
no_worker('another version: no worker');
sql(q{UPDATE pg_extension SET extversion = '1.0' WHERE extname = 'workq'});
sql(q{CREATE FUNCTION extra() RETURNS int LANGUAGE sql AS 'SELECT 1';
	ALTER EXTENSION workq ADD FUNCTION extra(); ALTER EXTENSION workq DROP FUNCTION extra()});
worker();
works('ALTER EXTENSION: looked at again');

# PREPARE TRANSACTION: nobody would hear of its commit.
sql_fails($node, '0A000',
	q{BEGIN; DROP EXTENSION workq CASCADE; PREPARE TRANSACTION 'x'}, 'PREPARE after DROP');
works('and work goes on');
sql('DROP EXTENSION workq CASCADE');
sql_fails($node, '0A000',
	q{BEGIN; CREATE EXTENSION workq; PREPARE TRANSACTION 'x'}, 'PREPARE after CREATE');
is(sql('SELECT count(*) FROM pg_prepared_xacts'), '0', 'nothing is prepared');
no_worker('no worker');

$s->quit;
my $log = slurp_file($node->logfile);
unlike($log, qr/PANIC|TRAP|terminated by signal/, 'nothing crashed');
is( join("\n", $log =~ /^.*\[\d+\] (?:ERROR|FATAL|WARNING):.*$/mg),
	'', 'no background process complained');
done_testing();
