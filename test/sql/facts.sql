--
-- Facts; finishing and going on in one call.
--

\set VERBOSITY terse
\pset format unaligned
\pset tuples_only on

\i sql/include/try.sql

SELECT workq_create_queue('facts');
SELECT workq_enqueue('facts', '1', max_attempts => 2) AS a \gset
SELECT workq_release(claim_id, reason => 'gate closed') FROM workq_claim('facts', 'w1');
SELECT workq_release(claim_id) FROM workq_claim('facts', 'w2');
SELECT workq_park(claim_id, 'p') FROM workq_claim('facts', 'w1');
SELECT workq_unpark(:a);
SELECT workq_fail(claim_id, 'E1', retry_in => '0') FROM workq_claim('facts', 'w1');
SELECT workq_fail(claim_id, 'E2', retry_in => '1 s') FROM workq_claim('facts', 'w1');
SELECT workq_requeue(:a);
SELECT workq_fail(claim_id, 'E3', retry_in => '1 h') FROM workq_claim('facts', 'w1');
SELECT number, fact, attempt, failures, worker, claim_id IS NOT NULL, due IS NOT NULL, reason FROM workq.facts WHERE job_id = :a ORDER BY number;
SELECT workq_cancel(:a);

-- ack and claim: the next, in one call
SELECT count(*) FROM workq_enqueue_batch('facts', '[{"payload": 1}, {"payload": 2}, {"payload": 3}]');
SELECT claim_id AS claim, job_id AS job FROM workq_claim('facts', 'w') \gset
SELECT claim_id AS claim2, job_id AS job2, payload FROM workq_ack_claim(ARRAY[:'claim']::uuid[], ARRAY['{"r": 1}']::jsonb[], 'facts', 'w', '1 min', 1) \gset
SELECT :'payload';
SELECT state, result FROM workq_job(:job);
-- a lost one: nothing is done; a repeated one is fine
SELECT workq_park(:'claim2');
SELECT pg_temp.try_briefly(format('SELECT payload FROM workq_ack_claim(ARRAY[%L]::uuid[], NULL, ''facts'', ''w'')', :'claim2'));
SELECT payload FROM workq_ack_claim(ARRAY[:'claim']::uuid[], NULL, 'facts', 'w');
-- who only wants to be told: a notice, and the rest is done
SELECT workq_enqueue('facts', '4') AS d \gset
SELECT workq_enqueue('facts', '5') AS e \gset
SELECT claim_id AS claim4 FROM workq_claim('facts', 'w') \gset
\set VERBOSITY sqlstate
SELECT job_id = :e FROM workq_ack_claim(ARRAY[:'claim2', :'claim4']::uuid[], ARRAY['2', '4']::jsonb[], 'facts', 'w', on_lost => 'report');
\set VERBOSITY terse
SELECT state, result FROM workq_job(:d);
SELECT state FROM workq_job(:job2);
SELECT payload FROM workq_ack_claim('{}', NULL, 'facts', 'w');
-- a cap slot that the ack frees is used by the claim
SELECT workq_create_queue('facts cap');
SELECT workq_configure('facts cap', max_concurrent_per_key => 1);
SELECT count(*) FROM workq_enqueue_batch('facts cap', '[{"payload": 1, "tenant": "a"}, {"payload": 2, "tenant": "a"}]');
SELECT claim_id AS claim FROM workq_claim('facts cap', 'w', max_jobs => 2) \gset
SELECT payload FROM workq_ack_claim(ARRAY[:'claim']::uuid[], NULL, 'facts cap', 'w', max_jobs => 2);
-- bad arguments
SELECT a, pg_temp.try_briefly(format('SELECT workq_ack_claim(%s)', a)) FROM unnest(ARRAY['NULL, NULL, ''facts'', ''w''', '''{}'', NULL, NULL, ''w''',
    '''{}'', NULL, ''facts'', NULL', '''{}'', NULL, ''no such'', ''w''', '''{}'', ''{NULL}'', ''facts'', ''w''', '''{NULL}'', NULL, ''facts'', ''w''',
    '''{}'', NULL, ''facts'', ''w'', ''0''', '''{}'', NULL, ''facts'', ''w'', ''2 days''', '''{}'', NULL, ''facts'', ''w'', NULL, 0', '''{}'', NULL, ''facts'', ''w'', on_lost => ''maybe''']) a;
SELECT * FROM workq_check();
