"""rqlite's own tests, with the library to preload and without it: for scripts/rqlite."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import zipfile
from pathlib import Path

from processes import Missing, run, run_tests

PARTS = Path(__file__).resolve().parent
# A suite that takes longer hangs.
TIMEOUT_SECONDS = 3600
# A test that fails is run so often by itself, and has to pass each time.
AGAIN = 3
REQUESTS = "requests==2.34.2"
# The tests of rqlite's end-to-end tests that need nothing but this machine. The others need buckets of S3 or GCS, or
# servers of Consul and etcd, or extensions of another repository.
END_TO_END = [
    "single_node", "joining", "multi_node",
    "multi_node_adv.TestEndToEndAdvAddr", "multi_node_adv.TestEndToEndAdvAddrEncryptedNode",
    "auto_clustering.TestBootstrapping3To4Nodes", "auto_clustering.TestBootstrapping5Nodes",
    "auto_clustering.TestBootstrappingRestart", "auto_clustering.TestBootstrappingRestartLeaveOnRemove",
    "auto_clustering.TestAutoClusteringDNS",
    "extensions.TestExtensions_File", "extensions.TestExtensions_File_Reload",
    "extensions.TestExtensions_File_SnapshotRestore", "extensions.TestExtensions_Dir",
    "extensions.TestExtensions_Zipped", "extensions.TestExtensions_TarGzipped",
    "extensions.TestExtensions_Multiple", "extensions.TestExtensions_NotLoaded",
    "extensions.TestExtensions_NotLoaded_EmptyDir", "upgrade",
]
# In the output of a Go test with `-test.v=test2json`, 0x16 begins each line of the framework's own.
GO_RESULT = re.compile(r"\x16\s*--- (PASS|FAIL|SKIP): (\S+)")


def known(suite):
    """Returns the tests of a suite that cannot pass with the library, and why."""
    tests = {}
    for line in (PARTS / "known").read_text().splitlines():
        if line and not line.startswith("#"):
            of, test, reason = line.split(maxsplit=2)
            if of == suite:
                tests[test] = reason
    return tests


class SideFiles:
    """Notes databases that the VFS has open in a folder, as their side files show: not those that are open shortly."""

    def __init__(self, folder):
        self.folder, self.seen = folder, set()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def _look(self):
        while not self.ended.wait(0.05):
            for folder, _, files in os.walk(self.folder):
                self.seen.update(os.path.join(folder, file) for file in files if file.endswith("-perdura"))


class Side:
    """One of the two ways in which the tests of a suite are run."""

    def __init__(self, library, medium, logs):
        self.name = "ours" if library else "stock"
        self.library, self.medium, self.log = library, medium / "tests", logs / self.name
        self.again = []

    def environment(self):
        shutil.rmtree(self.medium, ignore_errors=True)
        self.medium.mkdir()
        environment = dict(os.environ, TMPDIR=str(self.medium))
        if self.library:
            environment["LD_PRELOAD"] = str(self.library)
        return environment

    def run(self, tests, whole_test, failing_elsewhere=()):
        """Runs tests by `tests(side, name)`, and those that fail `AGAIN` times more. Returns how each ended.

        `whole_test(name)` is the test that can be run by itself. Those that fail elsewhere, too, are run once.
        """
        results = tests(self, None)
        failing = {name for name, outcome in results.items() if outcome == "FAIL"} - set(failing_elsewhere)
        for name in sorted({whole_test(name) for name in failing}):
            if all(set(tests(self, name).values()) - {"SKIP"} == {"PASS"} for _ in range(AGAIN)):
                self.again.append(name)
                results.update({each: "PASS" for each in failing if whole_test(each) == name})
        return results


def compare(suite, tests, whole_test, library, medium, logs):
    """Runs a suite on both sides, and returns what is wrong and a line of figures."""
    stock, ours = Side(None, medium, logs), Side(library, medium, logs)
    without = stock.run(tests, whole_test)
    failing = {name for name, outcome in without.items() if outcome == "FAIL"}
    with SideFiles(ours.medium) as side_files:
        with_library = ours.run(tests, whole_test, failing)
    expected = known(suite)
    problems, differences, excused = [], 0, 0
    for test in sorted(without.keys() | with_library.keys()):
        before, after = without.get(test), with_library.get(test)
        if (before == "PASS" and after != "PASS") or (before != "FAIL" and after == "FAIL"):
            differences += 1
            if test in expected:
                excused += 1
            else:
                how = {"FAIL": "fails", "SKIP": "is skipped"}.get(after, "does not end")
                problems.append(f"{test} {how} with the library, and not without it")
        elif after == "PASS" and test in expected:
            problems.append(f"{test} is in the list of what is known, and passes")
    if "PASS" not in without.values():
        problems.append("no test passes without the library")
    if not side_files.seen:
        problems.append("the VFS was not used")
    problems += [f"the library warns: {line}" for line in warnings(ours.log)[:1]]

    def figures(results):
        count = {outcome: list(results.values()).count(outcome) for outcome in ("PASS", "FAIL", "SKIP")}
        return f"{count['PASS']} passed, {count['FAIL']} failed, {count['SKIP']} skipped"

    line = (f"without: {figures(without)}; with: {figures(with_library)}; {differences} differ, {excused} of them "
            f"known; {len(side_files.seen)} databases seen open with the VFS")
    for side in (stock, ours):
        if side.again:
            line += f"; {side.name}, failed once and passed {AGAIN} times: {', '.join(side.again)}"
    return problems, line


def warnings(log):
    """Returns what the library to preload has said in a log."""
    with open(log, errors="replace") as file:
        return [line.strip() for line in file if "libperdura_preload.so: " in line]


def go_tests(suite, program, folder, library, medium, logs, only):
    """Runs the tests in Go of a package of rqlite, in its folder of the source."""
    listed = run([program, "-test.list", only or "."], folder, None, logs / "list",
                 "rqlite's tests cannot be listed").split()
    if not listed:
        raise Missing(f"no test has a name like {only}")

    def tests(side, name):
        results, left = {}, [name] if name else listed
        while left:
            start = side.log.stat().st_size if side.log.exists() else 0
            command = [program, "-test.v=test2json", f"-test.timeout={TIMEOUT_SECONDS}s", "-test.run",
                       f"^({'|'.join(left)})$"]
            code = run_tests(command, folder, side.environment(), side.log, TIMEOUT_SECONDS + 60)
            with open(side.log, errors="replace") as file:
                file.seek(start)
                found = {test: outcome for outcome, test in GO_RESULT.findall(file.read())}
            # A panic ends all tests; those that have not been run are run then.
            if not found or (code != 0 and "FAIL" not in found.values()):
                found[left[0]] = "FAIL"
            results.update(found)
            left = [test for test in left if test not in results]
        return results

    return compare(suite, tests, lambda name: name.split("/")[0], library, medium, logs)


def extensions(source, folder):
    """Builds the extensions that rqlite's tests load, and returns the environment that names them."""
    folder.mkdir(exist_ok=True)
    alone = folder / "alone"
    alone.mkdir(exist_ok=True)
    for name, target in (("rot13", alone), ("carray", folder)):
        run(["cc", "-w", "-fPIC", "-shared", source / "db" / "testdata" / f"{name}.c", "-o", target / f"{name}.so"],
            source, None, folder / "log", "rqlite's extensions cannot be built; they need cc and libsqlite3-dev")
    with zipfile.ZipFile(folder / "rot13.zip", "w") as archive:
        archive.write(alone / "rot13.so", "rot13.so")
    with tarfile.open(folder / "rot13.tar.gz", "w:gz") as archive:
        archive.add(alone / "rot13.so", "rot13.so")
    return {
        "EXTENSIONS_PATH": f"{alone}/rot13.so", "EXTENSIONS_PATH_DIR": f"{alone}",
        "EXTENSIONS_PATH_ZIP": f"{folder}/rot13.zip", "EXTENSIONS_PATH_TAR_GZIP": f"{folder}/rot13.tar.gz",
        "EXTENSIONS_PATH_MULTIPLE": f"{folder}/rot13.zip,{folder}/carray.so", "EXTENSIONS_PATH_MISC": "",
    }


def requests_package(packages):
    """Returns the folder of Python's package `requests`, or nothing if Python has it."""
    if subprocess.run([sys.executable, "-c", "import requests"], capture_output=True).returncode == 0:
        return ""
    if not (packages / "requests").is_dir():
        run([sys.executable, "-m", "pip", "install", "-q", "--target", packages, REQUESTS], packages, None,
            packages / "log", f"Python's package {REQUESTS} cannot be had with pip")
    return str(packages)


def end_to_end(rqlited, source, library, medium, logs, only, packages):
    """Runs rqlite's end-to-end tests in Python."""
    folder = source / "system_test" / "e2e"
    path = os.pathsep.join(part for part in (str(folder), requests_package(packages)) if part)
    more = {"RQLITED_PATH": str(rqlited), "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1",
            **extensions(source, medium / "extensions")}
    chosen = [name for name in END_TO_END if not only or re.search(only, name)]
    if not chosen:
        raise Missing(f"no end-to-end test has a name like {only}")

    def tests(side, name):
        results = {}
        for test in [name] if name else chosen:
            noted = logs / "results"
            noted.write_text("")
            # Some tests name their data by the source's folder, others by their own.
            where = folder if test.startswith("upgrade") else source
            command = [sys.executable, PARTS / "e2e.py", noted, test]
            code = run_tests(command, where, {**side.environment(), **more}, side.log, TIMEOUT_SECONDS)
            found = dict(reversed(line.split(maxsplit=1)) for line in noted.read_text().splitlines())
            if code != 0:
                found[test] = "FAIL"
            results.update(found)
        return results

    return compare("e2e", tests, lambda name: name, library, medium, logs)
