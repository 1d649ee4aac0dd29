# Fair share and caps with many sessions: scenarios 18 to 21, 23, 24, 40
# and 45.

use strict;
use warnings;
use IPC::Run;
use WorkqTest;
use Test::More;
use Time::HiRes qw(usleep);

my $node = workq_node('main', 'log_statement = none');
my $dir = PostgreSQL::Test::Utils::tempdir();

sub sql { return $node->safe_psql('postgres', @_); }

sub check_clean
{
	my ($what) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(sql(q{SET lock_timeout = '60 s'; SELECT * FROM workq_check()}), '',
		"$what: memory says what the tables say");
}

sub make_queue
{
	my ($queue, $options, %jobs) = @_;

	sql(qq{SELECT workq_create_queue('$queue'); SELECT workq_configure('$queue', $options)});
	foreach my $tenant (sort keys %jobs)
	{
		sql(qq{SELECT count(*) FROM workq_enqueue_batch('$queue',
			(SELECT jsonb_agg(jsonb_build_object('payload', i, 'tenant', '$tenant')) FROM generate_series(1, $jobs{$tenant}) i))});
	}
	return;
}

# pgbench with one statement, started; finish it with ->finish
sub pgbench
{
	my ($name, $statement, @options) = @_;
	my $file = "$dir/$name.sql";
	my ($in, $out) = ('', '');

	local $ENV{PGAPPNAME} = 'pgbench';

	PostgreSQL::Test::Utils::append_to_file($file, "$statement\n") unless -f $file;
	return IPC::Run::start(
		[ 'pgbench', '-n', '-h', $node->host, '-p', $node->port, '-f', $file, @options, 'postgres' ],
		\$in, '>&', \$out);
}

# Run these pgbenchs, again and again, until so many of their sessions have been
# killed.
sub run_killing
{
	my ($victims, $start) = @_;
	my $killer = session($node);
	my $killed = 0;
	my $runs = 0;

	# who is gone already is told in a warning
	$killer->query_safe(q{SET client_min_messages = error});
	while ($killed < $victims && $runs++ < 20)
	{
		my @running = $start->();

		while (grep { $_->pumpable } @running)
		{
			$killed += $killer->query_safe(q{SELECT count(pg_terminate_backend(pid)) FROM
				(SELECT pid FROM pg_stat_activity WHERE application_name = 'pgbench' ORDER BY random() LIMIT 1) x}) if $killed < $victims;
			usleep(100_000);
			$_->pump_nb foreach grep { $_->pumpable } @running;
		}
		$_->finish foreach @running;
	}
	$killer->quit;
	wait_for($node, q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench'}, '0');
	return is($killed, $victims, "$killed sessions were killed in $runs runs");
}

sub shares
{
	my ($table) = @_;

	return map { my ($t, $n) = split /\|/; $t => $n }
	  split /\n/, sql("SELECT tenant, count(*) FROM $table GROUP BY tenant ORDER BY tenant");
}

sql(q{CREATE TABLE served (queue text, tenant text);

-- one claim, and what becomes of it: rolled back, or acked and committed
CREATE PROCEDURE half(q text) LANGUAGE plpgsql AS $$
DECLARE
	c record;
BEGIN
	SELECT claim_id, tenant INTO c FROM workq_claim(q, 'w', '1 day');
	IF random() < 0.5 THEN
		ROLLBACK;
	ELSE
		INSERT INTO served VALUES (q, c.tenant);
		PERFORM workq_ack(c.claim_id);
		COMMIT;
	END IF;
END $$;

-- any course that a worker can take
CREATE PROCEDURE work(q text) LANGUAGE plpgsql AS $$
DECLARE
	c uuid;
	course int := floor(random() * 7);
BEGIN
	SELECT claim_id INTO c FROM workq_claim(q, 'w', '1 s');
	IF c IS NULL THEN
		RETURN;
	ELSIF course = 0 THEN
		ROLLBACK;
	ELSIF course = 1 THEN
		PERFORM workq_ack(c);
		ROLLBACK;
	ELSIF course = 2 THEN
		PERFORM workq_ack(c);
		PERFORM claim_id FROM workq_claim(q, 'w', '1 s');
	ELSIF course = 3 THEN
		COMMIT;
		PERFORM workq_release(c, on_lost => 'report');
		ROLLBACK;
		PERFORM workq_fail(c, retry_in => '0', on_lost => 'report');
	ELSIF course = 4 THEN
		BEGIN
			PERFORM claim_id FROM workq_claim(q, 'w', '1 s', max_jobs => 2);
			RAISE division_by_zero;
		EXCEPTION WHEN division_by_zero THEN
			PERFORM workq_ack(c);
		END;
	ELSE
		COMMIT;
		PERFORM workq_ack(c, on_lost => 'report');
	END IF;
END $$});

# ------------------------------------------------------------------------
# 18. A cap is never exceeded
# ------------------------------------------------------------------------

make_queue('caps', q{strategy => 'drr', max_concurrent_per_key => 3}, map { $_ => 3000 } qw(a b c d));
sql('CREATE TABLE stop ()');
my $observer = session($node);
start_query($observer, q{DO $$
DECLARE
	most bigint;
	worst bigint := 0;
	looks int := 0;
BEGIN
	WHILE NOT EXISTS (SELECT FROM stop) LOOP
		SELECT max(n) INTO most FROM (SELECT count(*) AS n FROM workq.leases GROUP BY queue_id, lane) x;
		worst := greatest(worst, most);
		looks := looks + 1;
	END LOOP;
	RAISE WARNING 'worst % in % looks', worst, looks > 10;
END $$});
run_killing(8, sub { return map { pgbench('work', q{CALL work('caps')}, '-c', '8', '-t', '200') } 1 .. 8 });
sql('INSERT INTO stop DEFAULT VALUES');
my ($out, $err) = end_query($observer);
like($err, qr/worst [123] in t/, 'no more than 3 leases of a key, whenever somebody looks');
check_clean('caps');
# those of killed sessions run out
wait_for($node, 'SELECT count(*) FROM workq.leases', '0');
sql(q{SELECT count(*) FROM workq_claim('caps', 'w', '1 day', max_jobs => 4)});
is( sql(q{SELECT sum(in_flight) = (SELECT count(*) FROM workq.leases), sum(in_flight) BETWEEN 1 AND 12
	FROM workq.scheduler_keys WHERE queue = 'caps'}), 't|t', 'in flight are the leases');
$observer->quit;

# the same in fifo
make_queue('fifo', q{max_concurrent_per_key => 1}, a => 500, b => 500);
my @clients = map { pgbench('fifo', q{CALL work('fifo')}, '-c', '4', '-t', '100') } 1 .. 2;
my $worst = 0;
wait_until(sub {
	my $n = sql(q{SELECT max(n) FROM (SELECT count(*) AS n FROM workq.leases l JOIN workq.queues q USING (queue_id)
		WHERE q.name = 'fifo' GROUP BY lane) x});
	$worst = $n if $n ne '' && $n > $worst;
	$_->pump_nb foreach grep { $_->pumpable } @clients;
	return !grep { $_->pumpable } @clients;
}, 'pgbench');
$_->finish foreach @clients;
cmp_ok($worst, '<=', 1, 'fifo: no more than one');
check_clean('fifo');

# ------------------------------------------------------------------------
# 19. A key at its cap does not block others: the pages that a claim looks at
# ------------------------------------------------------------------------

for my $strategy ('drr', 'fifo')
{
	make_queue("full $strategy", qq{strategy => '$strategy', max_concurrent_per_key => 1}, a => 20_000);
	make_queue("only $strategy", qq{strategy => '$strategy', max_concurrent_per_key => 1}, b => 1);
	my $s = session($node);
	my %pages;

	is($s->query_safe("SELECT tenant FROM workq_claim('full $strategy', 'w', '1 day')"), 'a', "$strategy: a is at its cap");
	for my $round (1 .. 9)
	{
		for my $queue ("full $strategy", "only $strategy")
		{
			$s->query_safe("SELECT workq_enqueue('$queue', '{}', tenant => 'b')") if $round > 1 || $queue =~ /full/;
			my $plan = $s->query_safe("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT workq_ack(claim_id) FROM workq_claim('$queue', 'w', '1 day')");

			push @{ $pages{$queue} }, $plan =~ /"Shared Hit Blocks": (\d+)/ ? $1 : die $plan;
			like($plan, qr/"Actual Rows": 1\b/, "$strategy: $queue, b is claimed") if $round == 9;
		}
	}
	my ($full, $only) = map { (sort { $a <=> $b } @{ $pages{"$_ $strategy"} })[4] } 'full', 'only';
	cmp_ok($full, '<=', 1.5 * $only, "$strategy: $full pages, $only without a");
	$s->quit;
}

# ------------------------------------------------------------------------
# 40. Many debtors: the pages that a claim looks at
# ------------------------------------------------------------------------

my %debt;

sql(q{CREATE PROCEDURE take(q text, n int) LANGUAGE plpgsql AS $$
BEGIN
	WHILE n > 0 LOOP
		PERFORM FROM workq_claim(q, 'w', '1 day', max_jobs => least(n, 100));
		COMMIT;
		n := n - 100;
	END LOOP;
END $$});
for my $n (10, 10_000)
{
	my $queue = "debt $n";
	my $s = session($node);
	my @pages;

	# the heavy key keeps the round open while the others are served once in
	# their turn, and once more because they starve: then each owes a round
	make_queue($queue, q{strategy => 'drr', weights => 'heavy:1000000', starvation_age => '30 min'}, heavy => 1000 + 2 * $n);
	sql(qq{SELECT count(*) FROM workq_enqueue_batch('$queue',
		(SELECT jsonb_agg(jsonb_build_object('payload', j, 'tenant', i::text)) FROM generate_series(1, $n) i, generate_series(1, 3) j))});
	$s->query_safe("CALL take('$queue', 2 * $n + 1)");
	$s->query_safe("SET workq.clock_offset = '1 h'; CALL take('$queue', $n + 1)");
	is($s->query_safe("SELECT count(*) FROM workq_scheduler_keys('$queue', 100000) WHERE deficit = -1"), $n, "$n keys owe a round");
	$s->query_safe(q{SET workq.clock_offset = '3 h'});
	for my $claim (1 .. 25)
	{
		my $plan = $s->query_safe("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT tenant FROM workq_claim('$queue', 'w', '1 day')");

		push @pages, $plan =~ /"Shared Hit Blocks": (\d+)/ ? $1 : die $plan;
	}
	is($s->query_safe(qq{SELECT count(DISTINCT fairness_key), min(fairness_key), min(decision) FROM (SELECT c.* FROM workq.claims c JOIN workq.queues USING (queue_id)
		WHERE name = '$queue' AND event = 'claimed' ORDER BY at DESC LIMIT 25) c}), '1|heavy|fair-share', 'they wait, however long');
	$debt{$n} = (sort { $a <=> $b } @pages)[12];
	$s->quit;
}
cmp_ok($debt{10_000}, '<=', 1.5 * $debt{10}, "a claim reads $debt{10_000} pages among 10,000 debtors, $debt{10} among 10");
check_clean('debtors');

# ------------------------------------------------------------------------
# 20. A random half rolls back
# ------------------------------------------------------------------------

make_queue('half', q{strategy => 'drr', weights => 'a:3', starvation_age => '0'}, a => 40_000, b => 14_000);
# enough claims that chance stays far below 5 %
run_killing(3, sub { return pgbench('half', q{CALL half('half')}, '-c', '32', '-t', '1000') });
my %n = shares('served');
my $total = $n{a} + $n{b};
note("of $total, a has $n{a}");
cmp_ok(abs($n{a} / $total - 0.75), '<', 0.05 * 0.75, 'the committed ones are shared 3:1');
cmp_ok(abs($n{b} / $total - 0.25), '<', 0.05 * 0.25, 'of both');
is( sql(q{SELECT sum(selected_total) FROM workq.scheduler_keys WHERE queue = 'half'}), $total,
	'selected_total is what was committed');
check_clean('half');

# ------------------------------------------------------------------------
# 21. A new connection for each claim
# ------------------------------------------------------------------------

make_queue('short', q{strategy => 'drr'}, map { $_ => 60 } 'a' .. 'j');
pgbench('short', q{SELECT count(*) FROM workq_claim('short', 'w', '1 day')}, '-C', '-c', '1', '-t', '300')->finish;
is(sql(q{SELECT string_agg(lane || ':' || n, ' ' ORDER BY lane) FROM
	(SELECT lane, count(*) AS n FROM workq.leases JOIN workq.queues USING (queue_id) WHERE name = 'short' GROUP BY lane) x}),
	join(' ', map { "$_:30" } 'a' .. 'j'), '30 each');

# ------------------------------------------------------------------------
# 23. Nothing is left while jobs are ready
# ------------------------------------------------------------------------

make_queue('all', q{strategy => 'drr', max_concurrent_per_key => 2}, map { $_ => 3 } 1 .. 300);
@clients = map { pgbench('all', q{CALL work('all')}, '-c', '4', '-t', '300') } 1 .. 2;
$_->finish foreach @clients;
wait_until(sub {
	sql(q{SELECT count(workq_ack(claim_id, on_lost => 'report')) FROM workq_claim('all', 'w', '1 min', max_jobs => 100)});
	return sql(q{SELECT count(*) FROM workq.queues q WHERE name = 'all' AND
		(EXISTS (SELECT FROM workq.ready r WHERE r.queue_id = q.queue_id) OR
		 EXISTS (SELECT FROM workq.leases r WHERE r.queue_id = q.queue_id) OR
		 EXISTS (SELECT FROM workq.scheduled r WHERE r.queue_id = q.queue_id))}) eq '0';
}, 'all jobs are served');
is(sql(q{SELECT count(*) FROM workq.responses r JOIN workq.queues q USING (queue_id) WHERE q.name = 'all' AND outcome = 'succeeded'}),
	'900', 'all jobs are served, once each');
check_clean('all');

# ------------------------------------------------------------------------
# 45. Eight clients, SERIALIZABLE
# ------------------------------------------------------------------------

make_queue('serializable', q{strategy => 'drr', max_concurrent_per_key => 4}, map { $_ => 200 } 'a' .. 'e');
my ($told, $nothing) = ('', '');
{
	local $ENV{PGOPTIONS} = '-c default_transaction_isolation=serializable';
	my $file = "$dir/serializable.sql";

	PostgreSQL::Test::Utils::append_to_file($file, q{
BEGIN;
SELECT workq_enqueue('serializable', '{}', tenant => 'f');
SELECT workq_ack(claim_id) FROM workq_claim('serializable', 'w', '1 day');
COMMIT;
});
	IPC::Run::run([ 'pgbench', '-n', '-h', $node->host, '-p', $node->port, '-f', $file, '-c', '8', '-t', '100', 'postgres' ],
		\$nothing, '>&', \$told);
}
unlike($told, qr/could not serialize|40001|ERROR|number of failed transactions: [1-9]/, 'SERIALIZABLE transactions do not fail because of each other');
is(sql(q{SELECT count(*) FROM workq.responses JOIN workq.queues USING (queue_id) WHERE name = 'serializable' AND outcome = 'succeeded'}),
	'800', 'each has acked a job');

# ------------------------------------------------------------------------
# 24. Restarts in the middle of a round
# ------------------------------------------------------------------------

make_queue('restart', q{strategy => 'drr', weights => 'a:5, b:2', starvation_age => '0'}, a => 300, b => 300, c => 300);
my $rounds = 0;
for my $mode ('fast', 'immediate')
{
	for my $n (3, 13, 16)
	{
		sql(qq{SELECT count(*) FROM workq_claim('restart', 'w', '1 day')}) for 1 .. $n;
		$rounds += $n / 8;
		$node->stop($mode);
		$node->start;
	}
	my %got = map { my ($t, $n) = split /\|/; $t => $n } split /\n/,
	  sql(q{SELECT lane, count(*) FROM workq.leases JOIN workq.queues USING (queue_id) WHERE name = 'restart' GROUP BY lane});
	my %weight = (a => 5, b => 2, c => 1);

	for my $t (qw(a b c))
	{
		cmp_ok(abs(($got{$t} // 0) - $rounds * $weight{$t}), '<=', 2 * $weight{$t} * ($mode eq 'fast' ? 3 : 6),
			"$mode: $t is within two rounds for each restart");
	}
	check_clean("restarts, $mode");
}
is(sql(q{SELECT count(*) FROM workq_claim('restart', 'w', '1 day', max_jobs => 1000)}), 900 - 64, 'no ready job is unknown');

done_testing();
