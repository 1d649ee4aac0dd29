--
-- Who may do what: each verb as each kind of role.
--

SET client_min_messages = warning;
CREATE ROLE regress_access_owner;
CREATE ROLE regress_access_member IN ROLE regress_access_owner;
CREATE ROLE regress_access_noinherit NOINHERIT IN ROLE regress_access_owner;
CREATE ROLE regress_access_enqueue;
CREATE ROLE regress_access_claim;
CREATE ROLE regress_access_monitor;
CREATE ROLE regress_access_manage;
CREATE ROLE regress_access_claim_member IN ROLE regress_access_claim;
CREATE ROLE regress_access_nobody;
CREATE ROLE regress_access_pg_monitor IN ROLE pg_monitor;
CREATE ROLE regress_access_super SUPERUSER;
RESET client_min_messages;

\pset format unaligned
\pset tuples_only on

-- Run a statement as a role and undo it; '+', or the SQLSTATE.
CREATE FUNCTION pg_temp.probe(role text, statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SET LOCAL ROLE %I', 'regress_access_' || role);
    EXECUTE statement;
    RAISE EXCEPTION USING ERRCODE = 'ZZ000';
EXCEPTION
    WHEN SQLSTATE 'ZZ000' THEN RETURN '+';
    WHEN OTHERS THEN RETURN SQLSTATE;
END $$;
CREATE FUNCTION pg_temp.try(role text, statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    state text; message text; detail text; hint text;
BEGIN
    EXECUTE format('SET LOCAL ROLE %I', 'regress_access_' || role);
    EXECUTE statement;
    RETURN '+';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
        detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    RETURN state || ': ' || message
        || coalesce(E'\n  detail: ' || nullif(detail, ''), '')
        || coalesce(E'\n  hint: ' || nullif(hint, ''), '');
END $$;
CREATE FUNCTION pg_temp.probe_all(statement text) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(rpad(pg_temp.probe(role, statement), 5), ' ' ORDER BY n)
      FROM unnest(ARRAY['owner', 'member', 'noinherit', 'enqueue', 'claim', 'claim_member', 'monitor', 'manage', 'pg_monitor',
                        'nobody', 'super']) WITH ORDINALITY AS r(role, n) $$;

-- creating queues: EXECUTE on workq_create_queue, which PUBLIC does not have
SELECT pg_temp.probe_all($$SELECT workq_create_queue('access new')$$);
SELECT pg_temp.probe_all($$SELECT workq_enqueue('access new', '{}')$$);
SELECT pg_temp.try('nobody', $$SELECT workq_enqueue('access new', '{}')$$);
GRANT EXECUTE ON FUNCTION workq_create_queue TO regress_access_owner;
SELECT pg_temp.probe_all($$SELECT workq_create_queue('access new')$$);
SELECT pg_temp.probe_all($$SELECT workq_enqueue('access new', '{}')$$);

-- the owner is who created it; granting
SET ROLE regress_access_owner;
SELECT workq_create_queue('access');
SELECT workq_grant('access', 'regress_access_enqueue', 'enqueue'), workq_grant('access', 'regress_access_claim', 'claim'),
       workq_grant('access', 'regress_access_monitor', 'monitor'), workq_grant('access', 'regress_access_manage', 'manage');
SELECT workq_grant('access', 'regress_access_manage', 'manage');
SELECT workq_enqueue('access', '{"n": 1}') AS ready, workq_enqueue('access', '{"n": 2}') AS leased,
       workq_enqueue('access', '{"n": 3}') AS held \gset
SELECT count(*) FROM workq_claim('access', 'w', max_jobs => 1);
RESET ROLE;
SELECT claim_id, job_id FROM workq.active_claims WHERE queue = 'access' \gset
-- a dead job
SET ROLE regress_access_owner;
SELECT workq_enqueue('access', '{"n": 4}', 'high', max_attempts => 1) AS dead \gset
SELECT workq_fail(claim_id, 'E1', 'went wrong') FROM workq_claim('access', 'w');
RESET ROLE;
SELECT state, job_id = :dead FROM workq.held_jobs WHERE queue = 'access';

-- each verb as each role, undone each time
CREATE TEMP TABLE verbs (n serial, v text, s text);
INSERT INTO verbs (v, s) VALUES
    ('workq_enqueue', 'SELECT workq_enqueue($q, ''{}'')'),
    ('workq_enqueue_batch', 'SELECT workq_enqueue_batch($q, ''[{"payload": {}}]'')'),
    ('workq_claim', 'SELECT workq_claim($q, ''w'')'),
    ('workq_claim_any', 'SELECT workq_claim_any(ARRAY[$q], ''w'')'),
    ('workq_wait', 'CALL workq_wait(ARRAY[$q], ''0'')'),
    ('workq_await', 'CALL workq_await($d, ''0'')'),
    ('workq_renew', 'SELECT workq_renew($c)'),
    ('workq_renew_batch', 'SELECT workq_renew_batch(ARRAY[$c]::uuid[])'),
    ('workq_ack', 'SELECT workq_ack($c)'),
    ('workq_ack_batch', 'SELECT workq_ack_batch(ARRAY[$c]::uuid[])'),
    ('workq_ack_claim', 'SELECT workq_ack_claim(ARRAY[$c]::uuid[], NULL, $q, ''w'')'),
    ('workq_fail', 'SELECT workq_fail($c)'),
    ('workq_fail_batch', 'SELECT workq_fail_batch(ARRAY[$c]::uuid[])'),
    ('workq_release', 'SELECT workq_release($c)'),
    ('workq_release_batch', 'SELECT workq_release_batch(ARRAY[$c]::uuid[])'),
    ('workq_report_error', 'SELECT workq_report_error($c, ''E'')'),
    ('workq_report_error_batch', 'SELECT workq_report_error_batch(ARRAY[$c]::uuid[], ''{E}'')'),
    ('workq_report_status', 'SELECT workq_report_status($c, ''1'')'),
    ('workq_report_status_batch', 'SELECT workq_report_status_batch(ARRAY[$c]::uuid[], ''{1}'')'),
    ('workq_claim_policy', 'SELECT workq_claim_policy($c)'),
    ('workq_park', 'SELECT workq_park($c)'),
    ('workq_park_batch', 'SELECT workq_park_batch(ARRAY[$c]::uuid[])'),
    ('workq_progress', 'SELECT workq_progress($c, ''1'')'),
    ('workq_progress_batch', 'SELECT workq_progress_batch(ARRAY[$c]::uuid[], ''{1}'')'),
    ('workq_checkpoint', 'SELECT workq_checkpoint($c, ''s'')'),
    ('workq_checkpoint_batch', 'SELECT workq_checkpoint_batch(ARRAY[$c]::uuid[], ''{s}'')'),
    ('workq_stream', 'SELECT workq_stream($d)'),
    ('workq_checkpoints', 'SELECT workq_checkpoints($d)'),
    ('workq_unpark', 'SELECT workq_unpark($d)'),
    ('workq_unpark_batch', 'SELECT workq_unpark_batch(ARRAY[$d])'),
    ('workq_cancel', 'SELECT workq_cancel($d)'),
    ('workq_cancel_batch', 'SELECT workq_cancel_batch(ARRAY[$d])'),
    ('workq_requeue', 'SELECT workq_requeue($d)'),
    ('workq_requeue_batch', 'SELECT workq_requeue_batch(ARRAY[$d])'),
    ('workq_requeue_all', 'SELECT workq_requeue_all($q)'),
    ('workq_purge', 'SELECT workq_purge($q, confirm => true)'),
    ('workq_result', 'SELECT workq_result($d)'),
    ('workq_responses', 'SELECT workq_responses()'),
    ('workq_job', 'SELECT workq_job($d)'),
    ('workq_explain', 'SELECT workq_explain($d)'),
    ('workq_configure', 'SELECT workq_configure($q, quantum => 2)'),
    ('workq_set_key', 'SELECT workq_set_key($q, ''k'', 2)'),
    ('workq_map_error', 'SELECT workq_map_error($q, ''E%'', ''dead'')'),
    ('workq_unmap_error', 'SELECT workq_unmap_error($q, ''E%'')'),
    ('workq_reset', 'SELECT workq_reset($q)'),
    ('workq_pause', 'SELECT workq_pause($q)'),
    ('workq_resume', 'SELECT workq_resume($q)'),
    ('workq_grant', 'SELECT workq_grant($q, ''public'', ''claim'')'),
    ('workq_revoke', 'SELECT workq_revoke($q, ''public'', ''claim'')'),
    ('workq_drop_queue', 'SELECT workq_drop_queue($q, confirm => true)'),
    ('workq_drop_queue, unconfirmed', 'SELECT workq_drop_queue($q)'),
    ('workq_check', 'SELECT workq_check()'),
    ('workq.queues', 'TABLE workq.queues'),
    ('workq.jobs', 'TABLE workq.jobs'),
    ('workq.leases', 'TABLE workq.leases'),
    ('workq.policies', 'TABLE workq.policies'),
    ('INSERT INTO workq.grants', 'INSERT INTO workq.grants SELECT queue_id, 0, ''manage'', 0, now() FROM workq.queues'),
    ('DELETE FROM workq.dedup', 'DELETE FROM workq.dedup WHERE false'),
    ('workq.job_ids', 'TABLE workq.job_ids'),
    ('workq.response_base', 'TABLE workq.response_base'),
    ('workq.queue_overview', 'TABLE workq.queue_overview'),
    ('workq.active_claims', 'TABLE workq.active_claims'),
    ('workq.held_jobs', 'TABLE workq.held_jobs'),
    ('workq.settings', 'TABLE workq.settings'),
    ('workq.error_map', 'TABLE workq.error_map'),
    ('workq.error_rules', 'TABLE workq.error_rules'),
    ('workq.facts', 'TABLE workq.facts'),
    ('workq_scheduler_keys', 'SELECT workq_scheduler_keys($q)'),
    ('workq_scheduler_state', 'SELECT workq_scheduler_state($q)'),
    ('workq_metrics', 'SELECT workq_metrics()'),
    ('workq_metrics_text', 'SELECT workq_metrics_text()'),
    ('workq.scheduler', 'TABLE workq.scheduler'),
    ('workq.scheduler_keys', 'TABLE workq.scheduler_keys'),
    ('workq.scheduler_tenants', 'TABLE workq.scheduler_tenants');
\echo '                                          owner membr noinh enque claim clmem monit manag pgmon nobod super'
SELECT rpad(v, 40), pg_temp.probe_all(replace(replace(replace(s, '$c', quote_literal(:'claim_id')), '$d', :'dead'), '$q', '''access'''))
  FROM verbs ORDER BY n;

-- every public function is in that list
SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND proname LIKE 'workq\_%'
   AND proname NOT IN (SELECT v FROM verbs) AND proname <> 'workq_create_queue' ORDER BY 1;

-- what is said
SELECT pg_temp.try('nobody', $$SELECT workq_enqueue('access', '{}')$$);
SELECT pg_temp.try('enqueue', $$SELECT workq_claim('access', 'w')$$);
SELECT pg_temp.try('monitor', $$SELECT workq_configure('access', quantum => 2)$$);
SELECT pg_temp.try('nobody', format($$SELECT workq_ack(%L)$$, :'claim_id'));
-- to who has no right at all there: nothing about jobs, unless he has a claim id
SELECT overlay(:'claim_id' PLACING '00000000' FROM 29) AS forged, 4000000000000 AS no_job \gset
SELECT replace(pg_temp.try('nobody', format(s, :dead)), 'job ' || :'dead', 'job N') = replace(pg_temp.try('nobody', format(s, :no_job)), 'job ' || :'no_job', 'job N') AS same,
       replace(pg_temp.try('nobody', format(s, :dead)), 'job ' || :'dead', 'job N')
  FROM unnest(ARRAY['SELECT * FROM workq_job(%s)', 'SELECT workq_cancel(%s)', 'SELECT workq_requeue(%s)', 'SELECT workq_unpark(%s)',
                    'SELECT * FROM workq_result(%s)']) s;
SELECT replace(pg_temp.try(r, format($$SELECT workq_ack(%L)$$, :'forged')), :'forged', '...') FROM unnest(ARRAY['nobody', 'enqueue', 'claim']) r;
SET ROLE regress_access_nobody;
SELECT status, sqlstate FROM workq_cancel_batch(ARRAY[:dead, :no_job]::bigint[]);
RESET ROLE;

-- granting: what is wrong, and who may
SELECT pg_temp.try('owner', s) FROM unnest(ARRAY[
    $$SELECT workq_grant('access', 'regress_access_none', 'claim')$$,
    $$SELECT workq_grant('access', '', 'claim')$$,
    $$SELECT workq_grant('access', 'PUBLIC', 'claim')$$,
    $$SELECT workq_grant('access', NULL, 'claim')$$,
    $$SELECT workq_grant('access', repeat('r', 64), 'claim')$$,
    $$SELECT workq_grant('access', '16384', 'claim')$$,
    $$SELECT workq_grant('access', 'public', 'select')$$,
    $$SELECT workq_grant('access', 'public', 'CLAIM')$$,
    $$SELECT workq_grant('access', 'public', '')$$,
    $$SELECT workq_grant('access', 'public', NULL)$$,
    $$SELECT workq_revoke('access', 'regress_access_none', 'claim')$$,
    $$SELECT workq_revoke('access', 'public', 'all')$$,
    $$SELECT workq_revoke('access', NULL, 'claim')$$]) s;

-- PUBLIC, and back; a session notices at once
SELECT pg_temp.probe('nobody', $$SELECT workq_enqueue('access', '{}')$$);
SELECT workq_grant('access', 'public', 'enqueue');
SELECT pg_temp.probe('nobody', $$SELECT workq_enqueue('access', '{}')$$), pg_temp.probe('nobody', $$SELECT workq_claim('access', 'w')$$);
SELECT workq_revoke('access', 'public', 'enqueue'), workq_revoke('access', 'public', 'enqueue');
SELECT pg_temp.probe('nobody', $$SELECT workq_enqueue('access', '{}')$$);

-- rolled back
BEGIN;
SELECT workq_grant('access', 'regress_access_nobody', 'enqueue');
SELECT pg_temp.probe('nobody', $$SELECT workq_enqueue('access', '{}')$$);
ROLLBACK;
SELECT pg_temp.probe('nobody', $$SELECT workq_enqueue('access', '{}')$$);

-- memberships and superuser come and go
GRANT regress_access_claim TO regress_access_nobody;
SELECT pg_temp.probe('nobody', $$SELECT workq_claim('access', 'w')$$);
REVOKE regress_access_claim FROM regress_access_nobody;
SELECT pg_temp.probe('nobody', $$SELECT workq_claim('access', 'w')$$);
ALTER ROLE regress_access_nobody SUPERUSER;
SELECT pg_temp.probe('nobody', $$SELECT workq_claim('access', 'w')$$);
ALTER ROLE regress_access_nobody NOSUPERUSER;
SELECT pg_temp.probe('nobody', $$SELECT workq_claim('access', 'w')$$);

-- the right to create comes and goes
GRANT EXECUTE ON FUNCTION workq_create_queue TO regress_access_nobody;
SELECT pg_temp.probe('nobody', $$SELECT workq_enqueue('access new', '{}')$$);
REVOKE EXECUTE ON FUNCTION workq_create_queue FROM regress_access_nobody;
SELECT pg_temp.probe('nobody', $$SELECT workq_enqueue('access new', '{}')$$);

-- a NOINHERIT member has to become the owner
SELECT pg_temp.probe('noinherit', $$SET LOCAL ROLE regress_access_owner; SELECT workq_pause('access')$$);

-- a SECURITY DEFINER function runs with its owner's rights
CREATE FUNCTION pg_temp.put() RETURNS bigint SECURITY DEFINER SET search_path = public, pg_temp LANGUAGE sql AS
$$SELECT workq_enqueue('access', '{}')$$;
ALTER FUNCTION pg_temp.put() OWNER TO regress_access_enqueue;
SELECT pg_temp.probe('nobody', 'SELECT pg_temp.put()');
DROP FUNCTION pg_temp.put();

-- who manages may grant, also manage
SELECT pg_temp.probe('manage', $$SELECT workq_grant('access', 'regress_access_nobody', 'manage')$$);

-- a grant to a role that is gone: nobody has it, and its number takes it away
CREATE ROLE regress_access_gone;
SELECT oid AS gone FROM pg_roles WHERE rolname = 'regress_access_gone' \gset
SELECT workq_grant('access', 'regress_access_gone', 'claim');
DROP ROLE regress_access_gone;
SELECT pg_temp.probe('nobody', $$SELECT workq_claim('access', 'w')$$), pg_temp.probe('claim', $$SELECT workq_claim('access', 'w')$$);
SELECT workq_revoke('access', :'gone', 'claim'), workq_revoke('access', :'gone', 'claim');

-- the history says who granted what
SELECT event, settings #>> '{detail,role}', settings #>> '{detail,privilege}', by_role = current_user
  FROM workq.policies p JOIN workq.queues q USING (queue_id)
 WHERE q.name = 'access' AND event IN ('granted', 'revoked') AND settings #>> '{detail,role}' <> :'gone' ORDER BY version;

SELECT workq_drop_queue('access', confirm => true);
SELECT count(*) FROM workq_check() WHERE queue LIKE 'access%';
REVOKE EXECUTE ON FUNCTION workq_create_queue FROM regress_access_owner;
DROP ROLE regress_access_owner, regress_access_member, regress_access_noinherit, regress_access_enqueue, regress_access_claim,
    regress_access_monitor, regress_access_manage, regress_access_claim_member, regress_access_nobody,
    regress_access_pg_monitor, regress_access_super;
