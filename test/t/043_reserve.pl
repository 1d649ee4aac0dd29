# What some databases have in hand does not stop the queues of others: when all
# records of lanes, and the memory for long keys, are in use, each queue still
# has what it takes to serve one lane at a time.

use strict;
use warnings;
use WorkqTest;
use Test::More;

my $node = workq_node('main', 'workq.max_lanes = 600', 'workq.metrics_max_keys = 2000',
	'log_statement = none');
my $serve = q{
DO $$
DECLARE
	claim uuid;
BEGIN
	LOOP
		SELECT claim_id INTO claim FROM workq_claim('%s', 'w', '1 day');
		EXIT WHEN claim IS NULL;
		PERFORM workq_ack(claim);
		COMMIT;
	END LOOP;
END $$;
SELECT count(*) FROM workq.ready
};

sub sql_in { my $db = shift; return $node->safe_psql($db, @_); }

sub check_clean
{
	my ($db, $what) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(sql_in($db, q{SET lock_timeout = '60 s'; SELECT * FROM workq_check()}), '', "$db: $what");
}

# two databases take all there is, and keep it
for my $db ('one', 'two')
{
	sql_in('postgres', "CREATE DATABASE $db");
	sql_in($db, 'CREATE EXTENSION workq');
	sql_in($db, q{SELECT workq_create_queue('flood'), workq_configure('flood', strategy => 'drr')});
	sql_in($db, q{SELECT count(*) FROM workq_enqueue_batch('flood',
		(SELECT jsonb_agg(jsonb_build_object('payload', i, 'tenant', repeat('x', 240) || i)) FROM generate_series(1, 800) i))});
	ok(sql_in($db, q{SELECT count(*) FROM workq_claim('flood', 'w', '1 day', max_jobs => 500)}) > 1, "$db has leases");
}
is(sql_in('one', q{SELECT count(workq_enqueue('fill', '{}', tenant => i::text))
	FROM workq_create_queue('fill'), workq_configure('fill', strategy => 'drr'), generate_series(1, 700) i}), '700', 'and short keys');
is(sql_in('one', 'SELECT free_lanes FROM workq.lane_memory()'), '0', 'no record is free');

# a plain queue, one by key, one by tenant and binding, with the longest keys
sql_in('postgres', 'CREATE EXTENSION IF NOT EXISTS workq');
sql_in('postgres', q{SELECT count(workq_enqueue('plain', '{}')) FROM generate_series(1, 10)});
is(sql_in('postgres', sprintf($serve, 'plain')), '0', 'a plain queue is served');
sql_in('postgres', q{SELECT workq_create_queue('keys'), workq_configure('keys', strategy => 'drr')});
sql_in('postgres', q{SELECT count(workq_enqueue('keys', '{}', tenant => repeat('k', 252) || i)) FROM generate_series(100, 150) i});
is(sql_in('postgres', sprintf($serve, 'keys')), '0', 'a queue by tenant is served');
sql_in('postgres', q{SELECT workq_create_queue('pairs'),
	workq_configure('pairs', strategy => 'drr', fairness_key => 'tenant-and-binding')});
sql_in('postgres', q{SELECT count(workq_enqueue('pairs', '{}', tenant => repeat('t', 254) || i % 5, binding => repeat('b', 253) || i))
	FROM generate_series(10, 60) i});
is(sql_in('postgres', sprintf($serve, 'pairs')), '0', 'a queue by tenant and binding is served');

# given back: the same again, after the queues were dropped and made anew
sql_in('postgres', q{SELECT workq_drop_queue(q, confirm => true), workq_create_queue(q), workq_enqueue(q, '{}')
	FROM unnest(ARRAY['plain', 'keys', 'pairs']) q});
is(sql_in('postgres', sprintf($serve, 'plain')), '2', 'plain again');
is(sql_in('postgres', sprintf($serve, 'keys')), '1', 'keys again');
is(sql_in('postgres', sprintf($serve, 'pairs')), '0', 'pairs again');

check_clean($_, 'memory says what the tables say') for ('one', 'two', 'postgres');

done_testing();
