#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Can the recipes of docs/CI.md work? Their steps, as tests/packages/recipes runs them, are right
for a shell, and name packages, targets, options and commands that there are. All services run the
same steps.

usage: check_recipes.py ROOT
"""
import re
import shlex
import subprocess
import sys

LANGUAGES = ("C", "Rust")
SERVICES = ("GitHub", "GitLab", "Containerfile")
# Of Debian, beside those of scripts/packages. meson depends on ninja-build, every system has bash.
OTHERS = {"ca-certificates", "git", "make", "cargo", "libclang-dev"}
IMPLIED = {"bash", "ninja-build"}
OF_TESTS = {"libcmocka-dev"}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def packages_of(root):
    """Names of Debian: those that a build needs, and all. A cell may have alternatives."""
    rows = [line.split() for line in read(root + "/scripts/packages").split("\n")
            if line and not line.startswith("#")]
    needed = {row[2].split("|")[0] for row in rows if row[0] == "build"} - IMPLIED - OF_TESTS
    return needed - {"-"}, {name for row in rows for name in row[2].split("|")}


def script_of(root, language, service):
    return subprocess.run((sys.executable, root + "/tests/packages/recipe.py",
                           root + "/docs/CI.md", language, service),
                          check=True, text=True, stdout=subprocess.PIPE).stdout


def commands_of(script):
    """Lists of words. Folders and the size of an image are a service's own matter."""
    script = script.replace("\\\n", " ").replace("&&", "\n")
    for words in map(shlex.split, script.split("\n")):
        if words[:1] == ["export"]:
            yield from (["export", word] for word in words[1:])
        elif words and words[0] not in ("set", "cd", "rm"):
            yield words


def install_flaws(words, needed, known):
    names = {word for word in words[2:] if not word.startswith("-")}
    for name in sorted(needed - names):
        yield f"{name} is not installed"
    for name in sorted(names - known - OTHERS):
        yield f"{name} is no package that scripts/packages knows"


def make_flaws(words, root):
    """Of a command for this tree, which is cloned into a folder of its name."""
    targets = re.search(r"^\.PHONY:(.*\n(?:\t.*\n)*)", read(root + "/Makefile"), re.M)[1].split()
    options = re.findall(r"^option\('(\w+)'", read(root + "/meson_options.txt"), re.M)
    for word in words[words.index("-C") + 2:]:
        if "=" not in word and word not in targets:
            yield f"make has no target {word}"
        for option in re.findall(r"-D(\w+)=", word):
            if option not in options:
                yield f"meson_options.txt has no option {option}"


def verbena_flaws(text, root):
    known = re.findall(r'^\t\{ "(\w+)", verbena_', read(root + "/tools/verbena.c"), re.M)
    for name in set(re.findall(r"(?:- |run: |`)verbena (\w+)", text)) - set(known):
        yield f"the command verbena has no {name}"


def flaws_of(script, root):
    shell = subprocess.run(("sh", "-n"), check=False, text=True, input=script,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if shell.returncode:
        yield f"no shell takes it: {shell.stdout.strip()}"
        return
    for words in commands_of(script):
        if words[:2] == ["apt-get", "install"]:
            yield from install_flaws(words, *packages_of(root))
        elif words[0] == "make" and "/tmp/verbena" in words:
            yield from make_flaws(words, root)


def main():
    root = sys.argv[1]
    wrong = list(verbena_flaws(read(root + "/docs/CI.md"), root))
    for language in LANGUAGES:
        scripts = {service: script_of(root, language, service) for service in SERVICES}
        for service, script in scripts.items():
            wrong += [f"{language}, {service}: {flaw}" for flaw in flaws_of(script, root)]
        if not wrong:
            steps = {service: sorted(commands_of(script)) for service, script in scripts.items()}
            wrong += [f"{language}: the steps of {service} differ from those of {SERVICES[0]}"
                      for service in SERVICES if steps[service] != steps[SERVICES[0]]]
    for line in wrong:
        print(line)
    print(f"{len(LANGUAGES) * len(SERVICES)} recipes, {len(wrong)} wrong")
    return 1 if wrong else 0


sys.exit(main())
