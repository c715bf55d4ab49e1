#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Is each environment variable that the sources read in the section ENVIRONMENT of verbena(1), and
each that the section explains read?

usage: check_environment.py ROOT
"""
import glob
import re
import sys

# Read through a function of ours, so that no getenv() stands before the name.
FAMILIES = r"(?:VERBENA|VERBS|RDMAV|RS|SYSFS|XDG)_[A-Z_]+"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def variables_of(root):
    """name -> the file that reads it."""
    names = {}
    for folder in ("src", "tools", "utils", "lib"):
        for path in glob.glob(f"{root}/{folder}/**/*.[ch]", recursive=True):
            text = re.sub(r"/\*.*?\*/", "", read(path), flags=re.S)
            for name in re.findall(r'getenv\(\s*"(\w+)"', text) + \
                    re.findall(rf'\(\s*"({FAMILIES})"', text):
                names.setdefault(name, path.removeprefix(root + "/"))
    return names


def main():
    root = sys.argv[1].rstrip("/")
    page = read(root + "/man/verbena.1")
    section = re.search(r"^\.SH ENVIRONMENT\n(.*?)^\.SH ", page, re.M | re.S)[1]
    told = set(re.findall(r"\b[A-Z][A-Z_]{3,}\b", section))
    explained = set()
    for line in re.findall(r"^\.TP\n(.*)", section, re.M):
        explained |= set(re.findall(r"\b[A-Z][A-Z_]{3,}\b", line))
    variables = variables_of(root)
    wrong = [f"man/verbena.1 does not tell of {name}, which {path} reads"
             for name, path in sorted(variables.items()) if name not in told]
    wrong += [f"man/verbena.1 explains {name}, which nothing reads"
              for name in sorted(explained - set(variables))]
    if not variables:
        wrong.append("no source reads any variable: this test looks in the wrong place")
    for line in wrong:
        print(line)
    print(f"{len(variables)} variables, {len(wrong)} wrong")
    return 1 if wrong else 0


sys.exit(main())
