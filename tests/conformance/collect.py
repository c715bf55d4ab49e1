# SPDX-License-Identifier: BSD-2-Clause
"""Runs pyverbs' test suite as its own run_tests.py does, and says what became of each test.

usage: collect.py RESULTS OPTIONS-OF-THE-SUITE ...    in the folder of the suite

RESULTS gets a line of JSON when a test begins and one when it has ended, so that a test in which
the process dies is known too.
"""
import faulthandler
import importlib.util
import json
import multiprocessing
import os
import sys
import unittest


class Results(unittest.TextTestResult):
    """One verdict for each test: failed if any part of it is, skipped if any part is."""

    stream_of_lines = None

    def say(self, **words):
        # One write per line: a child that a test forks has nothing left to write twice.
        os.write(self.stream_of_lines, (json.dumps(words) + "\n").encode())

    def startTest(self, test):
        super().startTest(test)
        self.verdict, self.words = "passed", ""
        self.say(begin=test.id())

    def stopTest(self, test):
        super().stopTest(test)
        self.say(end=test.id(), verdict=self.verdict, words=self.words)

    def worsen(self, verdict, words):
        if self.verdict != "failed":
            self.verdict, self.words = verdict, words

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.worsen("skipped", reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.worsen("failed", self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self.worsen("failed", self.errors[-1][1])
        # A class or module that cannot be set up has no tests that begin or end.
        if not isinstance(test, unittest.TestCase):
            self.say(end=test.id(), verdict="failed", words=self.errors[-1][1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self.worsen("failed", "".join(map(str, err[:2])))

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.worsen("failed", "fails, as the suite expects")


def can_allocate_dmabuf():
    """As the suite asks: from the first GPU, by a pyverbs that was built for it."""
    try:
        from pyverbs.dmabuf import DmaBuf
        DmaBuf(1, gpu=0).close()
        return True
    except Exception:  # pylint: disable=broad-except
        return False


def can_export_memory():
    """Device memory becomes a dma-buf by udmabuf."""
    return os.access("/dev/udmabuf", os.R_OK | os.W_OK)


def has_huge_pages():
    try:
        with open("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
                  encoding="ascii") as pages:
            return int(pages.read()) > 0
    except OSError:
        return False


def main():
    faulthandler.enable()
    # The suite hands open objects to its children. Python 3.14 begins them by another way.
    multiprocessing.set_start_method("fork")
    Results.stream_of_lines = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    del sys.argv[1]
    sys.path.insert(0, os.getcwd())
    from args_parser import parser
    spec = importlib.util.spec_from_file_location("tests", os.path.abspath("__init__.py"))
    tests = sys.modules["tests"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tests)
    parser.parse_args()
    facts = {"huge-pages": has_huge_pages(), "dmabuf": can_allocate_dmabuf(),
             "udmabuf": can_export_memory()}
    os.write(Results.stream_of_lines, (json.dumps({"facts": facts}) + "\n").encode())
    unittest.main(module=tests, testRunner=unittest.TextTestRunner(resultclass=Results))


main()
