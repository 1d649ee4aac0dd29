"""What workq's benchmarks share: a private cluster under load, and reports."""

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUT = os.path.join(ROOT, "build", "bench")
CLUSTER = os.path.join(ROOT, "scripts", "cluster")
TICK = os.sysconf("SC_CLK_TCK")

PAYLOAD = '{"document": 42, "action": "summarise", "language": "en"}'
JOBS = json.dumps([{"payload": json.loads(PAYLOAD)}] * 100)

# What a claim costs must not depend on where checkpoints fall, so there are
# few; everything that makes a commit durable is as in production.
SETTINGS = {
    "shared_buffers": "1GB",
    "fsync": "on",
    "synchronous_commit": "on",
    "max_wal_size": "8GB",
    "min_wal_size": "2GB",
    "checkpoint_timeout": "30min",
    "max_connections": "200",
    "track_io_timing": "off",
    "jit": "off",
    "log_min_messages": "warning",
}

# ---------------------------------------------------------------------------
# The cluster
# ---------------------------------------------------------------------------

class Cluster:
    """A fresh private cluster; library: with this one in place of workq.so."""

    def __init__(self, name, settings, library=None):
        self.name = name
        args = [CLUSTER, "start", name, "--fresh"]
        for key, value in settings.items():
            args += ["-c", "%s=%s" % (key, value)]
        env = dict(os.environ)
        if library:
            env["WORKQ_LIBRARY"] = library
        subprocess.run(args, check=True, env=env)
        self.env = dict(os.environ)
        text = subprocess.run([CLUSTER, "env", name], check=True,
                              stdout=subprocess.PIPE, text=True).stdout
        for line in subprocess.run(["bash", "-c", text + "\nenv -0"],
                                   check=True, stdout=subprocess.PIPE,
                                   text=True).stdout.split("\0"):
            key, _, value = line.partition("=")
            if key in ("PATH", "PGHOST", "PGPORT", "PGUSER"):
                self.env[key] = value
        self.env["PGDATABASE"] = "bench"
        self.sql("CREATE DATABASE bench", db="postgres")
        self.sql("CREATE EXTENSION workq")
        data = self.sql("SHOW data_directory")
        with open(os.path.join(data, "postmaster.pid")) as f:
            self.postmaster = int(f.readline())
        self.data = data

    def destroy(self):
        subprocess.run([CLUSTER, "destroy", self.name], check=False)

    def sql(self, text, db=None):
        env = dict(self.env)
        if db:
            env["PGDATABASE"] = db
        done = subprocess.run(
            ["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-c", text], env=env,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise SystemExit("psql: %s\n%s" % (text[:200], done.stderr))
        return done.stdout.strip()

    def script(self, text):
        """Statements one by one, each its own transaction."""
        done = subprocess.run(["psql", "-XqAt", "-v", "ON_ERROR_STOP=1"],
                              env=self.env, input=text,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True)
        if done.returncode != 0:
            raise SystemExit("psql: " + done.stderr)
        return done.stdout.strip()

    def setting(self, name, value):
        self.script("ALTER SYSTEM SET %s = '%s';\nSELECT pg_reload_conf();"
                    % (name, value))
        time.sleep(0.3)

    def cpu(self):
        """CPU seconds used so far by all processes of the cluster."""
        while True:
            before = stat(self.postmaster)
            live = 0
            for pid in children(self.postmaster):
                s = stat(pid)
                if s is not None and s["ppid"] == self.postmaster:
                    live += s["own"]
            after = stat(self.postmaster)
            # nobody was reaped meanwhile, so nobody was counted twice
            if before["reaped"] == after["reaped"]:
                return (after["own"] + after["reaped"] + live) / TICK

    def wal(self):
        return int(self.sql("SELECT pg_current_wal_insert_lsn() - '0/0'"))

    # -- load ---------------------------------------------------------------

    def pgbench_args(self, script, clients, define, seconds=None,
                     transactions=None):
        f = tempfile.NamedTemporaryFile("w", suffix=".sql", delete=False)
        f.write(script)
        f.close()
        args = ["pgbench", "-n", "-M", "prepared", "-f", f.name,
                "-c", str(clients), "-j", str(min(clients, 2))]
        values = {"q": "b", "payload": PAYLOAD, "jobs": JOBS, "n": 0,
                  "clients": clients}
        values.update(define or {})
        for key, value in values.items():
            if re.search(r":%s\b" % key, script):
                args += ["-D", "%s=%s" % (key, value)]
        if transactions:
            args += ["-t", str(max(1, transactions // clients))]
        else:
            args += ["-T", str(seconds)]
        return args, f.name

    def load_env(self, sync, options=""):
        env = dict(self.env)
        env["PGOPTIONS"] = "-c synchronous_commit=%s %s" % (
            "on" if sync else "off", options)
        return env

    def load(self, script, clients=1, seconds=None, transactions=None,
             define=None, sync=True):
        """Run pgbench; rate per second and server CPU microseconds per
        transaction (per pass over the script)."""
        args, name = self.pgbench_args(script, clients, define, seconds,
                                       transactions)
        cpu = self.cpu()
        done = subprocess.run(args, env=self.load_env(sync),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True)
        self.quiet()
        cpu = self.cpu() - cpu
        os.unlink(name)
        if done.returncode != 0 or "aborted" in done.stderr:
            raise SystemExit("pgbench failed:\n%s\n%s" % (done.stdout,
                                                         done.stderr))
        n = int(re.search(r"actually processed: (\d+)", done.stdout).group(1))
        tps = float(re.search(r"tps = ([\d.]+) \(without", done.stdout).group(1))
        return {"n": n, "tps": tps, "cpu_us": cpu * 1e6 / max(n, 1)}

    def logged_load(self, script, clients, warm, seconds, define=None,
                    sync=True, options="", may_fail=False):
        """Run pgbench for longer, and look at the passes that end after "warm"
        seconds: "n", "tps" and "cpu_us" are theirs; "all" counts all passes,
        "passes" has for each client the list of (latency in us, ended after
        warm).  options: settings for the sessions.  may_fail: a statement may,
        which ends its client; "failed" tells."""
        args, name = self.pgbench_args(script, clients, define, warm + seconds)
        logs = tempfile.mkdtemp()
        args += ["--log", "--log-prefix=" + os.path.join(logs, "log")]
        pgbench = subprocess.Popen(args, env=self.load_env(sync, options),
                                   stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        time.sleep(warm)
        since, cpu = time.time(), self.cpu()
        out, err = pgbench.communicate()
        until = time.time()
        self.quiet()
        cpu = self.cpu() - cpu
        os.unlink(name)
        failed = pgbench.returncode != 0 or "aborted" in err
        if failed and not may_fail:
            raise SystemExit("pgbench failed:\n%s\n%s" % (out, err))
        passes = read_log(logs, since)
        n = sum(late for p in passes.values() for _, late in p)
        return {"n": n, "tps": n / (until - since),
                "cpu_us": cpu * 1e6 / max(n, 1), "failed": failed,
                "all": sum(len(p) for p in passes.values()), "passes": passes}

    def start_load(self, script, clients, seconds, define=None, sync=True):
        args, name = self.pgbench_args(script, clients, define, seconds)
        return subprocess.Popen(args, env=self.load_env(sync),
                                stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE)

    def quiet(self):
        """Wait until the clients' backends are gone."""
        for _ in range(100):
            if self.sql("SELECT count(*) FROM pg_stat_activity WHERE "
                        "backend_type = 'client backend' AND application_name "
                        "= 'pgbench'") == "0":
                return
            time.sleep(0.05)

    # -- queues -------------------------------------------------------------

    def fill(self, queue, n):
        """Enqueue n jobs, in batches of 1000."""
        if n <= 0:
            return
        if n % 1000:
            self.sql("SELECT count(*) FROM workq_enqueue_batch('%s', (SELECT "
                     "jsonb_agg(jsonb_build_object('payload', '%s'::jsonb)) "
                     "FROM generate_series(1, %d)))"
                     % (queue, PAYLOAD, n % 1000))
        self.script(
            "SET synchronous_commit = off;\n"
            "SELECT jsonb_agg(jsonb_build_object('payload', '%s'::jsonb)) AS j "
            "FROM generate_series(1, 1000) \\gset\n"
            "PREPARE e(jsonb) AS SELECT count(*) FROM workq_enqueue_batch('%s', $1);\n"
            % (PAYLOAD, queue) + "EXECUTE e(:'j');\n" * (n // 1000))

    def ready(self, queue):
        return int(self.sql("SELECT coalesce(sum(ready), 0) FROM "
                            "workq.queue_overview WHERE queue = '%s'" % queue))

    def top_up(self, queue, n):
        self.fill(queue, n - self.ready(queue))


def read_log(directory, since):
    """From pgbench's logs of transactions, for each client a list of (latency
    in microseconds, did it end after "since"?).  The directory is removed."""
    passes = {}
    for name in os.listdir(directory):
        with open(os.path.join(directory, name)) as f:
            for line in f:
                client, _, us, _, second, microsecond = line.split()[:6]
                if us.isdigit():                # not "failed"
                    passes.setdefault(int(client), []).append(
                        (int(us),
                         int(second) + int(microsecond) / 1e6 >= since))
    shutil.rmtree(directory)
    return passes


def stat(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            fields = f.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return {"ppid": int(fields[1]), "own": int(fields[11]) + int(fields[12]),
            "reaped": int(fields[13]) + int(fields[14])}


def children(pid):
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
            return [int(x) for x in f.read().split()]
    except FileNotFoundError:
        out = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)],
                             stdout=subprocess.PIPE, text=True).stdout
        return [int(x) for x in out.split()]


class Session:
    """A psql that stays, for open transactions."""

    def __init__(self, cluster, *statements):
        self.psql = subprocess.Popen(
            ["psql", "-XqAt", "-v", "ON_ERROR_STOP=1"], env=cluster.env,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True)
        self.do(*statements)

    def do(self, *statements):
        """Have the statements run, wait until they have."""
        for s in statements:
            self.psql.stdin.write(s + ";\n")
        self.psql.stdin.write("\\echo ready-for-more\n")
        self.psql.stdin.flush()
        for line in self.psql.stdout:
            if line.strip() == "ready-for-more":
                return
            if "ERROR" in line:
                raise SystemExit("psql: " + line)
        raise SystemExit("psql ended early")

    def close(self):
        self.psql.stdin.close()
        self.psql.wait()


# ---------------------------------------------------------------------------
# Reporting
# ---------------------------------------------------------------------------

class Report:
    def __init__(self, name, what):
        self.name = name
        self.lines = ["## %s" % name, "", what, ""]
        self.raw = []

    def table(self, head, rows):
        self.lines.append("| " + " | ".join(head) + " |")
        self.lines.append("|" + "---|" * len(head))
        for row in rows:
            self.lines.append("| " + " | ".join(str(c) for c in row) + " |")
        self.lines.append("")

    def say(self, text):
        self.lines += [text, ""]

    def keep(self, **values):
        self.raw.append(values)
        print("   " + ", ".join(
            "%s=%s" % (k, "%.1f" % v if isinstance(v, float) else v)
            for k, v in values.items()), file=sys.stderr, flush=True)

    def write(self):
        os.makedirs(OUT, exist_ok=True)
        text = "\n".join(self.lines) + "\n"
        with open(os.path.join(OUT, self.name + ".md"), "w") as f:
            f.write(text)
        with open(os.path.join(OUT, self.name + ".json"), "w") as f:
            json.dump(self.raw, f, indent=1)
        print(text, flush=True)


def median(values):
    return statistics.median(values)


def spread(values, form="%.2f"):
    """median (lowest to highest)"""
    return (form + " (" + form + " to " + form + ")") % (
        median(values), min(values), max(values))


def numbers(text):
    return [int(x) for x in text.split(",")]
