#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Pairs of small programs under `verbena run --check`. The wrong one is found, by the rule that it
breaks and with the line that carries the mark; the right one is left in peace. docs/CHECK.md has
their code, their reports and the table of all pairs. TAP.

usage: pairs.py BUILD-FOLDER ROOT PATH [--write]

PATH: a value of VERBENA_PATH; all but auto run the pairs of messages only. With --write the
document is written instead of being compared.
"""
import difflib
import os
import re
import subprocess
import sys

FILES = ("buffers.c", "memory.c", "queues.c", "sections.c", "attributes.c")
FOUND = 66
WATCHED = "recv-used"
MARK = "/* <- */"
# Rules that depend on the way of a message.
MESSAGES = ("send-changed", "recv-written", "recv-used", "overlap", "in-flight", "rnr")

def read_words(path):
    """What a user has to know of each rule."""
    with open(path, encoding="utf-8") as file:
        parts = re.findall(r"^([a-z-]+)\n((?:    .*\n)+)", file.read(), re.M)
    return {rule: re.sub(r"\n?    ", "\n", text).strip() for rule, text in parts}


def function_of(text, name):
    """The function with the comment in front of it."""
    return re.search(r"^(?:/\*[^\n]*\n)?static void " + name + r"\(.*?^}\n", text, re.M | re.S)


class Pair:
    def __init__(self, name, function, path, text):
        self.name, self.rule = name, name.split("/")[0]
        self.path = path
        self.codes = {side: function_of(text, f"{side}_{function}") for side in ("wrong", "right")}
        self.line = self.marked(text, self.codes["wrong"])

    @staticmethod
    def marked(text, code):
        """The line with the mark: in the function, or in the one that both sides call."""
        at = text.find(MARK, code.start())
        if not code.start() <= at < code.end():
            at = text.rfind(MARK, 0, code.start())
        return text.count("\n", 0, at) + 1


def read_pairs(folder):
    for name in FILES:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            text = file.read()
        for pair, function in re.findall(r'PAIR\("([^"]+)", (\w+)\)', text):
            yield Pair(pair, function, name, text)


def can_watch(build):
    """The rule recv-used needs debug registers of the CPU, which a container may not lend."""
    return not subprocess.run([f"{build}/tests/check/check-cases", "can-watch"],
                              check=False).returncode


def run(build, side, pair):
    """A wrong program that writes to a receive buffer uses it, too. That is another pair."""
    alone = side == "wrong" and pair.rule != WATCHED
    done = subprocess.run([f"{build}/verbena", "run", "--quiet",
                           f"--check=-{WATCHED}" if alone else "--check",
                           f"{build}/tests/check/check-cases", side, pair.name],
                          timeout=60, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False)
    return done.returncode, done.stdout


def judge_wrong(pair, status, output):
    rules = set(re.findall(r"^verbena check: .*\[([a-z-]+)\]", output, re.M))
    if status != FOUND:
        return f"it ended with {status}"
    if rules != {pair.rule}:
        return f"it was accused of {sorted(rules)}"
    if f"tests/check/{pair.path}:{pair.line})" not in output:
        return f"{pair.path}:{pair.line} is not in the report"
    return None


def judge_right(status, output):
    if status or not re.search(r"^verbena check: .*: 0 reports$", output, re.M):
        return f"it ended with {status}"
    return None


def of_one_thread(output):
    """Which of two threads is noticed, and how often, differs: the first report, and of its stacks
    what both threads have in common."""
    first, _, rest = output.partition("\nverbena check: ")
    first = re.sub(r"    while another was in:\n(      #.*\n)+", "", first + "\n")
    first = re.sub(r"(    this thread:\n      #0 .*\n)(      #[1-9].*\n)+", r"\1", first)
    summary = "verbena check: " + rest.rsplit("verbena check: ", 1)[-1]
    return first + re.sub(r"\d+ reports?: threads \d+", "1 report: threads 1", summary)


def steady(output):
    """The report without what differs from run to run, or from system to system."""
    output = re.sub(r"pid \d+", "pid 4711", output).replace("(././", "(")
    if "[threads]" in output:
        output = of_one_thread(output)
    output = re.sub(r"QP 0x[0-9a-f]+", "QP 0x02a001", output)
    output = re.sub(r"0x[0-9a-f]{7,}", "0x7f0000001000", output)
    output = re.sub(r"key 0x[0-9a-f]+", "key 0x1a01", output)
    output = re.sub(r"infiniband/verbs\.h:\d+", "infiniband/verbs.h:2550", output)
    return re.sub(r"\d+ completions", "5 completions", output)


def document(pairs, reports, words):
    lines = ["# What `verbena run --check` finds", "",
             "`verbena run --check PROGRAM` reports misuse of verbs that happens to work",
             "here, and may fail on a NIC. verbena-check(7) has the options. Each rule has an",
             "example below: the wrong code, the report, the right code. `tests/check` runs",
             "them and writes this page.",
             ""]
    for pair in pairs:
        if "/" in pair.name:
            continue
        lines += [f"## {pair.rule}", "", words[pair.rule], "", "```c",
                  pair.codes["wrong"].group().rstrip(), "```", "", "```",
                  reports[pair.name].rstrip(), "```", "", "Right:", "", "```c",
                  pair.codes["right"].group().rstrip(), "```", ""]
    lines += ["## All pairs", "",
              "The wrong program of each pair is found by the rule, with the line; the right",
              "one is not accused.", "", "| pair | found at | the right one |", "|---|---|---|"]
    lines += [f"| {pair.name} | {pair.path}:{pair.line} | no report |" for pair in pairs]
    return "\n".join(lines) + "\n"


def compare(path, text, write):
    """Lines of a difference. The part of the document that is made here ends where the clients
    begin."""
    cut = "\n## Programs that are accused\n"
    with open(path, encoding="utf-8") as file:
        there, rest = (file.read() + cut).split(cut)[:2]
    if write:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text + (cut + rest if rest else ""))
        return []
    return list(difflib.unified_diff(there.rstrip().split("\n"), text.rstrip().split("\n"),
                                     "docs/CHECK.md", "these reports", lineterm=""))


def add_route():
    """A way to the other subnet of the pair `route`: in the network that tests/apart makes."""
    subprocess.run(["ip", "route", "add", "198.51.100.0/24", "dev", "vb0"], check=False,
                   stderr=subprocess.DEVNULL)


def main(build, root, way, write=None):
    os.environ["VERBENA_PATH"] = way
    add_route()
    count, failed, reports = 0, 0, {}
    pairs = [pair for pair in read_pairs(f"{root}/tests/check")
             if way == "auto" or pair.rule in MESSAGES]
    watches = can_watch(build)
    for pair in pairs:
        if pair.rule == WATCHED and not watches:
            count += 1
            print(f"ok {count} - {pair.name} # SKIP the kernel lends no debug registers")
            continue
        for side in ("wrong", "right"):
            status, output = run(build, side, pair)
            reason = judge_wrong(pair, status, output) if side == "wrong" else \
                judge_right(status, output)
            if side == "wrong":
                reports[pair.name] = steady(output)
            count += 1
            failed += reason is not None
            print(f"{'not ok' if reason else 'ok'} {count} - {pair.name}: {side}")
            if reason:
                print(f"# {reason}\n" + re.sub("^", "#   ", output, flags=re.M))
    if way == "auto" and not watches:
        count += 1
        print(f"ok {count} - docs/CHECK.md has these reports # SKIP one of them is missing")
    elif way == "auto":
        count += 1
        words = read_words(f"{root}/tests/check/rules.txt")
        changes = compare(f"{root}/docs/CHECK.md", document(pairs, reports, words), write)
        failed += bool(changes)
        print(f"{'not ok' if changes else 'ok'} {count} - docs/CHECK.md has these reports")
        if changes:
            print("# write it: tests/apart - tests/check/pairs.py BUILD . auto --write")
            print(re.sub("^", "#   ", "\n".join(changes), flags=re.M))
    print("# | pair | found at | the right one |")
    for pair in pairs:
        print(f"# | {pair.name} | {pair.path}:{pair.line} | no report |")
    print(f"1..{count}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
