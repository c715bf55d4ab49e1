#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Adds up the JUnit files of `meson test`: N passed, N failed, N skipped.

    results.py EXPECTED FILE...

EXPECTED names the cases that an emulated CPU cannot pass. Lines after "= REASON" are "TEST | CASE"
with the reason; * is any text. These cases count as skipped, as those do that skip themselves. All
cases of a line that pass are a failure, too: the line is wrong. After "= REASON, sometimes" that is
none.
"""
import fnmatch
import json
import re
import sys
import xml.etree.ElementTree as ElementTree


class Line:
    def __init__(self, test, case, reason, sometimes):
        self.test, self.case, self.reason = test, case, reason
        self.sometimes, self.met, self.needed = sometimes, False, False


def lines_of(path):
    reason = ""
    for text in open(path, encoding="utf-8"):
        text = text.strip()
        if text.startswith("= "):
            reason = text[2:]
        elif text and not text.startswith("#"):
            test, _, case = text.partition(" | ")
            yield Line(test, case, reason, reason.endswith(", sometimes"))


def outcome(case):
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "skipped" if case.find("skipped") is not None else "passed"


def results_of(path):
    """By test: OK, FAIL, TIMEOUT ..., and by case the reason of its skip. The JUnit file has
    neither."""
    with open(path.removesuffix(".junit.xml") + ".json", encoding="utf-8") as lines:
        tests = [json.loads(line) for line in lines]
    return {test["name"].rpartition(" / ")[2]: (test["result"], reasons_of(test)) for test in tests}


def reasons_of(test):
    """cmocka's TAP has no reason: the test says it once, on standard error."""
    said = re.search(r"^SKIPPED: (.*)", test.get("stderr", ""), re.M)
    pairs = re.findall(r"^ok \d+ - (.*?) # SKIP ?(.*)$", test.get("stdout", ""), re.M)
    return {case: reason or (said[1] if said else "") for case, reason in pairs}


def cases_of(paths):
    """Test, case, outcome, reason."""
    for path in paths:
        try:
            tree, results = ElementTree.parse(path), results_of(path)
        except (OSError, ElementTree.ParseError) as error:
            yield path, f"no results: {error}", "failed", ""
            continue
        for suite in tree.iter("testsuite"):
            test = suite.get("name").rpartition(" / ")[2]
            kinds = []
            # Tests without TAP share one suite, and are its cases.
            result, reasons = results.get(test, ("OK", {}))
            for case in suite.iter("testcase"):
                kinds.append(outcome(case))
                name = re.sub(r"^\d+ - ", "", case.get("name"))
                yield test, name, kinds[-1], reasons.get(name, "")
            if result not in ("OK", "SKIP") and "failed" not in kinds:
                yield test, f"at its end: {result}", "failed", ""


def main(expected, *paths):
    lines = list(lines_of(expected))
    count = {"passed": 0, "failed": 0, "skipped": 0}
    for test, case, kind, reason in cases_of(paths):
        named = [line for line in lines if fnmatch.fnmatchcase(test, line.test) and
            fnmatch.fnmatchcase(case, line.case)]
        for line in named:
            line.met = True
            line.needed |= kind != "passed"
        if named and kind != "passed":
            kind, reason = "skipped", named[0].reason
        if kind != "passed":
            print(f"{kind}: {test}: {case}" + (f": {reason}" if reason else ""))
        count[kind] += 1
    for line in lines:
        if line.met and not line.needed and not line.sometimes:
            count["failed"] += 1
            print(f"failed: {expected} expects a failure: {line.test} | {line.case}")
    print(", ".join(f"{number} {kind}" for kind, number in count.items()))
    return 1 if count["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
