--
-- The operators' views: what they show, and to whom.
--

SET client_min_messages = warning;
CREATE ROLE regress_views_owner;
CREATE ROLE regress_views_claim;
CREATE ROLE regress_views_monitor;
CREATE ROLE regress_views_manage;
CREATE ROLE regress_views_enqueue;
CREATE ROLE regress_views_nobody;
CREATE ROLE regress_views_pg_monitor IN ROLE pg_monitor;
CREATE ROLE regress_views_owner_member IN ROLE regress_views_owner;
RESET client_min_messages;

\pset format unaligned
\pset null NULL

GRANT EXECUTE ON FUNCTION workq_create_queue TO regress_views_owner;
SET ROLE regress_views_owner;
SELECT workq_create_queue('views a');
RESET ROLE;
REVOKE EXECUTE ON FUNCTION workq_create_queue FROM regress_views_owner;
SELECT workq_create_queue('views b'), workq_create_queue('views c');
SELECT workq_grant('views a', 'regress_views_claim', 'claim'), workq_grant('views a', 'regress_views_claim', 'monitor'),
       workq_grant('views a', 'regress_views_monitor', 'monitor'), workq_grant('views a', 'regress_views_manage', 'manage'),
       workq_grant('views a', 'regress_views_enqueue', 'enqueue'), workq_grant('views b', 'public', 'monitor');

-- an empty queue
SELECT queue, nullif(owner, current_user) AS owner, strategy, paused, enqueue_paused, ready, scheduled, leased, held, enqueued, done, failed,
       oldest_ready_age, next_due, policy_version FROM workq.queue_overview WHERE queue LIKE 'views%' ORDER BY queue;

-- two ready, one due later, one leased, one dead, one done
BEGIN;
SELECT workq_enqueue('views a', '{"secret": 1}', tenant => 'acme') > 0 AS ok,
       workq_enqueue('views a', '{"secret": 2}', 'low') > 0 AS ok,
       workq_enqueue('views a', '{"secret": 3}', delay => '1 h') > 0 AS ok;
COMMIT;
SELECT workq_enqueue('views a', '{"secret": 4}', 'high', max_attempts => 1) AS dead \gset
SELECT workq_fail(claim_id, 'E_DEAD', 'it''s "dead"') FROM workq_claim('views a', 'worker 1');
SELECT workq_enqueue('views a', '{"secret": 5}', 'high') > 0 AS ok;
SELECT workq_ack(claim_id) FROM workq_claim('views a', 'worker 1');
SELECT workq_enqueue('views a', '{"secret": 6}', 'high', tenant => 'globex') AS leased \gset
SELECT count(*) FROM workq_claim('views a', 'worker 2', '10 min');
SELECT queue, ready, scheduled, leased, held, enqueued, done, failed,
       oldest_ready_age BETWEEN '0' AND '10 min' AS age, next_due - clock_timestamp() BETWEEN '50 min' AND '60 min' AS due
  FROM workq.queue_overview WHERE queue = 'views a';
SELECT queue, job_id = :leased AS job, claim_id IS NOT NULL AS claim, worker, attempt, failures, max_attempts, priority, lane,
       age BETWEEN '0' AND '10 min' AS age, time_to_deadline BETWEEN '0' AND '10 min' AS left,
       deadline - claimed_at AS lease, expired, cancel_requested, failed FROM workq.active_claims WHERE queue = 'views a';
SELECT queue, job_id = :dead AS job, state, held_since BETWEEN clock_timestamp() - interval '10 min' AND clock_timestamp() AS since,
       attempt, failures, max_attempts, priority, lane, error_code, error_message, payload
  FROM workq.held_jobs WHERE queue = 'views a';

-- by the clock that tests can set: half an hour later
SET workq.clock_offset = '30 min';
SELECT oldest_ready_age BETWEEN '30 min' AND '40 min' AS age FROM workq.queue_overview WHERE queue = 'views a';
SELECT age BETWEEN '30 min' AND '40 min' AS age, time_to_deadline BETWEEN '-20 min' AND '-10 min' AS left, expired
  FROM workq.active_claims WHERE queue = 'views a';
RESET workq.clock_offset;
-- and before: ages are never negative
SET workq.clock_offset = '-30 min';
SELECT oldest_ready_age FROM workq.queue_overview WHERE queue = 'views a';
SELECT age FROM workq.active_claims WHERE queue = 'views a';
RESET workq.clock_offset;

-- a failed job that is held to its lease's end; a cancellation that is asked for
SELECT workq_enqueue('views b', '{}') > 0 AS ok;
SELECT workq_fail(claim_id, on_fail => 'hold_lease') FROM workq_claim('views b', 'worker 3');
SELECT cancel_requested, failed FROM workq.active_claims WHERE queue = 'views b';
SELECT workq_cancel(:leased);
SELECT cancel_requested, failed FROM workq.active_claims WHERE queue = 'views a';

-- counts follow the transaction
BEGIN;
SELECT workq_enqueue('views b', '{}') > 0 AS ok;
ROLLBACK;
SELECT ready FROM workq.queue_overview WHERE queue = 'views b';
SELECT workq_pause('views b', true);
SELECT paused, enqueue_paused, policy_version FROM workq.queue_overview WHERE queue = 'views b';

-- more lanes than one
SELECT workq_configure('views c', fairness_key => 'tenant', max_concurrent_per_key => 1) > 1 AS ok;
SELECT count(workq_enqueue('views c', '{}', tenant => 't' || i)) FROM generate_series(1, 50) i;
SELECT ready, oldest_ready_age BETWEEN '0' AND '10 min' AS age FROM workq.queue_overview WHERE queue = 'views c';

-- who sees what
CREATE FUNCTION pg_temp.look(role text) RETURNS TABLE (who text, overview text, claims text, held text, settings bigint)
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SET LOCAL ROLE %I', 'regress_views_' || role);
    who := role;
    overview := (SELECT string_agg(o.queue || ' ' || o.ready, ', ' ORDER BY o.queue COLLATE "C") FROM workq.queue_overview o WHERE o.queue LIKE 'views%');
    claims := (SELECT string_agg(CASE WHEN a.claim_id IS NULL THEN 'hidden' ELSE 'shown' END, ',' ORDER BY a.queue COLLATE "C") FROM workq.active_claims a WHERE a.queue LIKE 'views%');
    held := (SELECT string_agg(coalesce(h.payload::text, 'hidden') || ' ' || h.error_code, ',') FROM workq.held_jobs h WHERE h.queue LIKE 'views%');
    settings := (SELECT count(*) FROM workq.settings s WHERE s.queue LIKE 'views%');
    RESET ROLE;
    RETURN NEXT;
END $$;
SELECT l.* FROM unnest(ARRAY['owner', 'owner_member', 'claim', 'monitor', 'manage', 'enqueue', 'pg_monitor', 'nobody'])
    WITH ORDINALITY AS r(role, n) CROSS JOIN LATERAL pg_temp.look(role) l ORDER BY n;

-- a condition of one's own is not asked about rows that one must not see
CREATE FUNCTION pg_temp.leak(text) RETURNS boolean COST 0.0001 LANGUAGE plpgsql AS $$
BEGIN RAISE NOTICE 'leaked %', $1; RETURN true; END $$;
GRANT USAGE ON SCHEMA public TO regress_views_nobody;
SET ROLE regress_views_nobody;
SELECT queue FROM workq.queue_overview WHERE pg_temp.leak(queue) AND queue LIKE 'views%';
SELECT queue, claim_id FROM workq.active_claims WHERE pg_temp.leak(worker);
SELECT queue FROM workq.held_jobs WHERE pg_temp.leak(error_code);
SELECT DISTINCT queue FROM workq.settings WHERE queue LIKE 'views%' AND setting = 'strategy' AND pg_temp.leak(queue);
-- nor do the functions that the views are made of tell
SELECT workq.may_monitor(0), workq.may_monitor(NULL), workq.may_see_payload(0), workq.may_see_payload(NULL);
SELECT workq.job_payload(:dead), workq.job_error(:dead), workq.job_payload(NULL), workq.job_error(NULL), workq.job_payload(0),
       workq.job_error(-1), workq.job_payload(9223372036854775807);
SELECT count(*) FROM workq.queue_counters();
SELECT count(*) FROM workq.queue_settings();
RESET ROLE;
SELECT workq.job_payload(:dead), workq.job_error(:dead), workq.job_payload(NULL), workq.job_error(NULL), workq.job_payload(0),
       workq.job_error(-1), workq.job_payload(9223372036854775807);
SET ROLE regress_views_pg_monitor;
SELECT workq.job_payload(:dead), workq.job_error(:dead);
RESET ROLE;

-- nobody can write by way of them
SET ROLE regress_views_owner;
\set VERBOSITY sqlstate
DELETE FROM workq.queue_overview;
DELETE FROM workq.active_claims;
UPDATE workq.held_jobs SET state = 'x';
INSERT INTO workq.settings VALUES ('a', 'b', 'c', true);
\set VERBOSITY default
RESET ROLE;

-- read-only transactions and every isolation level
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE;
SELECT queue, ready, leased, held FROM workq.queue_overview WHERE queue LIKE 'views%' ORDER BY queue;
SELECT count(*) FROM workq.active_claims WHERE queue LIKE 'views%';
SELECT count(*), count(error_code) FROM workq.held_jobs WHERE queue LIKE 'views%';
SELECT count(*) FROM workq.settings WHERE queue LIKE 'views%';
COMMIT;

-- the views need no table but their own: nothing takes a lock on the log's parents
BEGIN;
SELECT count(*) FROM workq.queue_overview WHERE queue LIKE 'views%';
SELECT count(payload) FROM workq.held_jobs WHERE queue LIKE 'views%';
SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid()
   AND relation IN ('workq.jobs'::regclass, 'workq.claims'::regclass, 'workq.responses'::regclass);
COMMIT;

SELECT workq_drop_queue('views a', true), workq_drop_queue('views b', true), workq_drop_queue('views c', true);
REVOKE USAGE ON SCHEMA public FROM regress_views_nobody;
DROP ROLE regress_views_owner, regress_views_claim, regress_views_monitor, regress_views_manage, regress_views_enqueue,
    regress_views_nobody, regress_views_pg_monitor, regress_views_owner_member;
