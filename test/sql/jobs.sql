--
-- Verbs on jobs: workq_job, cancel, requeue, purge.
--

\i sql/include/try.sql

\pset format unaligned
\pset tuples_only on
\pset null NULL

CREATE FUNCTION pg_temp.state(id bigint) RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(' ', state, 'attempt', attempt, 'failures', failures, outcome, error_code,
        '[' || (SELECT string_agg(h.e->>'event' || coalesce(' (' || (h.e->>'reason') || ')', ''), ', ' ORDER BY n)
                  FROM jsonb_array_elements(history) WITH ORDINALITY h (e, n)) || ']')
      FROM workq_job(id)
$$;
-- a job in each state, named after it
CREATE FUNCTION pg_temp.make(queue text, state text, dedup_key text DEFAULT NULL) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE j bigint; c uuid; name text := queue || ' ' || state;
BEGIN
    j := workq_enqueue(name, to_jsonb(state), max_attempts => CASE WHEN state = 'dead' THEN 1 END,
                       delay => CASE WHEN state = 'scheduled' THEN interval '1 h' END, dedup_key => dedup_key);
    IF state IN ('leased', 'expired', 'succeeded', 'retry', 'dead', 'released', 'held lease') THEN
        SELECT claim_id INTO STRICT c FROM workq_claim(name, 'worker of ' || state, '10 min') WHERE job_id = j;
    END IF;
    CASE state
        WHEN 'succeeded' THEN PERFORM workq_ack(c, '"result"');
        WHEN 'retry' THEN PERFORM workq_fail(c, 'R', retry_in => '1 h');
        WHEN 'dead' THEN PERFORM workq_fail(c, 'D', 'died');
        WHEN 'released' THEN PERFORM workq_release(c);
        WHEN 'held lease' THEN PERFORM workq_fail(c, 'H', on_fail => 'hold_lease');
        WHEN 'cancelled' THEN PERFORM workq_cancel(j, 'why not');
        WHEN 'purged' THEN PERFORM workq_purge(name, confirm => true);
        ELSE NULL;
    END CASE;
    RETURN j;
END $$;
CREATE TEMP TABLE states (n, state) AS SELECT ordinality, s FROM unnest(ARRAY['ready', 'scheduled', 'leased', 'retry', 'released',
    'held lease', 'dead', 'succeeded', 'cancelled', 'purged']) WITH ORDINALITY s (s);

--
-- workq_job
--
CREATE TEMP TABLE jobs AS SELECT n, state, pg_temp.make('jobs', state) AS id FROM states;
SELECT n, j.state, pg_temp.state(id) FROM jobs j ORDER BY n;
SELECT n, r.queue, r.priority, r.payload, r.attempt, r.failures, r.max_attempts, r.worker, r.claim_id IS NULL AS no_claim, r.deadline IS NULL AS no_deadline,
    r.outcome, r.result, r.error_code, r.error_message, jsonb_array_length(history) AS events
  FROM jobs j, workq_job(id) r ORDER BY n;
-- since when
SELECT n, CASE j.state WHEN 'ready' THEN since = enqueued_at WHEN 'released' THEN since = enqueued_at
    WHEN 'scheduled' THEN since = enqueued_at + interval '1 h' WHEN 'retry' THEN since > enqueued_at + interval '59 min'
    ELSE since >= enqueued_at END AS since FROM jobs j, workq_job(id) ORDER BY n;
-- everything it was enqueued with
SELECT workq_enqueue('jobs full', '{"p": 1}', 'high', 't', 'b', 'i', '{"h": 2}', dedup_key => 'k', max_attempts => 3, correlation => 'c') AS j \gset
SELECT queue, state, priority, tenant, binding, trigger_id, payload, headers, correlation, dedup_key, max_attempts FROM workq_job(:j);
-- who holds it
SELECT claim_id AS c FROM workq_claim('jobs full', 'me', '7 min') \gset
SELECT state, worker, claim_id = :'c' AS claim, deadline - since AS lease FROM workq_job(:j);
SELECT pg_temp.try(a) FROM unnest(ARRAY['SELECT job_id FROM workq_job(NULL)', 'SELECT job_id FROM workq_job(0)', 'SELECT job_id FROM workq_job(-1)',
    'SELECT job_id FROM workq_job(9223372036854775807)', 'SELECT job_id FROM workq_job(72057594037927935)']) a;

--
-- workq_cancel in each state; what nobody holds is over at once
--
SELECT n, state, workq_cancel(id, 'no longer') AS cancelled FROM jobs ORDER BY n;
SELECT n, state, pg_temp.state(id) FROM jobs ORDER BY n;
SELECT n, state, workq_cancel(id) AS again FROM jobs ORDER BY n;
-- none of them is live but the leased ones, and none is claimed
SELECT n, (SELECT count(*) FROM workq.ready r WHERE r.job_id = id) + (SELECT count(*) FROM workq.scheduled r WHERE r.job_id = id)
    + (SELECT count(*) FROM workq.held r WHERE r.job_id = id) AS elsewhere, (SELECT count(*) FROM workq.leases r WHERE r.job_id = id) AS leased
  FROM jobs ORDER BY n;
SELECT n, (SELECT count(*) FROM workq_claim('jobs ' || state, 'w', max_jobs => 10)) FROM jobs ORDER BY n;
SELECT * FROM workq_check();

-- the holder of a job to be cancelled learns of it when it renews
SELECT id AS j, claim_id AS c FROM jobs, workq_job(id) r WHERE jobs.state = 'leased' \gset
SELECT replace(pg_temp.try(format($$SELECT workq_renew('%s')$$, :'c')), :'c', '<claim>');
SELECT status, sqlstate FROM workq_renew_batch(ARRAY[:'c'::uuid]);
SELECT pg_temp.state(:j);
-- what it has done counts
SELECT workq_ack(:'c');
SELECT pg_temp.state(:j);
-- whatever else it says, the job does not run again
CREATE TEMP TABLE cancelled AS SELECT n, what, pg_temp.make('jobs cancel ' || n, 'leased') AS id FROM
    unnest(ARRAY['fail', 'fail at once', 'fail hold', 'release', 'release later', 'expire']) WITH ORDINALITY x (what, n);
ALTER TABLE cancelled ADD c uuid;
UPDATE cancelled SET c = (SELECT claim_id FROM workq_job(id));
SELECT n, workq_cancel(id) FROM cancelled ORDER BY n;
SELECT workq_fail(c, 'F') FROM cancelled WHERE what = 'fail';
SELECT workq_fail(c, 'F', retry_in => '0') FROM cancelled WHERE what = 'fail at once';
SELECT workq_fail(c, 'F', on_fail => 'hold_lease') FROM cancelled WHERE what = 'fail hold';
SELECT workq_release(c, reason => 'R') FROM cancelled WHERE what = 'release';
SELECT workq_release(c, '1 h', 'R') FROM cancelled WHERE what = 'release later';
SELECT n, what, pg_temp.state(id) FROM cancelled ORDER BY n;
SET workq.clock_offset = '2 h';
SELECT n, (SELECT count(*) FROM workq_claim('jobs cancel ' || n || ' leased', 'w')) FROM cancelled ORDER BY n;
RESET workq.clock_offset;

-- a batch
CREATE TEMP TABLE batch AS SELECT n, state, pg_temp.make('jobs batch', state) AS id FROM states WHERE state IN ('ready', 'scheduled', 'leased', 'dead', 'succeeded');
SELECT b.ord, state, status, sqlstate FROM workq_cancel_batch((SELECT array_agg(id ORDER BY n DESC) || 9000000000000::bigint || min(id) || 0::bigint FROM batch), 'all of it') b
    LEFT JOIN batch ON job_id = id ORDER BY ord;
SELECT n, state, pg_temp.state(id) FROM batch ORDER BY n;
SELECT count(*) FROM workq_cancel_batch('{}');

--
-- workq_requeue
--
CREATE TEMP TABLE again AS SELECT n, state, pg_temp.make('jobs again', state) AS id FROM states;
SELECT n, state, workq_requeue(id) FROM again ORDER BY n;
SELECT id AS j FROM again WHERE state = 'dead' \gset
SELECT pg_temp.state(:j);
SELECT workq_requeue(:j);
-- with a clean sheet: it dies of as many failures as before
SELECT claim_id AS c, attempt, failures, max_attempts FROM workq_claim('jobs again dead', 'w') \gset
SELECT :attempt, :failures, :max_attempts, workq_fail(:'c', 'AGAIN');
SELECT pg_temp.state(:j);
-- cancelled while it is held, it cannot come back
SELECT workq_cancel(:j), workq_requeue(:j);
SELECT pg_temp.state(:j);
-- a batch
TRUNCATE batch;
INSERT INTO batch SELECT n, state, pg_temp.make('jobs batch', state) AS id FROM states WHERE state IN ('ready', 'scheduled', 'leased', 'dead', 'succeeded');
SELECT b.ord, state, status, sqlstate FROM workq_requeue_batch((SELECT array_agg(id ORDER BY n DESC) || 9000000000000::bigint || max(id) FROM batch)) b
    LEFT JOIN batch ON job_id = id ORDER BY ord;
-- all of a queue
CREATE TEMP TABLE dead AS SELECT pg_temp.make('jobs all', 'dead') AS id FROM generate_series(1, 5);
SELECT workq_requeue_all('jobs all dead', max_jobs => 2);
SELECT array_agg(state ORDER BY id) FROM dead, workq_job(id);
SELECT workq_requeue_all('jobs all dead');
SELECT workq_requeue_all('jobs all dead');
SELECT count(*) FROM workq_claim('jobs all dead', 'w', max_jobs => 10);

--
-- The deduplication key of a dead job is free; requeueing takes it again
--
SELECT pg_temp.make('jobs key', 'dead', 'k') AS j \gset
SELECT workq_enqueue('jobs key dead', '"second"', dedup_key => 'k') AS j2 \gset
SELECT :j2 <> :j;
SELECT replace(replace(pg_temp.try(format('SELECT workq_requeue(%s)', :j)), :'j2', '<second>'), :'j', '<first>');
SELECT workq_requeue_all('jobs key dead');
SELECT pg_temp.state(:j);
SELECT workq_ack(claim_id) FROM workq_claim('jobs key dead', 'w');
SELECT workq_requeue(:j);
SELECT workq_enqueue('jobs key dead', '"third"', dedup_key => 'k') = :j;
-- purging and cancelling give it up
SELECT workq_cancel(:j);
SELECT workq_enqueue('jobs key dead', '"fourth"', dedup_key => 'k') <> :j;
SELECT workq_purge('jobs key dead', confirm => true);
SELECT count(*) FROM workq.dedup JOIN workq.queues USING (queue_id) WHERE name = 'jobs key dead';

--
-- workq_purge
--
CREATE TEMP TABLE purge AS SELECT n, state, CASE WHEN state = 'ready' THEN workq_enqueue('jobs purge', to_jsonb(n), p)
    WHEN state = 'scheduled' THEN workq_enqueue('jobs purge', to_jsonb(n), p, delay => '1 h') END AS id
  FROM states, unnest(ARRAY['high', 'normal', 'low']) p WHERE state IN ('ready', 'scheduled');
SELECT workq_enqueue('jobs purge', '"held"', max_attempts => 1) AS held, workq_enqueue('jobs purge', '"leased"', 'high') AS leased \gset
SELECT workq_fail(claim_id) FROM workq_claim('jobs purge', 'w', max_jobs => 5) WHERE job_id = :held;
SELECT pg_temp.try(a) FROM unnest(ARRAY[
    $$SELECT workq_purge('jobs purge')$$,
    $$SELECT workq_purge('jobs purge', confirm => false, scheduled => true)$$,
    $$SELECT workq_purge('jobs purge', confirm => NULL)$$,
    $$SELECT workq_purge('jobs no such', confirm => true)$$,
    $$SELECT workq_purge(NULL, confirm => true)$$,
    $$SELECT workq_purge('', confirm => true)$$]) a;
SELECT ready, scheduled, leased, held FROM workq.queue_overview WHERE queue = 'jobs purge';
SELECT workq_release(claim_id) FROM workq_job((SELECT min(id) FROM purge));
SELECT workq_purge('jobs purge', confirm => true);
SELECT ready, scheduled, leased, held FROM workq.queue_overview WHERE queue = 'jobs purge';
SELECT count(*) FROM workq_claim('jobs purge', 'w');
BEGIN;
SELECT workq_purge('jobs purge', confirm => true, scheduled => true);
ROLLBACK;
SELECT ready, scheduled, leased, held FROM workq.queue_overview WHERE queue = 'jobs purge';
SELECT workq_purge('jobs purge', confirm => true, scheduled => true);
SELECT workq_purge('jobs purge', confirm => true, scheduled => true);
SELECT ready, scheduled, leased, held FROM workq.queue_overview WHERE queue = 'jobs purge';
SELECT array_agg(DISTINCT r.state) FROM purge, workq_job(id) r WHERE purge.state = 'scheduled';

--
-- The clock goes back between a job's events
--
SET workq.clock_offset = '1 h';
SELECT workq_enqueue('jobs clock', '1') AS j1, workq_enqueue('jobs clock', '2', max_attempts => 1) AS j2, workq_enqueue('jobs clock', '3') AS j3 \gset
SELECT CASE payload WHEN '1' THEN workq_release(claim_id) WHEN '2' THEN workq_fail(claim_id, 'X') ELSE workq_ack(claim_id) END
  FROM workq_claim('jobs clock', 'w', max_jobs => 3);
RESET workq.clock_offset;
SELECT workq_cancel(:j1), workq_requeue(:j2);
SELECT state FROM workq_job(:j1);
SELECT state FROM workq_job(:j2);
SELECT state FROM workq_job(:j3);
SELECT workq_cancel(:j2);
SELECT pg_temp.state(:j2);

--
-- What must not be
--
SELECT a, pg_temp.try('SELECT workq_' || a) FROM unnest(ARRAY[
    'cancel(NULL)',
    'cancel(0)',
    'cancel(-1)',
    'cancel(9000000000000)',
    'cancel(9223372036854775807)',
    $$cancel(1, repeat('r', 8193))$$,
    'cancel_batch(NULL)',
    'cancel_batch(ARRAY[NULL]::bigint[])',
    'cancel_batch(ARRAY[ARRAY[1]]::bigint[])',
    'cancel_batch(array_fill(1::bigint, ARRAY[100001]))',
    $$cancel_batch('{}', repeat('r', 8193))$$,
    'requeue(NULL)',
    'requeue(9000000000000)',
    'requeue_batch(NULL)',
    'requeue_batch(ARRAY[NULL]::bigint[])',
    'requeue_all(NULL)',
    $$requeue_all('jobs no such')$$,
    $$requeue_all('jobs all dead', 0)$$,
    $$requeue_all('jobs all dead', -1)$$,
    $$requeue_all('jobs all dead', NULL)$$
  ]) a;

SELECT * FROM workq_check();
