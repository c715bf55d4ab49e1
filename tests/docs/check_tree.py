#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Is the tree as the documents say? Every file, folder and function that they name exists, every
folder is named, nothing includes a header of a folder above its own, and comments name files that
are there.

usage: check_tree.py ROOT
"""
import fnmatch
import glob
import os
import re
import sys

DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "bench/README.md",
             "docs/*.md")
TOP = ("src", "lib", "tools", "utils", "examples", "bench", "scripts", "tests", "man", "include",
       "docs", "packaging")
MADE = ("build", "build-fuzz")
LAB = ("bench.sh",)  # of the guests with rxe
FILE = r"(?:[\w*-]+/)*[\w*-]+\.(?:c|h|map|api|py|sh|awk|rows|bash)"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def files_of(root):
    return {path.removeprefix(root + "/") for top in TOP
            for path in glob.glob(f"{root}/{top}/**/*", recursive=True) if os.path.isfile(path)}


def ends_of(files):
    """Every way to name a file by the end of its path: run.c, engine/run.c, src/engine/run.c."""
    return {"/".join(parts[at:]) for parts in (path.split("/") for path in files)
            for at in range(len(parts))}


def is_there(name, ends):
    return name in ends or ("*" in name and any(fnmatch.fnmatch(end, name) for end in ends))


def documents_of(root, wrong):
    names = {pattern: sorted(glob.glob(pattern, root_dir=root)) for pattern in DOCUMENTS}
    wrong += [f"there is no {pattern}" for pattern in DOCUMENTS if not names[pattern]]
    return sum(names.values(), [])


def spans_of(text):
    """What stands between backquotes, without blocks of code."""
    return set(re.findall(r"`([^`\n]+)`", re.sub(r"^    .*$", "", text, flags=re.M)))


def check_document(root, name, ends, sources, wrong):
    for span in sorted(spans_of(read(f"{root}/{name}"))):
        first = span.split("/")[0]
        if re.search(r"(^|/)[A-Z]+(\.|$)", span):  # stands for any name
            continue
        if re.fullmatch(FILE, span):
            if first not in MADE and span not in LAB and not is_there(span, ends):
                wrong.append(f"{name}: there is no {span}")
        elif re.fullmatch(r"[\w./-]+", span) and first in TOP and "/" in span:
            if not os.path.exists(f"{root}/{span}"):
                wrong.append(f"{name}: there is no {span}")
        elif re.fullmatch(r"vb_\w+|VB_\w+", span) and not re.search(rf"\b{span}\b", sources):
            wrong.append(f"{name}: no source has {span}")


def rows_of(text, heading):
    """The names in the first column of the table below a heading, row by row."""
    section = re.search(rf"^## {heading}$(.*?)(?:^## |\Z)", text, re.M | re.S)[1]
    rows = re.findall(r"^\| ((?:`[^`]+`(?:, )?)+) \|", section, re.M)
    return [re.findall(r"`([^`]+)`", row) for row in rows]


def folders_with(root, top, ending):
    return {os.path.dirname(path).removeprefix(root + "/")
            for path in glob.glob(f"{root}/{top}/**/*{ending}", recursive=True)}


def check_folders(root, wrong):
    layers = rows_of(read(root + "/ARCHITECTURE.md"), "Folders, from the bottom")
    ranks = {folder: rank for rank, layer in enumerate(layers) for folder in layer}
    for folder in sorted(folders_with(root, "src", ".c") - set(ranks)):
        wrong.append(f"ARCHITECTURE.md: its table does not have {folder}")
    told = set(sum(rows_of(read(root + "/CONTRIBUTING.md"), "Tests"), []))
    for folder in sorted(os.listdir(root + "/tests")):
        if os.path.isdir(f"{root}/tests/{folder}") and f"tests/{folder}" not in told:
            if not folder.startswith("__"):
                wrong.append(f"CONTRIBUTING.md: its table does not have tests/{folder}")
    return ranks


def check_includes(root, ranks, wrong):
    count = 0
    for folder, rank in ranks.items():
        for path in sorted(glob.glob(f"{root}/{folder}/*.[ch]")):
            for header in re.findall(r'^#include "([^"]+)/[^"/]+"', read(path), re.M):
                count += 1
                below = f"src/{header}"
                if below not in ranks:
                    wrong.append(f"{path.removeprefix(root + '/')}: {header} is no folder of src")
                elif ranks[below] > rank:
                    wrong.append(f"{path.removeprefix(root + '/')} includes from {below}, above it")
    if not count:
        wrong.append("no source includes anything: this test looks in the wrong place")


def check_comments(root, files, ends, wrong):
    for path in sorted(path for path in files if re.search(r"\.[ch]$", path)):
        text = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', read(f"{root}/{path}"))
        for comment in re.findall(r"/\*.*?\*/", text, re.S):
            # Not the headers of others, in angle brackets or of rdma-core.
            for name in re.findall(r"(?<![\w<./])((?:\w+/)*\w{2,}\.[ch])\b(?!\w)", comment):
                if not is_there(name, ends) and not os.path.exists("/usr/include/" + name) \
                        and not glob.glob(f"/usr/include/*/{name}"):
                    wrong.append(f"{path}: a comment names {name}, which is not there")


def main():
    root = os.path.realpath(sys.argv[1])
    files = files_of(root)
    ends = ends_of(files)
    sources = "\n".join(read(f"{root}/{path}") for path in files if re.search(r"\.[ch]$", path))
    wrong = []
    for name in documents_of(root, wrong):
        check_document(root, name, ends, sources, wrong)
    check_includes(root, check_folders(root, wrong), wrong)
    check_comments(root, files, ends, wrong)
    for line in wrong:
        print(line)
    print(f"{len(files)} files, {len(wrong)} wrong")
    return 1 if wrong else 0


sys.exit(main())
