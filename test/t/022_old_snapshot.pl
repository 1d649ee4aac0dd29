# An old snapshot is open, nothing can be vacuumed (scenarios 35, 42, 43): what a
# claim reads does not grow with the number of jobs that were claimed before.
# Counts buffers, not time.  A plain SKIP LOCKED table is measured beside it: there
# the number grows, so the measure would show it.

use strict;
use warnings;
use WorkqTest;
use WorkqHistory;
use Test::More;

my $node = workq_node('main', 'autovacuum = off', 'fsync = off', 'synchronous_commit = off');

sub sql { return $node->safe_psql('postgres', @_); }

sql(q{
	SELECT workq_create_queue('q');
	CREATE TABLE plain (id bigint PRIMARY KEY, payload text);
	CREATE TABLE buffers (what text, n integer, hits integer);
	-- the buffers that one statement reads
	CREATE FUNCTION hits(statement text) RETURNS integer LANGUAGE plpgsql AS $$
	DECLARE plan json;
	BEGIN
		EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, FORMAT json) ' || statement INTO plan;
		RETURN (plan->0->'Plan'->>'Shared Hit Blocks')::integer + (plan->0->'Plan'->>'Shared Read Blocks')::integer;
	END $$;
	CREATE PROCEDURE claims(what text, runs integer) LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN 1..runs LOOP
			INSERT INTO buffers SELECT what, i, hits(CASE what WHEN 'plain'
				THEN 'DELETE FROM plain WHERE id = (SELECT id FROM plain ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)'
				ELSE 'SELECT claim_id FROM workq_claim(''q'', ''w'')' END);
			COMMIT;
			PERFORM workq_ack(claim_id) FROM workq.leases WHERE worker = 'w';
			COMMIT;
		END LOOP;
	END $$;
});

# the median of some hundred claims at the beginning and at the end
sub growth
{
	my ($what) = @_;
	my ($first, $last) = split /\|/, sql(qq{
		SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY hits) FILTER (WHERE r BETWEEN 20 AND 200),
			percentile_disc(0.5) WITHIN GROUP (ORDER BY hits) FILTER (WHERE r > n - 200)
		FROM (SELECT hits, row_number() OVER (ORDER BY ctid) AS r, count(*) OVER () AS n FROM buffers WHERE what = '$what') b});
	sql(qq{DELETE FROM buffers WHERE what = '$what'});
	note "$what: $first, then $last buffers";
	return ($first, $last);
}

sub flat
{
	my ($what) = @_;
	my ($first, $last) = growth($what);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return cmp_ok($last, '<=', $first * 1.3 + 3, "$what: a claim reads $first buffers at the start, $last at the end");
}

sub enqueue
{
	my ($n, $priority) = @_;
	return sql(sprintf(q{SELECT count(*) FROM workq_enqueue_batch('q', (SELECT jsonb_agg('{"payload": 1, "priority": "%s"}'::jsonb) FROM generate_series(1, %d)))},
		$priority // 'normal', $n));
}

my $old = session($node);
$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class');

sql(q{INSERT INTO plain SELECT n, repeat('x', 50) FROM generate_series(1, 3000) n});
sql(q{CALL claims('plain', 2500)});
my ($first, $last) = growth('plain');
cmp_ok($last, '>', 3 * $first, "a plain table's claim reads $first buffers at the start, $last at the end");

enqueue(4000);
sql(q{CALL claims('backlog', 3500)});
flat('backlog');

# the queue runs empty and is filled again
sql(q{SELECT count(*) FROM workq_claim('q', 'x', max_jobs => 10000)});
sql(q{CREATE PROCEDURE trickle(runs integer) LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN 1..runs LOOP
			PERFORM workq_enqueue('q', to_jsonb(i));
			COMMIT;
			CALL claims('trickle', 1);
		END LOOP;
	END $$});
sql(q{CALL trickle(2000)});
flat('trickle');

# claims that find nothing
sql(q{CALL claims('empty', 500)});
flat('empty');

# (42) one transaction has claimed jobs and stays open
my $holder = session($node);
enqueue(3000);
$holder->query_safe(q{BEGIN; SELECT count(*) FROM workq_claim('q', 'holder', max_jobs => 50)});
sql(q{CALL claims('open claim', 2500)});
flat('open claim');

# it rolls back: its jobs, below the start hint, come first, and then it goes on as before
$holder->query_safe('ROLLBACK');
is(sql(q{SELECT count(*) FROM workq_claim('q', 'y', max_jobs => 50) c WHERE job_id <= (SELECT min(job_id) + 49 FROM workq.jobs WHERE job_id IN (SELECT job_id FROM workq.ready UNION SELECT job_id FROM workq.leases WHERE worker = 'y'))}),
	'50', 'the jobs of the claim that rolled back come first');
sql(q{SELECT count(*) FROM workq_claim('q', 'y', max_jobs => 10000)});
enqueue(1500);
sql(q{CALL claims('after rollback', 1200)});
flat('after rollback');

# (43) a producer commits late: its jobs have lower ids and times than what was claimed
my $producer = session($node);
sql(q{SELECT count(*) FROM workq_claim('q', 'y', max_jobs => 10000)});
$producer->query_safe(q{BEGIN; SELECT count(*) FROM workq_enqueue_batch('q', (SELECT jsonb_agg('{"payload": "late"}'::jsonb) FROM generate_series(1, 40)))});
enqueue(1500);
sql(q{CALL claims('late commit', 700)});
$producer->query_safe('COMMIT');
sql(q{CALL claims('late commit', 700)});
flat('late commit');

# many producers, and each commits long after it enqueued: at any moment some
# have jobs with lower ids and times than what was claimed last
my @producers = map { session($node) } 1 .. 5;
sql(q{SELECT count(*) FROM workq_claim('q', 'y', max_jobs => 10000)});
my $late = q{SELECT count(*) FROM workq_enqueue_batch('q', (SELECT jsonb_agg('{"payload": "late"}'::jsonb) FROM generate_series(1, 40)))};
$_->query_safe("BEGIN; $late") foreach @producers;
for my $turn (0 .. 39)
{
	$producers[ $turn % 5 ]->query_safe("COMMIT; BEGIN; $late");
	sql(q{CALL claims('late commits', 40)});
}
flat('late commits');
$_->query_safe('COMMIT') foreach @producers;
is(sql(q{SELECT count(*) FROM workq_claim('q', 'y', max_jobs => 10000)}), '200', 'what is claimed last is all that is left');
$_->quit foreach @producers;

# all priorities at once, and releases that keep their place
sql(q{SELECT count(*) FROM workq_claim('q', 'y', max_jobs => 10000)});
enqueue(700, $_) foreach 'low', 'normal', 'high';
sql(q{CREATE PROCEDURE releases(runs integer) LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN 1..runs LOOP
			PERFORM workq_release(claim_id) FROM workq_claim('q', 'z');
			COMMIT;
			CALL claims('release', 1);
		END LOOP;
	END $$});
sql(q{CALL releases(1800)});
flat('release');

is(sql('SELECT count(*) FROM workq.leases WHERE worker = \'w\''), '0', 'all of it was acknowledged');
$old->quit;
$holder->quit;
$producer->quit;
history_ok($node, 'at the end');

done_testing();
