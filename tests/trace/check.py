#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Checks a trace against the rules of the trace event format, which readers rely on.

    check.py [--cut] [--halves] FILE

--cut: the array may lack its end, as the format allows. --halves: an arrow may lack an end.
Prints what it found as NAME=VALUE; exits with 1 and a sentence at the first rule that is broken."""
import argparse
import bisect
import collections
import decimal
import itertools
import json
import statistics
import sys

REQUIRED = {
    "X": {"pid": int, "tid": int, "ts": None, "dur": None, "name": str, "cat": str, "args": dict},
    "i": {"pid": int, "tid": int, "ts": None, "name": str, "s": str},
    "s": {"pid": int, "tid": int, "ts": None, "name": str, "cat": str, "id": str},
    "f": {"pid": int, "tid": int, "ts": None, "name": str, "cat": str, "id": str, "bp": str},
    "M": {"pid": int, "tid": int, "name": str, "args": dict},
}


def require(condition, sentence):
    if not condition:
        sys.exit(sentence)


def read(path, cut):
    with open(path, encoding="ascii") as file:
        text = file.read()
    if cut and not text.rstrip().endswith("]"):
        text = text[:text.rindex("\n")].rstrip().rstrip(",") + "]"
    events = json.loads(text, parse_float=decimal.Decimal)
    require(isinstance(events, list), "not an array of events")
    return events


def check_event(event):
    members = REQUIRED.get(event.get("ph"))
    require(members, f"an event of an unknown phase: {event}")
    for name, kind in members.items():
        require(name in event, f"no '{name}' in {event}")
        if kind:
            require(isinstance(event[name], kind), f"'{name}' has another type in {event}")
        else:
            require(isinstance(event[name], (int, decimal.Decimal)) and event[name] >= 0,
                    f"'{name}' is no time in {event}")
    if event["ph"] == "M" and event["name"] in ("process_name", "thread_name"):
        require(isinstance(event["args"].get("name"), str), f"no name in {event}")


def by_track(events, phases):
    tracks = collections.defaultdict(list)
    for event in events:
        if event["ph"] in phases:
            tracks[event["pid"], event["tid"]].append(event)
    return tracks


def check_nesting(slices):
    """A slice ends before, or with, the slice that it began in."""
    for track, list_of in slices.items():
        ends = []
        for event in sorted(list_of, key=lambda e: (e["ts"], -e["dur"])):
            end = event["ts"] + event["dur"]
            while ends and ends[-1] <= event["ts"]:
                ends.pop()
            require(not ends or end <= ends[-1], f"{event} on {track} overlaps another")
            ends.append(end)


def reach(slices):
    """Of the slices of a track: when each begins, in order, and the latest end up to there."""
    slices = sorted(slices, key=lambda s: s["ts"])
    ends = itertools.accumulate((s["ts"] + s["dur"] for s in slices), max)
    return [s["ts"] for s in slices], list(ends)


def check_arrows(events, slices, halves):
    ends = {"s": {}, "f": {}}
    reaches = {track: reach(slices[track]) for track in slices}
    for event in events:
        if event["ph"] not in ends:
            continue
        key = event["cat"], event["name"], event["id"]
        require(key not in ends[event["ph"]], f"two ends of one arrow: {event}")
        ends[event["ph"]][key] = event
        begins, latest = reaches.get((event["pid"], event["tid"]), ([], []))
        before = bisect.bisect_right(begins, event["ts"])
        require(before and latest[before - 1] >= event["ts"], f"no slice encloses {event}")
    if not halves:
        require(ends["s"].keys() == ends["f"].keys(), "an arrow has one end")
    for key in ends["s"].keys() & ends["f"].keys():
        require(ends["s"][key]["ts"] <= ends["f"][key]["ts"], f"{key} ends before it begins")
    return len(ends["s"].keys() & ends["f"].keys())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cut", action="store_true")
    parser.add_argument("--halves", action="store_true")
    parser.add_argument("file")
    args = parser.parse_args()
    events = read(args.file, args.cut)
    for event in events:
        check_event(event)
    slices = by_track(events, "X")
    check_nesting(slices)
    arrows = check_arrows(events, slices, args.halves)
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    require(set(slices) <= named, "a track has no name")
    times = [e["dur"] for e in events if e["ph"] == "X" and e["args"].get("state") == "polled"]
    print(f"events={len(events)}")
    print(f"arrows={arrows}")
    print(f"processes={len({e['pid'] for e in events if e['name'] == 'process_name'})}")
    print(f"posted_to_polled_us={statistics.median(times) if times else 0}")
    for name, count in collections.Counter(
            e["name"] for e in events if e["ph"] == "X").items():
        print(f"slices of {name}={count}")
    for name in sorted(e["args"]["name"] for e in events if e["name"] == "thread_name"):
        print(f"track={name}")


main()
