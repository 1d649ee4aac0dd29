-- What PUBLIC may touch.
BEGIN;
SELECT plan(12);
CREATE ROLE pgtap_nobody;

SELECT ok(has_schema_privilege('pgtap_nobody', 'workq', 'USAGE'), 'everybody may use schema workq');
SELECT ok(NOT has_schema_privilege('pgtap_nobody', 'workq', 'CREATE'), 'nobody may create in schema workq');

-- a job, so that there are segments
SELECT workq_enqueue('pgtap privileges', '{}');
SELECT cmp_ok((SELECT count(*) FROM pg_inherits WHERE inhparent = 'workq.jobs'::regclass), '>', 0::bigint, 'there are segments');
SELECT is_empty($$SELECT oid::regclass, p FROM pg_class CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) p
    WHERE relnamespace = 'workq'::regnamespace AND relkind IN ('r', 'p') AND has_table_privilege('pgtap_nobody', oid, p)$$,
    'tables, segments too, are granted to nobody');
SELECT is_empty($$SELECT oid::regclass FROM pg_class WHERE relnamespace = 'workq'::regnamespace AND relkind IN ('r', 'p')
    AND has_any_column_privilege('pgtap_nobody', oid, 'SELECT, INSERT, UPDATE, REFERENCES')$$, 'nor are columns');
SELECT is_empty($$SELECT oid::regclass FROM pg_class WHERE relnamespace = 'workq'::regnamespace 
    AND CASE relkind WHEN 'S' THEN has_sequence_privilege('pgtap_nobody', oid, 'USAGE, SELECT, UPDATE') ELSE false END$$, 'nor are sequences');
SELECT is_empty($$SELECT oid::regclass FROM pg_class WHERE relnamespace = 'workq'::regnamespace AND relkind = 'v'
    AND (NOT has_table_privilege('pgtap_nobody', oid, 'SELECT')
         OR has_table_privilege('pgtap_nobody', oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER'))$$,
    'views may be looked at');
SELECT is_empty($$SELECT c.oid::regclass FROM pg_class c, pg_extension e WHERE relnamespace = 'workq'::regnamespace
    AND extname = 'workq' AND relowner <> extowner$$, 'everything belongs to the extension''s owner');

SELECT set_eq($$SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
       JOIN pg_extension e ON d.refobjid = e.oid AND e.extname = 'workq' WHERE NOT has_function_privilege('pgtap_nobody', p.oid, 'EXECUTE')$$,
    ARRAY['workq_create_queue(text,boolean)', 'workq_check()', 'workq.foreign_write()', 'workq.lane_memory()'],
    'functions that do not check rights themselves are not for everybody');
SELECT ok(has_function_privilege('pg_monitor', 'workq_check()', 'EXECUTE'), 'pg_monitor may check');
SELECT ok(NOT has_function_privilege('pg_monitor', 'workq_create_queue(text,boolean)', 'EXECUTE'), 'pg_monitor may not create queues');
SELECT is_empty($$SELECT FROM pg_default_acl WHERE defaclnamespace = 'workq'::regnamespace$$, 'no default privileges');

SELECT * FROM finish();
ROLLBACK;
