#!/usr/bin/env python3
"""Live runs of the same questions beside each other: what each way of each run takes of the first way of the first run.

    beside.py RUN [RUN…]

Seconds are means over the questions that all have answered; the interval is of 95 %, by bootstrap over questions. A segment
is the writing of a sub-question, the last one the writing of the answer. Answers are compared with those of the first way.
Rows of earlier versions do not say how long they waited."""

import argparse
import collections
import json
import pathlib
import statistics

from intervals import between, bootstrap


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=pathlib.Path, help="folders with rows.jsonl")
    ways = [way for run in parser.parse_args().runs for way in ways_of(run)]
    ids = sorted(set.intersection(*(set(rows) for _, rows in ways)))
    print(f"{len(ids)} questions\n")
    print("| run | way | seconds | of the first (95 %) | of these, waiting for look-ups | a segment | the last | target calls | other answers |")
    print("|---|---|---|---|---|---|---|---|---|")
    first = ways[0][1]
    for name, rows in ways:
        seconds = statistics.mean(rows[one]["latency_ms"] for one in ids) / 1e3
        stalls = [rows[one].get("stall_ms") for one in ids]
        waiting = "–" if None in stalls else f"{statistics.mean(stalls) / 1e3:.3f}"
        calls = statistics.mean(rows[one]["targets"]["started"] for one in ids)
        others = sum(rows[one]["answer"] != first[one]["answer"] for one in ids)
        of_first = [of(rows, first, ids, kind) for kind in (segments, last)]
        pairs = [(rows[one]["latency_ms"], first[one]["latency_ms"]) for one in ids]
        bounds = bootstrap(pairs, lambda ours, theirs: sum(ours) / sum(theirs))
        print(
            f"| {name} | {seconds:.3f} | {of(rows, first, ids, latency):.3f} {between(bounds)} | {waiting} "
            f"| {of_first[0]:.2f} | {of_first[1]:.2f} | {calls:.2f} | {others} |"
        )


def ways_of(run: pathlib.Path) -> list:
    """Each way of a run in the order in which it was wanted, with its rows by question."""
    rows = collections.defaultdict(dict)
    with (run / "rows.jsonl").open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            rows[row["variant"], row["concurrency"]][row["id"]] = row
    wanted = json.loads((run / "run.json").read_text(encoding="utf-8"))["wanted"]
    asked = [(one["variant"], one["concurrency"]) for one in wanted]
    many = len({at_once for _, at_once in asked}) > 1
    return [(f"{run.name} | {way}" + (f", {at_once} at once" if many else ""), rows[way, at_once]) for way, at_once in asked]


def latency(row: dict) -> list:
    return [row["latency_ms"]]


def segments(row: dict) -> list:
    return [hop["segment_ms"] for hop in row["hops"]]


def last(row: dict) -> list:
    return [row["final_ms"]]


def of(rows: dict, first: dict, ids: list, kind) -> float:
    ours, theirs = ([ms for one in ids for ms in kind(side[one])] for side in (rows, first))
    return statistics.mean(ours) / statistics.mean(theirs)


if __name__ == "__main__":
    main()
