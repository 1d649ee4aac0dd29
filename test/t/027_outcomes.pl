# Every way in which a claim and a job can end (scenario 25): many clients ack,
# report errors and statuses, fail, park and let leases run out, while operators
# resume, cancel and requeue, with rollbacks, savepoints and killed sessions.  The
# log tells a possible story; what a client committed together with an outcome is
# there if the outcome is, and only then; and who follows the responses meanwhile
# has seen each of them once.

use strict;
use warnings;
use IPC::Run;
use WorkqTest;
use WorkqHistory;
use Test::More;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(usleep);

my $node = workq_node('main',
	'fsync = off', 'synchronous_commit = off', 'log_statement = none',
	'workq.segment_size = 3000',
	'deadlock_timeout = 100ms',
	'autovacuum_naptime = 1s');

sub sql { return $node->safe_psql('postgres', @_); }

sql(<<'SQL');
SELECT workq_create_queue('q');
SELECT workq_configure('q', strategy => 'drr', max_concurrent_per_key => 4, max_attempts => 3,
	retry_base => '20 ms', retry_cap => '100 ms');
SELECT workq_map_error('q', 'BIZ%', 'error', code => 'MAPPED');
SELECT workq_map_error('q', 'ST%', 'status', value => '"mapped"');
SELECT workq_map_error('q', 'FATAL', 'dead');
-- what an application writes in the transaction that reports, or drains
CREATE TABLE ledger (claim_id uuid, event text);
CREATE TABLE work (job_id bigint, claim_id uuid);
CREATE TABLE followed (n bigserial, position text, job_id bigint, outcome text);

CREATE PROCEDURE produce() LANGUAGE plpgsql AS $$
BEGIN
	PERFORM workq_enqueue('q', to_jsonb(i), (ARRAY['high', 'normal', 'low'])[1 + floor(random() * 3)::int],
		tenant => 't' || floor(random() * 10)::int,
		correlation => CASE WHEN random() < 0.7 THEN 'wf' END,
		delay => CASE WHEN random() < 0.1 THEN interval '30 ms' END,
		dedup_key => CASE WHEN random() < 0.1 THEN 'k' || floor(random() * 20)::int END)
	  FROM generate_series(1, 1 + floor(random() * 12)::int) i;
	IF random() < 0.1 THEN
		ROLLBACK;
	END IF;
END $$;

-- One report.
CREATE PROCEDURE report(kind text, c uuid) LANGUAGE plpgsql AS $$
DECLARE
	told boolean;
BEGIN
	told := CASE kind
		WHEN 'acked' THEN workq_ack(c, '{"ok": 1}', on_lost => 'report')
		WHEN 'business_error' THEN workq_report_error(c, 'E', 'message', '{"e": 1}', on_lost => 'report')
		WHEN 'status' THEN workq_report_status(c, '"done"', on_lost => 'report')
		WHEN 'parked' THEN workq_park(c, 'waits', on_lost => 'report')
		WHEN 'released' THEN workq_release(c, CASE WHEN random() < 0.3 THEN interval '20 ms' END, on_lost => 'report')
		ELSE workq_fail(c, (ARRAY['BIZ1', 'ST1', 'FATAL', 'OTHER', NULL])[1 + floor(random() * 5)::int],
			on_fail => CASE WHEN random() < 0.2 THEN 'hold_lease' ELSE 'retry' END, on_lost => 'report')
		END;
	IF told THEN
		INSERT INTO ledger VALUES (c, kind);
	END IF;
END $$;

CREATE PROCEDURE work() LANGUAGE plpgsql AS $$
DECLARE
	kinds text[] := '{acked,acked,business_error,status,parked,parked,released,failed,failed}';
	kind text := kinds[1 + floor(random() * cardinality(kinds))::int];
	course int := floor(random() * 12);
	c uuid;
BEGIN
	SELECT claim_id INTO c FROM workq_claim('q', 'w', '300 ms');
	IF c IS NULL OR course = 0 THEN
		ROLLBACK;
		RETURN;
	ELSIF course < 9 THEN
		COMMIT;
	END IF;
	IF course = 1 THEN
		RETURN;					-- as if the worker had died
	ELSIF course = 2 THEN
		CALL report(kind, c);
		ROLLBACK;
		CALL report(kind, c);
	ELSIF course = 3 THEN
		BEGIN
			CALL report(kind, c);
			RAISE division_by_zero;
		EXCEPTION WHEN division_by_zero THEN
			CALL report('acked', c);
		END;
	ELSIF course = 4 THEN
		PERFORM workq_renew(c, '500 ms', on_lost => 'report');
		COMMIT;
		PERFORM workq_progress(c, '"half"', on_lost => 'report');
		PERFORM workq_checkpoint(c, 'half', '1', on_lost => 'report');
		CALL report(kind, c);
		CALL report(kind, c);
	ELSIF course = 5 THEN
		BEGIN
			PERFORM FROM workq_ack_claim(ARRAY[c], NULL, 'q', 'w', '300 ms');
			INSERT INTO ledger VALUES (c, 'acked');
		EXCEPTION WHEN SQLSTATE 'WQ001' THEN
			NULL;
		END;
	ELSE
		CALL report(kind, c);
	END IF;
END $$;

CREATE PROCEDURE operate() LANGUAGE plpgsql AS $$
DECLARE
	course int := floor(random() * 8);
	parked bigint[] := ARRAY(SELECT job_id FROM workq.held WHERE state = 'parked' ORDER BY random() LIMIT 8);
	dead bigint[] := ARRAY(SELECT job_id FROM workq.held WHERE state = 'dead' ORDER BY random() LIMIT 2);
	leased bigint := (SELECT job_id FROM workq.leases ORDER BY random() LIMIT 1);
	live bigint[] := ARRAY(SELECT job_id FROM (SELECT job_id FROM workq.ready UNION ALL SELECT job_id FROM workq.leases
		UNION ALL SELECT job_id FROM workq.scheduled UNION ALL SELECT job_id FROM workq.held) l ORDER BY random() LIMIT 3);
BEGIN
	IF course = 0 THEN
		PERFORM workq_unpark(parked[1], CASE WHEN random() < 0.5 THEN '"resumed"'::jsonb END,
			CASE WHEN random() < 0.3 THEN interval '20 ms' END) WHERE parked[1] IS NOT NULL;
	ELSIF course < 3 THEN
		PERFORM FROM workq_unpark_batch(parked);
	ELSIF course IN (3, 6, 7) THEN
		PERFORM workq_cancel(leased, 'why') WHERE leased IS NOT NULL;
	ELSIF course = 4 THEN
		PERFORM FROM workq_cancel_batch(live);
	ELSE
		PERFORM FROM workq_requeue_batch(dead);
		PERFORM workq_requeue_all('q', 3);
	END IF;
	IF random() < 0.2 THEN
		ROLLBACK;
	END IF;
END $$;

-- Go on where it stopped.
CREATE PROCEDURE follow() LANGUAGE sql AS $$
	INSERT INTO followed (position, job_id, outcome)
	SELECT r.position, r.job_id, r.outcome
	  FROM workq_responses((SELECT position FROM followed ORDER BY n DESC LIMIT 1), max_rows => 100) r $$;
SQL

my $dir = PostgreSQL::Test::Utils::tempdir();
append_to_file("$dir/$_", "CALL $_();\n") foreach qw(produce work operate);

sub start_pgbench
{
	my ($script, $clients, $transactions) = @_;
	my ($in, $out, $err) = ('', '', '');

	local $ENV{PGAPPNAME} = 'pgbench';
	my $h = IPC::Run::start(
		[ 'pgbench', '-n', '-c', $clients, '-t', $transactions, '-f', "$dir/$script",
			'-h', $node->host, '-p', $node->port, 'postgres' ],
		'<', \$in, '>', \$out, '2>', \$err);
	return { h => $h, err => \$err, script => $script };
}

# ------------------------------------------------------------------------
# The load: until everything has happened often enough
# ------------------------------------------------------------------------

my @kinds = qw(acked business_error status failed released parked unparked
  expired dead requeued cancelled cancel_requested renewed progress checkpoint);
my $killer = session($node);

# who is gone already is told in a warning
$killer->query_safe(q{SET client_min_messages = error});
my $follower = session($node);
my ($kills, $rounds, $rare) = (0, 0, '');
my @wrong;

do
{
	my @running = (start_pgbench('produce', 2, 60), start_pgbench('work', 24, 40), start_pgbench('operate', 2, 60));

	while (grep { $_->{h}->pumpable } @running)
	{
		$kills += $killer->query_safe(q{SELECT count(pg_terminate_backend(pid)) FROM
			(SELECT pid FROM pg_stat_activity WHERE application_name = 'pgbench' ORDER BY random() LIMIT 1) v});
		$follower->query_safe('CALL follow()');
		usleep(200_000);
		$_->{h}->pump_nb foreach grep { $_->{h}->pumpable } @running;
	}
	foreach my $r (@running)
	{
		$r->{h}->finish;
		push @wrong, map { "$r->{script}: $_" }
		  grep { /(ERROR|FATAL|PANIC):/ && !/administrator command/ } split /^/, ${ $r->{err} };
	}
	$rare = sql("SELECT string_agg(k, ', ') FROM unnest('{" . join(',', @kinds) . "}'::text[]) k
		WHERE (SELECT count(*) FROM workq.claims WHERE event = k) < 20");
	$rounds++;
} while (($rare ne '' || $kills < 4) && $rounds < 20);

is(join('', @wrong), '', 'no client saw an error but its end');
is($rare, '', 'all kinds of events came up');
cmp_ok($kills, '>=', 4, "sessions were killed ($kills)");
note(sql(q{SELECT string_agg(event || ' ' || n, ', ' ORDER BY event) FROM (SELECT event, count(*) AS n FROM workq.claims GROUP BY event) e}));
wait_for($node, q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench'}, '0');
history_ok($node, 'under load');

# ------------------------------------------------------------------------
# What is left is done
# ------------------------------------------------------------------------

sql(q{SELECT workq_configure('q', max_concurrent_per_key => 0)});
sql(q{SELECT count(*) FROM workq_unpark_batch(ARRAY(SELECT job_id FROM workq.held WHERE state = 'parked'))});
drain($node, 'q', 'work');
history_ok($node, 'at the end');
is(sql(q{SELECT ready, scheduled, leased FROM workq.queue_overview}), '0|0|0', 'nothing is left but dead jobs');
is( sql(q{SELECT done = (SELECT count(DISTINCT job_id) FROM workq.claims WHERE event IN ('acked', 'business_error', 'status', 'cancelled'))
	FROM workq.queue_overview}), 't', 'as many are done as the log says');

# fail and its verdict are one report
is( sql(q{SELECT count(*) FROM
	(SELECT claim_id, event FROM ledger UNION ALL SELECT claim_id, 'acked' FROM work) l FULL JOIN
	(SELECT claim_id, event FROM workq.claims c WHERE event IN ('acked', 'business_error', 'status', 'parked', 'released', 'failed')
		AND NOT (event IN ('business_error', 'status')
			AND EXISTS (SELECT FROM workq.claims f WHERE f.job_id = c.job_id AND f.claim_id = c.claim_id AND f.event = 'failed'))) e
	USING (claim_id, event) WHERE l.claim_id IS NULL OR e.claim_id IS NULL}),
	'0', 'what was committed with an outcome is there when the outcome is, and only then');
is(sql(q{SELECT count(*) - count(DISTINCT claim_id) FROM ledger}), '0', 'each claim was reported once');

# ------------------------------------------------------------------------
# The follower
# ------------------------------------------------------------------------

wait_until(sub {
	$follower->query_safe('CALL follow()');
	return sql('SELECT (SELECT count(*) FROM followed) >= (SELECT count(writer) FROM workq.responses)') eq 't';
}, 'the follower to see all');
is( sql(q{SELECT count(*) FROM followed f FULL JOIN
	(SELECT *, concat_ws('/', writer, job_id, number) AS position FROM workq.responses WHERE writer IS NOT NULL) r
	USING (position, job_id, outcome) WHERE f.n IS NULL OR r.writer IS NULL}),
	'0', 'the follower has seen every response');
is(sql('SELECT count(*) - count(DISTINCT position) FROM followed'), '0', 'each once');
$_->quit foreach $killer, $follower;

# ------------------------------------------------------------------------
# The checker is not blind
# ------------------------------------------------------------------------

sub damaged
{
	my ($event, $sql, $like) = @_;
	my $one = sql("SELECT min(job_id) FROM workq.claims WHERE event = '$event'");

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$sql =~ s/ONE/$one/g;
	return history_sees_ok($node, $sql, $like);
}

foreach my $verdict ('business_error', 'status')
{
	damaged($verdict, "DELETE FROM workq.claims WHERE job_id = ONE AND event = '$verdict'", 'lost%');
	damaged($verdict, "INSERT INTO workq.claims SELECT * FROM workq.claims WHERE job_id = ONE AND event = '$verdict'", 'job that was done more than once');
}
damaged('parked', "DELETE FROM workq.claims WHERE job_id = ONE AND event = 'parked'", 'claim that did not end%');
damaged('parked', "INSERT INTO workq.claims SELECT * FROM workq.claims WHERE job_id = ONE AND event = 'parked'", 'claim that ended more than once');
damaged('unparked', "INSERT INTO workq.claims SELECT * FROM workq.claims WHERE job_id = ONE AND event = 'unparked'", 'the number of an event twice');
damaged('cancelled', "DELETE FROM workq.claims WHERE job_id = ONE AND event = 'cancelled'", 'lost%');
damaged('cancelled', "DELETE FROM workq.responses WHERE job_id = ONE AND outcome = 'cancelled'", 'verdicts and responses differ');
damaged('dead', "DELETE FROM workq.responses WHERE job_id = ONE AND outcome = 'dead'", 'verdicts and responses differ');
my $dead = sql(q{SELECT workq_enqueue('q', '1', max_attempts => 1)});
sql(q{SELECT workq_fail(claim_id, 'E') FROM workq_claim('q', 'w')});
history_ok($node, 'with a dead job');
history_sees_ok($node, "DELETE FROM workq.claims WHERE job_id = $dead AND event = 'dead'", 'place and last event differ');

done_testing();
