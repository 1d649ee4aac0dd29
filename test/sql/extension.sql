--
-- The extension made and unmade (47), in a database of its own, while its
-- background worker runs.
--
CREATE DATABASE workq_regress_extension;
\set from :DBNAME
\c workq_regress_extension

\i sql/include/try.sql

\pset format unaligned
\pset tuples_only on
\pset null NULL

SET client_min_messages = warning;
SET lock_timeout = '30s';
-- without the extension there is nothing
SELECT count(*) FROM pg_proc WHERE proname LIKE 'workq%';

-- CREATE, use, ROLLBACK, CREATE, use: nothing of the first is seen
BEGIN;
CREATE EXTENSION workq;
SELECT workq_enqueue('extension', to_jsonb(n), dedup_key => 'k' || n) > 0 FROM generate_series(1, 2) n;
SELECT payload FROM workq_claim('extension', 'w');
SELECT ready, leased FROM workq.queue_overview;
ROLLBACK;
SELECT count(*) FROM pg_class WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'workq');
BEGIN;
CREATE EXTENSION workq;
SELECT count(*) FROM workq.queue_overview;
SELECT pg_temp.try($$SELECT payload FROM workq_claim('extension', 'w')$$) LIKE '42704:%';
SELECT workq_enqueue('extension', '"second"', dedup_key => 'k1') AS first_id;
SELECT payload FROM workq_claim('extension', 'w');
COMMIT;
SELECT * FROM workq_check();
SELECT ready, leased, enqueued FROM workq.queue_overview;
SELECT workq_enqueue('extension', '"third"') > 0;
SELECT payload FROM workq_claim('extension', 'w');

-- DROP, rolled back: everything is there as before
BEGIN;
DROP EXTENSION workq CASCADE;
ROLLBACK;
SELECT workq_enqueue('extension', '"fourth"') > 0;
SELECT payload FROM workq_claim('extension', 'w');
SELECT * FROM workq_check();
BEGIN;
SELECT workq_enqueue('extension', '"fifth"') > 0;
SAVEPOINT s;
DROP EXTENSION workq CASCADE;
ROLLBACK TO s;
SELECT payload FROM workq_claim('extension', 'w');
COMMIT;
SELECT * FROM workq_check();

-- DROP and CREATE in one transaction, and in two
BEGIN;
DROP EXTENSION workq CASCADE;
CREATE EXTENSION workq;
SELECT count(*) FROM workq.queue_overview;
SELECT workq_enqueue('extension', '"anew"') > 0;
COMMIT;
SELECT payload FROM workq_claim('extension', 'w', max_jobs => 10);
SELECT * FROM workq_check();
DROP EXTENSION workq CASCADE;
SELECT count(*) FROM pg_class WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'workq');
SELECT count(*) FROM pg_proc WHERE proname LIKE 'workq%';
CREATE EXTENSION workq;
SELECT workq_create_queue('extension');
SELECT count(*) FROM workq_claim('extension', 'w', max_jobs => 10);
SELECT workq_enqueue('extension', to_jsonb(n)) > 0 FROM generate_series(1, 2) n;
-- a savepoint in which it is created
DROP EXTENSION workq CASCADE;
BEGIN;
SAVEPOINT s;
CREATE EXTENSION workq;
SELECT workq_enqueue('extension', '"gone"') > 0;
ROLLBACK TO s;
CREATE EXTENSION workq;
SELECT workq_enqueue('extension', '"stays"') > 0;
SELECT payload FROM workq_claim('extension', 'w', max_jobs => 10);
COMMIT;
SELECT * FROM workq_check();

-- in another schema
DROP EXTENSION workq CASCADE;
CREATE SCHEMA "Other schema";
CREATE EXTENSION workq SCHEMA "Other schema";
SELECT "Other schema".workq_enqueue('extension', '1') > 0;
SELECT payload FROM "Other schema".workq_claim('extension', 'w');
SELECT pg_temp.try('ALTER EXTENSION workq SET SCHEMA public') LIKE '0A000:%';
SELECT * FROM "Other schema".workq_check();
DROP SCHEMA "Other schema" CASCADE;
SELECT count(*) FROM pg_extension WHERE extname = 'workq';

-- the server's other databases never saw any of it
\c :from
\pset format unaligned
\pset tuples_only on
SELECT count(*) FROM workq.queues WHERE name = 'extension';
DROP DATABASE workq_regress_extension;
