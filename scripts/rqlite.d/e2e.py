"""Runs test cases of Python's unittest and writes how each ended: `e2e.py RESULTS NAME ...`.

A line of RESULTS is PASS, FAIL or SKIP and the name of a test, as in `single_node.TestSingleNode.test_pragmas`. A NAME
may be that of a module, a class or a test; a module that cannot be imported is one test that fails.
"""

import functools
import subprocess
import sys
import unittest

from processes import die_with_parent


class Noted(unittest.TextTestResult):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.results = open(sys.argv[1], "a")

    def note(self, outcome, test):
        print(outcome, test.id(), file=self.results, flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note("PASS", test)

    def addError(self, test, error):
        super().addError(test, error)
        self.note("FAIL", test)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.note("FAIL", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note("SKIP", test)


if __name__ == "__main__":
    # The nodes that the tests start end with this program, however it ends.
    subprocess.Popen = functools.partial(subprocess.Popen, preexec_fn=die_with_parent)
    tests = unittest.defaultTestLoader.loadTestsFromNames(sys.argv[2:])
    unittest.TextTestRunner(resultclass=Noted, verbosity=2).run(tests)
