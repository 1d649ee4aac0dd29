--
-- workq_claim: order, ageing, receipt, bounds, errors.
--

\i sql/include/try.sql

\pset format unaligned
\pset tuples_only on
\pset null NULL

-- high before normal before low, within one priority first in first out
SELECT workq_enqueue('claim', to_jsonb(p || n), p) > 0 FROM unnest(ARRAY['low', 'normal', 'high']) p, generate_series(1, 2) n;
SELECT payload, priority, decision FROM workq_claim('claim', 'w');
SELECT payload, priority, decision FROM workq_claim('claim', 'w', '1 min', 3);
SELECT payload, priority, decision FROM workq_claim('claim', 'w', max_jobs => 100);
SELECT count(*) FROM workq_claim('claim', 'w');

-- an older run_at does not jump ahead, a job that became due has its due time
SELECT workq_enqueue('claim due', '"at once 1"') > 0;
SELECT workq_enqueue('claim due', '"in the past"', run_at => '2001-01-01') > 0;
SELECT workq_enqueue('claim due', '"in a minute"', delay => '1 min') > 0;
SELECT payload FROM workq_claim('claim due', 'w', max_jobs => 10);
SET workq.clock_offset = '30 s';
SELECT count(*) FROM workq_claim('claim due', 'w', max_jobs => 10);
SET workq.clock_offset = '61 s';
SELECT workq_enqueue('claim due', '"after it was due"') > 0;
SELECT payload, attempt, failures, waited < '10 s' AS waited_little FROM workq_claim('claim due', 'w', max_jobs => 10) ORDER BY 1;
RESET workq.clock_offset;

-- the whole receipt
SELECT workq_enqueue('claim receipt', '{"a": 1}', 'low', 'ten', 'bin', 'tri', '{"h": 2}', max_attempts => 9, correlation => 'cor') AS id \gset
SELECT * FROM workq_claim('claim receipt', 'me', '10 min') \gset r_
SELECT :'r_job_id' = :'id' AS job_id, :'r_queue' AS queue, :'r_payload' AS payload, :'r_headers' AS headers, :'r_tenant' AS tenant,
    :'r_binding' AS binding, :'r_trigger_id' AS trigger_id, :'r_priority' AS priority, :r_attempt AS attempt, :r_failures AS failures,
    :r_max_attempts AS max_attempts, :'r_fairness_key' AS fairness_key, :'r_decision' AS decision, :r_policy_version AS policy_version,
    :'r_correlation' AS correlation;
SELECT :'r_deadline'::timestamptz - :'r_selected_at'::timestamptz AS lease,
    :'r_selected_at'::timestamptz BETWEEN now() - interval '1 min' AND clock_timestamp() AS selected_now,
    :'r_waited'::interval = :'r_selected_at'::timestamptz - :'r_enqueued_at'::timestamptz AS waited,
    :'r_promotion_deadline'::timestamptz - :'r_enqueued_at'::timestamptz AS promotion;
SELECT round, credit, weight FROM workq.claims WHERE job_id = :id;
-- the claim id is a UUID of version 8 that begins with the job id
SELECT :'r_claim_id' ~ '^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$' AS version_8;
-- and all of it is in the log
SELECT c.at = :'r_selected_at' AND c.claim_id = :'r_claim_id' AND c.deadline = :'r_deadline' AND c.ready_since = :'r_enqueued_at'
        AND c.promotion_deadline = :'r_promotion_deadline' AS same,
    c.event, c.attempt, c.failures, c.priority, c.worker, c.decision, c.fairness_key, c.policy_version, c.lane
  FROM workq.claims c WHERE job_id = :id;
SELECT claim_id = :'r_claim_id' AND deadline = :'r_deadline' AND claimed_at = :'r_selected_at' AS same, worker, attempt, failures
  FROM workq.leases WHERE job_id = :id;
SELECT workq_ack(:'r_claim_id');

-- a high-priority job is not promoted; a job without attributes says so
SELECT workq_enqueue('claim receipt', '1', 'high') > 0, workq_enqueue('claim receipt', '2', tenant => '_no_tenant') > 0;
SELECT payload, fairness_key, promotion_deadline IS NULL AS never FROM workq_claim('claim receipt', 'me', max_jobs => 2);
SELECT workq_configure('claim receipt', fairness_key => 'tenant-and-binding', promote_normal_after => '0') > 0;
SELECT workq_enqueue('claim receipt', '3', tenant => 't') > 0;
SELECT replace(fairness_key, E'\x1f', '<US>'), promotion_deadline IS NULL AS never, policy_version FROM workq_claim('claim receipt', 'me');

--
-- Ageing (scenario 13): one low job and a high one every second, one claim a
-- second: the low job is claimed when it turns 30 minutes old, and no claim
-- before (real time goes by, too, so the second in which that is may be earlier).
--
CREATE FUNCTION pg_temp.old_behind_new(queue text, seconds integer, OUT decision text, OUT turned_30 boolean, OUT others_before boolean)
LANGUAGE plpgsql AS $$
DECLARE
    r record;
    latest timestamptz;
BEGIN
    PERFORM set_config('workq.clock_offset', '0', true);
    PERFORM workq_enqueue(queue, '"old"', 'low');
    FOR second IN 1..seconds LOOP
        PERFORM set_config('workq.clock_offset', (second * 1000)::text, true);
        PERFORM workq_enqueue(queue, '"new"', 'high');
        SELECT * INTO STRICT r FROM workq_claim(queue, 'w', '1 min');
        IF r.payload = '"old"' THEN
            decision := r.decision;
            turned_30 := r.waited >= '30 min';
            others_before := latest < r.enqueued_at + interval '30 min';
            RETURN;
        END IF;
        IF r.decision <> 'priority' THEN
            RAISE 'high job claimed by %', r.decision;
        END IF;
        PERFORM workq_ack(r.claim_id);
        latest := r.selected_at;
    END LOOP;
END $$;
SELECT * FROM pg_temp.old_behind_new('claim age', 1800);
RESET workq.clock_offset;

-- with priorities of different ages side by side
SELECT workq_create_queue('claim age 2');
SELECT workq_configure('claim age 2', promote_normal_after => '10 min', promote_low_after => '20 min') > 0;
SELECT workq_enqueue('claim age 2', '"low 0 min"', 'low') > 0;
SET workq.clock_offset = '5 min';
SELECT workq_enqueue('claim age 2', '"normal 5 min"') > 0;
SET workq.clock_offset = '12 min';
SELECT workq_enqueue('claim age 2', '"high 12 min"', 'high') > 0;
-- none is promoted
BEGIN; SELECT payload, decision FROM workq_claim('claim age 2', 'w', max_jobs => 3); ROLLBACK;
SET workq.clock_offset = '16 min';
-- the normal one is older than the high one, and promoted; the low one is not
BEGIN; SELECT payload, decision FROM workq_claim('claim age 2', 'w', max_jobs => 3); ROLLBACK;
SET workq.clock_offset = '21 min';
-- all have the same rank: by age
BEGIN; SELECT payload, decision FROM workq_claim('claim age 2', 'w', max_jobs => 3); ROLLBACK;
-- never
SELECT workq_configure('claim age 2', promote_normal_after => '0', promote_low_after => '0') > 0;
SELECT payload, decision, promotion_deadline FROM workq_claim('claim age 2', 'w', max_jobs => 3);
RESET workq.clock_offset;

--
-- Batches
--
SELECT count(*) FROM workq_enqueue_batch('claim batch', (SELECT jsonb_agg(jsonb_build_object('payload', n)) FROM generate_series(1, 1000) n));
SELECT count(*), count(DISTINCT claim_id), count(DISTINCT job_id), count(DISTINCT selected_at), min(payload::int), max(payload::int)
  FROM workq_claim('claim batch', 'w', max_jobs => 300);
SELECT count(*), count(DISTINCT claim_id), count(DISTINCT job_id), min(payload::int), max(payload::int)
  FROM workq_claim('claim batch', 'w', max_jobs => 100000);
SELECT count(*) FROM workq_claim('claim batch', 'w', max_jobs => 100000);
SELECT count(*) FROM workq.leases l JOIN workq.queues q USING (queue_id) WHERE q.name = 'claim batch';

--
-- An expired lease is taken back by whoever comes, attempt and failures
-- counted, in its old place; a claim that is held is nobody else's.
--
SELECT workq_enqueue('claim back', '1') > 0, workq_enqueue('claim back', '2') > 0;
SELECT claim_id AS first FROM workq_claim('claim back', 'w1', '1 min') \gset
SET workq.clock_offset = '30 s';
SELECT payload FROM workq_claim('claim back', 'w2', max_jobs => 10);
SET workq.clock_offset = '61 s';
SELECT payload, attempt, failures, claim_id <> :'first' AS other_claim, decision FROM workq_claim('claim back', 'w1', max_jobs => 10);
SELECT event, attempt, failures, worker FROM workq.claims WHERE job_id = (SELECT job_id FROM workq.claims WHERE claim_id = :'first' LIMIT 1) ORDER BY at, event DESC;
RESET workq.clock_offset;

--
-- Pause
--
SELECT workq_enqueue('claim pause', '1') > 0;
SELECT workq_pause('claim pause');
SELECT count(*) FROM workq_claim('claim pause', 'w');
SELECT workq_enqueue('claim pause', '2') > 0;
SELECT workq_resume('claim pause');
SELECT payload FROM workq_claim('claim pause', 'w', max_jobs => 2);

--
-- What must not be
--
SELECT a, pg_temp.try(format('SELECT claim_id FROM workq_claim(%s)', a)) FROM unnest(ARRAY[
    $$NULL, 'w'$$,
    $$'', 'w'$$,
    $$' claim', 'w'$$,
    $$repeat('q', 256), 'w'$$,
    $$'claim no such queue', 'w'$$,
    $$'claim it''s', 'w'$$,
    $$'Claim', 'w'$$,
    $$'claim', NULL$$,
    $$'claim', ''$$,
    $$'claim', ' w'$$,
    $$'claim', E'w\n'$$,
    $$'claim', repeat('w', 256)$$,
    $$'claim', repeat('w', 255)$$,
    $$'claim', 'w', NULL$$,
    $$'claim', 'w', '0'$$,
    $$'claim', 'w', '999 us'$$,
    $$'claim', 'w', '-1 s'$$,
    $$'claim', 'w', '1 month'$$,
    $$'claim', 'w', '1 day'$$,
    $$'claim', 'w', '1 day 1 ms'$$,
    $$'claim', 'w', '2147483647 days'$$,
    $$'claim', 'w', max_jobs => NULL$$,
    $$'claim', 'w', max_jobs => 0$$,
    $$'claim', 'w', max_jobs => -1$$,
    $$'claim', 'w', max_jobs => 100000$$,
    $$'claim', 'w', max_jobs => 100001$$
  ]) a;
-- a shorter max_lease is the default's bound, too
SELECT workq_configure('claim', max_lease => '10 s') > 0;
SELECT workq_enqueue('claim', '1') > 0;
SELECT deadline - selected_at FROM workq_claim('claim', 'w', NULL);
SELECT workq_enqueue('claim', '2') > 0;
SELECT deadline - selected_at FROM workq_claim('claim', 'w');
SELECT workq_enqueue('claim', '3') > 0;
SELECT pg_temp.try($$SELECT claim_id FROM workq_claim('claim', 'w', '10001 ms')$$);
SELECT deadline - selected_at FROM workq_claim('claim', 'w', '1 ms');

SELECT * FROM workq_check();
