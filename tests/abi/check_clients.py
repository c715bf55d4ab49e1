#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Loads RDMA clients against the libraries of a build, with `ldd -r`: each symbol and each version
that a client needs must be there, and the libraries found must be those of the build.

usage: check_clients.py LIBDIR          the clients that Debian has, as they are installed here
       check_clients.py LIBDIR ROOT     every ELF file below ROOT that needs one of the libraries;
                                        ROOT is a system (as root, by chroot), or / itself
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

OURS = ("libibverbs.so.1", "librdmacm.so.1")
FOLDERS = ("bin", "sbin", "lib", "lib64", "usr", "opt")

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
    "providers": ("ibverbs-providers", r".*/libibverbs/lib\w+-rdmav\d+\.so$", 10),
}

# group: a pattern of files that its package has even if Debian built it without verbs
WITHOUT = {"UCX": r".*/libuct\.so\.0$"}


def package_files(package, pattern):
    listing = subprocess.run(("dpkg", "-L", package), text=True, stdout=subprocess.PIPE)
    return sorted(path for path in listing.stdout.splitlines() if re.match(pattern, path))


def clients():
    """group -> files, and what is wrong with the lists themselves."""
    groups, wrong = {"perftest": PERFTEST}, []
    for group, (package, pattern, least) in PACKAGES.items():
        files = package_files(package, pattern)
        if not files and group in WITHOUT and package_files(package, WITHOUT[group]):
            print(f"{group:14} left out: package {package} of this release has no verbs")
            continue
        groups[group] = files
        if len(groups[group]) < least:
            wrong.append(f"{group}: {len(groups[group])} files in package {package}, "
                         f"expected {least} or more")
    return groups, wrong


# --- one file ------------------------------------------------------------------------------------

def ldd(path, libdir, root):
    inside = ("chroot", root) if root != "/" else ()
    run = subprocess.run((*inside, "env", f"LD_LIBRARY_PATH={libdir}", "LC_ALL=C", "ldd", "-r",
                          path), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return run.stdout.splitlines()


def is_complaint(line):
    # Extension modules take the interpreter's own symbols from the program that loads them.
    if re.search(r"undefined symbol: _?Py", line):
        return False
    return bool(re.search(r"undefined symbol|not found|not defined|error|not a dynamic", line))


def concerns_ours(line):
    """In a whole system other libraries may be missing, or be loaded by a program only."""
    return bool(re.search(r"\b(ibv|_ibv|rdma|verbs|_verbs|mult_to|mbps_to|r[a-z]+@RDMACM)|IBVERBS|"
                          r"RDMACM|VERBENA|lib(ibverbs|rdmacm)\.so", line))


def load(path, libdir, root="/", complaints=is_complaint):
    """(which of our libraries it loads, what is wrong)"""
    if not os.path.exists(os.path.join(root, path.lstrip("/"))):
        return [], [f"{path}: no such file"]
    bound, wrong = [], []
    for line in ldd(path, libdir, root):
        if complaints(line):
            wrong.append(f"{path}: {line.strip()}")
        match = re.match(r"\s*(\S+) => (.+?)(?: \(0x[0-9a-f]+\))?$", line)
        if match and match[1] in OURS:
            bound.append(match[1])
            if match[2] != "not" and not os.path.samefile(
                    os.path.join(root, os.path.dirname(match[2]).lstrip("/")),
                    os.path.join(root, libdir.lstrip("/"))):
                wrong.append(f"{path}: {match[1]} is {match[2]}, not the one under test")
    return bound, wrong


# --- the clients of Debian -----------------------------------------------------------------------

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


def check_installed(libdir):
    groups, wrong = clients()
    for group, paths in groups.items():
        wrong += check_group(group, paths, libdir)
    return sum(map(len, groups.values())), wrong


# --- every file of a root ------------------------------------------------------------------------

def needs_ours(path):
    """Does the ELF file itself name one of the libraries?"""
    try:
        with open(path, "rb") as file:
            if file.read(4) != b"\x7fELF":
                return False
    except OSError:
        return False
    dynamic = subprocess.run(("readelf", "-d", path), text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C"}).stdout
    return any(f"[{name}]" in line for line in dynamic.splitlines() if "(NEEDED)" in line
               for name in OURS)


def elf_files(root, libdir):
    ours = os.path.realpath(os.path.join(root, libdir.lstrip("/")))
    for folder in FOLDERS:
        top = os.path.join(root, folder)
        for where, folders, names in os.walk(top) if not os.path.islink(top) else ():
            if os.path.realpath(where) == ours:
                folders.clear()
                continue
            for name in sorted(names):
                path = os.path.join(where, name)
                if os.path.isfile(path) and not os.path.islink(path) and needs_ours(path):
                    yield "/" + os.path.relpath(path, root)


def check_root(built, root):
    """The libraries under test lie inside of the root meanwhile."""
    with tempfile.TemporaryDirectory(dir=os.path.join(root, "tmp")) as copy:
        for name in OURS:
            shutil.copy(os.path.join(built, name), copy)
        os.chmod(copy, 0o755)
        inside = "/" + os.path.relpath(copy, root)
        paths, wrong = list(elf_files(root, inside)), []
        for path in paths:
            bound, complaints = load(path, inside, root,
                                     lambda line: is_complaint(line) and concerns_ours(line))
            wrong += complaints
            print(f"{path}: {', '.join(bound) if bound else 'not loaded'}"
                  f"{'' if bound and not complaints else ', WRONG'}")
            if not bound:
                wrong.append(f"{path}: needs one of the libraries and loads none")
    if not paths:
        wrong.append(f"{root}: no file needs one of the libraries")
    return len(paths), wrong


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    if len(sys.argv) == 2 and not shutil.which("dpkg"):
        print("SKIPPED: the list of clients is that of Debian, and there is no dpkg here")
        return 77
    libdir = os.path.realpath(sys.argv[1])
    wrong = [f"{libdir}/{name}: no such file" for name in OURS
             if not os.path.exists(f"{libdir}/{name}")]
    count = 0
    if not wrong:
        count, wrong = check_root(libdir, os.path.realpath(sys.argv[2])) if len(sys.argv) == 3 \
            else check_installed(libdir)
    for line in wrong:
        print(line)
    print(f"{count} clients against {libdir}: {len(wrong)} wrong")
    return 1 if wrong else 0


sys.exit(main())
