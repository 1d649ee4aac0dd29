--
-- Drivers (51): every verb with parameters of unknown type, as node-pg,
-- psycopg and JDBC (stringtype=unspecified) send them: the server must find
-- the one function and its types by itself.
--

\i sql/include/try.sql

\pset format unaligned
\pset tuples_only on
\pset null NULL

-- no name has two signatures
SELECT proname, count(*) FROM pg_proc WHERE proname LIKE 'workq\_%' AND pronamespace = 'public'::regnamespace GROUP BY 1 HAVING count(*) > 1;

-- each function with all its arguments, with those that must be, and by name:
-- the parameters' types are those of the function
CREATE FUNCTION pg_temp.prepare(name text, call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE types text;
BEGIN
    EXECUTE format('PREPARE untyped AS SELECT %s', call);
    SELECT parameter_types::text INTO types FROM pg_prepared_statements p WHERE p.name = 'untyped';
    DEALLOCATE untyped;
    RETURN types;
EXCEPTION WHEN OTHERS THEN
    RETURN SQLERRM;
END $$;
WITH f AS (
    SELECT p.oid, proname, pronargs AS n, pronargs - pronargdefaults AS required, proargnames AS names, proargtypes::regtype[] AS types
      FROM pg_proc p WHERE proname LIKE 'workq\_%' AND pronamespace = 'public'::regnamespace AND prokind = 'f' AND pronargs > 0
), calls AS (
    SELECT *, 'all' AS what, n AS k, format('%I(%s)', proname, (SELECT string_agg('$' || i, ', ' ORDER BY i) FROM generate_series(1, n) i)) AS call FROM f
    UNION ALL
    SELECT *, 'required', required, format('%I(%s)', proname, (SELECT string_agg('$' || i, ', ' ORDER BY i) FROM generate_series(1, required) i)) FROM f
    UNION ALL
    SELECT *, 'named', n, format('%I(%s)', proname, (SELECT string_agg(format('%I => $%s', names[i], i), ', ' ORDER BY i) FROM generate_series(1, n) i)) FROM f
), prepared AS (
    SELECT *, pg_temp.prepare('untyped', call) AS got,
        (SELECT coalesce(array_agg(types[i - 1] ORDER BY i), '{}') FROM generate_series(1, k) i)::text AS want FROM calls
)
SELECT proname, n, required, string_agg(what || CASE WHEN got = want THEN '' ELSE ': ' || got || ' instead of ' || want END, ', ' ORDER BY what) FROM prepared
 GROUP BY proname, n, required ORDER BY proname;

-- and they work so: the whole life, values sent as text
PREPARE enqueue AS SELECT workq_enqueue($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) AS j;
PREPARE enqueue_named AS SELECT workq_enqueue($1, $2, priority => $3, tenant => $4, delay => $5) AS j;
PREPARE claim AS SELECT * FROM workq_claim($1, $2, $3, $4);
PREPARE claim2 AS SELECT * FROM workq_claim($1, $2);
PREPARE renew AS SELECT workq_renew($1, $2);
PREPARE ack AS SELECT workq_ack($1, $2);
PREPARE fail AS SELECT workq_fail($1, $2, $3, $4, $5, $6, $7);
PREPARE release AS SELECT workq_release($1, $2, $3);
PREPARE progress AS SELECT workq_progress($1, $2);
PREPARE checkpoint AS SELECT workq_checkpoint($1, $2, $3);
PREPARE stream AS SELECT "position", kind, delta FROM workq_stream($1, $2, $3);
PREPARE checkpoints AS SELECT step, result FROM workq_checkpoints($1);
PREPARE explain AS SELECT state, place FROM workq_explain($1, $2);
PREPARE cancel AS SELECT workq_cancel($1, $2);
PREPARE requeue AS SELECT workq_requeue($1);
PREPARE job AS SELECT state, attempt FROM workq_job($1);
EXECUTE enqueue('untyped', '{"a": 1}', 'high', 'acme', NULL, NULL, '{"h": 1}', NULL, NULL, 'k', '3', 'c') \gset
EXECUTE claim('untyped', 'w', '5 min', '1') \gset
SELECT :'payload', :'priority', :'headers';
EXECUTE renew(:'claim_id', '10 min') \gset
EXECUTE progress(:'claim_id', '{"delta": "x"}');
EXECUTE checkpoint(:'claim_id', 'step', '{"n": 1}');
EXECUTE checkpoint(:'claim_id', 'step', NULL);
EXECUTE release(:'claim_id', NULL, 'r');
EXECUTE stream(:'j', NULL, NULL);
EXECUTE stream(:'j', '1', '10');
EXECUTE checkpoints(:'j');
EXECUTE explain(:'j', '5');
EXECUTE claim2('untyped', 'w') \gset
EXECUTE fail(:'claim_id', 'E', 'message', '{"b": 2}', '0', NULL, NULL);
EXECUTE claim('untyped', 'w', '00:05:00', '10') \gset
EXECUTE ack(:'claim_id', '{"ok": true}');
EXECUTE ack(:'claim_id', NULL);
EXECUTE job(:'j');
EXECUTE enqueue('untyped', '2', NULL, NULL, NULL, NULL, NULL, '1 hour', NULL, NULL, NULL, NULL) \gset
EXECUTE cancel(:'j', 'not needed');
EXECUTE enqueue('untyped', '3', NULL, NULL, NULL, NULL, NULL, NULL, '2100-01-01T00:00:00Z', NULL, '1', NULL) \gset
EXECUTE requeue(:'j');
EXECUTE enqueue_named('untyped', '4', 'low', 't', '0') \gset
EXECUTE job(:'j');
-- arrays as drivers write them
PREPARE enqueue_batch AS SELECT * FROM workq_enqueue_batch($1, $2);
PREPARE ack_batch AS SELECT ord, status FROM workq_ack_batch($1, $2, $3);
PREPARE renew_batch AS SELECT ord, status FROM workq_renew_batch($1, $2, $3);
PREPARE progress_batch AS SELECT ord, status FROM workq_progress_batch($1, $2, $3);
PREPARE checkpoint_batch AS SELECT ord, status FROM workq_checkpoint_batch($1, $2, $3, $4);
PREPARE fail_batch AS SELECT ord, status FROM workq_fail_batch($1, $2, $3, $4, $5, $6, $7);
PREPARE release_batch AS SELECT ord, status FROM workq_release_batch($1, $2, $3, $4);
PREPARE cancel_batch AS SELECT ord, status FROM workq_cancel_batch($1, $2);
PREPARE requeue_batch AS SELECT ord, status FROM workq_requeue_batch($1);
CREATE TEMP TABLE untyped AS EXECUTE enqueue_batch('untyped batch', '[{"payload": 1}, {"payload": 2}, {"payload": 3}, {"payload": 4}]');
CREATE TEMP TABLE claimed AS EXECUTE claim('untyped batch', 'w', '5 min', '3');
SELECT array_agg(claim_id)::text AS ids, (array_agg(claim_id))[1:2]::text AS two, (array_agg(claim_id))[3:3]::text AS one FROM claimed \gset
EXECUTE renew_batch(:'ids', '10 min', NULL);
EXECUTE progress_batch(:'two', '{"1","{\"d\": 2}"}', 'report');
EXECUTE checkpoint_batch(:'two', '{a,"b c"}', '{"1",null}', NULL);
EXECUTE ack_batch(:'two', '{"1",null}', 'report');
EXECUTE fail_batch(:'one', '{E}', '{"a message"}', '{"{\"x\": 1}"}', '1 h', 'retry', 'report');
EXECUTE release_batch(:'ids', '0', 'r', 'report');
SELECT array_agg(job_id)::text AS jobs FROM untyped \gset
EXECUTE cancel_batch(:'jobs', NULL);
EXECUTE requeue_batch(:'jobs');

SELECT * FROM workq_check();
