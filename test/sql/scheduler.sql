--
-- The scheduler's views, its state as JSON, and metrics.
--

SET client_min_messages = warning;
CREATE ROLE regress_scheduler_monitor;
CREATE ROLE regress_scheduler_nobody;
RESET client_min_messages;

\pset format unaligned
\pset null NULL

CREATE FUNCTION pg_temp.enqueue(queue text, tenant text, n int, binding text DEFAULT NULL) RETURNS bigint LANGUAGE sql AS $$
    SELECT count(workq_enqueue(queue, '{}', tenant => tenant, binding => binding)) FROM generate_series(1, n) $$;
CREATE PROCEDURE pg_temp.claim(queue text, n int) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1..n LOOP PERFORM FROM workq_claim(queue, 'w'); COMMIT; END LOOP;
END $$;
-- what tests can compare
-- without lanes of an earlier form, which the background worker gives back some time
CREATE TEMP VIEW keys AS
SELECT queue, fairness_key, key, tenant, binding, state, weight AS w, deficit, in_flight AS flight, cap, ready_jobs AS ready,
       oldest_ready_age BETWEEN '0' AND '10 min' AS age, selected_total AS selected, deferred_total AS deferred, promoted_total AS promoted,
       recent_selections AS recent, recent_share, entitled_share
  FROM workq.scheduler_keys WHERE queue LIKE 'scheduler%' AND NOT (state = 'idle' AND key = '') ORDER BY queue COLLATE "C", fairness_key COLLATE "C", key COLLATE "C";
CREATE TEMP VIEW metrics AS
SELECT name, labels ->> 'fairness_dimension' AS dimension, labels ->> 'fairness_key' AS key, value
  FROM workq_metrics() WHERE labels ->> 'queue' = 'scheduler' AND name ~ '^workq_scheduler_.*_total$' AND labels ? 'fairness_key';

-- a queue that nothing has happened to
SELECT workq_create_queue('scheduler');
SELECT workq_create_queue('scheduler empty');
SELECT queue, strategy, fairness_key, paused, selections, deferrals, starvation_promotions_total, lanes, longest_wait, recent_selections, overflowing, policy_version
  FROM workq.scheduler WHERE queue LIKE 'scheduler%' ORDER BY queue;
SELECT count(*) FROM keys;

-- fifo: one lane for all
SELECT pg_temp.enqueue('scheduler', 'a', 3);
CALL pg_temp.claim('scheduler', 1);
SELECT * FROM keys;
SELECT * FROM metrics ORDER BY 1, 2, 3;
SELECT workq_purge('scheduler', confirm => true);
SELECT count(workq_ack(claim_id)) FROM workq.active_claims WHERE queue = 'scheduler';

-- drr: weights, a cap, a paused key, a key that looks like none
SELECT workq_configure('scheduler', strategy => 'drr', starvation_age => '0', weights => 'a:3,b:1,paused:0') > 1 AS ok;
SELECT workq_set_key('scheduler', 'capped', 2, 1) > 1 AS ok;
SELECT pg_temp.enqueue('scheduler', t, 100) FROM unnest(ARRAY['a', 'b', 'paused', 'capped', NULL, '_no_tenant', 'other']) t;
CALL pg_temp.claim('scheduler', 72);
SELECT * FROM keys;
SELECT strategy, fairness_key, paused, rounds_completed > 0 AS rounds, selections, deferrals, starvation_promotions_total AS promoted, lanes,
       lanes_eligible AS eligible, lanes_capped AS capped, lanes_paused AS paused, lanes_leased AS leased, lanes_idle AS idle,
       longest_wait BETWEEN '0' AND '10 min' AS wait, recent_selections AS recent, overflowing
  FROM workq.scheduler WHERE queue = 'scheduler';

-- a claim that is rolled back was a selection, and is none in the totals
BEGIN;
SELECT count(*) FROM workq_claim('scheduler', 'w', max_jobs => 7);
ROLLBACK;
SELECT sum(selected), sum(recent), sum(flight) FROM keys;
SELECT selections FROM workq.scheduler WHERE queue = 'scheduler';

-- a limit: those with most to do first
SELECT fairness_key, ready_jobs FROM workq_scheduler_keys('scheduler', 2) ORDER BY ready_jobs DESC, fairness_key COLLATE "C";
SELECT count(*) FROM workq_scheduler_keys('scheduler', 7);
SELECT count(*) FROM workq_scheduler_keys('scheduler', NULL);
SELECT count(*) FROM workq_scheduler_keys('scheduler empty');

-- the same as JSON
SELECT s #- '{scheduler,per_queue,0,keys}' #- '{scheduler,per_queue,0,rounds_completed}' FROM workq_scheduler_state('scheduler') s;
SELECT k - 'oldest_ready_age_ms' AS key, (k ->> 'oldest_ready_age_ms')::bigint BETWEEN 0 AND 600000 AS age
  FROM jsonb_array_elements(workq_scheduler_state('scheduler') #> '{scheduler,per_queue,0,keys}') k ORDER BY (k ->> 'fairness_key') COLLATE "C", 1;
SELECT jsonb_array_length(workq_scheduler_state('scheduler', 3) #> '{scheduler,per_queue,0,keys}');
SELECT s #> '{scheduler,policy}', jsonb_array_length(s #> '{scheduler,per_queue}') >= 2 FROM workq_scheduler_state() s;
SELECT s #> '{scheduler,per_queue,0,keys}' FROM workq_scheduler_state('scheduler empty') s;

-- wrong arguments
\set VERBOSITY sqlstate
SELECT workq_scheduler_keys('no such queue');
SELECT workq_scheduler_keys('');
SELECT workq_scheduler_keys('scheduler', 0);
SELECT workq_scheduler_keys('scheduler', 100001);
SELECT workq_scheduler_state('no such queue');
SELECT workq_scheduler_state(repeat('q', 256));
SELECT workq_scheduler_state('scheduler', -1);
\set VERBOSITY default

-- metrics: labels that tell keys apart
SELECT * FROM metrics ORDER BY name, key COLLATE "C";
SELECT m.name, m.type, count(*), max(m.value) FROM workq_metrics() m WHERE m.labels ->> 'queue' = 'scheduler' AND m.name !~ '^workq_scheduler_.*(_total|_seconds)$|seconds'
 GROUP BY 1, 2 ORDER BY 1;
SELECT labels ->> 'state', value FROM workq_metrics() WHERE labels ->> 'queue' = 'scheduler' AND name = 'workq_queue_jobs' ORDER BY 1;
SELECT name, value BETWEEN 0 AND 600 FROM workq_metrics() WHERE labels ->> 'queue' = 'scheduler' AND name ~ 'seconds' AND coalesce(labels ->> 'fairness_key', 'a') = 'a' ORDER BY 1;
SELECT count(*) = count(DISTINCT (name, labels)) AS all_different, bool_and(type IN ('counter', 'gauge')) FROM workq_metrics();
SELECT bool_and(type = CASE WHEN name ~ '_total$' THEN 'counter' ELSE 'gauge' END) FROM workq_metrics();
SELECT line FROM regexp_split_to_table(workq_metrics_text(), '\n') line
 WHERE line ~ 'workq_scheduler_(selections|deferrals)_total' AND (line ~ '^#' OR line ~ 'queue="scheduler"');

-- an hour later
SET workq.clock_offset = '1 h';
SELECT min(oldest_ready_age) BETWEEN '1 h' AND '70 min', max(oldest_ready_age) BETWEEN '1 h' AND '70 min' FROM workq.scheduler_keys WHERE queue = 'scheduler';
SELECT longest_wait BETWEEN '1 h' AND '70 min' FROM workq.scheduler WHERE queue = 'scheduler';
RESET workq.clock_offset;

-- counters outlive the lane, and begin anew with another kind of key
SELECT workq_purge('scheduler', confirm => true) > 0 AS ok;
SELECT count(workq_ack(claim_id)) FROM workq.active_claims WHERE queue = 'scheduler';
CALL pg_temp.claim('scheduler', 3);
SELECT * FROM metrics WHERE name ~ 'selections' ORDER BY name, key COLLATE "C";
SELECT pg_temp.enqueue('scheduler', 'b', 1);
CALL pg_temp.claim('scheduler', 1);
SELECT * FROM metrics WHERE name ~ 'selections' AND key = 'b';
SELECT count(workq_ack(claim_id)) FROM workq.active_claims WHERE queue = 'scheduler';

-- tenant and binding: two levels
SELECT workq_configure('scheduler', fairness_key => 'tenant-and-binding', weights => 'a:3', max_concurrent_per_key => 12) > 1 AS ok;
SELECT DISTINCT value FROM metrics;
SELECT workq_set_key('scheduler', E'a\x1Fx', 2) > 1 AS ok;
SELECT pg_temp.enqueue('scheduler', t, 50, b) FROM (VALUES ('a', 'x'), ('a', 'y'), ('b', 'x'), ('b', NULL), (NULL, 'x'), (NULL, NULL)) v(t, b);
CALL pg_temp.claim('scheduler', 50);
SELECT replace(fairness_key, E'\x1F', ' / ') AS fairness_key, replace(key, E'\x1F', ' / ') AS key, tenant, binding, state, w, flight, cap, ready, age,
       selected, deferred, recent, recent_share, entitled_share FROM keys;
SELECT queue, tenant, state, weight, in_flight, ready_jobs, selected_total, recent_selections, recent_share, entitled_share
  FROM workq.scheduler_tenants WHERE queue = 'scheduler' ORDER BY tenant COLLATE "C";
SELECT lanes BETWEEN 6 AND 7 AS lanes, lanes_eligible, lanes_capped FROM workq.scheduler WHERE queue = 'scheduler';
SELECT level, count(*) FROM workq_scheduler_keys('scheduler', 2) GROUP BY 1 ORDER BY 1;
-- a change shows before anybody claims
SELECT workq_set_key('scheduler', 'b', 0) > 1 AS ok;
SELECT replace(fairness_key, E'\x1F', ' / ') AS fairness_key, state, w, entitled_share FROM keys;
SELECT tenant, state, weight, entitled_share FROM workq.scheduler_tenants WHERE queue = 'scheduler' ORDER BY tenant COLLATE "C";

-- who sees what
SELECT workq_grant('scheduler empty', 'regress_scheduler_monitor', 'monitor');
SET ROLE regress_scheduler_monitor;
SELECT queue FROM workq.scheduler WHERE queue LIKE 'scheduler%';
SELECT count(*) FROM workq.scheduler_keys WHERE queue LIKE 'scheduler%' AND NOT (state = 'idle' AND key = '');
SELECT DISTINCT labels ->> 'queue' FROM workq_metrics() ORDER BY 1;
SELECT workq_metrics_text() ~ 'queue="scheduler"';
SELECT s #>> '{scheduler,per_queue,0,queue}', jsonb_array_length(s #> '{scheduler,per_queue}') FROM workq_scheduler_state() s;
SELECT workq_scheduler_state('scheduler');
SELECT workq_scheduler_keys('scheduler');
SET ROLE regress_scheduler_nobody;
SELECT count(*) FROM workq.scheduler;
SELECT count(*) FROM workq.scheduler_keys;
SELECT count(*) FROM workq_metrics() WHERE labels ? 'queue';
SELECT workq_scheduler_state() #> '{scheduler,per_queue}';
RESET ROLE;

-- read-only transactions, every isolation level
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE;
SELECT count(*) FROM workq.scheduler WHERE queue = 'scheduler';
SELECT count(*) FROM workq.scheduler_keys WHERE queue = 'scheduler' AND NOT (state = 'idle' AND key = '');
SELECT workq_metrics_text() IS NOT NULL, workq_scheduler_state() IS NOT NULL;
COMMIT;

SELECT workq_drop_queue('scheduler', true), workq_drop_queue('scheduler empty', true);
SELECT DISTINCT value FROM metrics;
SELECT * FROM workq_check();
DROP ROLE regress_scheduler_monitor, regress_scheduler_nobody;
