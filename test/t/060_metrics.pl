# Metrics: Prometheus accepts the text, the number of keys is bounded, no
# counter ever falls, whatever comes, goes and rolls back.

use strict;
use warnings;
use WorkqTest;
use Test::More;
use PostgreSQL::Test::Utils;
use IPC::Run;

my $node = workq_node('main', 'workq.metrics_max_keys = 3',
	'workq.max_lanes = 64', 'autovacuum = off');

sub sql { return $node->safe_psql('postgres', @_); }

# The samples of a scrape, by name and labels.
sub scrape
{
	my %samples;

	foreach (split /\n/, sql('SELECT workq_metrics_text()'))
	{
		next if /^#/;
		/^(\S+?(?:\{.*\})?) (\S+)$/s or die "not a sample: $_";
		die "twice: $1" if exists $samples{$1};
		$samples{$1} = $2;
	}
	return %samples;
}

sub of_key
{
	my ($name, $queue, $key) = @_;
	return qq(workq_scheduler_${name}_total{queue="$queue",fairness_dimension="tenant",fairness_key="$key"});
}

# ---- names that need escaping, and names of ours

sql(<<'SQL');
SELECT workq_create_queue(q) FROM unnest(ARRAY['plain', E'q"uo\\te é', 'a,b{c="d"} 1']) q;
SELECT workq_configure(E'q"uo\\te é', strategy => 'drr');
SELECT workq_configure('a,b{c="d"} 1', strategy => 'drr', fairness_key => 'tenant-and-binding');
SQL
foreach my $tenant ('\"', '=', 'other')
{
	sql("SELECT workq_enqueue(q, '{}', tenant => '$tenant', binding => 'b') FROM unnest(ARRAY['plain', E'q\"uo\\\\te é', 'a,b{c=\"d\"} 1']) q");
}
sql(q{SELECT count(*) FROM unnest(ARRAY['plain', E'q"uo\\\\te é', 'a,b{c="d"} 1']) q, LATERAL workq_claim(q, 'w') c});
my $text = sql('SELECT workq_metrics_text()') . "\n";
my %samples = scrape();
my $label = 'workq_scheduler_selections_total{queue="q\"uo\\\\te é",fairness_dimension="tenant",fairness_key=';
foreach my $key ('\\\\\"', '==', '=other')
{
	ok(exists $samples{"$label\"$key\"}"}, "there is a label $key");
}

SKIP:
{
	my $promtool = (grep { -x } map { "$_/promtool" } split /:/, $ENV{PATH})[0];
	my $out = '';

	skip 'promtool is not installed', 2 unless $promtool;
	my $ok = IPC::Run::run([ $promtool, 'check', 'metrics' ],
		'<', \$text, '>&', \$out);
	ok($ok, 'promtool check metrics');
	is($out, '', 'it has nothing to say');
}

# ---- a bounded number of keys

sql(q{SELECT workq_create_queue('bounded');
	SELECT workq_configure('bounded', strategy => 'drr', starvation_age => '0', max_concurrent_per_key => 2)});
sql("SELECT workq_enqueue('bounded', '{}', tenant => 't$_') FROM generate_series(1, 10)") foreach 1 .. 6;
sql(q{SELECT count(*) FROM workq_claim('bounded', 'w', max_jobs => 11)});
sql(q{SELECT count(*) FROM workq_claim('bounded', 'w')});
%samples = scrape();
is(join(' ', map { $samples{ of_key('selections', 'bounded', $_) } // 'none' } qw(t1 t2 t3 t4 t5 t6 other)),
	'2 2 2 none none none 6', 'three keys, the others together');
is(join(' ', map { $samples{ of_key('deferrals', 'bounded', $_) } // 'none' } qw(t1 t2 t3 t4 t5 t6 other)),
	'5 4 3 none none none 3', 'deferrals, too');
is(sql(q{SELECT selections, deferrals FROM workq.scheduler WHERE queue = 'bounded'}),
	'12|15', 'they add up to the totals');
is(sql(q{SELECT string_agg(deferred_total::text, ' ' ORDER BY fairness_key) FROM workq.scheduler_keys WHERE queue = 'bounded'}),
	'5 4 3 2 1 0', 'deferrals in the view');

# Nothing left: the lanes go, the counters stay.
sql(q{SELECT workq_purge('bounded', confirm => true)});
sql(q{SELECT count(workq_ack(claim_id)) FROM workq.active_claims WHERE queue = 'bounded'});
foreach (1 .. 9)
{
	sql(q{SELECT workq_enqueue('bounded', '{}', tenant => 't9')});
	sql(q{SELECT workq_ack(claim_id) FROM workq_claim('bounded', 'w')});
}
cmp_ok(sql(q{SELECT count(*) FROM workq.scheduler_keys WHERE queue = 'bounded'}), '<', 6, 'lanes have gone');
%samples = scrape();
is(join(' ', map { $samples{ of_key('selections', 'bounded', $_) } // 'none' } qw(t1 t2 t3 other)),
	'2 2 2 15', 'their counters have not');
is(join(' ', map { $samples{ of_key('deferrals', 'bounded', $_) } // 'none' } qw(t1 t2 t3 other)),
	'5 4 3 3', 'nor their deferrals');

# ---- nothing falls

sql(<<'SQL');
SELECT workq_create_queue('churn');
SELECT workq_configure('churn', strategy => 'drr', max_concurrent_per_key => 1, starvation_age => '1 ms');
CREATE PROCEDURE churn(n int) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1..n LOOP
        PERFORM workq_enqueue('churn', '{}', tenant => 't' || floor(40 * random() ^ 2)) FROM generate_series(1, 4);
        COMMIT;
        PERFORM FROM workq_claim('churn', 'w', max_jobs => 1 + floor(4 * random())::int) c
          WHERE CASE WHEN random() < 0.9 THEN workq_ack(c.claim_id) ELSE workq_release(c.claim_id) END;
        IF random() < 0.3 THEN ROLLBACK; ELSE COMMIT; END IF;
    END LOOP;
END $$;
SQL
my @sessions = map { session($node) } 1 .. 3;
start_query($_, 'CALL churn(2500)') foreach @sessions;
my %before = scrape();
my ($scrapes, @fell) = (0);
my $raised = 0;
while (sql(q{SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE 'CALL churn%' AND state = 'active'}) eq 't')
{
	my %now = scrape();

	$scrapes++;
	foreach (grep { /^\w+_total\b/ } keys %before)
	{
		push @fell, "$_: $before{$_}, then " . ($now{$_} // 'nothing')
		  if !exists $now{$_} || $now{$_} < $before{$_};
	}
	%before = %now;

	# a foreign hand: all is loaded anew
	sql('DELETE FROM workq.ready WHERE false') if $scrapes % 5 == 0;
	if ($scrapes == 6)
	{
		$node->append_conf('postgresql.conf', 'workq.metrics_max_keys = 10');
		$node->reload;
	}
}
foreach (@sessions)
{
	my (undef, $err) = end_query($_);
	is($err, '', 'no error under load');
	$_->quit;
}
is(join("\n", @fell), '', "no counter fell in $scrapes scrapes");
%samples = scrape();
my ($sum, $keys) = (0, 0);
foreach (grep { /selections_total\{queue="churn"/ } keys %samples)
{
	$sum += $samples{$_};
	$keys++;
}
cmp_ok($keys, '<=', 11, 'keys are bounded');
is($sum, sql(q{SELECT count(*) FROM workq.claims WHERE event = 'claimed' AND queue_id =
		(SELECT queue_id FROM workq.queues WHERE name = 'churn')}),
	'selections are the claims in the log');
is(sql(q{SELECT selections FROM workq.scheduler WHERE queue = 'churn'}), $sum, 'and so says the view');
is($samples{'workq_queue_jobs{queue="churn",state="ready"}'},
	sql(q{SELECT count(*) FROM workq.ready JOIN workq.queues USING (queue_id) WHERE name = 'churn'}),
	'ready jobs are counted');
is(sql('SELECT * FROM workq_check()'), '', 'memory and tables agree');

# ---- a queue that goes takes its metrics with it

sql(q{SELECT workq_drop_queue('churn', true)});
ok(!(grep { /churn/ } keys %{ { scrape() } }), 'none of a dropped queue');
sql(q{SELECT workq_create_queue('churn');
	SELECT workq_configure('churn', strategy => 'drr');
	SELECT workq_enqueue('churn', '{}', tenant => 't1')});
sql(q{SELECT count(*) FROM workq_claim('churn', 'w')});
%samples = scrape();
is($samples{ of_key('selections', 'churn', 't1') }, 1, 'another of that name begins at 0');

done_testing();
