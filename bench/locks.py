"""Benchmark of workq's locks: how long each is held; and what a lane takes of
shared memory."""

import collections
import glob
import os
import shutil
import struct
import subprocess
import time

from common import OUT, ROOT, Cluster, Report, Session
from share import REFILL, Queue

LIBRARY = os.path.join(OUT, "locktime", "workq.so")
# see bench/locktime.c
N_BUCKETS = 320
SITE = struct.Struct("<32s7Q%dI" % (2 * N_BUCKETS))

# the queue may be paused
CLAIM_ACK = """SELECT count(*)::int AS got, (array_agg(claim_id))[1] AS claim_id FROM workq_claim(:q, 'w1') \\gset
\\if :got
SELECT workq_ack(:claim_id);
\\else
\\sleep 1 ms
\\endif
"""
CHANGES = 5             # of a kind, in one measurement
BACKLOG_PER_LANE = 3


def locktime_library():
    """The library with its locks timed, built if need be."""
    subprocess.run(["make", "-s", "-C", ROOT,
                    os.path.relpath(LIBRARY, ROOT)], check=True)
    return LIBRARY


class Holds:
    """Holds of one lock, or by one function."""

    def __init__(self):
        self.count = self.wall_total = self.cpu_total = 0
        self.wall_max = self.cpu_of_wall_max = self.cpu_max = 0
        self.by = ""
        self.wall = [0] * N_BUCKETS

    def add(self, fields, by):
        (count, wall_total, wall_max, cpu_of_wall_max, cpu_total,
         cpu_max) = fields[2:8]
        self.count += count
        self.wall_total += wall_total
        self.cpu_total += cpu_total
        if wall_max > self.wall_max:
            self.wall_max, self.cpu_of_wall_max = wall_max, cpu_of_wall_max
        if cpu_max > self.cpu_max:
            self.cpu_max, self.by = cpu_max, by
        for i, n in enumerate(fields[8:8 + N_BUCKETS]):
            self.wall[i] += n

    def quantile(self, q):
        """Nanoseconds, the upper end of the bucket."""
        left = self.count * q
        for i, n in enumerate(self.wall):
            left -= n
            if left <= 0:
                return bucket_start(i + 1)
        return self.wall_max


def bucket_start(i):
    if i < 8:
        return i
    return (8 + i % 8) << (i // 8 - 1)


def function_name(site, names={}):
    if site not in names:
        try:
            out = subprocess.run(
                ["addr2line", "-f", "-e", LIBRARY, "%#x" % (site - 1)],
                stdout=subprocess.PIPE, text=True).stdout.split("\n")[0]
        except FileNotFoundError:
            out = "%#x" % site
        names[site] = out
    return names[site]


class Timer:
    """What the processes of a cluster have noted since the last reset."""

    def __init__(self, c):
        self.dir = os.path.join(c.data, "locktime")
        owner = os.stat(c.data)
        os.makedirs(self.dir, exist_ok=True)
        os.chown(self.dir, owner.st_uid, owner.st_gid)

    def reset(self):
        for name in glob.glob(os.path.join(self.dir, "*")):
            size = os.path.getsize(name)
            with open(name, "r+b") as f:        # the processes have it mapped
                f.write(bytes(size))

    def read(self):
        """Holds by lock, and by (lock, function)."""
        locks = collections.defaultdict(Holds)
        functions = collections.defaultdict(Holds)
        for name in glob.glob(os.path.join(self.dir, "*")):
            with open(name, "rb") as f:
                data = f.read()
            for fields in SITE.iter_unpack(data):
                if fields[2] == 0:
                    continue
                lock = fields[0].rstrip(b"\0").decode()
                by = function_name(fields[1])
                locks[lock].add(fields, by)
                functions[lock, by].add(fields, by)
        return locks, functions


def us(ns):
    return "%.1f" % (ns / 1000) if ns < 100000 else "%.0f" % (ns / 1000)


class Locks:
    def __init__(self, c, o, r):
        self.c, self.o, self.r = c, o, r
        self.timer = Timer(c)
        self.queue = Queue(c, "drr", max(o.lanes),
                           max(o.lanes) * BACKLOG_PER_LANE)
        self.rows = []

    def done(self):
        return int(self.c.sql("SELECT done FROM workq.queue_overview WHERE "
                              "queue = '%s'" % self.queue.name))

    def measure(self, name, statements=(), repeat=CHANGES):
        """Holds under load, while these statements are given in turn.  Returns
        those by function."""
        c, o, q = self.c, self.o, self.queue
        q.top_up()
        # what the changes before leave to the next claimer
        c.load(CLAIM_ACK, 1, transactions=1, define={"q": q.name})
        self.timer.reset()
        before, start = self.done(), time.time()
        load = c.start_load(REFILL + CLAIM_ACK, o.hand_clients,
                            o.share_seconds, sync=o.share_sync[0],
                            define={"q": q.name, "pass": 0, "base": q.next,
                                    "lanes": q.lanes})
        if statements:
            session = Session(c)
            for i in range(repeat):
                time.sleep(0.2)
                for s in statements:
                    session.do(s.replace("QUEUE", q.name))
            session.close()
        load.wait()
        if load.returncode != 0:
            raise SystemExit(load.stderr.read().decode())
        c.quiet()
        rate = (self.done() - before) / (time.time() - start)
        locks, functions = self.timer.read()
        for lock in sorted(locks):
            h = locks[lock]
            self.r.keep(what=name, claims_per_s=rate, lock=lock, holds=h.count,
                        median_us=h.quantile(0.5) / 1e3,
                        p999_us=h.quantile(0.999) / 1e3,
                        wall_max_us=h.wall_max / 1e3,
                        cpu_of_wall_max_us=h.cpu_of_wall_max / 1e3,
                        cpu_max_us=h.cpu_max / 1e3, by=h.by)
            if lock == "workq queue" or not statements:
                self.rows.append(
                    [name, "%.0f" % rate, lock, h.count, us(h.quantile(0.5)),
                     us(h.quantile(0.999)),
                     "%s (%s)" % (us(h.wall_max), us(h.cpu_of_wall_max)),
                     us(h.cpu_max), h.by])
        q.next += 10 ** 6       # what the refills have taken
        return functions


def by_function(r, functions):
    rows = []
    for (lock, name), h in sorted(functions.items(),
                                  key=lambda x: -x[1].wall_total):
        if lock == "workq queue":
            rows.append([name, h.count, us(h.wall_total / h.count),
                         us(h.cpu_total / h.count), us(h.quantile(0.999)),
                         us(h.wall_max), us(h.cpu_max)])
    r.say("### The queue's lock while jobs are claimed, by who acquires it "
          "(microseconds)")
    r.table(["function", "holds", "mean", "mean CPU", "p99.9", "longest",
             "longest by CPU"], rows)


def shared_memory(c):
    return int(c.sql("SELECT sum(allocated_size) FROM pg_shmem_allocations "
                     "WHERE name LIKE 'workq %'"))


def memory(c, o, r):
    """Bytes per lane, from two sizes."""
    lanes = [int(c.sql("SHOW workq.max_lanes")), 1000]
    sizes = [shared_memory(c)]
    other = Cluster(o.name + "-small", {"workq.max_lanes": lanes[1]})
    try:
        sizes.append(shared_memory(other))
    finally:
        other.destroy()
    r.keep(max_lanes=lanes, shared_memory=sizes)
    r.say("### Shared memory")
    r.say("%.0f bytes per lane: %d bytes with workq.max_lanes = %d, %d with %d."
          % ((sizes[0] - sizes[1]) / (lanes[0] - lanes[1]), sizes[0], lanes[0],
             sizes[1], lanes[1]))


# Each while the others claim; given in turn, CHANGES times.
SETTINGS = [
    ("weight of a key", ["SELECT workq_set_key('QUEUE', 't000001', weight => 3)",
                         "SELECT workq_set_key('QUEUE', 't000001', weight => 1)"]),
    ("starvation_age", ["SELECT workq_configure('QUEUE', starvation_age => '200 s')",
                        "SELECT workq_configure('QUEUE', starvation_age => '300 s')"]),
    ("quantum", ["SELECT workq_configure('QUEUE', quantum => 2)",
                 "SELECT workq_configure('QUEUE', quantum => 1)"]),
    ("default_weight", ["SELECT workq_configure('QUEUE', default_weight => 2)",
                        "SELECT workq_configure('QUEUE', default_weight => 1)"]),
    ("max_concurrent_per_key", ["SELECT workq_configure('QUEUE', max_concurrent_per_key => 1)",
                                "SELECT workq_configure('QUEUE', max_concurrent_per_key => 0)"]),
    ("starvation_mode", ["SELECT workq_configure('QUEUE', starvation_mode => 'strict')",
                         "SELECT workq_configure('QUEUE', starvation_mode => 'bounded')"]),
    ("pause and resume", ["SELECT workq_pause('QUEUE')",
                          "SELECT workq_resume('QUEUE')"]),
    ("views and metrics", ["SELECT count(*) FROM workq.scheduler",
                           "SELECT count(*) FROM workq.scheduler_keys",
                           "SELECT count(*) FROM workq_metrics()"]),
]


def locks(c, o):
    r = Report("locks",
               "How long workq's locks are held, with %d lanes, %d clients in "
               "drr, %d s for each line; microseconds. \"Longest\" is by the "
               "clock, with that hold's CPU time: the difference is time in "
               "which the operating system ran something else. Settings are "
               "changed %d times there and back." %
               (max(o.lanes), o.hand_clients, o.share_seconds, CHANGES))
    t = Locks(c, o, r)
    t.queue.fill()
    c.script("VACUUM (ANALYZE);\nCHECKPOINT;")
    t.measure("warm-up")
    t.rows.clear()
    r.raw.clear()
    functions = t.measure("claims")
    for name, statements in SETTINGS:
        t.measure(name, statements)
    r.table(["while", "claims/s", "lock", "holds", "median", "p99.9",
             "longest (its CPU)", "longest by CPU", "acquired by"], t.rows)
    by_function(r, functions)
    memory(c, o, r)
    return r
