#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs the commands of docs/RECIPES.md, section by section, and looks for the lines of output that
the document shows; numbers and spaces may differ. A section whose programs are not installed, or
cannot run here, is skipped. TAP.

usage: run_recipes.py ROOT BUILD-FOLDER
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

LIMIT_S = 240
# MPI's launchers refuse root, and more ranks than CPUs, without these.
FOR_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def sections(text):
    """Pairs of a heading and its commands with their output: (command, [lines])."""
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        title, _, body = part.partition("\n")
        steps, until = [], None
        for line in re.findall(r"^    (.*)$", body, re.M):
            if until:  # a document in the command
                steps[-1][0] += "\n" + line
                until = None if line == until else until
            elif line.startswith("$ "):
                steps.append([line[2:], []])
                word = re.search(r"<<(\w+)", line)
                until = word and word[1]
            elif steps:
                steps[-1][1].append(line)
        yield title, steps


def programs_of(command):
    """The first word of each simple command, and what `verbena run` starts."""
    first = command.split("\n", 1)[0]
    for part in first.split("&"):
        words = [word for word in part.split() if not re.match(r"\w+=", word)]
        if words[:2] == ["verbena", "run"]:
            words = words[2:]
        if words and not words[0].startswith(('"', "$")):
            yield words[0]


def obstacle(program):
    """Why a program cannot run here; empty: it can."""
    if not shutil.which(program):
        return f"{program} is not installed"
    if program.startswith("mpicc.") and subprocess.run(
            (program, "-E", "-include", "mpi.h", "-x", "c", "/dev/null"),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        return f"{program} has no mpi.h"
    if program == "ucx_info" and "#define HAVE_IB " not in subprocess.run(
            (program, "-b"), text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout:
        return "UCX of this system was built without verbs"
    if program == "ucx_perftest" and "libmpi" in subprocess.run(
            ("ldd", shutil.which(program)), text=True, stdout=subprocess.PIPE).stdout:
        return "this ucx_perftest is started by MPI alone"
    return ""


def pattern_of(line):
    """Numbers are any numbers, with a unit behind them at most; spaces are any spaces."""
    words = [re.sub(r"\d+(?:\\\.\d+)?", r"[0-9.]+", re.escape(word)) if re.search(r"\d", word)
             and not word.startswith("verbena") else re.escape(word) for word in line.split()]
    return re.compile(r"[ \t|]+".join(words).replace(r"\#", "#"))


def script_of(steps):
    """One shell for the whole section: servers run beside their clients."""
    lines = ["set -u"]
    for i, (command, _) in enumerate(steps):
        lines += [f"echo '@@@ {i}'", command]
        if "&" not in command.split("\n", 1)[0]:
            lines += ["status=$?", "[ $status -eq 0 ] || { echo \"@@@ status $status\"; exit 1; }"]
    return "\n".join(lines + ["wait", ""])


def run(steps, root, build, folder):
    """The reason why the section fails; empty: it does not. And what was printed."""
    env = dict(os.environ, PATH=build + ":" + os.environ["PATH"], TMPDIR=folder, **FOR_ROOT)
    env.pop("MALLOC_PERTURB_", None)  # of meson: mpirun 4.1 crashes with it
    with subprocess.Popen(("bash", "-c", script_of(steps)), cwd=root, env=env, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, start_new_session=True) as process:
        try:
            output = process.communicate(timeout=LIMIT_S)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return f"it takes longer than {LIMIT_S} s", process.communicate()[0]
    failed = re.search(r"^@@@ status (\d+)", output, re.M)
    if failed:
        return f"a command ended with {failed[1]}", output
    parts = re.split(r"^@@@ \d+$", output, flags=re.M)[1:]
    for (command, lines), printed in zip(steps, parts):
        for line in lines:
            if not pattern_of(line).search(printed):
                return f"no line is like: {line}", output
    return "", output


def main():
    root, build = (os.path.abspath(path) for path in sys.argv[1:3])
    with open(root + "/docs/RECIPES.md", encoding="utf-8") as file:
        found = [(title, steps) for title, steps in sections(file.read()) if steps]
    failures = 0
    print(f"1..{len(found)}", flush=True)
    for number, (title, steps) in enumerate(found, 1):
        programs = {name for command, _ in steps for name in programs_of(command)}
        obstacles = list(filter(None, map(obstacle, sorted(
            programs - {"cat", "sleep", "verbena"}))))
        if obstacles:
            print(f"ok {number} - {title} # SKIP {', '.join(obstacles)}", flush=True)
            continue
        with tempfile.TemporaryDirectory() as folder:
            reason, output = run(steps, root, build, folder)
        failures += bool(reason)
        print(f"{'not ok' if reason else 'ok'} {number} - {title}", flush=True)
        if reason:
            print("# " + "\n# ".join([reason] + output.strip().split("\n")[-30:]), flush=True)
    return 1 if failures else 0


sys.exit(main())
