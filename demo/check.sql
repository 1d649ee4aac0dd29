-- The books must balance: each line counts what must not be.
-- :lines is the number of lines in the file.
WITH jobs AS (
    SELECT DISTINCT job_id FROM demo.submitted
), acked AS (
    SELECT job_id FROM workq.claims WHERE event = 'acked'
), dead AS (
    SELECT job_id FROM workq.held WHERE state = 'dead'
), claims AS (
    SELECT b.job_id, b.attempt, b.claim_id, b.at AS began,
        count(e.*) AS ends, max(e.at) AS ended
    FROM workq.claims b
    LEFT JOIN workq.claims e ON e.job_id = b.job_id
        AND e.claim_id = b.claim_id
        AND e.event IN ('acked', 'failed', 'released', 'expired')
    WHERE b.event = 'claimed'
    GROUP BY b.job_id, b.attempt, b.claim_id, b.at
), turns AS (
    SELECT *, lag(ended) OVER w AS previous_ended,
        lag(attempt, 1, 0) OVER w AS previous_attempt
    FROM claims
    WINDOW w AS (PARTITION BY job_id ORDER BY attempt, began)
)
SELECT 'lines of the file that became no job',
    :lines - (SELECT count(*) FROM demo.submitted)
UNION ALL
SELECT 'jobs that are lost: neither done nor dead',
    (SELECT count(*) FROM jobs WHERE job_id NOT IN (SELECT job_id FROM acked)
        AND job_id NOT IN (SELECT job_id FROM dead))
UNION ALL
SELECT 'jobs that are both done and dead, or done twice',
    (SELECT count(*) FROM acked JOIN dead USING (job_id)) +
    (SELECT count(*) - count(DISTINCT job_id) FROM acked)
UNION ALL
SELECT 'jobs still ready, due later or leased',
    (SELECT count(*) FROM workq.ready) +
    (SELECT count(*) FROM workq.scheduled) +
    (SELECT count(*) FROM workq.leases)
UNION ALL
SELECT 'jobs done whose result is missing',
    (SELECT count(*) FROM acked
        WHERE job_id NOT IN (SELECT job_id FROM demo.results))
UNION ALL
SELECT 'jobs with two results',
    (SELECT count(*) - count(DISTINCT job_id) FROM demo.results)
UNION ALL
SELECT 'results of jobs that are not done',
    (SELECT count(*) FROM demo.results
        WHERE job_id NOT IN (SELECT job_id FROM acked))
UNION ALL
SELECT 'jobs done without exactly one response',
    (SELECT count(*) FROM acked a WHERE 1 <> (SELECT count(*)
        FROM workq.responses r
        WHERE r.job_id = a.job_id AND r.outcome = 'succeeded'))
UNION ALL
SELECT 'claims that did not end exactly once',
    (SELECT count(*) FROM claims WHERE ends <> 1)
UNION ALL
SELECT 'claims that began before the last one ended',
    (SELECT count(*) FROM turns WHERE began < previous_ended)
UNION ALL
SELECT 'attempts handed out twice, or left out',
    (SELECT count(*) FROM turns WHERE attempt <> previous_attempt + 1)
UNION ALL
SELECT 'differences between shared memory and tables',
    (SELECT count(*) FROM workq_check());
