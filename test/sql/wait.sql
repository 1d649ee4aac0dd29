--
-- Waiting and claiming from several queues: what can be seen in one session.
-- What needs more is in specs and TAP.
--
\pset format unaligned
\pset tuples_only on
\pset null NULL
\i sql/include/try.sql
SELECT workq_create_queue('wait a'), workq_create_queue('wait b'), workq_create_queue('wait c');

-- nothing comes: the time runs out, and not before
CREATE TEMP TABLE t AS SELECT clock_timestamp() AS began;
SELECT * FROM workq_claim('wait a', 'w', wait => '100 ms');
SELECT * FROM workq_claim_any(ARRAY['wait a', 'wait b'], 'w', wait => '100 ms');
SELECT clock_timestamp() - began BETWEEN '200 ms' AND '20 s' FROM t;
CALL workq_wait(ARRAY['wait a', 'wait b'], '50 ms');
CALL workq_wait(ARRAY['wait a'], '0');

-- bounds
SELECT pg_temp.try($$SELECT workq_claim('wait a', 'w', wait => '5 min 1 us')$$);
SELECT pg_temp.try($$SELECT workq_claim('wait a', 'w', wait => '-1 s')$$);
SELECT pg_temp.try($$SELECT workq_claim('wait a', 'w', wait => '1 month')$$);
SELECT pg_temp.try($$SELECT workq_claim('wait a', 'w', wait => NULL)$$);
SELECT pg_temp.try($$SELECT workq_claim('wait none', 'w', wait => '1 s')$$);
SELECT pg_temp.try($$SELECT workq_claim_any(ARRAY['wait a', 'wait none'], 'w', wait => '1 s')$$);
SELECT pg_temp.try($$SELECT workq_claim_any(NULL, 'w')$$);
SELECT pg_temp.try($$SELECT workq_claim_any('{}', 'w')$$);
SELECT pg_temp.try($$SELECT workq_claim_any(ARRAY['wait a', NULL], 'w')$$);
SELECT pg_temp.try($$SELECT workq_claim_any(ARRAY[['wait a'], ['wait b']], 'w')$$);
SELECT pg_temp.try($$SELECT workq_claim_any(ARRAY(SELECT 'q' || i FROM generate_series(1, 65) i), 'w')$$);
SELECT pg_temp.try($$SELECT workq_claim_any(ARRAY['wait a'], 'w', queue_order => 'random')$$);
SELECT pg_temp.try($$SELECT workq_claim_any(ARRAY['wait a'], 'w', '0 s')$$);
SELECT pg_temp.try($$CALL workq_wait(ARRAY['wait none'])$$);
SELECT pg_temp.try($$CALL workq_wait(NULL)$$);
SELECT pg_temp.try($$CALL workq_wait(ARRAY['wait a'], '2 days')$$);
SELECT pg_temp.try($$CALL workq_await(NULL)$$);
SELECT pg_temp.try($$CALL workq_await(0)$$);
SELECT pg_temp.try($$CALL workq_await(1, '-1 s')$$);

-- two queues: alternately, inside a batch too (33); one that is paused or
-- empty is passed over; or in the order listed
SELECT count(workq_enqueue(q, to_jsonb(i))) FROM unnest(ARRAY['wait a', 'wait b']) q, generate_series(1, 6) i;
CALL workq_wait(ARRAY['wait c', 'wait b'], '10 s');
SELECT queue, payload FROM workq_claim_any(ARRAY['wait a', 'wait b', 'wait c'], 'w', max_jobs => 4);
SELECT queue, payload FROM workq_claim_any(ARRAY['wait b', 'wait a'], 'w');
SELECT queue, payload FROM workq_claim_any(ARRAY['wait b', 'wait a'], 'w');
SELECT queue, payload FROM workq_claim('wait a', 'w');
SELECT queue, payload FROM workq_claim_any(ARRAY['wait a', 'wait b', 'wait a'], 'w');
SELECT queue, payload FROM workq_claim_any(ARRAY['wait b', 'wait a'], 'w', max_jobs => 2, queue_order => 'listed');
SELECT workq_pause('wait b');
SELECT count(*) FROM workq_claim_any(ARRAY['wait b'], 'w', wait => '20 ms');
CALL workq_wait(ARRAY['wait b'], '20 ms');
SELECT queue, payload FROM workq_claim_any(ARRAY['wait b', 'wait a'], 'w', max_jobs => 10);
SELECT workq_resume('wait b');
SELECT queue, payload FROM workq_claim_any(ARRAY['wait b', 'wait a'], 'w', max_jobs => 10, wait => '10 ms');

-- own rows, in a block, in a savepoint, and after rolling back
BEGIN;
SELECT count(workq_enqueue('wait c', '1'));
SELECT queue, payload FROM workq_claim_any(ARRAY['wait a', 'wait c'], 'w', wait => '10 s');
SAVEPOINT s;
SELECT count(*) FROM workq_claim('wait c', 'w', wait => '20 ms');
ROLLBACK TO s;
CALL workq_wait(ARRAY['wait a', 'wait c'], '20 ms');
ROLLBACK;
SELECT count(*) FROM workq_claim_any(ARRAY['wait a', 'wait c'], 'w', wait => '20 ms');

-- something becomes due, or a lease runs out, while we wait
SELECT count(workq_enqueue('wait c', '"due"', delay => '100 ms'));
SELECT payload, attempt FROM workq_claim_any(ARRAY['wait a', 'wait c'], 'w', '150 ms', wait => '10 s');
SELECT payload, attempt FROM workq_claim('wait c', 'w', wait => '10 s');

-- a job's end
SELECT workq_enqueue('wait c', '"await"') AS job \gset
CALL workq_await(:job, '20 ms');
SELECT workq_ack(claim_id) FROM workq_claim('wait c', 'w');
CALL workq_await(:job, '10 s');
SELECT workq_enqueue('wait c', '"await"', max_attempts => 1) AS job \gset
SELECT workq_fail(claim_id) FROM workq_claim('wait c', 'w');
CALL workq_await(:job);

-- untyped parameters
PREPARE several AS SELECT payload FROM workq_claim_any($1, $2, $3, $4, $5, $6);
EXECUTE several('{wait a,wait c}', 'w', '1 min', '1', '1 ms', 'listed');
SELECT * FROM workq_check();
