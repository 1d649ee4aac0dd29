-- What keys have of their own follows changes: of the key, of the list of
-- weights, rolled back ones.  And following costs no look into the catalog for
-- each lane.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS workq;
CREATE SCHEMA keys;
SET search_path = keys, public;

CREATE VIEW now_are AS
SELECT queue, fairness_key AS key, weight, cap FROM workq.scheduler_keys WHERE queue LIKE 'keys%' ORDER BY 1, 2;

SELECT workq_create_queue('keys'), workq_configure('keys', strategy => 'drr', weights => 'a:2,b:3');
SELECT count(workq_enqueue('keys', '{}', tenant => t)) FROM unnest(ARRAY['a', 'b', 'c', 'd']) t;
SELECT key, weight, cap FROM now_are WHERE queue = 'keys' AND key <> '_no_tenant';

-- a key, over the list; then by the list again
SELECT workq_set_key('keys', 'a', 7, 1), workq_set_key('keys', 'c', 5);
SELECT key, weight, cap FROM now_are WHERE queue = 'keys' AND key <> '_no_tenant';
SELECT workq_configure('keys', weights => 'a:20,b:30,d:40');
SELECT key, weight, cap FROM now_are WHERE queue = 'keys' AND key <> '_no_tenant';
SELECT workq_set_key('keys', 'a'), workq_set_key('keys', 'c');
SELECT key, weight, cap FROM now_are WHERE queue = 'keys' AND key <> '_no_tenant';
SELECT workq_configure('keys', default_weight => 9);
SELECT key, weight, cap FROM now_are WHERE queue = 'keys' AND key <> '_no_tenant';
SELECT workq_reset('keys');
SELECT workq_configure('keys', strategy => 'drr');
SELECT key, weight, cap FROM now_are WHERE queue = 'keys' AND key <> '_no_tenant';

-- rolled back, with lanes made by the same transaction
BEGIN;
SELECT workq_configure('keys', weights => 'e:6,f:6'), workq_set_key('keys', 'e', 8, 2), workq_set_key('keys', 'e', 9, 3);
SAVEPOINT s;
SELECT workq_set_key('keys', 'e', 10, 4);
SELECT count(workq_enqueue('keys', '{}', tenant => t)) FROM unnest(ARRAY['e', 'f']) t;
ROLLBACK TO s;
SELECT count(workq_enqueue('keys', '{}', tenant => t)) FROM unnest(ARRAY['e', 'f']) t;
ROLLBACK;
SELECT count(workq_enqueue('keys', '{}', tenant => t)) FROM unnest(ARRAY['e', 'f']) t;
SELECT key, weight, cap FROM now_are WHERE queue = 'keys' AND key <> '_no_tenant';
BEGIN;
SELECT workq_configure('keys', weights => 'e:6,f:6'), workq_set_key('keys', 'e', 8, 2);
SAVEPOINT s;
SELECT workq_set_key('keys', 'e', 10, 4);
ROLLBACK TO s;
COMMIT;
SELECT key, weight, cap FROM now_are WHERE queue = 'keys' AND key <> '_no_tenant';

-- tenants of two levels, paused and not
SELECT workq_create_queue('keys two'),
    workq_configure('keys two', strategy => 'drr', fairness_key => 'tenant-and-binding', weights => E'a:2,a\x1Fx:3');
SELECT count(workq_enqueue('keys two', '{}', tenant => t, binding => b)) FROM unnest(ARRAY['a', 'b']) t, unnest(ARRAY['x', 'y']) b;
SELECT tenant, weight FROM workq.scheduler_tenants WHERE queue = 'keys two' ORDER BY 1;
SELECT replace(key, E'\x1F', '/') AS key, weight FROM now_are WHERE queue = 'keys two';
SELECT workq_configure('keys two', weights => E'b:4,b\x1Fy:5'), workq_set_key('keys two', 'a', 0);
SELECT tenant, weight FROM workq.scheduler_tenants WHERE queue = 'keys two' ORDER BY 1;
SELECT replace(key, E'\x1F', '/') AS key, weight FROM now_are WHERE queue = 'keys two';
SELECT tenant FROM workq_claim('keys two', 'w', max_jobs => 9) ORDER BY 1;
SELECT workq_set_key('keys two', 'a');
SELECT tenant FROM workq_claim('keys two', 'w', max_jobs => 9) ORDER BY 1;

-- What a transaction sets holds for its own claims at once as far as it forbids
-- something; what it allows, and the order, from commit on.
SELECT workq_create_queue('keys own'), workq_configure('keys own', strategy => 'drr');
SELECT count(workq_enqueue('keys own', '{}', tenant => t)) FROM unnest(ARRAY['a', 'b', 'c']) t, generate_series(1, 4);
BEGIN;
SELECT workq_configure('keys own', max_concurrent_per_key => 2), workq_set_key('keys own', 'b', max_concurrent => 1), workq_set_key('keys own', 'c', 0);
SELECT tenant, count(*) FROM workq_claim('keys own', 'w', max_jobs => 20) GROUP BY 1 ORDER BY 1;
SELECT tenant, count(*) FROM workq_claim('keys own', 'w', max_jobs => 20) GROUP BY 1 ORDER BY 1;
-- ends count as ended
SELECT count(workq_ack(claim_id)) FROM workq.active_claims WHERE queue = 'keys own';
SELECT tenant, count(*) FROM workq_claim('keys own', 'w', max_jobs => 20) GROUP BY 1 ORDER BY 1;
SAVEPOINT s;
SELECT workq_set_key('keys own', 'a', max_concurrent => 1), workq_set_key('keys own', 'b');
SELECT tenant, count(*) FROM workq_claim('keys own', 'w', max_jobs => 20) GROUP BY 1 ORDER BY 1;
ROLLBACK TO s;
SELECT tenant, count(*) FROM workq_claim('keys own', 'w', max_jobs => 20) GROUP BY 1 ORDER BY 1;
COMMIT;
SELECT lane, count(*) FROM workq.leases JOIN workq.queues USING (queue_id) WHERE name = 'keys own' GROUP BY 1 ORDER BY 1;
SELECT tenant, count(*) FROM workq_claim('keys own', 'w', max_jobs => 20) GROUP BY 1 ORDER BY 1;
-- a due job, and rows of a form that has just changed
SELECT workq_enqueue('keys own', '{}', tenant => 'a', delay => '1 h') > 0 AS delayed;
SELECT workq_create_queue('keys form');
SELECT count(workq_enqueue('keys form', '{}', tenant => 'a')) FROM generate_series(1, 5);
BEGIN;
SELECT workq_reset('keys own', 'max_concurrent_per_key'), workq_set_key('keys own', 'a', max_concurrent => 1);
SET LOCAL workq.clock_offset = '2 h';
SELECT count(*) FROM workq_claim('keys own', 'w', max_jobs => 20) WHERE tenant = 'a';
SELECT workq_configure('keys form', strategy => 'drr', max_concurrent_per_key => 1);
SELECT count(*) FROM workq_claim('keys form', 'w', max_jobs => 20);
SELECT count(*) FROM workq_claim('keys form', 'w', max_jobs => 20);
COMMIT;
SELECT count(*) FROM workq_claim('keys form', 'w', max_jobs => 20);

-- fifo: a key's own cap or pause counts without one for all keys, for jobs and
-- leases that were there before, too; and the order is that of a single lane.
SELECT workq_create_queue('keys fifo');
SELECT count(workq_enqueue('keys fifo', to_jsonb(i), tenant => CASE i % 2 WHEN 0 THEN 'even' ELSE 'odd' END)) FROM generate_series(1, 12) i;
SELECT payload, tenant FROM workq_claim('keys fifo', 'w', max_jobs => 4);
SELECT workq_set_key('keys fifo', 'odd', max_concurrent => 3);
SELECT payload, tenant FROM workq_claim('keys fifo', 'w', max_jobs => 4);
SELECT count(workq_enqueue('keys fifo', to_jsonb(i), tenant => 'odd')) FROM generate_series(13, 14) i;
SELECT workq_set_key('keys fifo', 'even', 0);
SELECT payload, tenant FROM workq_claim('keys fifo', 'w', max_jobs => 4);
SELECT workq_configure('keys fifo', max_concurrent_per_key => 5), workq_reset('keys fifo');
SELECT payload, tenant FROM workq_claim('keys fifo', 'w', max_jobs => 4);
SELECT workq_set_key('keys fifo', 'even'), workq_set_key('keys fifo', 'odd', 5, 0);
SELECT limited_keys, (SELECT string_agg(DISTINCT lane, ' ') AS lanes FROM workq.ready r WHERE r.queue_id = q.queue_id)
  FROM workq.queues q WHERE name = 'keys fifo';
SELECT payload, tenant FROM workq_claim('keys fifo', 'w', max_jobs => 20);

-- A transaction has the places that it has freed itself, of any number of keys,
-- as long as their ends are not rolled back.
SELECT workq_create_queue('keys freed'), workq_configure('keys freed', strategy => 'drr', max_concurrent_per_key => 1);
SELECT count(workq_enqueue('keys freed', to_jsonb(i), tenant => (i % 60)::text)) FROM generate_series(1, 300) i;
CREATE VIEW held AS SELECT claim_id, job_id FROM workq.active_claims WHERE queue = 'keys freed';
BEGIN;
SELECT count(*), max((payload::text)::int) FROM workq_claim('keys freed', 'w', max_jobs => 300);
SELECT count(*) FROM workq_claim('keys freed', 'w', max_jobs => 300);
SELECT count(workq_ack(claim_id)) FROM (SELECT claim_id FROM held ORDER BY job_id LIMIT 50) x;
SAVEPOINT s;
SELECT count(workq_ack(claim_id)) FROM (SELECT claim_id FROM held ORDER BY job_id LIMIT 10) x;
SELECT count(*) FROM workq_claim('keys freed', 'w', max_jobs => 300);
ROLLBACK TO s;
SELECT count(*) FROM workq_claim('keys freed', 'w', max_jobs => 300);
SELECT count(*) FROM workq_claim('keys freed', 'w', max_jobs => 300);
DO $$
DECLARE
    c uuid;
BEGIN
    FOR i IN 1 .. 40 LOOP
        SELECT claim_id INTO c FROM held ORDER BY job_id LIMIT 1;
        BEGIN
            PERFORM workq_ack(c);
            IF (SELECT count(*) <> 1 FROM workq_claim('keys freed', 'w', max_jobs => 2)) THEN
                RAISE 'a place is not free';
            END IF;
            IF i % 2 = 0 THEN
                RAISE division_by_zero;
            END IF;
        EXCEPTION WHEN division_by_zero THEN
            NULL;
        END;
    END LOOP;
END $$;
SELECT count(*) FROM workq_claim('keys freed', 'w', max_jobs => 300);
COMMIT;
SELECT count(*), count(DISTINCT lane) FROM workq.leases JOIN workq.queues USING (queue_id) WHERE name = 'keys freed';
SELECT * FROM workq_check();

-- Many lanes: no change makes a claim read the settings of all their keys.
SELECT workq_create_queue('keys many'), workq_configure('keys many', strategy => 'drr', weights => '1:2');
SELECT count(*) FROM workq_enqueue_batch('keys many',
    (SELECT jsonb_agg(jsonb_build_object('payload', i, 'tenant', i::text)) FROM generate_series(1, 1000) i));
CREATE FUNCTION claim_reads(OUT tenants bigint, OUT few_reads boolean) LANGUAGE plpgsql AS $$
DECLARE
    before bigint := pg_stat_get_xact_numscans('workq.keys_pkey'::regclass);
BEGIN
    SELECT count(*) INTO tenants FROM workq_claim('keys many', 'w', max_jobs => 2);
    few_reads := pg_stat_get_xact_numscans('workq.keys_pkey'::regclass) - before < 10;
END $$;
SELECT * FROM claim_reads();
SELECT workq_set_key('keys many', '7', 3);
SELECT * FROM claim_reads();
SELECT workq_configure('keys many', quantum => 2);
SELECT * FROM claim_reads();
SELECT workq_configure('keys many', weights => '1:3,900:4');
SELECT * FROM claim_reads();
SELECT key, weight FROM now_are WHERE queue = 'keys many' AND weight > 1 ORDER BY key::int;

SELECT * FROM workq_check();
SELECT count(workq_drop_queue(name, confirm => true)) > 0 AS dropped FROM workq.queues WHERE name LIKE 'keys%';
DROP SCHEMA keys CASCADE;
