-- What happened to every job, from workq's log.
\pset footer off
WITH jobs AS (
    SELECT DISTINCT job_id FROM demo.submitted
), log AS (
    SELECT job_id,
        count(*) FILTER (WHERE event = 'claimed') AS claims,
        count(*) FILTER (WHERE event = 'failed') AS failed,
        count(*) FILTER (WHERE event = 'expired') AS expired,
        count(*) FILTER (WHERE event = 'released') AS released,
        count(*) FILTER (WHERE event = 'renewed') AS renewed,
        bool_or(event = 'acked') AS acked,
        bool_or(event = 'dead') AS dead
    FROM workq.claims GROUP BY job_id
), fate AS (
    SELECT *, CASE
        WHEN dead AND expired >= failed THEN 'dead: it killed its workers'
        WHEN dead THEN 'dead: it failed every time'
        WHEN NOT acked THEN 'not finished'
        WHEN expired > 0 THEN 'done after a worker died or was too slow'
        WHEN failed > 0 THEN 'done after a failure'
        WHEN released > 0 THEN 'done after a worker gave it back'
        ELSE 'done at the first attempt' END AS "what happened"
    FROM jobs LEFT JOIN log USING (job_id)
)
SELECT coalesce("what happened", 'all') AS "what happened", count(*) AS jobs,
    sum(claims) AS claims, sum(renewed) AS renewals, sum(failed) AS failures,
    sum(expired) AS "expired leases", sum(released) AS releases
FROM fate GROUP BY ROLLUP ("what happened")
ORDER BY GROUPING("what happened"), jobs DESC;
