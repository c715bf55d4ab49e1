#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Do the checks of this folder notice what they look for, and name it? In a copy of the tree,
with one thing wrong at a time.

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


CHECKS = {
    "tables": ("{root}/scripts/tables", "--check"),
    "tree": ("{root}/tests/docs/check_tree.py", "{root}"),
    "form": ("{root}/tests/docs/check_form.py", "{root}"),
    "format": ("{root}/tests/docs/format", "{root}", "utils"),
    "documents": ("{root}/tests/docs/check_documents.py", "{root}", "{build}"),
    "environment": ("{root}/tests/docs/check_environment.py", "{root}"),
    "profiles": ("{root}/tests/docs/check_profiles.py", "{root}"),
    "man": ("{root}/tests/docs/check_man.py", "{root}", "{build}"),
    "recipes": ("{root}/tests/packages/check_recipes.py", "{root}"),
}
# which check; what it notices; the word that it says; the file; what is replaced by what
CASES = (
    ("tables", "a call without a line", "ibv_alloc_pd", API, r"^ibv_alloc_pd .*\n", ""),
    ("tables", "a line without a call", "ibv_alloc_nothing", API, r"^\[map\]$",
     "[map]\nibv_alloc_nothing  complete"),
    ("tables", "a call that is said to refuse, and does not", "ibv_alloc_pd", API,
     r"^ibv_alloc_pd .*$", "ibv_alloc_pd  EOPNOTSUPP"),
    ("tables", "a call that refuses, and is said to be complete", "ibv_cmd_alloc_pd", API,
     r"^ibv_cmd_alloc_pd .*$", "ibv_cmd_alloc_pd  complete"),
    ("tables", "a pointer that is not set, and is said to be complete", "create_flow_action_esp",
     API, r"^create_flow_action_esp .*$", "create_flow_action_esp  complete"),
    ("tables", "a pointer without a line", "poll_cq", API, r"^poll_cq .*\n", ""),
    ("tables", "a partial call that does not say what is missing", "what is missing", API,
     r"^ibv_alloc_pd .*$", "ibv_alloc_pd  partial"),
    ("tables", "a new name in the map", "raccept4", "src/rdmacm/librdmacm.map", r"^\t\traccept;",
     "\t\traccept;\n\t\traccept4;"),
    ("tables", "a state that the table does not have", "CALLS.md", API, r"^ibv_alloc_pd .*$",
     "ibv_alloc_pd  partial: something"),
    ("tables", "an operation that a transport has lost", "", "src/nic/wr_opcode.c",
     r'ROW\(SEND_WITH_IMM, "send-with-imm", RC \| ', 'ROW(SEND_WITH_IMM, "send-with-imm", '),
    ("tables", "an operation that has lost its executor", "", "src/path/local/requester.c",
     r"\[IBV_WR_RDMA_READ\] = \w+,", ""),
    ("tables", "a packet that a transport has lost", "", "src/wire/opcode.c",
     r"^\tREQUEST\(FETCH_ADD,.*\n", ""),
    ("tables", "an edited table", "CALLS.md", "docs/CALLS.md", r"^\| `ibv_alloc_pd` .*\n", ""),
    ("tree", "a file that is gone", "engine/ran.c", "ARCHITECTURE.md", r"`src/engine/run\.c`",
     "`src/engine/ran.c`"),
    ("tree", "a function that is gone", "vb_wire_nudge", "ARCHITECTURE.md", r"`vb_wire_kick`",
     "`vb_wire_nudge`"),
    ("tree", "a folder that no table has", "src/path/raw", "ARCHITECTURE.md",
     r"^\| `src/path/raw` .*\n", ""),
    ("tree", "a header of a folder above", "src/nic/qp.c includes from src/verbs", "src/nic/qp.c",
     r"^#include .*$", '#include "verbs/raw.h"'),
    ("tree", "a comment about a file that is gone", "qq.c", "src/nic/qp.c", r"^#include .*$",
     "/* see qq.c */"),
    ("form", "a long function", "too_long has 61 lines", "src/nic/qp.c", r"\Z",
     "\nstatic void too_long(void)\n{\n" + "\tvb_step();\n" * 59 + "}\n"),
    ("form", "a long file", "lines, more than 600", "utils/game.c", r"\Z", "/* more */\n" * 600),
    ("form", "a long line", "utils/game.c:2:", "utils/game.c", r"^#include .*$",
     "/*" + " x" * 48 + "xx*/"),
    ("form", "a list that is not sorted", "zebra.c is out of order", "utils/meson.build",
     r"'devinfo_device\.c',", "'zebra.c', 'devinfo_device.c',"),
    ("form", "a pipe into grep that leaves early", "a pipe into grep -q", "scripts/demo", r"\Z",
     "ls | grep -q .\n"),
    ("format", "a line that is indented by spaces", "utils/game.c", "utils/game.c",
     r"^\treturn ", "        return "),
    ("documents", "a link that leads nowhere", "docs/WORDS.md", "README.md",
     r"\(docs/GLOSSARY\.md\)", "(docs/WORDS.md)"),
    ("documents", "a link to a heading that is gone", "nothing", "README.md",
     r"\(docs/GLOSSARY\.md\)", "(docs/GLOSSARY.md#nothing)"),
    ("documents", "a target that the Makefile has lost", "bench", "Makefile", r"^bench:", "race:"),
    ("documents", "a line that the first program does not print", "", "README.md",
     r"it is 42 now", "it is 43 now"),
    ("documents", "a README that nobody reads in a minute", "README", "README.md", r"\A",
     "\n" * 150),
    ("profiles", "a value without a source", "max_sge has no source",
     "share/verbena/devices/irdma", r"^max_sge +13 .*$", "max_sge 13"),
    ("profiles", "a source that the head does not explain", "[guess]",
     "share/verbena/devices/irdma", r"^max_sge +13 .*$", "max_sge 13 # [guess]"),
    ("profiles", "a fact that the page does not have", "max_ah", "man/verbena-profiles.7",
     r'", " max_ah ', '" '),
    ("environment", "a variable that the page does not have", "TEMPDIR",
     "src/base/environment.c", r'"TMPDIR"', '"TEMPDIR"'),
    ("environment", "a variable that is gone", "VERBENA_LOCKS", "man/verbena.1",
     r"^\.TP\n\.B VERBENA_KEYS$", ".TP\n.B VERBENA_LOCKS"),
    ("environment", "a default that the page does not have", "2000", "src/base/environment.c",
     r'"1000"', '"2000"'),
    ("environment", "a row that cannot be read", "", "src/base/environment.c",
     r'^\t\[VB_ENV_KEYS\] = \{ ', "\t[VB_ENV_KEYS] = { .name = "),
    ("environment", "a variable beside the table", "src/nic/device.c", "src/nic/device.c",
     r"vb_environment\(VB_ENV_DEVICES\)", 'secure_getenv("VERBENA_DEVICES")'),
    ("man", "a page that is not installed", "verbena-legacy", "man/meson.build",
     r"'verbena-legacy\.7', ", ""),
    ("man", "a program without a page", "ibv_gadgets", "utils/meson.build", r"^\t'ibv_devices':",
     "\t'ibv_gadgets':"),
    ("man", "an option that no page has", "-o", "man/ibv_rc_pingpong.1", r"^\.BR \\-o .*$",
     ".B -o"),
    ("man", "a page that groff complains about", "verbena.7", "man/verbena.7",
     r"^\.SS Importing$", ".SSS"),
    ("recipes", "a package that the build needs", "libisal-dev", "docs/CI.md", r" libisal-dev", ""),
    ("recipes", "a package that no list has", "libisal2-dev", "docs/CI.md", r"libisal-dev$",
     "libisal2-dev libisal-dev"),
    ("recipes", "a target that is gone", "instal", "docs/CI.md", r"verbena install ",
     "verbena instal "),
    ("recipes", "an option that is gone", "checks", "docs/CI.md", r"-Dtests", "-Dchecks"),
    ("recipes", "a command that is gone", "doktor", "docs/CI.md", r"run: verbena doctor",
     "run: verbena doktor"),
    ("recipes", "a step that one service has lost", "GitLab", "docs/CI.md",
     r"^        - cargo test --no-run\n", ""),
    ("recipes", "a step that is no shell command", "no shell", "docs/CI.md", r"- run: make$",
     "- run: make ("),
)
SKIPPED = 77


def run(check, root, build):
    """Its status, and what it says."""
    command = [part.format(root=root, build=build) for part in CHECKS[check]]
    if not command[0].endswith("format"):
        command.insert(0, sys.executable)
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    return done.returncode, done.stdout


def notices(check, word, root, build):
    status, text = run(check, root, build)
    return status == SKIPPED or (status != 0 and word in text)


def copy(source, root):
    """Links, but for the folders whose files are edited."""
    for name in os.listdir(source):
        if name in ("src", "scripts", "man", "utils", "docs", "share"):
            shutil.copytree(f"{source}/{name}", f"{root}/{name}")
        elif name.endswith(".md") or name in ("Makefile", ".clang-format"):
            shutil.copy(f"{source}/{name}", root)
        elif not name.startswith((".", "build")):
            os.symlink(f"{source}/{name}", f"{root}/{name}")


def main():
    source, build = (os.path.abspath(path) for path in sys.argv[1:])
    failed = 0
    with tempfile.TemporaryDirectory() as root:
        copy(source, root)
        for number, check in enumerate(CHECKS, 1):
            status, text = run(check, root, build)
            failed += status not in (0, SKIPPED)
            print(f"{'not ok' if status not in (0, SKIPPED) else 'ok'} {number} - "
                  f"{check}: the tree as it is raises no objection")
            if status:
                print("".join(f"# {line}\n" for line in text.splitlines()), end="")
        for number, (check, what, word, path, pattern, replacement) in \
                enumerate(CASES, len(CHECKS) + 1):
            if "groff" in what and not shutil.which("groff"):
                print(f"ok {number} - {what} # SKIP it is not installed")
                continue
            before = edit(f"{root}/{path}", pattern, replacement)
            noticed = notices(check, word, root, build)
            write(f"{root}/{path}", before)
            failed += not noticed
            print(f"{'ok' if noticed else 'not ok'} {number} - {check}: {what} is noticed")
    print(f"1..{len(CHECKS) + len(CASES)}")
    return 1 if failed else 0


sys.exit(main())
