"""What the package promises, of one that is installed: `scripts/wheel --check` runs it in a fresh environment."""

import base64
import contextlib
import hashlib
import importlib.metadata
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import unittest

import perdura_sqlite

MEMORY = "/dev/shm"
README = pathlib.Path(__file__).parents[1] / "README.md"


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=MEMORY)
        self.addCleanup(shutil.rmtree, self.folder)
        self.path = os.path.join(self.folder, "db")

    def opened(self, *arguments, **options):
        connection = perdura_sqlite.connect(*arguments, **options)
        self.addCleanup(connection.close)
        return connection

    def process(self, program, *arguments, **options):
        command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)

    def output(self, program, *arguments):
        """What a process prints that has to end well."""
        process = self.process(program, *arguments)
        printed, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, printed)
        return printed


class Durable(Case):
    def killed(self, wal):
        """A process inserts rows until it is killed: the number of rows that it has reported."""
        writer = self.process(
            """
            import sys, perdura_sqlite
            db = perdura_sqlite.connect(sys.argv[1], isolation_level=None, wal=sys.argv[2] == "wal")
            db.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)")
            row = 0
            while True:
                db.execute("INSERT INTO t VALUES(?, ?)", (row, str(row) * 50))
                print(row, flush=True)
                row += 1
            """,
            self.path,
            "wal" if wal else "rollback",
        )
        with contextlib.closing(writer.stdout) as lines:
            reported = [next(lines) for _ in range(500)]
            writer.send_signal(signal.SIGKILL)
            reported += lines.readlines()
        self.assertEqual(writer.wait(), -signal.SIGKILL)
        self.assertEqual([int(line) for line in reported], list(range(len(reported))))
        return len(reported)

    def check_rows(self, connection, reported):
        rows = [row for (row,) in connection.execute("SELECT a FROM t ORDER BY a")]
        # The last one may have been committed and not reported.
        self.assertIn(len(rows) - reported, (0, 1))
        self.assertEqual(rows, list(range(len(rows))))
        self.assertEqual(connection.execute("PRAGMA integrity_check").fetchone(), ("ok",))

    def test_reported_rows_are_there_after_a_kill(self):
        reported = self.killed(wal=True)
        self.check_rows(self.opened(self.path), reported)

    def test_stock_sqlite_recovers_a_killed_log(self):
        reported = self.killed(wal=True)
        with contextlib.closing(sqlite3.connect(self.path)) as stock:
            self.check_rows(stock, reported)
        self.check_rows(self.opened(self.path), reported)

    def test_killed_rollback_database_is_recovered_by_the_vfs(self):
        reported = self.killed(wal=False)
        with contextlib.closing(sqlite3.connect(self.path)) as stock:
            with self.assertRaisesRegex(sqlite3.DatabaseError, "not a database"):
                stock.execute("SELECT * FROM t").fetchone()
        connection = self.opened(self.path)
        self.check_rows(connection, reported)
        self.assertEqual(perdura_sqlite.stats(connection)["recoveries"], 1)
        connection.close()
        with contextlib.closing(sqlite3.connect(self.path)) as stock:
            self.check_rows(stock, reported)

    def test_transactions_commit_with_a_fence_and_roll_back(self):
        connection = self.opened(self.path)
        with connection:
            connection.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
            connection.execute("INSERT INTO t VALUES(0, 'zero')")
        before = perdura_sqlite.stats(connection)
        with connection:
            connection.execute("INSERT INTO t VALUES(1, 'one')")
        after = perdura_sqlite.stats(connection)
        self.assertEqual(after["commits"] - before["commits"], 1)
        self.assertGreater(after["fences"], 0)
        with self.assertRaises(ZeroDivisionError), connection:
            connection.execute("INSERT INTO t VALUES(2, 'two')")
            raise ZeroDivisionError
        self.assertEqual(connection.execute("SELECT a FROM t").fetchall(), [(0,), (1,)])


class JournalModes(Case):
    def mode(self, connection):
        return connection.execute("PRAGMA journal_mode").fetchone()[0]

    def test_new_and_empty_databases_begin_in_wal_mode(self):
        os.chdir(self.folder)
        pathlib.Path("empty").touch()
        for given, file, uri in [
            (self.path, self.path, False),
            ("empty", "empty", False),
            ("file:near", "near", True),
            (f"file://localhost{self.folder}/a%20b?mode=rwc#x", "a b", True),
        ]:
            connection = self.opened(given, uri=uri)
            self.assertEqual(self.mode(connection), "wal", given)
            connection.execute("CREATE TABLE t(a)")
            self.assertGreater(perdura_sqlite.stats(connection)["wal_frames"], 0)
            connection.close()
            with contextlib.closing(sqlite3.connect(file)) as stock:
                self.assertEqual(self.mode(stock), "wal")

    def test_databases_with_pages_keep_their_mode(self):
        for mode in ("delete", "wal"):
            path = self.path + mode
            with contextlib.closing(sqlite3.connect(path)) as stock:
                stock.execute(f"PRAGMA journal_mode = {mode}")
                stock.execute("CREATE TABLE t(a)")
            self.assertEqual(self.mode(self.opened(path)), mode)

    def test_rollback_modes_can_be_asked_for(self):
        for number, (query, options) in enumerate(
            [
                ("", {"wal": False}),
                ("", {"mode": "full"}),
                ("", {"share": "stock"}),
                ("?perdura_mode=full", {}),
                ("?perdura_share=stock", {}),
                ("?perdura_wal=off", {}),
            ]
        ):
            path = f"{self.path}-{number}"
            connection = self.opened(f"file:{path}{query}", uri=True, **options)
            # Nothing was written.
            self.assertEqual(os.path.getsize(path), 0)
            connection.execute("CREATE TABLE t(a)")
            self.assertEqual(self.mode(connection), "delete", (query, options))
        connection = self.opened(self.path, wal=False)
        connection.execute("PRAGMA page_size = 8192")
        self.assertEqual(connection.execute("PRAGMA journal_mode = WAL").fetchone(), ("wal",))
        connection.execute("CREATE TABLE t(a)")
        self.assertEqual(connection.execute("PRAGMA page_size").fetchone(), (8192,))

    def test_empty_file_opened_to_read_is_left_as_it_is(self):
        pathlib.Path(self.path).touch()
        for parameter in ("mode=ro", "immutable=1"):
            connection = self.opened(f"file:{self.path}?{parameter}", uri=True, allow_stock=True)
            self.assertEqual(connection.execute("PRAGMA page_count").fetchone(), (0,))
            connection.close()
        self.assertEqual(os.path.getsize(self.path), 0)

    def test_connection_that_writes_the_first_pages_decides(self):
        first = self.opened(self.path, wal=False, isolation_level=None)
        first.execute("BEGIN IMMEDIATE")
        first.execute("CREATE TABLE t(a)")
        second = self.opened(self.path, timeout=0.01)
        first.execute("COMMIT")
        self.assertEqual(self.mode(second), "delete")
        self.assertEqual(second.execute("SELECT count(*) FROM t").fetchone(), (0,))

    def test_readers_and_a_writer_go_on_together(self):
        writer = self.opened(self.path, isolation_level=None)
        writer.execute("CREATE TABLE t(a)")
        reader = self.opened(self.path, isolation_level=None, timeout=0)
        reader.execute("BEGIN")
        self.assertEqual(reader.execute("SELECT count(*) FROM t").fetchone(), (0,))
        writer.execute("INSERT INTO t VALUES(1)")
        writer.execute("BEGIN IMMEDIATE")
        self.assertEqual(reader.execute("SELECT count(*) FROM t").fetchone(), (0,))
        reader.execute("COMMIT")
        self.assertEqual(reader.execute("SELECT count(*) FROM t").fetchone(), (1,))

    @unittest.skipIf(sys.version_info < (3, 12), "the argument autocommit is of Python 3.12")
    def test_connection_that_is_always_in_a_transaction_begins_so(self):
        connection = self.opened(self.path, autocommit=False)
        self.assertEqual((self.mode(connection), connection.autocommit), ("wal", False))
        connection.execute("CREATE TABLE t(a)")
        connection.rollback()
        self.assertEqual(connection.execute("SELECT count(*) FROM sqlite_master").fetchone(), (0,))


class Names(Case):
    def test_every_kind_of_name_leads_to_that_file(self):
        odd = os.path.join(self.folder, "a b?c#d%41&vfs=unix;é")
        undecodable = os.fsencode(self.folder) + b"/\xff"
        for given, file in [
            (odd, odd),
            (os.fsencode(self.path), self.path),
            (pathlib.Path(self.path + "-2"), self.path + "-2"),
            (undecodable, undecodable),
        ]:
            connection = perdura_sqlite.connect(given)
            connection.execute("CREATE TABLE t(a)")
            perdura_sqlite.stats(connection)
            self.assertTrue(os.path.exists(file), given)
            connection.close()
        os.chdir(self.folder)
        self.opened("near").execute("CREATE TABLE t(a)")
        self.opened("file:not-a-uri").execute("CREATE TABLE t(a)")
        self.assertTrue(os.path.exists("near") and os.path.exists("file:not-a-uri"))

    def test_uris_keep_their_parameters(self):
        uri = f"file:{self.path}"
        for given, mode in [(uri, "lean"), (uri + "?mode=rwc&perdura_mode=full#x", "full"), (uri + "?vfs=perdura", "lean")]:
            connection = perdura_sqlite.connect(given, uri=True)
            self.assertEqual(connection.execute("PRAGMA perdura_mode").fetchone(), (mode,))
            connection.close()
        with self.assertRaisesRegex(sqlite3.OperationalError, "unable to open database file: .*nowhere"):
            perdura_sqlite.connect(f"file:{self.folder}/nowhere?mode=rw", uri=True)
        # Not the errors of the operating system.
        pathlib.Path(self.path).touch()
        for name in (os.path.join(self.path, "below"), os.path.join(self.folder, "x" * 300)):
            with self.assertRaisesRegex(sqlite3.OperationalError, "unable to open database file"):
                perdura_sqlite.connect(name)

    def test_mode_and_domain_are_those_that_are_asked_for(self):
        connection = self.opened(self.path, mode="full", domain="adr")
        self.assertEqual(connection.execute("PRAGMA perdura_mode").fetchone(), ("full",))
        self.assertEqual(connection.execute("PRAGMA perdura_domain").fetchone(), ("adr",))

    def test_stock_sqlite_shares_it_if_that_is_asked_for(self):
        connection = self.opened(self.path, share="stock")
        self.assertEqual(connection.execute("PRAGMA perdura_share").fetchone(), ("stock",))
        connection.execute("CREATE TABLE t(a)")
        with connection:
            connection.execute("INSERT INTO t VALUES(1)")
        stock = sqlite3.connect(self.path)
        with stock:
            stock.execute("INSERT INTO t VALUES(2)")
        self.assertEqual(stock.execute("SELECT a FROM t").fetchall(), [(1,), (2,)])
        stock.close()
        self.assertEqual(connection.execute("SELECT a FROM t").fetchall(), [(1,), (2,)])

    def test_options_are_those_of_sqlite3(self):
        class Own(sqlite3.Connection):
            pass

        connection = self.opened(
            self.path, timeout=0.01, isolation_level="IMMEDIATE", detect_types=sqlite3.PARSE_DECLTYPES, factory=Own
        )
        self.assertIsInstance(connection, Own)
        self.assertEqual(connection.isolation_level, "IMMEDIATE")
        connection.execute("CREATE TABLE t(a)")
        connection.execute("BEGIN IMMEDIATE")
        with self.assertRaisesRegex(sqlite3.OperationalError, "locked"):
            self.opened(self.path, timeout=0.01, isolation_level=None).execute("BEGIN IMMEDIATE")
        with self.assertRaises(TypeError):
            perdura_sqlite.connect(self.path, time_out=1)

    def test_contradictory_arguments_are_refused(self):
        uri = f"file:{self.path}"
        for given, options, error in [
            (":memory:", {}, "without a file"),
            ("", {}, "without a file"),
            ("file::memory:", {"uri": True}, "without a file"),
            (uri + "?mode=memory", {"uri": True}, "without a file"),
            (uri + "?vfs=unix", {"uri": True}, "another VFS, unix"),
            (uri + "?perdura_mode=full", {"uri": True, "mode": "fash1"}, "perdura_mode=full"),
            (self.path + "\0", {}, "zero byte"),
        ]:
            with self.assertRaisesRegex(ValueError, error):
                perdura_sqlite.connect(given, **options)
        with self.assertRaisesRegex(TypeError, "mode has to be a str, not int"):
            perdura_sqlite.connect(self.path, mode=1)
        with self.assertRaises(TypeError):
            perdura_sqlite.connect(17)
        for options in [{"mode": "slow"}, {"domain": "moon"}, {"share": "all"}]:
            with self.assertRaisesRegex(sqlite3.OperationalError, "perdura_(mode=slow|domain=moon|share=all)"):
                perdura_sqlite.connect(self.path, **options)


class Taken(Case):
    def in_wal_mode(self):
        """Stock SQLite has the database open in WAL mode."""
        stock = sqlite3.connect(self.path)
        self.addCleanup(stock.close)
        self.assertEqual(stock.execute("PRAGMA journal_mode = WAL").fetchone(), ("wal",))
        stock.execute("CREATE TABLE t(a)")

    def test_a_database_that_is_not_taken_is_refused_unless_that_is_allowed(self):
        self.in_wal_mode()
        with self.assertRaisesRegex(perdura_sqlite.NotTaken, "does not take this database: it is in SQLite's WAL mode"):
            perdura_sqlite.connect(self.path)
        with self.assertRaises(perdura_sqlite.NotTaken):
            perdura_sqlite.connect(f"file:{self.path}?mode=ro", uri=True)
        connection = self.opened(self.path, allow_stock=True)
        with connection:
            connection.execute("INSERT INTO t VALUES(1)")
        with self.assertRaises(perdura_sqlite.NotTaken):
            perdura_sqlite.stats(connection)

    def test_mode_stock_is_asked_for(self):
        connection = self.opened(self.path, mode="stock")
        connection.execute("CREATE TABLE t(a)")
        with self.assertRaises(perdura_sqlite.NotTaken):
            perdura_sqlite.stats(connection)

    def test_another_connection_of_this_process_is_stock(self):
        perdura_sqlite.load()
        connection = sqlite3.connect(self.path)
        self.addCleanup(connection.close)
        with self.assertRaises(perdura_sqlite.NotTaken):
            perdura_sqlite.stats(connection)

    def test_stats_work_whatever_rows_are_made_of(self):
        connection = self.opened(self.path)
        # The one that has begun WAL mode.
        connection.row_factory = lambda cursor, row: {"row": row}
        self.assertEqual(perdura_sqlite.stats(connection)["commits"], 1)
        connection.text_factory = bytes
        self.assertEqual(perdura_sqlite.stats(connection)["commits"], 1)


class Loading(Case):
    def test_threads_load_it_once(self):
        printed = self.output(
            """
            import sys, threading, perdura_sqlite
            def work(number):
                perdura_sqlite.load()
                db = perdura_sqlite.connect(sys.argv[1] + str(number))
                before = perdura_sqlite.stats(db)["commits"]
                with db:
                    db.execute("CREATE TABLE t(a)")
                commits.append(perdura_sqlite.stats(db)["commits"] - before)
                db.close()
            commits = []
            threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
            print(*commits)
            """,
            self.path,
        )
        self.assertEqual(printed.split(), ["1"] * 8)

    def test_as_the_default_it_opens_what_names_no_vfs(self):
        printed = self.output(
            """
            import sys, sqlite3, perdura_sqlite
            def answers(path):
                return len(sqlite3.connect(path).execute("PRAGMA perdura_stats").fetchall())
            print(answers(sys.argv[1]))
            perdura_sqlite.load()
            print(answers(sys.argv[1]))
            perdura_sqlite.load(default=True)
            print(answers(sys.argv[1]))
            """,
            self.path,
        )
        self.assertEqual(printed.split(), ["0", "0", "1"])

    def test_a_python_without_the_method_loads_it_by_ctypes(self):
        printed = self.output(
            """
            import sys, perdura_sqlite
            perdura_sqlite._load_by_ctypes(False)
            print(perdura_sqlite.connect(sys.argv[1]).execute("PRAGMA perdura_share").fetchone()[0])
            """,
            self.path,
        )
        self.assertEqual(printed, "perdura\n")

    def test_an_old_sqlite_is_refused_by_its_version(self):
        printed = self.output(
            """
            import sqlite3
            sqlite3.sqlite_version, sqlite3.sqlite_version_info = "3.33.0", (3, 33, 0)
            import perdura_sqlite
            try:
                perdura_sqlite.load()
            except sqlite3.NotSupportedError as error:
                print(error)
            """
        )
        self.assertIn("3.33.0", printed)
        self.assertIn("3.34", printed)

    def test_the_package_has_what_it_says(self):
        self.assertTrue(os.path.isabs(perdura_sqlite.path()) and os.path.isfile(perdura_sqlite.path()))
        files = importlib.metadata.files("perdura-sqlite")
        names = {str(file) for file in files}
        self.assertTrue({"perdura_sqlite/py.typed", "perdura_sqlite/libperdura_sqlite.so"} <= names, names)
        self.assertRegex(importlib.metadata.version("perdura-sqlite"), r"^\d+\.\d+\.\d+$")
        # What pip adds, and what the interpreter makes, has no digest.
        recorded = {str(file): file for file in files if file.hash and file.parts[-1] not in ("INSTALLER", "REQUESTED")}
        self.assertIn("perdura_sqlite/__init__.py", recorded)
        for file in recorded.values():
            digest = hashlib.new(file.hash.mode, file.read_binary()).digest()
            self.assertEqual(base64.urlsafe_b64encode(digest).decode().rstrip("="), file.hash.value, file)

    def test_the_example_of_the_readme_prints_what_it_says(self):
        (program,) = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.M | re.S)
        self.assertIn(f"{MEMORY}/my.db", program)
        printed = self.output(program.replace(f"{MEMORY}/my.db", self.path))
        expected = re.findall(r"# prints (.*)", program)
        self.assertEqual(printed.splitlines(), expected)


if __name__ == "__main__":
    unittest.main()
