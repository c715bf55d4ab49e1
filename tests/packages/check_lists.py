#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Do the packages have what is installed? Each file that `make install` would install is in exactly
one package of each kind, each line of their lists finds a file, and their versions are the tree's.

usage: check_lists.py ROOT BUILD MESON...
"""
import fnmatch
import json
import os
import re
import subprocess
import sys

DEBIAN = ("packaging/debian/verbena.install", "packaging/debian/verbena-dev.install")
SPEC = "packaging/verbena.spec"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def is_utility(path):
    """Of the packages ibverbs-utils and libibverbs-utils."""
    return re.match(r"ibv_\w+(\.1)?$", os.path.basename(path)) is not None


def installed_of(build, meson):
    """Paths, as a package would have them: the libraries' folder is LIBDIR."""
    told = subprocess.run([*meson, "introspect", "--installed", "--buildoptions", build],
                          check=True, text=True, stdout=subprocess.PIPE).stdout
    told = json.loads(told)
    options = {option["name"]: option["value"] for option in told["buildoptions"]}
    prefix = options["prefix"]
    libdir = os.path.join(prefix, options["libdir"])
    paths = set()
    for path in told["installed"].values():
        path = re.sub(r".*/pkgconfig/", "PKGCONFIG/", path)
        if path.startswith(libdir + "/"):
            path = "LIBDIR" + path[len(libdir):]
        paths.add(os.path.relpath(path, prefix) if path.startswith("/") else path)
    return {path for path in paths if not is_utility(path)} | links_of(paths)


def links_of(paths):
    """The links of a library with a version, which meson does not list."""
    links = set()
    for path in paths:
        if match := re.match(r"(.*\.so)(\.\d+)(\.[\d.]+)?$", path):
            links |= {match[1], match[1] + match[2]}
    return links


def debian_patterns(root, name):
    for line in read(f"{root}/{name}").split():
        line = line.removeprefix("usr/").replace("lib/*/pkgconfig", "PKGCONFIG")
        yield line.replace("lib/*/verbena", "LIBDIR")


def spec_patterns(text, package):
    section = re.search(rf"^%files{package}\n(.*?)(?=^%files|\Z)", text, re.M | re.S)[1]
    places = {"bindir": "bin", "datadir": "share", "mandir": "share/man", "includedir": "include"}
    for line in section.split("\n"):
        if line and not line.startswith(("%license", "%dir")):
            line = line.replace("%{_libdir}/pkgconfig", "PKGCONFIG")
            line = line.replace("%{private}", "LIBDIR")
            yield re.sub(r"%\{_(\w+)\}", lambda match: places[match[1]], line)


def takes(pattern, path):
    return fnmatch.fnmatchcase(path, pattern) or path.startswith(pattern + "/")


def check(kind, packages, paths, wrong):
    for path in sorted(paths):
        count = sum(any(takes(pattern, path) for pattern in patterns) for patterns in packages)
        if count != 1:
            wrong.append(f"{kind}: {path} is in {count} packages")
    for pattern in sum(packages, []):
        if not any(takes(pattern, path) for path in paths):
            wrong.append(f"{kind}: {pattern} stands for no file")


def check_versions(root, wrong):
    version = re.search(r"^\tversion: '(.*)',$", read(root + "/meson.build"), re.M)[1]
    debian = re.match(r"verbena \((.*)-", read(root + "/packaging/debian/changelog"))[1]
    spec = re.search(r"^Version: *(.*)$", read(f"{root}/{SPEC}"), re.M)[1]
    for name, other in (("packaging/debian/changelog", debian), (SPEC, spec)):
        if other != version:
            wrong.append(f"{name}: version {other}, but meson.build has {version}")


def main():
    root, build, *meson = sys.argv[1:]
    paths = installed_of(build, meson)
    spec = read(f"{root}/{SPEC}")
    wrong = []
    check("deb", [list(debian_patterns(root, name)) for name in DEBIAN], paths, wrong)
    check("rpm", [list(spec_patterns(spec, name)) for name in ("", " devel")], paths, wrong)
    check_versions(root, wrong)
    for line in wrong:
        print(line)
    print(f"{len(paths)} files, {len(wrong)} wrong")
    return 1 if wrong or not paths else 0


sys.exit(main())
