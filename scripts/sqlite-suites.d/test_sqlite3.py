"""Runs CPython's tests of its module sqlite3 out of the folder `Lib/test` of a source: for scripts/sqlite-suites."""

import os
import sys
import unittest

import test

folder = sys.argv[1]
test.__path__.append(folder)
files = sorted(os.listdir(os.path.join(folder, "test_sqlite3")))
names = [file.removesuffix(".py") for file in files if file.startswith("test_")]
unittest.main(module=None, argv=["test_sqlite3", "--verbose", *(f"test.test_sqlite3.{name}" for name in names)])
