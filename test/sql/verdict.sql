--
-- What a fault means: retry policies of queue and job, the error map, trust.
--

\set VERBOSITY terse
\pset format unaligned
\pset tuples_only on

\i sql/include/try.sql
-- Fail a job with these codes one after the other, each time at once when it
-- is due; what came of each.
CREATE FUNCTION pg_temp.fails(q text, codes text[], retry jsonb DEFAULT NULL, arg text DEFAULT '') RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    id bigint := workq_enqueue(q, '{}', retry => retry, correlation => 'c');
    claim uuid;
    f record;
BEGIN
    FOR i IN 1 .. cardinality(codes) LOOP
        SELECT claim_id INTO claim FROM workq_claim(q, 'w');
        IF claim IS NULL THEN
            RETURN NEXT 'nothing to claim';
            EXIT;
        END IF;
        EXECUTE format('SELECT workq_fail(%L, %L, ''m'', ''{"b": 1}''%s)', claim, codes[i], arg);
        SELECT event, decision, reason, date_trunc('second', due - at) AS delay INTO f FROM workq.claims
         WHERE job_id = id AND event = 'failed' ORDER BY number DESC LIMIT 1;
        RETURN NEXT concat_ws(' ', (SELECT state FROM workq_job(id)), f.decision, f.reason, f.delay) || ' / '
            || (SELECT concat_ws(' ', outcome, code, body) FROM workq.responses WHERE job_id = id ORDER BY number DESC LIMIT 1);
        PERFORM set_config('workq.clock_offset', (i * 100000)::text, true);
    END LOOP;
    PERFORM workq_cancel(id);
    PERFORM set_config('workq.clock_offset', '0', true);
END $$;

-- The same with a commit between.
CREATE PROCEDURE pg_temp.many(q text, codes text[], retry jsonb DEFAULT NULL, arg text DEFAULT '', INOUT result text DEFAULT '') LANGUAGE plpgsql AS $$
DECLARE
    id bigint := workq_enqueue(q, '{}', retry => retry, correlation => 'c');
    claim uuid;
    f record;
BEGIN
    FOR i IN 1 .. cardinality(codes) LOOP
        SELECT claim_id INTO claim FROM workq_claim(q, 'w');
        IF claim IS NULL THEN
            result := result || E'\nnothing to claim';
            EXIT;
        END IF;
        EXECUTE format('SELECT workq_fail(%L, %L, ''m'', ''{"b": 1}''%s)', claim, codes[i], arg);
        SELECT event, decision, reason, date_trunc('second', due - at) AS delay INTO f FROM workq.claims
         WHERE job_id = id AND event = 'failed' ORDER BY number DESC LIMIT 1;
        result := result || E'\n' || concat_ws(' ', (SELECT state FROM workq_job(id)), f.decision, f.reason, f.delay) || ' / '
            || (SELECT concat_ws(' ', outcome, code, body) FROM workq.responses WHERE job_id = id ORDER BY number DESC LIMIT 1);
        PERFORM set_config('workq.clock_offset', (i * 100000)::text, false);
        COMMIT;
    END LOOP;
    PERFORM workq_cancel(id);
    PERFORM set_config('workq.clock_offset', '0', false);
END $$;

SELECT workq_create_queue('verdict');

-- policies of the queue
SELECT workq_configure('verdict', retry_base => '10 s', retry_cap => '1 min', retry_jitter => 0, max_attempts => 6);
CALL pg_temp.many('verdict', '{A,B,C,D,E,F,G}');
SELECT workq_configure('verdict', retry_factor => 3);
CALL pg_temp.many('verdict', '{A,B,C}');
SELECT workq_configure('verdict', retry_kind => 'fixed');
CALL pg_temp.many('verdict', '{A,B,C}');
SELECT workq_configure('verdict', retry_kind => 'none');
CALL pg_temp.many('verdict', '{A,B}');
-- retry_in is the worker's wish; it cannot overrule "none"
CALL pg_temp.many('verdict', '{A,B}', NULL, ', ''5 s''');
SELECT workq_configure('verdict', retry_kind => 'exponential');
CALL pg_temp.many('verdict', '{A,B}', NULL, ', ''5 s''');
-- jitter: both ways, and no more than that
SELECT workq_configure('verdict', retry_kind => 'fixed', retry_jitter => 50, retry_base => '100 s');
SELECT count(workq_enqueue('verdict', '{}')) FROM generate_series(1, 100);
SELECT count(*) FROM workq_claim('verdict', 'w', max_jobs => 100) c, LATERAL workq_fail(c.claim_id) f;
SELECT min(due - at) BETWEEN '50 s' AND '80 s', max(due - at) BETWEEN '120 s' AND '150 s'
  FROM workq.scheduled s JOIN workq.claims c USING (job_id) JOIN workq.queues q ON q.queue_id = s.queue_id
 WHERE event = 'failed' AND name = 'verdict';
SELECT workq_purge('verdict', confirm => true, scheduled => true);
SELECT workq_configure('verdict', retry_kind => 'exponential', retry_jitter => 0, retry_base => '10 s', retry_factor => 2);

-- a job's own, over the queue's
CALL pg_temp.many('verdict', '{A,B}', '{"kind": "fixed", "base": "7 s"}');
CALL pg_temp.many('verdict', '{A,B}', '{"base": 3000, "factor": 10, "cap": "20 s"}');
CALL pg_temp.many('verdict', '{A,B,C}', '{"max_attempts": 2}');
CALL pg_temp.many('verdict', '{A,B}', '{"kind": "none"}');
SELECT * FROM pg_temp.fails('verdict', '{A}', '{"kind": null, "base": null}');
SELECT count(*) FROM workq_enqueue_batch('verdict', '[{"payload": 1, "retry": {"kind": "fixed", "base": "3 s", "jitter": 0}}, {"payload": 2, "retry": null}]');
SELECT count(*) FROM workq_claim('verdict', 'w', max_jobs => 2) c, LATERAL workq_fail(c.claim_id) f;
SELECT payload, date_trunc('second', due - at) FROM workq.scheduled s JOIN workq.claims c USING (job_id) JOIN workq.jobs j USING (job_id)
 WHERE event = 'failed' AND s.queue_id = (SELECT queue_id FROM workq.queues WHERE name = 'verdict') ORDER BY job_id;
SELECT workq_purge('verdict', confirm => true, scheduled => true);
SELECT options FROM workq.jobs WHERE options IS NOT NULL AND queue_id = (SELECT queue_id FROM workq.queues WHERE name = 'verdict') ORDER BY job_id;

-- bad policies
SELECT r, pg_temp.try_briefly(format('SELECT workq_enqueue(''verdict'', ''{}'', retry => %L)', r)) FROM unnest(ARRAY[
    '[]', '"fixed"', 'null', '{"kind": "linear"}', '{"kind": 1}', '{"delay": 1}', '{"base": -1}', '{"base": "-1 s"}', '{"base": "1 month"}',
    '{"base": "soon"}', '{"base": 1.5}', '{"base": true}', '{"cap": "25 days"}', '{"factor": 0}', '{"factor": 101}', '{"factor": "2"}',
    '{"jitter": 101}', '{"jitter": -1}', '{"max_attempts": 0}', '{"max_attempts": 1000001}']) r;
SELECT pg_temp.try_briefly($$SELECT workq_enqueue('verdict', '{}', max_attempts => 3, retry => '{"max_attempts": 3}')$$);
SELECT pg_temp.try_briefly($$SELECT workq_enqueue_batch('verdict', '[{"payload": 1, "retry": {"kind": "x"}}]')$$);
SELECT c, pg_temp.try_briefly(format('SELECT workq_configure(''verdict'', %s)', c)) FROM unnest(ARRAY['retry_kind => ''x''', 'retry_factor => 0',
    'retry_factor => 101', 'retry_jitter => -1', 'retry_jitter => 101', 'trust => ''nobody''']) c;

-- the map: the first rule that matches holds
SELECT workq_map_error('verdict', 'CARD\_%', 'error') > 1;
SELECT workq_map_error('verdict', 'HTTP_404', 'status', value => '"gone"') > 1;
SELECT workq_map_error('verdict', 'HTTP_4%', 'error', code => 'CLIENT', value => '{"mapped": true}') > 1;
SELECT workq_map_error('verdict', 'HTTP_5%', 'retry', retry => '{"kind": "fixed", "base": "42 s", "max_attempts": 3}') > 1;
SELECT workq_map_error('verdict', 'FATAL', 'dead') > 1;
SELECT workq_map_error('verdict', 'S%', 'status') > 1;
SELECT place, pattern, action, code, value, retry FROM workq.error_rules WHERE queue = 'verdict' ORDER BY 1;
SELECT c, f FROM unnest('{CARD_EXPIRED,CARDX,HTTP_404,HTTP_410,FATAL,S1,OTHER,http_404}'::text[]) WITH ORDINALITY AS u(c, n), LATERAL pg_temp.fails('verdict', ARRAY[c]) f ORDER BY n;
CALL pg_temp.many('verdict', '{HTTP_500,HTTP_500,HTTP_500,HTTP_500}', NULL, ', ''5 s''');
CALL pg_temp.many('verdict', '{OTHER,HTTP_500,FATAL}');
-- no code is the empty string
SELECT * FROM pg_temp.fails('verdict', ARRAY[NULL]::text[]);
SELECT workq_map_error('verdict', '%', 'dead') > 1;
SELECT * FROM pg_temp.fails('verdict', ARRAY[NULL]::text[]);
SELECT * FROM pg_temp.fails('verdict', '{OTHER}', '{"base": "1 s"}');
-- the log says what was reported and what it was taken for; the same fail again changes nothing
SELECT workq_enqueue('verdict', '{}', dedup_key => 'k') AS job \gset
SELECT claim_id AS claim FROM workq_claim('verdict', 'w') \gset
SELECT workq_fail(:'claim', 'HTTP_404');
SELECT workq_fail(:'claim', 'HTTP_404');
SELECT pg_temp.try_briefly(format('SELECT workq_report_status(%L, ''1'')', :'claim'));
SELECT event, reason FROM workq.claims WHERE job_id = :job ORDER BY number;
SELECT state, outcome, result, failures FROM workq_job(:job);
SELECT count(*) FROM workq.dedup WHERE job_id = :job;
-- hold_lease is for what would be tried again
SELECT workq_enqueue('verdict', '{}') AS job \gset
SELECT workq_fail(claim_id, 'FATAL', on_fail => 'hold_lease') FROM workq_claim('verdict', 'w');
SELECT state FROM workq_job(:job);
SELECT workq_cancel(:job);
-- places: move, replace, remove, what changes nothing
SELECT workq_unmap_error('verdict', '%');
SELECT workq_unmap_error('verdict', '%');
SELECT workq_map_error('verdict', 'S%', 'dead', place => 1) > 1;
SELECT workq_map_error('verdict', 'FATAL', 'dead') = workq_map_error('verdict', 'FATAL', 'dead');
SELECT workq_map_error('verdict', 'HTTP_404', 'status', value => '"away"') > 1;
SELECT workq_map_error('verdict', 'CARD\_%', 'error', place => 100) > 1;
SELECT place, pattern, action, value FROM workq.error_rules WHERE queue = 'verdict' ORDER BY 1;
SELECT event, settings -> 'detail' FROM workq.policies WHERE queue = 'verdict' AND event LIKE 'error%' ORDER BY version DESC LIMIT 4;
-- a change that rolls back is not noticed
BEGIN;
SELECT workq_map_error('verdict', 'OTHER', 'dead', place => 1) > 1;
SELECT * FROM pg_temp.fails('verdict', '{OTHER}');
ROLLBACK;
SELECT * FROM pg_temp.fails('verdict', '{OTHER}');

-- bad rules
SELECT a, pg_temp.try_briefly(format('SELECT workq_map_error(%s)', a)) FROM unnest(ARRAY[
    'NULL, ''E'', ''dead''', '''no such'', ''E'', ''dead''', '''verdict'', NULL, ''dead''', '''verdict'', '''', ''dead''',
    '''verdict'', repeat(''E'', 256), ''dead''', '''verdict'', ''E\'', ''dead''', '''verdict'', ''E'', NULL', '''verdict'', ''E'', ''drop''',
    '''verdict'', ''E'', ''dead'', code => ''F''', '''verdict'', ''E'', ''status'', code => ''F''', '''verdict'', ''E'', ''dead'', value => ''1''',
    '''verdict'', ''E'', ''retry'', value => ''1''', '''verdict'', ''E'', ''error'', retry => ''{}''', '''verdict'', ''E'', ''retry'', retry => ''[]''',
    '''verdict'', ''E'', ''retry'', retry => ''{"x": 1}''', '''verdict'', ''E'', ''dead'', place => 0', '''verdict'', ''E'', ''dead'', place => 101']) a;
SELECT pg_temp.try_briefly($$SELECT workq_map_error('verdict', 'E\\', 'dead') > 1$$);
SELECT workq_unmap_error('verdict', 'E\\');
SELECT pg_temp.try_briefly('SELECT workq_unmap_error(''verdict'', NULL)'), pg_temp.try_briefly('SELECT workq_unmap_error(NULL, ''E'')'), pg_temp.try_briefly('SELECT workq_unmap_error(''no such'', ''E'')');
SELECT workq_create_queue('verdict full');
SELECT count(workq_map_error('verdict full', 'E' || i, 'dead')) FROM generate_series(1, 100) i;
SELECT pg_temp.try_briefly($$SELECT workq_map_error('verdict full', 'F', 'dead')$$);
SELECT workq_map_error('verdict full', 'E50', 'error') > 1;
SELECT workq_drop_queue('verdict full', confirm => true);
SELECT count(*) FROM workq.error_map m WHERE NOT EXISTS (SELECT FROM workq.queues q WHERE q.queue_id = m.queue_id);

-- trust: who is not trusted is told nothing
SELECT workq_enqueue('verdict', '{}', retry => '{"base": "3 s", "jitter": 7}') AS job \gset
SELECT claim_id AS claim FROM workq_claim('verdict', 'w') \gset
SELECT workq_claim_policy(:'claim');
SELECT workq_configure('verdict', trust => 'worker') > 1;
SELECT workq_claim_policy(:'claim');
SELECT workq_fail(:'claim', 'FATAL');
SELECT pg_temp.try_briefly(format('SELECT workq_claim_policy(%L)', :'claim')), workq_claim_policy(:'claim', on_lost => 'report');
SELECT pg_temp.try_briefly('SELECT workq_claim_policy(NULL)'), pg_temp.try_briefly(format('SELECT workq_claim_policy(%L, ''no'')', :'claim'));
SELECT workq_cancel(:job);
CALL pg_temp.many('verdict', '{FATAL,HTTP_404,S1}');
CALL pg_temp.many('verdict', '{FATAL,FATAL,FATAL}', '{"kind": "none", "max_attempts": 3}', ', ''5 s''');
CALL pg_temp.many('verdict', '{FATAL,FATAL}', '{"kind": "none"}');

-- who writes the map by hand is heeded, too
SELECT workq_configure('verdict', trust => 'engine') > 1;
UPDATE workq.error_map SET action = 'status' WHERE pattern = 'FATAL';
SELECT * FROM pg_temp.fails('verdict', '{FATAL}');

SELECT * FROM workq_check();
