# Every selection of randomised runs, recomputed from the log by a second
# implementation of the rules (WorkqReplay).

use strict;
use warnings;
use WorkqReplay;
use WorkqTest;
use Test::More;

my $seed = $ENV{WORKQ_SEED} || 1 + int(rand(1_000_000));
my $steps = $ENV{WORKQ_STEPS} || 1500;
my $node = workq_node('main', 'workq.background_worker = off',
	'autovacuum = off', "log_statement = 'none'");

sub sql { return $node->safe_psql('postgres', @_); }

note("seed $seed; WORKQ_SEED=$seed repeats it, WORKQ_STEPS=n makes it longer");

# A step is one of: some jobs of a tenant, a claim, an outcome, a change of a
# weight or cap, time passing.  Whatever is decided by chance is decided here,
# so that a seed gives the same run.
sql(<<'SQL');
CREATE TABLE short (queue text, at timestamptz, got int);
CREATE PROCEDURE claim(q text, n int) LANGUAGE plpgsql AS $$
DECLARE got int;
BEGIN
    SELECT count(*) INTO got FROM workq_claim(q, 'w', '1 day', max_jobs => n);
    IF got < n THEN INSERT INTO short VALUES (q, workq.clock(), got); END IF;
    COMMIT;
END $$;
CREATE PROCEDURE run(q text, seed float8, steps int, tenants int, bindings int, caps bool, max_jump int) LANGUAGE plpgsql AS $$
DECLARE
    r float8; c uuid; t text; b text; k text; skipped float8 := 0;
BEGIN
    PERFORM setseed(seed);
    FOR i IN 1..steps LOOP
        r := random();
        -- low numbers are deep, high ones come and go
        t := nullif('t' || floor(tenants * random() ^ 2), 't0');
        b := CASE WHEN bindings > 0 THEN nullif('b' || floor(bindings * random() ^ 2), 'b0') END;
        IF r < 0.27 THEN
            PERFORM workq_enqueue(q, '{}', (ARRAY['normal', 'normal', 'high', 'low'])[1 + floor(4 * random())::int], tenant => t, binding => b,
                delay => CASE WHEN random() < 0.03 THEN '3 s'::interval END)
               FROM generate_series(1, 1 + floor(4 * random())::int);
            COMMIT;
        ELSIF r < 0.66 THEN
            CALL claim(q, CASE WHEN random() < 0.8 THEN 1 ELSE 1 + floor(6 * random())::int END);
        ELSIF r < 0.90 THEN
            SELECT l.claim_id INTO c FROM workq.leases l JOIN workq.queues USING (queue_id) WHERE name = q ORDER BY l.job_id
              OFFSET floor(random() * (SELECT count(*) FROM workq.leases JOIN workq.queues USING (queue_id) WHERE name = q)) LIMIT 1;
            r := random();
            IF c IS NULL THEN
                NULL;
            ELSIF r < 0.7 THEN
                PERFORM workq_ack(c);
            ELSIF r < 0.85 THEN
                PERFORM workq_fail(c, retry_in => '5 s');
            ELSE
                PERFORM workq_release(c);
            END IF;
            COMMIT;
        ELSIF r < 0.93 THEN
            k := CASE WHEN bindings = 0 THEN coalesce(t, '') WHEN random() < 0.5 THEN t ELSE coalesce(t, '') || E'\x1F' || coalesce(b, '') END;
            CONTINUE WHEN k IS NULL;
            PERFORM workq_set_key(q, k, weight => floor(6 * random() ^ 2)::int,
                max_concurrent => CASE WHEN caps AND random() < 0.5 THEN 1 + floor(8 * random())::int END);
            COMMIT;
            CALL claim(q, 1);
        ELSIF r < 0.935 THEN
            PERFORM workq_configure(q, quantum => 1 + floor(3 * random())::int);
            COMMIT;
            CALL claim(q, 1);
        ELSIF max_jump > 0 THEN
            skipped := skipped + floor(1000 * max_jump * random());
            PERFORM set_config('workq.clock_offset', skipped || ' ms', false);
            COMMIT;
        END IF;
    END LOOP;
END $$;
SQL

# queue, tenants, bindings of each, caps, longest time that passes at once, settings
my @runs = (
	[ 'tenants', 8, 0, 0, 0, q{starvation_age => '0'} ],
	[ 'weights', 5, 0, 0, 2, q{starvation_age => '0', quantum => 2, weights => 't1:3,t2:5,t4:0'} ],
	[ 'caps', 6, 0, 1, 2, q{starvation_age => '0', max_concurrent_per_key => 6} ],
	[ 'ages', 12, 0, 1, 30, q{starvation_age => '40 s', max_concurrent_per_key => 8, weights => 't1:20,t2:10'} ],
	[ 'ages only', 12, 0, 0, 20, q{starvation_age => '20 s', quantum => 5, weights => 't1:20,t2:10'} ],
	[ 'two levels', 5, 4, 0, 2, q{starvation_age => '0', fairness_key => 'tenant-and-binding', weights => 't1:3'} ],
	[ 'all', 5, 4, 1, 30, q{starvation_age => '30 s', fairness_key => 'tenant-and-binding', max_concurrent_per_key => 5} ]);
my ($promotions, $direct) = (0, 0);
my %short;

foreach (@runs)
{
	my ($queue, $tenants, $bindings, $caps, $jump, $settings) = @$_;
	my $value = (($seed * 7919 + 13) % 1_000_003) / 1_000_003;
	my $result;

	sql("SELECT workq_create_queue('$queue')");
	sql("SELECT workq_configure('$queue', strategy => 'drr', $settings)");
	sql("CALL run('$queue', $value, $steps, $tenants, $bindings, " . ($caps ? 'true' : 'false') . ", $jump)");
	$short{$queue} = [ map { [ split /\|/ ] } split /\n/,
		sql("SELECT (extract(epoch FROM at) * 1000000)::bigint, got FROM short WHERE queue = '$queue' ORDER BY at") ];
	$result = workq_replay($node, $queue, short => $short{$queue}, tolerance => 1);
	is($result->{difference}, undef, "$queue: the log and the rules agree");
	is($result->{selections},
		sql("SELECT count(*) FROM workq.claims JOIN workq.queues USING (queue_id) WHERE name = '$queue' AND event = 'claimed'"),
		"$queue: $result->{selections} selections, $result->{promotions} promotions, $result->{direct} direct, "
		  . @{ $short{$queue} } . ' short calls');
	is(sql("SELECT selections, starvation_promotions_total FROM workq.scheduler WHERE queue = '$queue'"),
		"$result->{selections}|$result->{promotions}", "$queue: the view counts as many");
	$promotions += $result->{promotions};
	$direct += $result->{direct};
}
cmp_ok($promotions, '>', 0, 'starving keys were promoted');
cmp_ok($direct, '>', 0, 'jobs that were due were claimed');
is(sql('SELECT * FROM workq_check()'), '', 'memory and tables agree');

# A checker that finds nothing is none: change one receipt.
my $segment = sql(q{SELECT c.tableoid::regclass FROM workq.claims c JOIN workq.queues USING (queue_id)
	WHERE name = 'tenants' AND event = 'claimed' LIMIT 1});
sql(qq{UPDATE $segment SET credit = credit + 1 WHERE ctid = (SELECT ctid FROM $segment WHERE event = 'claimed'
	AND queue_id = (SELECT queue_id FROM workq.queues WHERE name = 'tenants') ORDER BY at OFFSET 100 LIMIT 1)});
like(workq_replay($node, 'tenants', short => $short{tenants})->{difference} // '', qr/selection (9\d|10[01]) .*expected/,
	'a receipt that is wrong is found');

done_testing();
