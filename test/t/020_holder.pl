# One holder (scenario 25): many clients enqueue, claim, renew, acknowledge, fail
# and release, with rollbacks, savepoints and killed sessions.  Every (job,
# attempt) is claimed once, every claim ends once, every job is done exactly once
# and none is lost.  Work is noted in the transaction that acknowledges, as an
# application does it, so the same is true of the work.

use strict;
use warnings;
use WorkqTest;
use WorkqHistory;
use Test::More;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(usleep);

my $seconds = $ENV{WORKQ_TEST_SECONDS} || 8;
my $node = workq_node('main',
	'fsync = off', 'synchronous_commit = off',
	'workq.segment_size = 3000',
	'deadlock_timeout = 100ms',
	'autovacuum_naptime = 1s');

sub sql { return $node->safe_psql('postgres', @_); }

sql(q{
	SELECT workq_create_queue('q');
	SELECT workq_configure('q', retry_base => '20 ms', retry_cap => '200 ms', max_attempts => 100000);
	CREATE TABLE work (job_id bigint, claim_id uuid);
});

# pgbench's clients end at the first error, so lost claims are told, not raised
my %scripts = (
	producer => q{
\set r random(1, 100)
\set p random(1, 3)
BEGIN;
\if :r <= 60
SELECT workq_enqueue('q', '{"n": :r}', (ARRAY['high', 'normal', 'low'])[:p]);
\elif :r <= 75
SELECT workq_enqueue('q', '{"n": :r}', delay => '50 ms');
\elif :r <= 85
SELECT count(*) FROM workq_enqueue_batch('q', (SELECT jsonb_agg(jsonb_build_object('payload', n)) FROM generate_series(1, 40) n));
\else
SAVEPOINT s;
SELECT workq_enqueue('q', '"undone"', 'high');
ROLLBACK TO s;
SELECT workq_enqueue('q', '"kept"', 'high', dedup_key => 'key :p');
\endif
\if :r % 10 = 0
ROLLBACK;
\else
COMMIT;
\endif
},
	worker => q{
\set r random(1, 100)
\set s random(1, 100)
BEGIN;
SELECT coalesce(min(job_id), 0) AS job, coalesce(min(claim_id::text), '') AS claim FROM workq_claim('q', 'worker', '1500 ms') \gset
\if :r <= 10
ROLLBACK;
\else
COMMIT;
\endif
\if :job > 0 and :r <= 15
SELECT workq_renew(':claim', '2 s', on_lost => 'report');
\endif
\if :job > 0 and :r <= 50
SELECT workq_progress(':claim', '{"r": :r}', on_lost => 'report'), workq_checkpoint(':claim', 'step :s', on_lost => 'report');
\endif
\if :job > 0 and :r <= 97
BEGIN;
\if :s <= 60
INSERT INTO work VALUES (:job, ':claim');
SELECT coalesce(workq_ack(':claim', '{"r": :r}', on_lost => 'report'), false)::int AS done \gset
\elif :s <= 70
SELECT coalesce(workq_fail(':claim', 'E', on_lost => 'report'), false)::int AS done \gset
\elif :s <= 75
SELECT coalesce(workq_fail(':claim', 'E', retry_in => '0', on_lost => 'report'), false)::int AS done \gset
\elif :s <= 78
SELECT coalesce(workq_fail(':claim', 'E', on_fail => 'hold_lease', on_lost => 'report'), false)::int AS done \gset
\elif :s <= 88
SELECT coalesce(workq_release(':claim', on_lost => 'report'), false)::int AS done \gset
\elif :s <= 92
SELECT coalesce(workq_release(':claim', '20 ms', on_lost => 'report'), false)::int AS done \gset
\else
SAVEPOINT s;
INSERT INTO work VALUES (:job, ':claim');
SELECT workq_ack(':claim', on_lost => 'report');
ROLLBACK TO s;
INSERT INTO work VALUES (:job, ':claim');
SELECT coalesce(workq_ack(':claim', on_lost => 'report'), false)::int AS done \gset
\endif
\if :done = 1 and :r % 10 > 0
COMMIT;
\else
ROLLBACK;
\endif
\endif
},
	batch => q{
\set r random(1, 100)
BEGIN;
CREATE TEMP TABLE c ON COMMIT DROP AS SELECT job_id, claim_id FROM workq_claim('q', 'batch', '1500 ms', max_jobs => 60);
SAVEPOINT s;
SELECT count(*) FROM workq_claim('q', 'batch', '1500 ms', max_jobs => :r);
ROLLBACK TO s;
\if :r <= 40
SELECT count(*) FROM workq_ack_batch((SELECT coalesce(array_agg(claim_id), '{}') FROM c WHERE job_id % 3 = 0), on_lost => 'error');
INSERT INTO work SELECT job_id, claim_id FROM c WHERE job_id % 3 = 0;
SELECT count(*) FROM workq_release_batch((SELECT coalesce(array_agg(claim_id), '{}') FROM c WHERE job_id % 3 = 1));
\elif :r <= 60
SELECT count(*) FROM workq_fail_batch((SELECT coalesce(array_agg(claim_id), '{}') FROM c));
\endif
\if :r % 4 = 0
ROLLBACK;
\else
COMMIT;
\endif
});
my $dir = PostgreSQL::Test::Utils::tempdir();
append_to_file("$dir/$_", $scripts{$_}) foreach keys %scripts;

sub start_pgbench
{
	my ($script, $clients) = @_;
	my ($in, $out, $err) = ('', '', '');

	my $h = IPC::Run::start(
		[ 'pgbench', '-n', '-c', $clients, '-j', 1, '-T', 2, '-f', "$dir/$script",
			'-h', $node->host, '-p', $node->port, 'postgres' ],
		'<', \$in, '>', \$out, '2>', \$err);
	return { h => $h, err => \$err, script => $script };
}

# errors that killing explains; anything else is a finding
sub unexpected
{
	my ($err) = @_;
	return join '', grep { /ERROR|FATAL|PANIC|expected one row/ && !/administrator command|57P01/ } split /^/, $err;
}

my $killer = session($node);

# who is gone already is told in a warning
$killer->query_safe(q{SET client_min_messages = error});
my $kills = 0;
my @wrong;
my $end = time() + $seconds;
while (time() < $end)
{
	my @running = (start_pgbench('producer', 2), start_pgbench('worker', 8), start_pgbench('batch', 2));

	while (grep { $_->{h}->pumpable } @running)
	{
		$kills += $killer->query_safe(q{
			SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity
			 WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND random() < 0.1 LIMIT 1) v});
		usleep(150_000);
		$_->{h}->pump_nb foreach grep { $_->{h}->pumpable } @running;
	}
	foreach my $r (@running)
	{
		$r->{h}->finish;
		my $e = unexpected(${ $r->{err} });
		push @wrong, "$r->{script}: $e" if $e ne '';
	}
}
$killer->quit;
is(join('', @wrong), '', 'no client saw an error but its end');
cmp_ok($kills, '>', 3, "sessions were killed ($kills)");

history_ok($node, 'under load');
drain($node, 'q', 'work');
history_ok($node, 'at the end');
all_done_ok($node, 'at the end', 'q');
my $jobs = sql('SELECT count(*) FROM workq.jobs');
cmp_ok($jobs, '>', 1000, "enough was going on ($jobs jobs, "
	. sql(q{SELECT string_agg(event || ' ' || n, ', ' ORDER BY event) FROM (SELECT event, count(*) AS n FROM workq.claims GROUP BY event) e}) . ')');
is( sql(q{SELECT count(*) FROM (SELECT job_id FROM work GROUP BY job_id HAVING count(*) <> 1) w}),
	'0', 'no work was done twice');
is( sql(q{SELECT count(*) FROM workq.jobs j FULL JOIN work w USING (job_id) WHERE j.job_id IS NULL OR w.job_id IS NULL}),
	'0', 'each job\'s work was done, and no other');
is( sql(q{SELECT count(*) FROM work w JOIN workq.claims c USING (job_id) WHERE c.event = 'acked' AND c.claim_id <> w.claim_id}),
	'0', 'by the claim that was acknowledged');
is(sql(q{SELECT ready, scheduled, leased FROM workq.queue_overview}), '0|0|0', 'nothing is left');
is( sql(q{SELECT enqueued = (SELECT count(*) FROM workq.jobs), done = (SELECT count(*) FROM work) FROM workq.queue_overview}),
	't|t', 'the totals are right');

# the checker is not blind
my $one = '(SELECT min(job_id) FROM workq.claims WHERE attempt > 1)';
history_sees_ok($node, "INSERT INTO workq.claims SELECT * FROM workq.claims WHERE job_id = $one AND event = 'claimed' AND attempt = 2", 'a claim id twice');
history_sees_ok($node, "DELETE FROM workq.claims WHERE job_id = $one AND event = 'claimed' AND attempt = 1", 'attempts are not%');
history_sees_ok($node, "INSERT INTO workq.claims SELECT * FROM workq.claims WHERE job_id = $one AND event = 'acked'", 'claim that ended more than once');
history_sees_ok($node, "INSERT INTO workq.claims SELECT * FROM workq.claims WHERE job_id = $one AND event = 'acked'", 'job that was done more than once');
history_sees_ok($node, "DELETE FROM workq.claims WHERE job_id = $one AND event = 'acked'", 'claim that did not end%');
history_sees_ok($node, "DELETE FROM workq.claims WHERE job_id = $one AND event = 'acked'", 'lost%');
history_sees_ok($node, "DELETE FROM workq.responses WHERE job_id = $one", 'outcomes and responses differ');
history_sees_ok($node, "UPDATE workq.claims SET attempt = 1 WHERE job_id = $one AND event = 'acked'", 'claimed again%');
history_sees_ok($node, "UPDATE workq.claims SET number = 1000 WHERE (job_id, number) = (SELECT job_id, number FROM workq.claims WHERE event = 'progress' LIMIT 1)", 'said by a claim that had ended');
history_sees_ok($node, "UPDATE workq.claims SET number = 0 WHERE (job_id, number) = (SELECT job_id, number FROM workq.claims WHERE event = 'progress' LIMIT 1)", 'said by a claim that had not begun');
history_sees_ok($node, "INSERT INTO workq.claims SELECT * FROM workq.claims WHERE (job_id, number) = (SELECT job_id, number FROM workq.claims WHERE event = 'checkpoint' LIMIT 1)", 'a step twice');
history_sees_ok($node, "INSERT INTO workq.claims SELECT * FROM workq.claims WHERE (job_id, number) = (SELECT job_id, number FROM workq.claims WHERE event = 'progress' LIMIT 1)", 'the number of an event twice');

done_testing();
