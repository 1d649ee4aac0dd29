--
-- Creating, pausing and dropping queues; names; rollback; search_path.
--

\i sql/include/try.sql

\pset format unaligned
\pset tuples_only on

-- creating
SELECT workq_create_queue('queues');
SELECT pg_temp.try($$SELECT workq_create_queue('queues')$$);
SELECT workq_create_queue('queues', if_not_exists => true);
SELECT pg_temp.try($$SELECT workq_create_queue('queues', NULL)$$);
SELECT name, owner::regrole::text = current_user, paused, enqueue_paused, policy_version
  FROM workq.queues WHERE name = 'queues';

-- names: data, never parts of a statement or of an identifier
SELECT n, pg_temp.try(format('SELECT workq_create_queue(%L)', n)),
       pg_temp.try(format('SELECT workq_enqueue(%L, ''{}'') > 0', n)),
       pg_temp.try(format('SELECT count(*) FROM workq_claim(%L, ''w'')', n)),
       pg_temp.try(format('SELECT ready || '' '' || leased FROM workq.queue_overview WHERE queue = %L', n)),
       pg_temp.try(format('SELECT workq_drop_queue(%L, true)', n))
  FROM unnest(ARRAY['queues '' quote', 'queues " double', 'queues "; DROP TABLE workq.queues; --', 'queues \ back',
                    'Queues', 'queues%s%n', 'queues.dot', 'queues äöü 漢字', '$$', '1', 'NULL']) n;
SELECT n, pg_temp.try(format('SELECT workq_create_queue(%L)', n))
  FROM unnest(ARRAY['', ' ', ' queues', 'queues ', E'que\nues', E'que\tues', E'\x01', E'queues\x7f', 'queues' || chr(160),
                    chr(12288) || 'queues', 'que' || chr(133) || 'ues', NULL]) n;
SELECT pg_temp.try(format('SELECT workq_create_queue(%L)', 'queues' || repeat('x', 249)));
SELECT pg_temp.try(format('SELECT workq_create_queue(%L)', 'queues' || repeat('x', 250)));
SELECT pg_temp.try(format('SELECT workq_create_queue(%L)', 'queues' || repeat('ä', 125)));
SELECT pg_temp.try(format('SELECT workq_drop_queue(%L, true)', 'queues' || repeat('x', 249)));

-- every verb with a queue: NULL, empty, unknown
SELECT v, pg_temp.try(format(v, 'NULL')), pg_temp.try(format(v, '''''')), pg_temp.try(format(v, '''queues none'''))
  FROM unnest(ARRAY[
    'SELECT workq_configure(%s, quantum => 2)',
    'SELECT workq_set_key(%s, ''k'', 1)',
    'SELECT workq_reset(%s)',
    'SELECT workq_drop_queue(%s)',
    'SELECT workq_drop_queue(%s, confirm => true)',
    'SELECT workq_drop_queue(%s, confirm => true, if_exists => true)',
    'SELECT workq_pause(%s)',
    'SELECT workq_resume(%s)',
    'SELECT workq_grant(%s, ''public'', ''claim'')',
    'SELECT workq_revoke(%s, ''public'', ''claim'')',
    'SELECT count(*) FROM workq_claim(%s, ''w'')'
  ]) WITH ORDINALITY AS t(v, n) ORDER BY n;

-- pausing
SELECT workq_pause('queues');
SELECT pg_temp.try($$SELECT count(*) FROM workq_claim('queues', 'w')$$);
SELECT workq_enqueue('queues', '{}') > 0;
SELECT workq_pause('queues'), workq_pause('queues', enqueue => true, reason => 'a "reason"'), workq_pause('queues', true);
SELECT pg_temp.try($$SELECT workq_enqueue('queues', '{}')$$);
SELECT pg_temp.try($$SELECT workq_pause('queues', NULL)$$);
SELECT pg_temp.try($$SELECT workq_pause('queues', reason => repeat('x', 8193))$$);
SELECT workq_pause('queues', reason => repeat('x', 8192));
SELECT workq_enqueue('queues', '{}') > 0;
SELECT paused, enqueue_paused FROM workq.queue_overview WHERE queue = 'queues';
SELECT workq_resume('queues'), workq_resume('queues');
SELECT count(*) FROM workq_claim('queues', 'w');
SELECT version, event, left(settings #>> '{detail,reason}', 20), settings -> 'paused', settings -> 'enqueue_paused'
  FROM workq.policies p JOIN workq.queues q USING (queue_id) WHERE q.name = 'queues' ORDER BY version;

-- dropping
SELECT pg_temp.try($$SELECT workq_drop_queue('queues')$$);
SELECT pg_temp.try($$SELECT workq_drop_queue('queues', NULL)$$);
SELECT pg_temp.try($$SELECT workq_drop_queue('queues', true, NULL)$$);
SELECT workq_enqueue('queues', '{}', delay => '1 h', dedup_key => 'k') > 0;
SELECT workq_set_key('queues', 'k', 2) > 0, workq_grant('queues', 'public', 'enqueue');
SELECT pg_temp.try($$SELECT workq_drop_queue('queues')$$);
SELECT queue_id AS id FROM workq.queues WHERE name = 'queues' \gset
SELECT claim_id FROM workq.active_claims WHERE queue = 'queues' \gset
SELECT workq_drop_queue('queues', confirm => true);
SELECT workq_drop_queue('queues', confirm => true, if_exists => true);
SELECT pg_temp.try($$SELECT workq_drop_queue('queues', confirm => true)$$);
SELECT count(*) FROM workq.queue_overview WHERE queue = 'queues';
SELECT (SELECT count(*) FROM workq.ready WHERE queue_id = :id), (SELECT count(*) FROM workq.leases WHERE queue_id = :id),
       (SELECT count(*) FROM workq.scheduled WHERE queue_id = :id), (SELECT count(*) FROM workq.held WHERE queue_id = :id),
       (SELECT count(*) FROM workq.dedup WHERE queue_id = :id), (SELECT count(*) FROM workq.keys WHERE queue_id = :id),
       (SELECT count(*) FROM workq.grants WHERE queue_id = :id);
-- its log stays, its history too; its claims are lost
SELECT count(*) FROM workq.jobs WHERE queue_id = :id;
SELECT version, event, settings -> 'detail' FROM workq.policies WHERE queue_id = :id ORDER BY version DESC LIMIT 1;
SELECT split_part(pg_temp.try(format('SELECT workq_ack(%L)', :'claim_id')), ':', 1);
-- a queue of that name is another queue
SELECT workq_create_queue('queues');
SELECT queue_id <> :id, policy_version FROM workq.queues WHERE name = 'queues';
SELECT ready, scheduled, leased, held FROM workq.queue_overview WHERE queue = 'queues';

-- rolled back: nothing happened, and this backend knows it
BEGIN;
SELECT workq_create_queue('queues rolled back'), workq_configure('queues', quantum => 5);
SELECT value, own FROM workq.settings WHERE queue = 'queues' AND setting = 'quantum';
ROLLBACK;
SELECT value, own FROM workq.settings WHERE queue = 'queues' AND setting = 'quantum';
SELECT pg_temp.try($$SELECT workq_pause('queues rolled back')$$);
BEGIN;
SAVEPOINT a;
SELECT workq_pause('queues', true);
SELECT pg_temp.try($$SELECT workq_enqueue('queues', '{}')$$);
ROLLBACK TO a;
SELECT workq_enqueue('queues', '{}') > 0;
SAVEPOINT b;
SELECT workq_drop_queue('queues', true);
SELECT pg_temp.try($$SELECT count(*) FROM workq_claim('queues', 'w')$$);
SELECT workq_create_queue('queues');
ROLLBACK TO b;
SELECT count(*) FROM workq_claim('queues', 'w');
COMMIT;
SELECT ready, leased, policy_version FROM workq.queue_overview WHERE queue = 'queues';

SELECT count(*) FROM workq_check();

-- created and dropped within a transaction, and again
BEGIN;
SELECT workq_create_queue('queues brief'), workq_drop_queue('queues brief', true), workq_create_queue('queues brief');
SELECT workq_enqueue('queues brief', '{}') > 0;
COMMIT;
SELECT ready, policy_version FROM workq.queue_overview WHERE queue = 'queues brief';
SELECT workq_drop_queue('queues brief', true);

-- several changes by one statement
SELECT workq_configure('queues', quantum => 2), workq_configure('queues', quantum => 3), workq_pause('queues'), workq_resume('queues'),
       workq_reset('queues');
-- many changes in one transaction
SELECT max(version) - min(version) FROM (SELECT workq_set_key('queues', 'key ' || i, i) FROM generate_series(1, 100) i) t(version);

-- at every isolation level
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT workq_configure('queues', quantum => 4) > 1;
SELECT workq_drop_queue('queues', true);
SELECT workq_create_queue('queues');
COMMIT;
SELECT count(*), max(policy_version) FROM workq.queue_overview WHERE queue = 'queues';

-- not in a read-only transaction
BEGIN READ ONLY;
SELECT v, split_part(pg_temp.try(v), ':', 1) FROM unnest(ARRAY[
    $$SELECT workq_create_queue('queues ro')$$,
    $$SELECT workq_configure('queues', quantum => 2)$$,
    $$SELECT workq_set_key('queues', 'k', 1)$$,
    $$SELECT workq_reset('queues')$$,
    $$SELECT workq_drop_queue('queues', true)$$,
    $$SELECT workq_pause('queues')$$,
    $$SELECT workq_resume('queues')$$,
    $$SELECT workq_grant('queues', 'public', 'claim')$$,
    $$SELECT workq_revoke('queues', 'public', 'claim')$$]) v;
SELECT count(*) FROM workq.queue_overview WHERE queue = 'queues';
COMMIT;

-- nothing that a search_path offers is used
CREATE SCHEMA queues_evil;
CREATE FUNCTION queues_evil.boom() RETURNS integer LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''hijacked''; END';
CREATE FUNCTION queues_evil.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''hijacked''; END';
CREATE FUNCTION queues_evil.nextval(regclass) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''hijacked''; END';
CREATE FUNCTION queues_evil.evil(integer, integer) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''hijacked''; END';
CREATE FUNCTION queues_evil.evil(text, text) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''hijacked''; END';
CREATE OPERATOR queues_evil.= (LEFTARG = integer, RIGHTARG = integer, FUNCTION = queues_evil.evil);
CREATE OPERATOR queues_evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = queues_evil.evil);
CREATE TABLE queues_evil.queues (queue_id integer DEFAULT queues_evil.boom(), name text);
CREATE FUNCTION queues_evil.workq_create_queue(text, boolean DEFAULT false) RETURNS boolean LANGUAGE sql AS 'SELECT true';
CREATE ROLE regress_queues_nobody;
GRANT USAGE ON SCHEMA queues_evil TO regress_queues_nobody;
SET search_path = queues_evil, pg_catalog;
SELECT public.workq_create_queue('queues hijack');
SELECT public.workq_configure('queues hijack', quantum => 2), public.workq_set_key('queues hijack', 'k', 1);
SELECT public.workq_enqueue('queues hijack', '{}') OPERATOR(pg_catalog.>) 0;
SELECT pg_catalog.count(*) FROM public.workq_claim('queues hijack', 'w');
SELECT leased FROM workq.queue_overview WHERE queue OPERATOR(pg_catalog.=) 'queues hijack';
SELECT pg_catalog.count(*) FROM workq.active_claims WHERE queue OPERATOR(pg_catalog.=) 'queues hijack';
SELECT public.workq_drop_queue('queues hijack', true);
-- a function of that name elsewhere gives nobody the right to create queues
SET ROLE regress_queues_nobody;
\set VERBOSITY sqlstate
SELECT public.workq_enqueue('queues none', '{}');
\set VERBOSITY default
RESET ROLE;
RESET search_path;
\set VERBOSITY terse
SET client_min_messages = warning;
DROP SCHEMA queues_evil CASCADE;
RESET client_min_messages;
DROP ROLE regress_queues_nobody;
SELECT workq_drop_queue('queues', true);
