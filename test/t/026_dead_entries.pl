# Index entries of dead rows are marked while searches are open in a verb that
# throws away its memory for each row: the marks' memory must not go with it.
use strict;
use warnings;
use WorkqTest;
use Test::More;

my $node = workq_node('main', 'autovacuum = off');
my $old = session($node);

# many dead entries for the same deduplication keys, none of them dead to all
$node->safe_psql('postgres', q{SELECT workq_create_queue('p')});
$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
my $enqueue = q{SELECT count(*) FROM workq_enqueue_batch('p', (SELECT jsonb_agg(jsonb_build_object('payload', 1, 'dedup_key', 'k' || g)) FROM generate_series(1, 2000) g))};
foreach my $n (1 .. 4)
{
	$node->safe_psql('postgres', $enqueue);
	$node->safe_psql('postgres', q{SELECT count(*) FROM workq_ack_batch((SELECT array_agg(claim_id) FROM workq_claim('p', 'w', max_jobs => 3000)))});
}
$node->safe_psql('postgres', $enqueue);
$old->query_safe('COMMIT');

is($node->safe_psql('postgres', q{SELECT workq_purge('p', confirm => true)}), '2000', 'purge marks dead entries');
is($node->safe_psql('postgres', q{SELECT count(*) FROM workq.dedup}), '0', 'no key is left');

# the log: entries of rolled back claims
$node->safe_psql('postgres', $enqueue);
$node->safe_psql('postgres', qq{BEGIN; SELECT count(*) FROM workq_claim('p', 'w', max_jobs => 3000); ROLLBACK;}) foreach 1 .. 4;
is($node->safe_psql('postgres', q{SELECT count(*) FROM workq_claim('p', 'w', max_jobs => 3000)}), '2000', 'claims after claims that rolled back');
is($node->safe_psql('postgres', q{SELECT count(*) FROM workq_release_batch((SELECT array_agg(claim_id) FROM workq.leases)) WHERE status = 'ok'}), '2000', 'and their outcomes');
is($node->safe_psql('postgres', 'SELECT count(*) FROM workq_check()'), '0', 'memory and tables agree');
$old->quit;
$node->stop;
done_testing();
