#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Prints a recipe of docs/CI.md as a shell script: the steps of a job whose project is /project.

usage: recipe.py DOCUMENT LANGUAGE SERVICE     C or Rust; GitHub, GitLab or Containerfile
"""
import json
import re
import shlex
import sys


def block_of(text, language, service):
    section = re.search(rf"^## A {language} project$(.*?)(?=^## |\Z)", text, re.M | re.S)[1]
    part = re.search(rf"^### {service}[^\n]*$(.*?)(?=^### |\Z)", section, re.M | re.S)[1]
    return [line[4:] for line in part.split("\n") if line.startswith("    ")]


def depth_of(line):
    return len(line) - len(line.lstrip())


def below(lines, at):
    """The lines that are deeper than the one before them."""
    end = at
    while end < len(lines) and depth_of(lines[end]) > depth_of(lines[at - 1]):
        end += 1
    return lines[at:end]


def variables_of(lines, key):
    at = next((at for at, line in enumerate(lines, 1) if line.strip() == key + ":"), None)
    pairs = [line.strip().split(": ", 1) for line in below(lines, at)] if at else []
    return [f"export {name}={shlex.quote(value)}" for name, value in pairs]


def github(lines):
    yield from variables_of(lines, "env")
    for at, line in enumerate(lines, 1):
        match = re.match(r" *- run: (.*)", line)
        if match and match[1] != "|":
            yield match[1]
        elif match:
            yield from (inner.strip() for inner in below(lines, at))


def gitlab(lines):
    yield from variables_of(lines, "variables")
    for key in ("before_script", "script"):
        at = next(at for at, line in enumerate(lines, 1) if line.strip() == key + ":")
        # A command goes on in lines that begin without a dash.
        yield from re.sub(r"\n +(?!- )", " ", "\n" + "\n".join(
            line[4:] for line in below(lines, at))).replace("\n- ", "\n").strip().split("\n")


def containerfile(lines):
    text = "\n".join(lines).replace("\\\n", " ")
    for word, rest in re.findall(r"^([A-Z]+) +(.*)$", text, re.M):
        if word == "RUN":
            yield rest
        elif word == "ENV":
            yield "export " + rest
        elif word == "WORKDIR":
            yield "cd " + rest
        elif word == "CMD":
            yield shlex.join(json.loads(rest))


def main():
    document, language, service = sys.argv[1:]
    with open(document, encoding="utf-8") as file:
        lines = block_of(file.read(), language, service)
    reader = {"GitHub": github, "GitLab": gitlab, "Containerfile": containerfile}[service]
    print("set -eux\ncd /project")
    print("\n".join(reader(lines)))


main()
