#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Loads every RDMA client of Debian against the libraries of a build, with `ldd -r`: each symbol
and each version it needs must be there, and the libraries found must be those of the build.

usage: check_clients.py LIBDIR
"""
import os
import re
import shutil
import subprocess
import sys

OURS = ("libibverbs.so.1", "librdmacm.so.1")

# The 12 programs of perftest that move data; the rest of the package are scripts.
PERFTEST = [f"/usr/bin/ib_{operation}_{what}"
            for operation in ("send", "write", "read", "atomic") for what in ("bw", "lat")]
PERFTEST += [f"/usr/bin/raw_ethernet_{what}" for what in ("bw", "lat", "burst_lat", "fs_rate")]

# group: (package, files wanted as a pattern, how many at least)
PACKAGES = {
    "ibverbs-utils": ("ibverbs-utils", r"/usr/bin/ibv_\w+$", 7),
    "rdmacm-utils": ("rdmacm-utils", r"/usr/bin/\w+$", 13),
    "qperf": ("qperf", r"/usr/bin/qperf$", 1),
    "fio": ("fio", r"/usr/bin/fio$", 1),
    "libfabric": ("libfabric1", r".*/libfabric\.so\.1$", 1),
    "UCX": ("libucx0", r".*/ucx/libuct_(ib|rdmacm)\.so\.0$", 2),
    "pyverbs": ("python3-pyverbs", r".*\.so$", 30),
    "libmlx5": ("ibverbs-providers", r".*/libmlx5\.so\.1$", 1),
    "libefa": ("ibverbs-providers", r".*/libefa\.so\.1$", 1),
    "providers": ("ibverbs-providers", r".*/libibverbs/lib\w+-rdmav34\.so$", 10),
}


def package_files(package, pattern):
    listing = subprocess.run(("dpkg", "-L", package), text=True, stdout=subprocess.PIPE)
    return sorted(path for path in listing.stdout.splitlines() if re.match(pattern, path))


def clients():
    """group -> files, and what is wrong with the lists themselves."""
    groups, wrong = {"perftest": PERFTEST}, []
    for group, (package, pattern, least) in PACKAGES.items():
        groups[group] = package_files(package, pattern)
        if len(groups[group]) < least:
            wrong.append(f"{group}: {len(groups[group])} files in package {package}, "
                         f"expected {least} or more")
    return groups, wrong


def ldd(path, libdir):
    env = {**os.environ, "LD_LIBRARY_PATH": libdir, "LC_ALL": "C"}
    run = subprocess.run(("ldd", "-r", path), env=env, text=True, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT)
    return run.stdout.splitlines()


def is_complaint(line):
    # Extension modules take the interpreter's own symbols from the program that loads them.
    if re.search(r"undefined symbol: _?Py", line):
        return False
    return bool(re.search(r"undefined symbol|not found|not defined|error|not a dynamic", line))


def load(path, libdir):
    """(which of our libraries it loads, what is wrong)"""
    if not os.path.exists(path):
        return [], [f"{path}: no such file"]
    bound, wrong = [], []
    for line in ldd(path, libdir):
        if is_complaint(line):
            wrong.append(f"{path}: {line.strip()}")
        match = re.match(r"\s*(\S+) => (.+?)(?: \(0x[0-9a-f]+\))?$", line)
        if match and match[1] in OURS:
            bound.append(match[1])
            if not os.path.samefile(os.path.dirname(match[2]), libdir):
                wrong.append(f"{path}: {match[1]} is {match[2]}, not the one under test")
    return bound, wrong


def check_group(group, paths, libdir):
    wrong, users = [], 0
    for path in paths:
        bound, complaints = load(path, libdir)
        wrong += complaints
        users += bool(bound)
        # Some pyverbs modules hold constants only; everything else must use one of the libraries.
        if not bound and not complaints and group != "pyverbs":
            wrong.append(f"{path}: loads neither of {', '.join(OURS)}")
    if not users:
        wrong.append(f"{group}: nothing in it loads our libraries")
    print(f"{group:14} {len(paths):3} files, {users:3} on the libraries, {len(wrong)} wrong")
    return wrong


def main():
    if not shutil.which("dpkg"):
        print("SKIPPED: the list of clients is that of Debian, and there is no dpkg here")
        return 77
    libdir = os.path.realpath(sys.argv[1])
    groups, wrong = clients()
    wrong += [f"{libdir}/{name}: no such file" for name in OURS
              if not os.path.exists(f"{libdir}/{name}")]
    for group, paths in groups.items():
        wrong += check_group(group, paths, libdir)
    for line in wrong:
        print(line)
    print(f"{sum(map(len, groups.values()))} clients against {libdir}: {len(wrong)} wrong")
    return 1 if wrong else 0


sys.exit(main())
