# Prepared transactions: workq's own are refused, and leave nothing; one of
# somebody else's that locks what workq needs is waited for as long as it must be
# and no longer, also across a restart.

use strict;
use warnings;
use WorkqTest;
use WorkqHistory;
use Test::More;

my $node = workq_node('main', 'fsync = off', 'max_prepared_transactions = 5');

sub sql { return $node->safe_psql('postgres', @_); }

sql(q{SELECT workq_enqueue('q', to_jsonb(n)) FROM generate_series(1, 6) n});

my $n = 0;
foreach my $verb (
	q{SELECT workq_enqueue('q', '0')},
	q{SELECT workq_enqueue('new', '0')},
	q{SELECT workq_create_queue('new')},
	q{SELECT count(*) FROM workq_claim('q', 'w')},
	q{SELECT count(*) FROM workq_claim('q', 'w', max_jobs => 100)},
	q{SELECT workq_cancel(min(job_id)) FROM workq.ready},
	q{SELECT workq_purge('q', confirm => true)},
	q{SELECT workq_configure('q', max_attempts => 3)},
	q{SELECT workq_pause('q')},
	q{SELECT workq_drop_queue('q', confirm => true)},
	q{SAVEPOINT s; SELECT count(*) FROM workq_claim('q', 'w'); ROLLBACK TO s})
{
	$n++;
	sql_fails($node, '0A000', "BEGIN; $verb; PREPARE TRANSACTION 'p$n'", $verb);
}
is(sql('SELECT count(*) FROM pg_prepared_xacts'), '0', 'nothing is prepared');
is(sql(q{SELECT array_agg(payload) FROM workq_claim('q', 'w', '1 h', 2)}), '{1,2}', 'nothing has happened');
history_ok($node, 'after the refusals');

# a prepared transaction that locks a ready row, and keeps it over a crash
sql(q{BEGIN; SELECT count(*) FROM (SELECT FROM workq.ready r JOIN workq.jobs j USING (job_id) WHERE payload = '3' FOR UPDATE OF r) x; PREPARE TRANSACTION 'locks'});
is(sql(q{SELECT payload FROM workq_claim('q', 'w', '1 h')}), '4', 'a locked job is passed');
$node->stop('immediate');
$node->start;
is(sql(q{SELECT payload FROM workq_claim('q', 'w', '1 h')}), '5', 'also after a crash');
is(sql(q{SELECT count(*) FROM workq_check()}), '0', 'check while it is prepared');
sql(q{ROLLBACK PREPARED 'locks'});
is(sql(q{SELECT payload FROM workq_claim('q', 'w', '1 h')}), '3', 'it is found when the lock is gone');

# a prepared transaction that deletes a ready row by hand
sql(q{BEGIN; DELETE FROM workq.ready r USING workq.jobs j WHERE j.job_id = r.job_id AND payload = '6'; PREPARE TRANSACTION 'deletes'})
  if sqlstate($node, q{BEGIN; DELETE FROM workq.ready; PREPARE TRANSACTION 'try'}) eq '00000' && sql(q{ROLLBACK PREPARED 'try'; SELECT 1});
if (sql(q{SELECT count(*) FROM pg_prepared_xacts WHERE gid = 'deletes'}))
{
	is(sql(q{SELECT count(*) FROM workq_claim('q', 'w', '1 h')}), '0', 'a job that is being deleted is passed');
	sql(q{ROLLBACK PREPARED 'deletes'});
	is(sql(q{SELECT payload FROM workq_claim('q', 'w', '1 h')}), '6', 'and found when the deletion is rolled back');
}
else
{
	sql_fails($node, '0A000', q{BEGIN; DELETE FROM workq.ready; PREPARE TRANSACTION 'x'}, 'a foreign hand cannot prepare either');
	is(sql(q{SELECT payload FROM workq_claim('q', 'w', '1 h')}), '6', 'and nothing has happened');
}

# prepared work of an application beside the queue's transaction
sql(q{CREATE TABLE t (n integer); BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'app'});
sql(q{SELECT count(*) FROM workq_ack_batch((SELECT array_agg(claim_id) FROM workq.leases))});
sql(q{COMMIT PREPARED 'app'});
history_ok($node, 'at the end');
all_done_ok($node, 'at the end', 'q');

done_testing();
