#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Are the profiles and their documents complete? Each value of a profile has a source, in its own
comment or in the one above it, and the head of the file explains the source. verbena-profiles(7)
has every fact and every profile, and docs/PROFILES.md counts the facts of each.

usage: check_profiles.py ROOT
"""
import glob
import os
import re
import sys


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def sources_of(text):
    return set(re.findall(r"\[(\w+)\]", text))


def check_profile(name, text, wrong):
    """Returns the facts that the profile names."""
    head, _, body = text.partition("\n\n")
    known = set(re.findall(r"^# \[(\w+)\] ", head, re.M))
    facts, above, last = {}, "", ""
    for line in body.split("\n"):
        value, _, comment = line.partition("#")
        words = value.split()
        if not words:
            above = above + comment if line.startswith("#") else ""
            continue
        own = sources_of(comment) or sources_of(above)
        if words[0] == last and not own:  # the next line of a set
            own = facts[last]
        if not own:
            wrong.append(f"{name}: {words[0]} has no source")
        wrong += [f"{name}: the head does not explain [{key}]" for key in sorted(own - known)]
        facts[words[0]], last, above = own, words[0], ""
    return facts


def main():
    root = sys.argv[1].rstrip("/")
    folder = root + "/share/verbena/devices"
    names = set(re.findall(r'^\t\[VB_FACT_\w+\] =\s+(?:\w+\(|\{ )"(\w+)"',
                           read(root + "/src/nic/fact.c"), re.M))
    page, document = read(root + "/man/verbena-profiles.7"), read(root + "/docs/PROFILES.md")
    built = set(re.findall(r"'([\w-]+)'", re.search(r"profiles = \[(.*?)\]",
                                                    read(folder + "/meson.build"), re.S)[1]))
    wrong = [f"verbena-profiles(7) has no {name}" for name in sorted(names)
             if not re.search(rf"^\.BR? .*\b{name}\b", page, re.M)]
    if len(names) < 50:
        wrong.append("the table of facts is not understood")
    files = {os.path.basename(path) for path in glob.glob(folder + "/*")} - {"meson.build"}
    wrong += [f"{name} is not in meson.build, or not there" for name in sorted(files ^ built)]
    for name in sorted(files):
        facts = check_profile(name, read(f"{folder}/{name}"), wrong)
        wrong += [f"{name}: {fact} is no fact" for fact in sorted(set(facts) - names)]
        if not re.search(rf"^{name}\t", page, re.M):
            wrong.append(f"verbena-profiles(7) has no profile {name}")
        if not re.search(rf"^\| [^|]*`{name}`[^|]* \| [^|]* \| {len(facts)} \|", document, re.M):
            wrong.append(f"docs/PROFILES.md: {name} has {len(facts)} facts")
    for line in wrong:
        print(line, file=sys.stderr)
    return bool(wrong)


sys.exit(main())
