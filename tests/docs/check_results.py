#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Does every failing call answer through base/result.h, where no failure stays silent?

usage: check_results.py ROOT
"""
import glob
import re
import sys

# Files that set errno themselves, and why that needs no sentence.
ALLOWED = {
    "src/verbs/compat.c": "explains it beside",
    "src/verbs/unsupported.c": "an answer, no failure",
    "src/verbs/sysfs.c": "reads files for others",
    "src/rdmacm/peer_watch.c": "for the next lines",
}
SETS = re.compile(r"\berrno = (?!saved_errno|0;)|\breturn E[A-Z]+;")
ANSWERS = {("src/verbs/adversary.c", "ENOENT"), ("src/verbs/unsupported.c", "EOPNOTSUPP")}


def main():
    root = sys.argv[1].rstrip("/") + "/"
    wrong = 0
    files = glob.glob(root + "src/verbs/*.c") + glob.glob(root + "src/rdmacm/*.c")
    for name in sorted(files):
        short = name[len(root):]
        with open(name, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                found = SETS.search(line)
                if not found or line.lstrip().startswith("*"):
                    continue
                answer = re.search(r"return (E[A-Z]+)", line)
                if answer and (short, answer[1]) in ANSWERS:
                    continue
                if not answer and short in ALLOWED:
                    continue
                print(f"{short}:{number}: {line.strip()}: vb_return_* of base/result.h does that")
                wrong += 1
    print(f"{len(files)} files, {wrong} wrong places")
    return 1 if wrong or not files else 0


if __name__ == "__main__":
    sys.exit(main())
