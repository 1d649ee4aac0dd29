--
-- What the log and the live tables must say together, whatever happened: a row
-- for each violation, none is what you want.  Run it when nothing else is going
-- on (WorkqHistory.pm does), in a database that has all its segments.
--
-- A claim ends exactly once, or holds a lease.  "failed" with a deadline is a
-- failure with on_fail => 'hold_lease': the lease's end is the claim's.  "failed"
-- followed by a verdict is one that the error map has turned into it.
--
WITH
claimed AS (
    SELECT * FROM workq.claims WHERE event = 'claimed'
),
mapped AS (
    SELECT f.job_id, f.claim_id, f.number
      FROM workq.claims f JOIN workq.claims v ON v.job_id = f.job_id AND v.claim_id = f.claim_id AND v.number = f.number + 1
     WHERE f.event = 'failed' AND f.decision = 'mapped' AND v.event IN ('business_error', 'status')
),
events AS (
    SELECT * FROM workq.claims c
     WHERE NOT EXISTS (SELECT FROM mapped m WHERE m.job_id = c.job_id AND m.number = c.number)
),
ends AS (
    SELECT * FROM events
     WHERE event IN ('acked', 'business_error', 'status', 'released', 'expired', 'parked')
        OR (event = 'failed' AND deadline IS NULL)
),
final AS (
    SELECT job_id, count(*) AS n FROM workq.claims
     WHERE event IN ('acked', 'business_error', 'status', 'cancelled', 'purged', 'dropped') GROUP BY job_id
),
live AS (
    SELECT job_id, queue_id, attempt, failures, 'ready' AS place FROM workq.ready
    UNION ALL SELECT job_id, queue_id, attempt, failures, 'leased' FROM workq.leases
    UNION ALL SELECT job_id, queue_id, attempt, failures, 'scheduled' FROM workq.scheduled
    UNION ALL SELECT job_id, queue_id, attempt, failures, 'held' FROM workq.held
),
attempts AS (
    SELECT job_id, count(*) AS claims, min(attempt) AS first, max(attempt) AS last,
        count(DISTINCT attempt) AS different
      FROM claimed GROUP BY job_id
),
last_event AS (
    SELECT DISTINCT ON (job_id) * FROM workq.claims ORDER BY job_id, number DESC
),
-- events that a response goes with, and what it says
verdicts (event, outcome) AS (
    VALUES ('acked', 'succeeded'), ('business_error', 'error'), ('status', 'status'),
           ('dead', 'dead'), ('cancelled', 'cancelled'), ('purged', 'purged')
),
existing AS (
    -- jobs of a queue that was dropped are neither live nor done
    SELECT j.* FROM workq.jobs j WHERE EXISTS (SELECT FROM workq.queues q WHERE q.queue_id = j.queue_id)
)
SELECT 'a claim id twice' AS violation, min(job_id) AS job_id, claim_id || ' ' || count(*) AS detail
  FROM claimed GROUP BY claim_id HAVING count(*) > 1
UNION ALL
SELECT 'attempts are not 1, 2, 3 ...', job_id, format('%s claims, %s to %s, %s different', claims, first, last, different)
  FROM attempts WHERE first <> 1 OR last <> claims OR different <> claims
UNION ALL
SELECT 'claim that ended more than once', job_id, claim_id || ': ' || string_agg(event, ', ' ORDER BY at)
  FROM ends WHERE claim_id IS NOT NULL GROUP BY job_id, claim_id HAVING count(*) > 1
UNION ALL
SELECT 'end of a claim that never was', e.job_id, e.claim_id || ' ' || e.event
  FROM ends e WHERE NOT EXISTS (SELECT FROM claimed c WHERE c.job_id = e.job_id AND c.claim_id = e.claim_id AND c.attempt = e.attempt)
UNION ALL
SELECT 'claim that did not end and holds no lease', c.job_id, c.claim_id || ' attempt ' || c.attempt
  FROM claimed c JOIN existing USING (job_id)
 WHERE NOT EXISTS (SELECT FROM ends e WHERE e.job_id = c.job_id AND e.claim_id = c.claim_id)
   AND NOT EXISTS (SELECT FROM workq.leases l WHERE l.job_id = c.job_id AND l.claim_id = c.claim_id)
UNION ALL
SELECT 'lease of a claim that ended, or never was', l.job_id, l.claim_id || ' attempt ' || l.attempt
  FROM workq.leases l
 WHERE EXISTS (SELECT FROM ends e WHERE e.job_id = l.job_id AND e.claim_id = l.claim_id)
    OR NOT EXISTS (SELECT FROM claimed c WHERE c.job_id = l.job_id AND c.claim_id = l.claim_id AND c.attempt = l.attempt)
UNION ALL
SELECT 'said by a claim that had not begun', s.job_id, s.claim_id || ' ' || s.event
  FROM workq.claims s
 WHERE s.event IN ('renewed', 'progress', 'checkpoint')
   AND NOT EXISTS (SELECT FROM claimed c WHERE c.job_id = s.job_id AND c.claim_id = s.claim_id AND c.attempt = s.attempt AND c.number < s.number)
UNION ALL
SELECT 'said by a claim that had ended', s.job_id, s.claim_id || ' ' || s.event
  FROM workq.claims s JOIN ends e ON e.job_id = s.job_id AND e.claim_id = s.claim_id
 WHERE s.event IN ('renewed', 'progress', 'checkpoint') AND e.number < s.number
UNION ALL
SELECT 'a step twice', job_id, reason FROM workq.claims WHERE event = 'checkpoint' GROUP BY job_id, reason HAVING count(*) > 1
UNION ALL
SELECT 'the number of an event twice', job_id, number::text FROM workq.claims GROUP BY job_id, number HAVING count(*) > 1
UNION ALL
SELECT 'job that was done more than once', job_id, n || ' times' FROM final WHERE n > 1
UNION ALL
SELECT 'claimed again after it was done', f.job_id, format('%s by attempt %s of %s', f.event, f.attempt, a.last)
  FROM workq.claims f JOIN attempts a USING (job_id) WHERE f.event IN ('acked', 'business_error', 'status', 'cancelled', 'purged') AND f.attempt < a.last
UNION ALL
SELECT 'lost: neither live nor done', job_id, NULL
  FROM existing WHERE job_id NOT IN (SELECT job_id FROM live) AND job_id NOT IN (SELECT job_id FROM final)
UNION ALL
SELECT 'live and done', job_id, place FROM live JOIN final USING (job_id)
UNION ALL
SELECT 'in more than one live table', job_id, string_agg(place, ', ') FROM live GROUP BY job_id HAVING count(*) > 1
UNION ALL
SELECT 'place and last event differ', job_id, format('%s, but %s', place, coalesce(e.event, 'no event'))
  FROM live l LEFT JOIN last_event e USING (job_id)
 WHERE NOT CASE place
       WHEN 'ready' THEN e.event IS NULL OR e.event IN ('released', 'failed', 'expired', 'unparked', 'requeued')
       WHEN 'scheduled' THEN e.event IS NULL OR (e.event IN ('released', 'failed', 'unparked') AND e.due IS NOT NULL)
       WHEN 'leased' THEN e.event IN ('claimed', 'renewed', 'progress', 'checkpoint', 'cancel_requested') OR (e.event = 'failed' AND e.deadline IS NOT NULL)
       ELSE e.event IN ('parked', 'dead') END
UNION ALL
SELECT 'live but not in the log', job_id, place FROM live WHERE job_id NOT IN (SELECT job_id FROM workq.jobs)
UNION ALL
SELECT 'live with another number of attempts than claims', job_id, format('%s: %s and %s', place, attempt, coalesce(claims, 0))
  FROM live LEFT JOIN attempts USING (job_id) WHERE attempt <> coalesce(claims, 0)
UNION ALL
SELECT 'outcomes and responses differ', coalesce(e.job_id, r.job_id), format('claim %s: %s outcomes, %s responses', coalesce(e.claim_id, r.claim_id), coalesce(e.n, 0), coalesce(r.n, 0))
  FROM (SELECT job_id, claim_id, count(*) AS n FROM events WHERE event IN ('acked', 'failed', 'business_error', 'status') GROUP BY 1, 2) e
  FULL JOIN (SELECT job_id, claim_id, count(*) AS n FROM workq.responses o
                WHERE claim_id IS NOT NULL      -- none: cancelled or purged while nobody held it
                  AND NOT EXISTS (SELECT FROM workq.claims x WHERE x.job_id = o.job_id AND x.claim_id = o.claim_id AND x.at = o.at AND x.event IN ('expired', 'released', 'parked'))
                GROUP BY 1, 2) r USING (job_id, claim_id)
 WHERE e.n IS DISTINCT FROM r.n
UNION ALL
SELECT 'verdicts and responses differ', coalesce(e.job_id, r.job_id), format('%s: %s events, %s responses', outcome, coalesce(e.n, 0), coalesce(r.n, 0))
  FROM (SELECT job_id, outcome, count(*) AS n FROM workq.claims JOIN verdicts USING (event) GROUP BY 1, 2) e
  FULL JOIN (SELECT job_id, outcome, count(*) AS n FROM workq.responses WHERE outcome <> 'retry' GROUP BY 1, 2) r USING (job_id, outcome)
 WHERE e.n IS DISTINCT FROM r.n
UNION ALL
SELECT 'failures not as many as failed and expired', l.job_id, format('%s: %s and %s', l.place, l.failures, coalesce(f.n, 0))
  FROM live l
  LEFT JOIN (SELECT job_id, count(DISTINCT claim_id) AS n FROM workq.claims WHERE event IN ('failed', 'expired') GROUP BY 1) f USING (job_id)
 WHERE l.failures <> coalesce(f.n, 0)
   AND l.job_id NOT IN (SELECT job_id FROM workq.claims WHERE event = 'requeued')
UNION ALL
SELECT 'deduplication key of a job that is not alive', job_id, dedup_key
  FROM workq.dedup WHERE job_id NOT IN (SELECT job_id FROM live WHERE place <> 'held')
UNION ALL
SELECT 'job that is alive without its deduplication key', job_id, dedup_key
  FROM existing j JOIN live l USING (job_id) WHERE dedup_key IS NOT NULL AND place <> 'held'
   AND NOT EXISTS (SELECT FROM workq.dedup d WHERE d.queue_id = j.queue_id AND d.dedup_key = j.dedup_key AND d.job_id = j.job_id)
UNION ALL
SELECT 'workq_check', NULL, c::text FROM workq_check() c
