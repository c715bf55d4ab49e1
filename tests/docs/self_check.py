#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Does `scripts/tables --check` notice when a document and the sources part? In a copy of the tree.

usage: self_check.py ROOT
"""
import re
import shutil
import subprocess
import sys
import tempfile

API = "src/verbs/libibverbs.api"


def edit(path, pattern, replacement):
    """Gives back what was there."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    new, count = re.subn(pattern, replacement, text, count=1, flags=re.M)
    if not count:
        raise ValueError(f"{path} has no {pattern}")
    write(path, new)
    return text


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


# what is noticed; the file; what is replaced by what
CASES = (
    ("a call without a line", API, r"^ibv_alloc_pd .*\n", ""),
    ("a line without a call", API, r"^\[map\]$", "[map]\nibv_alloc_nothing  complete"),
    ("a call that is said to refuse, and does not", API, r"^ibv_alloc_pd .*$",
     "ibv_alloc_pd  EOPNOTSUPP"),
    ("a call that refuses, and is said to be complete", API, r"^ibv_cmd_alloc_pd .*$",
     "ibv_cmd_alloc_pd  complete"),
    ("a pointer that is not set, and is said to be complete", API,
     r"^create_flow_action_esp .*$", "create_flow_action_esp  complete"),
    ("a pointer without a line", API, r"^poll_cq .*\n", ""),
    ("a partial call that does not say what is missing", API, r"^ibv_alloc_pd .*$",
     "ibv_alloc_pd  partial"),
    ("a new name in the map", "src/rdmacm/librdmacm.map", r"^\t\traccept;",
     "\t\traccept;\n\t\traccept4;"),
    ("a state that README does not have", API, r"^ibv_alloc_pd .*$",
     "ibv_alloc_pd  partial: something"),
    ("an operation that a transport has lost", "src/path/local/requester.c",
     r"\[IBV_WR_RDMA_READ\] = \w+,", ""),
    ("a packet that a transport has lost", "src/wire/opcode.c", r"^\tREQUEST\(FETCH_ADD,.*\n", ""),
    ("an edited table", "README.md", r"^\| `ibv_alloc_pd` .*\n", ""),
)


def is_content(root):
    return subprocess.run([root + "/scripts/tables", "--check"], check=False,
                          stdout=subprocess.DEVNULL).returncode == 0


def main():
    source = sys.argv[1]
    with tempfile.TemporaryDirectory() as root:
        for folder in ("src", "scripts"):
            shutil.copytree(f"{source}/{folder}", f"{root}/{folder}")
        shutil.copy(f"{source}/README.md", root)
        failed = not is_content(root)
        print(f"{'not ok' if failed else 'ok'} 1 - the tree as it is raises no objection")
        for number, (what, path, pattern, replacement) in enumerate(CASES, 2):
            before = edit(f"{root}/{path}", pattern, replacement)
            noticed = not is_content(root)
            write(f"{root}/{path}", before)
            failed += not noticed
            print(f"{'ok' if noticed else 'not ok'} {number} - {what} is noticed")
    print(f"1..{len(CASES) + 1}")
    return 1 if failed else 0


sys.exit(main())
