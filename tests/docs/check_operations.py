#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Can each transport do what the table of docs/CALLS.md says, and no more? The probe tells, on both
paths.

usage: check_operations.py TABLES PROBE
"""
import os
import subprocess
import sys


def lines_of(command, **environment):
    result = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE,
                            env={**os.environ, **environment})
    return {line for line in result.stdout.splitlines() if line}


def main():
    tables, probe = sys.argv[1:]
    wrong = 0
    for path, way in (("local", ""), ("wire", "wire")):
        # The probe knows nothing of frames: what raw packet QPs do is tried elsewhere.
        told = {line for line in lines_of([tables, "--operations", path])
                if not line.startswith("RAW_PACKET")}
        found = lines_of([probe], VERBENA_PATH=way)
        for line in sorted(told - found):
            print(f"{path}: the table has {line}, but it does not work")
        for line in sorted(found - told):
            print(f"{path}: {line} works, but the table does not have it")
        wrong += len(told ^ found) + (not found)
        print(f"{path}: {len(found)} operations work")
    return 1 if wrong else 0


sys.exit(main())
