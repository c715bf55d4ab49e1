#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Are the libraries and programs hardened? Reads their ELF headers.

usage: check_hardening.py [--compiled] FILE...

Always: no executable stack, no segment that is writable and executable, no relocation of code,
everything bound at the start and read-only afterwards, programs at any address. --compiled: the
libraries among the files also call the stack protector and the checked functions of libc.
"""
import os
import re
import subprocess
import sys


def readelf(option, path):
    return subprocess.run(("readelf", "-W", option, path), check=True, text=True,
                          stdout=subprocess.PIPE, env={**os.environ, "LC_ALL": "C"}).stdout


def segments_of(path):
    """Type and rights of each program header."""
    return re.findall(r"^ +([A-Z_]+) +(?:0x\w+ +){5}([RWE ]{3}) ", readelf("-l", path), re.M)


def check_segments(path):
    segments = segments_of(path)
    rights = dict(segments)
    if "GNU_STACK" not in rights or "E" in rights["GNU_STACK"]:
        yield "its stack is executable"
    if any(kind == "LOAD" and "W" in flags and "E" in flags for kind, flags in segments):
        yield "a segment is writable and executable"
    if "GNU_RELRO" not in rights:
        yield "relocations stay writable"


def check_dynamic(path):
    entries = readelf("-d", path)
    if not re.search(r"\(BIND_NOW\)|\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*NOW", entries):
        yield "functions are bound lazily"
    if re.search(r"\(TEXTREL\)|\(FLAGS\).*TEXTREL", entries):
        yield "code has relocations"


def is_library(path):
    return ".so" in os.path.basename(path)


def check_kind(path):
    kind = re.search(r"Type: +(\w+)", readelf("-h", path))[1]
    if kind != "DYN":
        yield f"it has a fixed address ({kind})"


def check_compiled(path):
    symbols = readelf("--dyn-syms", path)
    if "__stack_chk_fail" not in symbols:
        yield "no function has a stack protector"
    if not re.search(r" __(?!stack)\w+_chk\b", symbols):
        yield "no call of libc is checked"


def main():
    files = sys.argv[1:]
    compiled = files[:1] == ["--compiled"]
    files = files[compiled:]
    checks = (check_kind, check_segments, check_dynamic)
    wrong = []
    for path in files:
        extra = (check_compiled,) if compiled and is_library(path) else ()
        wrong += [f"{path}: {flaw}" for check in checks + extra for flaw in check(path)]
    for line in wrong:
        print(line)
    print(f"{len(files)} files, {len(wrong)} wrong")
    return 1 if wrong or not files else 0


sys.exit(main())
