"""SQLite's tests in Tcl, each file by a process in a folder of its own: for scripts/sqlite-suites.

    tcl.py run --testfixture PROGRAM --tests DIR --medium DIR --logs DIR --results FILE [--only PATTERN ...]
    tcl.py compare --stock RESULTS --ours RESULTS --known FILE

`run` writes a line for each file of `veryquick`: its name, how it ended, its cases, and those that failed. A file
that is in the results already is not run again. The log of a file in which nothing failed is not kept. Some tests
do not work when they are run by root: then `nobody` runs them.

`compare` counts what passes with SQLite's own VFS and does not over ours, and wants a reason for each such case in
the list of what is known. Its exit code is 1 if there is none, or if more than 1.5% of the cases fail. A file that has
fewer cases than with SQLite's own VFS fails by as many.
"""

import argparse
import concurrent.futures
import fnmatch
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

TIMEOUT_SECONDS = 600
# At most so many cases of a hundred may fail over the VFS.
FAILED_PERCENT = 1.5
# Stand in the list of what is known for a file that does not come to its end, for one that does and has fewer cases,
# and for one that would wait for ever: it is not run over the VFS, and all its cases fail.
EARLY, FEWER, WAITS = "(early)", "(fewer)", "(waits)"
NOBODY = 65534

LIST = """
set argv0 [file join [lindex $argv 0] list]
source [file join [lindex $argv 0] permutations.test]
array set options $::testspec(veryquick)
foreach file [lsort $options(-files)] { puts "FILE $file" }
exit 0
"""


# The processes that run tests, each the first of its group.
RUNNING = set()


def end(_signal, _frame):
    """Ends all tests, and then this program."""
    for process in list(RUNNING):
        kill_group(process)
    os._exit(1)


def kill_group(process):
    try:
        os.killpg(process, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Result:
    """What came of a file: `end` is "ok", or how it ended before its summary."""

    def __init__(self, name, end, cases, failed):
        self.name, self.end, self.cases, self.failed = name, end, cases, failed

    def line(self):
        return "\t".join([self.name, self.end, str(self.cases), " ".join(self.failed)]) + "\n"

    @staticmethod
    def of(line):
        name, end, cases, failed = line.rstrip("\n").split("\t")
        return Result(name, end, int(cases), failed.split())


def results_of(path):
    if not path.exists():
        return {}
    return {result.name: result for result in map(Result.of, path.read_text().splitlines())}


def outcome(name, code, log):
    """Reads what a file has printed."""
    text = log.read_text(errors="replace")
    summary = re.search(r"^(\d+) errors out of (\d+) tests", text, re.MULTILINE)
    if summary is None:
        # Each case that has begun; the last one has not ended.
        cases = re.findall(r"^(\S+)\.\.\. ?(?:Ok|Omitted|\s*$)", text, re.MULTILINE)
        failed = re.findall(r"^! (\S+) (?:expected|got)", text, re.MULTILINE)
        return Result(name, f"{code}", len(cases), sorted(set(failed)))
    failed = re.search(r"^!?Failures on these tests: (.*)$", text, re.MULTILINE)
    failed = sorted(set(failed.group(1).split())) if failed else []
    if int(summary.group(1)) != 0 and not failed:
        failed = ["(memory)"]
    return Result(name, "ok", int(summary.group(2)), failed)


def run_file(arguments, test):
    name = os.path.relpath(test, arguments.tests.parent)
    slug = name.replace("/", "-")
    folder, log = arguments.medium / slug, arguments.logs / slug
    if arguments.known and arguments.known.reason(name, WAITS):
        return Result(name, "not run", 0, [])
    folder.mkdir()
    if arguments.user:
        os.chown(folder, NOBODY, NOBODY)
    with log.open("wb") as out:
        process = subprocess.Popen(
            [arguments.testfixture, test], cwd=folder, stdin=subprocess.DEVNULL, stdout=out,
            stderr=subprocess.STDOUT, start_new_session=True, **arguments.user)
        RUNNING.add(process.pid)
        try:
            code = f"exit code {process.wait(TIMEOUT_SECONDS)}"
        except subprocess.TimeoutExpired:
            code = "timeout"
        # Also the processes that it has left.
        kill_group(process.pid)
        RUNNING.discard(process.pid)
        process.wait()
    shutil.rmtree(folder, ignore_errors=True)
    result = outcome(name, code, log)
    if result.end == "ok" and not result.failed:
        log.unlink()
    return result


def wanted_by(arguments, name):
    return any(fnmatch.fnmatch(Path(name).name, pattern) for pattern in arguments.only or ["*"])


def files_of(arguments):
    """The files of the suite. Sets who runs them."""
    arguments.user = {}
    folder = arguments.medium / "list"
    folder.mkdir()
    script = folder / "list.tcl"
    script.write_text(LIST)
    if os.geteuid() == 0:
        arguments.user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        os.chown(folder, NOBODY, NOBODY)

    def listed():
        command = [arguments.testfixture, script, arguments.tests]
        output = subprocess.run(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **arguments.user)
        names = [line.removeprefix("FILE ") for line in output.stdout.splitlines() if line.startswith("FILE ")]
        # Those of extensions are named from the folder of the others on.
        return [(arguments.tests / name).resolve() for name in names], output.stdout

    try:
        tests, output = listed()
    except PermissionError:
        tests, output = [], ""
    if not tests and arguments.user:
        print("root runs the tests: nobody else may read them", file=sys.stderr)
        arguments.user = {}
        tests, output = listed()
    shutil.rmtree(folder)
    if not tests:
        sys.exit(f"there are no tests: {output}")
    return tests


def run(arguments):
    for number in [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]:
        signal.signal(number, end)
    tests = files_of(arguments)
    done = results_of(arguments.results)
    wanted = [
        str(test) for test in tests
        if os.path.relpath(test, arguments.tests.parent) not in done
        and wanted_by(arguments, test.name)
    ]
    arguments.logs.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool, arguments.results.open("a") as out:
        runs = [pool.submit(run_file, arguments, test) for test in wanted]
        for finished in concurrent.futures.as_completed(runs):
            out.write(finished.result().line())
            out.flush()


class Known:
    """What is known to fail, and why: lines of a file's name, the cases, and the reason, between bars."""

    def __init__(self, path):
        self.entries, self.used = [], set()
        for number, line in enumerate(Path(path).read_text().splitlines(), 1):
            if line.strip() and not line.startswith("#"):
                parts = [part.strip() for part in line.split("|")]
                if len(parts) != 3 or not all(parts):
                    sys.exit(f"{path}:{number}: file | cases | reason")
                self.entries.append((parts[0], parts[1].split(), parts[2]))

    def reason(self, name, case):
        for number, (file, cases, reason) in enumerate(self.entries):
            # What stands in parentheses has to be named: no wildcard is for it.
            found = case in cases if case.startswith("(") else any(fnmatch.fnmatchcase(case, known) for known in cases)
            if found and fnmatch.fnmatchcase(name, file):
                self.used.add(number)
                return reason
        return None

    def unused(self):
        return [entry for number, entry in enumerate(self.entries) if number not in self.used]


def differences(stock, ours):
    """The cases of a file that pass with SQLite's own VFS and not over ours, and how many they are."""
    failed = [case for case in ours.failed if case not in stock.failed]
    missing, counted = max(0, stock.cases - ours.cases), len(failed)
    if ours.end == "not run":
        failed.append(WAITS)
    elif stock.end == "ok" and ours.end != "ok":
        failed.append(EARLY)
        # The one that has not ended.
        missing = max(1, missing)
    elif missing:
        failed.append(FEWER)
    return failed, counted + missing


def compare(arguments):
    stocks, our_results, known = results_of(arguments.stock), results_of(arguments.ours), arguments.known
    cases = failing = passed = listed = 0
    reasons, unexpected = {}, []
    for name, stock in stocks.items():
        if not wanted_by(arguments, name):
            continue
        if name not in our_results:
            sys.exit(f"{name} was not run over the VFS")
        failed, count = differences(stock, our_results[name])
        cases, failing = cases + stock.cases, failing + count
        unknown = [case for case in failed if known.reason(name, case) is None]
        for reason in {known.reason(name, case) for case in failed} - {None}:
            reasons.setdefault(reason, []).append(name)
        if unknown:
            unexpected.append((name, our_results[name].end, unknown))
        elif failed:
            listed += 1
        else:
            passed += 1
    for reason, names in sorted(reasons.items()):
        print(f"  {len(names):3} {reason}: {' '.join(sorted(Path(name).stem for name in names))}")
    for name, end, unknown in unexpected:
        print(f"  UNEXPECTED {name} ({end}): {' '.join(unknown)}")
    for file, known_cases, _ in [] if arguments.only else known.unused():
        print(f"  passes, and is on the list: {file} {' '.join(known_cases)}")
    percent = 100 * failing / max(cases, 1)
    print(f"  files {passed + listed + len(unexpected)}, passed {passed}, listed {listed}, unexpected {len(unexpected)};"
          f" cases {cases}, not passed {failing}, {percent:.2f}%")
    if not cases or unexpected or percent > FAILED_PERCENT:
        sys.exit(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("run")
    for name in ["testfixture", "tests", "medium", "logs", "results"]:
        one.add_argument(f"--{name}", type=Path, required=True)
    one.add_argument("--known", type=Known)
    one.set_defaults(work=run)
    other = commands.add_parser("compare")
    for name in ["stock", "ours", "known"]:
        other.add_argument(f"--{name}", type=Known if name == "known" else Path, required=True)
    other.set_defaults(work=compare)
    for command in [one, other]:
        command.add_argument("--only", action="append", default=[])
    arguments = parser.parse_args()
    arguments.work(arguments)


main()
