--
-- Deduplication: while a job with that key is alive in the queue, enqueue
-- returns its id.
--

\i sql/include/try.sql

\pset format unaligned
\pset tuples_only on
\pset null NULL

SELECT workq_enqueue('dedup', '1', dedup_key => 'k') AS j \gset
SELECT workq_enqueue('dedup', '2', 'high', dedup_key => 'k', delay => '1 h') = :j;
SELECT count(*) FROM workq.jobs JOIN workq.queues USING (queue_id) WHERE dedup_key = 'k' AND name LIKE 'dedup%';
SELECT payload, priority FROM workq_job(:j);
-- other keys, other queues, other cases, no key
SELECT count(DISTINCT id) FROM (VALUES (:j), (workq_enqueue('dedup', '1', dedup_key => 'K')), (workq_enqueue('dedup', '1', dedup_key => 'k2')),
    (workq_enqueue('dedup 2', '1', dedup_key => 'k')), (workq_enqueue('dedup', '1')), (workq_enqueue('dedup', '1'))) t (id);

-- alive in each state, until it is done or dead
CREATE FUNCTION pg_temp.alive(j bigint) RETURNS boolean LANGUAGE sql AS $$
    SELECT workq_enqueue('dedup life', '"other"', dedup_key => 'life') = j $$;
CREATE FUNCTION pg_temp.claim(OUT c uuid) LANGUAGE sql AS $$ SELECT claim_id FROM workq_claim('dedup life', 'w', '1 min') $$;
SELECT workq_enqueue('dedup life', '1', dedup_key => 'life', delay => '1 h', max_attempts => 3) AS j \gset
SELECT pg_temp.alive(:j) AS scheduled;
SET workq.clock_offset = '2 h';
SELECT c FROM pg_temp.claim() \gset
SELECT pg_temp.alive(:j) AS leased;
SELECT workq_release(:'c');
SELECT pg_temp.alive(:j) AS released;
SELECT c FROM pg_temp.claim() \gset
SELECT workq_fail(:'c', retry_in => '0');
SELECT pg_temp.alive(:j) AS failed;
SELECT c FROM pg_temp.claim() \gset
SET workq.clock_offset = '3 h';
SELECT c AS c2 FROM pg_temp.claim() \gset
SELECT pg_temp.alive(:j) AS taken_back;
SELECT workq_fail(:'c2', retry_in => '0');
SELECT state FROM workq_job(:j);
SELECT pg_temp.alive(:j) AS dead;
RESET workq.clock_offset;
-- the other one lives on its own
SELECT workq_enqueue('dedup life', '1', dedup_key => 'life') AS j2 \gset
SELECT pg_temp.alive(:j2);
SELECT c FROM pg_temp.claim() \gset
SELECT workq_ack(:'c');
SELECT pg_temp.alive(:j2) AS succeeded;
SELECT count(*) FROM workq.jobs JOIN workq.queues USING (queue_id) WHERE dedup_key = 'life' AND name LIKE 'dedup%';

-- a thousand times the key of a finished job: one row at a time
DO $$
BEGIN
    FOR i IN 1..300 LOOP
        PERFORM workq_enqueue('dedup often', to_jsonb(i), dedup_key => 'o');
        PERFORM workq_ack(claim_id) FROM workq_claim('dedup often', 'w');
    END LOOP;
END $$;
SELECT count(*) FROM workq.jobs JOIN workq.queues USING (queue_id) WHERE dedup_key = 'o' AND name LIKE 'dedup%';
SELECT count(*) FROM workq.dedup JOIN workq.queues USING (queue_id) WHERE name = 'dedup often';

-- within one transaction: done and enqueued again, cancelled and enqueued again
BEGIN;
SELECT workq_enqueue('dedup tx', '1', dedup_key => 'k') AS a \gset
SELECT workq_enqueue('dedup tx', '2', dedup_key => 'k') = :a;
SELECT workq_ack(claim_id) FROM workq_claim('dedup tx', 'w');
SELECT workq_enqueue('dedup tx', '3', dedup_key => 'k') AS b \gset
SELECT workq_cancel(:b);
SELECT workq_enqueue('dedup tx', '4', dedup_key => 'k') AS c \gset
SELECT :a < :b AND :b < :c;
COMMIT;
SELECT payload FROM workq_claim('dedup tx', 'w', max_jobs => 10);
-- rolled back: the key is free; the rolled back end of a job keeps it
BEGIN;
SELECT workq_enqueue('dedup tx', '5', dedup_key => 'r') > 0;
ROLLBACK;
SELECT workq_enqueue('dedup tx', '6', dedup_key => 'r') AS a \gset
BEGIN;
SELECT workq_ack(claim_id) FROM workq_claim('dedup tx', 'w');
ROLLBACK;
SELECT workq_enqueue('dedup tx', '7', dedup_key => 'r') = :a;
-- the same with savepoints
BEGIN;
SAVEPOINT s;
SELECT workq_enqueue('dedup tx', '8', dedup_key => 's') > 0;
ROLLBACK TO s;
SELECT workq_enqueue('dedup tx', '9', dedup_key => 's') AS a \gset
SAVEPOINT s2;
SELECT workq_cancel(:a);
SELECT workq_enqueue('dedup tx', '10', dedup_key => 's') > :a;
ROLLBACK TO s2;
SELECT workq_enqueue('dedup tx', '11', dedup_key => 's') = :a;
COMMIT;
SELECT payload FROM workq_claim('dedup tx', 'w', max_jobs => 10);
-- a snapshot that is older than the job does not matter
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT 1;
SELECT workq_enqueue('dedup tx', '12', dedup_key => 's') = :a;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT workq_enqueue('dedup tx', '13', dedup_key => 't') > 0;
SELECT workq_enqueue('dedup tx', '13', dedup_key => 't') > 0;
COMMIT;

-- batches: keys of jobs that are there, of the batch itself, and none
SELECT workq_enqueue('dedup batch', '0', dedup_key => 'b') AS j \gset
SELECT ord, created, job_id = :j AS old, count(*) OVER (PARTITION BY job_id) AS same FROM workq_enqueue_batch('dedup batch', '[
    {"payload": 1, "dedup_key": "c"}, {"payload": 2, "dedup_key": "b"}, {"payload": 3}, {"payload": 4, "dedup_key": "a"},
    {"payload": 5, "dedup_key": "c"}, {"payload": 6, "dedup_key": "b"}]') ORDER BY ord;
SELECT payload FROM workq_claim('dedup batch', 'w', max_jobs => 10);
SELECT count(*), count(DISTINCT job_id), bool_or(created) FROM workq_enqueue_batch('dedup many', (SELECT jsonb_agg(jsonb_build_object('payload', n, 'dedup_key', 'k' || n % 100)) FROM generate_series(1, 2000) n));
SELECT count(*) FROM workq.dedup JOIN workq.queues USING (queue_id) WHERE name = 'dedup many';
SELECT array_agg(payload ORDER BY payload) = array_agg(to_jsonb(n) ORDER BY n) FROM (SELECT payload, row_number() OVER () AS n FROM workq_claim('dedup many', 'w', max_jobs => 1000)) t;

-- a key goes with its queue
SELECT workq_drop_queue('dedup many', confirm => true);
SELECT created FROM workq_enqueue_batch('dedup many', '[{"payload": 1, "dedup_key": "k1"}]');

-- every key belongs to a job that is alive
SELECT count(*) FROM workq.dedup d WHERE NOT EXISTS (SELECT FROM workq.ready WHERE job_id = d.job_id UNION ALL SELECT FROM workq.scheduled WHERE job_id = d.job_id
    UNION ALL SELECT FROM workq.leases WHERE job_id = d.job_id UNION ALL SELECT FROM workq.held WHERE job_id = d.job_id);
SELECT * FROM workq_check();
