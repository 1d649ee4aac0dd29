-- Fair share, as seen through SQL: the scenarios of deficit round robin that
-- one session can show.  Each claim and each ack is a transaction of its own.
-- The exact rules are tested with the policy core (test/unit).
SET client_min_messages = warning;
\pset format unaligned
\pset tuples_only on
CREATE SCHEMA drr;
SET search_path = drr, public;
CREATE TABLE served (queue text, n serial, tenant text, binding text, decision text, round bigint, claim uuid);
CREATE TABLE keep (queue text, claim uuid);

-- n jobs of a tenant
CREATE FUNCTION fill(q text, tenant text, n int, binding text DEFAULT NULL) RETURNS void LANGUAGE sql AS $$
    SELECT count(*) FROM workq_enqueue_batch(q, (SELECT jsonb_agg(jsonb_strip_nulls(
        jsonb_build_object('payload', i, 'tenant', tenant, 'binding', binding))) FROM generate_series(1, n) i)) $$;

-- n claims, one after the other, each acked at once; or kept
CREATE PROCEDURE serve(q text, n int, ack bool DEFAULT true) LANGUAGE plpgsql AS $$
DECLARE
    c record;
BEGIN
    FOR i IN 1 .. n LOOP
        SELECT * INTO c FROM workq_claim(q, 'w', '1 day');
        COMMIT;
        EXIT WHEN c.claim_id IS NULL;
        INSERT INTO served (queue, tenant, binding, decision, round, claim)
            VALUES (q, c.tenant, c.binding, c.decision, c.round, c.claim_id);
        IF ack THEN
            PERFORM workq_ack(c.claim_id);
        END IF;
        COMMIT;
    END LOOP;
END $$;

CREATE PROCEDURE ack_all(q text) LANGUAGE sql AS $$
    SELECT count(workq_ack(claim_id)) FROM workq.active_claims WHERE queue = q $$;

-- the last n in order; and how many each has got of them
CREATE FUNCTION sequence(q text, n int DEFAULT 1000000) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(tenant, ' ' ORDER BY s.n) FROM (SELECT * FROM served WHERE queue = q ORDER BY n DESC LIMIT $2) s $$;
CREATE FUNCTION shares(q text, n int DEFAULT 1000000) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(tenant || ':' || k, ' ' ORDER BY tenant) FROM (SELECT tenant, count(*) AS k
        FROM (SELECT * FROM served WHERE queue = q ORDER BY n DESC LIMIT $2) s GROUP BY tenant) x $$;

CREATE FUNCTION make(q text, weights text DEFAULT '', quantum int DEFAULT 1, age interval DEFAULT '0') RETURNS void LANGUAGE sql AS $$
    SELECT workq_create_queue(q);
    SELECT workq_configure(q, strategy => 'drr', weights => weights, quantum => quantum, starvation_age => age,
        promote_normal_after => '0', promote_low_after => '0') $$;

-- 1. Alternation.
SELECT make('drr 1');
SELECT fill('drr 1', 'a', 100), fill('drr 1', 'b', 1);
CALL serve('drr 1', 2);
SELECT sequence('drr 1');
SELECT fill('drr 1', 'b', 100);
CALL serve('drr 1', 12);
SELECT sequence('drr 1', 12) ~ '^(a b ){5}a b$|^(b a ){5}b a$' AS alternate;

-- 2. Weights 3:1.
SELECT make('drr 2', 'a:3');
SELECT fill('drr 2', 'a', 400), fill('drr 2', 'b', 400);
CALL serve('drr 2', 400);
SELECT shares('drr 2');
SELECT sequence('drr 2') ~ '^((a b|b a) a a ?){100}$' AS in_rounds;

-- 3. Weights 5:3:1:1: every 10; in any interval, services over weight differ
-- by at most 2.
SELECT make('drr 3', 'a:5, b:3');
SELECT fill('drr 3', t, 200) FROM unnest(ARRAY['a', 'b', 'c', 'd']) t;
CALL serve('drr 3', 200);
SELECT DISTINCT a, b, c, d FROM (SELECT count(*) FILTER (WHERE tenant = 'a') AS a, count(*) FILTER (WHERE tenant = 'b') AS b,
    count(*) FILTER (WHERE tenant = 'c') AS c, count(*) FILTER (WHERE tenant = 'd') AS d
    FROM (SELECT (row_number() OVER (ORDER BY n) - 1) / 10 AS ten, tenant FROM served WHERE queue = 'drr 3') x GROUP BY ten) y;
WITH step AS (SELECT row_number() OVER (ORDER BY n) AS t, tenant FROM served WHERE queue = 'drr 3'),
    weight (tenant, w) AS (VALUES ('a', 5), ('b', 3), ('c', 1), ('d', 1)),
    got AS (SELECT t, weight.tenant, sum((step.tenant = weight.tenant)::int) OVER (PARTITION BY weight.tenant ORDER BY t) / w::numeric AS s
        FROM step, weight)
SELECT max(x.most - x.least) <= 2 AS bounded FROM
    (SELECT greatest(max(p.s - q.s), 0) AS most, least(min(p.s - q.s), 0) AS least FROM got p JOIN got q USING (t) GROUP BY p.tenant, q.tenant) x;

-- 4. Quantum 4: four times the services in a round, the same shares.
SELECT make('drr 4', 'a:2', 4);
SELECT fill('drr 4', 'a', 300), fill('drr 4', 'b', 300);
CALL serve('drr 4', 240);
SELECT shares('drr 4');
SELECT DISTINCT a, b FROM (SELECT count(*) FILTER (WHERE tenant = 'a') AS a, count(*) FILTER (WHERE tenant = 'b') AS b
    FROM served WHERE queue = 'drr 4' GROUP BY round) x;

-- 6. A newcomer is served within three selections.
SELECT make('drr 6', 'a:100, b:100', 10);
SELECT fill('drr 6', 'a', 1000), fill('drr 6', 'b', 1000);
SELECT setseed(0.6);
DO $$
DECLARE
    wait int;
    worst int := 0;
    t text;
BEGIN
    FOR trial IN 1 .. 100 LOOP
        CALL serve('drr 6', (random() * 12)::int);
        PERFORM fill('drr 6', 'new ' || trial, 1);
        COMMIT;
        wait := 0;
        LOOP
            CALL serve('drr 6', 1);
            wait := wait + 1;
            SELECT tenant INTO t FROM served ORDER BY n DESC LIMIT 1;
            EXIT WHEN t LIKE 'new %' OR wait > 10;
        END LOOP;
        worst := greatest(worst, wait);
    END LOOP;
    RAISE WARNING 'within 3: %', worst <= 3;
END $$;

-- 7. Credit is not saved.
SELECT make('drr 7');
SELECT fill('drr 7', 'a', 1100), fill('drr 7', 'b', 1);
CALL serve('drr 7', 1001);
SELECT shares('drr 7');
SELECT fill('drr 7', 'b', 50);
CALL serve('drr 7', 40);
SELECT sequence('drr 7', 40) ~ 'b b' AS twice_in_a_row, shares('drr 7', 40);

-- 8. One job at a time gets what its weight says.
SELECT make('drr 8', 'a:9');
SELECT fill('drr 8', 'a', 400), fill('drr 8', 'c', 1);
DO $$
BEGIN
    FOR i IN 1 .. 300 LOOP
        CALL serve('drr 8', 1);
        IF (SELECT tenant FROM served ORDER BY n DESC LIMIT 1) = 'c' THEN
            PERFORM fill('drr 8', 'c', 1);
            COMMIT;
        END IF;
    END LOOP;
END $$;
SELECT shares('drr 8');

-- 11. A lone old job goes first though another lane is next in turn: a comes
-- back from its cap, c was served last, b has waited for longer than the age.
SELECT make('drr 11', 'a:10', 1, '1 min');
SELECT workq_configure('drr 11', max_concurrent_per_key => 1);
SET workq.clock_offset = '-1 h';
SELECT fill('drr 11', t, 3) FROM unnest(ARRAY['a', 'c']) t;
CALL serve('drr 11', 2, false);
SELECT fill('drr 11', 'b', 1);
SET workq.clock_offset = '-50 min';
SELECT workq_ack(claim) FROM served WHERE queue = 'drr 11' AND tenant = 'a';
CALL serve('drr 11', 3, false);
SELECT tenant, decision FROM served WHERE queue = 'drr 11' ORDER BY n;

-- 12. Old but at its cap: not promoted; served within a pass after the cap frees.
SELECT make('drr 12', '', 1, '1 min');
SELECT workq_set_key('drr 12', 'a', max_concurrent => 1);
SET workq.clock_offset = '-1 h';
SELECT fill('drr 12', 'a', 3), fill('drr 12', 'b', 30), fill('drr 12', 'c', 30);
CALL serve('drr 12', 1, false);
SET workq.clock_offset = '-30 min';
CALL serve('drr 12', 6);
SELECT sequence('drr 12') ~ '^a( b| c){6}$' AS others_only;
SELECT workq_ack(claim) FROM served WHERE queue = 'drr 12' AND tenant = 'a';
CALL serve('drr 12', 3);
SELECT sequence('drr 12', 3) ~ 'a' AS within_a_pass;
RESET workq.clock_offset;

-- 14. Weights at run time.
SELECT make('drr 14', 'a:1000');
SELECT fill('drr 14', 'a', 400), fill('drr 14', 'b', 400);
CALL serve('drr 14', 50);
SELECT workq_set_key('drr 14', 'a', weight => 1);
CALL serve('drr 14', 22);
SELECT substr(sequence('drr 14', 22), 5) ~ '^(a b ?){10}$|^(b a ?){10}$' AS alternate;
SELECT workq_set_key('drr 14', 'a', weight => 1000);
CALL serve('drr 14', 100);
SELECT (SELECT count(*) FROM regexp_matches(sequence('drr 14', 100), 'b', 'g')) <= 1 AS at_most_one;

-- 15. Weight 0: no selection, no promotion; raised, claimable at once; and
-- lowered again.
SELECT make('drr 15', 'a:0', 1, '1 min');
SET workq.clock_offset = '-2 h';
SELECT fill('drr 15', 'a', 2), fill('drr 15', 'b', 2);
RESET workq.clock_offset;
CALL serve('drr 15', 5);
SELECT sequence('drr 15');
SELECT workq_configure('drr 15', weights => 'a:1');
CALL serve('drr 15', 1);
SELECT sequence('drr 15');
SELECT workq_set_key('drr 15', 'a', weight => 0);
CALL serve('drr 15', 1);
SELECT sequence('drr 15');
SELECT workq_set_key('drr 15', 'a');
CALL serve('drr 15', 1);
SELECT sequence('drr 15');
SELECT fill('drr 15', 'a', 1);
SELECT workq_configure('drr 15', weights => '', default_weight => 0);
CALL serve('drr 15', 1);
SELECT sequence('drr 15');
SELECT workq_configure('drr 15', default_weight => 1);
CALL serve('drr 15', 1);
SELECT sequence('drr 15');

-- 16. Keys that look alike.
SELECT make('drr 16');
SELECT fill('drr 16', NULL, 1), fill('drr 16', '_no_tenant', 1), fill('drr 16', 'a', 1), fill('drr 16', 'a|b', 1);
SELECT workq_set_key('drr 16', '', weight => 0);
CALL serve('drr 16', 9, false);
SELECT tenant FROM served WHERE queue = 'drr 16' ORDER BY tenant COLLATE "C";
SELECT workq_set_key('drr 16', '');
SELECT tenant IS NULL AS none, fairness_key FROM workq_claim('drr 16', 'w');
SELECT make('drr 16b');
SELECT workq_configure('drr 16b', fairness_key => 'tenant-and-binding', max_concurrent_per_key => 1);
SELECT fill('drr 16b', 'a|b', 2, 'c'), fill('drr 16b', 'a', 2, 'b|c'), fill('drr 16b', 'a', 2, NULL), fill('drr 16b', NULL, 2, 'a'),
    fill('drr 16b', NULL, 2, NULL), fill('drr 16b', '_no_tenant', 2, '_no_binding');
SELECT tenant, binding FROM workq_claim('drr 16b', 'w', max_jobs => 99) ORDER BY tenant COLLATE "C", binding COLLATE "C";
SELECT count(DISTINCT lane) FROM workq.leases JOIN workq.queues USING (queue_id) WHERE name = 'drr 16b';

-- 17. Two levels: tenants share, and within a tenant its bindings.
SELECT make('drr 17');
SELECT workq_configure('drr 17', fairness_key => 'tenant-and-binding');
SELECT count(fill('drr 17', 'A', 20, 'b' || i)) FROM generate_series(1, 20) i;
SELECT fill('drr 17', 'B', 300, 'x');
CALL serve('drr 17', 400);
SELECT shares('drr 17');
SELECT DISTINCT count(*) FROM served WHERE queue = 'drr 17' AND tenant = 'A' GROUP BY binding;
SELECT make('drr 17b', '', 1, '1 min');
SELECT workq_configure('drr 17b', fairness_key => 'tenant-and-binding');
SET workq.clock_offset = '-1 h';
SELECT count(fill('drr 17b', 'A', 1, 'b' || i)) FROM generate_series(1, 400) i;
SELECT fill('drr 17b', 'B', 400, 'x');
RESET workq.clock_offset;
CALL serve('drr 17b', 400);
SELECT shares('drr 17b');

-- 37. A lane whose transactions always roll back: the others keep their shares.
SELECT make('drr 37');
SELECT fill('drr 37', 'd' || i, 100) FROM generate_series(1, 5) i;
SELECT fill('drr 37', 'r', 1);
DO $$
DECLARE
    c record;
BEGIN
    FOR i IN 1 .. 300 LOOP
        SELECT * INTO c FROM workq_claim('drr 37', 'w', '1 day');
        IF c.tenant = 'r' THEN
            ROLLBACK;
        ELSE
            COMMIT;
            PERFORM workq_ack(c.claim_id);
        END IF;
        INSERT INTO served (queue, tenant) VALUES ('drr 37', c.tenant);
        COMMIT;
    END LOOP;
END $$;
SELECT shares('drr 37');

-- 38. A flood of newcomers, 1.1 for each claim: the deep lane is served at least
-- once in two passes over the lanes there are.
SELECT make('drr 38');
SELECT fill('drr 38', 'deep', 400);
DO $$
BEGIN
    FOR i IN 1 .. 300 LOOP
        PERFORM fill('drr 38', 'new ' || i, 1);
        IF i % 10 = 0 THEN
            PERFORM fill('drr 38', 'more ' || i, 1);
        END IF;
        COMMIT;
        CALL serve('drr 38', 1);
    END LOOP;
END $$;
SELECT max(gap) <= 2 * (SELECT count(DISTINCT lane) FROM workq.ready JOIN workq.queues USING (queue_id) WHERE name = 'drr 38') AS twice_a_pass
    FROM (SELECT n - lag(n) OVER (ORDER BY n) AS gap FROM served WHERE queue = 'drr 38' AND tenant = 'deep') x;

-- 39. A heavy lane with a cap, 8 workers: 11 % at least.
SELECT make('drr 39', 'heavy:10');
SELECT workq_set_key('drr 39', 'heavy', max_concurrent => 1);
SELECT fill('drr 39', 'd' || i, 40) FROM generate_series(1, 25) i;
SELECT fill('drr 39', 'heavy', 300);
CALL serve('drr 39', 8, false);
DO $$
BEGIN
    FOR i IN 1 .. 400 LOOP
        PERFORM workq_ack(claim_id) FROM (SELECT claim_id FROM workq.active_claims JOIN served ON claim = claim_id
            WHERE workq.active_claims.queue = 'drr 39' ORDER BY n LIMIT 1) x;
        COMMIT;
        CALL serve('drr 39', 1, false);
    END LOOP;
END $$;
SELECT count(*) FILTER (WHERE tenant = 'heavy') >= 0.11 * count(*) AS enough FROM served WHERE queue = 'drr 39';

-- Five of weight 100 and cap 1 come back at once: a newcomer waits for two
-- passes at most.
SELECT make('drr 39b', 'h1:100, h2:100, h3:100, h4:100, h5:100');
SELECT workq_configure('drr 39b', max_concurrent_per_key => 1);
SELECT fill('drr 39b', 'h' || i, 50) FROM generate_series(1, 5) i;
CALL serve('drr 39b', 5, false);
SELECT fill('drr 39b', 'new', 1);
CALL ack_all('drr 39b');
CALL serve('drr 39b', 12);
SELECT sequence('drr 39b', 12) ~ 'new' AS within_two_passes;

-- 50. After a pause: no promotions; it is a's turn, though b and c were served
-- longer ago.  A run_at in the past: no jump, not starving.
SELECT make('drr 50', 'a:4', 1, '5 min');
SET workq.clock_offset = '-2 h';
SELECT fill('drr 50', t, 8) FROM unnest(ARRAY['a', 'b', 'c']) t;
CALL serve('drr 50', 3);
SELECT workq_pause('drr 50');
SET workq.clock_offset = '-1 h';
SELECT workq_resume('drr 50');
CALL serve('drr 50', 6);
SELECT sequence('drr 50');
SELECT DISTINCT decision FROM served WHERE queue = 'drr 50';
SELECT workq_enqueue('drr 50', '1', tenant => 'd', run_at => '2000-01-01 00:00+00') > 0 AS enqueued;
CALL serve('drr 50', 2);
SELECT DISTINCT decision FROM served WHERE queue = 'drr 50';
RESET workq.clock_offset;

-- One claim over more lanes than are kept open: as if they were claimed one by
-- one, three rounds of all lanes, each lane's jobs in order.
SELECT make('drr many');
SELECT count(fill('drr many', 't' || i, 3)) FROM generate_series(101, 200) i;
CREATE TEMP TABLE many AS SELECT row_number() OVER () AS n, job_id, tenant FROM workq_claim('drr many', 'w', max_jobs => 1000);
SELECT count(*), count(DISTINCT job_id), bool_and(tenant = 't' || 101 + (n - 1) % 100) AS in_turn FROM many;
SELECT count(*) AS out_of_order FROM many a JOIN many b ON a.tenant = b.tenant AND a.n < b.n AND a.job_id > b.job_id;

SELECT * FROM workq_check();
SELECT count(workq_drop_queue(name, confirm => true)) > 0 AS dropped FROM workq.queues WHERE name LIKE 'drr %';
DROP SCHEMA drr CASCADE;
