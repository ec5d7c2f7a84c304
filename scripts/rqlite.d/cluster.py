"""Three nodes of rqlite on loopback, whose leaders are killed under load: for scripts/rqlite.

Each row has a number that is written once. Its transaction also counts it, so that rows and counters always agree. A
row is *acknowledged* if a node has answered that it was inserted, and *sent* if it may have been: the answer was an
error, or none. In the end all acknowledged rows are there, and none that was not sent.
"""

import hashlib
import http.client
import json
import os
import random
import signal
import socket
import sqlite3
import threading
import time

from processes import end, start

NODES = 3
WRITERS = 4
# So few entries of Raft's log that each node makes snapshots all the time, by which it reads its WAL and empties it,
# and restores one when it starts.
SNAPSHOT_ENTRIES = 200
# Kills of all nodes at once are so far apart.
ALL_AT_ONCE_EVERY = 5
# As long as a step may take that has no other bound: an election, a restart, catching up.
PATIENCE_SECONDS = 120


class Failure(Exception):
    """The cluster does not do what it has to."""


def until(condition, what, seconds=PATIENCE_SECONDS):
    """Waits until a condition is true, and returns its value.

    A step counts as one second at most: so time in which this program and the nodes were stopped does not count.
    """
    waited, last = 0, time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        now = time.monotonic()
        waited, last = waited + min(now - last, 1), now
        if waited > seconds:
            raise Failure(f"after {seconds} s: {what}")
        time.sleep(0.05)


def free_ports(count):
    """Returns ports of loopback that are free now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class Node:
    """A node of the cluster, with its folder, ports and process."""

    def __init__(self, number, folder, api, raft):
        self.name = f"node{number}"
        self.folder = folder / self.name
        self.folder.mkdir()
        self.database = self.folder / "db.sqlite"
        self.api, self.raft = api, raft
        self.process = None
        self.snapshots = self.restores = 0

    def start(self, rqlited, library, others, log):
        command = [
            rqlited, "-node-id", self.name, "-http-addr", f"127.0.0.1:{self.api}",
            "-raft-addr", f"127.0.0.1:{self.raft}", "-bootstrap-expect", str(NODES),
            "-join", ",".join(f"127.0.0.1:{node.raft}" for node in others),
            "-raft-snap", str(SNAPSHOT_ENTRIES), "-raft-snap-int", "500ms", self.folder]
        with open(log / self.name, "ab") as file:
            environment = dict(os.environ, LD_PRELOAD=str(library))
            self.process = start(command, env=environment, stdout=file, stderr=file)

    def ask(self, method, path, body=None, seconds=20):
        """Sends a request and returns the answer's code and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.api, timeout=seconds)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def sql(self, path, statements):
        """Runs statements by an endpoint, and returns the result of each, or None if the node gives no results."""
        try:
            code, body = self.ask("POST", path, statements)
            return json.loads(body)["results"] if code == 200 else None
        except (OSError, http.client.HTTPException, ValueError, KeyError):
            return None

    def here(self, query):
        """Returns the rows of a query that this node answers from its own database."""
        results = self.sql("/db/query?level=none", [query])
        if not results or "error" in results[0]:
            raise Failure(f"{self.name}: {query}: {results}")
        return results[0].get("values", [])

    def status(self, path="/status"):
        """Returns what the node says about itself, or None if it does not answer."""
        try:
            code, body = self.ask("GET", path)
            return json.loads(body) if code == 200 else None
        except (OSError, http.client.HTTPException, ValueError):
            return None

    def ready(self):
        try:
            return self.ask("GET", "/readyz?sync&timeout=5s")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def leads(self):
        # A node that is starting says less about itself.
        status = self.status() or {}
        return status.get("store", {}).get("raft", {}).get("state") == "Leader"

    def applied(self):
        """Returns how many entries of Raft's log its database has, or none."""
        status = self.status() or {}
        return status.get("store", {}).get("fsm_index", 0)

    def counts(self):
        """Returns how many snapshots the node has made and restored, in all of its processes."""
        store = (self.status("/debug/vars") or {}).get("store", {})
        return self.snapshots + store.get("num_snapshots", 0), self.restores + store.get("num_restores", 0)

    def keep_counts(self):
        """Keeps what the process that is to end has counted."""
        self.snapshots, self.restores = self.counts()

    def check_vfs(self, library):
        """Fails if the database is not open through the VFS."""
        share = self.here("PRAGMA perdura_share")
        if share != [["perdura"]]:
            raise Failure(f"{self.name}: PRAGMA perdura_share answers {share}: the VFS does not have the database")
        with open(f"/proc/{self.process.pid}/maps") as file:
            mapped = {line.split(maxsplit=5)[5].strip() for line in file if len(line.split()) > 5}
        side, log = f"{self.database}-perdura", f"{self.database}-wal"
        for path in (str(library), side, log):
            if path not in mapped:
                raise Failure(f"{self.name}: {path} is not mapped: the VFS does not have the database")


class Load:
    """Threads that write rows and read them back, and what they know of each row."""

    def __init__(self, nodes, seed):
        self.nodes, self.seed = nodes, seed
        self.stopped = threading.Event()
        self.lock = threading.Lock()
        self.acknowledged, self.unknown = set(), set()
        self.reads = 0
        self.problems = []
        self.threads = [threading.Thread(target=self._write, args=(n,), daemon=True) for n in range(WRITERS)]
        self.threads += [threading.Thread(target=self._read, args=(node,), daemon=True) for node in nodes]

    def start(self):
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join(PATIENCE_SECONDS)
            if thread.is_alive():
                raise Failure("a request has no end")

    def _write(self, writer):
        choice = random.Random(f"{self.seed} {writer}")
        number = 0
        while not self.stopped.is_set():
            key = number * WRITERS + writer
            number += 1
            value = f"{key * 7919 % 100003:x}" * choice.randrange(1, 60)
            results = choice.choice(self.nodes).sql("/db/execute?transaction", [
                ["INSERT INTO t(id, writer, value) VALUES(?, ?, ?)", key, writer, value],
                ["UPDATE counters SET n = n + 1 WHERE writer = ?", writer],
            ])
            good = results is not None and [result.get("rows_affected") for result in results] == [1, 1]
            with self.lock:
                (self.acknowledged if good else self.unknown).add(key)
            if not good:
                self.stopped.wait(0.05)

    def _read(self, node):
        query = "SELECT (SELECT count(*) FROM t), (SELECT sum(n) FROM counters), (SELECT count(DISTINCT id) FROM t)"
        while not self.stopped.is_set():
            results = node.sql("/db/query?level=none", [query])
            # A node that is down, or has not got the tables yet, gives no values.
            if results and results[0].get("values"):
                rows, counted, distinct = results[0]["values"][0]
                with self.lock:
                    self.reads += 1
                    if not rows == counted == distinct:
                        self.problems.append(f"{node.name} has {rows} rows, {distinct} of them different, "
                                             f"and has counted {counted}")
            self.stopped.wait(0.02)

    def count(self):
        with self.lock:
            return len(self.acknowledged)


def leader_of(nodes):
    return until(lambda: next((node for node in nodes if node.leads()), None), "no node leads")


def judge(rows, load, whose):
    """Returns what is wrong with the rows of a database."""
    numbers = {row[0] for row in rows}
    lost = load.acknowledged - numbers
    surplus = numbers - load.acknowledged - load.unknown
    problems = []
    if lost:
        problems.append(f"{whose} has lost {len(lost)} acknowledged rows, such as {sorted(lost)[:5]}")
    if surplus or len(numbers) != len(rows):
        problems.append(f"{whose} has rows that were not sent, or twice: {sorted(surplus)[:5]}")
    return problems


ALL_ROWS = "SELECT id, writer, value FROM t ORDER BY id"


def digest(rows):
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def kill(nodes, load, number, begin, library, choice):
    """Kills the leader, or now and then all nodes, once; lets the others go on, and starts what was killed."""
    enough = load.count() + choice.randrange(20, 200)
    until(lambda: load.count() >= enough, f"no {enough} rows are acknowledged before kill {number}")
    for node in nodes:
        node.check_vfs(library)
        # Each kill is to be followed by the restoring of a snapshot.
        until(lambda: node.counts()[0] > 0, f"{node.name} makes no snapshot")
    everyone = number % ALL_AT_ONCE_EVERY == ALL_AT_ONCE_EVERY - 1
    killed = nodes if everyone else [leader_of(nodes)]
    for node in killed:
        node.keep_counts()
    for node in killed:
        node.process.kill()
    for node in killed:
        end(node.process)
    left = [node for node in nodes if node not in killed]
    if left:
        leader_of(left)
        enough = load.count() + 20
        until(lambda: load.count() >= enough, f"two nodes acknowledge nothing after kill {number}")
    for node in killed:
        begin(node)
    for node in killed:
        until(node.ready, f"{node.name} is not ready after kill {number}")
    if load.problems:
        raise Failure("; ".join(load.problems[:3]))


def compare(nodes, load, library):
    """Compares the rows of all nodes with each other and with what was acknowledged, while they run."""
    until(lambda: all(node.ready() for node in nodes), "the nodes do not catch up")
    last = max(node.applied() for node in nodes)
    until(lambda: all(node.applied() >= last for node in nodes), "the nodes do not catch up")
    problems, digests = [], set()
    for node in nodes:
        node.check_vfs(library)
        rows = node.here(ALL_ROWS)
        problems += judge(rows, load, node.name)
        digests.add(digest(rows))
        answer = node.here("PRAGMA integrity_check")
        if answer != [["ok"]]:
            problems.append(f"{node.name}: PRAGMA integrity_check answers {answer[:3]}")
    if len(digests) != 1:
        problems.append("the nodes have different rows")
    return problems, digests


def compare_files(nodes, load, digests):
    """Ends the nodes and lets stock SQLite read their files."""
    problems = []
    for node in nodes:
        if end(node.process, signal.SIGTERM) != 0:
            problems.append(f"{node.name} does not end when it is asked to")
            continue
        with sqlite3.connect(node.database) as connection:
            rows = [list(row) for row in connection.execute(ALL_ROWS)]
            whole = connection.execute("PRAGMA integrity_check").fetchall()
        connection.close()
        problems += judge(rows, load, f"stock SQLite on the file of {node.name}")
        if digest(rows) not in digests or whole != [("ok",)]:
            problems.append(f"stock SQLite does not read in the file of {node.name} what the node has: {whole[:3]}")
    return problems


def kills(rqlited, library, medium, logs, kills, seed):
    """Runs the suite, and returns what is wrong and a line of figures."""
    choice = random.Random(seed)
    ports = free_ports(2 * NODES)
    nodes = [Node(n, medium, ports[2 * n], ports[2 * n + 1]) for n in range(NODES)]
    load = Load(nodes, seed)
    done, problems = 0, []

    def begin(node):
        node.start(rqlited, library, nodes, logs)

    try:
        for node in nodes:
            begin(node)
        leader = leader_of(nodes)
        until(lambda: all(node.ready() for node in nodes), "the nodes are not ready")
        tables = ["CREATE TABLE t(id INTEGER PRIMARY KEY, writer INTEGER, value TEXT)", "CREATE INDEX i ON t(value)",
                  "CREATE TABLE counters(writer INTEGER PRIMARY KEY, n INTEGER)"]
        tables += [f"INSERT INTO counters VALUES({writer}, 0)" for writer in range(WRITERS)]
        results = leader.sql("/db/execute", tables)
        if not results or any("error" in result for result in results):
            raise Failure(f"the tables cannot be made: {results}")
        load.start()
        while done < kills:
            kill(nodes, load, done, begin, library, choice)
            done += 1
        load.stop()
        for node in nodes:
            node.keep_counts()
        problems, digests = compare(nodes, load, library)
        problems += compare_files(nodes, load, digests)
    except Failure as why:
        problems.append(f"after {done} kills: {why}")
    finally:
        load.stopped.set()
        for node in nodes:
            if node.process is not None and node.process.returncode is None:
                end(node.process)
    problems += load.problems[:3]
    snapshots, restores = (sum(getattr(node, name) for node in nodes) for name in ("snapshots", "restores"))
    if not problems and (snapshots == 0 or restores == 0 or load.reads == 0):
        problems.append("no snapshot was made or restored, or nothing was read: the run shows nothing")
    return problems, (f"{done} kills, {len(load.acknowledged)} rows acknowledged, {len(load.unknown)} refused or "
                      f"unanswered, {load.reads} reads, {snapshots} snapshots, {restores} restored")
