#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Adds up the JUnit files of `meson test` into one line: N passed, N failed, N skipped.

Before it come the skipped ones with their reasons, and the failed ones with their last words.
"""
import re
import sys
import xml.etree.ElementTree as ElementTree

# Lines of a failed test: from its "not ok", and in all.
AFTER, WORDS = 8, 12


def outcome(case):
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    if case.find("skipped") is not None:
        return "skipped"
    return "passed"


def program_failed(suite):
    """Did it end with an error, whatever its tests said? A sanitizer speaks up at the end."""
    return "(test program exited with status code" in (suite.findtext("system-err") or "")


def words_of(suite, case):
    """What a failed test printed: its "not ok" line with what follows it, or else its end."""
    text = ""
    for holder in (case, suite):
        for tag in ("system-out", "system-err"):
            text += (holder.findtext(tag) or "") + "\n"
    lines = [line for line in text.splitlines() if line.strip()]
    told = []
    for number, line in enumerate(lines):
        if line.startswith(f"not ok {case.get('name')}"):
            told = lines[number:number + AFTER]
    return (told or lines)[-WORDS:]


def reason_of(suite, case):
    """Why a test was skipped. A newer meson has it beside the case, an older one in the output; the
    TAP of cmocka has none, and the test says it on standard error."""
    told = (case.findtext("system-out") or "").strip()
    output = suite.findtext("system-out") or ""
    if not told:
        line = re.search(rf"^ok {re.escape(case.get('name'))} # SKIP ?(.*)", output, re.M)
        told = line[1] if line else ""
    if not told:
        output += "\n" + (suite.findtext("system-err") or "")
        said = (re.search(rf"^# SKIPPED: (.*)\nok {re.escape(case.get('name'))}", output, re.M) or
                re.search(r"^(?:# )?SKIPPED: (.*)", output, re.M))
        told = said[1] if said else "no reason was given"
    return re.sub(r"^1\.\.0 # SKIP ", "", told.splitlines()[0])


def main(paths):
    count = {"passed": 0, "failed": 0, "skipped": 0}
    failures = []
    for path in paths:
        try:
            tree = ElementTree.parse(path)
        except (OSError, ElementTree.ParseError) as error:
            print(f"no results in {path}: {error}")
            count["failed"] += 1
            continue
        for suite in tree.iter("testsuite"):
            failures_before = len(failures)
            for case in suite.iter("testcase"):
                kind = outcome(case)
                count[kind] += 1
                if kind == "skipped":
                    print(f"skipped: {suite.get('name')}: {case.get('name')}: "
                          f"{reason_of(suite, case)}")
                elif kind == "failed":
                    failures.append((suite, case))
            if program_failed(suite) and len(failures) == failures_before:
                count["failed"] += 1
                failures.append((suite, ElementTree.Element("testcase", name="at its end")))
    # Last, where the reader looks: a log is often cut to its end.
    for suite, case in failures:
        for line in words_of(suite, case):
            print(f"    {line}")
        print(f"failed: {suite.get('name')}: {case.get('name')}")
    print(", ".join(f"{number} {kind}" for kind, number in count.items()))
    return 1 if count["failed"] or not count["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
