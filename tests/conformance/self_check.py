#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Does the judge of `run` notice what it is there for? With results that are made up."""
import importlib.machinery
import importlib.util
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("conformance_run", HERE + "/run")
run = importlib.util.module_from_spec(importlib.util.spec_from_loader("conformance_run", loader))
loader.exec_module(run)

FACTS = {"huge-pages": True, "dmabuf": False}
NOTHING = None


def turn_of(tests, who="root", path="local", facts=None):
    """A turn with these lines of results: (test, verdict); no verdict: it only began."""
    turn = run.Turn(who, path)
    with tempfile.NamedTemporaryFile("w") as results:
        results.write(json.dumps({"facts": facts or FACTS}) + "\n")
        for test, verdict in tests:
            results.write(json.dumps({"begin": "tests." + test}) + "\n")
            if verdict:
                results.write(json.dumps({"end": "tests." + test, "verdict": verdict,
                                          "words": "words"}) + "\n")
        results.flush()
        run.read_results(turn, results.name)
    return turn


# what is promised; the turn; the lines of `expected`; the verdicts that must come of it
CASES = (
    ("a pass is a pass", turn_of([("m.C.a", "passed")]), [], ["passed"]),
    ("a failure is one", turn_of([("m.C.a", "failed")]), [], ["failed"]),
    ("an expected skip is one", turn_of([("m.C.a", "skipped")]),
     ["m.C.a any any any always why"], ["skipped"]),
    ("a skip that nobody expects fails", turn_of([("m.C.a", "skipped")]), [], ["failed"]),
    ("a skip of somebody else's fails", turn_of([("m.C.a", "skipped")]),
     ["m.C.a any user any always why"], ["failed"]),
    ("a skip of the other path fails", turn_of([("m.C.a", "skipped")]),
     ["m.C.a any any wire always why"], ["failed"]),
    ("a skip that has become a pass fails", turn_of([("m.C.a", "passed")]),
     ["m.C.a any any any always why"], ["failed"]),
    ("a failure is not excused by a line", turn_of([("m.C.a", "failed")]),
     ["m.C.a any any any always why"], ["failed"]),
    ("a line for machines without huge pages does not count here",
     turn_of([("m.C.a", "skipped")]), ["m.C.a any any any no-huge-pages why"], ["failed"]),
    ("a line for machines without a GPU does", turn_of([("m.C.a", "skipped")]),
     ["m.C.a any any any no-dmabuf why"], ["skipped"]),
    ("a test in which the process died fails",
     turn_of([("m.C.a", "passed"), ("m.C.b", NOTHING)]), [], ["passed", "failed"]),
    ("an expected skip that did not run fails", turn_of([("m.C.a", "passed")]),
     ["m.C.b any any any always why"], ["passed", "failed"]),
    ("a run without tests fails", turn_of([]), [], ["failed"]),
)


def refuses(lines):
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        try:
            run.read_expected(file.name, 44)
        except ValueError:
            return True
    return False


def versions(text):
    """Of 44, 56 and 65, those that the range has."""
    line = run.Line(f"m.C.a {text} any any always why", 1)
    return [version for version in (44, 56, 65) if line.is_for(version)]


RANGES = (("any", [44, 56, 65]), ("56", [56]), ("44-56", [44, 56]), ("57-", [65]))


def main():
    failed = number = 0
    for number, (promise, turn, lines, verdicts) in enumerate(CASES, 1):
        expected = [run.Line(line, at) for at, line in enumerate(lines, 1)]
        found = [verdict for _, verdict, _ in run.judge(turn, expected)]
        failed += found != verdicts
        print(f"{'ok' if found == verdicts else 'not ok'} {number} - {promise}")
    for text, expected in RANGES:
        number += 1
        failed += versions(text) != expected
        print(f"{'ok' if versions(text) == expected else 'not ok'} {number} - versions {text}")
    for promise, lines in (("a line without a reason is refused", ["m.C.a any any any always"]),
                           ("an unknown word is refused", ["m.C.a any all any always why"]),
                           ("a range without a number is refused",
                            ["m.C.a new any any always why"])):
        number += 1
        failed += not refuses(lines)
        print(f"{'ok' if refuses(lines) else 'not ok'} {number} - {promise}")
    print(f"1..{number}")
    return 1 if failed else 0


sys.exit(main())
