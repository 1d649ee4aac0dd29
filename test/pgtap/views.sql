-- The views' columns, and what each kind of role sees in them.
BEGIN;
SELECT plan(38);

CREATE FUNCTION pg_temp.shape(name text) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum)
      FROM pg_attribute WHERE attrelid = ('workq.' || name)::regclass AND attnum > 0 $$;
SELECT is(pg_temp.shape('queue_overview'), 'queue text, owner name, strategy text, paused boolean, enqueue_paused boolean, '
    || 'ready bigint, scheduled bigint, leased bigint, held bigint, enqueued bigint, done bigint, failed bigint, '
    || 'oldest_ready_age interval, next_due timestamp with time zone, policy_version integer, created_at timestamp with time zone',
    'queue_overview');
SELECT is(pg_temp.shape('active_claims'), 'queue text, job_id bigint, claim_id uuid, worker text, attempt integer, failures integer, '
    || 'max_attempts integer, priority text, lane text, claimed_at timestamp with time zone, age interval, '
    || 'deadline timestamp with time zone, time_to_deadline interval, expired boolean, cancel_requested boolean, failed boolean',
    'active_claims');
SELECT is(pg_temp.shape('held_jobs'), 'queue text, job_id bigint, state text, held_since timestamp with time zone, attempt integer, '
    || 'failures integer, max_attempts integer, priority text, lane text, reason text, error_code text, error_message text, payload jsonb',
    'held_jobs');
SELECT is(pg_temp.shape('settings'), 'queue text, setting text, value text, own boolean', 'settings');

SELECT is(pg_temp.shape('scheduler'), 'queue text, strategy text, fairness_key text, paused boolean, rounds_completed bigint, selections bigint, '
    || 'deferrals bigint, starvation_promotions_total bigint, lanes integer, lanes_eligible integer, lanes_capped integer, lanes_paused integer, '
    || 'lanes_leased integer, lanes_idle integer, longest_wait interval, recent_selections integer, overflowing boolean, policy_version integer',
    'scheduler');
SELECT is(pg_temp.shape('scheduler_keys'), 'queue text, fairness_key text, key text, tenant text, binding text, state text, weight integer, '
    || 'deficit bigint, in_flight integer, cap integer, ready_jobs bigint, oldest_ready_age interval, selected_total bigint, '
    || 'deferred_total bigint, promoted_total bigint, recent_selections integer, recent_share double precision, entitled_share double precision',
    'scheduler_keys');
SELECT is(pg_temp.shape('scheduler_tenants'), 'queue text, tenant text, state text, weight integer, deficit bigint, in_flight integer, '
    || 'ready_jobs bigint, selected_total bigint, deferred_total bigint, promoted_total bigint, recent_selections integer, '
    || 'recent_share double precision, entitled_share double precision', 'scheduler_tenants');

CREATE ROLE pgtap_owner;
CREATE ROLE pgtap_claim;
CREATE ROLE pgtap_monitor;
CREATE ROLE pgtap_nobody;
CREATE ROLE pgtap_pg_monitor IN ROLE pg_monitor;
GRANT EXECUTE ON FUNCTION workq_create_queue TO pgtap_owner;
SET LOCAL ROLE pgtap_owner;
SELECT workq_create_queue('pgtap views');
RESET ROLE;
SELECT workq_grant('pgtap views', 'pgtap_claim', 'claim'), workq_grant('pgtap views', 'pgtap_claim', 'monitor'),
       workq_grant('pgtap views', 'pgtap_monitor', 'monitor');
SELECT workq_enqueue('pgtap views', '{"secret": 1}', max_attempts => 1);
SELECT workq_fail(claim_id, 'E1', 'message') FROM workq_claim('pgtap views', 'w1');
SELECT workq_enqueue('pgtap views', '{"secret": 2}');
SELECT count(*) FROM workq_claim('pgtap views', 'w2');

-- a view as a role sees it, as text
CREATE FUNCTION pg_temp.seen(role text, query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text;
BEGIN
    EXECUTE format('SET LOCAL ROLE %I', 'pgtap_' || role);
    EXECUTE 'SELECT string_agg(x::text, '';'') FROM (' || query || ') x' INTO result;
    RESET ROLE;
    RETURN result;
END $$;
SELECT is(pg_temp.seen(role, $$SELECT queue FROM workq.queue_overview WHERE queue LIKE 'pgtap%'$$), expected, 'queue_overview: ' || role)
  FROM (VALUES ('owner', '("pgtap views")'), ('claim', '("pgtap views")'), ('monitor', '("pgtap views")'), ('pg_monitor', '("pgtap views")'),
    ('nobody', NULL)) v(role, expected);
SELECT is(pg_temp.seen(role, $$SELECT worker, claim_id IS NOT NULL FROM workq.active_claims WHERE queue LIKE 'pgtap%'$$), expected, 'active_claims: ' || role)
  FROM (VALUES ('owner', '(w2,t)'), ('claim', '(w2,t)'), ('monitor', '(w2,f)'), ('pg_monitor', '(w2,f)'), ('nobody', NULL)) v(role, expected);
SELECT is(pg_temp.seen(role, $$SELECT state, error_code, error_message, payload ->> 'secret' FROM workq.held_jobs WHERE queue LIKE 'pgtap%'$$), expected,
    'held_jobs: ' || role)
  FROM (VALUES ('owner', '(dead,E1,message,1)'), ('claim', '(dead,E1,message,1)'), ('monitor', '(dead,E1,message,)'),
    ('pg_monitor', '(dead,E1,message,)'), ('nobody', NULL)) v(role, expected);
SELECT is(pg_temp.seen(role, $$SELECT count(*) FROM workq.settings WHERE queue LIKE 'pgtap%'$$), expected, 'settings: ' || role)
  FROM (VALUES ('owner', '(19)'), ('claim', '(19)'), ('monitor', '(19)'), ('pg_monitor', '(19)'), ('nobody', '(0)')) v(role, expected);

SELECT is(pg_temp.seen(role, $$SELECT queue FROM workq.scheduler WHERE queue LIKE 'pgtap%'$$), expected, 'scheduler: ' || role)
  FROM (VALUES ('owner', '("pgtap views")'), ('claim', '("pgtap views")'), ('monitor', '("pgtap views")'), ('pg_monitor', '("pgtap views")'),
    ('nobody', NULL)) v(role, expected);
SELECT is(pg_temp.seen(role, $$SELECT queue, fairness_key FROM workq.scheduler_keys WHERE queue LIKE 'pgtap%'$$), expected, 'scheduler_keys: ' || role)
  FROM (VALUES ('owner', '("pgtap views",_all)'), ('claim', '("pgtap views",_all)'), ('monitor', '("pgtap views",_all)'),
    ('pg_monitor', '("pgtap views",_all)'), ('nobody', NULL)) v(role, expected);

-- the counters are published at commit: until then the views' tables tell more
SELECT is((SELECT expired FROM workq.active_claims WHERE queue = 'pgtap views'), false, 'active_claims shows what this transaction did');

SELECT * FROM finish();
ROLLBACK;
