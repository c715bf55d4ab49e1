#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Does check_hardening.py see each flaw? Compiles a program or library with it.

usage: self_check_hardening.py CHECK COMPILER...
"""
import os
import subprocess
import sys
import tempfile

SOURCE = r"""#include <stdio.h>
#include <string.h>
#ifdef WRITABLE_CODE
asm(".section .spoilt, \"awx\"\n.byte 0\n.text");
#endif
void fill(char *); void fill(char *text) { text[0] = 0; }
int main(int argc, char **argv)
{ char text[40]; fill(text); strcpy(text, argv[argc - 1]); return puts(text); }
"""
GOOD = ("-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-fstack-protector-strong",
        "-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack")
PROGRAM, LIBRARY = ("-fPIE", "-pie"), ("-fPIC", "-shared")
# A flag that spoils, the kind of file, and the flaw that is to be found.
CASES = (
    ((), PROGRAM, None),
    ((), LIBRARY, None),
    (("-Wl,-z,execstack",), PROGRAM, "its stack is executable"),
    (("-Wl,-z,norelro",), LIBRARY, "relocations stay writable"),
    (("-Wl,-z,lazy",), LIBRARY, "functions are bound lazily"),
    (("-DWRITABLE_CODE",), LIBRARY, "a segment is writable and executable"),
    (("-fno-PIE", "-no-pie"), PROGRAM, "it has a fixed address (EXEC)"),
    (("-fno-stack-protector",), LIBRARY, "no function has a stack protector"),
    (("-U_FORTIFY_SOURCE",), LIBRARY, "no call of libc is checked"),
)


def judge(check, compiler, folder, case):
    spoil, kind, flaw = case
    path = folder + ("/it.so" if kind is LIBRARY else "/it")
    subprocess.run([*compiler, *GOOD, *kind, *spoil, "-o", path, folder + "/it.c"], check=True,
                   stderr=subprocess.DEVNULL)
    done = subprocess.run([sys.executable, check, "--compiled", path], check=False, text=True,
                          stdout=subprocess.PIPE)
    if flaw is None:
        return done.returncode == 0
    return done.returncode == 1 and f"{path}: {flaw}\n" in done.stdout


def main():
    check, *compiler = sys.argv[1:]
    print(f"1..{len(CASES)}")
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/it.c", "w", encoding="utf-8") as file:
            file.write(SOURCE)
        for number, case in enumerate(CASES, 1):
            told = "ok" if judge(check, compiler, folder, case) else "not ok"
            print(f"{told} {number} - {case[2] or 'nothing wrong'}")


main()
