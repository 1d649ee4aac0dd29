--
-- workq_enqueue and workq_enqueue_batch: every argument, good and bad.
--

\i sql/include/try.sql

\pset format unaligned
\pset tuples_only on
\pset null NULL

-- what every enqueue must leave: the log's row and the live one
CREATE FUNCTION pg_temp.job(id text) RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(' ', j.priority, j.tenant, j.binding, j.trigger_id,
                     j.payload, j.headers, j.dedup_key, j.max_attempts,
                     j.correlation,
                     CASE WHEN r.job_id IS NOT NULL THEN 'ready' END,
                     CASE WHEN s.job_id IS NOT NULL THEN 'scheduled in '
                         || (s.ready_since - j.enqueued_at) END)
      FROM workq.jobs j LEFT JOIN workq.ready r USING (job_id)
      LEFT JOIN workq.scheduled s USING (job_id)
     WHERE j.job_id = id::bigint
$$;

-- the queue comes with the first job
SELECT count(*) FROM workq.queues WHERE name = 'enqueue';
SELECT workq_enqueue('enqueue', '{"n": 1}') > 0;
SELECT count(*) FROM workq.queues WHERE name = 'enqueue';

-- every argument; what is NULL is not given
SELECT a, pg_temp.job(pg_temp.try(format('SELECT workq_enqueue(''enqueue'', %s)', a)))
  FROM unnest(ARRAY[
    $$'{}'$$,
    $$'null'$$,
    $$'[1, "two", null]'$$,
    $$'"text"'$$,
    $$'{}', 'high'$$,
    $$'{}', priority => 'low'$$,
    $$'{}', priority => NULL$$,
    $$'{}', tenant => 'acme', binding => 'b', trigger_id => 't'$$,
    $$'{}', tenant => '_no_tenant'$$,
    $$'{}', headers => '{"h": 1}'$$,
    $$'{}', headers => 'null'$$,
    $$'{}', delay => '1 h'$$,
    $$'{}', delay => '0'$$,
    $$'{}', delay => '90 days'$$,
    $$'{}', delay => NULL, run_at => NULL$$,
    $$'{}', run_at => '2001-01-01'$$,
    $$'{}', run_at => clock_timestamp() - interval '1 us'$$,
    $$'{}', max_attempts => 1$$,
    $$'{}', max_attempts => 1000000$$,
    $$'{}', correlation => 'c-1'$$,
    $$'{}', tenant => 'with spaces inside', binding => 'tüñ-日本'$$
  ]) a;

-- an explicit run_at is the due time to the microsecond
SELECT workq_enqueue('enqueue', '{}', run_at => '2101-02-03 04:05:06.789012+00') AS id \gset
SELECT ready_since = '2101-02-03 04:05:06.789012+00' FROM workq.scheduled WHERE job_id = :id;
SELECT run_at = '2101-02-03 04:05:06.789012+00' FROM workq.jobs WHERE job_id = :id;

-- a run_at in the past counts as now: no jump ahead
SELECT workq_enqueue('enqueue', '{}', run_at => '1999-01-01') AS id \gset
SELECT ready_since > clock_timestamp() - interval '1 min' FROM workq.ready WHERE job_id = :id;

-- ids rise within a session
SELECT a < b FROM (SELECT workq_enqueue('enqueue', '{}') AS a, workq_enqueue('enqueue', '{}') AS b) t;

-- names of the greatest length, in bytes, and what is longer
SELECT pg_temp.job(workq_enqueue(repeat('q', 255), '{}', tenant => repeat('t', 255), binding => repeat('b', 255),
    trigger_id => repeat('i', 255), dedup_key => repeat('d', 255), correlation => repeat('c', 255))::text) LIKE '%ready';
SELECT a, pg_temp.try(format('SELECT workq_enqueue(%s)', a))
  FROM unnest(ARRAY[
    $$repeat('q', 256), '{}'$$,
    $$repeat('ü', 128), '{}'$$,
    $$'enqueue', '{}', tenant => repeat('t', 256)$$,
    $$'enqueue', '{}', binding => repeat('b', 256)$$,
    $$'enqueue', '{}', trigger_id => repeat('i', 256)$$,
    $$'enqueue', '{}', dedup_key => repeat('d', 256)$$,
    $$'enqueue', '{}', correlation => repeat('c', 256)$$
  ]) a;

-- everything that must not be; nothing is changed by it
SELECT count(*) AS before FROM workq.jobs JOIN workq.queues USING (queue_id) WHERE name = 'enqueue' \gset
SELECT a, pg_temp.try(format('SELECT workq_enqueue(%s)', a))
  FROM unnest(ARRAY[
    $$NULL, '{}'$$,
    $$'', '{}'$$,
    $$' enqueue', '{}'$$,
    $$'enqueue ', '{}'$$,
    $$E'enqueue\n', '{}'$$,
    $$E'en\tqueue', '{}'$$,
    $$E'en\u0085queue', '{}'$$,
    $$E'\u00a0enqueue', '{}'$$,
    $$'enqueue', NULL$$,
    $$'enqueue', '{}', priority => 'urgent'$$,
    $$'enqueue', '{}', priority => 'HIGH'$$,
    $$'enqueue', '{}', priority => ''$$,
    $$'enqueue', '{}', tenant => ''$$,
    $$'enqueue', '{}', tenant => ' '$$,
    $$'enqueue', '{}', tenant => E'a\u001fb'$$,
    $$'enqueue', '{}', binding => ''$$,
    $$'enqueue', '{}', binding => 'b '$$,
    $$'enqueue', '{}', binding => E'b\u001fc'$$,
    $$'enqueue', '{}', trigger_id => ''$$,
    $$'enqueue', '{}', trigger_id => E'\x7f'$$,
    $$'enqueue', '{}', dedup_key => ''$$,
    $$'enqueue', '{}', dedup_key => E'k\r'$$,
    $$'enqueue', '{}', correlation => ''$$,
    $$'enqueue', '{}', correlation => ' c'$$,
    $$'enqueue', '{}', delay => '-1 us'$$,
    $$'enqueue', '{}', delay => '1 month'$$,
    $$'enqueue', '{}', delay => '1 year'$$,
    $$'enqueue', '{}', delay => '1 month -30 days'$$,
    $$'enqueue', '{}', delay => '4000 days'$$,
    $$'enqueue', '{}', delay => '2147483647 days'$$,
    $$'enqueue', '{}', run_at => 'infinity'$$,
    $$'enqueue', '{}', run_at => '-infinity'$$,
    $$'enqueue', '{}', delay => '1 s', run_at => now()$$,
    $$'enqueue', '{}', delay => '0', run_at => now() + interval '1 h'$$,
    $$'enqueue', '{}', max_attempts => 0$$,
    $$'enqueue', '{}', max_attempts => -1$$,
    $$'enqueue', '{}', max_attempts => 1000001$$
  ]) a;
SELECT count(*) - :before FROM workq.jobs JOIN workq.queues USING (queue_id) WHERE name = 'enqueue';

-- a payload of 64 MB as jsonb is too much, a megabyte is not
SELECT pg_temp.try($$SELECT workq_enqueue('enqueue', to_jsonb(repeat('x', 67108864)))$$);
SELECT pg_temp.try($$SELECT workq_enqueue('enqueue', '{}', headers => to_jsonb(repeat('x', 67108864)))$$);
SELECT workq_enqueue('enqueue big', jsonb_build_object('x', repeat('x', 1000000)), 'high') AS id \gset
SELECT length(payload->>'x') FROM workq_claim('enqueue big', 'w');

-- a bad name does not create a queue, nor does a rolled back enqueue
SELECT pg_temp.try($$SELECT workq_enqueue('enqueue bad', '{}', priority => 'x')$$);
BEGIN;
SELECT workq_enqueue('enqueue bad', '{}') > 0;
ROLLBACK;
SELECT count(*) FROM workq.queues WHERE name = 'enqueue bad';

-- names are case-sensitive and are no SQL
SELECT workq_enqueue('Enqueue', '"E"') > 0, workq_enqueue('a"; DROP TABLE workq.ready; --', '1') > 0,
    workq_enqueue('workq.jobs', '2') > 0, workq_enqueue('%s \ $1', '3') > 0;
SELECT payload FROM workq_claim('Enqueue', 'w');
SELECT payload FROM workq_claim('a"; DROP TABLE workq.ready; --', 'w');
SELECT payload FROM workq_claim('%s \ $1', 'w');

-- the queue's max_attempts, or one's own
SELECT workq_configure('enqueue', max_attempts => 7) > 0;
SELECT workq_enqueue('enqueue', '{}') AS a, workq_enqueue('enqueue', '{}', max_attempts => 3) AS b \gset
SELECT max_attempts FROM workq.jobs WHERE job_id IN (:a, :b) ORDER BY job_id;
SELECT workq_reset('enqueue') > 0;

--
-- batches
--
SELECT ord, created, pg_temp.job(job_id::text) FROM workq_enqueue_batch('enqueue batch', $$[
    {"payload": 1},
    {"payload": null, "priority": "high"},
    {"payload": {"a": [1, {"b": null}]}, "priority": "low", "tenant": "t", "binding": "b", "trigger_id": "i",
     "headers": {"x": "y"}, "delay": "90 s", "dedup_key": "k", "max_attempts": 4, "correlation": "c"},
    {"payload": [], "priority": null, "tenant": null, "headers": null, "delay": null, "run_at": null,
     "dedup_key": null, "max_attempts": null, "correlation": null},
    {"payload": "late", "run_at": "2001-01-01T00:00:00Z"},
    {"payload": {"payload": {"priority": "nested"}}}]$$);
SELECT count(*) FROM workq_enqueue_batch('enqueue batch', '[]');

-- the claim's order in a batch is the order given
SELECT payload FROM workq_claim('enqueue batch', 'w', max_jobs => 10);

-- of equal deduplication keys in a batch the first is created
SELECT ord, created, job_id = first_value(job_id) OVER (PARTITION BY k ORDER BY ord) AS same, k
  FROM (SELECT *, CASE WHEN ord IN (1, 3, 4) THEN 'a' WHEN ord = 2 THEN 'b' ELSE 'none ' || ord END AS k
          FROM workq_enqueue_batch('enqueue dup', $$[
    {"payload": 1, "dedup_key": "a"},
    {"payload": 2, "dedup_key": "b"},
    {"payload": 3, "dedup_key": "a"},
    {"payload": 4, "dedup_key": "a"},
    {"payload": 5}, {"payload": 6}]$$)) t ORDER BY ord;
SELECT payload FROM workq_claim('enqueue dup', 'w', max_jobs => 10);
SELECT job_id, created FROM workq_enqueue_batch('enqueue dup', '[{"payload": 7, "dedup_key": "b"}]')
    EXCEPT SELECT job_id, false FROM workq.jobs WHERE dedup_key = 'b';

-- bad batches: all or nothing, and the element is named
CREATE FUNCTION pg_temp.try_batch(jobs text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE state text; message text; detail text; hint text; context text;
BEGIN
    PERFORM * FROM workq_enqueue_batch('enqueue', jobs::jsonb);
    RETURN 'accepted';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
        detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT, context = PG_EXCEPTION_CONTEXT;
    RETURN state || ': ' || message
        || coalesce(E'\n  detail: ' || nullif(detail, ''), '')
        || coalesce(E'\n  hint: ' || nullif(hint, ''), '')
        || coalesce(E'\n  ' || substring(context FROM 'element \d+ of jobs'), '');
END $$;
SELECT count(*) AS before FROM workq.jobs JOIN workq.queues USING (queue_id) WHERE name = 'enqueue' \gset
SELECT a, pg_temp.try_batch(a) FROM unnest(ARRAY[
    NULL,
    '{}',
    '1',
    '"[]"',
    'null',
    '[1]',
    '[null]',
    '[[]]',
    '[{"payload": 1}, 2]',
    '[{"payload": 1}, [{"payload": 1}]]',
    '[{}]',
    '[{"payload": 1}, {"tenant": "x"}]',
    '[{"payload": 1}, {"payload": 2, "prio": "high"}]',
    '[{"payload": 1, "queue": "x"}]',
    '[{"payload": 1, "Payload": 2}]',
    '[{"payload": 1}, {"payload": 2}, {"payload": 3, "priority": "urgent"}]',
    '[{"payload": 1, "priority": 0}]',
    '[{"payload": 1, "tenant": ""}]',
    '[{"payload": 1, "tenant": 7}]',
    '[{"payload": 1, "tenant": {"a": "b"}}]',
    '[{"payload": 1, "binding": " x"}]',
    '[{"payload": 1, "trigger_id": "a\tb"}]',
    '[{"payload": 1, "dedup_key": true}]',
    '[{"payload": 1, "delay": "-1 s"}]',
    '[{"payload": 1, "delay": "1 month"}]',
    '[{"payload": 1, "delay": 5}]',
    '[{"payload": 1, "delay": "soon"}]',
    '[{"payload": 1, "run_at": "infinity"}]',
    '[{"payload": 1, "run_at": "yesterday-ish"}]',
    '[{"payload": 1, "run_at": 17}]',
    '[{"payload": 1, "delay": "1 s", "run_at": "2040-01-01"}]',
    '[{"payload": 1, "max_attempts": 0}]',
    '[{"payload": 1, "max_attempts": "3"}]',
    '[{"payload": 1, "max_attempts": 1000001}]',
    '[{"payload": 1, "correlation": ["c"]}]',
    '[{"payload": 1}, {"payload": 2}] '
  ]) a;
SELECT count(*) - :before AS "only the last one was good" FROM workq.jobs JOIN workq.queues USING (queue_id) WHERE name = 'enqueue';
SELECT left(pg_temp.try_batch('[{"payload": 1, "max_attempts": 1.5}]'), 5);
SELECT left(pg_temp.try_batch('[{"payload": 1, "max_attempts": 1e20}]'), 5);
SELECT pg_temp.try_batch(format('[{"payload": 1, "tenant": "%s"}]', repeat('t', 256)));
SELECT pg_temp.try($$SELECT workq_enqueue_batch(NULL, '[]')$$);
SELECT pg_temp.try($$SELECT workq_enqueue_batch('', '[]')$$);
SELECT pg_temp.try($$SELECT workq_enqueue_batch('enqueue', (SELECT jsonb_agg('{"payload": 1}'::jsonb) FROM generate_series(1, 100001)))$$);

-- a large batch, over several blocks of ids
SELECT count(*), count(DISTINCT job_id), bool_and(created), min(ord), max(ord)
  FROM workq_enqueue_batch('enqueue many', (SELECT jsonb_agg(jsonb_build_object('payload', n)) FROM generate_series(1, 5000) n));
SELECT count(*), bool_and(payload = to_jsonb(row_number)) FROM
    (SELECT payload, row_number() OVER () FROM workq_claim('enqueue many', 'w', max_jobs => 5000)) t;

-- enqueueing is paused
SELECT workq_pause('enqueue', enqueue => true);
SELECT pg_temp.try($$SELECT workq_enqueue('enqueue', '{}')$$);
SELECT pg_temp.try($$SELECT workq_enqueue_batch('enqueue', '[{"payload": 1}]')$$);
SELECT workq_resume('enqueue');
SELECT workq_enqueue('enqueue', '{}') > 0;

SELECT * FROM workq_check();
