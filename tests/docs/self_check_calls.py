#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Does check_calls.py see what the protocol folders must not do, and say how they come to do it? In
small trees that are made up.

usage: self_check_calls.py CHECK COMPILER...
"""
import json
import os
import subprocess
import sys
import tempfile

CM = "src/cm/cm.c"
MAD = "src/mad/mad.c"
ROCE = "src/path/roce/roce.c"
PORT = "src/port/port.c"
NIC = "src/nic/nic.c"
HEADER = "src/base/base.h"
# A tree that does nothing wrong: the port may, and what is called through a pointer.
TREE = {
    HEADER: """#include <sched.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>
static inline long vb_now(void) { struct timespec now; clock_gettime(0, &now); return now.tv_sec; }
int vb_nic(int x);
int vb_port(int x);
""",
    NIC: """#include "base/base.h"
static int inner(int x)
{
	return x;
}
int vb_nic(int x)
{
	return inner(x);
}
""",
    PORT: """#include "base/base.h"
int vb_port(int x)
{
	return (int)write(x, "", 1);
}
""",
    ROCE: """#include "base/base.h"
int (*vb_sink)(int) = vb_port;
int vb_roce(int x)
{
	return vb_sink(x) + vb_nic(x);
}
""",
    MAD: """#include "base/base.h"
int vb_mad(int x)
{
	return vb_nic(x);
}
""",
    CM: """#include "base/base.h"
int vb_cm(int now)
{
	return now;
}
""",
}
# what is noticed; what it says, or "" where it is content; the file; what is replaced by what;
# the exceptions
CASES = (
    ("a tree without a fault raises no objection", "", CM, "", "", ""),
    ("a clock is noticed", "src/cm/cm.c: vb_cm -> time", CM, "return now", "return (int)time(0)",
     ""),
    ("a yield is noticed", "src/path/roce/roce.c: vb_roce -> sched_yield", ROCE, "return vb_sink",
     "sched_yield(); return vb_sink", ""),
    ("a function of a header is looked into", "vb_cm -> vb_now -> clock_gettime", CM, "return now",
     "return (int)vb_now()", ""),
    ("a folder below is looked into", "vb_roce -> vb_nic -> inner -> getentropy", NIC,
     "return x;", "return getentropy(&x, 4);", ""),
    ("the port is looked into where it is called", "vb_roce -> vb_port -> write", ROCE,
     "vb_nic(x)", "vb_port(x)", ""),
    ("an excused function is not looked into", "", CM, "return now", "return (int)vb_now()",
     "vb_now  a reason"),
    ("an excused call is not", "", CM, "return now", "return (int)time(0)",
     "vb_cm -> time  a reason"),
    ("another call of the same is", "vb_cm -> time", CM, "return now", "return (int)time(0)",
     "vb_roce -> time  a reason"),
    ("an exception that nothing needs is noticed", "nothing needs vb_now", CM, "", "",
     "vb_now  a reason"),
    ("an exception without a reason is noticed", "no reason: vb_now", CM, "return now",
     "return (int)vb_now()", "vb_now"),
    ("a folder without functions is noticed", "wrong place", CM, TREE[CM], "int vb_cm;", ""),
)


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def make(root, compiler, tree, allowed):
    commands = []
    for path, text in tree.items():
        write(f"{root}/{path}", text)
        library = "src/cm/libverbena-cm.a.p" if path == CM else "src/libverbena-core.a.p"
        if path.endswith(".c"):
            output = f"{library}/{path.replace('/', '_')}.o"
            commands.append({"directory": f"{root}/build", "file": f"../{path}", "output": output,
                             "command": f"{compiler} -D_GNU_SOURCE -I../src -O2 -g -MD -MQ {output}"
                                        f" -MF {output}.d -o {output} -c ../{path}"})
    write(f"{root}/build/compile_commands.json", json.dumps(commands))
    write(f"{root}/allowed", allowed + "\n")


def passes(check, compiler, case):
    _, says, path, old, new, allowed = case
    with tempfile.TemporaryDirectory() as root:
        make(root, compiler, {**TREE, path: TREE[path].replace(old, new)}, allowed)
        done = subprocess.run([sys.executable, check, root, f"{root}/build", f"{root}/allowed"],
                              check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True)
    passed = done.returncode != 0 and says in done.stdout if says else done.returncode == 0
    if not passed:
        print("".join(f"# {line}\n" for line in done.stdout.splitlines()), end="")
    return passed


def main():
    check, compiler = sys.argv[1], " ".join(sys.argv[2:])
    failed = 0
    for number, case in enumerate(CASES, 1):
        passed = passes(check, compiler, case)
        failed += not passed
        print(f"{'ok' if passed else 'not ok'} {number} - {case[0]}")
    print(f"1..{len(CASES)}")
    return 1 if failed else 0


sys.exit(main())
