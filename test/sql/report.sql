--
-- Business verdicts, parking, and what a claim's holder may not do.
--

\set VERBOSITY terse
\pset format unaligned
\pset tuples_only on

\i sql/include/try.sql
-- Enqueue one job and claim it.
CREATE FUNCTION pg_temp.one(q text, VARIADIC opts text[] DEFAULT '{}') RETURNS uuid LANGUAGE plpgsql AS $$
BEGIN
    PERFORM workq_enqueue(q, '{"n": 1}', correlation => 'wf-' || q, dedup_key => opts[1]);
    RETURN (SELECT claim_id FROM workq_claim(q, 'w1', '1 min'));
END $$;
-- What the log says of a job.
CREATE FUNCTION pg_temp.story(id bigint) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(event || coalesce(':' || decision, '') || coalesce('(' || reason || ')', ''), ' ' ORDER BY number)
      FROM (SELECT event, CASE WHEN event <> 'claimed' THEN decision END AS decision, reason, number FROM workq.claims WHERE job_id = id) c $$;
CREATE FUNCTION pg_temp.responses(id bigint) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(concat_ws('|', outcome, worker, code, message, body, correlation), ' ' ORDER BY number)
      FROM workq.responses WHERE job_id = id $$;

SELECT workq_create_queue('report');

-- a business error is final, says what it is, and gives the key back
SELECT pg_temp.one('report', 'k1') AS claim \gset
SELECT max(job_id) AS job FROM workq.jobs \gset
SELECT workq_report_error(:'claim', 'E_CARD', 'declined', '{"card": 1}');
SELECT workq_report_error(:'claim', 'E_OTHER');
SELECT state, outcome, error_code, error_message, result FROM workq_job(:job);
SELECT pg_temp.story(:job);
SELECT pg_temp.responses(:job);
SELECT count(*) FROM workq_claim('report', 'w1');
SELECT count(*) FROM workq.dedup WHERE job_id = :job;
-- another outcome is not accepted any more
SELECT pg_temp.try_briefly(format('SELECT workq_ack(%L)', :'claim'));
SELECT pg_temp.try_briefly(format('SELECT workq_report_status(%L, ''1'')', :'claim'));
SELECT pg_temp.try_briefly(format('SELECT workq_fail(%L)', :'claim'));
SELECT pg_temp.try_briefly(format('SELECT workq_park(%L)', :'claim'));
SELECT workq_report_status(:'claim', '1', on_lost => 'report');

-- a status
SELECT pg_temp.one('report') AS claim \gset
SELECT max(job_id) AS job FROM workq.jobs \gset
SELECT workq_report_status(:'claim', '"AUTHORIZED"');
SELECT workq_report_status(:'claim', '"OTHER"');
SELECT state, outcome, result FROM workq_job(:job);
SELECT pg_temp.story(:job);
SELECT pg_temp.responses(:job);

-- bad arguments
SELECT pg_temp.one('report') AS claim \gset
SELECT a, pg_temp.try_briefly(format(a, :'claim')) FROM unnest(ARRAY[
    'SELECT workq_report_error(NULL, ''E'')',
    'SELECT workq_report_error(%L, NULL)',
    'SELECT workq_report_error(%L, '''')',
    'SELECT workq_report_error(%L, '' E'')',
    'SELECT workq_report_error(%L, repeat(''E'', 256))',
    'SELECT workq_report_error(%L, ''E'', repeat(''m'', 8193))',
    'SELECT workq_report_error(%L, ''E'', on_lost => ''no'')',
    'SELECT workq_report_error(''00000000-0000-0000-0000-000000000000'', ''E'')',
    'SELECT workq_report_status(NULL, ''1'')',
    'SELECT workq_report_status(%L, NULL)',
    'SELECT workq_report_status(%L, ''1'', ''no'')',
    'SELECT workq_park(NULL)',
    'SELECT workq_park(%L, repeat(''r'', 8193))',
    'SELECT workq_park(%L, on_lost => ''no'')',
    'SELECT workq_unpark(NULL)',
    'SELECT workq_unpark(0)',
    'SELECT workq_unpark(1, delay => ''-1 s'')',
    'SELECT workq_unpark(1, delay => ''1 month'')',
    'SELECT status FROM workq_report_error_batch(NULL, ''{}'')',
    'SELECT status FROM workq_report_error_batch(ARRAY[%L]::uuid[], NULL)',
    'SELECT status FROM workq_report_error_batch(ARRAY[%L]::uuid[], ''{}'')',
    'SELECT status FROM workq_report_error_batch(ARRAY[%L]::uuid[], ''{NULL}'')',
    'SELECT status FROM workq_report_error_batch(ARRAY[NULL]::uuid[], ''{E}'')',
    'SELECT status FROM workq_report_status_batch(ARRAY[%L]::uuid[], NULL)',
    'SELECT status FROM workq_report_status_batch(ARRAY[%L]::uuid[], ''{NULL}'')',
    'SELECT status FROM workq_park_batch(NULL)',
    'SELECT status FROM workq_unpark_batch(NULL)',
    'SELECT status FROM workq_unpark_batch(''{1}'', ''{}'')',
    'SELECT status FROM workq_unpark_batch(''{NULL}'')']) a;
-- none of them did anything
SELECT workq_release(:'claim');

-- parking: no lease, no failure, the key stays, the claim is over
SELECT claim_id AS claim, job_id AS job FROM workq_claim('report', 'w1') \gset
SELECT workq_ack(:'claim');
SELECT pg_temp.one('report', 'k2') AS claim \gset
SELECT max(job_id) AS job FROM workq.jobs \gset
SELECT workq_park(:'claim', 'waits for the bank');
SELECT workq_park(:'claim', 'again');
SELECT state, attempt, failures, worker FROM workq_job(:job);
SELECT state, reason, payload FROM workq.held_jobs WHERE job_id = :job;
SELECT workq_enqueue('report', '{}', dedup_key => 'k2') = :job;
SELECT pg_temp.try_briefly(format('SELECT workq_renew(%L)', :'claim'));
SELECT count(*) FROM workq_claim('report', 'w1');
-- with another payload
SELECT workq_unpark(:job, '{"answer": 42}');
SELECT workq_unpark(:job);
SELECT payload FROM workq_job(:job);
SELECT workq.job_payload(:job);
SELECT payload FROM workq.jobs WHERE job_id = :job;
SELECT claim_id AS claim, payload, attempt, failures, correlation FROM workq_claim('report', 'w2') \gset
SELECT :'payload', :'attempt', :'failures', :'correlation';
SELECT workq_park(:'claim');
-- the last one counts; a delay
SELECT workq_unpark(:job, '{"answer": 43}', '1 h');
SELECT state, payload FROM workq_job(:job);
SET workq.clock_offset = '2 h';
SELECT claim_id AS claim, payload, attempt FROM workq_claim('report', 'w2') \gset
SELECT :'payload', :'attempt';
SELECT workq_park(:'claim');
SELECT workq_unpark(:job);
SELECT payload FROM workq_claim('report', 'w2', '1 h');
RESET workq.clock_offset;
SELECT workq_ack(claim_id) FROM workq.active_claims WHERE job_id = :job;
SELECT pg_temp.story(:job);
SELECT workq_unpark(:job);

-- a dead job is not parked, a parked one can be requeued and cancelled
SELECT workq_enqueue('report', '{}', max_attempts => 1) AS job \gset
SELECT workq_fail(claim_id, 'E') FROM workq_claim('report', 'w1');
SELECT workq_unpark(:job);
SELECT workq_requeue(:job);
SELECT workq_park(claim_id) FROM workq_claim('report', 'w1');
SELECT workq_requeue(:job);
SELECT workq_park(claim_id) FROM workq_claim('report', 'w1');
SELECT workq_cancel(:job, 'no longer needed');
SELECT workq_unpark(:job);
SELECT pg_temp.story(:job);
SELECT pg_temp.responses(:job);

-- a cancelled job's holder may report, but the job is not revived
CREATE FUNCTION pg_temp.after_cancel(verb text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    claim uuid := pg_temp.one('report');
    id bigint := (SELECT max(job_id) FROM workq.jobs);
BEGIN
    RETURN concat_ws(E'\n  ', verb, workq_cancel(id, 'stop'), pg_temp.try_briefly(format('SELECT workq_renew(%L)', claim)),
        pg_temp.try_briefly(format('SELECT workq_%s', format(verb, claim))), pg_temp.try_briefly(format('SELECT workq_%s', format(verb, claim))),
        pg_temp.story(id), pg_temp.responses(id), (SELECT state FROM workq_job(id)));
END $$;
SELECT pg_temp.after_cancel(v)
  FROM unnest(ARRAY['ack(%L)', 'fail(%L, ''E'')', 'fail(%L, on_fail => ''hold_lease'')', 'release(%L, reason => ''gate'')', 'park(%L, ''p'')',
                    'report_error(%L, ''E'')', 'report_status(%L, ''1'')']) v;
SELECT count(*) FROM workq_claim('report', 'w1');

-- a job that its lease's end kills answers, too
SELECT workq_enqueue('report', '{}', max_attempts => 1, correlation => 'c') AS job \gset
SELECT count(*) FROM workq_claim('report', 'w1', '10 ms');
DO $$
BEGIN
    FOR i IN 1 .. 600 LOOP
        EXIT WHEN EXISTS (SELECT FROM workq.held WHERE reason = 'lease expired');
        PERFORM pg_sleep(0.05);
        COMMIT;
    END LOOP;
END $$;
SELECT pg_temp.story(:job);
SELECT pg_temp.responses(:job);

-- batches: each element's own status, whatever the order
SELECT workq_create_queue('report batch');
SELECT count(*) FROM workq_enqueue_batch('report batch', '[{"payload": 1}, {"payload": 2}, {"payload": 3}, {"payload": 4}]');
SELECT array_agg(claim_id ORDER BY job_id DESC) AS claims, array_agg(job_id ORDER BY job_id DESC) AS jobs FROM workq_claim('report batch', 'w', max_jobs => 4) \gset
SELECT ord, status, sqlstate, deadline FROM workq_report_error_batch((:'claims'::uuid[])[1:1] || (:'claims'::uuid[])[1:1], '{A,B}', '{m,NULL}', ARRAY['1', NULL]::jsonb[]);
SELECT ord, status, sqlstate, deadline FROM workq_report_status_batch((:'claims'::uuid[])[1:2], ARRAY['1', '2']::jsonb[]);
SELECT pg_temp.try_briefly(format('SELECT status FROM workq_report_status_batch(%L, ARRAY[''1'', ''2'']::jsonb[], ''error'')', (:'claims'::uuid[])[1:2]));
SELECT ord, status, sqlstate, deadline FROM workq_park_batch((:'claims'::uuid[])[2:4], 'later');
SELECT ord, status, sqlstate FROM workq_unpark_batch((:'jobs'::bigint[])[3:4] || 0::bigint || (:'jobs'::bigint[])[1:1], ARRAY['30', NULL, NULL, NULL]::jsonb[]);
SELECT payload FROM workq_claim('report batch', 'w', max_jobs => 4) ORDER BY job_id;
SELECT count(*) FROM workq_report_error_batch('{}', '{}');

-- rights
CREATE ROLE regress_report_worker;
CREATE ROLE regress_report_other;
SELECT workq_grant('report', 'regress_report_worker', 'claim');
SELECT pg_temp.one('report') AS claim \gset
SELECT max(job_id) AS job FROM workq.jobs \gset
SET ROLE regress_report_other;
SELECT pg_temp.try_briefly(format('SELECT workq_report_error(%L, ''E'')', :'claim'));
SELECT pg_temp.try_briefly(format('SELECT workq_report_status(%L, ''1'')', :'claim'));
SELECT pg_temp.try_briefly(format('SELECT workq_park(%L)', :'claim'));
SELECT pg_temp.try_briefly(format('SELECT status FROM workq_park_batch(ARRAY[%L]::uuid[])', :'claim'));
SET ROLE regress_report_worker;
SELECT workq_park(:'claim');
SELECT pg_temp.try_briefly(format('SELECT workq_unpark(%s)', :job));
SELECT pg_temp.try_briefly(format('SELECT status FROM workq_unpark_batch(''{%s}'')', :job));
RESET ROLE;
SELECT workq_unpark(:job);
SELECT workq_revoke('report', 'regress_report_worker', 'claim');
DROP ROLE regress_report_worker, regress_report_other;

-- all in a transaction that rolls back: no trace
BEGIN;
SELECT workq_park(claim_id) FROM workq_claim('report', 'w3');
SAVEPOINT s;
SELECT workq_unpark(:job, '"never"');
ROLLBACK TO s;
ROLLBACK;
SELECT payload FROM workq_claim('report', 'w3');

SELECT * FROM workq_check();
