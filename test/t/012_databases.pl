# Commands that need a database to themselves, and databases that come and go.
#
# The worker is connected to its database and must make way (A2), from whatever
# database the command is given (A3), and come back if the command fails.
# DROP DATABASE of any database waits for every process of the server to accept
# a barrier (A1).  Templates have no worker (A4); copies of a template that has
# the extension do (A5); each database has its own (A7).

use strict;
use warnings;
use WorkqTest;
use Test::More;
use PostgreSQL::Test::Utils;

my $node = workq_node('main', 'log_connections = on');

sub sql { return $node->safe_psql('postgres', @_); }

sub worker
{
	my ($db) = @_;
	my $pid;
	wait_until(
		sub {
			$pid = sql(
				qq{SELECT pid FROM pg_stat_activity
				WHERE backend_type = 'workq worker' AND datname = '$db' AND state = 'idle'});
		},
		"an idle worker in $db");
	return $pid;
}

sub no_worker
{
	my ($db) = @_;
	return sql(
		qq{SELECT count(*) FROM pg_stat_activity
		WHERE backend_type LIKE 'workq%' AND datname = '$db'}) eq '0';
}

# The command succeeds, and in time: the server itself gives up after 5 s.
sub succeeds
{
	my ($sql, $db) = @_;
	my $start = time;
	my ($rc, $out, $err) = $node->psql($db || 'postgres', $sql);

	is($err, '', $sql);
	cmp_ok(time - $start, '<', 5, '... at once');
	return $rc;
}

sub has_worker
{
	my ($db, $what) = @_;
	ok(worker($db), $what || "$db has a worker");
	return;
}

# Make a worker busy: many due jobs, so that it moves them batch by batch.
sub busy
{
	my ($db) = @_;
	$node->safe_psql(
		$db, q{
		SELECT count(*) FROM workq_enqueue_batch('busy',
			(SELECT jsonb_agg(jsonb_build_object('payload', '{}'::jsonb, 'delay', '1 ms'))
			 FROM generate_series(1, 20000)))});
	return;
}

# Two databases, each with its own worker.
sql("CREATE DATABASE a");
$node->safe_psql('a', 'CREATE EXTENSION workq');
has_worker('a');
has_worker('postgres');
isnt(worker('a'), worker('postgres'), 'not the same');
for my $db ('a', 'postgres')
{
	$node->safe_psql($db, q{SELECT workq_enqueue('q', '{}', delay => '200 ms')});
}
wait_for($node, 'SELECT count(*) = 1 FROM workq.ready', 't', $_)
  foreach 'a', 'postgres';
pass('both work');

# Dropping a database of no interest, idle and busy workers around (A1).
sql('CREATE DATABASE bystander');
succeeds('DROP DATABASE bystander');
sql('CREATE DATABASE bystander');
busy('a');
succeeds('DROP DATABASE bystander');

# DROP: idle, busy, from a database without the extension, FORCE.
sql('CREATE DATABASE plain');
has_worker('a');
succeeds('DROP DATABASE a', 'plain');
ok(no_worker('a'), 'its worker is gone');
for my $how ('', ' WITH (FORCE)')
{
	sql('CREATE DATABASE a');
	$node->safe_psql('a', 'CREATE EXTENSION workq');
	has_worker('a');
	busy('a');
	succeeds("DROP DATABASE a$how", 'plain');
}

# DROP right after CREATE EXTENSION, while the worker starts.
for my $i (1 .. 10)
{
	sql('CREATE DATABASE a');
	$node->safe_psql('a', 'CREATE EXTENSION workq');
	my ($rc, $out, $err) = $node->psql('plain', 'DROP DATABASE a');
	is($err, '', "DROP while the worker starts, $i");
}

# A failed DROP: someone else is connected.  The worker returns.
sql('CREATE DATABASE a');
$node->safe_psql('a', 'CREATE EXTENSION workq');
my $old = worker('a');
my $s = session($node, 'a');
sql_fails($node, '55006', 'DROP DATABASE a', 'DROP fails with a session there');
wait_until(sub { !no_worker('a') }, 'a worker in a');
isnt(worker('a'), $old, 'a new worker after a failed DROP');
$node->safe_psql('a', q{SELECT workq_enqueue('q', '{}', delay => '100 ms')});
wait_for($node, 'SELECT count(*) = 1 FROM workq.ready', 't', 'a');
pass('and it works');
$s->quit;

# Someone who may not drop it cannot stop the worker by trying.
sql('CREATE ROLE nobody LOGIN');
$old = worker('a');
sql_fails($node, '42501', 'SET ROLE nobody; DROP DATABASE a', 'not the owner');
is(worker('a'), $old, 'the worker did not notice');

# RENAME, also rolled back.
succeeds('ALTER DATABASE a RENAME TO b', 'plain');
has_worker('b', 'a worker after RENAME');
busy('b');
succeeds('ALTER DATABASE b RENAME TO a');
has_worker('a', 'and again');
$s = session($node, 'plain');
$s->query_safe('BEGIN');
$s->query_safe('ALTER DATABASE a RENAME TO b');
ok(no_worker('a'), 'no worker while the transaction is open');
sql('SELECT pg_reload_conf()');    # makes the launcher look
$s->query_safe('ROLLBACK');
has_worker('a', 'a worker after the rollback');
$s->query_safe('BEGIN');
$s->query_safe('SAVEPOINT x');
$s->query_safe('ALTER DATABASE a RENAME TO b');
$s->query_safe('ROLLBACK TO x');
$s->query_safe('COMMIT');
has_worker('a', 'a worker after the savepoint was rolled back');
$s->quit;

# SET TABLESPACE.
my $dir = PostgreSQL::Test::Utils::tempdir;
sql("CREATE TABLESPACE other LOCATION '$dir'");
succeeds('ALTER DATABASE a SET TABLESPACE other');
has_worker('a', 'a worker after SET TABLESPACE');
succeeds('ALTER DATABASE a SET TABLESPACE pg_default');
has_worker('a');

# A session that is killed in the middle of it leaves no mark behind.
$s = session($node, 'plain');
$s->query_safe('BEGIN');
$s->query_safe('ALTER DATABASE a RENAME TO b');
sql('SELECT pg_terminate_backend(' . session_pid($s) . ')');
has_worker('a', 'a worker after the session was terminated');

# The database as a template: it is copied, and the copy has a worker (A5).
succeeds('CREATE DATABASE copy TEMPLATE a', 'plain');
has_worker('a', 'the original has a worker again');
has_worker('copy', 'the copy has one');
$node->safe_psql('copy', q{SELECT workq_enqueue('q', '{}', delay => '100 ms')});
wait_for($node,
	q{SELECT count(*) >= 2 FROM workq.ready JOIN workq.queues USING (queue_id) WHERE name = 'q'}, 't', 'copy');
pass('which works');
busy('a');
succeeds('CREATE DATABASE copy2 TEMPLATE a STRATEGY file_copy');
has_worker('copy2');
succeeds("DROP DATABASE $_") foreach 'copy', 'copy2';

# A template has none; nor a database that does not allow connections (A4).
sql('ALTER DATABASE a IS_TEMPLATE true');
wait_until(sub { no_worker('a') }, 'no worker in a template');
pass('a database that becomes a template loses its worker');
succeeds('CREATE DATABASE copy TEMPLATE a');
has_worker('copy');
sql('ALTER DATABASE a IS_TEMPLATE false');
has_worker('a', 'and back');
sql('ALTER DATABASE a ALLOW_CONNECTIONS false');
wait_until(sub { no_worker('a') }, 'no worker without connections');
pass('a database that allows no connections has no worker');
sql('ALTER DATABASE a ALLOW_CONNECTIONS true');
has_worker('a', 'and back');

# Installed in template1: every new database has it, template1 no worker.
$node->safe_psql('template1', 'CREATE EXTENSION workq');
succeeds('CREATE DATABASE t1');
succeeds('CREATE DATABASE t2');
has_worker($_) foreach 't1', 't2';
ok(no_worker('template1'), 'template1 has none');
ok(no_worker('template0'), 'nor has template0');
$node->safe_psql('template1', 'DROP EXTENSION workq');
succeeds('CREATE DATABASE t3');
wait_for($node,
	q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type LIKE 'workq%' AND datname IN ('t3', 'plain')});
pass('a database without the extension has no worker');

# What the dropped databases had in shared memory is given back: there is room
# for 256.
for my $i (1 .. 3)
{
	sql("CREATE DATABASE again TEMPLATE a");
	has_worker('again', "database $i");
	succeeds('DROP DATABASE again');
}

my $log = slurp_file($node->logfile);
unlike($log, qr/(FATAL|ERROR):  database .* does not exist/,
	'no worker ran after a dropped database');
unlike($log, qr/PANIC|TRAP|terminated by signal/, 'nothing crashed');
my $starts = () = $log =~ /workq worker.*(ERROR|WARNING):/g;
is($starts, 0, 'no worker complained');
done_testing();
