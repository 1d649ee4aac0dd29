\echo Use "CREATE EXTENSION workq" to load this file. \quit

/*
 * Tables live in the schema workq, functions in the schema the extension is
 * created in.  The tables are granted to nobody: the verbs check rights
 * themselves.  src/store.c knows the columns by their numbers; a test compares
 * the two.
 */
CREATE SCHEMA workq;
REVOKE ALL ON SCHEMA workq FROM PUBLIC;
GRANT USAGE ON SCHEMA workq TO PUBLIC;

/* ------------------------------------------------------------------------
 * Catalog
 * ------------------------------------------------------------------------ */

/* INCREMENT is the block of job ids that one fetch reserves. */
CREATE SEQUENCE workq.job_ids AS bigint INCREMENT BY 1000 START 1 MAXVALUE 72057594037926936;
CREATE SEQUENCE workq.queue_ids AS integer;

/* What is added to a transaction's id to make it a place in the order of
 * responses.  Each server that uses them sets its own: not to be restored. */
CREATE SEQUENCE workq.response_base AS bigint MINVALUE -9223372036854775808;

/* A setting that is NULL is inherited from the server's workq.* setting;
 * times are in milliseconds. */
CREATE TABLE workq.queues (
    queue_id        integer     NOT NULL DEFAULT pg_catalog.nextval('workq.queue_ids'::pg_catalog.regclass),
    name            text        NOT NULL COLLATE pg_catalog."C",
    owner           pg_catalog.regrole NOT NULL,
    created_at      timestamptz NOT NULL,
    paused          boolean     NOT NULL DEFAULT false,
    enqueue_paused  boolean     NOT NULL DEFAULT false,
    policy_version  integer     NOT NULL DEFAULT 1,
    strategy        text,
    fairness_key    text,
    quantum         integer,
    starvation_age  bigint,
    starvation_mode text,
    promote_normal_after    bigint,
    promote_low_after       bigint,
    max_concurrent_per_key  integer,
    default_weight  integer,
    max_lease       bigint,
    max_attempts    integer,
    retry_base      bigint,
    retry_cap       bigint,
    retry_kind      text,
    retry_factor    integer,
    retry_jitter    integer,
    trust           text,
    notify_every    bigint,
    weights         text,
    limited_keys    integer     NOT NULL DEFAULT 0,     -- in workq.keys: capped or paused
    CONSTRAINT queues_pkey PRIMARY KEY (queue_id),
    CONSTRAINT queues_name_key UNIQUE (name)
) WITH (fillfactor = 50);

/* A fairness key's own weight and cap. */
CREATE TABLE workq.keys (
    queue_id        integer     NOT NULL,
    key             text        NOT NULL COLLATE pg_catalog."C",
    weight          integer,
    max_concurrent  integer,
    CONSTRAINT keys_pkey PRIMARY KEY (queue_id, key)
);

/* Rules for fault codes, tried by ord; the first whose pattern matches holds. */
CREATE TABLE workq.error_map (
    queue_id        integer     NOT NULL,
    ord             integer     NOT NULL,
    pattern         text        NOT NULL COLLATE pg_catalog."C",
    action          text        NOT NULL,
    code            text,
    value           jsonb,
    retry           jsonb,
    CONSTRAINT error_map_pkey PRIMARY KEY (queue_id, ord)
);

/* grantee 0 is PUBLIC */
CREATE TABLE workq.grants (
    queue_id        integer     NOT NULL,
    grantee         pg_catalog.regrole NOT NULL,
    privilege       text        NOT NULL,
    grantor         pg_catalog.regrole NOT NULL,
    granted_at      timestamptz NOT NULL,
    CONSTRAINT grants_pkey PRIMARY KEY (queue_id, grantee, privilege)
);

/* Job ids from_job_id up to, not including, to_job_id live in the tables
 * jobs_<segment>, claims_<segment> and responses_<segment>. */
CREATE TABLE workq.segments (
    segment         integer     NOT NULL,
    from_job_id     bigint      NOT NULL,
    to_job_id       bigint      NOT NULL,
    created_at      timestamptz NOT NULL,
    CONSTRAINT segments_pkey PRIMARY KEY (segment)
);

/* ------------------------------------------------------------------------
 * Event log: append-only, partitioned by job_id into segments
 * ------------------------------------------------------------------------ */

CREATE TABLE workq.policies (
    queue_id        integer     NOT NULL,
    version         integer     NOT NULL,
    at              timestamptz NOT NULL,
    event           text        NOT NULL,
    by_role         text        NOT NULL,
    queue           text        NOT NULL,
    settings        jsonb,
    CONSTRAINT policies_pkey PRIMARY KEY (queue_id, version)
);

CREATE TABLE workq.jobs (
    job_id          bigint      NOT NULL,
    enqueued_at     timestamptz NOT NULL,
    run_at          timestamptz,
    queue_id        integer     NOT NULL,
    max_attempts    integer     NOT NULL,
    priority        smallint    NOT NULL,
    payload         jsonb       NOT NULL,
    headers         jsonb,
    tenant          text        COLLATE pg_catalog."C",
    binding         text        COLLATE pg_catalog."C",
    trigger_id      text        COLLATE pg_catalog."C",
    lane            text        COLLATE pg_catalog."C",
    dedup_key       text        COLLATE pg_catalog."C",
    correlation     text        COLLATE pg_catalog."C",
    options         jsonb
) PARTITION BY RANGE (job_id);

CREATE TABLE workq.claims (
    job_id          bigint      NOT NULL,
    at              timestamptz NOT NULL,
    queue_id        integer     NOT NULL,
    attempt         integer     NOT NULL,
    failures        integer     NOT NULL,
    number          integer     NOT NULL,
    priority        smallint    NOT NULL,
    event           text        NOT NULL COLLATE pg_catalog."C",
    claim_id        uuid,
    deadline        timestamptz,
    ready_since     timestamptz,
    promotion_deadline timestamptz,
    due             timestamptz,
    round           bigint,
    credit          bigint,
    weight          integer,
    policy_version  integer,
    lane            text        COLLATE pg_catalog."C",
    worker          text        COLLATE pg_catalog."C",
    decision        text        COLLATE pg_catalog."C",
    fairness_key    text        COLLATE pg_catalog."C",
    reason          text,
    body            jsonb
) PARTITION BY RANGE (job_id);

CREATE TABLE workq.responses (
    job_id          bigint      NOT NULL,
    at              timestamptz NOT NULL,
    writer          bigint,
    queue_id        integer     NOT NULL,
    attempt         integer     NOT NULL,
    number          integer     NOT NULL,
    claim_id        uuid,
    outcome         text        NOT NULL COLLATE pg_catalog."C",
    worker          text        COLLATE pg_catalog."C",
    code            text        COLLATE pg_catalog."C",
    message         text,
    body            jsonb,
    correlation     text        COLLATE pg_catalog."C"
) PARTITION BY RANGE (job_id);

/* ------------------------------------------------------------------------
 * Live state: narrow rows; a job that is not done is in exactly one of ready,
 * leases, scheduled and held.  The first nine columns are the same in all.
 * They live on churn: vacuum comes often, in small steps, and gives no pages
 * back (truncation would lock everybody out).
 * ------------------------------------------------------------------------ */

CREATE TABLE workq.ready (
    job_id          bigint      NOT NULL,
    ready_since     timestamptz NOT NULL,
    queue_id        integer     NOT NULL,
    attempt         integer     NOT NULL,
    failures        integer     NOT NULL,
    max_attempts    integer     NOT NULL,
    events          integer     NOT NULL,
    priority        smallint    NOT NULL,
    flags           smallint    NOT NULL,
    lane            text        NOT NULL COLLATE pg_catalog."C"
);
CREATE UNIQUE INDEX ready_order ON workq.ready (queue_id, lane, priority, ready_since, job_id);
ALTER TABLE workq.ready REPLICA IDENTITY USING INDEX ready_order;

CREATE TABLE workq.leases (
    job_id          bigint      NOT NULL,
    ready_since     timestamptz NOT NULL,
    queue_id        integer     NOT NULL,
    attempt         integer     NOT NULL,
    failures        integer     NOT NULL,
    max_attempts    integer     NOT NULL,
    events          integer     NOT NULL,
    priority        smallint    NOT NULL,
    flags           smallint    NOT NULL,
    lane            text        NOT NULL COLLATE pg_catalog."C",
    claim_id        uuid        NOT NULL,
    claimed_at      timestamptz NOT NULL,
    deadline        timestamptz NOT NULL,
    worker          text        NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT leases_pkey PRIMARY KEY (job_id)
);
CREATE INDEX leases_deadline ON workq.leases (queue_id, deadline, job_id);

/* ready_since is the due time */
CREATE TABLE workq.scheduled (
    job_id          bigint      NOT NULL,
    ready_since     timestamptz NOT NULL,
    queue_id        integer     NOT NULL,
    attempt         integer     NOT NULL,
    failures        integer     NOT NULL,
    max_attempts    integer     NOT NULL,
    events          integer     NOT NULL,
    priority        smallint    NOT NULL,
    flags           smallint    NOT NULL,
    lane            text        NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT scheduled_pkey PRIMARY KEY (job_id)
);
CREATE INDEX scheduled_due ON workq.scheduled (queue_id, ready_since, job_id);

CREATE TABLE workq.held (
    job_id          bigint      NOT NULL,
    ready_since     timestamptz NOT NULL,
    queue_id        integer     NOT NULL,
    attempt         integer     NOT NULL,
    failures        integer     NOT NULL,
    max_attempts    integer     NOT NULL,
    events          integer     NOT NULL,
    priority        smallint    NOT NULL,
    flags           smallint    NOT NULL,
    lane            text        NOT NULL COLLATE pg_catalog."C",
    held_at         timestamptz NOT NULL,
    state           text        NOT NULL COLLATE pg_catalog."C",
    reason          text,
    CONSTRAINT held_pkey PRIMARY KEY (job_id)
);
CREATE INDEX held_queue ON workq.held (queue_id, job_id);

CREATE TABLE workq.dedup (
    queue_id        integer     NOT NULL,
    dedup_key       text        NOT NULL COLLATE pg_catalog."C",
    job_id          bigint      NOT NULL,
    CONSTRAINT dedup_pkey PRIMARY KEY (queue_id, dedup_key)
);

/* ------------------------------------------------------------------------
 * Live tables: storage, foreign hands
 * ------------------------------------------------------------------------ */

/*
 * Vacuum comes after a few thousand dead rows and is throttled to a fraction
 * of a core: with an old snapshot open it finds nothing to remove and must not
 * cost more than that.  Nothing but inserts is no reason to vacuum here, and
 * statistics matter only to the views.
 */
ALTER TABLE workq.ready SET (
    vacuum_truncate = off,
    autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 10, autovacuum_vacuum_cost_limit = 200,
    autovacuum_analyze_threshold = 50000, autovacuum_analyze_scale_factor = 0.5
);
/* renewing updates in place */
ALTER TABLE workq.leases SET (
    fillfactor = 80, vacuum_truncate = off,
    autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 10, autovacuum_vacuum_cost_limit = 200,
    autovacuum_analyze_threshold = 50000, autovacuum_analyze_scale_factor = 0.5
);
ALTER TABLE workq.scheduled SET (
    vacuum_truncate = off,
    autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 10, autovacuum_vacuum_cost_limit = 200,
    autovacuum_analyze_threshold = 50000, autovacuum_analyze_scale_factor = 0.5
);
ALTER TABLE workq.held SET (
    vacuum_truncate = off,
    autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 10, autovacuum_vacuum_cost_limit = 200,
    autovacuum_analyze_threshold = 50000, autovacuum_analyze_scale_factor = 0.5
);
ALTER TABLE workq.dedup SET (
    vacuum_truncate = off,
    autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 10, autovacuum_vacuum_cost_limit = 200,
    autovacuum_analyze_threshold = 50000, autovacuum_analyze_scale_factor = 0.5
);

/*
 * Direct access fires no triggers, so these see foreign hands only: a restore,
 * logical replication's apply worker, a superuser.  Before the statement: one
 * that fails half-way has had rows in hand, too.
 */
CREATE FUNCTION workq.foreign_write() RETURNS trigger
AS 'MODULE_PATHNAME', 'workq_foreign_write'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION workq.foreign_write() FROM PUBLIC;
COMMENT ON FUNCTION workq.foreign_write() IS
'Trigger on the live tables and the catalog: when anybody but workq writes to them, the database''s queues are loaded into shared memory anew after that transaction.';

CREATE TRIGGER foreign_write BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON workq.queues
    FOR EACH STATEMENT EXECUTE FUNCTION workq.foreign_write();
CREATE TRIGGER foreign_write BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON workq.keys
    FOR EACH STATEMENT EXECUTE FUNCTION workq.foreign_write();
CREATE TRIGGER foreign_write BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON workq.grants
    FOR EACH STATEMENT EXECUTE FUNCTION workq.foreign_write();
CREATE TRIGGER foreign_write BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON workq.error_map
    FOR EACH STATEMENT EXECUTE FUNCTION workq.foreign_write();
CREATE TRIGGER foreign_write BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON workq.ready
    FOR EACH STATEMENT EXECUTE FUNCTION workq.foreign_write();
CREATE TRIGGER foreign_write BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON workq.leases
    FOR EACH STATEMENT EXECUTE FUNCTION workq.foreign_write();
CREATE TRIGGER foreign_write BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON workq.scheduled
    FOR EACH STATEMENT EXECUTE FUNCTION workq.foreign_write();
CREATE TRIGGER foreign_write BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON workq.held
    FOR EACH STATEMENT EXECUTE FUNCTION workq.foreign_write();
CREATE TRIGGER foreign_write BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON workq.dedup
    FOR EACH STATEMENT EXECUTE FUNCTION workq.foreign_write();
ALTER TABLE workq.queues ENABLE ALWAYS TRIGGER foreign_write;
ALTER TABLE workq.keys ENABLE ALWAYS TRIGGER foreign_write;
ALTER TABLE workq.grants ENABLE ALWAYS TRIGGER foreign_write;
ALTER TABLE workq.error_map ENABLE ALWAYS TRIGGER foreign_write;
ALTER TABLE workq.ready ENABLE ALWAYS TRIGGER foreign_write;
ALTER TABLE workq.leases ENABLE ALWAYS TRIGGER foreign_write;
ALTER TABLE workq.scheduled ENABLE ALWAYS TRIGGER foreign_write;
ALTER TABLE workq.held ENABLE ALWAYS TRIGGER foreign_write;
ALTER TABLE workq.dedup ENABLE ALWAYS TRIGGER foreign_write;

/* Logical replication's apply worker fires triggers for rows only, and only
 * those that are enabled for it; nobody else fires these. */
CREATE TRIGGER foreign_apply BEFORE INSERT OR UPDATE OR DELETE ON workq.queues
    FOR EACH ROW EXECUTE FUNCTION workq.foreign_write();
CREATE TRIGGER foreign_apply BEFORE INSERT OR UPDATE OR DELETE ON workq.keys
    FOR EACH ROW EXECUTE FUNCTION workq.foreign_write();
CREATE TRIGGER foreign_apply BEFORE INSERT OR UPDATE OR DELETE ON workq.grants
    FOR EACH ROW EXECUTE FUNCTION workq.foreign_write();
CREATE TRIGGER foreign_apply BEFORE INSERT OR UPDATE OR DELETE ON workq.error_map
    FOR EACH ROW EXECUTE FUNCTION workq.foreign_write();
CREATE TRIGGER foreign_apply BEFORE INSERT OR UPDATE OR DELETE ON workq.ready
    FOR EACH ROW EXECUTE FUNCTION workq.foreign_write();
CREATE TRIGGER foreign_apply BEFORE INSERT OR UPDATE OR DELETE ON workq.leases
    FOR EACH ROW EXECUTE FUNCTION workq.foreign_write();
CREATE TRIGGER foreign_apply BEFORE INSERT OR UPDATE OR DELETE ON workq.scheduled
    FOR EACH ROW EXECUTE FUNCTION workq.foreign_write();
CREATE TRIGGER foreign_apply BEFORE INSERT OR UPDATE OR DELETE ON workq.held
    FOR EACH ROW EXECUTE FUNCTION workq.foreign_write();
CREATE TRIGGER foreign_apply BEFORE INSERT OR UPDATE OR DELETE ON workq.dedup
    FOR EACH ROW EXECUTE FUNCTION workq.foreign_write();
ALTER TABLE workq.queues ENABLE REPLICA TRIGGER foreign_apply;
ALTER TABLE workq.keys ENABLE REPLICA TRIGGER foreign_apply;
ALTER TABLE workq.grants ENABLE REPLICA TRIGGER foreign_apply;
ALTER TABLE workq.error_map ENABLE REPLICA TRIGGER foreign_apply;
ALTER TABLE workq.ready ENABLE REPLICA TRIGGER foreign_apply;
ALTER TABLE workq.leases ENABLE REPLICA TRIGGER foreign_apply;
ALTER TABLE workq.scheduled ENABLE REPLICA TRIGGER foreign_apply;
ALTER TABLE workq.held ENABLE REPLICA TRIGGER foreign_apply;
ALTER TABLE workq.dedup ENABLE REPLICA TRIGGER foreign_apply;

/* ------------------------------------------------------------------------
 * Dump and restore.  Segments are not members of the extension, so they are
 * dumped like anybody's tables.
 * ------------------------------------------------------------------------ */

SELECT pg_catalog.pg_extension_config_dump('workq.job_ids'::pg_catalog.regclass, '');
SELECT pg_catalog.pg_extension_config_dump('workq.queue_ids'::pg_catalog.regclass, '');
SELECT pg_catalog.pg_extension_config_dump('workq.queues'::pg_catalog.regclass, '');
SELECT pg_catalog.pg_extension_config_dump('workq.keys'::pg_catalog.regclass, '');
SELECT pg_catalog.pg_extension_config_dump('workq.grants'::pg_catalog.regclass, '');
SELECT pg_catalog.pg_extension_config_dump('workq.error_map'::pg_catalog.regclass, '');
SELECT pg_catalog.pg_extension_config_dump('workq.segments'::pg_catalog.regclass, '');
SELECT pg_catalog.pg_extension_config_dump('workq.policies'::pg_catalog.regclass, '');
SELECT pg_catalog.pg_extension_config_dump('workq.ready'::pg_catalog.regclass, '');
SELECT pg_catalog.pg_extension_config_dump('workq.leases'::pg_catalog.regclass, '');
SELECT pg_catalog.pg_extension_config_dump('workq.scheduled'::pg_catalog.regclass, '');
SELECT pg_catalog.pg_extension_config_dump('workq.held'::pg_catalog.regclass, '');
SELECT pg_catalog.pg_extension_config_dump('workq.dedup'::pg_catalog.regclass, '');

/* ------------------------------------------------------------------------
 * What the tables are
 * ------------------------------------------------------------------------ */

COMMENT ON TABLE workq.queues IS 'The queues and their own settings; a setting that is NULL is inherited from the server''s workq.* setting. Times are in milliseconds.';
COMMENT ON TABLE workq.keys IS 'Fairness keys with a weight or a cap of their own (workq_set_key).';
COMMENT ON TABLE workq.grants IS 'Who may do what with a queue (workq_grant); grantee 0 is PUBLIC.';
COMMENT ON TABLE workq.error_map IS 'What fault codes mean (workq_map_error): rules of a queue, tried by ord; the first whose pattern matches holds.';
COMMENT ON TABLE workq.policies IS 'History of the queues: a row per change, with what the policy is from then on. Never updated.';
COMMENT ON TABLE workq.segments IS 'Which job ids live in which segment of the event log.';
COMMENT ON TABLE workq.jobs IS 'Event log: a row per job as it was enqueued. Never updated.';
COMMENT ON TABLE workq.claims IS 'Event log: a row per event of a job. Never updated.';
COMMENT ON TABLE workq.responses IS 'Event log: a row per reported outcome. Never updated.';
COMMENT ON TABLE workq.ready IS 'Live state: jobs that can be claimed now.';
COMMENT ON TABLE workq.leases IS 'Live state: jobs that are held by a claim.';
COMMENT ON TABLE workq.scheduled IS 'Live state: jobs that are due later; ready_since is the due time.';
COMMENT ON TABLE workq.held IS 'Live state: jobs that are set aside, dead or parked.';
COMMENT ON TABLE workq.dedup IS 'Live state: deduplication keys and the living jobs that have them.';

/* ------------------------------------------------------------------------
 * Queues.  None of the functions is STRICT: NULL where a value must be is an
 * error that says so.
 * ------------------------------------------------------------------------ */

CREATE FUNCTION workq_create_queue(queue text, if_not_exists boolean DEFAULT false)
RETURNS boolean
AS 'MODULE_PATHNAME', 'workq_create_queue'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
/* the function does not check rights: EXECUTE on it is the right */
REVOKE ALL ON FUNCTION workq_create_queue(text, boolean) FROM PUBLIC;
COMMENT ON FUNCTION workq_create_queue(text, boolean) IS
'Creates a queue that belongs to the current role and inherits every setting. queue: 1 to 255 bytes, no control characters, no surrounding white space. Returns true, or with if_not_exists false when the queue exists already (waits for a transaction that is creating it). EXECUTE on this function is the right to create queues, also by enqueueing; PUBLIC does not have it. Errors: 42710 exists, 22004/22023/54000 bad name, 53400 more than workq.max_queues.';

CREATE FUNCTION workq_configure(
    queue text,
    strategy text DEFAULT NULL,
    fairness_key text DEFAULT NULL,
    quantum integer DEFAULT NULL,
    starvation_age interval DEFAULT NULL,
    starvation_mode text DEFAULT NULL,
    promote_normal_after interval DEFAULT NULL,
    promote_low_after interval DEFAULT NULL,
    max_concurrent_per_key integer DEFAULT NULL,
    default_weight integer DEFAULT NULL,
    weights text DEFAULT NULL,
    max_lease interval DEFAULT NULL,
    max_attempts integer DEFAULT NULL,
    retry_base interval DEFAULT NULL,
    retry_cap interval DEFAULT NULL,
    retry_kind text DEFAULT NULL,
    retry_factor integer DEFAULT NULL,
    retry_jitter integer DEFAULT NULL,
    trust text DEFAULT NULL,
    notify_every interval DEFAULT NULL)
RETURNS integer
AS 'MODULE_PATHNAME', 'workq_configure'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_configure(text, text, text, integer, interval, text, interval, interval, integer, integer, text, interval, integer, interval, interval, text, integer, integer, text, interval) IS
'Gives a queue settings of its own instead of the server''s workq.* settings; what is NULL stays as it is. strategy: fifo or drr. fairness_key: tenant, binding, trigger-id or tenant-and-binding. quantum: 1 to 1000000. starvation_age: 0 (off) to 24 days. starvation_mode: bounded or strict. promote_normal_after, promote_low_after: 0 (off) to 24 days. max_concurrent_per_key: 0 (no limit) to 1000000. default_weight: 0 (paused) to 1000000. weights: key:weight,key:weight, each weight 0 to 1000000; replaces the queue''s list. max_lease: 1 to 24 days. max_attempts: 1 to 1000000. retry_kind: exponential (the n-th retry comes after retry_base times retry_factor to the power of n - 1, at most retry_cap), fixed (after retry_base) or none. retry_base, retry_cap: 0 to 24 days. retry_factor: 1 to 100. retry_jitter: 0 to 100 percent by which a delay may be shorter or longer. trust: engine (error map and retry policy are applied by the database) or worker (they are shown to workers by workq_claim_policy, whose own verdict stands). notify_every: 0 (off) to 24 days; the background worker sends NOTIFY workq with the queue''s name when the queue goes from empty to ready, and again while it stays ready, at most that often. Intervals are whole milliseconds without months or years. Takes effect at commit; a max_concurrent_per_key holds for the same transaction''s own claims at once, if it is lower than the one before. Returns the queue''s policy version, a new one if anything changed. Needs the right to manage the queue. Errors: 42704 no such queue, 42501, 22004/22023/22008/54000 bad argument (nothing is changed).';

CREATE FUNCTION workq_set_key(queue text, key text, weight integer DEFAULT NULL, max_concurrent integer DEFAULT NULL)
RETURNS integer
AS 'MODULE_PATHNAME', 'workq_set_key'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_set_key(text, text, integer, integer) IS
'Gives one fairness key of a queue a weight (0 to 1000000; 0 pauses the key) and a max_concurrent (how many of its jobs may be leased at a time, 0 to 1000000; 0 is no limit) of its own; in fifo, too. One of the two alone leaves the other as it is; neither takes both away. key: a tenant, binding or trigger id as the queue''s fairness_key says; the empty string stands for jobs without one; tenant and binding are separated by U+001F. Takes effect at commit; for the same transaction''s own claims at once as far as it forbids something (a pause, a lower max_concurrent). Returns the queue''s policy version, a new one if anything changed. Needs the right to manage the queue. Errors: 42704 no such queue, 42501, 22004/22023/54000 bad argument.';

CREATE FUNCTION workq_map_error(
    queue text,
    pattern text,
    action text,
    code text DEFAULT NULL,
    value jsonb DEFAULT NULL,
    retry jsonb DEFAULT NULL,
    place integer DEFAULT NULL)
RETURNS integer
AS 'MODULE_PATHNAME', 'workq_map_error'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_map_error(text, text, text, text, jsonb, jsonb, integer) IS
'Says what the fault codes that match a pattern (as LIKE has it, 1 to 255 bytes; a fault without a code matches as the empty string) mean in a queue: when workq_fail reports one, the first matching rule of the queue''s error map holds. action: error (the job is done with a business error: code, else the fault''s; value, else the fault''s body), status (done with a status: value, else the fault''s body), retry (with the policy in retry, an object as for workq_enqueue, over the job''s own; retry_in is not heeded), or dead (at once). A pattern that has a rule gets this one in its place. place: where the rule goes among the others, from 1; NULL: where it was, or last. Up to 100 rules. Not applied when the queue''s trust is worker. Returns the queue''s policy version, a new one if anything changed. Needs the right to manage the queue. Errors: 42704 no such queue, 42501, 22004/22023/22008/54000 bad argument.';

CREATE FUNCTION workq_unmap_error(queue text, pattern text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'workq_unmap_error'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_unmap_error(text, text) IS
'Removes the rule of that pattern (the same text) from a queue''s error map. Returns true, or false if there is none. Needs the right to manage the queue. Errors: 42704 no such queue, 42501, 22004/22023/54000 bad argument.';

CREATE FUNCTION workq_reset(queue text, setting text DEFAULT NULL)
RETURNS integer
AS 'MODULE_PATHNAME', 'workq_reset'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_reset(text, text) IS
'Lets a queue inherit a setting from the server''s workq.* setting again, or all of them if setting is NULL. setting: the name of an argument of workq_configure. What workq_set_key set stays. Returns the queue''s policy version, a new one if anything changed. Needs the right to manage the queue. Errors: 42704 no such queue, 42501, 22004/22023/54000 bad argument.';

CREATE FUNCTION workq_drop_queue(queue text, confirm boolean DEFAULT false, if_exists boolean DEFAULT false)
RETURNS boolean
AS 'MODULE_PATHNAME', 'workq_drop_queue'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_drop_queue(text, boolean, boolean) IS
'Drops a queue with its settings, keys, grants and all its live jobs, leased ones too: their claims are lost. The log of its jobs stays. Waits for every open transaction that has used workq, and makes later ones wait: set lock_timeout to bound that. Returns true, or with if_exists false when there is no such queue. Needs the right to manage the queue. Errors: 22023 without confirm (says how many jobs would go), 42704 no such queue, 42501, 22004/22023/54000 bad argument.';

CREATE FUNCTION workq_pause(queue text, enqueue boolean DEFAULT false, reason text DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'workq_pause'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_pause(text, boolean, text) IS
'Stops claiming from a queue, and with enqueue => true also enqueueing into it; claims that are held go on. On a paused queue, enqueue says anew whether enqueueing stops, too. reason: up to 8192 bytes, kept in workq.policies. Returns true, or false if the queue was paused just so already. Needs the right to manage the queue. Errors: 42704 no such queue, 42501, 22004/22023/54000 bad argument.';

CREATE FUNCTION workq_resume(queue text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'workq_resume'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_resume(text) IS
'Lets claiming from a queue and enqueueing into it go on. Returns true, or false if the queue was not paused. Needs the right to manage the queue. Errors: 42704 no such queue, 42501, 22004/22023/54000 bad argument.';

CREATE FUNCTION workq_grant(queue text, role text, privilege text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'workq_grant'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_grant(text, text, text) IS
'Grants a role, and so its members, a right on a queue. role: the name of a role, or public for everybody. privilege: enqueue, claim (also renewing and ending claims), monitor (see it in the views), or manage (configure, pause, drop, grant; includes monitor). Returns true, or false if the role had that grant already. Needs to own or manage the queue. Errors: 42704 no such queue or role, 42501, 22004/22023/54000 bad argument.';

CREATE FUNCTION workq_revoke(queue text, role text, privilege text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'workq_revoke'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_revoke(text, text, text) IS
'Takes a grant back that workq_grant gave. role, privilege: as there; role may also be the number of a role that has been dropped. Returns true, or false if there was no such grant. Needs to own or manage the queue. Errors: 42704 no such queue or role, 42501, 22004/22023/54000 bad argument.';

/* ------------------------------------------------------------------------
 * Enqueueing
 * ------------------------------------------------------------------------ */

CREATE FUNCTION workq_enqueue(
    queue text,
    payload jsonb,
    priority text DEFAULT 'normal',
    tenant text DEFAULT NULL,
    binding text DEFAULT NULL,
    trigger_id text DEFAULT NULL,
    headers jsonb DEFAULT NULL,
    delay interval DEFAULT NULL,
    run_at timestamptz DEFAULT NULL,
    dedup_key text DEFAULT NULL,
    max_attempts integer DEFAULT NULL,
    correlation text DEFAULT NULL,
    retry jsonb DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME', 'workq_enqueue'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_enqueue(text, jsonb, text, text, text, text, jsonb, interval, timestamptz, text, integer, text, jsonb) IS
'Enqueues a job and returns its id. The queue is created if it does not exist and the current role may create queues. payload, headers: up to 64 MB as jsonb. priority: high, normal or low. tenant, binding, trigger_id, dedup_key, correlation: 1 to 255 bytes, no control characters, no surrounding white space. delay (0 to 10 years) or run_at, not both: the job is due then; a run_at in the past is now. dedup_key: while a job with that key is alive in the queue, its id is returned and nothing is enqueued; waits for a transaction that is enqueueing one. max_attempts: 1 to 1000000 failures until the job is dead, else the queue''s. retry: the job''s own retry policy, an object of any of kind (exponential, fixed, none), base and cap (0 to 24 days, an interval as a string or milliseconds as a number), factor (1 to 100), jitter (0 to 100 percent) and max_attempts; what is not in it is the queue''s. Needs the right to enqueue. Errors: 42704 no such queue, 42501, WQ002 enqueueing is paused, 22004/22023/22008/54000 bad argument, 53400 out of queues or segments.';

CREATE FUNCTION workq_enqueue_batch(queue text, jobs jsonb)
RETURNS TABLE(ord integer, job_id bigint, created boolean)
AS 'MODULE_PATHNAME', 'workq_enqueue_batch'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_enqueue_batch(text, jsonb) IS
'Enqueues many jobs, all or none. jobs: an array of up to 100000 objects whose members are the arguments of workq_enqueue but queue: payload (required), priority, tenant, binding, trigger_id, headers, delay, run_at, dedup_key, max_attempts, correlation, retry. Returns a row per job in the order given: ord (from 1), job_id, and created: false if a living job with the same dedup_key took its place. Needs the right to enqueue. Errors: those of workq_enqueue; a bad element is named by its ord.';

/* ------------------------------------------------------------------------
 * Claiming
 * ------------------------------------------------------------------------ */

/* A named type: the server need not put its columns together for each call. */
CREATE TYPE workq.claim AS (
    claim_id uuid,
    job_id bigint,
    queue text,
    payload jsonb,
    headers jsonb,
    tenant text,
    binding text,
    trigger_id text,
    priority text,
    attempt integer,
    failures integer,
    max_attempts integer,
    deadline timestamptz,
    enqueued_at timestamptz,
    selected_at timestamptz,
    waited interval,
    fairness_key text,
    decision text,
    promotion_deadline timestamptz,
    round bigint,
    credit bigint,
    weight integer,
    policy_version integer,
    correlation text);
COMMENT ON TYPE workq.claim IS
'What workq_claim returns for each job: the job, the claim, and the receipt that says why it was selected.';

CREATE TYPE workq.claim_status AS (
    ord integer,
    claim_id uuid,
    status text,
    sqlstate text,
    deadline timestamptz);
COMMENT ON TYPE workq.claim_status IS
'What the batches of verbs on claims return for each element: ord (from 1, in the order given), claim_id, status (ok, repeated, lost, cancelled or lease_limit), sqlstate (that of the error that the single verb would have raised, or NULL), and the deadline of a claim that goes on.';

CREATE FUNCTION workq_claim(
    queue text,
    worker text,
    lease interval DEFAULT NULL,
    max_jobs integer DEFAULT 1,
    wait interval DEFAULT NULL)
RETURNS SETOF workq.claim
AS 'MODULE_PATHNAME', 'workq_claim'
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10;
COMMENT ON FUNCTION workq_claim(text, text, interval, integer, interval) IS
'Claims up to max_jobs (1 to 100000) jobs, those whose turn it is, in that order; no row if there is none or the queue is paused. Never waits for another claimer. wait: how long to wait for a job if there is none, 0 to 5 minutes; NULL is not to wait. While it waits it holds no lock, but the statement keeps its snapshot, so that workq_wait is better for long waits. worker: who claims, 1 to 255 bytes. lease: how long the claims hold without renewal, at least 1 ms and at most the queue''s max_lease; NULL is 5 minutes, or max_lease if that is shorter. Returns per job: claim_id, to be given to workq_renew and the outcome verbs; the job as it was enqueued; attempt (claims so far, this one included) and failures; deadline (when the lease ends); selected_at and waited (since it became ready); and why it was chosen: fairness_key, decision (priority, fair-share or starvation-deadline), promotion_deadline, round, credit, weight, policy_version. Needs the right to claim. Errors: 42704 no such queue, 42501, 22004/22023/22008/54000 bad argument.';

CREATE FUNCTION workq_claim_any(
    queues text[],
    worker text,
    lease interval DEFAULT NULL,
    max_jobs integer DEFAULT 1,
    wait interval DEFAULT NULL,
    queue_order text DEFAULT 'least-recent')
RETURNS SETOF workq.claim
AS 'MODULE_PATHNAME', 'workq_claim_any'
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10;
COMMENT ON FUNCTION workq_claim_any(text[], text, interval, integer, interval, text) IS
'workq_claim from several queues (1 to 64; one that is named twice counts once). queue_order: least-recent takes each job from the queue, of those that have one, from which a job was claimed longest ago, also within a batch; listed takes from the first queue that has a job. A paused queue is passed over. worker, lease, max_jobs, wait, the rows, the right that is needed (on every queue) and the errors are those of workq_claim; lease NULL is 5 minutes, or a queue''s max_lease if that is shorter. Errors: 42704 one of the queues does not exist, 54000 more than 64 queues.';

CREATE PROCEDURE workq_wait(queues text[], timeout interval DEFAULT '5 min', INOUT ready boolean DEFAULT NULL)
AS 'MODULE_PATHNAME', 'workq_wait'
LANGUAGE c;
COMMENT ON PROCEDURE workq_wait(text[], interval, boolean) IS
'Sleeps until there is something to claim in one of the queues (1 to 64), or for timeout (0 to 1 day; NULL is 5 minutes). ready becomes true, and then the session should claim at once, or false when the time is up. A claim may still find nothing: somebody else was faster. Called outside a transaction block it commits before it sleeps, so that it holds no snapshot and no lock. Waiters are woken one for each job, the one that has waited for longest first. Needs the right to claim from every queue. Errors: 42704 no such queue, 42501, 22004/22023/22008/54000 bad argument.';

CREATE PROCEDURE workq_await(job_id bigint, timeout interval DEFAULT '5 min', INOUT state text DEFAULT NULL)
AS 'MODULE_PATHNAME', 'workq_await'
LANGUAGE c;
COMMENT ON PROCEDURE workq_await(bigint, interval, text) IS
'Sleeps until a job is done or dead, or for timeout (0 to 1 day; NULL is 5 minutes). state becomes what workq_job tells (succeeded, dead, cancelled, ...), or NULL when the time is up. Called outside a transaction block it commits before it sleeps, so that it holds no snapshot and no lock. Needs the right to monitor the queue. Errors: 42704 no such job, 42501, 22004/22023/22008 bad argument.';

CREATE FUNCTION workq_renew(claim_id uuid, lease interval DEFAULT NULL, on_lost text DEFAULT 'error')
RETURNS timestamptz
AS 'MODULE_PATHNAME', 'workq_renew'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_renew(uuid, interval, text) IS
'Extends a claim: its deadline becomes now plus lease (at least 1 ms; NULL is 5 minutes, or the queue''s max_lease if that is shorter), never earlier than it was and never later than when it was claimed plus the queue''s max_lease. Returns the deadline; NULL if the claim is lost and on_lost is report rather than error. Needs the right to claim. Errors: WQ001 the claim is lost, WQ003 max_lease is reached, WQ004 the job is to be cancelled, 42501, 22004/22023/22008 bad argument.';

CREATE FUNCTION workq_renew_batch(claim_ids uuid[], lease interval DEFAULT NULL, on_lost text DEFAULT 'report')
RETURNS SETOF workq.claim_status
AS 'MODULE_PATHNAME', 'workq_renew_batch'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_renew_batch(uuid[], interval, text) IS
'workq_renew for up to 100000 claims. Returns a row per element in the order given: ord (from 1), claim_id, status (ok, or why not: lost, cancelled, lease_limit), sqlstate (NULL, WQ001, WQ004, WQ003) and the deadline. With on_lost => error the first that is not renewed is an error instead. Needs the right to claim. Errors: those of workq_renew.';

/* ------------------------------------------------------------------------
 * Outcomes
 * ------------------------------------------------------------------------ */

CREATE FUNCTION workq_ack(claim_id uuid, result jsonb DEFAULT NULL, on_lost text DEFAULT 'error')
RETURNS boolean
AS 'MODULE_PATHNAME', 'workq_ack'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_ack(uuid, jsonb, text) IS
'Ends a claim: the job succeeded. result: up to 64 MB as jsonb, kept with the job. Returns true, false if this claim has been acknowledged before (nothing changes, the first result stays), and NULL if the claim is lost and on_lost is report rather than error. A claim past its deadline that nobody has taken back still counts. Needs the right to claim. Errors: WQ001 the claim is lost, 42501, 22004/22023/54000 bad argument.';

CREATE FUNCTION workq_ack_batch(claim_ids uuid[], results jsonb[] DEFAULT NULL, on_lost text DEFAULT 'report')
RETURNS SETOF workq.claim_status
AS 'MODULE_PATHNAME', 'workq_ack_batch'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_ack_batch(uuid[], jsonb[], text) IS
'workq_ack for up to 100000 claims. results: as many as claim_ids, or NULL. Returns a row per element in the order given: ord (from 1), claim_id, status (ok, repeated or lost), sqlstate (NULL or WQ001); deadline is NULL. With on_lost => error a lost claim is an error instead. Needs the right to claim. Errors: those of workq_ack, 2202E arrays of different lengths.';

CREATE FUNCTION workq_ack_claim(
    claim_ids uuid[],
    results jsonb[],
    queue text,
    worker text,
    lease interval DEFAULT NULL,
    max_jobs integer DEFAULT 1,
    on_lost text DEFAULT 'error')
RETURNS SETOF workq.claim
AS 'MODULE_PATHNAME', 'workq_ack_claim'
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10;
COMMENT ON FUNCTION workq_ack_claim(uuid[], jsonb[], text, text, interval, integer, text) IS
'Acknowledges up to 100000 claims and claims the next jobs, in one call: workq_ack for each of claim_ids with the result in results (as many, or NULL), then workq_claim(queue, worker, lease, max_jobs), whose rows it returns. The claims may be of any queues. A claim that was acknowledged before is fine; one that is lost is an error, and nothing is done, or, if on_lost is report rather than error, a notice with SQLSTATE WQ001, and the rest is done. Needs the right to claim. Errors: WQ001 a claim is lost, WQ003 the lease is longer than max_lease, 42704 no such queue, 42501, 22004/22023/22008/54000 bad argument, 2202E arrays of different lengths.';

CREATE FUNCTION workq_fail(
    claim_id uuid,
    code text DEFAULT NULL,
    message text DEFAULT NULL,
    body jsonb DEFAULT NULL,
    retry_in interval DEFAULT NULL,
    on_fail text DEFAULT 'retry',
    on_lost text DEFAULT 'error')
RETURNS boolean
AS 'MODULE_PATHNAME', 'workq_fail'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_fail(uuid, text, text, jsonb, interval, text, text) IS
'Ends a claim: a technical fault. What it means is first looked up in the queue''s error map (workq_map_error): a business error, a status, a retry with its own policy, or dead at once. Otherwise the job is tried again after retry_in (0 to 10 years) or as its retry policy says (the job''s, else the queue''s retry_kind, retry_base, retry_factor, retry_cap, retry_jitter), until it has failed max_attempts times: then it is dead and held. on_fail => hold_lease leaves it leased until the lease runs out instead of retry. code, message: up to 8192 bytes; body: up to 64 MB as jsonb. Returns true, false if this claim has failed before (nothing changes), and NULL if the claim is lost and on_lost is report rather than error. Needs the right to claim. Errors: WQ001 the claim is lost, 42501, 22004/22023/22008/54000 bad argument.';

CREATE FUNCTION workq_fail_batch(
    claim_ids uuid[],
    codes text[] DEFAULT NULL,
    messages text[] DEFAULT NULL,
    bodies jsonb[] DEFAULT NULL,
    retry_in interval DEFAULT NULL,
    on_fail text DEFAULT 'retry',
    on_lost text DEFAULT 'report')
RETURNS SETOF workq.claim_status
AS 'MODULE_PATHNAME', 'workq_fail_batch'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_fail_batch(uuid[], text[], text[], jsonb[], interval, text, text) IS
'workq_fail for up to 100000 claims. codes, messages, bodies: as many as claim_ids, or NULL. Returns a row per element in the order given: ord (from 1), claim_id, status (ok, repeated or lost), sqlstate (NULL or WQ001); deadline is NULL. With on_lost => error a lost claim is an error instead. Needs the right to claim. Errors: those of workq_fail, 2202E arrays of different lengths.';

CREATE FUNCTION workq_release(claim_id uuid, delay interval DEFAULT NULL, reason text DEFAULT NULL, on_lost text DEFAULT 'error')
RETURNS boolean
AS 'MODULE_PATHNAME', 'workq_release'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_release(uuid, interval, text, text) IS
'Gives a job back without blame: no failure is counted. Without delay it keeps its place; with one (0 to 10 years) it is due then. reason: up to 8192 bytes. Returns true, false if this claim has been released before (nothing changes), and NULL if the claim is lost and on_lost is report rather than error. Needs the right to claim. Errors: WQ001 the claim is lost, 42501, 22004/22023/22008/54000 bad argument.';

CREATE FUNCTION workq_release_batch(claim_ids uuid[], delay interval DEFAULT NULL, reason text DEFAULT NULL, on_lost text DEFAULT 'report')
RETURNS SETOF workq.claim_status
AS 'MODULE_PATHNAME', 'workq_release_batch'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_release_batch(uuid[], interval, text, text) IS
'workq_release for up to 100000 claims. Returns a row per element in the order given: ord (from 1), claim_id, status (ok, repeated or lost), sqlstate (NULL or WQ001); deadline is NULL. With on_lost => error a lost claim is an error instead. Needs the right to claim. Errors: those of workq_release.';

CREATE FUNCTION workq_claim_policy(claim_id uuid, on_lost text DEFAULT 'error')
RETURNS jsonb
AS 'MODULE_PATHNAME', 'workq_claim_policy'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_claim_policy(uuid, text) IS
'What a worker may know of how faults are judged, an object: trust; and if that is worker, retry (kind, base and cap in milliseconds, factor, jitter, max_attempts, as they hold for this job) and error_map, an array of rules (pattern, action, code, value, retry) in their order. If trust is engine, the database judges and nothing more is shown. NULL if the claim is lost and on_lost is report rather than error. Needs the right to claim. Errors: WQ001 the claim is lost, 42501, 22004/22023 bad argument.';

CREATE FUNCTION workq_report_error(claim_id uuid, code text, message text DEFAULT NULL, body jsonb DEFAULT NULL, on_lost text DEFAULT 'error')
RETURNS boolean
AS 'MODULE_PATHNAME', 'workq_report_error'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_report_error(uuid, text, text, jsonb, text) IS
'Ends a claim: the work was done and its verdict is a business error. Final: the job is done and never retried. code: 1 to 255 bytes; message: up to 8192 bytes; body: up to 64 MB as jsonb. Returns true, false if this claim has reported an error before (nothing changes, the first stays), and NULL if the claim is lost and on_lost is report rather than error. Needs the right to claim. Errors: WQ001 the claim is lost, 42501, 22004/22023/54000 bad argument.';

CREATE FUNCTION workq_report_error_batch(
    claim_ids uuid[],
    codes text[],
    messages text[] DEFAULT NULL,
    bodies jsonb[] DEFAULT NULL,
    on_lost text DEFAULT 'report')
RETURNS SETOF workq.claim_status
AS 'MODULE_PATHNAME', 'workq_report_error_batch'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_report_error_batch(uuid[], text[], text[], jsonb[], text) IS
'workq_report_error for up to 100000 claims. codes, messages, bodies: as many as claim_ids; messages and bodies may be NULL. Returns a row per element in the order given: ord (from 1), claim_id, status (ok, repeated or lost), sqlstate (NULL or WQ001); deadline is NULL. With on_lost => error a lost claim is an error instead. Needs the right to claim. Errors: those of workq_report_error, 2202E arrays of different lengths.';

CREATE FUNCTION workq_report_status(claim_id uuid, value jsonb, on_lost text DEFAULT 'error')
RETURNS boolean
AS 'MODULE_PATHNAME', 'workq_report_status'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_report_status(uuid, jsonb, text) IS
'Ends a claim: the work was done and its verdict is a business status. Final: the job is done and never retried. value: up to 64 MB as jsonb. Returns true, false if this claim has reported a status before (nothing changes, the first stays), and NULL if the claim is lost and on_lost is report rather than error. Needs the right to claim. Errors: WQ001 the claim is lost, 42501, 22004/22023/54000 bad argument.';

CREATE FUNCTION workq_report_status_batch(claim_ids uuid[], "values" jsonb[], on_lost text DEFAULT 'report')
RETURNS SETOF workq.claim_status
AS 'MODULE_PATHNAME', 'workq_report_status_batch'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_report_status_batch(uuid[], jsonb[], text) IS
'workq_report_status for up to 100000 claims. values: as many as claim_ids. Returns a row per element in the order given: ord (from 1), claim_id, status (ok, repeated or lost), sqlstate (NULL or WQ001); deadline is NULL. With on_lost => error a lost claim is an error instead. Needs the right to claim. Errors: those of workq_report_status, 2202E arrays of different lengths.';

CREATE FUNCTION workq_park(claim_id uuid, reason text DEFAULT NULL, on_lost text DEFAULT 'error')
RETURNS boolean
AS 'MODULE_PATHNAME', 'workq_park'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_park(uuid, text, text) IS
'Ends a claim: the job waits for something outside and is set aside, with no lease, until workq_unpark. No failure is counted; attempt counts claims and goes on from where it was. The job keeps its deduplication key. reason: up to 8192 bytes. Returns true, false if this claim has been parked before (nothing changes), and NULL if the claim is lost and on_lost is report rather than error. Needs the right to claim. Errors: WQ001 the claim is lost, 42501, 22004/22023/54000 bad argument.';

CREATE FUNCTION workq_park_batch(claim_ids uuid[], reason text DEFAULT NULL, on_lost text DEFAULT 'report')
RETURNS SETOF workq.claim_status
AS 'MODULE_PATHNAME', 'workq_park_batch'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_park_batch(uuid[], text, text) IS
'workq_park for up to 100000 claims. Returns a row per element in the order given: ord (from 1), claim_id, status (ok, repeated or lost), sqlstate (NULL or WQ001); deadline is NULL. With on_lost => error a lost claim is an error instead. Needs the right to claim. Errors: those of workq_park.';

/* ------------------------------------------------------------------------
 * While a job runs
 * ------------------------------------------------------------------------ */

CREATE FUNCTION workq_progress(claim_id uuid, delta jsonb, on_lost text DEFAULT 'error')
RETURNS integer
AS 'MODULE_PATHNAME', 'workq_progress'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_progress(uuid, jsonb, text) IS
'Appends a part to the stream of the job that a claim holds, for those who read workq_stream. delta: up to 64 MB as jsonb. Returns the part''s position; NULL if the claim is lost, or the job is to be cancelled, and on_lost is report rather than error. Does not extend the lease. Needs the right to claim. Errors: WQ001 the claim is lost, WQ004 the job is to be cancelled, 42501, 22004/22023/54000 bad argument, 54000 the job has 1000000000 events.';

CREATE FUNCTION workq_progress_batch(claim_ids uuid[], deltas jsonb[], on_lost text DEFAULT 'report')
RETURNS SETOF workq.claim_status
AS 'MODULE_PATHNAME', 'workq_progress_batch'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_progress_batch(uuid[], jsonb[], text) IS
'workq_progress for up to 100000 parts. deltas: as many as claim_ids; a claim that is there more than once gets its parts in the order given. Returns a row per element in the order given: ord (from 1), claim_id, status (ok, lost or cancelled), sqlstate (NULL, WQ001 or WQ004) and the deadline of the claim. With on_lost => error the first that is not taken is an error instead. Needs the right to claim. Errors: those of workq_progress, 2202E arrays of different lengths.';

CREATE FUNCTION workq_checkpoint(claim_id uuid, step text, result jsonb DEFAULT NULL, on_lost text DEFAULT 'error')
RETURNS boolean
AS 'MODULE_PATHNAME', 'workq_checkpoint'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_checkpoint(uuid, text, jsonb, text) IS
'Records that a step of the job that a claim holds is done, for attempts to come: workq_checkpoints tells them. step: 1 to 255 bytes, no control characters, no surrounding white space. result: up to 64 MB as jsonb. Returns true; false if this or an earlier attempt has recorded the step before (nothing changes, the first result stays); and NULL if the claim is lost, or the job is to be cancelled, and on_lost is report rather than error. Does not extend the lease. Needs the right to claim. Errors: WQ001 the claim is lost, WQ004 the job is to be cancelled, 42501, 22004/22023/54000 bad argument, 54000 the job has 1000000000 events.';

CREATE FUNCTION workq_checkpoint_batch(claim_ids uuid[], steps text[], results jsonb[] DEFAULT NULL, on_lost text DEFAULT 'report')
RETURNS SETOF workq.claim_status
AS 'MODULE_PATHNAME', 'workq_checkpoint_batch'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_checkpoint_batch(uuid[], text[], jsonb[], text) IS
'workq_checkpoint for up to 100000 steps. steps, results: as many as claim_ids; results may be NULL. Returns a row per element in the order given: ord (from 1), claim_id, status (ok, repeated, lost or cancelled), sqlstate (NULL, WQ001 or WQ004) and the deadline of the claim. With on_lost => error the first that is not taken is an error instead. Needs the right to claim. Errors: those of workq_checkpoint, 2202E arrays of different lengths.';

CREATE FUNCTION workq_stream(job_id bigint, after integer DEFAULT NULL, max_rows integer DEFAULT 1000)
RETURNS TABLE(
    "position" integer,
    attempt integer,
    kind text,
    delta jsonb,
    worker text,
    at timestamptz)
AS 'MODULE_PATHNAME', 'workq_stream'
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1000;
COMMENT ON FUNCTION workq_stream(bigint, integer, integer) IS
'The stream of a job: a row for each attempt that began (kind is attempt) and for each part that it wrote (kind is progress, with its delta), in their order, which is that of their positions; the first max_rows (1 to 100000) behind the position after (NULL: from the beginning). Keep the position of the last row and give it next time: nothing is missed, nothing comes twice. Whether the job goes on, workq_result tells. Needs the right to monitor the queue or to claim from it; delta is NULL unless the role may claim or manage. Errors: 42704 no such job (or its queue was dropped), 42501, 22004/22023 bad argument.';

CREATE FUNCTION workq_checkpoints(job_id bigint)
RETURNS TABLE(
    step text,
    result jsonb,
    attempt integer,
    worker text,
    at timestamptz)
AS 'MODULE_PATHNAME', 'workq_checkpoints'
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10;
COMMENT ON FUNCTION workq_checkpoints(bigint) IS
'The steps of a job that are done, a row each, in the order in which they were recorded: the step, its result, which attempt recorded it, by which worker, when. Needs the right to monitor the queue or to claim from it; result is NULL unless the role may claim or manage. Errors: 42704 no such job (or its queue was dropped), 42501, 22004 bad argument.';

/* ------------------------------------------------------------------------
 * Jobs
 * ------------------------------------------------------------------------ */

CREATE TYPE workq.job_status AS (
    ord integer,
    job_id bigint,
    status text,
    sqlstate text);
COMMENT ON TYPE workq.job_status IS
'What the batches of verbs on jobs return for each element: ord (from 1, in the order given), job_id, status (what became of it, each verb says which there are) and sqlstate (NULL, or that of an error).';

CREATE FUNCTION workq_cancel(job_id bigint, reason text DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'workq_cancel'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_cancel(bigint, text) IS
'Cancels a job. Returns cancelled if nobody held it (it is done now); requested if a worker holds it, who learns of it at the next renewal, progress or checkpoint (WQ004); finished if it was done already. reason: up to 8192 bytes. Needs the right to manage the queue. Errors: 42704 no such job, 42501, 22004/54000 bad argument.';

CREATE FUNCTION workq_cancel_batch(job_ids bigint[], reason text DEFAULT NULL)
RETURNS SETOF workq.job_status
AS 'MODULE_PATHNAME', 'workq_cancel_batch'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_cancel_batch(bigint[], text) IS
'workq_cancel for up to 100000 jobs. Returns a row per element in the order given: ord (from 1), job_id, status (cancelled, requested, finished or not_found), sqlstate (NULL or 42704). Needs the right to manage the queues. Errors: 42501, 22004/54000 bad argument.';

CREATE FUNCTION workq_requeue(job_id bigint)
RETURNS boolean
AS 'MODULE_PATHNAME', 'workq_requeue'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_requeue(bigint) IS
'Makes a held (dead or parked) job ready again, with its failures forgotten. Returns true, or false if the job is not held. Needs the right to manage the queue. Errors: 42704 no such job, 42710 another job has its deduplication key by now, 42501, 22004 bad argument.';

CREATE FUNCTION workq_requeue_batch(job_ids bigint[])
RETURNS SETOF workq.job_status
AS 'MODULE_PATHNAME', 'workq_requeue_batch'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_requeue_batch(bigint[]) IS
'workq_requeue for up to 100000 jobs. Returns a row per element in the order given: ord (from 1), job_id, status (requeued, not_held, key_taken or not_found), sqlstate (NULL, 42710 or 42704). Needs the right to manage the queues. Errors: 42501, 22004/54000 bad argument.';

CREATE FUNCTION workq_requeue_all(queue text, max_jobs integer DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME', 'workq_requeue_all'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_requeue_all(text, integer) IS
'Makes all held (dead and parked) jobs of a queue ready again, or at most max_jobs (at least 1) of them, lowest job id first. Skips those that others have in hand. Returns how many. Needs the right to manage the queue. Errors: 42704 no such queue, 42501, 22004/22023/54000 bad argument.';

CREATE FUNCTION workq_unpark(job_id bigint, payload jsonb DEFAULT NULL, delay interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'workq_unpark'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_unpark(bigint, jsonb, interval) IS
'Makes a parked job ready again, at the end of its lane, or due after delay (0 to 10 years). payload: up to 64 MB as jsonb; claims return it from then on instead of the one that was enqueued, which stays in the log; NULL leaves it as it is. failures stay counted. Returns true, or false if the job is not parked. Needs the right to manage the queue. Errors: 42704 no such job, 42501, 22004/22023/22008/54000 bad argument.';

CREATE FUNCTION workq_unpark_batch(job_ids bigint[], payloads jsonb[] DEFAULT NULL, delay interval DEFAULT NULL)
RETURNS SETOF workq.job_status
AS 'MODULE_PATHNAME', 'workq_unpark_batch'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_unpark_batch(bigint[], jsonb[], interval) IS
'workq_unpark for up to 100000 jobs. payloads: as many as job_ids, or NULL. Returns a row per element in the order given: ord (from 1), job_id, status (unparked, not_parked or not_found), sqlstate (NULL or 42704). Needs the right to manage the queues. Errors: 42501, 22004/22023/22008/54000 bad argument, 2202E arrays of different lengths.';

CREATE FUNCTION workq_purge(queue text, confirm boolean DEFAULT false, scheduled boolean DEFAULT false)
RETURNS bigint
AS 'MODULE_PATHNAME', 'workq_purge'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_purge(text, boolean, boolean) IS
'Removes the ready jobs of a queue, with scheduled => true also those that are due later; never leased or held ones. Their log stays. Returns how many. Without confirm it is an error that says how many would go. Needs the right to manage the queue. Errors: 22023 without confirm, 42704 no such queue, 42501, 22004/22023/54000 bad argument.';

CREATE FUNCTION workq_job(job_id bigint)
RETURNS TABLE(
    job_id bigint,
    queue text,
    state text,
    priority text,
    tenant text,
    binding text,
    trigger_id text,
    payload jsonb,
    headers jsonb,
    correlation text,
    dedup_key text,
    enqueued_at timestamptz,
    since timestamptz,
    attempt integer,
    failures integer,
    max_attempts integer,
    worker text,
    claim_id uuid,
    deadline timestamptz,
    outcome text,
    result jsonb,
    error_code text,
    error_message text,
    history jsonb)
AS 'MODULE_PATHNAME', 'workq_job'
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1;
COMMENT ON FUNCTION workq_job(bigint) IS
'All about one job: how it was enqueued; state (ready, scheduled, leased, dead, parked, done, ...) and since when; who holds it until when; its outcome with result or error; and history, an array of all events but progress with their times, claims and scheduling decisions. Needs the right to monitor the queue; payload, headers, result and claim_id are NULL unless the role may claim or manage, too. Errors: 42704 no such job (or its queue was dropped), 42501, 22004 bad argument.';

CREATE FUNCTION workq_result(job_id bigint)
RETURNS TABLE(
    job_id bigint,
    queue text,
    done boolean,
    state text,
    outcome text,
    result jsonb,
    error_code text,
    error_message text,
    worker text,
    attempt integer,
    at timestamptz,
    correlation text)
AS 'MODULE_PATHNAME', 'workq_result'
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1;
COMMENT ON FUNCTION workq_result(bigint) IS
'How a job ended, one row: done (it is over, or dead) and its state as workq_job has it; and its last response: outcome (succeeded, error, status, dead, cancelled or purged; retry while it is not done), result, error_code, error_message, worker, attempt, and when. NULLs if there is none yet. Needs the right to monitor the queue; result is NULL unless the role may claim or manage, too. Errors: 42704 no such job, 42501, 22004 bad argument.';

CREATE FUNCTION workq_responses(after text DEFAULT NULL, correlation_prefix text DEFAULT NULL, max_rows integer DEFAULT 1000)
RETURNS TABLE(
    "position" text,
    job_id bigint,
    queue text,
    correlation text,
    final boolean,
    outcome text,
    result jsonb,
    error_code text,
    error_message text,
    worker text,
    attempt integer,
    at timestamptz,
    claim_id uuid)
AS 'MODULE_PATHNAME', 'workq_responses'
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1000;
COMMENT ON FUNCTION workq_responses(text, text, integer) IS
'Follows the outcomes of jobs that were given a correlation, of all queues that the current role may monitor: the next ones behind the position after (NULL: from the first), looking at up to max_rows (1 to 100000) of them, those whose correlation begins with correlation_prefix. The order never skips a late commit: outcomes come by the transactions that wrote them, once all earlier transactions have ended, so one that stays open holds the followers up. Keep the position of the last row and give it next time; it stays good when the database is restored, copied or recovered elsewhere. If the last ones looked at were not wanted, a last row has their position and nothing else (job_id is NULL); no row means there is nothing new. final is false for a retry. result and claim_id are NULL unless the role may claim or manage. Errors: 22023/54000 bad argument.';

CREATE FUNCTION workq_explain(job_id bigint, max_place integer DEFAULT 1000)
RETURNS TABLE(
    job_id bigint,
    queue text,
    state text,
    since timestamptz,
    why text,
    reason text,
    due timestamptz,
    worker text,
    deadline timestamptz,
    attempt integer,
    failures integer,
    max_attempts integer,
    strategy text,
    fairness_key text,
    paused boolean,
    place integer,
    place_limit integer,
    weight integer,
    cap integer,
    in_flight integer,
    credit bigint)
AS 'MODULE_PATHNAME', 'workq_explain'
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1;
COMMENT ON FUNCTION workq_explain(bigint, integer) IS
'Why a job is not running, one row: its state and since when; why, in a sentence or two; reason, which the log gives for its last change (what it was parked, released, dead or cancelled for); when it is due; which worker holds it until which deadline; attempts and failures; and how it stands with its fairness key: whether the queue is paused, the key''s weight (0 pauses it), cap (NULL for none), jobs in_flight, and credit (turns left in this round, NULL in fifo). place: 1 is the next job of its lane; counted for a ready job, up to max_place (1 to 100000), which place_limit repeats; NULL behind that. On a standby, in_flight and credit are NULL. Needs the right to monitor the queue or to claim from it. Errors: 42704 no such job (or its queue was dropped), 42501, 22004/22023 bad argument.';

CREATE FUNCTION workq_check()
RETURNS TABLE(queue text, lane text, item text, memory text, tables text)
AS 'MODULE_PATHNAME', 'workq_check'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION workq_check() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION workq_check() TO pg_monitor;
COMMENT ON FUNCTION workq_check() IS
'Compares shared memory with the tables and returns a row per difference: the queue, the lane, what differs, its value in memory and in the tables. Also returned: deduplication keys whose job is in no live table (somebody deleted it by hand); they refuse new jobs until they are deleted from workq.dedup. No row is what you want. Locks the live tables against writing while it looks, so it waits for open transactions that have used workq. EXECUTE is granted to pg_monitor.';

/* ------------------------------------------------------------------------
 * Watching.  All of these check the current role's rights.
 * ------------------------------------------------------------------------ */

CREATE FUNCTION workq_scheduler_keys(queue text DEFAULT NULL, max_keys integer DEFAULT 1000)
RETURNS TABLE(
    queue text,
    level text,
    fairness_key text,
    key text,
    tenant text,
    binding text,
    state text,
    weight integer,
    deficit bigint,
    in_flight integer,
    cap integer,
    ready_jobs bigint,
    oldest_ready_age interval,
    selected_total bigint,
    deferred_total bigint,
    promoted_total bigint,
    recent_selections integer,
    recent_share double precision,
    entitled_share double precision)
AS 'MODULE_PATHNAME', 'workq_scheduler_keys'
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1000;
COMMENT ON FUNCTION workq_scheduler_keys(text, integer) IS
'A row per fairness key that takes turns in a queue (level is key), and in a tenant-and-binding queue one more per tenant (level is tenant); of one queue, or of all that the current role may monitor. At most max_keys (1 to 100000) of each level and queue: those with most ready jobs, then most in flight. The columns are those of workq.scheduler_keys and workq.scheduler_tenants. No rows on a standby. Needs the right to monitor the queue. Errors: 42704 no such queue, 42501, 22023/54000 bad argument.';

CREATE FUNCTION workq_scheduler_state(queue text DEFAULT NULL, max_keys integer DEFAULT 1000)
RETURNS jsonb
AS 'MODULE_PATHNAME', 'workq_scheduler_state'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_scheduler_state(text, integer) IS
'The scheduler as one JSON document: scheduler.policy is the queue''s policy, or without queue the server''s defaults; scheduler.per_queue has an entry for the queue, or for each one that the current role may monitor, with its own policy, rounds_completed, starvation_promotions_total and keys, of which at most max_keys (1 to 100000): those with most ready jobs. Strategies are named fifo and deficit-round-robin. Needs the right to monitor the queue. Errors: 42704 no such queue, 42501, 22023/54000 bad argument.';

CREATE FUNCTION workq_metrics()
RETURNS TABLE(name text, type text, help text, labels jsonb, value double precision)
AS 'MODULE_PATHNAME', 'workq_metrics'
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1000;
COMMENT ON FUNCTION workq_metrics() IS
'The metrics of all queues that the current role may monitor, a row per sample: its name, its type (counter or gauge), what it is, its labels and its value. Counters begin at 0 when the server starts and never fall. Per fairness key: of the first workq.metrics_max_keys keys of each queue, the others counted together under the key other. Nothing on a standby. Errors: 55000 workq is not preloaded.';

CREATE FUNCTION workq_metrics_text()
RETURNS text
AS 'MODULE_PATHNAME', 'workq_metrics_text'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION workq_metrics_text() IS
'What workq_metrics returns, in Prometheus'' text format. Errors: 55000 workq is not preloaded.';

/* ------------------------------------------------------------------------
 * What the views are made of.  Functions in a view run as the role that looks,
 * tables are read as the view's owner.  All of these check the current role's
 * rights, so that PUBLIC may call them: a view's reader must.
 * ------------------------------------------------------------------------ */

CREATE FUNCTION workq.may_monitor(queue_id integer)
RETURNS boolean
AS 'MODULE_PATHNAME', 'workq_may_monitor'
LANGUAGE c STABLE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION workq.may_monitor(integer) IS
'May the current role monitor this queue? False also for a queue that does not exist, and for NULL.';

CREATE FUNCTION workq.may_see_payload(queue_id integer)
RETURNS boolean
AS 'MODULE_PATHNAME', 'workq_may_see_payload'
LANGUAGE c STABLE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION workq.may_see_payload(integer) IS
'May the current role claim from this queue or manage it, and so see payloads and claim ids? False also for a queue that does not exist, and for NULL.';

CREATE FUNCTION workq.clock()
RETURNS timestamptz
AS 'MODULE_PATHNAME', 'workq_clock'
LANGUAGE c VOLATILE PARALLEL UNSAFE COST 1;
COMMENT ON FUNCTION workq.clock() IS
'The time by which workq goes: clock_timestamp(), plus workq.clock_offset in tests.';

CREATE FUNCTION workq.lane_memory(
    OUT max_lanes integer,
    OUT free_lanes integer,
    OUT overflowing_queues integer,
    OUT overflows bigint)
AS 'MODULE_PATHNAME', 'workq_lane_memory'
LANGUAGE c VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION workq.lane_memory() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION workq.lane_memory() TO pg_monitor;
COMMENT ON FUNCTION workq.lane_memory() IS
'The server''s records of lanes in shared memory: how many there are (workq.max_lanes) and how many are free; how many queues of this database have more lanes than records are to be had, and how often that began. EXECUTE is granted to pg_monitor.';

CREATE FUNCTION workq.queue_counters()
RETURNS TABLE(
    queue_id integer,
    ready bigint,
    scheduled bigint,
    leased bigint,
    held bigint,
    enqueued bigint,
    done bigint,
    failed bigint,
    oldest_ready timestamptz,
    next_due timestamptz)
AS 'MODULE_PATHNAME', 'workq_queue_counters'
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100;
COMMENT ON FUNCTION workq.queue_counters() IS
'A row per queue that the current role may monitor: how many jobs are ready, scheduled, leased and held; how many were enqueued, done and failed since the queue was loaded into shared memory; since when the oldest is ready; when the next is due. From shared memory, or, on a standby and before the queues are loaded, counted in the tables; on a standby, enqueued, done and failed are NULL.';

CREATE FUNCTION workq.queue_settings()
RETURNS TABLE(queue_id integer, setting text, value text, own boolean)
AS 'MODULE_PATHNAME', 'workq_queue_settings'
LANGUAGE c STABLE PARALLEL UNSAFE ROWS 1000;
COMMENT ON FUNCTION workq.queue_settings() IS
'A row per setting of each queue that the current role may monitor: its value as workq_configure takes it, and whether it is the queue''s own.';

CREATE FUNCTION workq.scheduler_queues()
RETURNS TABLE(
    queue text,
    strategy text,
    fairness_key text,
    paused boolean,
    rounds_completed bigint,
    selections bigint,
    deferrals bigint,
    starvation_promotions_total bigint,
    lanes integer,
    lanes_eligible integer,
    lanes_capped integer,
    lanes_paused integer,
    lanes_leased integer,
    lanes_idle integer,
    longest_wait interval,
    recent_selections integer,
    overflowing boolean,
    policy_version integer)
AS 'MODULE_PATHNAME', 'workq_scheduler_queues'
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100;
COMMENT ON FUNCTION workq.scheduler_queues() IS
'The rows of workq.scheduler.';

CREATE FUNCTION workq.job_payload(job_id bigint)
RETURNS jsonb
AS 'MODULE_PATHNAME', 'workq_job_payload'
LANGUAGE c STABLE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION workq.job_payload(bigint) IS
'The payload of a job; NULL if there is none that the current role may see (may claim from or manage its queue).';

CREATE FUNCTION workq.job_error(job_id bigint, OUT code text, OUT message text)
AS 'MODULE_PATHNAME', 'workq_job_error'
LANGUAGE c STABLE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION workq.job_error(bigint) IS
'The code and message of the last response that reported a fault of this job; NULLs if there is none that the current role may see (may monitor its queue).';

/* ------------------------------------------------------------------------
 * Views
 * ------------------------------------------------------------------------ */

CREATE VIEW workq.queue_overview WITH (security_barrier) AS
SELECT
    q.name AS queue,
    pg_catalog.pg_get_userbyid(q.owner) AS owner,
    s.value AS strategy,
    q.paused,
    q.enqueue_paused,
    c.ready,
    c.scheduled,
    c.leased,
    c.held,
    c.enqueued,
    c.done,
    c.failed,
    CASE WHEN c.oldest_ready IS NOT NULL THEN
        GREATEST(workq.clock() OPERATOR(pg_catalog.-) c.oldest_ready, '0'::pg_catalog.interval)
    END AS oldest_ready_age,
    c.next_due,
    q.policy_version,
    q.created_at
FROM workq.queues q
JOIN workq.queue_counters() c ON c.queue_id OPERATOR(pg_catalog.=) q.queue_id
JOIN workq.queue_settings() s ON s.queue_id OPERATOR(pg_catalog.=) q.queue_id
    AND s.setting OPERATOR(pg_catalog.=) 'strategy'::pg_catalog.text
WHERE workq.may_monitor(q.queue_id);
COMMENT ON VIEW workq.queue_overview IS
'One row per queue that the current role may monitor: its state and how many jobs are where. enqueued, done and failed count since the queue was loaded into shared memory and are NULL on a standby. The counts are cheap: nothing counts a table but on a standby.';

CREATE VIEW workq.active_claims WITH (security_barrier) AS
SELECT
    q.name AS queue,
    l.job_id,
    CASE WHEN workq.may_see_payload(l.queue_id) THEN l.claim_id END AS claim_id,
    l.worker,
    l.attempt,
    l.failures,
    l.max_attempts,
    CASE l.priority WHEN 0 THEN 'high' WHEN 1 THEN 'normal' ELSE 'low' END AS priority,
    l.lane,
    l.claimed_at,
    GREATEST(workq.clock() OPERATOR(pg_catalog.-) l.claimed_at, '0'::pg_catalog.interval) AS age,
    l.deadline,
    l.deadline OPERATOR(pg_catalog.-) workq.clock() AS time_to_deadline,
    l.deadline OPERATOR(pg_catalog.<=) workq.clock() AS expired,
    (l.flags OPERATOR(pg_catalog.&) 4::pg_catalog.int2) OPERATOR(pg_catalog.<>) 0::pg_catalog.int2 AS cancel_requested,
    (l.flags OPERATOR(pg_catalog.&) 2::pg_catalog.int2) OPERATOR(pg_catalog.<>) 0::pg_catalog.int2 AS failed
FROM workq.leases l
JOIN workq.queues q ON q.queue_id OPERATOR(pg_catalog.=) l.queue_id
WHERE workq.may_monitor(l.queue_id);
COMMENT ON VIEW workq.active_claims IS
'One row per claim that is held, of queues that the current role may monitor: by whom, since when, until when. time_to_deadline is negative and expired true when the lease has run out and nobody has taken the job back yet. claim_id is NULL unless the role may claim from or manage the queue. failed: reported failed, but held until its lease ends.';

CREATE VIEW workq.held_jobs WITH (security_barrier) AS
SELECT
    q.name AS queue,
    h.job_id,
    h.state,
    h.held_at AS held_since,
    h.attempt,
    h.failures,
    h.max_attempts,
    CASE h.priority WHEN 0 THEN 'high' WHEN 1 THEN 'normal' ELSE 'low' END AS priority,
    h.lane,
    h.reason,
    (workq.job_error(h.job_id)).code AS error_code,
    (workq.job_error(h.job_id)).message AS error_message,
    workq.job_payload(h.job_id) AS payload
FROM workq.held h
JOIN workq.queues q ON q.queue_id OPERATOR(pg_catalog.=) h.queue_id
WHERE workq.may_monitor(h.queue_id);
COMMENT ON VIEW workq.held_jobs IS
'One row per job that is set aside (dead or parked), of queues that the current role may monitor: since when, why, and the last error. payload is NULL unless the role may claim from or manage the queue. workq_requeue makes a job ready again.';

CREATE VIEW workq.settings WITH (security_barrier) AS
SELECT
    q.name AS queue,
    s.setting,
    s.value,
    s.own
FROM workq.queues q
JOIN workq.queue_settings() s ON s.queue_id OPERATOR(pg_catalog.=) q.queue_id
WHERE workq.may_monitor(q.queue_id);
COMMENT ON VIEW workq.settings IS
'One row per setting of each queue that the current role may monitor: its value as workq_configure takes it, and whether it is the queue''s own or inherited from the server''s workq.* setting.';

CREATE VIEW workq.facts WITH (security_barrier) AS
SELECT
    q.name AS queue,
    j.job_id,
    0 AS number,
    'enqueued' AS fact,
    j.enqueued_at AS at,
    0 AS attempt,
    0 AS failures,
    NULL::text COLLATE pg_catalog."C" AS worker,
    NULL::uuid AS claim_id,
    NULL::timestamptz AS deadline,
    j.run_at AS due,
    NULL::text AS reason
FROM workq.jobs j
JOIN workq.queues q ON q.queue_id OPERATOR(pg_catalog.=) j.queue_id
WHERE workq.may_monitor(j.queue_id)
UNION ALL
SELECT
    q.name,
    c.job_id,
    c.number,
    CASE
        WHEN c.event OPERATOR(pg_catalog.=) 'acked' THEN 'completed'
        WHEN c.event OPERATOR(pg_catalog.=) 'expired' THEN 'lease_expired'
        WHEN c.event OPERATOR(pg_catalog.=) 'released' AND (c.reason IS NOT NULL OR c.due IS NOT NULL) THEN 'deferred'
        WHEN c.event OPERATOR(pg_catalog.=) 'failed' AND c.decision OPERATOR(pg_catalog.=) 'retry' THEN 'retry_scheduled'
        WHEN c.event OPERATOR(pg_catalog.=) 'failed' AND c.decision OPERATOR(pg_catalog.=) 'exhausted' THEN 'retries_exhausted'
        ELSE c.event
    END,
    c.at,
    c.attempt,
    c.failures,
    c.worker,
    CASE WHEN workq.may_see_payload(c.queue_id) THEN c.claim_id END,
    c.deadline,
    c.due,
    c.reason
FROM workq.claims c
JOIN workq.queues q ON q.queue_id OPERATOR(pg_catalog.=) c.queue_id
WHERE c.event OPERATOR(pg_catalog.<>) 'progress' AND workq.may_monitor(c.queue_id);
COMMENT ON VIEW workq.facts IS
'The life of jobs, one row per fact, of queues that the current role may monitor; (job_id, number) is the order of a job''s facts. fact: enqueued, claimed, renewed, lease_expired (and taken back), retry_scheduled (due when), retries_exhausted, failed (a fault judged otherwise), completed, business_error, status, dead, parked, unparked, released, deferred (released with a reason or a delay), checkpoint (reason is its step), requeued, cancel_requested, cancelled, purged. Progress is no fact: see workq_stream. worker: who; claim_id is NULL unless the role may claim from or manage the queue. Ask for one job_id: the log may be large.';

GRANT SELECT ON workq.facts TO PUBLIC;

CREATE VIEW workq.error_rules WITH (security_barrier) AS
SELECT
    q.name AS queue,
    m.ord AS place,
    m.pattern,
    m.action,
    m.code,
    m.value,
    m.retry
FROM workq.error_map m
JOIN workq.queues q ON q.queue_id OPERATOR(pg_catalog.=) m.queue_id
WHERE workq.may_monitor(m.queue_id);
COMMENT ON VIEW workq.error_rules IS
'One row per rule of the error map of each queue that the current role may monitor: what workq_map_error was told. Rules are tried in the order of place; the first whose pattern matches a fault''s code holds.';

GRANT SELECT ON workq.error_rules TO PUBLIC;

CREATE VIEW workq.scheduler WITH (security_barrier) AS
SELECT
    s.queue,
    s.strategy,
    s.fairness_key,
    s.paused,
    s.rounds_completed,
    s.selections,
    s.deferrals,
    s.starvation_promotions_total,
    s.lanes,
    s.lanes_eligible,
    s.lanes_capped,
    s.lanes_paused,
    s.lanes_leased,
    s.lanes_idle,
    s.longest_wait,
    s.recent_selections,
    s.overflowing,
    s.policy_version
FROM workq.scheduler_queues() s;
COMMENT ON VIEW workq.scheduler IS
'One row per queue that the current role may monitor: how its scheduler does. selections (committed claims), deferrals (turns that went by while a key had work and was at its cap, summed over keys) and starvation_promotions_total count since the queue was first used after the server''s start. lanes: the fairness keys that shared memory knows, of which eligible (have work, take turns), capped (have work, are at their cap), paused (weight 0), leased (have no work, but claims) and idle. longest_wait: for how long the key that has waited longest for its turn has been eligible without one. recent_selections: what recent_share in workq.scheduler_keys is a share of. overflowing: there were more keys than workq.max_lanes. On a standby all that is counted is NULL.';

CREATE VIEW workq.scheduler_keys WITH (security_barrier) AS
SELECT
    k.queue,
    k.fairness_key,
    k.key,
    k.tenant,
    k.binding,
    k.state,
    k.weight,
    k.deficit,
    k.in_flight,
    k.cap,
    k.ready_jobs,
    k.oldest_ready_age,
    k.selected_total,
    k.deferred_total,
    k.promoted_total,
    k.recent_selections,
    k.recent_share,
    k.entitled_share
FROM workq_scheduler_keys() k
WHERE k.level OPERATOR(pg_catalog.=) 'key'::pg_catalog.text;
COMMENT ON VIEW workq.scheduler_keys IS
'One row per fairness key that takes turns, of queues that the current role may monitor; of each queue at most the 1000 with most ready jobs (workq_scheduler_keys takes a queue and another limit). fairness_key: as in a claim''s receipt; key: as workq_set_key takes it. state: ready (has work, takes turns), capped (has work, is at its cap), paused (weight 0, or its tenant''s), leased (no work, but claims) or idle. deficit: the turns it has left in this round, negative when it owes some; NULL in fifo. cap: NULL for none. deferred_total: turns that went by while it had work and was at its cap. The totals count from when the key was first seen, for the first workq.metrics_max_keys keys of a queue; for others from when it last had nothing to do. recent_share: its share of the queue''s last selections (at least 1000, once there were so many; in drr whole rounds and what there is of the next), to compare with entitled_share, which its weight entitles it to among the keys that have work, itself included.';

CREATE VIEW workq.scheduler_tenants WITH (security_barrier) AS
SELECT
    k.queue,
    k.tenant,
    k.state,
    k.weight,
    k.deficit,
    k.in_flight,
    k.ready_jobs,
    k.selected_total,
    k.deferred_total,
    k.promoted_total,
    k.recent_selections,
    k.recent_share,
    k.entitled_share
FROM workq_scheduler_keys() k
WHERE k.level OPERATOR(pg_catalog.=) 'tenant'::pg_catalog.text;
COMMENT ON VIEW workq.scheduler_tenants IS
'One row per tenant of a queue whose fairness_key is tenant-and-binding, with the sums of its bindings; the columns are those of workq.scheduler_keys. There, a tenant''s bindings share what the tenant gets. tenant is NULL for jobs without one. The totals count from when the tenant last had nothing to do.';

GRANT SELECT ON workq.queue_overview, workq.active_claims, workq.held_jobs, workq.settings,
    workq.scheduler, workq.scheduler_keys, workq.scheduler_tenants TO PUBLIC;
