# A database is dumped in mid-life and restored: every queue, job, lease, policy,
# grant and sequence is there, work goes on, a claim from before can act once, and
# no new id repeats an old one.  Restored by psql and by parallel pg_restore, as
# superuser and dumped by a role that can only read.

use strict;
use warnings;
use WorkqTest;
use WorkqHistory;
use Test::More;
use PostgreSQL::Test::Utils;

my $node = workq_node('main', { extension => 0 }, 'fsync = off', 'workq.segment_size = 1000',
	'max_worker_processes = 20');
my $dir = PostgreSQL::Test::Utils::tempdir();

$node->safe_psql('postgres', 'CREATE DATABASE source');
sub source { return $node->safe_psql('source', @_); }

source(q{
	CREATE ROLE app; CREATE ROLE boss; CREATE ROLE reader LOGIN; GRANT pg_read_all_data TO reader;
	CREATE EXTENSION workq;
	GRANT EXECUTE ON FUNCTION workq_create_queue(text, boolean) TO boss;
	CREATE TABLE claims (n bigint, c uuid, j bigint);
	GRANT ALL ON claims TO PUBLIC;
});
# a life
source(q{
	SELECT workq_create_queue('mail'), workq_create_queue('Ünï "quoted" %s'), workq_create_queue('empty'), workq_create_queue('paused');
	SET ROLE boss; SELECT workq_create_queue('boss'); RESET ROLE;
	SELECT workq_grant('mail', 'app', 'claim'), workq_grant('mail', 'app', 'enqueue'), workq_grant('boss', 'public', 'monitor');
	SELECT workq_configure('mail', max_attempts => 3, max_lease => '2 h', retry_base => '1 s', weights => 'a:3,b:1');
	SELECT workq_set_key('mail', 'vip', 7, 2);
	SELECT workq_pause('paused', reason => 'a reason');
	SELECT count(*) FROM workq_enqueue_batch('mail', (SELECT jsonb_agg(jsonb_build_object('payload', n, 'tenant', 't' || n % 7,
		'priority', (ARRAY['high', 'normal', 'low'])[1 + n % 3], 'dedup_key', CASE WHEN n % 5 = 0 THEN 'k' || n END)) FROM generate_series(1, 2500) n));
	SELECT workq_enqueue('mail', '{"later": true}', delay => '1 day', dedup_key => 'later', correlation => 'c') FROM generate_series(1, 1);
	SELECT workq_enqueue('Ünï "quoted" %s', to_jsonb(E'tab\t line\n "quote" \\\\ ü'::text), headers => '{"h": [1, null]}');
	SELECT workq_enqueue('paused', to_jsonb(n)) FROM generate_series(1, 5) n;
	SELECT workq_enqueue('boss', '1');
	INSERT INTO claims SELECT row_number() OVER (), claim_id, job_id FROM workq_claim('mail', 'w', '1 h', max_jobs => 600);
	SELECT count(*) FROM workq_ack_batch((SELECT array_agg(c) FROM claims WHERE n <= 400), (SELECT array_agg(to_jsonb(n)) FROM claims WHERE n <= 400));
	SELECT count(*) FROM workq_fail_batch((SELECT array_agg(c) FROM claims WHERE n BETWEEN 401 AND 450), retry_in => '1 day');
	SELECT workq_cancel(j) FROM claims WHERE n IN (401, 451);
	SELECT workq_progress(c, to_jsonb(n)), workq_checkpoint(c, 'step', to_jsonb(n)) FROM claims WHERE n IN (460, 461);
	SELECT count(*) FROM workq_progress_batch((SELECT array_agg(c) FROM claims, generate_series(1, 100) WHERE n = 460), (SELECT array_agg(to_jsonb(repeat('x', 100 * i))) FROM generate_series(1, 100) i));
	SELECT workq_enqueue('dies', '"dies"', 'high', max_attempts => 1, dedup_key => 'dead');
	SELECT workq_fail(claim_id, 'E', 'why') FROM workq_claim('dies', 'w');
});
is(source(q{SELECT count(*) FROM workq.held}), '1', 'a dead job before');
history_ok($node, 'before', 'source');

# everything that there is, as one text
my @tables = qw(queues keys grants segments policies jobs claims responses ready leases scheduled held dedup);
sub everything
{
	my ($db) = @_;
	return join "\n", map { "$_ " . $node->safe_psql($db, "SELECT count(*), md5(string_agg(t::text, E'\\n' ORDER BY t::text COLLATE \"C\")) FROM workq.$_ t") } @tables;
}
my $before = everything('source');
my $sequence = source(q{SELECT last_value FROM workq.job_ids});

# dumps while somebody works
sub dump_database { $node->command_ok([ 'pg_dump', '-d', $node->connstr('source'), @_ ], "pg_dump @_"); return; }
my $busy = session($node, 'source');
$busy->query_safe(q{BEGIN; SELECT workq_enqueue('mail', '"open"'); SELECT count(*) FROM workq_claim('mail', 'busy', max_jobs => 5)});
dump_database('-f', "$dir/plain.sql");
dump_database('-Fc', '-f', "$dir/custom");
dump_database('-Fd', '-j', '2', '-f', "$dir/directory");
dump_database('-U', 'reader', '-f', "$dir/reader.sql");
dump_database('-f', "$dir/clean.sql", '--clean', '--if-exists');
$busy->query_safe('ROLLBACK');
$busy->quit;

sub check_copy
{
	my ($db, $how) = @_;

	is(everything($db), $before, "$how: every row is there");
	is($node->safe_psql($db, q{SELECT last_value >= } . $sequence . q{ FROM workq.job_ids}), 't', "$how: the sequence goes on");
	history_ok($node, $how, $db);

	# as before: states, settings, rights
	is($node->safe_psql($db, q{SELECT max_attempts, max_lease, weights FROM workq.queues WHERE name = 'mail'}), '3|7200000|a:3,b:1', "$how: settings");
	is($node->safe_psql($db, q{SELECT count(*) FROM workq_claim('paused', 'w')}), '0', "$how: a paused queue is paused");
	is($node->safe_psql($db, q{SET ROLE app; SELECT count(*) FROM workq_claim('mail', 'app', '1 h')}), '1', "$how: a grant holds");
	sql_fails($node, '42501', q{SET ROLE app; SELECT count(*) FROM workq_claim('boss', 'app')}, "$how: what was not granted is not", $db);
	is($node->safe_psql($db, q{SET ROLE boss; SELECT payload FROM workq_claim('boss', 'boss')}), '1', "$how: the owner");
	is($node->safe_psql($db, q{SELECT payload #>> '{}' = E'tab\t line\n "quote" \\\\ ü', headers FROM workq_claim('Ünï "quoted" %s', 'w')}), 't|{"h": [1, null]}', "$how: a payload");

	# a claim from before acts once, one that had ended not at all
	is($node->safe_psql($db, q{SELECT workq_ack(c), workq_ack(c), workq_fail(c, on_lost => 'report') FROM claims WHERE n = 500}), 't|f|', "$how: a claim from before");
	is($node->safe_psql($db, q{SELECT workq_ack(c) FROM claims WHERE n = 1}), 'f', "$how: one that was acknowledged");
	sql_fails($node, 'WQ001', q{SELECT workq_ack(c) FROM claims WHERE n = 402}, "$how: one that failed", $db);
	sql_fails($node, 'WQ004', q{SELECT workq_renew(c) FROM claims WHERE n = 451}, "$how: one that was cancelled", $db);
	is($node->safe_psql($db, q{SELECT count(*), sum(length(delta::text)) FROM claims, workq_stream(j) WHERE n = 460}), '102|505203', "$how: a stream");
	is($node->safe_psql($db, q{SELECT workq_progress(c, '"on"'), workq_checkpoint(c, 'step'), workq_checkpoint(c, 'next') FROM claims WHERE n = 460}), '104|f|t', "$how: it goes on");
	is($node->safe_psql($db, q{SELECT string_agg(step || coalesce(result::text, ''), ' ') FROM claims, workq_checkpoints(j) WHERE n = 460}), 'step460 next', "$how: checkpoints");
	is($node->safe_psql($db, q{SELECT workq_enqueue('mail', '1', dedup_key => 'later') = (SELECT job_id FROM workq.jobs WHERE dedup_key = 'later')}), 't', "$how: a deduplication key");

	# new ids, new segments, and everything can be done
	is($node->safe_psql($db, q{SELECT count(*), min(job_id) > (SELECT max(job_id) FROM workq.jobs) FROM workq_enqueue_batch('mail',
		(SELECT jsonb_agg('{"payload": "new"}'::jsonb) FROM generate_series(1, 3000)))}), '3000|t', "$how: new ids");
	is($node->safe_psql($db, q{SELECT workq_requeue(job_id) FROM workq.held}), 't', "$how: the dead job comes back");
	$node->safe_psql($db, q{SELECT count(*) FROM workq_release_batch((SELECT array_agg(claim_id) FROM workq.leases)); SELECT workq_resume('paused')});
	is($node->safe_psql($db, q{SELECT payload FROM workq_claim('mail', 'w') WHERE priority = 'high' AND payload <> '"new"'}) ne '', 1, "$how: in their order");
	$node->safe_psql($db, q{SET workq.clock_offset = '2 d'; SELECT count(*) FROM workq_ack_batch((SELECT array_agg(claim_id) FROM workq_claim('mail', 'w', '1 h', max_jobs => 100000)))});
	is($node->safe_psql($db, q{SELECT (SELECT count(*) FROM workq.ready JOIN workq.queues USING (queue_id) WHERE name = 'mail'), (SELECT count(*) FROM workq.scheduled)}), '0|0', "$how: all of it can be done");
	history_ok($node, "$how, worked on", $db);
	is($node->safe_psql($db, q{SELECT count(*) FROM workq.queue_overview}), '6', "$how: the overview");
	return;
}

sub fresh { my ($db) = @_; $node->safe_psql('postgres', "CREATE DATABASE $db TEMPLATE template0"); return; }

fresh('plain');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('plain'), '-o', '/dev/null', '-f', "$dir/plain.sql" ], 'psql');
check_copy('plain', 'plain');

fresh('custom');
$node->command_ok([ 'pg_restore', '-j', '2', '--exit-on-error', '-d', $node->connstr('custom'), "$dir/custom" ], 'pg_restore -j 2');
check_copy('custom', 'custom');

fresh('directory');
$node->command_ok([ 'pg_restore', '-j', '2', '--exit-on-error', '-d', $node->connstr('directory'), "$dir/directory" ], 'pg_restore -j 2 of a directory');
check_copy('directory', 'directory');

fresh('reader');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('reader'), '-o', '/dev/null', '-f', "$dir/reader.sql" ], 'psql, dumped by a reader');
check_copy('reader', 'reader');

# over the database that is there, with its background worker running
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('custom'), '-o', '/dev/null', '-f', "$dir/clean.sql" ], 'psql --clean over a copy');
is(everything('custom'), $before, 'over a copy: every row is there');
history_ok($node, 'over a copy', 'custom');

# a copy of a copy
$node->command_ok([ 'pg_dump', '-Fc', '-d', $node->connstr('plain'), '-f', "$dir/again" ], 'pg_dump of a copy');
fresh('again');
$node->command_ok([ 'pg_restore', '--exit-on-error', '-d', $node->connstr('again'), "$dir/again" ], 'pg_restore of a copy of a copy');
$before = everything('plain');
is(everything('again'), $before, 'a copy of a copy: every row is there');
history_ok($node, 'a copy of a copy', 'again');

# the source has not changed by all that
history_ok($node, 'the source', 'source');

# schema only: an empty workq that works
$node->command_ok([ 'pg_dump', '-s', '-d', $node->connstr('source'), '-f', "$dir/schema.sql" ], 'pg_dump -s');
fresh('schema_only');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('schema_only'), '-o', '/dev/null', '-f', "$dir/schema.sql" ], 'psql of the schema');
is(sqlstate($node, q{SELECT workq_enqueue('new', '1')}, 'schema_only'), '00000', 'schema only: works');
is($node->safe_psql('schema_only', q{SELECT count(*) FROM workq_check()}), '0', 'schema only: check');

done_testing();
