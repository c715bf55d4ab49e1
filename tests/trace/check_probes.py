#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The probes of the library, read from its ELF notes, against those that man/verbena.7 lists.

    check_probes.py LIBRARY MANUAL-PAGE

TAP. Each probe of the page is there, with as many arguments, and no other; none has a semaphore,
which would cost a load and a branch."""
import re
import struct
import sys

NT_STAPSDT = 3


def notes_of(path):
    """Provider, name, semaphore and arguments of each note in .note.stapsdt (ELF64)."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:6] == b"\x7fELF\x02\x01", "not an ELF64 file"
    table, = struct.unpack_from("<Q", data, 40)
    size, count, names_index = struct.unpack_from("<HHH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
    names_at = sections[names_index][4]
    for section in sections:
        name = data[names_at + section[0]:data.index(b"\0", names_at + section[0])]
        if name == b".note.stapsdt":
            yield from notes_in(data[section[4]:section[4] + section[5]])


def notes_in(section):
    at = 0
    while at + 12 <= len(section):
        name_size, size, kind = struct.unpack_from("<III", section, at)
        at += 12 + (name_size + 3 & ~3)
        note = section[at:at + size]
        at += size + 3 & ~3
        if kind != NT_STAPSDT:
            continue
        _, _, semaphore = struct.unpack_from("<QQQ", note)
        provider, name, arguments = note[24:].split(b"\0")[:3]
        yield provider.decode(), name.decode(), semaphore, arguments.decode().split()


def listed_in(page):
    """Name and number of arguments of each probe in the section PROBES."""
    with open(page, encoding="utf-8") as file:
        section = file.read().split(".SH PROBES\n")[1].split("\n.SH ")[0]
    listed = {}
    for line in re.findall(r"^\.BR (.*)$", section, re.M):
        match = re.match(r'(\w+)(?: ", " (\w+))? " \((.*)\)"', line)
        if match:
            for name in filter(None, match.groups()[:2]):
                listed[name] = len(re.findall(r"\\fI", match.group(3)))
    return listed


def main():
    library, page = sys.argv[1:]
    notes, listed = list(notes_of(library)), listed_in(page)
    found = {name: len(arguments) for _, name, _, arguments in notes}
    wrong = [f"{n}: {len(a)} arguments, the page has {listed.get(n)}"
             for _, n, _, a in notes if len(a) != listed.get(n)]
    wrong += [f"{n} is not in the library" for n in listed if n not in found]
    wrong += [f"{n} has a semaphore" for _, n, semaphore, _ in notes if semaphore]
    wrong += [f"{n} has the provider {p}" for p, n, _, _ in notes if p != "verbena"]
    print("1..1")
    print("not ok 1" if wrong or not listed else "ok 1", "- the probes are those of the page")
    for line in wrong:
        print("#", line)
    return 1 if wrong or not listed else 0


sys.exit(main())
