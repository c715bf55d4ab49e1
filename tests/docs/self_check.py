#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Do `scripts/tables --check` and the checks of this folder notice when a document and the sources
part? In a copy of the tree.

usage: self_check.py ROOT BUILD
"""
import os
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
    ("a state that the table does not have", API, r"^ibv_alloc_pd .*$",
     "ibv_alloc_pd  partial: something"),
    ("an operation that a transport has lost", "src/nic/wr_opcode.c",
     r'ROW\(SEND_WITH_IMM, "send-with-imm", RC \| ', 'ROW(SEND_WITH_IMM, "send-with-imm", '),
    ("an operation that has lost its executor", "src/path/local/requester.c",
     r"\[IBV_WR_RDMA_READ\] = \w+,", ""),
    ("a packet that a transport has lost", "src/wire/opcode.c", r"^\tREQUEST\(FETCH_ADD,.*\n", ""),
    ("an edited table", "docs/CALLS.md", r"^\| `ibv_alloc_pd` .*\n", ""),
    ("a file that is gone", "ARCHITECTURE.md", r"`src/engine/run\.c`", "`src/engine/ran.c`"),
    ("a function that is gone", "ARCHITECTURE.md", r"`vb_wire_kick`", "`vb_wire_nudge`"),
    ("a folder that no table has", "ARCHITECTURE.md", r"^\| `src/path/raw` .*\n", ""),
    ("a header of a folder above", "src/nic/qp.c", r"^#include .*$", '#include "verbs/raw.h"'),
    ("a comment about a file that is gone", "src/nic/qp.c", r"^#include .*$", "/* see qq.c */"),
    ("a link that leads nowhere", "README.md", r"\(docs/GLOSSARY\.md\)", "(docs/WORDS.md)"),
    ("a link to a heading that is gone", "README.md", r"\(docs/GLOSSARY\.md\)",
     "(docs/GLOSSARY.md#nothing)"),
    ("a target that the Makefile has lost", "Makefile", r"^bench:", "race:"),
    ("a line that the first program does not print", "README.md", r"it is 42 now",
     "it is 43 now"),
    ("a README that nobody reads in a minute", "README.md", r"\A", "\n" * 150),
    ("a page that is not installed", "man/meson.build", r"'verbena-legacy\.7', ", ""),
    ("a program without a page", "utils/meson.build", r"^\t'ibv_devices':", "\t'ibv_gadgets':"),
    ("an option that no page has", "man/ibv_rc_pingpong.1", r"^\.BR \\-o .*$", ".B -o"),
    ("a variable that the page does not have", "src/base/environment.c", r'"TMPDIR"', '"TEMPDIR"'),
    ("a variable that is gone", "man/verbena.1", r"^\.B VERBENA_KEYS$", ".B VERBENA_LOCKS"),
    ("a default that the page does not have", "src/base/environment.c", r'"1000"', '"2000"'),
    ("a row that cannot be read", "src/base/environment.c", r'^\t\[VB_ENV_KEYS\] = \{ ',
     "\t[VB_ENV_KEYS] = { .name = "),
    ("a variable beside the table", "src/nic/device.c", r"vb_environment\(VB_ENV_DEVICES\)",
     'secure_getenv("VERBENA_DEVICES")'),
    ("a page that groff complains about", "man/verbena.7", r"^\.SS Importing$", ".SSS"),
)
CHECKS = (
    ("{root}/scripts/tables", "--check"),
    ("{root}/tests/docs/check_tree.py", "{root}"),
    ("{root}/tests/docs/check_documents.py", "{root}", "{build}"),
    ("{root}/tests/docs/check_environment.py", "{root}"),
    ("{root}/tests/docs/check_man.py", "{root}", "{build}"),
)


def is_content(root, build):
    for check, *arguments in CHECKS:
        command = [sys.executable, check, *arguments]
        if subprocess.run([part.format(root=root, build=build) for part in command], check=False,
                          stdout=subprocess.DEVNULL).returncode:
            return False
    return True


def copy(source, root):
    """Links, but for the folders whose files are edited."""
    for name in os.listdir(source):
        if name in ("src", "scripts", "man", "utils", "docs"):
            shutil.copytree(f"{source}/{name}", f"{root}/{name}")
        elif name.endswith(".md") or name == "Makefile":
            shutil.copy(f"{source}/{name}", root)
        elif not name.startswith((".", "build")):
            os.symlink(f"{source}/{name}", f"{root}/{name}")


def main():
    source, build = sys.argv[1:]
    with tempfile.TemporaryDirectory() as root:
        copy(source, root)
        failed = not is_content(root, build)
        print(f"{'not ok' if failed else 'ok'} 1 - the tree as it is raises no objection")
        for number, (what, path, pattern, replacement) in enumerate(CASES, 2):
            if "groff" in what and not shutil.which("groff"):
                print(f"ok {number} - {what} # SKIP it is not installed")
                continue
            before = edit(f"{root}/{path}", pattern, replacement)
            noticed = not is_content(root, build)
            write(f"{root}/{path}", before)
            failed += not noticed
            print(f"{'ok' if noticed else 'not ok'} {number} - {what} is noticed")
    print(f"1..{len(CASES) + 1}")
    return 1 if failed else 0


sys.exit(main())
