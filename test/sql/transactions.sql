--
-- Transactions: a rollback, of a savepoint too, undoes every verb in the
-- tables and in memory; isolation levels; what is refused.
--

\i sql/include/try.sql

\pset format unaligned
\pset tuples_only on
\pset null NULL

SET lock_timeout = '20s';
-- everything that is live in a queue, and what memory says of it
CREATE FUNCTION pg_temp.live(queue text) RETURNS text LANGUAGE sql AS $$
    SELECT format('ready %s scheduled %s leased %s held %s keys %s log %s/%s/%s, memory %s %s %s %s, queue %s %s',
        (SELECT string_agg(job_id || '@' || extract(epoch FROM ready_since), ' ' ORDER BY job_id) FROM workq.ready WHERE queue_id = q.queue_id),
        (SELECT string_agg(job_id || '@' || extract(epoch FROM ready_since), ' ' ORDER BY job_id) FROM workq.scheduled WHERE queue_id = q.queue_id),
        (SELECT string_agg(claim_id || '@' || extract(epoch FROM deadline) || '/' || flags || '/' || failures || '/' || events, ' ' ORDER BY job_id) FROM workq.leases WHERE queue_id = q.queue_id),
        (SELECT string_agg(job_id::text, ' ' ORDER BY job_id) FROM workq.held WHERE queue_id = q.queue_id),
        (SELECT string_agg(dedup_key || '=' || job_id, ' ' ORDER BY job_id) FROM workq.dedup WHERE queue_id = q.queue_id),
        (SELECT count(*) FROM workq.jobs WHERE queue_id = q.queue_id),
        (SELECT count(*) FROM workq.claims WHERE queue_id = q.queue_id),
        (SELECT count(*) FROM workq.responses WHERE queue_id = q.queue_id), o.ready, o.scheduled, o.leased, o.held, q,
        (SELECT string_agg(x, ' ' ORDER BY x) FROM (SELECT k::text FROM workq.keys k WHERE queue_id = q.queue_id UNION ALL SELECT m::text FROM workq.error_map m WHERE queue_id = q.queue_id
            UNION ALL SELECT g::text FROM workq.grants g WHERE queue_id = q.queue_id UNION ALL SELECT concat_ws('/', version, event) FROM workq.policies p WHERE p.queue = q.name) s (x)))
      FROM workq.queues q JOIN workq.queue_overview o ON o.queue = q.name WHERE q.name = live.queue
$$;

-- a queue with two jobs in every state: 'l...' has the claims
CREATE TEMP TABLE j (name text, id bigint, c uuid);
INSERT INTO j SELECT 'ready ' || n, workq_enqueue('tx', to_jsonb(n), dedup_key => 'ready ' || n) FROM generate_series(1, 40) n;
INSERT INTO j SELECT 'low ' || n, workq_enqueue('tx', to_jsonb(n), 'low') FROM generate_series(1, 2) n;
INSERT INTO j SELECT 'scheduled ' || n, workq_enqueue('tx', to_jsonb(n), delay => '1 h') FROM generate_series(1, 2) n;
INSERT INTO j SELECT 'leased ' || n, workq_enqueue('tx', to_jsonb(n), 'high', dedup_key => 'leased ' || n) FROM generate_series(1, 5) n;
UPDATE j SET c = claim_id FROM workq_claim('tx', 'w', '1 h', max_jobs => 5) WHERE job_id = id;
INSERT INTO j SELECT 'dead ' || n, workq_enqueue('tx', to_jsonb(n), 'high', max_attempts => 1) FROM generate_series(1, 2) n;
SELECT workq_fail(claim_id) FROM workq_claim('tx', 'w', max_jobs => 2);
INSERT INTO j SELECT 'parked ' || n, workq_enqueue('tx', to_jsonb(n), 'high', dedup_key => 'parked ' || n) FROM generate_series(1, 2) n;
SELECT workq_park(claim_id) FROM workq_claim('tx', 'w', max_jobs => 2);
SELECT workq_map_error('tx', 'MAPPED', 'error') > 0, workq_grant('tx', 'public', 'monitor');
SELECT ready, scheduled, leased, held FROM workq.queue_overview WHERE queue = 'tx';

-- one statement for each verb, with what it returns
CREATE TEMP TABLE verbs (n serial, statement text);
CREATE FUNCTION pg_temp.id(name text) RETURNS bigint LANGUAGE sql AS $$ SELECT id FROM j WHERE j.name = id.name $$;
CREATE FUNCTION pg_temp.c(name text) RETURNS uuid LANGUAGE sql AS $$ SELECT c FROM j WHERE j.name = c.name $$;
INSERT INTO verbs (statement) VALUES
    ($$SELECT workq_enqueue('tx', '"new"', dedup_key => 'new') > 0$$),
    ($$SELECT workq_enqueue('tx', '"new"', 'high', delay => '1 h') > 0$$),
    ($$SELECT workq_enqueue('tx', '"dup"', dedup_key => 'ready 1') = pg_temp.id('ready 1')$$),
    ($$SELECT workq_enqueue('tx new queue', '"new"') > 0$$),
    ($$SELECT count(*) FROM workq_enqueue_batch('tx', '[{"payload": 1}, {"payload": 2, "dedup_key": "b"}, {"payload": 3, "delay": "1 h"}]')$$),
    ($$SELECT payload FROM workq_claim('tx', 'w')$$),
    ($$SELECT count(*) FROM workq_claim('tx', 'w', max_jobs => 38)$$),
    ($$SELECT count(*) FROM workq_claim('tx', 'w', max_jobs => 100)$$),
    ($$SELECT count(*) FROM workq_claim_any(ARRAY['tx'], 'w', max_jobs => 100)$$),
    ($$SELECT workq_renew(pg_temp.c('leased 1'), '2 h') > now()$$),
    ($$SELECT count(*) FROM workq_renew_batch(ARRAY[pg_temp.c('leased 1'), pg_temp.c('leased 2')], '2 h')$$),
    ($$SELECT workq_progress(pg_temp.c('leased 1'), '"p"') > 0$$),
    ($$SELECT count(*) FROM workq_progress_batch(ARRAY[pg_temp.c('leased 1'), pg_temp.c('leased 2')], ARRAY['1', '2']::jsonb[])$$),
    ($$SELECT workq_checkpoint(pg_temp.c('leased 1'), 'step', '"r"')$$),
    ($$SELECT count(*) FROM workq_checkpoint_batch(ARRAY[pg_temp.c('leased 1'), pg_temp.c('leased 2')], ARRAY['a', 'b'])$$),
    ($$SELECT workq_ack(pg_temp.c('leased 1'), '"r"')$$),
    ($$SELECT count(*) FROM workq_ack_batch(ARRAY[pg_temp.c('leased 1'), pg_temp.c('leased 2')])$$),
    ($$SELECT payload FROM workq_ack_claim(ARRAY[pg_temp.c('leased 1')], NULL, 'tx', 'w')$$),
    ($$SELECT workq_report_error(pg_temp.c('leased 1'), 'E', 'm')$$),
    ($$SELECT count(*) FROM workq_report_error_batch(ARRAY[pg_temp.c('leased 1'), pg_temp.c('leased 2')], ARRAY['E', 'F'])$$),
    ($$SELECT workq_report_status(pg_temp.c('leased 2'), '"s"')$$),
    ($$SELECT count(*) FROM workq_report_status_batch(ARRAY[pg_temp.c('leased 1'), pg_temp.c('leased 2')], ARRAY['1', '2']::jsonb[])$$),
    ($$SELECT workq_park(pg_temp.c('leased 2'), 'p')$$),
    ($$SELECT count(*) FROM workq_park_batch(ARRAY[pg_temp.c('leased 1'), pg_temp.c('leased 2')])$$),
    ($$SELECT workq_unpark(pg_temp.id('parked 1'), '"new"')$$),
    ($$SELECT workq_unpark(pg_temp.id('parked 1'), NULL, '1 h')$$),
    ($$SELECT count(*) FROM workq_unpark_batch(ARRAY[pg_temp.id('parked 1'), pg_temp.id('parked 2')])$$),
    ($$SELECT workq_cancel(pg_temp.id('parked 1'))$$),
    ($$SELECT workq_fail(pg_temp.c('leased 3'), 'MAPPED')$$),
    ($$SELECT workq_fail(pg_temp.c('leased 3'), 'F')$$),
    ($$SELECT workq_fail(pg_temp.c('leased 3'), 'F', retry_in => '0')$$),
    ($$SELECT workq_fail(pg_temp.c('leased 3'), 'F', on_fail => 'hold_lease')$$),
    ($$SELECT count(*) FROM workq_fail_batch(ARRAY[pg_temp.c('leased 3'), pg_temp.c('leased 4')])$$),
    ($$SELECT workq_release(pg_temp.c('leased 4'))$$),
    ($$SELECT workq_release(pg_temp.c('leased 4'), '1 h')$$),
    ($$SELECT count(*) FROM workq_release_batch(ARRAY[pg_temp.c('leased 4'), pg_temp.c('leased 5')])$$),
    ($$SELECT workq_cancel(pg_temp.id('ready 1'))$$),
    ($$SELECT workq_cancel(pg_temp.id('scheduled 1'))$$),
    ($$SELECT workq_cancel(pg_temp.id('leased 5'))$$),
    ($$SELECT workq_cancel(pg_temp.id('dead 1'))$$),
    ($$SELECT count(*) FROM workq_cancel_batch(ARRAY[pg_temp.id('ready 2'), pg_temp.id('leased 5'), pg_temp.id('dead 2')])$$),
    ($$SELECT workq_requeue(pg_temp.id('dead 1'))$$),
    ($$SELECT count(*) FROM workq_requeue_batch(ARRAY[pg_temp.id('dead 1'), pg_temp.id('dead 2')])$$),
    ($$SELECT workq_requeue_all('tx')$$),
    ($$SELECT workq_purge('tx', confirm => true, scheduled => true)$$),
    ($$SELECT workq_create_queue('tx new queue')$$),
    ($$SELECT workq_configure('tx', max_lease => '1 h') > 0$$),
    ($$SELECT workq_set_key('tx', 'k', 3) > 0$$),
    ($$SELECT workq_map_error('tx', 'NEW', 'dead') > 0$$),
    ($$SELECT workq_unmap_error('tx', 'MAPPED')$$),
    ($$SELECT workq_reset('tx', 'max_lease') > 0$$),
    ($$SELECT workq_pause('tx', enqueue => true)$$),
    ($$SELECT workq_pause('tx') AND workq_resume('tx')$$),
    ($$SELECT workq_grant('tx', 'public', 'claim')$$),
    ($$SELECT workq_revoke('tx', 'public', 'monitor')$$),
    ($$SELECT workq_drop_queue('tx', confirm => true)$$);
-- all functions but those that only look
SELECT proname FROM pg_proc WHERE proname LIKE 'workq\_%' AND pronamespace = 'public'::regnamespace AND prokind = 'f'
   AND proname NOT IN ('workq_job', 'workq_explain', 'workq_result', 'workq_responses', 'workq_stream', 'workq_checkpoints', 'workq_claim_policy', 'workq_check')
   AND proname NOT LIKE 'workq_scheduler%' AND proname NOT LIKE 'workq_metrics%'
   AND NOT EXISTS (SELECT FROM verbs WHERE statement LIKE '%' || replace(proname, '_', '\_') || '(%') ORDER BY 1;
CREATE TEMP TABLE before AS SELECT pg_temp.live('tx') AS live;
-- what was left of something that was undone: must be nothing
CREATE FUNCTION pg_temp.trace() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT 'before: ' || live || E'\nafter:  ' || pg_temp.live('tx') FROM before WHERE live IS DISTINCT FROM pg_temp.live('tx')
    UNION ALL SELECT 'left: ' || name FROM workq.queues WHERE name = 'tx new queue'
    UNION ALL SELECT 'difference: ' || c::text FROM workq_check() c
$$;
SELECT pg_temp.trace();

-- (36) a verb in a savepoint that rolls back leaves no trace
SELECT 'BEGIN', 'SAVEPOINT s', statement, 'ROLLBACK TO s', 'COMMIT', 'SELECT pg_temp.trace()' FROM verbs ORDER BY n \gexec

-- the same rolled back by an exception in PL/pgSQL, twice in one transaction,
-- and all verbs one after the other in one transaction
CREATE FUNCTION pg_temp.undone(statement text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    RAISE 'undo';
EXCEPTION WHEN raise_exception THEN
END $$;
BEGIN;
SELECT count(pg_temp.undone(statement)) FROM verbs WHERE statement NOT LIKE '%drop_queue%';
SELECT count(pg_temp.undone(statement)) FROM verbs WHERE statement NOT LIKE '%drop_queue%';
COMMIT;
SELECT pg_temp.trace();

-- and by the end of the transaction
SELECT 'BEGIN', statement, 'ROLLBACK', 'SELECT pg_temp.trace()' FROM verbs ORDER BY n \gexec

-- a savepoint that is released and then undone from outside
BEGIN;
SAVEPOINT outer_one;
SAVEPOINT a; SELECT workq_ack(pg_temp.c('leased 1')); RELEASE a;
SAVEPOINT b; SELECT count(*) FROM workq_claim('tx', 'w', max_jobs => 3);
SAVEPOINT c; SELECT workq_cancel(pg_temp.id('ready 40')); RELEASE c;
RELEASE b;
SELECT workq_enqueue('tx', '"outer"') > 0;
SAVEPOINT d; SELECT workq_requeue_all('tx'); ROLLBACK TO d; RELEASE d;
ROLLBACK TO outer_one;
SELECT pg_temp.live('tx') = live FROM before;
COMMIT;
SELECT pg_temp.trace();

-- part of it stays
BEGIN;
SELECT workq_enqueue('tx part', '1') > 0;
SAVEPOINT s; SELECT workq_enqueue('tx part', '2') > 0; ROLLBACK TO s;
SELECT workq_enqueue('tx part', '3') > 0;
SAVEPOINT t; SELECT workq_enqueue('tx part', '4') > 0; RELEASE t;
SAVEPOINT u; SELECT count(*) FROM workq_claim('tx part', 'w', max_jobs => 2); ROLLBACK TO u;
SELECT payload FROM workq_claim('tx part', 'w');
COMMIT;
SELECT * FROM workq_check();
SELECT payload FROM workq_claim('tx part', 'w', max_jobs => 10);
SELECT ready, leased, enqueued FROM workq.queue_overview WHERE queue = 'tx part';

-- (41) 100 ready jobs: claim 80, claim 1, roll back; then 100 come
SELECT count(*) FROM workq_enqueue_batch('tx 41', (SELECT jsonb_agg('{"payload": 1}'::jsonb) FROM generate_series(1, 100)));
BEGIN;
SELECT count(*) FROM workq_claim('tx 41', 'w', max_jobs => 80);
SELECT count(*) FROM workq_claim('tx 41', 'w');
ROLLBACK;
SELECT * FROM workq_check();
BEGIN;
SELECT count(*) FROM workq_claim('tx 41', 'w', max_jobs => 1000);
ROLLBACK;
BEGIN;
SAVEPOINT s;
SELECT count(*) FROM workq_claim('tx 41', 'w', max_jobs => 80);
SELECT count(*) FROM workq_claim('tx 41', 'w');
ROLLBACK TO s;
SELECT count(*) FROM workq_claim('tx 41', 'w', max_jobs => 1000);
ROLLBACK;
-- several times in a row, of different sizes around the number of exact positions
DO $$
BEGIN
    FOR n IN 28..36 LOOP
        BEGIN
            PERFORM workq_claim('tx 41', 'w', max_jobs => n);
            RAISE 'undo';
        EXCEPTION WHEN raise_exception THEN
        END;
    END LOOP;
END $$;
SELECT * FROM workq_check();
SELECT count(*), count(DISTINCT job_id) FROM workq_claim('tx 41', 'w', max_jobs => 1000);

-- (44) enqueue and claim in one transaction: it finds its own job; after a
-- rollback nobody does
SELECT workq_create_queue('tx 44');
BEGIN;
SELECT workq_enqueue('tx 44', '1') > 0;
SELECT payload, attempt FROM workq_claim('tx 44', 'w');
SELECT workq_enqueue('tx 44', '2') > 0, workq_enqueue('tx 44', '3', 'high') > 0;
SELECT payload FROM workq_claim('tx 44', 'w', max_jobs => 10);
ROLLBACK;
SELECT count(*) FROM workq_claim('tx 44', 'w');
BEGIN;
SELECT workq_enqueue('tx 44', '4') > 0;
COMMIT;
-- the whole life in one transaction
BEGIN;
SELECT workq_enqueue('tx 44', '5') AS j \gset
SELECT claim_id AS c FROM workq_claim('tx 44', 'w', max_jobs => 2) WHERE job_id = :j \gset
SELECT workq_renew(:'c', '10 min') > now(), workq_release(:'c');
SELECT claim_id AS c FROM workq_claim('tx 44', 'w') \gset
SELECT workq_fail(:'c', retry_in => '0');
SELECT claim_id AS c FROM workq_claim('tx 44', 'w') \gset
SELECT workq_ack(:'c'), workq_ack(:'c');
SELECT count(*) FROM workq_claim('tx 44', 'w');
COMMIT;
SELECT state, attempt, failures FROM workq_job(:j);
SELECT ready, scheduled, leased, held, enqueued, done FROM workq.queue_overview WHERE queue = 'tx 44';
SELECT * FROM workq_check();
SELECT workq_create_queue('tx 44 b');
-- in one statement, without a snapshot in between
SELECT count(*) FROM (SELECT workq_enqueue('tx 44 b', '1') AS id OFFSET 0) e, LATERAL (SELECT e.id, * FROM workq_claim('tx 44 b', 'w' || e.id - e.id)) c WHERE c.job_id = e.id;

-- (49) a job released without delay, or whose lease expired, is the next one of its lane
SELECT workq_enqueue('tx 49', to_jsonb(n)) > 0 FROM generate_series(1, 3) n;
SELECT claim_id AS c FROM workq_claim('tx 49', 'w', '1 min') \gset
SELECT workq_release(:'c');
SELECT payload FROM workq_claim('tx 49', 'w', '1 min');
SELECT payload FROM workq_claim('tx 49', 'w', '1 h');
SET workq.clock_offset = '61 s';
-- the worker's clock is ours without the offset: the lease is only taken back by a claim that finds nothing else
SELECT payload FROM workq_claim('tx 49', 'w', '1 h');
SELECT payload, attempt FROM workq_claim('tx 49', 'w', '1 h');
RESET workq.clock_offset;

-- isolation levels: what others committed since counts, and no error for it
SELECT workq_enqueue('tx iso', to_jsonb(n)) > 0 FROM generate_series(1, 6) n;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT payload FROM workq_claim('tx iso', 'w');
SELECT workq_enqueue('tx iso', '7') > 0;
SELECT workq_ack(claim_id) FROM workq_claim('tx iso', 'w');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT payload FROM workq_claim('tx iso', 'w');
SELECT workq_ack(claim_id) FROM workq_claim('tx iso', 'w');
COMMIT;
SELECT payload FROM workq_claim('tx iso', 'w', max_jobs => 10);
-- no predicate lock is taken
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT workq_enqueue('tx iso', '8') > 0;
SELECT workq_ack(claim_id) FROM workq_claim('tx iso', 'w');
SELECT count(*) FROM pg_locks WHERE mode = 'SIReadLock' AND pid = pg_backend_pid() AND relation IN (SELECT oid FROM pg_class WHERE relnamespace = 'workq'::regnamespace);
COMMIT;

-- (A) read-only transactions: 25006 for what writes, workq_job works
SELECT id AS j FROM j WHERE name = 'ready 1' \gset
\set VERBOSITY sqlstate
SELECT 'START TRANSACTION READ ONLY', statement, 'ROLLBACK' FROM verbs ORDER BY n \gexec
\set VERBOSITY default
START TRANSACTION READ ONLY;
SELECT workq_enqueue('tx', '1');
ROLLBACK;
START TRANSACTION READ ONLY;
SELECT state FROM workq_job(:j);
SELECT ready FROM workq.queue_overview WHERE queue = 'tx';
ROLLBACK;

-- (B) PREPARE TRANSACTION: 0A000, whatever verb was used, and all of it is undone
BEGIN; SELECT workq_enqueue('tx', '1') > 0; PREPARE TRANSACTION 'workq';
ROLLBACK;
\set VERBOSITY sqlstate
SELECT 'BEGIN', statement, 'PREPARE TRANSACTION ''workq''', 'ROLLBACK' FROM verbs WHERE statement NOT LIKE '%reset%' ORDER BY n \gexec
-- also when the verb changed nothing: it holds locks that others wait for
SELECT workq_create_queue('tx empty');
SELECT 'BEGIN', statement, 'PREPARE TRANSACTION ''workq''', 'ROLLBACK' FROM (VALUES ($$SELECT count(*) FROM workq_claim('tx empty', 'w')$$),
    ($$SELECT workq_purge('tx empty', confirm => true)$$), ($$SELECT workq_ack('ffffffff-ffff-8fff-bfff-ffffffffffff', on_lost => 'report')$$)) v (statement) \gexec
BEGIN;
SAVEPOINT s;
SELECT payload FROM workq_claim('tx', 'w');
ROLLBACK TO s;
PREPARE TRANSACTION 'workq';
ROLLBACK;
SELECT 'ROLLBACK PREPARED ''' || gid || '''' FROM pg_prepared_xacts WHERE database = current_database() \gexec
\set VERBOSITY default
-- a transaction that only looked, or did nothing, can be prepared
BEGIN; SELECT state FROM workq_job(:j); CREATE TABLE tx_prepared (); PREPARE TRANSACTION 'workq'; ROLLBACK PREPARED 'workq';
SELECT count(*) FROM pg_prepared_xacts;
SELECT pg_temp.trace();

-- (C) after an error in the middle of a verb nothing is left
BEGIN;
SELECT count(*) FROM workq_claim('tx', 'w', max_jobs => 5);
SELECT 1 / 0;
SELECT count(*) FROM workq_claim('tx', 'w', max_jobs => 5);
COMMIT;
SELECT pg_temp.try($$SELECT 1 / (count(*) - 5) FROM workq_claim('tx', 'w', max_jobs => 5)$$);
SELECT pg_temp.trace();

-- (D) cursors, a function called for each row, WITH
BEGIN;
DECLARE c CURSOR WITH HOLD FOR SELECT payload FROM workq_claim('tx', 'w', max_jobs => 3);
FETCH 1 FROM c;
COMMIT;
FETCH 1 FROM c;
CLOSE c;
SELECT leased FROM workq.queue_overview WHERE queue = 'tx';
WITH claimed AS MATERIALIZED (SELECT * FROM workq_claim('tx', 'w', max_jobs => 2)) SELECT workq_ack(claim_id, payload) FROM claimed;
SELECT count(*) FROM generate_series(1, 3), LATERAL (SELECT generate_series, * FROM workq_claim('tx', 'w' || generate_series)) c;
SELECT * FROM workq_check();
