--
-- Why is a job not running?
--

\set VERBOSITY terse
\pset format unaligned
\pset tuples_only on
\pset null NULL

CREATE FUNCTION pg_temp.why(job bigint) RETURNS text LANGUAGE sql AS $$
    SELECT regexp_replace(why, '\d{4}-\d\d-\d\d [0-9:.]+[+-]\d\d', 'TIME', 'g') FROM workq_explain(job) $$;
CREATE FUNCTION pg_temp.place(job bigint, max_place integer DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws('/', coalesce(place::text, 'NULL'), place_limit) FROM workq_explain(job, max_place) $$;

SELECT workq_create_queue('explain');
SELECT workq_enqueue('explain', '1', tenant => 'a') AS normal, workq_enqueue('explain', '2', 'low', tenant => 'b') AS low,
    workq_enqueue('explain', '3', 'high') AS high, workq_enqueue('explain', '4', delay => '1 h') AS later \gset

-- ready
\x
\pset tuples_only off
SELECT e.job_id = :normal AS is_it, queue, state, since = enqueued_at AS since, why, reason, due, worker, deadline, attempt, failures, e.max_attempts,
    strategy, fairness_key, paused, place, place_limit, weight, cap, in_flight, credit
  FROM workq_explain(:normal) e JOIN workq.jobs j ON j.job_id = e.job_id;
\x
\pset tuples_only on
SELECT pg_temp.why(:low), pg_temp.why(:high);
SELECT fairness_key FROM workq_explain(:high);
-- the place: by priority, then by age; age raises it
SELECT pg_temp.place(:high), pg_temp.place(:normal), pg_temp.place(:low);
SET workq.clock_offset = '16 min';
SELECT pg_temp.place(:high), pg_temp.place(:normal), pg_temp.place(:low);
SET workq.clock_offset = '31 min';
SELECT pg_temp.place(:high), pg_temp.place(:normal), pg_temp.place(:low);
RESET workq.clock_offset;
-- it is what claims do
CREATE TEMP TABLE orders AS SELECT workq_enqueue('explain', to_jsonb(i), (ARRAY['high', 'normal', 'low'])[1 + i % 3], run_at => now() - i * 127 % 3600 * interval '1 s') AS j FROM generate_series(1, 60) i;
CREATE TEMP TABLE places AS SELECT j, place FROM orders, workq_explain(j);
INSERT INTO places SELECT j, place FROM unnest(ARRAY[:normal, :low, :high]) j, workq_explain(j);
SELECT count(*), count(DISTINCT place), min(place), max(place) FROM places;
BEGIN;
SELECT count(*) FILTER (WHERE place <> n) FROM (SELECT job_id, row_number() OVER () AS n FROM workq_claim('explain', 'w', max_jobs => 100)) c JOIN places ON j = job_id;
ROLLBACK;
-- what we have in hand ourselves is not before it
BEGIN;
SELECT count(*) FROM workq_claim('explain', 'w', max_jobs => 5);
SELECT e.place FROM places p, workq_explain(j) e WHERE p.place IN (6, 9) ORDER BY 1;
ROLLBACK;
-- up to a limit, that is told
SELECT pg_temp.place(j, 10), pg_temp.place(j, 9), pg_temp.place(j, 1) FROM places WHERE place = 10;
SELECT why FROM places p, workq_explain(j, 9) WHERE p.place = 10;
SELECT pg_temp.place(j, 1) FROM places WHERE place = 1;
SELECT workq_purge('explain', confirm => true);

-- a pause
SELECT workq_enqueue('explain', '1', tenant => 'a') AS job \gset
SELECT pg_temp.why(:job);
SELECT workq_pause('explain');
SELECT pg_temp.why(:job), (SELECT paused FROM workq_explain(:job));
SELECT workq_resume('explain');

-- due later
SELECT state, due = since, due > now() + '59 min', pg_temp.why(:later) FROM workq_explain(:later);
SET workq.clock_offset = '2 h';
SELECT pg_temp.why(:later);
RESET workq.clock_offset;

-- leased
SELECT claim_id AS claim FROM workq_claim('explain', 'Wörker "1"', '1 min') \gset
SELECT state, worker, deadline - since, attempt, place, place_limit, in_flight, pg_temp.why(:job) FROM workq_explain(:job);
SET workq.clock_offset = '61 s';
SELECT pg_temp.why(:job);
RESET workq.clock_offset;
SELECT workq_cancel(:job, 'a reason');
SELECT pg_temp.why(:job);
SELECT workq_ack(:'claim');
SELECT state, pg_temp.why(:job), reason, worker, attempt, failures, due, place FROM workq_explain(:job);
-- failed and kept leased, failed and tried again, released
SELECT workq_enqueue('explain', '1', tenant => 'a') AS job \gset
SELECT workq_fail(claim_id, 'E1', retry_in => '10 min') FROM workq_claim('explain', 'w');
SELECT pg_temp.why(:job), reason, failures FROM workq_explain(:job);
SET workq.clock_offset = '11 min';
SELECT workq_release(claim_id, '1 min', 'gate closed') FROM workq_claim('explain', 'w');
SELECT pg_temp.why(:job), reason, failures FROM workq_explain(:job);
SET workq.clock_offset = '13 min';
SELECT workq_fail(claim_id, 'E2', on_fail => 'hold_lease') FROM workq_claim('explain', 'w');
SELECT pg_temp.why(:job), reason FROM workq_explain(:job);
RESET workq.clock_offset;
-- held
SELECT workq_enqueue('explain', '1', max_attempts => 1) AS dead, workq_enqueue('explain', '2') AS parked \gset
SELECT workq_fail(claim_id, 'E_FATAL', 'a message') FROM workq_claim('explain', 'w');
SELECT pg_temp.why(:dead), reason, failures FROM workq_explain(:dead);
SELECT workq_park(claim_id, 'waits for a mail') FROM workq_claim('explain', 'w');
SELECT pg_temp.why(:parked), reason, failures FROM workq_explain(:parked);
SELECT workq_unpark(:parked);
SELECT pg_temp.why(:parked), reason FROM workq_explain(:parked);
-- over
SELECT workq_report_error(claim_id, 'E_VERDICT') FROM workq_claim('explain', 'w');
SELECT state, pg_temp.why(:parked) FROM workq_explain(:parked);
SELECT workq_cancel(:dead, 'no more');
SELECT state, pg_temp.why(:dead) FROM workq_explain(:dead);
SELECT workq_enqueue('explain', '1') AS job \gset
SELECT workq_purge('explain', confirm => true);
SELECT state, pg_temp.why(:job), attempt FROM workq_explain(:job);

-- fair share: weight, cap, credit
SELECT workq_create_queue('explain drr');
SELECT workq_configure('explain drr', strategy => 'drr', max_concurrent_per_key => 2, weights => 'a:2,b:0') > 1;
SELECT count(workq_enqueue('explain drr', to_jsonb(i), tenant => t)) FROM unnest('{a,b,c}'::text[]) t, generate_series(1, 5) i;
SELECT max(job_id) FILTER (WHERE tenant = 'a') AS a, max(job_id) FILTER (WHERE tenant = 'b') AS b, max(job_id) FILTER (WHERE tenant = 'c') AS c,
    min(job_id) FILTER (WHERE tenant = 'a') AS a1, min(job_id) FILTER (WHERE tenant = 'a') + 1 AS a2, min(job_id) FILTER (WHERE tenant = 'c') + 1 AS c2 FROM workq.jobs JOIN workq.queues USING (queue_id) WHERE name = 'explain drr' \gset
SELECT fairness_key, place, weight, cap, in_flight, credit, why FROM unnest(ARRAY[:a1, :a, :b, :c]) j, workq_explain(j);
SELECT tenant FROM workq_claim('explain drr', 'w', max_jobs => 2);
SELECT fairness_key, place, weight, cap, in_flight, credit, pg_temp.why(j) FROM unnest(ARRAY[:a1, :a2, :a, :b, :c2]) j, workq_explain(j);
SELECT count(*) FROM workq_claim('explain drr', 'w', max_jobs => 2);
SELECT fairness_key, place, weight, cap, in_flight, pg_temp.why(j) FROM unnest(ARRAY[:a, :b, :c]) j, workq_explain(j);
SELECT workq_set_key('explain drr', 'a', 0, 5) > 1, workq_set_key('explain drr', 'b', 3, 0) > 1;
SELECT fairness_key, weight, cap, in_flight, pg_temp.why(j) FROM unnest(ARRAY[:a, :b]) j, workq_explain(j);
-- two levels: a tenant that is paused
SELECT workq_create_queue('explain two');
SELECT workq_configure('explain two', strategy => 'drr', fairness_key => 'tenant-and-binding', weights => 'a:0') > 1;
SELECT workq_enqueue('explain two', '1', tenant => 'a', binding => 'x') AS a, workq_enqueue('explain two', '2', tenant => 'b', binding => 'y') AS b \gset
SELECT replace(fairness_key, U&'\001F', '|'), place, weight, cap, in_flight, credit, why FROM unnest(ARRAY[:a, :b]) j, workq_explain(j);
SELECT workq_drop_queue('explain two', confirm => true), workq_drop_queue('explain drr', confirm => true);

-- bad arguments, jobs that are not there
CREATE FUNCTION pg_temp.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text;
BEGIN
    EXECUTE statement INTO result;
    RETURN result;
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ': ' || regexp_replace(SQLERRM, 'job [1-9]\d* ', 'job N ');
END $$;
SELECT a, pg_temp.try('SELECT state FROM workq_explain(' || replace(a, '$j', :'job') || ')') FROM unnest(ARRAY['NULL', '0', '-1', '999999999999', '$j, 0', '$j, 100001', '$j, NULL']) a WHERE a <> '$j, NULL' OR (SELECT place_limit IS NULL FROM workq_explain(:job, NULL));
SELECT pg_temp.try('SELECT why FROM workq_explain(' || :b || ')');
-- in a read-only transaction, in one that has not committed its job
BEGIN READ ONLY;
SELECT state FROM workq_explain(:job);
COMMIT;
BEGIN;
SELECT workq_enqueue('explain', '1') AS job \gset
SELECT state, place, in_flight FROM workq_explain(:job);
ROLLBACK;

-- rights
SET client_min_messages = warning;
CREATE ROLE regress_explain;
RESET client_min_messages;
SET ROLE regress_explain;
\set VERBOSITY sqlstate
SELECT state FROM workq_explain(:parked);
\set VERBOSITY terse
RESET ROLE;
SELECT workq_grant('explain', 'regress_explain', 'enqueue');
SET ROLE regress_explain;
SELECT state FROM workq_explain(:parked);
RESET ROLE;
SELECT workq_grant('explain', 'regress_explain', 'claim');
SET ROLE regress_explain;
SELECT state FROM workq_explain(:parked);
RESET ROLE;
SELECT workq_revoke('explain', 'regress_explain', 'claim'), workq_grant('explain', 'regress_explain', 'monitor');
SET ROLE regress_explain;
SELECT state FROM workq_explain(:parked);
RESET ROLE;
SELECT workq_drop_queue('explain', confirm => true);
DROP ROLE regress_explain;
SELECT * FROM workq_check();
