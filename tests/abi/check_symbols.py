#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares the exports of a library with a checked-in table: names, versions, types, nodes.

usage: check_symbols.py TABLE LIBRARY
"""
import os
import re
import subprocess
import sys


def readelf(*args):
    return subprocess.run(("readelf", "-W") + args, check=True, text=True, stdout=subprocess.PIPE,
                          env={**os.environ, "LC_ALL": "C"}).stdout.splitlines()


def exported_symbols(library):
    """'name @@NODE func' for each defined dynamic symbol; the ABS ones are names of nodes."""
    for line in readelf("--dyn-syms", library):
        # number: value size type binding visibility section name@version
        fields = line.split()
        if len(fields) < 8 or not re.match(r"\d+:", fields[0]) or fields[6] in ("UND", "ABS"):
            continue
        name, version = re.match(r"([^@]+)(.*)", fields[7]).groups()
        yield f"{name} {version} {fields[3].lower()}"


def version_nodes(library):
    """'node NAME PARENT' for each version that the library defines."""
    nodes = []
    in_definitions = False
    for line in readelf("-V", library):
        if line.startswith("Version"):
            in_definitions = line.startswith("Version definition")
        elif in_definitions and (match := re.search(r"Flags: (\S+).*Name: (\S+)", line)):
            nodes.append(None if match[1] == "BASE" else f"node {match[2]}")
        elif in_definitions and (match := re.search(r"Parent \d+: (\S+)", line)):
            nodes[-1] += f" {match[1]}"
    return [node for node in nodes if node]


def soname(library):
    for line in readelf("-d", library):
        if match := re.search(r"\(SONAME\).*\[(.*)\]", line):
            return match[1]
    return None


def check_file(library, found):
    """The name of the file has the number of the highest public node: libibverbs.so.1.18.65."""
    minors = [int(match[1]) for line in found
              if (match := re.match(r"node (?:IBVERBS|RDMACM)_1\.(\d+)", line))]
    name = os.path.basename(os.path.realpath(library))
    if minors and not re.search(rf"\.so\.1\.{max(minors)}\.", name):
        yield f"the file is {name}, and the highest node has the number {max(minors)}"


def table_lines(path):
    with open(path, encoding="ascii") as table:
        return [line.strip() for line in table if line.strip() and not line.startswith("#")]


def main():
    table, library = sys.argv[1:]
    wanted = table_lines(table)
    found = list(exported_symbols(library)) + version_nodes(library)
    wrong = [f"missing: {line}" for line in sorted(set(wanted) - set(found))]
    wrong += [f"not in the table: {line}" for line in sorted(set(found) - set(wanted))]
    wrong += [f"twice in the table: {line}" for line in sorted(set(wanted))
              if wanted.count(line) > 1]
    if soname(library) != os.path.basename(library):
        wrong.append(f"the SONAME is {soname(library)}, not {os.path.basename(library)}")
    wrong += check_file(library, found)
    if not wanted:
        wrong.append("the table is empty")
    for line in wrong:
        print(f"{os.path.basename(library)}: {line}")
    print(f"{library}: {len(found)} exports and nodes, {len(wanted)} in the table, "
          f"{len(wrong)} wrong")
    return 1 if wrong else 0


sys.exit(main())
