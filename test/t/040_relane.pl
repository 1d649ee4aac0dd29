# The form of a queue's lanes changes: every job gets to the right lane, none is
# lost, and caps hold for every claim made under the new form, whatever was open
# at the change.

use strict;
use warnings;
use IPC::Run;
use WorkqTest;
use Test::More;

my $node = workq_node('main');

sub sql { return $node->safe_psql('postgres', @_); }

# the background worker moves rows; here it must not, until we say so
sub worker
{
	my ($on) = @_;

	sql("ALTER SYSTEM SET workq.background_worker = $on");
	sql('SELECT pg_reload_conf()');
	wait_for($node,
		q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'workq worker'},
		$on eq 'on' ? '1' : '0');
	return;
}

sub check_clean
{
	my ($what) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(sql(q{SET lock_timeout = '60 s'; SELECT * FROM workq_check()}), '', "$what: memory says what the tables say");
}

sub lanes
{
	my ($table, $queue) = @_;

	return sql(qq{SELECT replace(string_agg(lane || ':' || n, ' ' ORDER BY lane), e'\\x1f', '/')
		FROM (SELECT lane, count(*) AS n FROM workq.$table JOIN workq.queues USING (queue_id)
			WHERE name = '$queue' GROUP BY lane) x});
}

sub enqueue
{
	my ($queue, $tenant, $more) = @_;

	return sql(qq{SELECT workq_enqueue('$queue', '{}', tenant => '$tenant' } . ($more // '') . ')');
}

# tenants in the order in which they are claimed
sub claim
{
	my ($queue, $n) = @_;

	return sql(qq{SELECT string_agg(tenant, '' ORDER BY ord)
		FROM workq_claim('$queue', 'w', '1 day', max_jobs => $n) WITH ORDINALITY AS c(claim_id, job_id, queue, payload,
			headers, tenant, binding, trigger_id, priority, attempt, failures, max_attempts, deadline, enqueued_at,
			selected_at, waited, fairness_key, decision, promotion_deadline, round, credit, weight, policy_version,
			correlation, ord)});
}

sub ack_all
{
	my ($queue) = @_;

	return sql(qq{SELECT count(workq_ack(claim_id)) FROM workq.active_claims WHERE queue = '$queue'});
}

worker('off');

# ------------------------------------------------------------------------
# One transaction
# ------------------------------------------------------------------------

my $job = enqueue('one', 'a', ", binding => 'x'");
enqueue('one', 'a', ", binding => 'y'");
enqueue('one', 'b', ", binding => 'x'");
is(lanes('ready', 'one'), ':3', 'fifo has one lane');
sql(q{SELECT workq_configure('one', strategy => 'drr')});
is(lanes('ready', 'one'), 'a:2 b:1', 'drr by tenant');
check_clean('drr');
sql(q{SELECT workq_configure('one', fairness_key => 'tenant-and-binding')});
is(lanes('ready', 'one'), 'a/x:1 a/y:1 b/x:1', 'by tenant and binding');
is(sql("SELECT state FROM workq_job($job)"), 'ready', 'a moved job is found');
is(claim('one', 1), 'a', 'a claim');
is(lanes('leases', 'one'), 'a/x:1', 'in its lane');
sql(q{SELECT workq_configure('one', fairness_key => 'binding')});
is(lanes('ready', 'one'), 'x:1 y:1', 'by binding');
is(lanes('leases', 'one'), 'x:1', 'leases, too');
check_clean('by binding');
is(ack_all('one'), '1', 'the moved lease ends');
check_clean('ack');
sql(q{SELECT workq_reset('one')});
is(lanes('ready', 'one'), ':2', 'inherits fifo again');
$job = sql(q{SELECT min(job_id) FROM workq.ready});
sql(q{SELECT workq_configure('one', strategy => 'drr', fairness_key => 'trigger-id')});
is(sql("SELECT workq_cancel($job)"), 'cancelled', 'a moved job is cancelled');
check_clean('cancel');
is(claim('one', 9), 'b', 'the other is claimed');
ack_all('one');

# ------------------------------------------------------------------------
# Rolled back
# ------------------------------------------------------------------------

enqueue('back', $_) foreach qw(a a b);
is(claim('back', 1), 'a', 'a claim before');
for my $undo ('ROLLBACK', 'ROLLBACK TO s; COMMIT')
{
	sql(qq{BEGIN; SAVEPOINT s;
		SELECT workq_configure('back', strategy => 'drr', max_concurrent_per_key => 1);
		SELECT workq_enqueue('back', '{}', tenant => 'c');
		SELECT count(*) FROM workq_claim('back', 'w', '1 day', max_jobs => 9);
		$undo});
	is(lanes('ready', 'back'), ':2', "$undo: the old form");
	is(lanes('leases', 'back'), ':1', "$undo: of leases");
	check_clean($undo);
}
is(claim('back', 9), 'ab', 'all are there');

# ------------------------------------------------------------------------
# Transactions that are open at the change
# ------------------------------------------------------------------------

my $s = session($node);
my $claimer = session($node);

enqueue('open', $_) foreach qw(a a b);
$s->query_safe('BEGIN');
$s->query_safe(q{SELECT workq_enqueue('open', '{}', tenant => t, priority => 'high') FROM unnest(ARRAY['a', 'a', 'b', 'c']) t});
$claimer->query_safe('BEGIN');
is($claimer->query_safe(q{SELECT tenant FROM workq_claim('open', 'w', '1 day')}), 'a', 'a claim stays open');
sql(q{SELECT workq_configure('open', strategy => 'drr', max_concurrent_per_key => 2)});
is(lanes('ready', 'open'), ':1 a:1 b:1', 'the others have moved');
$s->query_safe('COMMIT');
is(lanes('ready', 'open'), ':5 a:1 b:1', 'rows of the old form come in');
is(claim('open', 1), 'a', 'a claim from the old lane');
is(lanes('leases', 'open'), 'a:1', 'counts in the right lane');
is(join('', sort split //, claim('open', 9)), 'abbc', 'the cap holds for what comes from old lanes');
is(claim('open', 9), '', 'and no more');
$claimer->query_safe('COMMIT');
is(lanes('leases', 'open'), ':1 a:2 b:2 c:1', 'the claim that was open counts in the old lane');
check_clean('a claim of the old form');
ack_all('open');
check_clean('acks');
is(claim('open', 9), 'a', 'the last');
ack_all('open');

# a rolled back claim from an old lane leaves nothing
enqueue('roll', 'a');
$s->query_safe('BEGIN');
$s->query_safe(q{SELECT workq_enqueue('roll', '{}', tenant => t) FROM unnest(ARRAY['a', 'b', 'c']) t});
sql(q{SELECT workq_configure('roll', strategy => 'drr', max_concurrent_per_key => 1)});
$s->query_safe('COMMIT');
check_clean('rows of the old form');
sql(q{BEGIN; SELECT count(*) FROM workq_claim('roll', 'w', '1 day', max_jobs => 9); ROLLBACK});
check_clean('rolled back claims from an old lane');
sql(q{BEGIN; SELECT count(*) FROM workq_claim('roll', 'w', '1 day'); SAVEPOINT x;
	SELECT count(*) FROM workq_claim('roll', 'w', '1 day', max_jobs => 9); ROLLBACK TO x; COMMIT});
check_clean('partly rolled back');
ack_all('roll');
my $old_form = q{SELECT count(*) FROM workq.ready JOIN workq.queues USING (queue_id) WHERE name = 'roll' AND (flags >> 4) & 7 <> 1};
cmp_ok(sql($old_form), '>=', 2, 'rows of the old form are left');

# now the worker, though somebody is still open
my $late = session($node);
$late->query_safe('BEGIN');
$late->query_safe(q{SELECT workq_enqueue('roll', '{}', tenant => 'd')});
worker('on');
wait_for($node, $old_form, '0');
pass('the worker moves what is left');
$late->query_safe('COMMIT');
check_clean('the worker');

enqueue('wait', 'w1');
$late->query_safe('BEGIN');
$late->query_safe(q{SELECT workq_enqueue('wait', '{}', tenant => 'late')});
sql(q{SELECT workq_configure('wait', strategy => 'drr')});
enqueue('wait', 'w2');
is(lanes('ready', 'wait'), 'w1:1 w2:1', 'without the open one');
$late->query_safe('COMMIT');
wait_for($node, q{SELECT string_agg(lane, ' ' ORDER BY lane) FROM workq.ready JOIN workq.queues USING (queue_id)
	WHERE name = 'wait'}, 'late w1 w2');
pass('and with it, when it has committed');
check_clean('waited');

# there and back again, with a transaction open all the time
$late->query_safe('BEGIN');
$late->query_safe(q{SELECT workq_enqueue('wait', '{}', tenant => 'l2')});
sql(q{SELECT workq_configure('wait', strategy => 'fifo')});
$s->query_safe('BEGIN');
$s->query_safe(q{SELECT workq_enqueue('wait', '{}', tenant => 'l3')});
sql(q{SELECT workq_configure('wait', strategy => 'drr')});
$late->query_safe('COMMIT');
$s->query_safe('COMMIT');
wait_for($node, q{SELECT string_agg(lane, ' ' ORDER BY lane) FROM workq.ready JOIN workq.queues USING (queue_id)
	WHERE name = 'wait'}, 'l2 l3 late w1 w2');
pass('there and back again');

# ------------------------------------------------------------------------
# Jobs that are elsewhere
# ------------------------------------------------------------------------

enqueue('else', 'lease');
enqueue('else', 'dead', ', max_attempts => 1');
is(claim('else', 2), 'leasedead', 'claimed');
sql(q{SELECT workq_fail(claim_id, 'E') FROM workq.active_claims WHERE queue = 'else'
	AND job_id = (SELECT max(job_id) FROM workq.leases JOIN workq.queues USING (queue_id) WHERE name = 'else')});
enqueue('else', 'delay', q{, delay => '1 hour'});
sql(q{SELECT workq_configure('else', strategy => 'drr')});
sql(q{SELECT workq_release(claim_id) FROM workq.active_claims WHERE queue = 'else'});
sql(q{SELECT workq_requeue_all('else')});
is(lanes('ready', 'else'), 'dead:1 lease:1', 'from leases and held into the new lanes');
is(sql(q{SET workq.clock_offset = '2 h'; SELECT count(*) FROM workq_claim('else', 'w', '1 day', max_jobs => 3)}), '3',
	'one that is due is claimed');
is(lanes('leases', 'else'), 'dead:1 delay:1 lease:1', 'in its new lane');
check_clean('elsewhere');
ack_all('else');

# taken back and moved to ready by the worker
enqueue('back2', 'x');
enqueue('back2', 'y', q{, delay => '1 hour'});
sql(q{SELECT workq_configure('back2', max_concurrent_per_key => 5)});
sql(q{SET workq.clock_offset = '-1 h'; SELECT count(*) FROM workq_claim('back2', 'w', '1 min')});
wait_for($node, q{SELECT string_agg(lane, ' ') FROM workq.ready JOIN workq.queues USING (queue_id) WHERE name = 'back2'}, 'x');
pass('taken back into the new lane');

# ------------------------------------------------------------------------
# Server-wide settings
# ------------------------------------------------------------------------

enqueue('inherits', $_) foreach qw(a a b);
sql(q{SELECT workq_configure('own', strategy => 'fifo')}) if sql(q{SELECT workq_create_queue('own')}) eq 't';
enqueue('own', 'a');
sql(q{ALTER SYSTEM SET workq.strategy = 'drr'});
sql('SELECT pg_reload_conf()');
wait_for($node, q{SELECT string_agg(lane, ' ' ORDER BY lane) FROM workq.ready JOIN workq.queues USING (queue_id)
	WHERE name = 'inherits'}, 'a a b');
is(lanes('ready', 'own'), ':1', 'a queue with a value of its own stays as it is');
is(claim('inherits', 3), 'aba', 'and the others take turns');
check_clean('reload');
sql(q{ALTER SYSTEM RESET workq.strategy});
sql('SELECT pg_reload_conf()');
wait_for($node, q{SELECT string_agg(DISTINCT lane, ' ') FROM workq.leases JOIN workq.queues USING (queue_id)
	WHERE name = 'inherits'}, '');
check_clean('reload back');
ack_all('inherits');

# ------------------------------------------------------------------------
# A restart in between
# ------------------------------------------------------------------------

worker('off');
$late->query_safe('BEGIN');
$late->query_safe(q{SELECT workq_enqueue('restart', '{}', tenant => t) FROM unnest(ARRAY['p', 'q']) t});
$late->query_safe('COMMIT');
$late->query_safe('BEGIN');
$late->query_safe(q{SELECT workq_enqueue('restart', '{}', tenant => 'r')});
sql(q{SELECT workq_configure('restart', strategy => 'drr')});
$late->query_safe('COMMIT');
$_->quit foreach $late, $s, $claimer;
is(lanes('ready', 'restart'), ':1 p:1 q:1', 'one of the old form');
$node->restart;
check_clean('after a restart');
worker('on');
wait_for($node, q{SELECT string_agg(lane, ' ' ORDER BY lane) FROM workq.ready JOIN workq.queues USING (queue_id)
	WHERE name = 'restart'}, 'p q r');
pass('is moved after a restart');
check_clean('and then');

# ------------------------------------------------------------------------
# While many work
# ------------------------------------------------------------------------

my $flow = PostgreSQL::Test::Utils::tempdir() . '/flow.sql';
PostgreSQL::Test::Utils::append_to_file($flow, q{CALL flow('flow');});
sql(q{CREATE PROCEDURE flow(q text) LANGUAGE plpgsql AS $$
DECLARE
	c uuid;
	course int := floor(random() * 6);
BEGIN
	PERFORM workq_enqueue(q, '{}', tenant => floor(random() * 6)::text, binding => floor(random() * 3)::text,
		delay => CASE WHEN course = 5 THEN interval '1 ms' END);
	SELECT claim_id INTO c FROM workq_claim(q, 'w', '1 day');
	IF course = 0 THEN
		ROLLBACK;
		RETURN;
	ELSIF course < 4 THEN
		COMMIT;
	END IF;
	IF c IS NOT NULL AND course = 3 THEN
		PERFORM workq_release(c);
	ELSIF c IS NOT NULL THEN
		PERFORM workq_ack(c);
	END IF;
END $$;
SELECT workq_create_queue('flow')});
my ($in, $out) = ('', '');
my $bench = IPC::Run::start(
	[ 'pgbench', '-n', '-h', $node->host, '-p', $node->port, '-c', '8', '-t', '250', '-f', $flow, 'postgres' ],
	\$in, '>&', \$out);
my @forms = (
	q{strategy => 'drr', fairness_key => 'tenant'},
	q{strategy => 'drr', fairness_key => 'tenant-and-binding', max_concurrent_per_key => 2},
	q{strategy => 'fifo', max_concurrent_per_key => 0},
	q{strategy => 'fifo', fairness_key => 'binding', max_concurrent_per_key => 4});
my $flips = 0;
while ($bench->pumpable)
{
	sql(qq{SELECT workq_configure('flow', $forms[ $flips++ % @forms ])});
	$bench->pump_nb;
}
$bench->finish;
cmp_ok($flips, '>', 4, 'changed often enough');
is(sql(q{SELECT count(*) FROM workq.jobs JOIN workq.queues USING (queue_id) WHERE name = 'flow'}) > 500, 1, 'while others worked')
  or diag($out);
check_clean('many');
sql(q{SELECT workq_configure('flow', strategy => 'drr', fairness_key => 'tenant', max_concurrent_per_key => 0)});
wait_for($node, q{SELECT count(*) FROM (SELECT * FROM workq.ready UNION ALL SELECT job_id, ready_since, queue_id, attempt, failures,
	max_attempts, events, priority, flags, lane FROM workq.leases) r JOIN workq.queues USING (queue_id)
	WHERE name = 'flow' AND ((flags >> 4) & 7 <> 1 OR length(lane) > 1)}, '0');
pass('all rows are in lanes of the last form');
wait_until(sub {
	sql(q{SELECT count(workq_ack(claim_id)) FROM workq_claim('flow', 'w', '1 day', max_jobs => 1000)});
	return sql(q{SELECT ready + scheduled FROM workq.queue_counters() JOIN workq.queues USING (queue_id) WHERE name = 'flow'}) eq '0';
}, 'all jobs to be served');
ack_all('flow');
is(sql(q{SELECT count(*) FROM workq.jobs j JOIN workq.queues q USING (queue_id) WHERE name = 'flow'
	AND NOT EXISTS (SELECT FROM workq.responses r WHERE r.job_id = j.job_id)}), '0', 'every job is served');
check_clean('all served');

done_testing();
