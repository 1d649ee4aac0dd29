--
-- Results, and following them.
--

\set VERBOSITY terse
\pset format unaligned
\pset tuples_only on

\i sql/include/try.sql

-- from here on; transactions of others that are open hold us up for a moment
CREATE PROCEDURE pg_temp.quiet() LANGUAGE plpgsql AS $$
DECLARE
    mine xid8 := pg_current_xact_id();
BEGIN
    COMMIT;
    FOR i IN 1 .. 600 LOOP
        EXIT WHEN pg_snapshot_xmin(pg_current_snapshot()) > mine;
        PERFORM pg_sleep(0.05);
        COMMIT;
    END LOOP;
END $$;
CALL pg_temp.quiet();
SELECT coalesce(max(writer)::text, '0') || '/0/0' AS start FROM workq.responses \gset
SELECT coalesce((SELECT position FROM workq_responses(:'start', max_rows => 100000) ORDER BY at DESC NULLS FIRST LIMIT 1), :'start') AS start \gset

SELECT workq_create_queue('follow');
SELECT workq_enqueue('follow', '1', correlation => 'wf-1') AS a \gset
SELECT workq_enqueue('follow', '2', correlation => 'wf-2') AS b \gset
SELECT workq_enqueue('follow', '3') AS c \gset
SELECT done, state, outcome, result, correlation FROM workq_result(:a);
SELECT workq_ack(claim_id, '{"r": 1}') FROM workq_claim('follow', 'w');
SELECT done, state, outcome, result, worker, attempt, correlation FROM workq_result(:a);
SELECT workq_fail(claim_id, 'E', 'm', retry_in => '0') FROM workq_claim('follow', 'w');
SELECT job_id = :b, done, state, outcome, error_code, error_message FROM workq_result(:b);
SELECT workq_report_error(claim_id, 'B', 'biz') FROM workq_claim('follow', 'w');
SELECT workq_cancel(:b);

CALL pg_temp.quiet();
SELECT CASE job_id WHEN :a THEN 'a' WHEN :b THEN 'b' WHEN :c THEN 'c' END, correlation, final, outcome, result, error_code FROM workq_responses(:'start');
-- one by one, each from the last position; the same order
CREATE TEMP TABLE seen (n serial, position text, outcome text);
SELECT set_config('follow.start', :'start', false) = :'start';
DO $$
DECLARE
    pos text := current_setting('follow.start');
    r record;
BEGIN
    LOOP
        SELECT * INTO r FROM workq_responses(pos, max_rows => 1);
        EXIT WHEN NOT FOUND;
        INSERT INTO seen (position, outcome) VALUES (r.position, r.outcome);
        pos := r.position;
    END LOOP;
END $$;
SELECT string_agg(outcome, ' ' ORDER BY n) FROM seen;
-- by prefix; a last row says how far it has looked
SELECT correlation, outcome, position IS NOT NULL FROM workq_responses(:'start', 'wf-1');
SELECT correlation, outcome, position = (SELECT position FROM seen ORDER BY n DESC LIMIT 1) FROM workq_responses(:'start', 'nobody');
-- ours come when we have committed
BEGIN;
SELECT workq_cancel(workq_enqueue('follow', '4', correlation => 'wf-4'));
SELECT count(*) FROM workq_responses(:'start', 'wf-4') WHERE job_id IS NOT NULL;
COMMIT;
CALL pg_temp.quiet();
SELECT count(*) FROM workq_responses(:'start', 'wf-4') WHERE job_id IS NOT NULL;

-- who may see what
CREATE ROLE regress_follow;
SET ROLE regress_follow;
SELECT count(job_id) FROM workq_responses(:'start');
SELECT replace(pg_temp.try_briefly(format('SELECT workq_result(%s)', :a)), 'job ' || :'a', 'job N');
RESET ROLE;
SELECT workq_grant('follow', 'regress_follow', 'monitor');
SET ROLE regress_follow;
SELECT correlation, outcome, result, claim_id FROM workq_responses(:'start', 'wf-1') WHERE job_id IS NOT NULL;
SELECT outcome, result FROM workq_result(:a);
RESET ROLE;
SELECT workq_revoke('follow', 'regress_follow', 'monitor');
DROP ROLE regress_follow;

-- bad arguments
SELECT p, pg_temp.try_briefly(format('SELECT workq_responses(%L)', p)) FROM unnest(ARRAY['', 'x', '1', '1/2', '1/2/3/4', '-1/0/0', '1/2/', '99999999999999999999999/1/1']) p;
SELECT pg_temp.try_briefly('SELECT workq_responses(NULL, '''')'), pg_temp.try_briefly('SELECT workq_responses(NULL, NULL, 0)'), pg_temp.try_briefly('SELECT workq_responses(max_rows => 100001)');
SELECT pg_temp.try_briefly('SELECT workq_result(NULL)'), pg_temp.try_briefly('SELECT workq_result(0)');
SELECT * FROM workq_check();
