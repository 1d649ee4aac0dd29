--
-- Indexes that an administrator adds (46): on expressions, partial, unique.
--

\i sql/include/try.sql

\pset format unaligned
\pset tuples_only on
\pset null NULL

SELECT workq_enqueue('indexes', '{"doc": 0}', tenant => 'indexes') > 0;
CREATE INDEX indexes_doc ON workq.jobs ((payload->>'doc'));
CREATE INDEX indexes_tenant ON workq.jobs (tenant, lower(binding)) WHERE tenant IS NOT NULL;
CREATE INDEX indexes_worker ON workq.claims (worker, at) WHERE event = 'claimed';
CREATE INDEX indexes_code ON workq.responses (upper(code), (body->>'x')) WHERE code IS NOT NULL;
CREATE INDEX indexes_ready ON workq.ready (lower(lane), queue_id) WHERE priority = 0;
CREATE INDEX indexes_lease ON workq.leases ((upper(worker)));
CREATE INDEX indexes_flags ON workq.leases (flags);
CREATE INDEX indexes_hash ON workq.scheduled USING hash (job_id);
CREATE INDEX indexes_brin ON workq.jobs USING brin (enqueued_at);
CREATE INDEX indexes_gin ON workq.jobs USING gin (payload);

-- every verb with them
SELECT count(*) FROM workq_enqueue_batch('indexes', (SELECT jsonb_agg(jsonb_build_object('payload', jsonb_build_object('doc', n),
    'tenant', CASE WHEN n % 2 = 0 THEN 'indexes' END, 'binding', 'B' || n, 'dedup_key', 'k' || n, 'priority', CASE WHEN n % 3 = 0 THEN 'high' ELSE 'low' END)) FROM generate_series(1, 50) n));
SELECT workq_enqueue('indexes', '{"doc": 51}', tenant => 'indexes', binding => 'B51', delay => '1 h') > 0;
CREATE TEMP TABLE c AS SELECT claim_id, row_number() OVER () AS n FROM workq_claim('indexes', 'Worker', '10 min', max_jobs => 6);
SELECT workq_renew(claim_id, '20 min') > now() FROM c WHERE n = 1;
SELECT workq_ack(claim_id, '{"x": "done"}') FROM c WHERE n = 2;
SELECT workq_fail(claim_id, 'code', body => '{"x": "failed"}', retry_in => '1 h') FROM c WHERE n = 3;
SELECT workq_fail(claim_id, 'code', on_fail => 'hold_lease') FROM c WHERE n = 4;
SELECT workq_release(claim_id) FROM c WHERE n = 5;
SELECT workq_cancel(job_id) FROM workq.leases JOIN c USING (claim_id) WHERE n = 6;

-- an index scan finds what a sequential scan finds
CREATE FUNCTION pg_temp.both(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE by_index text; by_heap text; line text; plan text := '';
BEGIN
    PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true),
        set_config('enable_indexscan', 'on', true), set_config('enable_bitmapscan', 'on', true);
    FOR line IN EXECUTE 'EXPLAIN ' || query LOOP plan := plan || line; END LOOP;
    EXECUTE query INTO by_index;
    PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true),
        set_config('enable_bitmapscan', 'off', true), set_config('enable_indexonlyscan', 'off', true);
    EXECUTE query INTO by_heap;
    RETURN concat_ws(', ', by_index, CASE WHEN by_index IS DISTINCT FROM by_heap THEN 'but the heap has ' || coalesce(by_heap, 'NULL') END,
                     CASE WHEN plan NOT LIKE '%Index%' THEN 'no index used' END);
END $$;
SELECT a, pg_temp.both(a) FROM unnest(ARRAY[
    $$SELECT count(*) FROM workq.jobs WHERE payload->>'doc' = '17'$$,
    $$SELECT count(*) FROM workq.jobs WHERE payload->>'doc' >= '0'$$,
    $$SELECT count(*) FROM workq.jobs WHERE tenant = 'indexes' AND lower(binding) = 'b50'$$,
    $$SELECT count(*) FROM workq.jobs WHERE tenant = 'indexes' AND lower(binding) = 'b51'$$,
    $$SELECT count(*) FROM workq.jobs WHERE tenant = 'indexes'$$,
    $$SELECT count(*) FROM workq.jobs WHERE payload @> '{"doc": 33}'$$,
    $$SELECT count(*) FROM workq.claims WHERE worker = 'Worker' AND event = 'claimed'$$,
    $$SELECT string_agg(body->>'x', ',') FROM workq.responses WHERE upper(code) = 'CODE' AND code IS NOT NULL$$,
    $$SELECT count(*) FROM workq.ready WHERE priority = 0 AND lower(lane) = '' AND queue_id = (SELECT queue_id FROM workq.queues WHERE name = 'indexes')$$,
    $$SELECT count(*) FROM workq.leases WHERE upper(worker) = 'WORKER'$$,
    $$SELECT count(*) FROM workq.leases WHERE flags = 3$$,
    $$SELECT count(*) FROM workq.leases WHERE flags = 5$$
  ]) a;

-- an index whose expression fails: the enqueue fails, nothing is left, and
-- claims go on
CREATE INDEX indexes_number ON workq.jobs (((payload->>'doc')::integer)) WHERE tenant = 'strict';
SELECT pg_temp.try($$SELECT workq_enqueue('indexes', '{"doc": "x"}', tenant => 'strict')$$);
SELECT workq_enqueue('indexes', '{"doc": "12"}', tenant => 'strict') > 0, workq_enqueue('indexes', '{"doc": "x"}', tenant => 'lax') > 0;
-- a unique one
CREATE UNIQUE INDEX indexes_unique ON workq.ready (job_id);
SELECT workq_enqueue('indexes', '{"doc": 52}') > 0;
-- an expression that reads
CREATE FUNCTION indexes_reads(jsonb) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT count(*) FROM pg_class WHERE relname = 'ready' AND $1 IS NOT NULL $$;
CREATE INDEX indexes_reads ON workq.jobs (indexes_reads(payload)) WHERE tenant = 'reads';
SELECT workq_enqueue('indexes', '{"doc": 53}', tenant => 'reads') > 0;
-- one that fails in the middle of a claim: nothing of the claim is left, in
-- memory neither
SELECT count(*) FROM workq_enqueue_batch('indexes claim', (SELECT jsonb_agg('{"payload": 1}'::jsonb) FROM generate_series(1, 3000)));
CREATE INDEX indexes_bad ON workq.leases ((1 / (attempt - 1))) WHERE worker = 'bad';
SELECT pg_temp.try($$SELECT count(*) FROM workq_claim('indexes claim', 'bad', max_jobs => 3000)$$);
SELECT * FROM workq_check();
DROP INDEX workq.indexes_bad;
SELECT count(*) FROM workq_claim('indexes claim', 'good', max_jobs => 3000);
SELECT count(*) FROM workq_claim('indexes', 'Worker', max_jobs => 1000);
SELECT * FROM workq_check();

-- a new segment gets them, too
ALTER SYSTEM SET workq.segment_size = 1000;
SELECT pg_reload_conf();
CREATE FUNCTION pg_temp.fill() RETURNS bigint LANGUAGE sql AS $$
    SELECT max(job_id) FROM workq_enqueue_batch('indexes', (SELECT jsonb_agg('{"payload": {"doc": "many"}, "tenant": "many"}'::jsonb) FROM generate_series(1, 3000)))
$$;
SELECT pg_temp.fill() > 0;
ALTER SYSTEM RESET workq.segment_size;
SELECT pg_reload_conf();
SELECT a, pg_temp.both(a) FROM unnest(ARRAY[
    $$SELECT count(*) FROM workq.jobs WHERE payload->>'doc' = 'many'$$,
    $$SELECT count(*) FROM workq.jobs WHERE tenant = 'many'$$]) a;
SELECT workq_purge('indexes', confirm => true);

DROP INDEX workq.indexes_doc, workq.indexes_tenant, workq.indexes_worker, workq.indexes_code, workq.indexes_ready, workq.indexes_lease,
    workq.indexes_flags, workq.indexes_hash, workq.indexes_brin, workq.indexes_gin, workq.indexes_number, workq.indexes_unique, workq.indexes_reads;
SELECT workq_enqueue('indexes', '1') > 0;
SELECT * FROM workq_check();

-- an index whose function catches an error, in the middle of a claim
CREATE FUNCTION workq_test_catches(j bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    BEGIN PERFORM 1 / (j - j); EXCEPTION WHEN division_by_zero THEN RETURN j; END;
    RETURN 0;
END $$;
CREATE INDEX indexes_catches ON workq.leases (workq_test_catches(job_id));
SELECT count(*) FROM workq_enqueue_batch('indexes catches', (SELECT jsonb_agg('{"payload": 1}'::jsonb) FROM generate_series(1, 300)));
SELECT count(*) FROM workq_claim('indexes catches', 'w', max_jobs => 300);
DROP INDEX workq.indexes_catches;
DROP FUNCTION workq_test_catches;
SELECT * FROM workq_check();
