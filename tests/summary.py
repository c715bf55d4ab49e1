#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Adds up the JUnit files of `meson test` into one line: N passed, N failed, N skipped."""
import sys
import xml.etree.ElementTree as ElementTree


def outcome(case):
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    if case.find("skipped") is not None:
        return "skipped"
    return "passed"


def main(paths):
    count = {"passed": 0, "failed": 0, "skipped": 0}
    for path in paths:
        try:
            tree = ElementTree.parse(path)
        except (OSError, ElementTree.ParseError) as error:
            print(f"no results in {path}: {error}")
            count["failed"] += 1
            continue
        for suite in tree.iter("testsuite"):
            for case in suite.iter("testcase"):
                kind = outcome(case)
                count[kind] += 1
                if kind != "passed":
                    print(f"{kind}: {suite.get('name')}: {case.get('name')}")
    print(", ".join(f"{number} {kind}" for kind, number in count.items()))
    return 1 if count["failed"] or not count["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
