#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Do the documents keep what they promise a reader? Links lead to a file and a heading, `make` has
the targets that they name, README.md is short, and its first program prints what it shows.

usage: check_documents.py ROOT BUILD
"""
import glob
import os
import re
import subprocess
import sys

README_LINES_MAX = 149
NOT_OURS = ("http://", "https://", "mailto:")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def anchors_of(text):
    """Headings, as they are named in links: "Two hosts" is two-hosts."""
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-")
            for heading in re.findall(r"^#+ (.*)$", text, re.M)}


def check_links(root, name, text, wrong):
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text)
             if not link.startswith(NOT_OURS)]
    for link in links:
        path, _, anchor = link.partition("#")
        target = os.path.normpath(os.path.join(root, os.path.dirname(name), path)) if path \
            else os.path.join(root, name)
        if not os.path.exists(target):
            wrong.append(f"{name}: the link {link} leads nowhere")
        elif anchor and anchor not in anchors_of(read(target)):
            wrong.append(f"{name}: the link {link} leads to no heading")
    return len(links)


def check_targets(name, text, targets, wrong):
    """`make TARGET` between backquotes, and at the beginning of a line of a block."""
    for target in sorted(set(re.findall(r"(?:`|^    )make ([a-z]\w*)", text, re.M)) - targets):
        wrong.append(f"{name}: the Makefile has no target {target}")


def block_after(text, command):
    """The lines of the block of code below a command."""
    block = re.search(rf"^    \$ {re.escape(command)}\n((?:    .*\n)*)", text, re.M)
    return re.sub(r"^    ", "", block[1], flags=re.M) if block else None


def check_program(root, build, program, wrong):
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("VERBENA_")}
    done = subprocess.run([f"{build}/{program}"], check=False, text=True, env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    shown = block_after(read(root + "/README.md"), f"build/{program}")
    if shown is None:
        wrong.append(f"README.md does not show build/{program}")
        return
    # Numbers of QPs differ from run to run.
    told, printed = (re.sub(r"0x[0-9a-f]+", "0x", text).splitlines()
                     for text in (shown, done.stdout))
    for line in sorted(set(told) ^ set(printed)):
        wrong.append(f"README.md: {program} and what is shown of it differ: {line.strip()}")
    if told != printed:
        wrong.append(f"README.md: {program} prints something else than is shown")


def main():
    root, build = (os.path.realpath(path) for path in sys.argv[1:])
    targets = set(re.findall(r"^(\w+):", read(root + "/Makefile"), re.M))
    wrong = []
    links = 0
    names = [name for pattern in ("*.md", "docs/*.md", "bench/*.md")
             for name in sorted(glob.glob(pattern, root_dir=root))]
    for name in names:
        text = read(f"{root}/{name}")
        links += check_links(root, name, text, wrong)
        check_targets(name, text, targets, wrong)
    lines = read(root + "/README.md").count("\n")
    if lines > README_LINES_MAX:
        wrong.append(f"README.md has {lines} lines, {README_LINES_MAX} are enough")
    check_program(root, build, "examples/verbs_steps", wrong)
    for line in wrong:
        print(line)
    print(f"{len(names)} documents, {links} links, {len(wrong)} wrong")
    return 1 if wrong or not links else 0


sys.exit(main())
