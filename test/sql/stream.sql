--
-- What a claim says while it runs: progress, checkpoints; a gate's answer.
--

\set VERBOSITY terse
\pset format unaligned
\pset tuples_only on
\pset null NULL

CREATE FUNCTION pg_temp.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text; message text; detail text;
BEGIN
    EXECUTE statement INTO result;
    RETURN coalesce(result, 'NULL');
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
    RETURN SQLSTATE || ': ' || regexp_replace(regexp_replace(regexp_replace(concat_ws(' / ', message, nullif(detail, '')),
        '[0-9a-f]{8}-[0-9a-f-]{27}', 'ID'), 'at \d.* and', 'then and'), 'log of job \d+', 'log of job N');
END $$;
-- a job's stream from a position on, as one line
CREATE FUNCTION pg_temp.stream(job bigint, after integer DEFAULT NULL, max_rows integer DEFAULT 1000) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(format('%s:%s/%s%s', "position", kind, attempt, ' ' || delta::text), ', ' ORDER BY "position") FROM workq_stream(job, after, max_rows) $$;

SELECT workq_create_queue('stream');
SELECT workq_enqueue('stream', '1') AS job \gset
SELECT pg_temp.stream(:job), (SELECT count(*) FROM workq_checkpoints(:job));
SELECT claim_id AS claim FROM workq_claim('stream', 'w1', '5 min') \gset

-- parts, each with its attempt
SELECT workq_progress(:'claim', '"a"'), workq_progress(:'claim', '{"b": [1, null]}');
SELECT workq_progress(:'claim', 'null');
SELECT pg_temp.stream(:job);
SELECT s.worker, at >= enqueued_at, at <= clock_timestamp() FROM workq_stream(:job) s, workq_job(:job);
-- go on behind what was seen; at most so many
SELECT pg_temp.stream(:job, 0, 2);
SELECT pg_temp.stream(:job, 2, 1);
SELECT pg_temp.stream(:job, 3, 5);
SELECT pg_temp.stream(:job, 4), pg_temp.stream(:job, 2147483647);
-- it neither extends the lease nor counts as anything else
SELECT deadline - claimed_at, events FROM workq.leases WHERE job_id = :job;

-- checkpoints: the first result of a step stays
SELECT workq_checkpoint(:'claim', 'fetch', '{"bytes": 42}'), workq_checkpoint(:'claim', 'parse');
SELECT workq_checkpoint(:'claim', 'fetch', '{"bytes": 43}'), workq_checkpoint(:'claim', 'Fetch');
SELECT step, result, attempt, worker FROM workq_checkpoints(:job);

-- another attempt: a divider, and what is done already
SELECT workq_fail(:'claim', 'E', retry_in => '0');
SELECT claim_id AS claim2 FROM workq_claim('stream', 'w2', '5 min') \gset
SELECT workq_progress(:'claim2', '"again"');
SELECT workq_checkpoint(:'claim2', 'fetch', '{"bytes": 44}'), workq_checkpoint(:'claim2', 'mail', 'null');
SELECT pg_temp.stream(:job);
SELECT step, result, attempt, worker FROM workq_checkpoints(:job);

-- 26: a claim that has ended cannot, whatever it ended with and whoever asks
SELECT v, pg_temp.try(format(v, :'claim')) FROM unnest(ARRAY['SELECT workq_progress(%L, ''1'')', 'SELECT workq_checkpoint(%L, ''late'')',
    'SELECT workq_checkpoint(%L, ''fetch'')', 'SELECT workq_progress(%L, ''1'', ''report'')', 'SELECT workq_checkpoint(%L, ''late'', NULL, ''report'')',
    'SELECT workq_progress_batch(ARRAY[%L]::uuid[], ''{1}'', ''error'')', 'SELECT workq_checkpoint_batch(ARRAY[%L]::uuid[], ''{s}'', NULL, ''error'')']) v;
-- 27: a late one that nobody has taken back may
SET workq.clock_offset = '6 min';
SELECT workq_progress(:'claim2', '"late"') > 0, workq_checkpoint(:'claim2', 'late');
SELECT claim_id AS claim3 FROM workq_claim('stream', 'w2', '5 min') \gset
SELECT pg_temp.try(format('SELECT workq_progress(%L, ''1'')', :'claim2')), pg_temp.try(format('SELECT workq_checkpoint(%L, ''s'')', :'claim2'));
RESET workq.clock_offset;
SELECT string_agg(delta::text, ' ') FROM workq_stream(:job);
SELECT string_agg(step, ' ') FROM workq_checkpoints(:job);

-- 36: a savepoint that rolls back leaves no trace; nor does a rollback
SELECT max("position") AS last FROM workq_stream(:job) \gset
BEGIN;
SELECT workq_progress(:'claim3', '"stays"') > :last;
SAVEPOINT s;
SELECT workq_progress(:'claim3', '"goes"') > :last, workq_checkpoint(:'claim3', 'goes');
SELECT string_agg(delta::text, ' ') FROM workq_stream(:job, :last);
ROLLBACK TO s;
SELECT workq_checkpoint(:'claim3', 'goes', '"not yet"') AS first;
COMMIT;
BEGIN;
SELECT workq_progress(:'claim3', '"gone"') > :last, workq_checkpoint(:'claim3', 'gone');
ROLLBACK;
SELECT string_agg(delta::text, ' '), count(*), count(DISTINCT "position") FROM workq_stream(:job, :last);
SELECT string_agg(step, ' ') FROM workq_checkpoints(:job);
SELECT count(*), count(DISTINCT number), max(number) FROM workq.claims WHERE job_id = :job;
DO $$ BEGIN
    PERFORM workq_progress(claim_id, '"caught"'), workq_checkpoint(claim_id, 'caught') FROM workq.leases JOIN workq.queues USING (queue_id) WHERE name = 'stream';
    RAISE division_by_zero;
EXCEPTION WHEN division_by_zero THEN NULL;
END $$;
SELECT count(*) FROM workq_stream(:job, :last);

-- a reader sees what is committed whatever its snapshot is, and its own
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT 1;
SELECT workq_progress(:'claim3', '"own"') > :last;
SELECT string_agg(delta::text, ' ') FROM workq_stream(:job, :last);
ROLLBACK;

-- facts tell of checkpoints, not of progress; history neither
SELECT number, fact, attempt, worker, reason FROM workq.facts WHERE job_id = :job ORDER BY number;
SELECT string_agg(e->>'event' || coalesce(' ' || (e->>'reason'), ''), ', ' ORDER BY n) FROM workq_job(:job), jsonb_array_elements(history) WITH ORDINALITY AS h(e, n);
-- what is done can be read
SELECT workq_ack(:'claim3', '"done"');
SELECT workq_ack(:'claim3', '"done"'), pg_temp.try(format('SELECT workq_progress(%L, ''1'')', :'claim3'));
SELECT count(*), max(attempt) FROM workq_stream(:job);
SELECT count(*) FROM workq_checkpoints(:job);

-- a payload that a parked job got is found among many events
SELECT workq_enqueue('stream', '"old"') AS parked \gset
SELECT workq_progress(claim_id, '"p"') > 0, workq_checkpoint(claim_id, 's', '"c"'), workq_park(claim_id) FROM workq_claim('stream', 'w');
SELECT workq_unpark(:parked, '"new"');
SELECT payload, claim_id AS claim FROM workq_claim('stream', 'w') \gset
SELECT :'payload', workq_park(:'claim'), workq_unpark(:parked);
SELECT payload, (SELECT payload FROM workq_job(:parked)) FROM workq_claim('stream', 'w');
SELECT workq_unpark(:parked);
SELECT workq_cancel(:parked);

-- cancelling reaches the worker
SELECT workq_ack(claim_id) FROM workq.leases WHERE job_id = :parked;
SELECT workq_enqueue('stream', '2') AS job \gset
SELECT claim_id AS claim FROM workq_claim('stream', 'w', '5 min') \gset
SELECT workq_checkpoint(:'claim', 'before');
SELECT workq_cancel(:job, 'not needed');
SELECT v, pg_temp.try(format(v, :'claim')) FROM unnest(ARRAY['SELECT workq_renew(%L)', 'SELECT workq_progress(%L, ''1'')', 'SELECT workq_checkpoint(%L, ''after'')',
    'SELECT workq_checkpoint(%L, ''before'')', 'SELECT workq_progress(%L, ''1'', ''report'')', 'SELECT workq_checkpoint(%L, ''after'', on_lost => ''report'')',
    'SELECT workq_progress_batch(ARRAY[%L]::uuid[], ''{1}'', ''error'')', 'SELECT workq_checkpoint_batch(ARRAY[%L]::uuid[], ''{s}'', NULL, ''error'')']) v;
SELECT status, sqlstate, deadline FROM workq_progress_batch(ARRAY[:'claim', :'claim']::uuid[], '{1,2}');
SELECT status, sqlstate, deadline FROM workq_checkpoint_batch(ARRAY[:'claim']::uuid[], '{after}');
SELECT pg_temp.stream(:job), (SELECT string_agg(step, ' ') FROM workq_checkpoints(:job));
SELECT workq_ack(:'claim');

-- batches: in the order given, also for one claim; partial success
SELECT count(*) FROM workq_enqueue_batch('stream', '[{"payload": 1}, {"payload": 2}, {"payload": 3}]');
CREATE TEMP TABLE c AS SELECT row_number() OVER () AS n, claim_id AS c, job_id AS j FROM workq_claim('stream', 'w', '5 min', max_jobs => 3);
SELECT workq_ack(c) FROM c WHERE n = 2;
SELECT r.ord, c.n, r.status, r.sqlstate, r.deadline = l.deadline
  FROM workq_progress_batch((SELECT array_agg(c ORDER BY i) FROM unnest('{3,1,2,1,3}'::int[]) WITH ORDINALITY AS o(n, i) JOIN c USING (n)), '{1,2,3,4,5}') r
  JOIN c ON c = claim_id LEFT JOIN workq.leases l USING (claim_id) ORDER BY ord;
SELECT n, pg_temp.stream(j) FROM c ORDER BY n;
SELECT r.ord, c.n, r.status, r.sqlstate, r.deadline = l.deadline
  FROM workq_checkpoint_batch((SELECT array_agg(c ORDER BY i) FROM unnest('{3,1,2,1,3,1}'::int[]) WITH ORDINALITY AS o(n, i) JOIN c USING (n)),
    '{a,a,a,b,a,a}', '{1,2,3,4,5,NULL}') r
  JOIN c ON c = claim_id LEFT JOIN workq.leases l USING (claim_id) ORDER BY ord;
SELECT n, (SELECT string_agg(step || '=' || result, ' ') FROM workq_checkpoints(j)) FROM c ORDER BY n;
-- two claims of one job among each other, one of them lost
SELECT workq_release(c) FROM c WHERE n = 1;
INSERT INTO c SELECT 4, claim_id, job_id FROM workq_claim('stream', 'w');
SELECT ord, n, status FROM workq_progress_batch((SELECT array_agg(c ORDER BY i) FROM unnest('{4,1,4,1,4}'::int[]) WITH ORDINALITY AS o(n, i) JOIN c USING (n)), '{"\"x\"",1,"\"y\"",2,"\"z\""}') JOIN c ON c = claim_id ORDER BY ord;
SELECT pg_temp.stream(j) FROM c WHERE n = 4;
-- several writers of one claim in one command
SELECT workq_progress(c, '1') > 0, workq_renew(c, '10 min') > now(), workq_checkpoint(c, 'x'), workq_progress(c, '2') > 0, workq_ack(c) FROM c WHERE n = 4;
-- many parts in one call; none
SELECT count(*), count(DISTINCT status) FROM workq_progress_batch((SELECT array_agg(c) FROM c, generate_series(1, 500) WHERE n = 3), (SELECT array_agg(to_jsonb(i)) FROM generate_series(1, 500) i));
SELECT count(*), bool_and(delta::int = i) FROM c, LATERAL (SELECT delta, row_number() OVER () - 2 AS i FROM workq_stream(j) WHERE delta IS NOT NULL) s WHERE n = 3 AND i > 0;
SELECT count(*) FROM workq_progress_batch('{}', '{}');
SELECT count(*) FROM workq_checkpoint_batch('{}', '{}', '{}');

-- large ones
SELECT workq_progress(c, to_jsonb(repeat('x', 100000))) > 0, workq_checkpoint(c, 'large', (SELECT jsonb_agg(md5(i::text)) FROM generate_series(1, 10000) i)) FROM c WHERE n = 3;
SELECT length(delta #>> '{}') FROM c, workq_stream(j, 500) WHERE n = 3 AND jsonb_typeof(delta) = 'string';
SELECT jsonb_array_length(result), result->>9999 = md5('10000') FROM c, workq_checkpoints(j) WHERE n = 3 AND step = 'large';

-- bad arguments
SELECT c AS claim FROM c WHERE n = 3 \gset
SELECT a, pg_temp.try(replace(format('SELECT workq_%s', a), '$c', quote_literal(:'claim'))) FROM unnest(ARRAY[
    'progress(NULL, ''1'')', 'progress($c, NULL)', 'progress($c, ''x'')', 'progress(''00000000-0000-4000-8000-000000000000'', ''1'')', 'progress($c, ''1'', ''ignore'')',
    'progress($c, to_jsonb(repeat(''x'', 64 * 1024 * 1024)))',
    'checkpoint(NULL, ''s'')', 'checkpoint($c, NULL)', 'checkpoint($c, '''')', 'checkpoint($c, '' s'')', 'checkpoint($c, E''s\n'')', 'checkpoint($c, repeat(''s'', 256))',
    'checkpoint($c, repeat(''s'', 255))', 'checkpoint($c, ''s'', ''x'')', 'checkpoint($c, ''s'', to_jsonb(repeat(''x'', 64 * 1024 * 1024)))', 'checkpoint($c, ''s'', on_lost => ''x'')',
    'progress_batch(NULL, ''{}'')', 'progress_batch(''{}'', NULL)', 'progress_batch(''{NULL}'', ''{1}'')', 'progress_batch(ARRAY[$c]::uuid[], ''{NULL}'')',
    'progress_batch(ARRAY[$c]::uuid[], ''{1,2}'')', 'progress_batch(ARRAY[$c]::uuid[], ''{1}'', ''x'')', 'progress_batch(ARRAY[[$c]]::uuid[], ''{1}'')',
    'progress_batch(ARRAY[[$c, $c], [$c, $c]]::uuid[], ''{1,2,3,4}'')',
    'checkpoint_batch(NULL, ''{}'')', 'checkpoint_batch(''{}'', NULL)', 'checkpoint_batch(ARRAY[$c]::uuid[], ''{NULL}'')', 'checkpoint_batch(ARRAY[$c]::uuid[], ARRAY[''''])',
    'checkpoint_batch(ARRAY[$c]::uuid[], ''{s}'', ''{}'')', 'checkpoint_batch(ARRAY[$c]::uuid[], ''{s,t}'')', 'checkpoint_batch(ARRAY[$c]::uuid[], ARRAY[repeat(''s'', 256)])',
    'stream(NULL)', 'stream(0)', 'stream(-1)', 'stream(999999999999)', 'stream(1, -1)', 'stream(1, NULL, 0)', 'stream(1, NULL, 100001)',
    'checkpoints(NULL)', 'checkpoints(0)', 'checkpoints(999999999999)']) a;
-- a claim that nobody has
SELECT pg_temp.try($$SELECT workq_progress('00000000-0000-8001-8000-000000000000', '1')$$);
-- read-only
BEGIN READ ONLY;
SELECT count(*) > 500 FROM c, workq_stream(j) WHERE n = 3;
SELECT count(*) FROM c, workq_checkpoints(j) WHERE n = 3;
SAVEPOINT s;
SELECT workq_progress(:'claim', '1');
ROLLBACK TO s;
SELECT workq_checkpoint(:'claim', 'ro');
ROLLBACK TO s;
SELECT workq_progress_batch(ARRAY[:'claim']::uuid[], '{1}');
ROLLBACK TO s;
SELECT workq_checkpoint_batch(ARRAY[:'claim']::uuid[], '{ro}');
ROLLBACK;

-- rights: who may claim or monitor reads; what was said is for who may claim or manage
SELECT j AS job FROM c WHERE n = 3 \gset
SET client_min_messages = warning;
CREATE ROLE regress_stream_claim;
CREATE ROLE regress_stream_monitor;
CREATE ROLE regress_stream_enqueue;
RESET client_min_messages;
SELECT workq_grant('stream', 'regress_stream_claim', 'claim'), workq_grant('stream', 'regress_stream_monitor', 'monitor'), workq_grant('stream', 'regress_stream_enqueue', 'enqueue');
SET ROLE regress_stream_monitor;
SELECT count(*) > 500, count(delta), (SELECT count(*) || ' ' || count(result) FROM workq_checkpoints(:job)) FROM workq_stream(:job);
SELECT workq_progress(:'claim', '1');
SELECT workq_checkpoint(:'claim', 's');
SET ROLE regress_stream_claim;
SELECT count(*) > 500, count(delta) > 500, (SELECT count(*) || ' ' || count(result) FROM workq_checkpoints(:job)) FROM workq_stream(:job);
SELECT workq_progress(:'claim', '1') > 500, workq_checkpoint(:'claim', 'by claim');
SET ROLE regress_stream_enqueue;
SELECT count(*) FROM workq_stream(:job);
SELECT count(*) FROM workq_checkpoints(:job);
SELECT workq_progress(:'claim', '1');
RESET ROLE;
SELECT workq_revoke('stream', 'regress_stream_claim', 'claim'), workq_revoke('stream', 'regress_stream_monitor', 'monitor'), workq_revoke('stream', 'regress_stream_enqueue', 'enqueue');
DROP ROLE regress_stream_claim, regress_stream_monitor, regress_stream_enqueue;

-- a log that is full
UPDATE workq.leases SET events = 999999999 WHERE claim_id = :'claim';
SELECT pg_temp.try(format('SELECT status FROM workq_progress_batch(ARRAY[%L, %1$L]::uuid[], ''{1,2}'')', :'claim'));
SELECT workq_progress(:'claim', '"last"');
SELECT pg_temp.try(format('SELECT workq_progress(%L, ''1'')', :'claim')), pg_temp.try(format('SELECT workq_checkpoint(%L, ''s'')', :'claim'));
SELECT workq_ack(:'claim');

-- a gate's answer: no failure is counted, the turn stays charged, the fact says why
SELECT workq_create_queue('stream gate');
SELECT workq_configure('stream gate', strategy => 'drr', max_attempts => 1) > 1;
SELECT workq_enqueue('stream gate', '1', tenant => 'a') AS job \gset
SELECT workq_enqueue('stream gate', '2', tenant => 'b') > 0;
SELECT job_id = :job, workq_release(claim_id, '1 min', 'gate closed') FROM workq_claim('stream gate', 'w');
SELECT fact, failures, reason, due - at FROM workq.facts WHERE job_id = :job AND number > 1;
SELECT state, failures, (SELECT count(*) FROM workq.responses WHERE job_id = :job) FROM workq_job(:job);
SELECT selected_total, deficit, in_flight FROM workq.scheduler_keys WHERE queue = 'stream gate' AND key = 'a';
SELECT workq_release(claim_id, reason => 'closed, too') FROM workq_claim('stream gate', 'w');
SELECT workq_release(claim_id) FROM workq_claim('stream gate', 'w');
SELECT workq_release(claim_id, '1 s') FROM workq_claim('stream gate', 'w');
SELECT fact, failures, reason, due - at FROM workq.facts WHERE queue = 'stream gate' AND job_id <> :job ORDER BY number;
SET workq.clock_offset = '2 min';

-- a queue that is dropped
SELECT claim_id AS claim, job_id AS job FROM workq_claim('stream gate', 'w') \gset
SELECT workq_progress(:'claim', '1') > 0;
SELECT workq_drop_queue('stream gate', confirm => true);
RESET workq.clock_offset;
SELECT pg_temp.try(format('SELECT workq_progress(%L, ''1'')', :'claim')), pg_temp.try('SELECT workq_stream(' || :job || ')') = format('42704: job %s does not exist', :job),
    pg_temp.try('SELECT workq_checkpoints(' || :job || ')') = format('42704: job %s does not exist', :job);

SELECT * FROM workq_check();
