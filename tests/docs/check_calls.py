#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Do the protocol folders do no I/O, and read no clock? Each function there, and each function that
it reaches by calls, calls none of the forbidden functions. Calls through pointers do not count: a
sink is how packets are meant to leave. The calls are read from assembler code that is made here,
without optimization, so that no function is lost in its callers.

usage: check_calls.py ROOT BUILD ALLOWED
"""
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

FOLDERS = ("src/cm", "src/mad", "src/path/roce")

# Whatever leaves the process, waits, reads a clock or draws.
FORBIDDEN = re.compile(r"""(?x) _{0,2} (?:
    socket(?:pair)? | bind | listen | connect | accept4? | shutdown | [gs]etsockopt | getsockname
    | getpeername | send(?:to|msg|mmsg|file)? | recv(?:from|msg|mmsg)?
    | p?poll | p?select | epoll_\w+ | eventfd\w* | timerfd_\w+ | signalfd | inotify_\w+
    | open(?:at|dir)? | creat | close | fd?open | readdir | readlink(?:at)? | pipe2?
    | p?(?:read|write)v?2? | f(?:read|write|puts|putc|flush|gets|getc)
    | v?f?printf | v?dprintf | puts | putchar | perror | getline | ioctl | fcntl
    | memfd_create | if_\w+ | getifaddrs | gethostname | getaddrinfo
    | clock_\w+ | gettimeofday | time | times | timespec_get | rdtscp? | cntv?ct_el0
    | usleep | sleep | nanosleep | sched_yield | pthread_yield | thrd_(?:yield|sleep) | pause
    | pthread_cond_(?:timed)?wait | sem_(?:timed)?wait
    | getrandom | getentropy | arc4random\w* | rand(?:_r)? | random(?:_r)? | [delmnj]rand48
    | rdrand | rdseed | syscall | t?g?kill | fork | execv\w* | system | popen
    ) (?:64)? (?:_chk|_2)? """)
CALL = re.compile(r"\s+(?:callq?|jmpq?|bl?)\s+\*?([A-Za-z_][\w.]*)(?:@\w+)?")
INSTRUCTION = re.compile(r"\s.*\b(rdtscp?|rdrand|rdseed|cntv?ct_el0)\b", re.I)


def allowed_of(path):
    """Functions that are not looked into, and calls that are not: "CALLER -> CALLEE"."""
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    for line in lines:
        if not re.fullmatch(r"\w+( -> \w+)?  +\S.*", line):
            raise ValueError(f"{path}: no name, or no reason: {line}")
    return {re.split("  +", line)[0] for line in lines}


def commands_of(root, build):
    """source -> how it is compiled, for all that the protocol folders are linked with."""
    with open(f"{build}/compile_commands.json", encoding="utf-8") as file:
        entries = json.load(file)
    found = {}
    for entry in entries:
        source = os.path.realpath(os.path.join(entry["directory"], entry["file"]))
        if re.match(r"src/(cm/)?libverbena-\w+\.a\.p/", entry["output"]):
            found.setdefault(source.removeprefix(root + "/"), entry)
    return found


def assemble(entry, output):
    words = shlex.split(entry["command"])
    kept = [word for at, word in enumerate(words)
            if not re.match(r"-(O|g|M[DQF]|c$|o$|fsanitize|flto)", word)
            and words[at - 1] not in ("-MQ", "-MF", "-o")]
    subprocess.run([*kept, "-O0", "-g0", "-S", "-o", output], check=True, cwd=entry["directory"])
    with open(output, encoding="utf-8") as file:
        return calls_of(file.read())


def calls_of(code):
    """What each function calls, and which functions other files can call."""
    functions = set(re.findall(r"^\s+\.type\s+(\S+?),\s*[@%]function", code, re.M))
    calls, here = {}, None
    for line in code.splitlines():
        label = re.match(r"([\w.$]+):", line)
        if label and label[1] in functions:
            here = calls.setdefault(label[1], set())
        elif match := CALL.match(line):
            here.add(match[1])
        elif match := INSTRUCTION.match(line):
            here.add(match[1].lower())
    return calls, set(re.findall(r"^\s+\.globl\s+(\S+)", code, re.M))


def graph_of(root, build):
    """(source, function) -> those that it calls; the source of a function of libc is None."""
    commands = commands_of(root, build)
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        outputs = [f"{folder}/{number}.s" for number in range(len(commands))]
        read = dict(zip(commands, pool.map(assemble, commands.values(), outputs)))
    home = {name: (source, name) for source, (_, public) in read.items() for name in public}
    return {(source, function): {(source, name) if name in calls else home.get(name, (None, name))
                                 for name in names}
            for source, (calls, _) in read.items() for function, names in calls.items()}


def chains_from(graph, first, allowed, used):
    """The shortest way to each function that calls a forbidden one, and which that is."""
    came_from, line = {first: None}, [first]
    for here in line:
        for there in sorted(graph[here], key=str):
            excuse = {there[1], f"{here[1]} -> {there[1]}"} & allowed
            used |= excuse
            if excuse or there in came_from:
                continue
            if there in graph:
                came_from[there] = here
                line.append(there)
            elif FORBIDDEN.fullmatch(there[1]):
                chain = [here, there]
                while came_from[chain[0]]:
                    chain.insert(0, came_from[chain[0]])
                yield chain


def ruled_of(root, graph):
    """The functions of the protocol folders; those of headers are in the graph of each user."""
    found = []
    for source in {source for source, _ in graph}:
        if os.path.dirname(source) in FOLDERS:
            with open(f"{root}/{source}", encoding="utf-8") as file:
                heads = "\n".join(re.findall(r"^\w.*", file.read(), re.M))
            own = set(re.findall(r"\b(\w+)\(", heads))
            found += [node for node in graph if node[0] == source and node[1] in own]
    return sorted(found)


def main():
    root, build = (os.path.realpath(path) for path in sys.argv[1:3])
    allowed, used, wrong = allowed_of(sys.argv[3]), set(), []
    graph = graph_of(root, build)
    ruled = ruled_of(root, graph)
    for first in ruled:
        for chain in chains_from(graph, first, allowed, used):
            if chain[1] not in ruled:  # else the next one says it
                wrong.append(f"{first[0]}: " + " -> ".join(name for _, name in chain))
    wrong += [f"{sys.argv[3]}: nothing needs {name}" for name in sorted(allowed - used)]
    missing = set(FOLDERS) - {os.path.dirname(source) for source, _ in ruled}
    wrong += [f"no function in {folder}: this test looks in the wrong place" for folder in missing]
    for line in wrong:
        print(line)
    print(f"{len(ruled)} functions of {', '.join(FOLDERS)}, {len(wrong)} wrong")
    return 1 if wrong else 0


sys.exit(main())
