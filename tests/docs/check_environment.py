#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Does the section ENVIRONMENT of verbena(1) tell of each variable in the table of
src/base/environment.c, with the number that it has otherwise, and explain no others? Do the sources
read variables by that table alone?

usage: check_environment.py ROOT
"""
import glob
import re
import sys

TABLE = "src/base/environment.c"
NAME = r"\b[A-Z][A-Z_]{3,}\b"


def read(path):
    with open(path, encoding="utf-8") as file:
        return re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)


def rows_of(root):
    """name -> what is without it."""
    rows = re.findall(r'\[VB_ENV_\w+\] = \{\s*"(\w+)",\s*"[^"]+",\s*\.otherwise = "([^"]+)"',
                      read(f"{root}/{TABLE}"))
    return dict(rows)


def read_elsewhere(root, wrong):
    """What tools read of the environment of a program that they start. Libraries: nothing."""
    names = set()
    for folder in ("src", "tools", "utils", "lib"):
        for path in sorted(glob.glob(f"{root}/{folder}/**/*.[ch]", recursive=True)):
            name = path.removeprefix(root + "/")
            calls = re.findall(r"getenv\(\s*([^)]*)\)", read(path))
            if calls and folder == "src" and name != TABLE:
                wrong.append(f"{name} reads a variable itself: {TABLE} is the place for it")
            if folder != "src":
                names |= {call.strip('"') for call in calls if call.startswith('"')}
    return names


def main():
    root = sys.argv[1].rstrip("/")
    page = read(root + "/man/verbena.1")
    section = re.search(r"^\.SH ENVIRONMENT\n(.*?)^\.SH ", page, re.M | re.S)[1]
    paragraphs = {name: text for head, text in re.findall(r"^\.TP\n(.*)\n((?:(?!\.TP|\.PP).*\n)*)",
                                                          section, re.M)
                  for name in re.findall(NAME, head)}
    rows, wrong = rows_of(root), []
    elsewhere = read_elsewhere(root, wrong)
    count = len(re.findall(r"^\t\[VB_ENV_", read(f"{root}/{TABLE}"), re.M))
    if not count or len(rows) != count:
        wrong.append(f"{TABLE} has {count} rows, of which {len(rows)} are understood")
    wrong += [f"man/verbena.1 does not explain {name}, which {TABLE} has"
              for name in sorted(set(rows) - set(paragraphs))]
    wrong += [f"man/verbena.1 explains {name}, which nothing reads"
              for name in sorted(set(paragraphs) - set(rows))]
    wrong += [f"man/verbena.1 does not tell of {name}, which a tool reads"
              for name in sorted(elsewhere - set(re.findall(NAME, section)))]
    wrong += [f"man/verbena.1 does not tell that {name} is {value} otherwise"
              for name, value in sorted(rows.items())
              if re.fullmatch(r"[1-9]\d*", value) and value not in paragraphs.get(name, "")]
    for line in wrong:
        print(line)
    print(f"{len(rows)} variables, {len(wrong)} wrong")
    return 1 if wrong else 0


sys.exit(main())
