#!/usr/bin/env python3
"""What speculation takes from a machine that has no room for it: questions a second, and how long a question takes.

    saturation.py --spechop BINARY --index FOLDER --questions FILE --out FOLDER [--at-once N…] [--ways WAY…]
    saturation.py --print FOLDER…

One server, the embedded default that drafts if that pays, nothing injected: every core computes. Eight questions at a time,
16 and 64, at k = 1, 3 and auto. The way `plain` is k = 1 at another server, which drafts no tokens; it stands
still while the first one is asked. The first way is what the others are held against. The ways take turns: in each turn every way asks a block of questions of its own, and in the
end each has asked each block. More other questions lie between a block and the same one again than the server keeps of what
it has encoded, so nobody finds the way paved by another. Before that the tuner learns from a block that is not asked again.
A block begins with so many at a time and runs empty at its end, so it has four times as many questions at least: the table
says how many were under way on average.

A machine that is shared runs faster and slower from block to block. So the processor's time of the server is noted, too: what
speculation takes of a full machine is what it computes, and that time hardly changes with the machine's speed of the hour.

A p99 hardly stands still, either. So the table holds every way against itself, too: half of its turns against the other half.
Both halves have asked the same blocks if each was asked twice. They have half of the questions, so they differ some 1.4 times
as much as two ways do. An interval of two ways pairs the blocks, since both have asked the same.

A second table says how wide the windows were and what ran ahead of need. Segments and guesses are those of the questions
alone; k and refusals are what the server has counted, with the questions that the rows leave out.

A run that was stopped goes on behind its last whole turn. What is stored is printed anew by --print."""

import argparse
import collections
import contextlib
import copy
import hashlib
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import urllib.request

from circumstances import circumstances
from intervals import DRAWS, between, bootstrap, within
from million import Server, cpu_s, p99, size_mib

WAYS = ("1", "3", "auto")
PLAIN = "plain"
# Questions at once: how many a block has, how many blocks there are, and how often every way asks each.
LOADS = {8: (66, 12, 2), 16: (66, 12, 1), 64: (264, 5, 2)}
LEARNING = 66
# `eval live` asks a question at k = 1 to see whether the server is there, and one to warm it, in the way of the block.
UNCOUNTED = 2
CELL = {"blocks_s": [], "cpu_s": [], "questions_s": [], "counted": {}, "peak_mib": 0}
# Stages of a row, and metrics of a server, by the beginnings of their names.
STAGES = ("segments", "speculations")
METRICS = ("spechop_question_k_", "spechop_refused_total")


class Bench:
    def __init__(self, args, folder: pathlib.Path):
        self.args, self.folder = args, folder
        ids = [json.loads(line)["_id"] for line in args.questions.open()]
        drawn = random.Random(1).sample(ids, len(ids))
        self.learning, self.drawn = drawn[:LEARNING], drawn[LEARNING:]

    def blocks(self, at_once: int) -> list:
        of_block, blocks, _ = LOADS[at_once]
        if of_block * blocks > len(self.drawn):
            sys.exit(f"{blocks} blocks of {of_block} questions need more than the {len(self.drawn)} that are left")
        return [self.drawn[at:at + of_block] for at in range(0, of_block * blocks, of_block)]

    def ask(self, server: Server, way: str, block: list, at_once: int) -> tuple:
        """Seconds until the last answer, the processor's of the server, those of each question, and what was counted."""
        counted, before = metrics(server), cpu_s(server.process.pid)
        ids, out = self.folder / "ids.json", pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        ids.write_text(json.dumps({"2wiki": block}))
        # The standard agent is asked whenever nobody says otherwise.
        asked = ["--k", "1"] if way in ("1", PLAIN) else ["--variant", f"k={way}", "--without-standard"]
        subprocess.run(
            [
                self.args.spechop, "eval", "live", "--addr", server.address, "--dataset", "2wiki", "--questions", self.args.questions,
                "--ids", ids, "--count", str(len(block)), "--seed", "1", *asked,
                "--concurrency", str(at_once), "--system", "embedded default", "--out", out,
            ],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        # Between the two lies one question alone, the warm-up, so that a block seems some 3 % longer than it is.
        took = (out / "rows.jsonl").stat().st_mtime - (out / "run.json").stat().st_mtime
        rows = [json.loads(line) for line in (out / "rows.jsonl").open()]
        if len(rows) != len(block):
            sys.exit(f"{len(rows)} of {len(block)} questions were answered")
        computed = cpu_s(server.process.pid) - before
        return took, computed, [row["latency_ms"] / 1e3 for row in rows], calls(rows) + (metrics(server) - counted)

    def run(self, found: dict, keep):
        """Asks what `found` lacks, and calls `keep` after every turn. If it lacks nothing, no server is started."""
        if {str(at_once) for at_once in self.args.at_once} <= whole(found).keys():
            return
        # All of them have a place: nobody is sent away to ask again, and the time of a question is all of its time.
        most = 2 * max(LOADS)
        settings = {"index.dir": self.args.index, "server.questions_max": most, "tenant.questions_max": most, "question.drafts": "auto"}
        with contextlib.ExitStack() as stack:
            start = lambda settings: stack.enter_context(Server(self.args.spechop, settings))
            server = start(settings)
            servers = {way: server for way in self.args.ways}
            self.ask(server, "auto", self.learning, min(LOADS))
            if PLAIN in servers:
                servers[PLAIN] = start(settings | {"generator.draft_tokens": "false"})
                self.ask(servers[PLAIN], PLAIN, self.learning, min(LOADS))
            for at_once in self.args.at_once:
                blocks, rounds = self.blocks(at_once), LOADS[at_once][2]
                ways = found.setdefault(str(at_once), {way: copy.deepcopy(CELL) for way in self.args.ways})
                asked = len(next(iter(ways.values()))["blocks_s"])
                for turn in range(asked, rounds * len(blocks)):
                    for number, (way, cell) in enumerate(ways.items()):
                        block = blocks[block_of(turn, number, len(blocks))]
                        took, computed, questions, counted = self.ask(servers[way], way, block, at_once)
                        cell["blocks_s"].append(took)
                        cell["cpu_s"].append(computed)
                        cell["questions_s"] += questions
                        cell["counted"] = dict(collections.Counter(cell["counted"]) + counted)
                        # It only grows, whatever way is asked.
                        cell["peak_mib"] = max(cell["peak_mib"], size_mib(servers[way].process.pid, "VmHWM"))
                        print(f"{at_once} at once, k = {way}: {len(block) / took:.3f} questions/s", file=sys.stderr)
                    keep()


def block_of(turn: int, number: int, blocks: int) -> int:
    """Which block the way of this number asks in this turn."""
    return (turn + 2 * number) % blocks


def calls(rows: list) -> collections.Counter:
    """The calls that these questions have begun, and those of them that were of no use."""
    return collections.Counter({f"{stage} {fate}": sum(row[stage][fate] for row in rows) for stage in STAGES for fate in ("started", "wasted")})


def metrics(server: Server) -> collections.Counter:
    """What the server has counted since its start."""
    with urllib.request.urlopen(f"http://{server.address}/metrics", timeout=120) as answer:
        lines = answer.read().decode().splitlines()
    counted = (line.rpartition(" ") for line in lines if line.startswith(METRICS))
    return collections.Counter({name: float(value) for name, _, value in counted})


def resumed(path: pathlib.Path, run: dict) -> dict:
    """What was asked before of the same by the same on the same machine; a turn is whole or is not there."""
    if not path.exists():
        return {"starts": 0, "at_once": {}}
    kept = json.loads(path.read_text())
    cpu = lambda run: {key: run["machine"][key] for key in ("cpu", "cores")}
    there, here = (cpu(run) | {key: run.get(key) for key in ("commit", "of", "ways")} for run in (kept, run))
    for key, is_here in here.items():
        if there[key] != is_here:
            sys.exit(f"{path} has {key} {there[key]}, and this is {is_here}: say another --out, or remove it")
    return kept


def whole(found: dict) -> dict:
    """The loads that were asked to their end."""
    return {load: ways for load, ways in found.items() if all(len(cell["blocks_s"]) == LOADS[int(load)][1] * LOADS[int(load)][2] for cell in ways.values())}


def even(found: dict) -> dict:
    """The loads at which every way has asked each block equally often, however often that is."""
    turns = {load: {len(cell["blocks_s"]) for cell in ways.values()} for load, ways in found.items()}
    return {load: found[load] for load, of in turns.items() if len(of) == 1 and 0 not in of and max(of) % LOADS[int(load)][1] == 0}


def printed(run: dict, found: dict) -> str:
    parts = [as_table(found), as_work(found)]
    starts = run.get("starts", 1)
    if starts > 1:
        parts.append(f"The server was started {starts} times, and `auto` learnt anew each time.")
    return "\n\n".join(part for part in parts if part) + "\n"


def as_table(found: dict) -> str:
    lines = [
        "| at once | under way, mean | k | questions a second | of the first | processor seconds a question | of the first | mean, s | of the first "
        "| p50, s | p99, s | of the first (95 %) | against itself (95 %) | memory at most so far, MiB |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for at_once, ways in found.items():
        first, block = None, LOADS[int(at_once)][0]
        for number, (way, cell) in enumerate(ways.items()):
            blocks = len(cell["blocks_s"])
            rate = blocks * block / sum(cell["blocks_s"])
            computed = sum(cell["cpu_s"]) / (blocks * (block + UNCOUNTED))
            # Little's law: a block begins full and runs empty at its end.
            under_way = sum(cell["questions_s"]) / sum(cell["blocks_s"])
            mean, slowest = statistics.fmean(cell["questions_s"]), p99(cell["questions_s"])
            asked = by_block(cell["questions_s"], int(at_once), number)
            of_first = "1"
            if first:
                of_first = f"{slowest / first[3]:.3f} {between(interval(asked, first[4]))}"
            first = first or (rate, computed, mean, slowest, asked)
            lines.append(
                f"| {at_once} | {under_way:.1f} | {way} | {rate:.3f} | {rate / first[0]:.3f} | {computed:.3f} | {computed / first[1]:.3f} "
                f"| {mean:.2f} | {mean / first[2]:.3f} | {statistics.median(cell['questions_s']):.2f} | {slowest:.2f} | {of_first} "
                f"| {between(itself(asked))} | {cell['peak_mib']:.0f} |"
            )
    return "\n".join(lines)


def as_work(found: dict) -> str:
    """Nothing for a run of a time when nothing was counted."""
    cells = [(at_once, way, cell) for at_once, ways in found.items() for way, cell in ways.items() if cell.get("counted")]
    if not cells:
        return ""
    lines = [
        "| at once | k | mean k | questions with k above 1 | segments a question | in vain | guesses a question | in vain "
        "| guesses without an idle core, a question |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for at_once, way, cell in cells:
        counted, rows = collections.Counter(cell["counted"]), len(cell["questions_s"])
        asked = counted["spechop_question_k_count"]
        above = 1 - counted['spechop_question_k_bucket{le="1.0"}'] / asked
        of_rows = " | ".join(f"{counted[f'{stage} {fate}'] / rows:.3f}" for stage in STAGES for fate in ("started", "wasted"))
        coreless = counted['spechop_refused_total{stage="speculation",reason="no_core"}'] / asked
        lines.append(f"| {at_once} | {way} | {counted['spechop_question_k_sum'] / asked:.2f} | {above:.1%} | {of_rows} | {coreless:.3f} |")
    return "\n".join(lines)


def by_block(questions: list, at_once: int, number: int) -> list:
    """The seconds of the questions of each asking of each block, by the way of this number."""
    size, blocks, _ = LOADS[at_once]
    asked = [[] for _ in range(blocks)]
    for turn, at in enumerate(range(0, len(questions), size)):
        asked[block_of(turn, number, blocks)].append(questions[at:at + size])
    return asked


def interval(ours: list, theirs: list) -> tuple:
    """Of the ratio of two p99s, if other blocks had been drawn (bootstrap): the questions of a block share a machine's moment."""
    return bootstrap([pair for asked in zip(ours, theirs) for pair in zip(*asked)], ratio)


def itself(asked: list) -> tuple:
    """Of the ratio of the p99s of two halves of a way's turns. A block that was asked twice has a part in both."""
    rng = random.Random(1)
    shuffled = lambda some: rng.sample(some, len(some))
    orders = (sum(map(shuffled, shuffled(asked)), []) for _ in range(DRAWS))
    return within(ratio(turns[::2], turns[1::2]) for turns in orders)


def ratio(ours: list, theirs: list) -> float:
    """Of the p99s of the questions of these turns."""
    ours, theirs = (p99([took for turn in turns for took in turn]) for turns in (ours, theirs))
    return ours / theirs


class Print(argparse.Action):
    """Prints stored runs as this script prints them now. Needs nothing else, as --help does."""

    def __call__(self, parser, _namespace, folders, _option=None):
        for folder in folders:
            run = json.loads((folder / "results.json").read_text())
            text = printed(run, even(run["at_once"]))
            (folder / "printed.md").write_text(text)
            print(text, end="")
        parser.exit()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", action=Print, type=pathlib.Path, nargs="+", metavar="FOLDER", help="runs that are stored, printed anew")
    parser.add_argument("--spechop", required=True)
    parser.add_argument("--index", type=pathlib.Path, required=True, help="the index of 2WikiMultihopQA's extended corpus")
    parser.add_argument("--questions", type=pathlib.Path, required=True, help="2WikiMultihopQA, as eval/run.sh prepares it")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--at-once", type=int, nargs="+", choices=LOADS, default=list(LOADS), help="how many questions at once")
    parser.add_argument("--ways", nargs="+", choices=(PLAIN, *WAYS), default=list(WAYS), help="the first is held against")
    args = parser.parse_args()
    path = args.out / "results.json"
    digest = lambda file: hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    files = {"program": pathlib.Path(args.spechop), "index": args.index / "manifest.json", "questions": args.questions}
    run = {**circumstances(), "of": {name: digest(file) for name, file in files.items()}, "ways": args.ways}
    kept = resumed(path, run)
    run |= {key: kept[key] for key in ("starts", "at_once")}
    args.out.mkdir(parents=True, exist_ok=True)

    def keep():
        # A start that no turn came of has no part in the table.
        run["starts"] = kept["starts"] + 1
        new = path.with_suffix(".new")
        new.write_text(json.dumps(run) + "\n")
        new.replace(path)

    with tempfile.TemporaryDirectory() as folder:
        Bench(args, pathlib.Path(folder)).run(run["at_once"], keep)
    table = printed(run, whole(run["at_once"]))
    (args.out / "printed.md").write_text(table)
    print(table, end="")


if __name__ == "__main__":
    main()
