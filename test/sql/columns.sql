-- What an administrator adds to the tables of jobs: columns with and without
-- defaults, NOT NULL, generated columns, CHECK constraints.
CREATE FUNCTION pg_temp.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
BEGIN
    EXECUTE statement INTO result;
    RETURN coalesce(result, 'NULL');
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ': ' || SQLERRM;
END $$;
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS workq;
SELECT workq_enqueue('columns', to_jsonb(n), dedup_key => 'k' || n) > 0 AS before FROM generate_series(1, 2) n;
ALTER TABLE workq.ready ADD COLUMN extra int NOT NULL DEFAULT 5, ADD COLUMN plain text, ADD COLUMN dropped int DEFAULT 1;
ALTER TABLE workq.ready ADD COLUMN twice bigint GENERATED ALWAYS AS (job_id * 2) STORED, DROP COLUMN dropped;
ALTER TABLE workq.leases ADD COLUMN noted text NOT NULL DEFAULT 'by ' || 'default';
ALTER TABLE workq.scheduled ADD COLUMN noted text DEFAULT 'later';
ALTER TABLE workq.held ADD COLUMN noted text DEFAULT 'held';
ALTER TABLE workq.dedup ADD COLUMN made_at timestamptz NOT NULL DEFAULT '2001-01-01';
ALTER TABLE workq.jobs ADD COLUMN region text NOT NULL DEFAULT 'eu';
ALTER TABLE workq.claims ADD COLUMN host text DEFAULT 'host';
ALTER TABLE workq.jobs ADD CONSTRAINT no_bad CHECK (payload <> '"bad"');

SELECT workq_enqueue('columns', to_jsonb(n), dedup_key => 'k' || n) > 0 AS enqueued FROM generate_series(3, 4) n;
SELECT count(*) FROM workq_enqueue_batch('columns', (SELECT jsonb_agg(jsonb_build_object('payload', i, 'dedup_key', 'k' || i)) FROM generate_series(5, 100) i));
SELECT DISTINCT extra, plain, twice = job_id * 2 AS generated FROM workq.ready;
SELECT DISTINCT made_at = '2001-01-01' AS by_default FROM workq.dedup;
SELECT DISTINCT region FROM workq.jobs;
SELECT count(workq_renew(claim_id, '1 h')) FROM workq_claim('columns', 'w', max_jobs => 4);
SELECT DISTINCT noted FROM workq.leases;
SELECT DISTINCT host FROM workq.claims;
SELECT claim_id AS c1, lead(claim_id) OVER (ORDER BY job_id) AS c2, lead(claim_id, 2) OVER (ORDER BY job_id) AS c3
  FROM workq.active_claims WHERE queue = 'columns' ORDER BY job_id LIMIT 1 \gset
SELECT workq_release(:'c1'), workq_release(:'c2', delay => '1 h'), workq_park(:'c3');
SELECT extra FROM workq.ready ORDER BY ready_since LIMIT 1;
SELECT DISTINCT noted FROM workq.scheduled;
SELECT DISTINCT noted FROM workq.held;

-- refused, and nothing is left of it
SELECT pg_temp.try($$SELECT workq_enqueue('columns', '"bad"')$$);
ALTER TABLE workq.leases ADD COLUMN wanted int;
SELECT count(*) FROM workq_ack_batch(ARRAY(SELECT claim_id FROM workq.active_claims WHERE queue = 'columns'));
ALTER TABLE workq.leases ALTER COLUMN wanted SET NOT NULL;
SELECT pg_temp.try($$SELECT count(*) FROM workq_claim('columns', 'w')$$);
SELECT * FROM workq_check();
ALTER TABLE workq.leases DROP COLUMN wanted;

-- what rewrites a table finds nothing wrong
ALTER TABLE workq.ready ADD COLUMN rewritten timestamptz DEFAULT clock_timestamp();
ALTER TABLE workq.ready DROP COLUMN rewritten, DROP COLUMN extra, DROP COLUMN plain, DROP COLUMN twice;
ALTER TABLE workq.leases DROP COLUMN noted;
ALTER TABLE workq.scheduled DROP COLUMN noted;
ALTER TABLE workq.held DROP COLUMN noted;
ALTER TABLE workq.dedup DROP COLUMN made_at;
ALTER TABLE workq.jobs DROP COLUMN region, DROP CONSTRAINT no_bad;
ALTER TABLE workq.claims DROP COLUMN host;
SELECT count(*) FROM workq_claim('columns', 'w', max_jobs => 200);
SELECT * FROM workq_check();
SELECT workq_drop_queue('columns', confirm => true);
