"""Benchmark of waiting: how long until a waiter has its job, beside LISTEN and
NOTIFY; what waiters cost others; what they cost while they sleep."""

import math
import os
import signal
import subprocess
import time

from common import PAYLOAD, ROOT, Report, median, spread

PROGRAM = os.path.join(ROOT, "build", "bench", "waiters")

# A queue in a plain table, for those who listen.
TABLE = """
DROP TABLE IF EXISTS TABLE_NAME;
CREATE TABLE TABLE_NAME (id bigserial PRIMARY KEY,
    state text NOT NULL DEFAULT 'ready', priority int NOT NULL DEFAULT 1,
    worker text, deadline timestamptz,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    payload jsonb NOT NULL);
CREATE INDEX ON TABLE_NAME (priority, id) WHERE state = 'ready';
ALTER TABLE TABLE_NAME SET (autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 5000);
"""

WAYS = {"claim": "claim that waits", "call": "workq_wait, then claim",
        "listen": "LISTEN, then claim"}

ENQUEUE = "SELECT workq_enqueue(:q, :payload);\n"
# in one statement, so that no round trips are added
ENQUEUE_NOTIFY = "SELECT workq_enqueue(:q, :payload), pg_notify('%s', '');\n"
INSERT = "INSERT INTO %s (payload) VALUES (:payload);\n"
INSERT_NOTIFY = "WITH x AS (INSERT INTO %s (payload) VALUES (:payload)) SELECT pg_notify('%s', '');\n"

ASLEEP = {
    "claim": "state = 'active' AND wait_event_type = 'Extension'",
    "call": "state = 'active' AND wait_event_type = 'Extension'",
    "listen": "state = 'idle'", "hear": "state = 'idle'"}

WARM = 20               # first jobs of each way, not in the figures

# Enqueueing: a line is compared with the neighbour that it names.
WITHOUT = "no waiters"
PLAIN = "plain table, no waiters"
CASES = [
    # name, neighbour, script, queue, way of the waiters, their queue or table
    ("asleep on another queue", WITHOUT, ENQUEUE, "e", "claim", "other"),
    (WITHOUT, None, ENQUEUE, "e", None, None),
    ("asleep on this queue, paused", WITHOUT, ENQUEUE, "paused", "claim",
     "paused"),
    ("claim and ack", WITHOUT, ENQUEUE, "claimed", "claim", "claimed"),
    (WITHOUT, None, ENQUEUE, "e", None, None),
    ("NOTIFY, nobody listens", WITHOUT, ENQUEUE_NOTIFY % "heard", "e", None,
     None),
    ("NOTIFY, they listen and do nothing", WITHOUT, ENQUEUE_NOTIFY % "heard",
     "e", "hear", "heard"),
    (WITHOUT, None, ENQUEUE, "e", None, None),
    (PLAIN, None, INSERT % "plain", None, None, None),
    ("plain table, NOTIFY, claim and delete", PLAIN,
     INSERT_NOTIFY % ("plain_claimed", "plain_claimed"), None, "listen",
     "plain_claimed"),
]


def environment(c, sync, name):
    return dict(c.env, PGAPPNAME=name, PGOPTIONS="-c synchronous_commit=%s"
                % on_off(sync))


def on_off(sync):
    return "on" if sync else "off"


class Waiters:
    """Connections that wait, all of one process."""

    live = set()

    def __init__(self, c, way, queue, n, sync):
        self.c, self.way, self.n = c, way, n
        self.name = "waiters-" + way
        self.process = subprocess.Popen(
            [PROGRAM, way, queue, str(n)], stdout=subprocess.PIPE, text=True,
            env=environment(c, sync, self.name))
        Waiters.live.add(self)
        if self.process.stdout.readline() != "ready\n":
            raise SystemExit("waiters failed")
        self.settle()

    def sql(self, what, where="true"):
        return self.c.sql(
            "SELECT %s FROM pg_stat_activity WHERE application_name = '%s' "
            "AND %s" % (what, self.name, where))

    def settle(self):
        """Wait until all of them sleep."""
        until(lambda: self.sql("count(*)", ASLEEP[self.way]) == str(self.n),
              self.name + " to sleep")

    def pids(self):
        return [int(x) for x in self.sql("pid").split()]

    def stop(self):
        """End them; a list of the jobs they got, each with when, and how many
        claims were sent."""
        Waiters.live.remove(self)
        self.process.send_signal(signal.SIGTERM)
        lines = self.process.communicate()[0].splitlines()
        if self.process.returncode != 0 or not lines:
            raise SystemExit("waiters failed")
        until(lambda: self.sql("count(*)") == "0", self.name + " to end")
        return ([tuple(int(x) for x in line.split()) for line in lines[:-1]],
                int(lines[-1].split()[1]))

    @staticmethod
    def kill_all():
        for w in Waiters.live:
            w.process.kill()
            w.process.wait()
        Waiters.live.clear()


def until(condition, what, seconds=120):
    end = time.time() + seconds
    while not condition():
        if time.time() > end:
            raise SystemExit("waited in vain for %s" % what)
        time.sleep(0.05)


def cost(pids):
    """CPU seconds and voluntary context switches of processes so far."""
    seconds = switches = 0
    for pid in pids:
        with open("/proc/%d/schedstat" % pid) as f:
            seconds += int(f.read().split()[0]) / 1e9
        with open("/proc/%d/status" % pid) as f:
            for line in f:
                if line.startswith("voluntary_ctxt_switches"):
                    switches += int(line.split()[1])
    return seconds, switches


def percentile(values, p):
    """The lowest value that a share p of them does not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * p) - 1)]


# ---------------------------------------------------------------------------
# Latency
# ---------------------------------------------------------------------------

class Group:
    """The waiters of one way, and what was measured of them."""

    def __init__(self, c, way, n, sync):
        self.c, self.way, self.sync = c, way, sync
        self.queue = "%s_%d_%s" % (way, n, on_off(sync))
        if way == "listen":
            c.script(TABLE.replace("TABLE_NAME", self.queue))
        else:
            c.sql("SELECT workq_create_queue('%s')" % self.queue)
        self.waiters = Waiters(c, way, self.queue, n, sync)
        self.pids = self.waiters.pids()
        self.committed = {}         # by number: COMMIT sent, returned
        self.cpu = self.client = 0.0

    def undone(self):
        if self.way == "listen":
            return self.c.sql("SELECT count(*) FROM " + self.queue) != "0"
        return self.c.sql("SELECT ready + leased FROM workq.queue_overview "
                          "WHERE queue = '%s'" % self.queue) != "0"

    def warm_up(self):
        """The first jobs of a session cost more.  Waiters are served in turn;
        listeners all look for each job."""
        self.produce(WARM if self.way == "listen" else
                     max(WARM, 3 * self.waiters.n), 2)
        self.warm = len(self.committed)
        self.cpu = self.client = 0.0

    def produce(self, jobs, gap):
        """Commit so many jobs, one by one, and let them be claimed."""
        pid = [self.waiters.process.pid]
        cpu, client = cost(self.pids)[0], cost(pid)[0]
        out = subprocess.run(
            [PROGRAM, "produce", self.way, self.queue,
             str(len(self.committed)), str(jobs), str(gap)],
            stdout=subprocess.PIPE, text=True, check=True,
            env=environment(self.c, self.sync, "producer")).stdout
        until(lambda: not self.undone(), "jobs to be done")
        self.waiters.settle()
        for line in out.splitlines():
            number, sent, returned = (int(x) for x in line.split())
            self.committed[number] = (sent, returned)
        self.cpu += cost(self.pids)[0] - cpu
        self.client += cost(pid)[0] - client

    def finish(self):
        """End the waiters; latencies in milliseconds, and per job the server's
        CPU, the client's and the number of claims."""
        got, claims = self.waiters.stop()
        when = dict(got)
        if len(got) != len(when) or when.keys() != self.committed.keys():
            raise SystemExit("%s: %d jobs, %d claimed, of these %d different"
                             % (self.queue, len(self.committed), len(got),
                                len(when)))
        if self.way == "claim":         # those that wait before there is a job
            claims -= self.waiters.n
        n = len(when) - self.warm
        x = {"commit": [], "sent": [], "returned": []}
        for i in range(self.warm, len(when)):
            sent, returned = self.committed[i]
            x["commit"].append((returned - sent) / 1e6)
            x["sent"].append((when[i] - sent) / 1e6)
            x["returned"].append((when[i] - returned) / 1e6)
        return x, {"claims": claims / len(when), "cpu_us": self.cpu * 1e6 / n,
                   "client_us": self.client * 1e6 / n}


def latency(c, o, r, n, sync, idle):
    """Of all ways with n waiters each, in blocks that take turns; all waiters
    are there all the time, and asleep when it is not their turn.  Rows for the
    table; idle: appends to it what they cost without any jobs."""
    groups = [Group(c, way, n, sync) for way in WAYS]
    gap = o.wait_gap * (2.5 if n > 50 else 1)   # a herd must come to rest
    for g in groups:
        g.warm_up()
    for _ in range(o.wait_blocks):
        for g in groups:
            g.produce(max(1, o.wait_jobs // o.wait_blocks), gap)
    if idle is not None:
        idle += sleep_cost(groups, o, r)
    rows = []
    for g in groups:
        x, per_job = g.finish()
        p = {"%s_%s" % (k, name): percentile(x[k], share) for k in x
             for name, share in (("p50", 0.5), ("p99", 0.99))}
        r.keep(way=g.way, waiters=n, sync=sync, jobs=len(x["sent"]), **p,
               **per_job)
        r.raw[-1]["ms"] = {k: [round(v, 3) for v in x[k]] for k in x}
        rows.append([on_off(sync), n, WAYS[g.way]] +
                    ["%.2f, %.2f" % (p[k + "_p50"], p[k + "_p99"])
                     for k in ("sent", "returned", "commit")] +
                    ["%.1f" % per_job["claims"], "%.0f" % per_job["cpu_us"],
                     "%.0f" % per_job["client_us"]])
    return rows


def sleep_cost(groups, o, r):
    rows = []
    # The server's timer for statistics wakes each session once more, 10 s
    # after its last transaction.
    time.sleep(11)
    before = [cost(g.pids) for g in groups]
    time.sleep(o.idle_seconds)
    after = [cost(g.pids) for g in groups]
    for g, a, b in zip(groups, before, after):
        ms, switches = (b[0] - a[0]) * 1e3, b[1] - a[1]
        r.keep(idle=g.way, waiters=g.waiters.n, cpu_ms=ms, switches=switches)
        rows.append([WAYS[g.way], "%.1f" % ms, switches])
    return rows


# ---------------------------------------------------------------------------
# Throughput
# ---------------------------------------------------------------------------

def measure(c, o, sync, case):
    """Enqueue with many clients, beside waiters."""
    name, _, script, queue, way, theirs = case
    waiters = Waiters(c, way, theirs, max(o.waiters), sync) if way else None
    x = c.load(script, o.wait_clients, o.wait_seconds, sync=sync,
               define={"q": queue})
    end = time.monotonic_ns()
    if waiters:
        got = waiters.stop()[0]
        x["done"] = sum(when < end for _, when in got) / o.wait_seconds
    return x


def throughput(c, o, r, sync):
    """Rows for the table."""
    ratio = {case[0]: [] for case in CASES}
    seen = {case[0]: [] for case in CASES}
    for i in range(-1, o.wait_rounds):
        # what is left over from the round before would keep waiters awake
        queue = "claimed%d%s" % (i, on_off(sync))
        c.sql("SELECT workq_create_queue('%s')" % queue)
        for table in ("plain", "plain_claimed"):
            c.script(TABLE.replace("TABLE_NAME", table))
        if i < 0:
            for case in CASES[:2]:
                measure(c, o, sync, case)
            continue
        x = [measure(c, o, sync, tuple(queue if v == "claimed" else v
                                       for v in case)) for case in CASES]
        for k, (name, against) in enumerate(case[:2] for case in CASES):
            r.keep(case=name, sync=sync, **x[k])
            seen[name].append(x[k])
            for j in (k - 1, k + 1):
                if 0 <= j < len(CASES) and CASES[j][0] == against:
                    ratio[name].append((x[k]["tps"] / x[j]["tps"],
                                        x[k]["cpu_us"] / x[j]["cpu_us"]))
    return [[on_off(sync), name, "%.0f" % median([x["tps"] for x in seen[name]]),
             spread([t for t, _ in ratio[name]]) if ratio[name] else "",
             "%.0f" % median([x["cpu_us"] for x in seen[name]]),
             spread([u for _, u in ratio[name]]) if ratio[name] else "",
             "%.0f" % median([x["done"] for x in seen[name]])
             if seen[name][0].get("done") else ""] for name in seen]


# ---------------------------------------------------------------------------

def wait_connections(o):
    """Connections that the server must have room for."""
    return len(WAYS) * max(o.waiters) + o.wait_clients + 20


def wait(c, o):
    r = Report("wait",
               "Waiters, and consumers that LISTEN and then claim with SKIP "
               "LOCKED from a plain table. Aims: p99 below 5 ms with 200 "
               "waiters on a machine that is otherwise idle; enqueueing within "
               "5 % of that without waiters.")
    subprocess.run(["make", "-s", "-C", ROOT, os.path.relpath(PROGRAM, ROOT)],
                   check=True)
    try:
        measure_all(c, o, r)
    finally:
        Waiters.kill_all()
    return r


def measure_all(c, o, r):
    most = max(o.waiters)
    idle = []
    rows = []
    for sync in o.sync:
        for n in o.waiters:
            last = n == most and sync == o.sync[-1]
            rows += latency(c, o, r, n, sync, idle if last else None)
    r.say("### From commit to claim")
    r.say("%d jobs for each line, committed one at a time by one producer, in "
          "%d blocks that take turns. Milliseconds, p50 and p99, until the "
          "consumer has the row of its committed claim: from when the producer "
          "sends COMMIT, and from when it has the reply; \"commit\" is between "
          "these two. Server CPU is that of the waiters' connections, per job."
          % (o.wait_jobs, o.wait_blocks))
    r.table(["synchronous_commit", "waiters", "way", "from COMMIT sent",
             "from COMMIT returned", "commit", "claims/job",
             "server CPU us/job", "client CPU us/job"], rows)
    r.say("### Asleep")
    r.say("%d waiters of each way for %g s without a job." % (most,
                                                              o.idle_seconds))
    r.table(["way", "CPU ms", "voluntary context switches"], idle)

    for queue in ("e", "other", "paused"):
        c.sql("SELECT workq_create_queue('%s')" % queue)
    c.sql("SELECT workq_pause('paused')")
    rows = []
    for sync in o.sync:
        rows += throughput(c, o, r, sync)
    r.say("### Enqueueing beside waiters")
    r.say("%d clients that enqueue, %d waiters, %d times %d s for each line. "
          "Ratios are to a neighbouring measurement without waiters, of the "
          "queue or of the plain table: median (lowest to highest)."
          % (o.wait_clients, most, o.wait_rounds, o.wait_seconds))
    r.table(["synchronous_commit", "waiters", "enqueued/s", "ratio",
             "CPU us/job", "ratio", "claimed/s"], rows)
