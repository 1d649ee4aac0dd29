# A backend is killed under load with synchronous_commit = off, and commits that
# clients have seen are lost (scenario 26): no job id and no claim id is handed
# out a second time, no ready job is unknown, and a claim that was lost can do
# nothing, although its job is held by another one.  Nor does an outcome come in
# front of one that a follower has seen and that was lost.

use strict;
use warnings;
use WorkqTest;
use WorkqHistory;
use Test::More;
use PostgreSQL::Test::Utils;

my $node = workq_node('main',
	'restart_after_crash = on', 'synchronous_commit = off',
	'wal_writer_delay = 10s', 'wal_writer_flush_after = 1GB', 'wal_buffers = 16MB',
	'checkpoint_timeout = 1h', 'workq.segment_size = 100000',
	# whoever writes a page flushes the log
	'shared_buffers = 128MB', 'bgwriter_lru_maxpages = 0', 'autovacuum = off');

sub sql { return $node->safe_psql('postgres', @_); }

sql(q{SELECT workq_create_queue('q'), workq_create_queue('followed')});

my (%job_ids, %claim_ids, %acked);
my ($lost_jobs, $lost_claims, $lost_acks, $lost_outcomes) = (0, 0, 0, 0);
my $round = 0;
my @wrong;

# One round: a session enqueues, claims and acknowledges, each in a transaction of
# its own, and is killed; what it was told is what counts.
sub crash
{
	my $s = session($node);
	session_pid($s);
	my $launcher = sql(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'workq launcher'});
	my (%new_jobs, %new_claims, %acks);

	$round++;
	sql('CHECKPOINT');

	# nobody writes the log but who must
	my $walwriter = sql(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'});
	kill_process($walwriter, 'STOP');
	for my $n (1 .. 2)
	{
		my $ids = $s->query_safe(join("\n", map { "SELECT workq_enqueue('q', '{\"round\": $round}');" } 1 .. 100));
		foreach my $id (split /\n/, $ids)
		{
			push @wrong, "job id $id twice" if $job_ids{$id}++;
			$new_jobs{$id} = 1;
		}
		my $claims = $s->query_safe(join("\n", map { "SELECT job_id || ' ' || claim_id FROM workq_claim('q', 'w', '1 h');" } 1 .. 40));
		foreach my $line (split /\n/, $claims)
		{
			my ($job, $claim) = split / /, $line;
			push @wrong, "claim id $claim twice" if exists $claim_ids{$claim};
			$claim_ids{$claim} = $job;
			$new_claims{$claim} = 1;
		}

		# more ids than are reserved: what comes now mostly is not safe on disk yet
		# when the crash comes, but the reservation must be
		if ($n == 1)
		{
			foreach my $id (split /\n/, $s->query_safe(q{SELECT job_id FROM workq_enqueue_batch('q', (SELECT jsonb_agg('{"payload": "many"}'::jsonb) FROM generate_series(1, 1200)))}))
			{
				push @wrong, "job id $id twice" if $job_ids{$id}++;
				$new_jobs{$id} = 1;
			}
		}
		my @ack = (sort keys %new_claims)[ 0 .. 9 ];
		$s->query_safe(join("\n", map { "SELECT workq_ack('$_');" } @ack));
		$acks{$_} = 1 foreach @ack;
	}
	my $position = $s->query_safe(q{SELECT workq_cancel(workq_enqueue('followed', '1', correlation => 'lost')) \g /dev/null
		SELECT position FROM workq_responses(max_rows => 100000) ORDER BY at DESC LIMIT 1});
	kill 'KILL', $walwriter, session_pid($s);
	wait_for($node, qq{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'workq launcher' AND pid <> $launcher});
	eval { $s->quit };

	my %jobs = map { $_ => 1 } split /\n/, sql('SELECT job_id FROM workq.jobs');
	my %claims = map { $_ => 1 } split /\n/, sql(q{SELECT claim_id FROM workq.claims WHERE event = 'claimed'});
	my %leases = map { $_ => 1 } split /\n/, sql('SELECT claim_id FROM workq.leases');
	my @lost = grep { !$claims{$_} } keys %new_claims;
	$lost_jobs += grep { !$jobs{$_} } keys %new_jobs;
	$lost_claims += @lost;
	$lost_acks += grep { $leases{$_} } keys %acks;
	history_ok($node, "crash $round");

	# the jobs of lost claims are claimed again; the lost claims can do nothing
	foreach my $line (split /\n/, sql(q{SELECT job_id || ' ' || claim_id FROM workq_claim('q', 'w', '1 h', max_jobs => 50)}))
	{
		my ($job, $claim) = split / /, $line;
		push @wrong, "claim id $claim twice" if exists $claim_ids{$claim};
		$claim_ids{$claim} = $job;
	}
	foreach my $claim (@lost[ 0 .. ($#lost < 20 ? $#lost : 20) ])
	{
		my $out = sql(qq{SELECT workq_ack('$claim', on_lost => 'report') IS NULL, workq_fail('$claim', on_lost => 'report') IS NULL,
			workq_release('$claim', on_lost => 'report') IS NULL, workq_renew('$claim', on_lost => 'report') IS NULL,
			workq_progress('$claim', '1', on_lost => 'report') IS NULL, workq_checkpoint('$claim', 's', on_lost => 'report') IS NULL});
		push @wrong, "lost claim $claim: $out" if $out ne 't|t|t|t|t|t';
	}
	sql_fails($node, 'WQ001', "SELECT workq_ack('$lost[0]')", "crash $round: a lost claim is lost") if @lost;

	# a follower who has seen what was lost sees what comes
	$lost_outcomes += sql(qq{SELECT count(*) = 0 FROM workq.responses WHERE writer = split_part('$position', '/', 1)::bigint}) eq 't';
	sql(qq{SELECT workq_cancel(workq_enqueue('followed', '1', correlation => 'found $round'))});
	wait_for($node, qq{SELECT count(*) = 1 FROM workq_responses('$position') WHERE correlation = 'found $round'});
	pass("crash $round: a follower goes on");

	# new ids
	foreach my $id (split /\n/, sql(q{SELECT job_id FROM workq_enqueue_batch('q', (SELECT jsonb_agg('{"payload": "after"}'::jsonb) FROM generate_series(1, 1500)))}))
	{
		push @wrong, "job id $id twice" if $job_ids{$id}++;
	}
	is(join("\n", @wrong), '', "crash $round: no id comes twice, no lost claim acts");
	@wrong = ();
	return;
}

# something must have been lost for all that to mean anything
while ($round < 3 || ($round < 10 && !($lost_jobs && $lost_claims && $lost_acks && $lost_outcomes)))
{
	crash();
}
cmp_ok($lost_jobs, '>', 0, "enqueued jobs were lost ($lost_jobs)");
cmp_ok($lost_claims, '>', 0, "claims were lost ($lost_claims)");
cmp_ok($lost_acks, '>', 0, "acknowledgements were lost ($lost_acks)");
cmp_ok($lost_outcomes, '>', 0, "outcomes that a follower had seen were lost ($lost_outcomes)");

# every job that is there is known: all are claimed and done
sql(q{SELECT count(*) FROM workq_release_batch((SELECT array_agg(claim_id) FROM workq.leases))});
drain($node, 'q');
history_ok($node, 'at the end');
all_done_ok($node, 'at the end', 'q');

# the server, not a backend: an immediate stop
sql(q{SELECT count(*) FROM workq_enqueue_batch('q', (SELECT jsonb_agg('{"payload": "stop"}'::jsonb) FROM generate_series(1, 100)))});
my $claims = sql(q{SELECT count(*) FROM workq_claim('q', 'w', '1 h', max_jobs => 10)});
my $max = sql(q{SELECT max(job_id) FROM workq.jobs});
$node->stop('immediate');
$node->start;
history_ok($node, 'after an immediate stop');
cmp_ok(sql(q{SELECT workq_enqueue('q', '"next"')}), '>', $max, 'a new job id');
drain($node, 'q') if sql(q{SELECT count(*) FROM workq_release_batch((SELECT coalesce(array_agg(claim_id), '{}') FROM workq.leases))}) >= 0;
all_done_ok($node, 'after an immediate stop', 'q');

done_testing();
