--
-- The holder's verbs: ack, fail, release, renew.
--

\i sql/include/try.sql

\pset format unaligned
\pset tuples_only on
\pset null NULL

-- a job of a queue of its own, claimed: its id is j, the claim's c
CREATE FUNCTION pg_temp.one(queue text, lease interval DEFAULT '1 min', max_attempts integer DEFAULT NULL, OUT j bigint, OUT c uuid)
LANGUAGE plpgsql AS $$
BEGIN
    j := workq_enqueue(queue, '{"the": "payload"}', max_attempts => max_attempts);
    SELECT claim_id INTO STRICT c FROM workq_claim(queue, 'w1', lease) WHERE job_id = j;
END $$;
-- where it is, and what the log says of it
CREATE FUNCTION pg_temp.state(id bigint) RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(' ', state, 'attempt', attempt, 'failures', failures, outcome, result, error_code, error_message,
        '[' || (SELECT string_agg(h.e->>'event' || coalesce(' (' || (h.e->>'reason') || ')', ''), ', ' ORDER BY n)
                  FROM jsonb_array_elements(history) WITH ORDINALITY h (e, n)) || ']')
      FROM workq_job(id)
$$;

--
-- ack
--
SELECT * FROM pg_temp.one('outcomes') \gset
SELECT workq_ack(:'c', '{"ok": 1}');
SELECT pg_temp.state(:j);
-- again: nothing changes, the first result stays; any other outcome is lost
SELECT workq_ack(:'c', '{"ok": 2}');
SELECT workq_ack(:'c');
SELECT replace(pg_temp.try(format(f, :'c')), :'c', '<claim>') FROM unnest(ARRAY[
    $$SELECT workq_fail('%s')$$, $$SELECT workq_release('%s')$$, $$SELECT workq_renew('%s')$$]) f;
SELECT workq_fail(:'c', on_lost => 'report'), workq_release(:'c', on_lost => 'report'), workq_renew(:'c', on_lost => 'report'),
    workq_ack(:'c', on_lost => 'report');
SELECT pg_temp.state(:j);
SELECT event, attempt, worker FROM workq.claims WHERE job_id = :j ORDER BY at;
SELECT outcome, attempt, claim_id = :'c' AS claim, worker, body, correlation FROM workq.responses WHERE job_id = :j;
SELECT count(*) FROM workq.leases WHERE job_id = :j;
-- without a result, with a JSON null
SELECT * FROM pg_temp.one('outcomes') \gset
SELECT workq_ack(:'c');
SELECT state, outcome, result IS NULL FROM workq_job(:j);
SELECT * FROM pg_temp.one('outcomes') \gset
SELECT workq_ack(:'c', 'null');
SELECT state, outcome, result FROM workq_job(:j);

--
-- fail
--
SELECT * FROM pg_temp.one('outcomes fail') \gset
SELECT workq_fail(:'c', 'E_TIMEOUT', 'gateway timed out', '{"after": 30}', retry_in => '1 h');
SELECT pg_temp.state(:j);
SELECT workq_fail(:'c', 'E_OTHER');
SELECT replace(pg_temp.try(format(f, :'c')), :'c', '<claim>') FROM unnest(ARRAY[
    $$SELECT workq_ack('%s')$$, $$SELECT workq_release('%s')$$, $$SELECT workq_renew('%s')$$]) f;
SELECT s.ready_since - c.at AS due_in FROM workq.scheduled s JOIN workq.claims c USING (job_id) WHERE job_id = :j AND event = 'failed';
SELECT outcome, code, message, body FROM workq.responses WHERE job_id = :j;
SELECT count(*) FROM workq_claim('outcomes fail', 'w1');
SET workq.clock_offset = '3601 s';
SELECT job_id = :j, attempt, failures, claim_id <> :'c' FROM workq_claim('outcomes fail', 'w1');
-- the first claim is over for good, although the job is held by the same worker
SELECT workq_fail(:'c'), workq_ack(:'c', on_lost => 'report'), workq_renew(:'c', on_lost => 'report');
RESET workq.clock_offset;
-- at once; all arguments NULL
SELECT * FROM pg_temp.one('outcomes fail 0') \gset
SELECT workq_fail(:'c', NULL, NULL, NULL, '0', NULL, NULL);
SELECT pg_temp.state(:j);
SELECT attempt, failures FROM workq_claim('outcomes fail 0', 'w');

-- backoff (31): the n-th failure delays by 250 ms * 2^(n-1), at most 30 s, +- 20 %
CREATE TEMP TABLE delays (n integer, ms double precision);
CREATE PROCEDURE pg_temp.backoff(queue text, failures integer, runs integer) LANGUAGE plpgsql AS $$
DECLARE c uuid; now_ms double precision; delay double precision;
BEGIN
    FOR run IN 1..runs LOOP
        now_ms := 0;
        PERFORM workq_enqueue(queue, '{}', max_attempts => 1000);
        FOR i IN 1..failures LOOP
            COMMIT;
            PERFORM set_config('workq.clock_offset', now_ms::text, false);
            SELECT claim_id INTO STRICT c FROM workq_claim(queue, 'w');
            PERFORM workq_fail(c);
            SELECT extract(epoch FROM due - at) * 1000 INTO STRICT delay FROM workq.claims WHERE claim_id = c AND event = 'failed';
            INSERT INTO delays VALUES (i, delay);
            now_ms := now_ms + delay + 1;
        END LOOP;
        COMMIT;
        PERFORM set_config('workq.clock_offset', now_ms::text, false);
        SELECT claim_id INTO STRICT c FROM workq_claim(queue, 'w');
        PERFORM workq_ack(c);
        COMMIT;
        PERFORM set_config('workq.clock_offset', '0', false);
    END LOOP;
END $$;
CALL pg_temp.backoff('outcomes backoff', 10, 10);
SELECT n, count(*), min(ms) >= 0.8 * least(250 * 2 ^ (n - 1), 30000) AND max(ms) <= 1.2 * least(250 * 2 ^ (n - 1), 30000) AS within,
    count(DISTINCT ms) > 1 AS jitter FROM delays GROUP BY n ORDER BY n;
-- the jitter spreads over the whole range, not beyond
TRUNCATE delays;
CALL pg_temp.backoff('outcomes backoff', 1, 300);
SELECT min(ms) BETWEEN 200 AND 210, max(ms) BETWEEN 290 AND 300, avg(ms) BETWEEN 240 AND 260 FROM delays;
-- the queue's own base and cap; a base of 0 is no delay
SELECT workq_configure('outcomes backoff', retry_base => '10 s', retry_cap => '15 s') > 0;
TRUNCATE delays;
CALL pg_temp.backoff('outcomes backoff', 3, 5);
SELECT n, min(ms) >= 0.8 * least(10000 * 2 ^ (n - 1), 15000) AND max(ms) <= 1.2 * least(10000 * 2 ^ (n - 1), 15000) AS within
  FROM delays GROUP BY n ORDER BY n;
SELECT workq_configure('outcomes backoff', retry_base => '0') > 0;
SELECT * FROM pg_temp.one('outcomes backoff') \gset
SELECT workq_fail(:'c');
SELECT pg_temp.state(:j);
RESET workq.clock_offset;
-- far beyond what a double could shift by
SELECT * FROM pg_temp.one('outcomes far', '1 min', 1000000) \gset
UPDATE workq.leases SET failures = 900000 WHERE job_id = :j;
SELECT workq_fail(:'c');
SELECT due - at BETWEEN '24 s' AND '36 s', failures FROM workq.claims WHERE job_id = :j AND event = 'failed';

-- dead after max_attempts failures, and held
SELECT * FROM pg_temp.one('outcomes dead', max_attempts => 2) \gset
SELECT workq_fail(:'c', 'ONE', retry_in => '0');
SELECT claim_id AS c FROM workq_claim('outcomes dead', 'w2') \gset
SELECT workq_fail(:'c', 'TWO', 'last words', retry_in => '1 h');
SELECT pg_temp.state(:j);
SELECT workq_fail(:'c', 'TWO');
SELECT state, reason, attempt, failures FROM workq.held WHERE job_id = :j;
SELECT outcome, code FROM workq.responses WHERE job_id = :j ORDER BY at;
SELECT count(*) FROM workq_claim('outcomes dead', 'w');

-- poison (30): a job whose worker always dies is dead after max_attempts
CREATE TEMP TABLE poisoned (attempt integer, failures integer);
CREATE PROCEDURE pg_temp.poison(queue text) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 0..100 LOOP
        PERFORM set_config('workq.clock_offset', (i * 61000)::text, false);
        INSERT INTO poisoned SELECT attempt, failures FROM workq_claim(queue, 'w', '1 min');
        EXIT WHEN NOT FOUND;
        COMMIT;
    END LOOP;
END $$;
SELECT workq_create_queue('outcomes poison');
SELECT workq_configure('outcomes poison', max_attempts => 4) > 0;
SELECT workq_enqueue('outcomes poison', '{}') AS j \gset
CALL pg_temp.poison('outcomes poison');
SELECT * FROM poisoned;
-- the fourth lease has expired: no claim gets the job
SELECT count(*) FROM workq_claim('outcomes poison', 'w');
RESET workq.clock_offset;
-- the background worker, whose clock has no offset, sets it aside when its
-- own time comes: have it come (a foreign hand)
UPDATE workq.leases SET deadline = now() WHERE job_id = :j;
DO $$
BEGIN
    FOR i IN 1..1500 LOOP
        PERFORM 1 FROM workq.held h JOIN workq.queues q USING (queue_id) WHERE q.name = 'outcomes poison';
        EXIT WHEN FOUND;
        PERFORM pg_sleep(0.02);
        COMMIT;
    END LOOP;
END $$;
SELECT state, attempt, failures, claim_id FROM workq_job(:j);
SELECT event, count(*) FROM workq.claims WHERE job_id = :j GROUP BY event ORDER BY event;

-- taken back by the background worker, it keeps its place (49)
SELECT * FROM pg_temp.one('outcomes place') \gset
SELECT workq_enqueue('outcomes place', '"behind"') > 0;
UPDATE workq.leases SET deadline = now() WHERE job_id = :j;
DO $$
BEGIN
    FOR i IN 1..1500 LOOP
        PERFORM 1 FROM workq.leases l JOIN workq.queues q USING (queue_id) WHERE q.name = 'outcomes place';
        EXIT WHEN NOT FOUND;
        PERFORM pg_sleep(0.02);
        COMMIT;
    END LOOP;
END $$;
SELECT pg_temp.state(:j);
SELECT job_id = :j AS first_again, attempt, failures FROM workq_claim('outcomes place', 'w2');

-- hold_lease: charged, but left leased until the lease runs out
SELECT * FROM pg_temp.one('outcomes hold') \gset
SELECT workq_fail(:'c', 'HOLD', on_fail => 'hold_lease');
SELECT pg_temp.state(:j);
SELECT workq_fail(:'c', 'HOLD', on_fail => 'hold_lease'), workq_fail(:'c'), workq_ack(:'c', on_lost => 'report'),
    workq_renew(:'c', on_lost => 'report'), workq_release(:'c', on_lost => 'report');
SELECT count(*) FROM workq_claim('outcomes hold', 'w2');
SELECT failures FROM workq.leases WHERE job_id = :j;
SET workq.clock_offset = '61 s';
-- taking it back charges nothing more
SELECT job_id = :j, attempt, failures FROM workq_claim('outcomes hold', 'w2');
RESET workq.clock_offset;
SELECT workq_fail(:'c', 'HOLD', on_fail => 'hold_lease'), workq_ack(:'c', on_lost => 'report');
SELECT pg_temp.state(:j);
-- the last failure is dead at once all the same
SELECT * FROM pg_temp.one('outcomes hold', max_attempts => 1) \gset
SELECT workq_fail(:'c', 'HOLD', on_fail => 'hold_lease');
SELECT pg_temp.state(:j);

--
-- release
--
SELECT * FROM pg_temp.one('outcomes release') \gset
SELECT ready_since AS since FROM workq.leases WHERE job_id = :j \gset
SELECT workq_enqueue('outcomes release', '"behind"') > 0;
SELECT workq_release(:'c', reason => 'not mine');
SELECT pg_temp.state(:j);
SELECT ready_since = :'since' AS same_place FROM workq.ready WHERE job_id = :j;
SELECT workq_release(:'c'), workq_release(:'c', '1 h', 'again'), workq_ack(:'c', on_lost => 'report');
SELECT replace(pg_temp.try(format(f, :'c')), :'c', '<claim>') FROM unnest(ARRAY[
    $$SELECT workq_ack('%s')$$, $$SELECT workq_fail('%s')$$, $$SELECT workq_renew('%s')$$]) f;
-- its place is kept (49), no failure is counted
SELECT job_id = :j AS first_again, attempt, failures FROM workq_claim('outcomes release', 'w2');
-- with a delay
SELECT * FROM pg_temp.one('outcomes release 2') \gset
SELECT workq_release(:'c', '10 min');
SELECT pg_temp.state(:j);
SELECT count(*) FROM workq_claim('outcomes release 2', 'w');
SET workq.clock_offset = '601 s';
SELECT job_id = :j, attempt, failures, waited < '10 s' AS waited_since_due FROM workq_claim('outcomes release 2', 'w');
RESET workq.clock_offset;

--
-- renew; lease bounds (28)
--
SELECT * FROM pg_temp.one('outcomes renew', '10 min') \gset
SELECT deadline AS first, claimed_at AS claimed FROM workq.leases WHERE job_id = :j \gset
-- never shortens
SELECT workq_renew(:'c', '1 min') = :'first';
SELECT workq_renew(:'c', '1 ms') = :'first';
SELECT deadline = :'first' FROM workq.leases WHERE job_id = :j;
SELECT workq_renew(:'c', '20 min') AS second \gset
SELECT :'second' > :'first', deadline = :'second', :'second'::timestamptz - clock_timestamp() BETWEEN '19 min' AND '20 min'
  FROM workq.leases WHERE job_id = :j;
SELECT workq_renew(:'c', NULL) = :'second' AS default_is_shorter;
-- past the deadline, but nobody took it back
SET workq.clock_offset = '30 min';
SELECT workq_renew(:'c', '10 min')::timestamptz - :'claimed' > '39 min';
RESET workq.clock_offset;
SELECT event, count(*) FROM workq.claims WHERE job_id = :j GROUP BY event ORDER BY event;
-- up to exactly claim time + max_lease, not a microsecond more
SELECT workq_configure('outcomes renew', max_lease => '1 h') > 0;
SET workq.clock_offset = '50 min';
SELECT pg_temp.try(format($$SELECT workq_renew('%s', '10 min 1 s')$$, :'c')) LIKE 'WQ003: claim % cannot be renewed for so long%The claim can be held until % at most.%';
SELECT pg_temp.try(format($$SELECT workq_renew('%s', '10 min 1 s', on_lost => 'report')$$, :'c')) LIKE 'WQ003:%';
SELECT workq_renew(:'c', (:'claimed'::timestamptz + interval '1 h') - (workq.clock() + interval '1 s')) > :'second';
RESET workq.clock_offset;
SELECT status, sqlstate, deadline FROM workq_renew_batch(ARRAY[:'c'::uuid], '61 min');
SELECT workq_configure('outcomes renew', max_lease => '1 ms') > 0;
SELECT pg_temp.try(format($$SELECT workq_renew('%s', '10 s')$$, :'c')) LIKE 'WQ003:%';
SELECT workq_ack(:'c');

--
-- Late but unreclaimed (27)
--
SELECT * FROM pg_temp.one('outcomes late') \gset
SET workq.clock_offset = '2 h';
SELECT workq_ack(:'c', '"late"');
SELECT workq_ack(:'c', '"late"');
SELECT replace(pg_temp.try(format($$SELECT workq_fail('%s')$$, :'c')), :'c', '<claim>');
SELECT pg_temp.state(:j);
RESET workq.clock_offset;
-- and taken back (26): the old claim can do nothing, whoever holds the job
SELECT * FROM pg_temp.one('outcomes taken') \gset
SET workq.clock_offset = '61 s';
SELECT claim_id AS c2 FROM workq_claim('outcomes taken', 'w1') WHERE job_id = :j \gset
SELECT regexp_replace(replace(pg_temp.try(format(f, :'c')), :'c', '<claim>'), 'ended at .* and', 'ended at <time> and') FROM unnest(ARRAY[
    $$SELECT workq_ack('%s')$$, $$SELECT workq_fail('%s')$$, $$SELECT workq_release('%s')$$, $$SELECT workq_renew('%s')$$]) f;
SELECT workq_ack(:'c2');
SELECT workq_ack(:'c', on_lost => 'report'), workq_ack(:'c2');
RESET workq.clock_offset;
SELECT pg_temp.state(:j);
-- a claim that was rolled back never was
SELECT workq_enqueue('outcomes taken', '{}') AS j \gset
BEGIN;
SELECT claim_id AS c FROM workq_claim('outcomes taken', 'w1') \gset
ROLLBACK;
SELECT replace(pg_temp.try(format($$SELECT workq_ack('%s')$$, :'c')), :'c', '<claim>');
SELECT claim_id AS c2 FROM workq_claim('outcomes taken', 'w1') \gset
SELECT workq_ack(:'c', on_lost => 'report'), workq_renew(:'c', on_lost => 'report'), workq_ack(:'c2');

--
-- Lost work rolls back as a whole
--
CREATE TEMP TABLE work (n integer);
SELECT * FROM pg_temp.one('outcomes work') \gset
SET workq.clock_offset = '61 s';
SELECT count(*) FROM workq_claim('outcomes work', 'w2');
RESET workq.clock_offset;
\set VERBOSITY sqlstate
BEGIN;
INSERT INTO work VALUES (1);
SELECT workq_ack(:'c');
COMMIT;
\set VERBOSITY default
SELECT count(*) FROM work;

--
-- Batches: told in the order given, mixed results, no error
--
CREATE FUNCTION pg_temp.many(queue text, n integer) RETURNS SETOF uuid LANGUAGE plpgsql AS $$
BEGIN
    PERFORM workq_enqueue(queue, to_jsonb(i)) FROM generate_series(1, n) i;
    RETURN QUERY SELECT claim_id FROM workq_claim(queue, 'w', max_jobs => n);
END $$;
CREATE TEMP TABLE claims AS SELECT n, c FROM pg_temp.many('outcomes batch', 8) WITH ORDINALITY x (c, n);
SELECT workq_fail(c, retry_in => '1 h') FROM claims WHERE n = 2;
SELECT workq_ack(c) FROM claims WHERE n = 4;
CREATE FUNCTION pg_temp.ids(VARIADIC numbers integer[]) RETURNS uuid[] LANGUAGE sql AS $$
    SELECT array_agg((SELECT c FROM claims WHERE n = i) ORDER BY o) FROM unnest(numbers) WITH ORDINALITY x (i, o) $$;
SELECT b.ord, (SELECT n FROM claims WHERE c = claim_id) AS n, status, sqlstate, deadline
  FROM workq_ack_batch(pg_temp.ids(5, 4, 3, 2, 1), ARRAY['5', '4', '3', NULL, NULL]::jsonb[]) b;
SELECT (SELECT n FROM claims c WHERE c.c = r.claim_id) AS n, outcome, body FROM workq.responses r JOIN workq.queues USING (queue_id)
 WHERE name = 'outcomes batch' ORDER BY 1;
-- the same claim more than once in a batch: the first counts
SELECT b.ord, (SELECT n FROM claims WHERE c = claim_id) AS n, status, sqlstate FROM workq_ack_batch(pg_temp.ids(6, 6, 7, 6), ARRAY['1', '2', '3', '4']::jsonb[]) b;
SELECT body FROM workq.responses WHERE claim_id = ANY (pg_temp.ids(6));
SELECT b.ord, (SELECT n FROM claims WHERE c = claim_id) AS n, status, sqlstate, deadline IS NOT NULL FROM workq_renew_batch(pg_temp.ids(8, 1, 8), '10 min') b;
SELECT b.ord, status, sqlstate FROM workq_release_batch(pg_temp.ids(8, 8, 1)) b;
SELECT b.ord, status, sqlstate FROM workq_fail_batch(pg_temp.ids(2, 8, 2)) b;
SELECT count(*) FROM workq_ack_batch('{}'), workq_fail_batch('{}'), workq_release_batch('{}'), workq_renew_batch('{}');
SELECT pg_temp.try($$SELECT count(*) FROM workq_ack_batch('{}')$$);
-- with on_lost => error all of it is undone
CREATE TEMP TABLE claims2 AS SELECT claim_id FROM pg_temp.many('outcomes batch 2', 2) claim_id;
SELECT left(pg_temp.try($$SELECT workq_ack_batch((SELECT array_agg(claim_id) FROM claims2) || pg_temp.ids(1) || pg_temp.ids(2), on_lost => 'error')$$), 5);
SELECT status, count(*) FROM workq_ack_batch((SELECT array_agg(claim_id) FROM claims2)) GROUP BY status;
-- fail_batch with what belongs to each
CREATE TEMP TABLE claims3 AS SELECT claim_id FROM pg_temp.many('outcomes batch 3', 2) claim_id;
SELECT ord, status FROM workq_fail_batch((SELECT array_agg(claim_id) FROM claims3), ARRAY['A', NULL], ARRAY[NULL, 'second'], ARRAY['1', NULL]::jsonb[], '1 h');
SELECT outcome, code, message, body FROM workq.responses JOIN workq.queues USING (queue_id) WHERE name = 'outcomes batch 3' ORDER BY job_id;
SELECT count(*) FROM workq.scheduled JOIN workq.queues USING (queue_id) WHERE name = 'outcomes batch 3';

--
-- What must not be
--
SELECT * FROM pg_temp.one('outcomes bad') \gset
CREATE TEMP TABLE bad AS SELECT :'c'::uuid AS c;
SELECT a, replace(pg_temp.try('SELECT workq_' || replace(a, '$c', quote_literal(:'c'))), :'c', '<claim>') FROM unnest(ARRAY[
    'ack(NULL)',
    $$ack('00000000-0000-0000-0000-000000000000')$$,
    $$ack('12345678-1234-4321-8321-123456789abc')$$,
    $$ack('00000000-0000-8000-8000-000000000000')$$,
    $$ack('00000000-0000-8001-8000-000000000000')$$,
    $$ack('ffffffff-ffff-8fff-bfff-ffffffffffff')$$,
    $$ack($c, on_lost => 'ignore')$$,
    $$ack($c, to_jsonb(repeat('x', 67108864)))$$,
    'fail(NULL)',
    $$fail('12345678-1234-4321-8321-123456789abc')$$,
    $$fail($c, '')$$,
    $$fail($c, E'a\nb')$$,
    $$fail($c, repeat('c', 256))$$,
    $$fail($c, 'c', repeat('m', 8193))$$,
    $$fail($c, 'c', 'm', to_jsonb(repeat('x', 67108864)))$$,
    $$fail($c, retry_in => '-1 s')$$,
    $$fail($c, retry_in => '1 month')$$,
    $$fail($c, retry_in => '4000 days')$$,
    $$fail($c, on_fail => 'hold')$$,
    $$fail($c, on_lost => '')$$,
    'release(NULL)',
    $$release('12345678-1234-4321-8321-123456789abc')$$,
    $$release($c, '-1 s')$$,
    $$release($c, '1 year')$$,
    $$release($c, reason => repeat('r', 8193))$$,
    $$release($c, on_lost => 'Error')$$,
    'renew(NULL)',
    $$renew('12345678-1234-4321-8321-123456789abc')$$,
    $$renew($c, '0')$$,
    $$renew($c, '-1 s')$$,
    $$renew($c, '1 month')$$,
    $$renew($c, on_lost => 'x')$$,
    'ack_batch(NULL)',
    'ack_batch(ARRAY[NULL]::uuid[])',
    'ack_batch(ARRAY[$c, NULL]::uuid[])',
    'ack_batch(ARRAY[ARRAY[$c]]::uuid[])',
    $$ack_batch(ARRAY[$c]::uuid[], ARRAY['1', '2']::jsonb[])$$,
    $$ack_batch(ARRAY[$c]::uuid[], '{}')$$,
    $$ack_batch(ARRAY[$c, '12345678-1234-4321-8321-123456789abc']::uuid[])$$,
    $$ack_batch(ARRAY[$c]::uuid[], on_lost => 'x')$$,
    $$ack_batch(array_fill($c::uuid, ARRAY[100001]))$$,
    'fail_batch(NULL)',
    $$fail_batch(ARRAY[$c]::uuid[], ARRAY['a', 'b'])$$,
    $$fail_batch(ARRAY[$c]::uuid[], NULL, ARRAY['a', 'b'])$$,
    $$fail_batch(ARRAY[$c]::uuid[], NULL, NULL, '{}')$$,
    $$fail_batch(ARRAY[$c]::uuid[], ARRAY[''])$$,
    $$fail_batch(ARRAY[$c]::uuid[], on_fail => 'x')$$,
    $$fail_batch(ARRAY[$c]::uuid[], retry_in => '-1 s')$$,
    'release_batch(NULL)',
    $$release_batch(ARRAY[$c]::uuid[], '-1 s')$$,
    $$release_batch(ARRAY[$c]::uuid[], NULL, repeat('r', 8193))$$,
    'renew_batch(NULL)',
    $$renew_batch(ARRAY[$c]::uuid[], '0')$$,
    $$renew_batch(ARRAY[ARRAY[$c]]::uuid[])$$
  ]) a;
-- nothing of it had an effect
SELECT pg_temp.state(:j);
-- what is just short enough
SELECT workq_fail(:'c', repeat('c', 255), repeat('m', 8192), retry_in => '3650 days');
SELECT state, length(error_code), length(error_message) FROM workq_job(:j);

SELECT * FROM workq_check();
