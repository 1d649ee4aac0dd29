-- What CREATE EXTENSION makes: functions, tables, what C knows of them.
BEGIN;
SELECT plan(36);

CREATE TEMP VIEW ours AS
SELECT p.*, n.nspname FROM pg_proc p
  JOIN pg_namespace n ON n.oid = p.pronamespace
  JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
  JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname = 'workq';

-- functions
SELECT cmp_ok((SELECT count(*) FROM ours WHERE nspname = 'public'), '>=', 26::bigint, 'there are public functions');
SELECT is_empty($$SELECT oid::regprocedure FROM ours WHERE nspname = 'public' AND proname NOT LIKE 'workq\_%'$$,
    'public functions start with workq_');
SELECT is_empty($$SELECT proname FROM ours GROUP BY nspname, proname HAVING count(*) > 1$$, 'no function is overloaded');
SELECT is_empty($$SELECT proname FROM ours WHERE coalesce(obj_description(oid, 'pg_proc'), '') = ''$$, 'every function has a comment');
SELECT is_empty($$SELECT proname FROM ours WHERE nspname = 'public' AND obj_description(oid, 'pg_proc') NOT LIKE '%rrors: %' AND proname <> 'workq_check'$$,
    'the comment of every public function tells its errors');
SELECT is_empty($$SELECT o.proname, a.name FROM ours o CROSS JOIN LATERAL unnest(proargnames) WITH ORDINALITY a(name, n)
    WHERE nspname = 'public' AND n <= pronargs AND obj_description(o.oid, 'pg_proc') !~ ('\m' || a.name || '\M')
      AND a.name NOT IN ('queue', 'claim_id', 'claim_ids', 'job_id', 'job_ids', 'confirm', 'lease', 'delay', 'retry_in', 'on_fail', 'reason')$$,
    'the comment of every public function names its arguments');
SELECT is_empty($$SELECT proname FROM ours WHERE proparallel <> 'u'$$, 'every function is PARALLEL UNSAFE');
SELECT is_empty($$SELECT proname FROM ours WHERE nspname = 'public' AND (provolatile <> 'v' OR proisstrict)$$,
    'every public function is VOLATILE and not STRICT');
SELECT is_empty($$SELECT proname FROM ours WHERE prosecdef OR proleakproof$$, 'none is SECURITY DEFINER or LEAKPROOF');
SELECT is_empty($$SELECT proname FROM ours o JOIN pg_language l ON l.oid = prolang WHERE lanname <> 'c' OR probin <> '$libdir/workq'$$,
    'all are in our library');
SELECT is_empty($$SELECT proname, prosrc FROM ours WHERE prosrc <> CASE nspname WHEN 'public' THEN proname ELSE 'workq_' || proname END$$,
    'C names are those of SQL');
SELECT is_empty($$SELECT proname FROM ours WHERE pronargs > 0 AND (proargnames IS NULL OR '' = ANY (proargnames[1:pronargs]))$$,
    'every argument has a name');

-- names in the schema
SELECT is_empty($$SELECT c.oid::regclass FROM pg_class c WHERE c.relnamespace = 'workq'::regnamespace AND c.relkind IN ('r', 'p', 'S', 'v')
    AND c.relname !~ '^(jobs|claims|responses)_' AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass
    AND d.objid = c.oid AND d.deptype = 'e')$$, 'everything in schema workq but segments is a member of the extension');
SELECT set_eq($$SELECT relname::text FROM pg_class WHERE relnamespace = 'workq'::regnamespace AND relkind = 'v'$$,
    ARRAY['queue_overview', 'active_claims', 'held_jobs', 'settings', 'error_rules', 'facts', 'scheduler', 'scheduler_keys', 'scheduler_tenants'], 'the views');
SELECT is_empty($$SELECT relname FROM pg_class WHERE relnamespace = 'workq'::regnamespace AND relkind = 'v'
    AND NOT coalesce('security_barrier=true' = ANY (reloptions), false)$$, 'every view is a security barrier');
SELECT is_empty($$SELECT relname FROM pg_class WHERE relnamespace = 'workq'::regnamespace AND relkind IN ('v', 'r', 'p') AND NOT relispartition
    AND relname !~ '^(jobs|claims|responses)_' AND obj_description(oid, 'pg_class') IS NULL$$, 'every view and table has a comment');

-- the tables' columns as store.c, store_live.c, store_log.c and store_catalog.c number them
CREATE FUNCTION pg_temp.columns(name text) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute
     WHERE attrelid = ('workq.' || name)::regclass AND attnum > 0 AND NOT attisdropped
       AND (SELECT max(attnum) FROM pg_attribute WHERE attrelid = ('workq.' || name)::regclass)
         = (SELECT count(*) FROM pg_attribute WHERE attrelid = ('workq.' || name)::regclass AND attnum > 0) $$;
SELECT is(pg_temp.columns('queues'), 'queue_id name owner created_at paused enqueue_paused policy_version '
    || 'strategy fairness_key quantum starvation_age starvation_mode promote_normal_after promote_low_after '
    || 'max_concurrent_per_key default_weight max_lease max_attempts retry_base retry_cap retry_kind retry_factor retry_jitter trust notify_every weights limited_keys', 'columns of queues');
SELECT is(pg_temp.columns('keys'), 'queue_id key weight max_concurrent', 'columns of keys');
SELECT is(pg_temp.columns('error_map'), 'queue_id ord pattern action code value retry', 'columns of error_map');
SELECT is(pg_temp.columns('grants'), 'queue_id grantee privilege grantor granted_at', 'columns of grants');
SELECT is(pg_temp.columns('policies'), 'queue_id version at event by_role queue settings', 'columns of policies');
SELECT is(pg_temp.columns('segments'), 'segment from_job_id to_job_id created_at', 'columns of segments');
SELECT is(pg_temp.columns('ready'), 'job_id ready_since queue_id attempt failures max_attempts events priority flags lane', 'columns of ready');
SELECT is(pg_temp.columns('scheduled'), pg_temp.columns('ready'), 'columns of scheduled');
SELECT is(pg_temp.columns('leases'), pg_temp.columns('ready') || ' claim_id claimed_at deadline worker', 'columns of leases');
SELECT is(pg_temp.columns('held'), pg_temp.columns('ready') || ' held_at state reason', 'columns of held');
SELECT is(pg_temp.columns('dedup'), 'queue_id dedup_key job_id', 'columns of dedup');

-- what a setting is called: the column, the argument, the server's setting, the view
SELECT workq_create_queue('pgtap schema');
CREATE TEMP TABLE named AS SELECT setting::text AS name, row_number() OVER () AS n FROM workq.settings WHERE queue = 'pgtap schema';
SELECT results_eq($$SELECT attname::text COLLATE "C" FROM pg_attribute WHERE attrelid = 'workq.queues'::regclass AND attnum > 7 AND attname <> 'limited_keys' ORDER BY attnum$$,
    $$SELECT name COLLATE "C" FROM named ORDER BY n$$, 'settings are columns of workq.queues, in their order');
SELECT set_eq($$SELECT unnest(proargnames[2:]) FROM ours WHERE proname = 'workq_configure'$$, $$SELECT name FROM named$$,
    'settings are arguments of workq_configure');
SELECT is_empty($$SELECT name FROM named WHERE current_setting('workq.' || name, true) IS NULL$$, 'settings are settings of the server');

-- storage
SELECT is_empty($$SELECT relname FROM pg_class WHERE relnamespace = 'workq'::regnamespace AND relname IN ('ready', 'leases', 'scheduled', 'held', 'dedup')
    AND NOT coalesce(reloptions @> ARRAY['vacuum_truncate=off', 'autovacuum_vacuum_scale_factor=0.02', 'autovacuum_vacuum_cost_delay=10'], false)$$,
    'vacuum comes often to the live tables, throttled, and does not truncate');
SELECT is((SELECT relreplident::text FROM pg_class WHERE oid = 'workq.ready'::regclass), 'i', 'ready''s replica identity is its index');

-- foreign hands
SELECT set_eq($$SELECT tgrelid::regclass::text FROM pg_trigger WHERE tgfoid = 'workq.foreign_write()'::regprocedure AND tgenabled = 'A'
    AND tgtype = 2 + 4 + 8 + 16 + 32$$,
    ARRAY['workq.queues', 'workq.keys', 'workq.grants', 'workq.error_map', 'workq.ready', 'workq.leases', 'workq.scheduled', 'workq.held', 'workq.dedup'],
    'ENABLE ALWAYS statement triggers before insert, update, delete, truncate');
SELECT set_eq($$SELECT tgrelid::regclass::text FROM pg_trigger WHERE tgfoid = 'workq.foreign_write()'::regprocedure AND tgenabled = 'R'
    AND tgtype = 1 + 2 + 4 + 8 + 16$$,
    ARRAY['workq.queues', 'workq.keys', 'workq.grants', 'workq.error_map', 'workq.ready', 'workq.leases', 'workq.scheduled', 'workq.held', 'workq.dedup'],
    'ENABLE REPLICA row triggers before insert, update, delete');

-- what is dumped
SELECT set_eq($$SELECT unnest(extconfig)::regclass::text FROM pg_extension WHERE extname = 'workq'$$,
    $$SELECT c.oid::regclass::text FROM pg_class c JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
       WHERE relnamespace = 'workq'::regnamespace AND relkind IN ('r', 'S') AND relname <> 'response_base'$$,
    'data of every table and sequence is dumped, but for what each server makes anew');
SELECT ok((SELECT extcondition IS NULL OR '' = ALL (extcondition) FROM pg_extension WHERE extname = 'workq'), 'all of it');

SELECT * FROM finish();
ROLLBACK;
