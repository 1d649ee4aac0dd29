--
-- Foreign hands (48): somebody else than workq writes to the live tables.
-- Claims are right afterwards, and memory says what the tables say.
--

\i sql/include/try.sql

\pset format unaligned
\pset tuples_only on
\pset null NULL

SELECT workq_enqueue('foreign', to_jsonb(n), CASE WHEN n % 3 = 0 THEN 'high' ELSE 'normal' END, dedup_key => 'k' || n) > 0 FROM generate_series(1, 12) n;
SELECT queue_id FROM workq.queues WHERE name = 'foreign' \gset
SELECT ready FROM workq.queue_overview WHERE queue = 'foreign';

-- DELETE: they are gone, the others come in their order
DELETE FROM workq.ready r USING workq.jobs j WHERE j.job_id = r.job_id AND r.queue_id = :queue_id AND payload IN ('3', '4');
-- their deduplication keys stay, and are told of
SELECT * FROM workq_check();
SELECT job_id AS gone FROM workq.jobs j WHERE payload = '3' AND j.queue_id = :queue_id \gset
SELECT workq_enqueue('foreign', '13', dedup_key => 'k3') = :gone;
DELETE FROM workq.dedup WHERE dedup_key IN ('k3', 'k4') AND queue_id = :queue_id;
SELECT * FROM workq_check();
SELECT ready FROM workq.queue_overview WHERE queue = 'foreign';
SELECT payload FROM workq_claim('foreign', 'w', max_jobs => 3);

-- UPDATE: of a priority, of the age, of the lane
UPDATE workq.ready r SET priority = 0 FROM workq.jobs j WHERE j.job_id = r.job_id AND payload = '11' AND r.queue_id = :queue_id;
SELECT payload FROM workq_claim('foreign', 'w');
SELECT * FROM workq_check();
UPDATE workq.ready r SET ready_since = '2001-01-01' FROM workq.jobs j WHERE j.job_id = r.job_id AND payload = '10' AND r.queue_id = :queue_id;
SELECT payload, decision FROM workq_claim('foreign', 'w');
SELECT * FROM workq_check();
UPDATE workq.ready r SET lane = 'other' FROM workq.jobs j WHERE j.job_id = r.job_id AND payload = '8' AND r.queue_id = :queue_id;
SELECT * FROM workq_check();
SELECT array_agg(payload::int ORDER BY payload::int) FROM workq_claim('foreign', 'w', max_jobs => 100);
SELECT * FROM workq_check();

-- INSERT: of a row that was there, below every start hint
BEGIN;
CREATE TEMP TABLE saved AS SELECT * FROM workq.ready WHERE false;
SELECT workq_enqueue('foreign 2', to_jsonb(n)) > 0 FROM generate_series(1, 4) n;
COMMIT;
INSERT INTO saved SELECT r.* FROM workq.ready r JOIN workq.queues q USING (queue_id) WHERE q.name = 'foreign 2';
DELETE FROM workq.ready WHERE job_id IN (SELECT job_id FROM saved);
SELECT count(*) FROM workq_claim('foreign 2', 'w', max_jobs => 10);
SELECT workq_enqueue('foreign 2', '5') > 0;
SELECT payload FROM workq_claim('foreign 2', 'w', max_jobs => 10);
INSERT INTO workq.ready SELECT * FROM saved ORDER BY job_id DESC;
SELECT payload FROM workq_claim('foreign 2', 'w', max_jobs => 10);
SELECT * FROM workq_check();
-- of a row whose job the log does not know: dropped with a warning, not claimed
UPDATE saved SET job_id = 4000000000000 WHERE job_id = (SELECT min(job_id) FROM saved);
INSERT INTO workq.ready SELECT * FROM saved WHERE job_id = 4000000000000;
\set VERBOSITY terse
SELECT count(*) FROM workq_claim('foreign 2', 'w', max_jobs => 10);
SELECT count(*) FROM workq_claim('foreign 2', 'w', max_jobs => 10);
\set VERBOSITY default
SELECT * FROM workq_check();
-- rolled back, also to a savepoint
SELECT workq_enqueue('foreign 3', to_jsonb(n)) > 0 FROM generate_series(1, 3) n;
BEGIN;
DELETE FROM workq.ready WHERE queue_id = (SELECT queue_id FROM workq.queues WHERE name = 'foreign 3');
SELECT count(*) FROM workq_claim('foreign 3', 'w', max_jobs => 10);
ROLLBACK;
SELECT * FROM workq_check();
BEGIN;
SAVEPOINT s;
DELETE FROM workq.ready WHERE queue_id = (SELECT queue_id FROM workq.queues WHERE name = 'foreign 3');
SELECT count(*) FROM workq_claim('foreign 3', 'w', max_jobs => 10);
ROLLBACK TO s;
SELECT payload FROM workq_claim('foreign 3', 'w', max_jobs => 2);
COMMIT;
SELECT payload FROM workq_claim('foreign 3', 'w', max_jobs => 10);
SELECT * FROM workq_check();

-- in one transaction: foreign rows before and after a claim of one's own
SELECT workq_enqueue('foreign 4', to_jsonb(n)) > 0 FROM generate_series(1, 6) n;
BEGIN;
DELETE FROM workq.ready r USING workq.jobs j WHERE j.job_id = r.job_id AND payload = '1' AND r.queue_id = (SELECT queue_id FROM workq.queues WHERE name = 'foreign 4');
SELECT payload FROM workq_claim('foreign 4', 'w');
DELETE FROM workq.ready r USING workq.jobs j WHERE j.job_id = r.job_id AND payload = '3' AND r.queue_id = (SELECT queue_id FROM workq.queues WHERE name = 'foreign 4');
SELECT payload FROM workq_claim('foreign 4', 'w');
COMMIT;
SELECT * FROM workq_check();
SELECT payload FROM workq_claim('foreign 4', 'w', max_jobs => 10);

-- leases: a deadline is moved, a lease is taken away
SELECT workq_enqueue('foreign lease', to_jsonb(n)) > 0 FROM generate_series(1, 2) n;
SELECT count(*) FROM workq_claim('foreign lease', 'w', '1 h', max_jobs => 1);
SELECT job_id AS j, claim_id AS c FROM workq.leases JOIN workq.queues USING (queue_id) WHERE name = 'foreign lease' \gset
UPDATE workq.leases SET deadline = deadline - interval '59 min' WHERE job_id = :j;
SELECT workq_purge('foreign lease', confirm => true);
SET workq.clock_offset = '61 s';
SELECT payload, attempt FROM workq_claim('foreign lease', 'w', '1 h');
RESET workq.clock_offset;
SELECT workq_ack(:'c', on_lost => 'report');
DELETE FROM workq.leases WHERE job_id = :j;
SELECT * FROM workq_check();
SELECT leased FROM workq.queue_overview WHERE queue = 'foreign lease';
SELECT pg_temp.try(format('SELECT workq_renew(%L)', c)) LIKE 'WQ001:%' FROM (SELECT DISTINCT claim_id AS c FROM workq.claims WHERE job_id = :j AND claim_id <> :'c') c;
SELECT pg_temp.try(format('SELECT state FROM workq_job(%s)', :j)) LIKE 'XX001:%';
SELECT * FROM workq_check();

-- scheduled: the due time is moved
SELECT workq_enqueue('foreign due', '1', delay => '1 day') AS j \gset
UPDATE workq.scheduled SET ready_since = ready_since - interval '1 day' + interval '1 min' WHERE job_id = :j;
SELECT count(*) FROM workq_claim('foreign due', 'w');
SET workq.clock_offset = '61 s';
SELECT payload FROM workq_claim('foreign due', 'w');
RESET workq.clock_offset;
SELECT * FROM workq_check();

-- held and dedup
SELECT workq_enqueue('foreign held', '1', max_attempts => 1, dedup_key => 'h') AS j \gset
SELECT workq_fail(claim_id) FROM workq_claim('foreign held', 'w');
DELETE FROM workq.held WHERE job_id = :j;
SELECT * FROM workq_check();
SELECT held FROM workq.queue_overview WHERE queue = 'foreign held';
SELECT workq_enqueue('foreign held', '2', dedup_key => 'h') AS j \gset
DELETE FROM workq.dedup WHERE job_id = :j;
SELECT workq_enqueue('foreign held', '3', dedup_key => 'h') > :j;
SELECT payload, workq_ack(claim_id) FROM workq_claim('foreign held', 'w', max_jobs => 2);
SELECT workq_enqueue('foreign held', '4', dedup_key => 'h') > :j;
SELECT * FROM workq_check();

-- the catalog: a queue's setting, name, pause
SELECT workq_enqueue('foreign queue', to_jsonb(n)) > 0 FROM generate_series(1, 2) n;
UPDATE workq.queues SET max_attempts = 3, name = 'foreign renamed' WHERE name = 'foreign queue';
SELECT workq_enqueue('foreign renamed', '3') AS j \gset
SELECT max_attempts FROM workq.jobs WHERE job_id = :j;
SELECT pg_temp.try($$SELECT payload FROM workq_claim('foreign queue', 'w')$$);
UPDATE workq.queues SET paused = true WHERE name = 'foreign renamed';
SELECT count(*) FROM workq_claim('foreign renamed', 'w');
UPDATE workq.queues SET paused = false WHERE name = 'foreign renamed';
SELECT payload FROM workq_claim('foreign renamed', 'w', max_jobs => 10);
SELECT * FROM workq_check();

-- COPY, as a restore does it, into the running server
SELECT workq_enqueue('foreign copy', to_jsonb(n), tenant => 't' || n) > 0 FROM generate_series(1, 3) n;
SELECT workq_enqueue('foreign copy', to_jsonb(n), 'low', delay => '1 h') > 0 FROM generate_series(4, 5) n;
CREATE TEMP TABLE copied AS SELECT r.* FROM workq.ready r JOIN workq.queues q USING (queue_id) WHERE name = 'foreign copy';
CREATE TEMP TABLE copied_later AS SELECT r.* FROM workq.scheduled r JOIN workq.queues q USING (queue_id) WHERE name = 'foreign copy';
SELECT workq_purge('foreign copy', confirm => true, scheduled => true);
COPY copied TO '/tmp/workq_regress_foreign_copy' (FORMAT binary);
COPY workq.ready FROM '/tmp/workq_regress_foreign_copy' (FORMAT binary);
COPY copied_later TO PROGRAM 'cat >/tmp/workq_regress_foreign_copy';
COPY workq.scheduled FROM PROGRAM 'cat /tmp/workq_regress_foreign_copy; rm /tmp/workq_regress_foreign_copy';
SELECT * FROM workq_check();
SELECT ready, scheduled FROM workq.queue_overview WHERE queue = 'foreign copy';
SELECT payload FROM workq_claim('foreign copy', 'w', max_jobs => 10);
SET workq.clock_offset = '2 h';
SELECT payload FROM workq_claim('foreign copy', 'w', max_jobs => 10);
RESET workq.clock_offset;
SELECT * FROM workq_check();
-- with session_replication_role = replica, as logical apply does it
SELECT workq_enqueue('foreign copy', '6') AS j \gset
SET session_replication_role = replica;
DELETE FROM workq.ready WHERE job_id = :j;
INSERT INTO workq.ready SELECT * FROM copied WHERE false;
RESET session_replication_role;
SELECT count(*) FROM workq_claim('foreign copy', 'w');
SELECT * FROM workq_check();

-- TRUNCATE
SELECT workq_enqueue('foreign truncate', to_jsonb(n)) > 0 FROM generate_series(1, 3) n;
BEGIN;
TRUNCATE workq.ready;
SELECT count(*) FROM workq_claim('foreign truncate', 'w');
ROLLBACK;
SELECT payload FROM workq_claim('foreign truncate', 'w');
TRUNCATE workq.ready;
SELECT count(*) FROM workq_claim('foreign truncate', 'w');
SELECT * FROM workq_check() WHERE item <> 'deduplication keys of no job';
SELECT workq_enqueue('foreign truncate', '4') > 0;
TRUNCATE workq.leases, workq.scheduled, workq.held, workq.dedup;
SELECT * FROM workq_check();
SELECT payload FROM workq_claim('foreign truncate', 'w', max_jobs => 10);
SELECT ready, scheduled, leased, held FROM workq.queue_overview WHERE queue = 'foreign truncate';
-- rewritten: VACUUM FULL, CLUSTER, REINDEX
SELECT workq_enqueue('foreign full', to_jsonb(n)) > 0 FROM generate_series(1, 3) n;
SELECT payload FROM workq_claim('foreign full', 'w');
VACUUM FULL workq.ready;
CLUSTER workq.leases USING leases_pkey;
REINDEX TABLE workq.ready;
SELECT payload FROM workq_claim('foreign full', 'w');
SELECT payload FROM workq_claim('foreign full', 'w');
SELECT * FROM workq_check();
