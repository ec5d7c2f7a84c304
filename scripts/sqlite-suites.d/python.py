"""Compares two runs of the same tests of Python's, on SQLite's own VFS and over ours: for scripts/sqlite-suites.

    python.py --stock LOG --ours LOG --run NAME --least N --known FILE

A log is what unittest prints with --verbose, or pytest with -v. Each test that passes with SQLite's own VFS has to
pass over ours, or to stand in the list of what is known, with the reason; none may be missing or skipped there alone.
At least so many tests have to pass. The last line printed says what is wrong, and the exit code is 1 then.
"""

import argparse
import collections
import fnmatch
import re
import sys
from pathlib import Path

# unittest: "test_name (module.Class.test_name)", perhaps a line of its docstring, " ... ok". What a test prints may
# stand in between.
BEGINS = re.compile(r"^(\w+) \(([\w.]+)\)")
ENDS = re.compile(r"(?:\.\.\. |^)(ok|FAIL|ERROR|skipped .*|expected failure|unexpected success)$")
FAILED = re.compile(r"^(FAIL|ERROR): (\w+) \(([\w.]+)\)")
PYTEST = re.compile(r"^(\S+::.+?) (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b")


def outcomes(path):
    """Returns what came of each test: "ok", "skipped" or "failed". Subtests count with their test."""
    found, test = {}, None
    for line in path.read_text(errors="replace").splitlines():
        if match := PYTEST.match(line):
            name, end = match[1], match[2]
            # A test that has passed may still have an error when it is torn down.
            bad = end in ("FAILED", "ERROR") or found.get(name) == "failed"
            found[name] = "failed" if bad else "skipped" if end == "SKIPPED" else "ok"
            continue
        if match := FAILED.match(line):
            found[f"{match[3]}.{match[2]}".replace(f".{match[2]}.{match[2]}", f".{match[2]}")] = "failed"
            continue
        if match := BEGINS.match(line):
            test = match[2] if match[2].endswith(f".{match[1]}") else f"{match[2]}.{match[1]}"
        if test and (match := ENDS.search(line)):
            end = match[1].split()[0]
            found.setdefault(test, {"ok": "ok", "expected": "ok", "skipped": "skipped"}.get(end, "failed"))
            test = None
    return found


def known_of(path):
    """The lines of the list: runs, tests, reasons; all but the last may have wildcards."""
    known = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            parts = [part.strip() for part in line.split("|")]
            if len(parts) != 3 or not all(parts):
                sys.exit(f"{path}:{number}: run | test | reason")
            known.append(parts)
    return known


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("stock", "ours", "known"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--run", required=True)
    parser.add_argument("--least", type=int, required=True)
    arguments = parser.parse_args()
    stock, ours = outcomes(arguments.stock), outcomes(arguments.ours)
    known = [entry for entry in known_of(arguments.known) if fnmatch.fnmatchcase(arguments.run, entry[0])]
    passed = [test for test, end in stock.items() if end == "ok"]
    differ = [test for test in passed if ours.get(test) != "ok"]
    reasons = {test: next((reason for _, name, reason in known if fnmatch.fnmatchcase(test, name)), None) for test in differ}
    for test, reason in reasons.items():
        print(f"{'known: ' + reason if reason else 'UNEXPECTED'}: {test} ({ours.get(test, 'not run')})")
    counts = [collections.Counter(found.values()) for found in (stock, ours)]
    print("; ".join(
        f"{name}: {count['ok']} passed, {count['failed']} failed, {count['skipped']} skipped"
        for name, count in zip(("stock", "ours"), counts)))
    unexpected = [test for test, reason in reasons.items() if reason is None]
    if unexpected:
        sys.exit(f"{len(unexpected)} tests pass with SQLite's own VFS alone")
    if counts[1]["ok"] < arguments.least:
        sys.exit(f"{counts[1]['ok']} tests have passed, and {arguments.least} were expected at least")


main()
