--
-- The server's settings (workq.*) and a queue's own: bounds, enumerations,
-- inheritance, reload.
--

\i sql/include/try.sql

\pset format unaligned
\pset tuples_only on

-- what there is
SELECT name, context, vartype, unit, min_val, max_val, boot_val, enumvals
  FROM pg_settings WHERE name LIKE 'workq.%' ORDER BY name COLLATE "C";

-- none can be changed by a session, but the clock by a superuser
SELECT name, pg_temp.try(format('SELECT set_config(%L, %L, false)', name, boot_val)) LIKE '55P02:%'
  FROM pg_settings WHERE name LIKE 'workq.%' ORDER BY name COLLATE "C";
SET workq.clock_offset = '1 h';
SELECT workq.clock() - clock_timestamp() BETWEEN '59 min' AND '61 min';
SET workq.clock_offset = '-1 h';
SELECT workq.clock() - clock_timestamp() BETWEEN '-61 min' AND '-59 min';
RESET workq.clock_offset;
CREATE ROLE regress_settings_nobody;
SET ROLE regress_settings_nobody;
SELECT pg_temp.try($$SELECT set_config('workq.clock_offset', '1', false)$$);
RESET ROLE;
DROP ROLE regress_settings_nobody;

-- the prefix is ours (from 15 on an error, before that a warning at start)
SELECT current_setting('server_version_num')::int < 150000
    OR pg_temp.try($$SELECT set_config('workq.nonsense', '1', false)$$) LIKE '42602:%';

-- bad values of the server's settings
\pset tuples_only off
\set VERBOSITY sqlstate
ALTER SYSTEM SET workq.strategy = 'lifo';
ALTER SYSTEM SET workq.fairness_key = 'tenant_and_binding';
ALTER SYSTEM SET workq.quantum = 0;
ALTER SYSTEM SET workq.quantum = 1000001;
ALTER SYSTEM SET workq.starvation_age = -1;
ALTER SYSTEM SET workq.starvation_age = '25 d';
ALTER SYSTEM SET workq.starvation_mode = '';
ALTER SYSTEM SET workq.max_lease = 0;
ALTER SYSTEM SET workq.max_attempts = 0;
ALTER SYSTEM SET workq.max_attempts = 1000001;
ALTER SYSTEM SET workq.default_weight = -1;
ALTER SYSTEM SET workq.max_concurrent_per_key = -1;
ALTER SYSTEM SET workq.segment_size = 9;
ALTER SYSTEM SET workq.weights = 'a';
ALTER SYSTEM SET workq.weights = 'a:1,b:1000001';
\set VERBOSITY terse
ALTER SYSTEM SET workq.weights = 'a:1,b';
\set VERBOSITY default
ALTER SYSTEM SET workq.weights = 'a:1, b:x';
\pset tuples_only on

-- a queue's settings: as workq_configure takes them
SELECT workq_create_queue('settings');
SELECT workq_configure('settings');
SELECT a, pg_temp.try(format('SELECT workq_configure(''settings'', %s)', a))
  FROM unnest(ARRAY[
    $$strategy => 'drr'$$,
    $$strategy => 'drr'$$,
    $$strategy => 'fifo'$$,
    $$strategy => 'FIFO'$$,
    $$strategy => ''$$,
    $$fairness_key => 'tenant'$$,
    $$fairness_key => 'binding'$$,
    $$fairness_key => 'trigger-id'$$,
    $$fairness_key => 'tenant-and-binding'$$,
    $$fairness_key => 'trigger_id'$$,
    $$quantum => 1$$,
    $$quantum => 1000000$$,
    $$quantum => 0$$,
    $$quantum => -2147483648$$,
    $$quantum => 1000001$$,
    $$starvation_age => '0'$$,
    $$starvation_age => '24 days'$$,
    $$starvation_age => '24 days 1 ms'$$,
    $$starvation_age => '-1 ms'$$,
    $$starvation_age => '1 day -24 hours'$$,
    $$starvation_age => '1.5 ms'$$,
    $$starvation_age => '1 month'$$,
    $$starvation_age => '1 year'$$,
    $$starvation_age => '1 month -30 days'$$,
    $$starvation_age => '2147483647 days'$$,
    $$starvation_mode => 'strict'$$,
    $$starvation_mode => 'bounded'$$,
    $$starvation_mode => 'lenient'$$,
    $$promote_normal_after => '0'$$,
    $$promote_normal_after => '1 min'$$,
    $$promote_normal_after => '-1 min'$$,
    $$promote_low_after => '2 min'$$,
    $$promote_low_after => '1 month'$$,
    $$max_concurrent_per_key => 0$$,
    $$max_concurrent_per_key => 1000000$$,
    $$max_concurrent_per_key => 1000001$$,
    $$max_concurrent_per_key => -1$$,
    $$default_weight => 0$$,
    $$default_weight => 1000000$$,
    $$default_weight => 1000001$$,
    $$default_weight => -1$$,
    $$max_lease => '1 ms'$$,
    $$max_lease => '0'$$,
    $$max_lease => '0.5 ms'$$,
    $$max_lease => '24 days'$$,
    $$max_lease => '25 days'$$,
    $$max_attempts => 1$$,
    $$max_attempts => 0$$,
    $$max_attempts => 1000001$$,
    $$retry_base => '0'$$,
    $$retry_base => '1 s'$$,
    $$retry_base => '-1 s'$$,
    $$retry_cap => '0'$$,
    $$retry_cap => '10 s'$$,
    $$retry_cap => '1 year'$$,
    $$notify_every => '0'$$,
    $$notify_every => '10 s'$$,
    $$notify_every => '-1 s'$$
  ]) WITH ORDINALITY AS t(a, n) ORDER BY n;

-- PostgreSQL 17 has infinite intervals; before, there is no such value
SELECT pg_temp.try($$SELECT workq_configure('settings', retry_cap => 'infinity')$$) ~ '^(22007|22008)';

-- weights
SELECT a, pg_temp.try(format('SELECT workq_configure(''settings'', weights => %L)', a))
  FROM unnest(ARRAY[
    'acme:3,globex:1',
    'acme:3,globex:1',
    '',
    '  ',
    ' acme : 3 , globex:0 ',
    'urn:a:b:7',
    ':5',
    'acme:1000000',
    'acme:1000001',
    'acme:99999999999999999999',
    'acme',
    'acme:',
    'acme:-1',
    'acme:1.5',
    'acme:1 2',
    'acme:3,',
    ',acme:3',
    'acme:3,,globex:1',
    'acme:3,globex:1,acme:3',
    'acme:3,acme :4'
  ]) WITH ORDINALITY AS t(a, n) ORDER BY n;
SELECT pg_temp.try(format('SELECT workq_configure(''settings'', weights => %L)', repeat('k', 512) || ':1')) ~ '^22023';

-- nothing of that which failed has changed anything, not even half of it
SELECT workq_reset('settings') > 1;
SELECT pg_temp.try($$SELECT workq_configure('settings', quantum => 7, max_attempts => 0)$$);
SELECT pg_temp.try($$SELECT workq_configure('settings', quantum => 7, weights => 'x')$$);
SELECT count(*) FROM workq.settings WHERE queue = 'settings' AND own;

-- own and inherited; the view shows what workq_configure takes
SELECT workq_configure('settings', 'drr', 'binding', 2, '3 s', 'strict', '4 s', '5 s', 6, 7, 'a:1', '8 s', 9, '10 s', '11 s') > 1;
SELECT setting, value, own FROM workq.settings WHERE queue = 'settings';
SELECT pg_temp.try(format('SELECT workq_reset(''settings'', %L) > 1', setting)), setting
  FROM workq.settings WHERE queue = 'settings' AND setting IN ('max_lease', 'weights', 'strategy');
SELECT setting, value, own FROM workq.settings WHERE queue = 'settings';
SELECT workq_reset('settings', 'max_lease') = workq_reset('settings', 'max_lease');
SELECT pg_temp.try($$SELECT workq_reset('settings', 'nonsense')$$);
SELECT pg_temp.try($$SELECT workq_reset('settings', '')$$);
SELECT workq_reset('settings', NULL) > 1;
SELECT workq_reset('settings') = workq_reset('settings');
SELECT count(*) FROM workq.settings WHERE queue = 'settings' AND own;

-- what is inherited follows the server's setting when that is reloaded
SELECT workq_configure('settings', retry_base => '1 s') > 1;
ALTER SYSTEM SET workq.retry_base = '2 s';
ALTER SYSTEM SET workq.retry_cap = '3 s';
ALTER SYSTEM SET workq.weights = 'acme:3';
SELECT pg_reload_conf();
\set ECHO none
\o /dev/null
SELECT $$SELECT CASE current_setting('workq.weights') WHEN '' THEN pg_sleep(0.1) END$$
  FROM generate_series(1, 300) \gexec
\o
\set ECHO all
SELECT setting, value, own FROM workq.settings
 WHERE queue = 'settings' AND setting IN ('retry_base', 'retry_cap', 'weights');
ALTER SYSTEM RESET workq.retry_base;
ALTER SYSTEM RESET workq.retry_cap;
ALTER SYSTEM RESET workq.weights;
SELECT pg_reload_conf();
\set ECHO none
\o /dev/null
SELECT $$SELECT CASE current_setting('workq.weights') WHEN 'acme:3' THEN pg_sleep(0.1) END$$
  FROM generate_series(1, 300) \gexec
\o
\set ECHO all
SELECT setting, value, own FROM workq.settings
 WHERE queue = 'settings' AND setting IN ('retry_base', 'retry_cap', 'weights');

-- a key's own weight and cap
SELECT workq_drop_queue('settings', confirm => true);
SELECT workq_create_queue('settings');
SELECT a, pg_temp.try(format('SELECT workq_set_key(''settings'', %s)', a))
  FROM unnest(ARRAY[
    $$'acme', 3$$,
    $$'acme', 3$$,
    $$'acme', max_concurrent => 5$$,
    $$'globex', 0, 0$$,
    $$'', 1000000$$,
    $$'urn:with:colons, and comma', 1$$,
    E'E''tenant\\x1fbinding'', 2',
    E'E''\\x1f'', 2',
    E'E''a\\x1fb\\x1fc'', 2',
    E'E''a\\nb'', 2',
    $$' acme', 1$$,
    $$NULL, 1$$,
    $$'acme', -1$$,
    $$'acme', 1000001$$,
    $$'acme', max_concurrent => -1$$,
    $$'acme', max_concurrent => 1000001$$,
    $$'unknown'$$
  ]) WITH ORDINALITY AS t(a, n) ORDER BY n;
SELECT pg_temp.try($$SELECT workq_set_key('settings', repeat('x', 256), 1)$$);
SELECT pg_temp.try($$SELECT workq_set_key('settings', repeat('x', 255), 1) > 1$$);
SELECT replace(left(key, 30), E'\x1f', '<1F>'), weight, max_concurrent FROM workq.keys JOIN workq.queues USING (queue_id)
 WHERE name = 'settings' ORDER BY key;
SELECT pg_temp.try($$SELECT workq_set_key('settings', 'acme')$$);
SELECT pg_temp.try($$SELECT workq_set_key('settings', 'acme')$$);
SELECT key FROM workq.keys JOIN workq.queues USING (queue_id) WHERE name = 'settings' AND key = 'acme';

-- the history has a line for each version
SELECT count(*) = max(policy_version), min(version), max(version) = max(policy_version)
  FROM workq.policies p JOIN workq.queues q USING (queue_id) WHERE q.name = 'settings';
SELECT version, event, by_role = current_user, settings -> 'own', replace(settings ->> 'detail', '\u001f', '<1F>')
  FROM workq.policies p JOIN workq.queues q USING (queue_id) WHERE q.name = 'settings' AND version <= 5 ORDER BY version;
SELECT workq_drop_queue('settings', confirm => true);
