-- Two queues for the same load: who has waited for longest comes first, and
-- everybody in turn.  acme gets five turns where others get one.
SELECT workq_create_queue('by_age');
SELECT workq_configure('by_age', strategy => 'fifo');
SELECT workq_create_queue('by_share');
SELECT workq_configure('by_share', strategy => 'drr', fairness_key => 'tenant',
    weights => 'acme:5');

SELECT workq_grant(queue, 'demo_producer', 'enqueue'), workq_grant(queue, 'demo_worker', 'claim')
FROM unnest(ARRAY['by_age', 'by_share']) queue;

CREATE TABLE demo.spans (
    queue       text        PRIMARY KEY,
    began       timestamptz NOT NULL,
    ended       timestamptz
);

-- How long each job waited for its first claim, from workq's log.  One that
-- was not claimed when the time was up has waited until then, at least.
CREATE VIEW demo.waits AS
SELECT s.queue, j.tenant,
    extract(epoch FROM j.enqueued_at - s.began)::float8 AS enqueued,
    extract(epoch FROM least(c.at, s.ended) - j.enqueued_at)::float8 AS waited,
    coalesce(c.at < s.ended, false) AS served
FROM demo.spans s
JOIN workq.queues q ON q.name = s.queue
JOIN workq.jobs j ON j.queue_id = q.queue_id AND j.enqueued_at < s.ended
LEFT JOIN workq.claims c ON c.job_id = j.job_id AND c.event = 'claimed' AND c.attempt = 1;

CREATE VIEW demo.waits_by_tenant AS
SELECT queue, tenant, count(*) AS jobs, count(*) FILTER (WHERE served) AS served,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY waited) AS p50,
    percentile_disc(0.95) WITHIN GROUP (ORDER BY waited) AS p95,
    max(waited) AS max
FROM demo.waits GROUP BY queue, tenant;
