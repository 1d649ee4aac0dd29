# On a standby nothing of workq runs, and what writes is refused; after the
# promotion everything runs (pitfall C3).

use strict;
use warnings;
use WorkqTest;
use Test::More;
use PostgreSQL::Test::Utils;

my $primary = workq_node('primary', { init => { allows_streaming => 1 } });
$primary->safe_psql('postgres', q{SELECT workq_enqueue('q', '{}', delay => '1 day');
	SELECT workq_enqueue('q', '{}'); SELECT workq_enqueue('q', '{}');
	SELECT count(*) FROM workq_claim('q', 'w', '100 ms')});
wait_for($primary, 'SELECT NOT EXISTS (SELECT FROM workq.leases)');
$primary->safe_psql('postgres', q{SELECT count(*) FROM workq_claim('q', 'w', '1 day')});
$primary->safe_psql('postgres', q{SELECT workq_progress(claim_id, '"part"'), workq_checkpoint(claim_id, 'step', '{"r": 1}') FROM workq.leases});
$primary->backup('backup');

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;
$primary->wait_for_catchup($standby);

is(scalar(worker_pids($standby)), 0, 'nothing of workq runs on a standby');
sql_fails($standby, '25006', $_)
  foreach q{SELECT workq_enqueue('q', '{}')},
  q{SELECT count(*) FROM workq_claim('q', 'w')},
  q{SELECT workq_create_queue('new')},
  q{SELECT workq_progress(claim_id, '1') FROM workq.leases},
  q{SELECT workq_checkpoint(claim_id, 'another') FROM workq.leases},
  q{SELECT workq_progress_batch(ARRAY[claim_id], '{1}') FROM workq.leases},
  q{SELECT workq_checkpoint_batch(ARRAY[claim_id], '{another}') FROM workq.leases};
is($standby->safe_psql('postgres', 'SELECT count(*) FROM workq.ready'),
	'1', 'tables can be read');
is($standby->safe_psql('postgres', q{SELECT strategy, fairness_key, paused, selections IS NULL, lanes IS NULL, policy_version
		FROM workq.scheduler}),
	'fifo|tenant|f|t|t|1', 'a standby has queues, but no scheduler');
is($standby->safe_psql('postgres', q{SELECT (SELECT count(*) FROM workq.scheduler_keys), (SELECT count(*) FROM workq_metrics()),
		workq_metrics_text(), workq_scheduler_state() #> '{scheduler,per_queue,0,keys}'}),
	'0|0||[]', 'no keys and no metrics');
is($standby->safe_psql('postgres', q{SELECT string_agg(kind || coalesce(delta::text, ''), ' '), (SELECT step || result FROM workq_checkpoints(job_id))
		FROM workq.leases l, workq_stream(job_id) WHERE l.worker = 'w' GROUP BY job_id}),
	'attempt attempt progress"part"|step{"r": 1}', 'streams and checkpoints can be read');
is($standby->safe_psql('postgres', q{SELECT state, place, place_limit, weight, cap IS NULL, in_flight IS NULL, credit IS NULL, why FROM workq.ready, workq_explain(job_id)}),
	'ready|1|1000|1|t|t|t|This server is a standby; jobs are claimed on its primary. It is ready and the next of its lane.', 'a ready job is explained');
like($standby->safe_psql('postgres', q{SELECT e.state, e.worker, why FROM workq.leases l, workq_explain(l.job_id) e}),
	qr/^leased\|w\|It is running: worker "w" holds it until /, 'so is a leased one');
like($standby->safe_psql('postgres', q{SELECT state, why FROM workq.scheduled, workq_explain(job_id)}),
	qr/^scheduled\|It was enqueued for later\. It is due at /, 'and one that is due later');
is(scalar(worker_pids($standby)), 0, 'still nothing runs');

# Databases made, renamed and dropped on the primary are replayed, with a session
# open on the standby.
my $s = session($standby);
$s->query_safe('SELECT 1');
$primary->safe_psql('postgres', 'CREATE DATABASE other');
$primary->safe_psql('other', q{CREATE EXTENSION workq; SELECT workq_enqueue('q', '{}', delay => '10 ms')});
wait_for($primary, 'SELECT count(*) = 1 FROM workq.ready', 't', 'other');
$primary->safe_psql('postgres', 'ALTER DATABASE other RENAME TO another');
$primary->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE another');
$primary->safe_psql('postgres', 'DROP DATABASE another');
$primary->wait_for_catchup($standby);
is( $standby->safe_psql('postgres', q{SELECT string_agg(datname, ' ') FROM pg_database
		WHERE datname IN ('other', 'another', 'copy')}),
	'copy',
	'DDL is replayed');

# A lease runs out while there is no primary.
$primary->safe_psql('postgres', q{SELECT count(*) FROM workq_claim('q', 'w2', '1 s')});
$primary->wait_for_catchup($standby);
$primary->stop;
$standby->promote;
wait_for($standby,
	q{SELECT count(*) = 2 FROM pg_stat_activity WHERE backend_type = 'workq worker' AND datname IN ('postgres', 'copy')});
pass('workers start after the promotion');
$s->quit;
wait_for($standby, q{SELECT count(*) = 1 FROM workq.leases});
is($standby->safe_psql('postgres', 'SELECT worker FROM workq.leases'),
	'w', 'the lease that ran out was taken back, the other holds');
is($standby->safe_psql('postgres', q{SELECT count(*) FROM workq_claim('q', 'w')}),
	'1', 'claiming works');
like($standby->safe_psql('postgres', q{SELECT workq_enqueue('q', '{}')}),
	qr/^\d+$/, 'enqueueing works');
$standby->safe_psql('copy', q{SELECT workq_enqueue('q', '{}', delay => '10 ms')});
wait_for($standby, 'SELECT count(*) = 2 FROM workq.ready', 't', 'copy');
pass('in every database');

unlike(slurp_file($standby->logfile), qr/PANIC|TRAP|terminated by signal/,
	'nothing crashed');
done_testing();
