-- The queue of the demonstration, who may use it, and where the application
-- keeps its own records.
CREATE EXTENSION workq;

SELECT workq_create_queue('documents');
SELECT workq_configure('documents', max_attempts => 4, retry_base => '100 ms');

CREATE ROLE demo_producer LOGIN;
CREATE ROLE demo_worker LOGIN;
SELECT workq_grant('documents', 'demo_producer', 'enqueue');
SELECT workq_grant('documents', 'demo_worker', 'claim');

CREATE SCHEMA demo;
GRANT USAGE ON SCHEMA demo TO demo_producer, demo_worker;

-- what the producers sent: which line of the file became which job
CREATE TABLE demo.submitted (
    line        integer NOT NULL,
    document    text    NOT NULL,
    job_id      bigint  NOT NULL,
    created     boolean NOT NULL
);
GRANT INSERT ON demo.submitted TO demo_producer;

-- What the workers did.  There is no unique constraint on purpose: if a job
-- was done twice, it shows.
CREATE TABLE demo.results (
    job_id      bigint  NOT NULL,
    worker      text    NOT NULL,
    words       integer NOT NULL,
    at          timestamptz NOT NULL DEFAULT clock_timestamp()
);
GRANT INSERT ON demo.results TO demo_worker;
