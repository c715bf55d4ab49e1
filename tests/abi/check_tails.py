#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""No function that programs call ends with a jump to a function of pthread.

ThreadSanitizer knows the calls of a library by their return address. After a jump the return
address is the program's: a program would seem to unlock what it never locked
(src/base/annotate.h).

usage: check_tails.py LIBRARY...
"""
import os
import re
import subprocess
import sys

CALLED_BY_PROGRAMS = re.compile(r"vb_ops_|start_poll|next_poll|end_poll|read_|wr_")


def output(*command):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE,
                          env={**os.environ, "LC_ALL": "C"}).stdout.splitlines()


def entry_points(library):
    """Exported functions, and those behind the pointers of public structs."""
    exported = {line.split()[-1].split("@")[0]
                for line in output("nm", "-D", "--defined-only", library) if " T " in line}
    inner = {line.split()[-1] for line in output("nm", library) if line.split()[-2] in "tT"}
    return exported | {name for name in inner if CALLED_BY_PROGRAMS.match(name)}


def base_name(symbol):
    return symbol if symbol.endswith("@plt") else symbol.split("@")[0]


def jumps_of(library):
    """The functions that each function jumps to, as its last step."""
    jumps, name = {}, None
    for line in output("objdump", "-d", "--no-show-raw-insn", library):
        if match := re.match(r"[0-9a-f]+ <(.+)>:$", line):
            name = base_name(match[1])
            jumps.setdefault(name, set())
        elif match := re.search(r"\t(?:j\w+|b) +[0-9a-f]+ <([^>+]+)>", line):
            jumps[name].add(base_name(match[1]))
    return jumps


def ends_in_pthread(entry, jumps):
    seen, todo = set(), [entry]
    while todo:
        name = todo.pop()
        if name.startswith("pthread_") and name.endswith("@plt"):
            return name
        if name not in seen:
            seen.add(name)
            todo += jumps.get(name, ())
    return None


def main():
    count = failed = 0
    for library in sys.argv[1:]:
        jumps = jumps_of(library)
        for entry in sorted(entry_points(library)):
            count += 1
            if end := ends_in_pthread(entry, jumps):
                failed += 1
                print(f"{os.path.basename(library)}: {entry} ends with a jump to {end}")
    print(f"{count} functions, {failed} with such an end")
    return 1 if failed or not count else 0


sys.exit(main())
