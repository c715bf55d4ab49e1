#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Is every source small enough to be read, every list of sources sorted, and every question of a
shell script answered by what is asked?

usage: check_form.py ROOT
"""
import glob
import os
import re
import sys

TOP = ("src", "lib", "tools", "utils", "examples", "bench", "scripts", "tests", "include",
       "packaging")
FILE_LINES_MAX, FUNCTION_LINES_MAX, COLUMNS_MAX, TAB = 600, 60, 100, 8
NOT_OURS = "tests/golden/captures/"


def sources_of(root):
    """Their text by name: programs, headers, scripts and build files."""
    found = {}
    paths = [path for top in TOP for path in glob.glob(f"{root}/{top}/**/*", recursive=True)]
    for path in sorted(paths):
        name = path.removeprefix(root + "/")
        if os.path.isfile(path) and not name.startswith(NOT_OURS):
            with open(path, "rb") as file:
                start = file.read(2)
                if start == b"#!" or re.search(r"\.(c|h|py|sh|bash|awk)$|/meson\.build$", name):
                    found[name] = (start + file.read()).decode()
    return found


def functions_of(text):
    """Name and number of lines; a brace in the first column begins nothing else."""
    for match in re.finditer(r"^\{\n.*?^\}", text, re.M | re.S):
        head = text[:match.start()].rpartition("\n\n")[2]
        name = re.search(r"(\w+)\s*\(", re.sub(r"__attribute__\s*\(\(.*?\)\)", "", head))
        yield name[1] if name else head.strip(), match[0].count("\n") + 1


def is_row(name, line):
    """Of a table in a script: it cannot be broken."""
    return not re.search(r"\.\w+$", name) and line.count("|") >= 4 and "||" not in line


def check_sizes(name, text, wrong):
    lines = text.splitlines()
    if len(lines) > FILE_LINES_MAX:
        wrong.append(f"{name}: {len(lines)} lines, more than {FILE_LINES_MAX}")
    if re.search(r"\.[ch]$", name):
        wrong += [f"{name}: {function} has {count} lines, more than {FUNCTION_LINES_MAX}"
                  for function, count in functions_of(text) if count > FUNCTION_LINES_MAX]
    wrong += [f"{name}:{number}: more than {COLUMNS_MAX} columns"
              for number, line in enumerate(lines, 1)
              if len(line.expandtabs(TAB)) > COLUMNS_MAX and not is_row(name, line)]


def in_order(sources):
    """Those of the own folder first."""
    return sorted(sources, key=lambda source: (source.startswith(".."), source))


def check_lists(name, text, wrong):
    """Sources that follow one another in a list, or among the arguments of a target."""
    for run in re.findall(r"'[^'\n]+\.c'(?:,\s*(?:#.*\s*)?'[^'\n]+\.c')+", text):
        sources = re.findall(r"'([^'\n]+\.c)'", run)
        if sources != in_order(sources):
            late = next(one for one, two in zip(sources, in_order(sources)) if one != two)
            wrong.append(f"{name}: {late} is out of order")


def check_pipes(name, text, wrong):
    """grep -q leaves at the first match. Where pipefail is set, the death of the command before it
    turns a yes into a no, now and then. `grep -q X < <(command)` has no such death."""
    wrong += [f"{name}:{number}: a pipe into grep -q"
              for number, line in enumerate(text.splitlines(), 1)
              if re.search(r"[^|]\| *grep (-\w+ )*-\w*q", line)]


def main():
    sources = sources_of(os.path.realpath(sys.argv[1]))
    wrong = []
    for name, text in sources.items():
        check_sizes(name, text, wrong)
        if re.match(r"#!.*\bbash\b", text) or re.search(r"\.(sh|bash)$", name):
            check_pipes(name, text, wrong)
        if name.endswith("meson.build"):
            check_lists(name, text, wrong)
    for line in wrong:
        print(line)
    print(f"{len(sources)} sources, {len(wrong)} wrong")
    return 1 if wrong or not sources else 0


sys.exit(main())
