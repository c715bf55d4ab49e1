#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Do the man pages cover what is installed? Each program has one that is installed with it, tells
of each option that --help has, refers to pages that exist, and groff has nothing to say.

usage: check_man.py ROOT BUILD
"""
import glob
import os
import re
import shutil
import subprocess
import sys

# Without --help, as rdma-core's are.
NO_HELP = ("ibv_devices",)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def page_of(root, name):
    """The text of a page, or of the one that it stands for."""
    path = f"{root}/man/{name}.1"
    text = read(path) if os.path.exists(path) else ""
    if match := re.fullmatch(r"\.so man1/([\w-]+)\.1\n", text):
        return page_of(root, match[1])
    return re.sub(r"\\f[BIPR]|\\(?=-)", "", text)


def programs_of(root, build):
    names = re.findall(r"^\t'(\w+)': \[", read(root + "/utils/meson.build"), re.M)
    return [("verbena", build + "/verbena")] + [(name, f"{build}/utils/{name}") for name in names]


def help_of(*command):
    done = subprocess.run([*command, "--help"], check=False, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    return done.stdout


def check_program(root, name, path, wrong):
    page = page_of(root, name)
    if not page:
        wrong.append(f"{name} has no man page")
        return
    texts = [] if name in NO_HELP else [help_of(path)]
    if name == "verbena":
        for command in re.findall(r"^  (\w+)  ", texts[0], re.M):
            if not re.search(rf"^\.SS {command}$", page, re.M):
                wrong.append(f"verbena.1 does not tell of {command}")
            texts.append(help_of(path, command))
    for option in sorted(set(re.findall(r"--[a-z][\w-]+", "\n".join(texts)))):
        if option != "--help" and option not in page:
            wrong.append(f"the man page of {name} does not tell of {option}")


def check_page(root, name, installed, wrong):
    if name not in installed:
        wrong.append(f"man/meson.build does not install {name}")
    if shutil.which("groff"):
        # References to other pages are relative to the folder above man1. Option -I of groff
        # would ask for a preprocessor that small installations lack.
        text = re.sub(r"^\.so man1/", ".so ", read(f"{root}/man/{name}"), flags=re.M)
        done = subprocess.run(["groff", "-Tutf8", "-ww", "-z", "-man", "-t"], cwd=f"{root}/man",
                              check=False, text=True, input=text, stderr=subprocess.PIPE)
        for line in done.stderr.splitlines():
            wrong.append(f"{name}: {line}")
    for page, section in re.findall(r"^\.BR (verbena[\w-]*|ibv_\w+) \((\d)\)",
                                    read(f"{root}/man/{name}"), re.M):
        if section in "17" and not os.path.exists(f"{root}/man/{page}.{section}"):
            wrong.append(f"{name} refers to {page}({section}), which is not there")


def main():
    root, build = (os.path.realpath(path) for path in sys.argv[1:])
    installed = set(re.findall(r"'([\w-]+\.\d)'", read(root + "/man/meson.build")))
    pages = {os.path.basename(path) for path in glob.glob(root + "/man/*.[0-9]")}
    wrong = [f"man/meson.build installs {name}, which is not there"
             for name in sorted(installed - pages)]
    for name in sorted(pages):
        check_page(root, name, installed, wrong)
    programs = programs_of(root, build)
    for name, path in programs:
        check_program(root, name, path, wrong)
    for line in wrong:
        print(line)
    if not shutil.which("groff"):
        print("groff is not installed: pages were not formatted")
    print(f"{len(pages)} pages, {len(programs)} programs, {len(wrong)} wrong")
    return 1 if wrong else 0


sys.exit(main())
