#!/usr/bin/env python3
"""The same questions at several k against a real server, one at a time, interleaved.

    python3 eval/bench/live.py --spechop target/release/spechop --questions 12 --k 1,4 \
        --latency-mean-ms 4150 --latency-sigma-ms 1680 --out eval/runs/NAME

Starts `spechop serve --config deploy/demo.toml` (exact verifier; --config takes another), asks questions of
eval/datasets/2wikimultihopqa/questions.jsonl.gz through `spechop ask --json`, and writes to --out:
manifest.json (the circumstances), rows.jsonl (every answer with its timings and calls) and summary.md.
An injected latency is drawn from a seed and the sub-question, so a look-up costs the same at every k; it is
labelled in every row. --dataset takes another file of original 2WikiMultihopQA or MuSiQue records, plain or gzip;
the index must then be named in --config. Standard library only.
"""

import argparse
import collections
import gzip
import json
import os
import platform
import random
import re
import socket
import statistics
import string
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WARM_UP = "Who is the mother of the director of film Polish-Russian War?"
DATASET = ROOT / "eval/datasets/2wikimultihopqa/questions.jsonl.gz"


def main():
    args = arguments()
    records = read(Path(args.dataset))
    # Whole order from the seed: a longer run contains the shorter one.
    random.Random(args.seed).shuffle(records)
    records = records[: args.questions]
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    rows = []
    server, address = start(args, out)
    try:
        # Fixed prompts are processed once, before anything is measured.
        ask(args.spechop, address, {"_id": "warm-up", "question": WARM_UP, "type": "", "answer": "", "supporting_facts": []}, max(args.k))
        for turn in range(len(args.k)):
            # Every question once a turn, the k's taken by turns: all the others lie between two askings of one
            # question, so the model's cache of recent prompts helps no k.
            for n, record in enumerate(records):
                k = args.k[(n + turn) % len(args.k)]
                row = ask(args.spechop, address, record, k)
                rows.append(row)
                print(f"{turn + 1}/{len(args.k)} {n + 1}/{len(records)} k={k}: {row['elapsed_ms'] / 1000:.1f} s, {row['answer']!r}", file=sys.stderr)
        peak = memory_peak_mib(server.pid)
    finally:
        server.terminate()
        server.wait()
    with open(out / "rows.jsonl", "w", encoding="utf-8") as file:
        for row in rows:
            print(json.dumps(row, ensure_ascii=False), file=file)
    manifest = {
        "command": " ".join(["python3 eval/bench/live.py", *sys.argv[1:]]),
        "commit": text("git", "rev-parse", "HEAD"),
        "changed_files": bool(text("git", "status", "--porcelain", "--untracked-files=no")),
        "config": Path(args.config).read_text(),
        "set": args.set,
        "seed": args.seed,
        "questions": [record["_id"] for record in records],
        "injected_latency_ms": {"mean": args.latency_mean_ms, "sigma": args.latency_sigma_ms},
        "machine": {"cores": os.cpu_count(), "cpu": cpu(), "system": platform.platform()},
        "server_memory_peak_mib": peak,
    }
    (out / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
    summary = summarise(args, rows, manifest)
    (out / "summary.md").write_text(summary)
    print(summary)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spechop", required=True, help="the binary")
    parser.add_argument("--config", default=str(ROOT / "deploy/demo.toml"))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as of spechop serve")
    parser.add_argument("--dataset", default=str(DATASET))
    parser.add_argument("--questions", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--k", default="1,4", type=lambda s: [int(k) for k in s.split(",")])
    parser.add_argument("--latency-mean-ms", type=float, default=0.0, help="injected; 0 for none")
    parser.add_argument("--latency-sigma-ms", type=float, default=0.0)
    parser.add_argument("--out", required=True)
    return parser.parse_args()


def read(path):
    """2WikiMultihopQA records as they are; MuSiQue's in the same form."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    for record in records:
        if "question_decomposition" in record:
            record["_id"] = record["id"]
            record["type"] = record["id"].split("__")[0]
            record["supporting_facts"] = [[title, 0] for title in gold_titles(record)]
    return records


def gold_titles(record):
    """The pages that a MuSiQue question needs; a record without paragraphs says "Title_3": a page and the number of its paragraph."""
    steps = record["question_decomposition"]
    if record.get("paragraphs"):
        gold = [step.get("paragraph_support_idx") for step in steps]
        return [page["title"] for page in record["paragraphs"] if page["idx"] in gold]
    return [step["document_id"].rsplit("_", 1)[0] for step in steps if step.get("document_id")]


class Unanswered(SystemExit):
    """The server had no answer. Ends the run, unless somebody counts such questions."""


def start(args, out):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    env = dict(os.environ, SPECHOP_SERVER_LISTEN=address)
    if args.latency_mean_ms > 0:
        env["SPECHOP_TARGET_INJECTED_LATENCY_MEAN_MS"] = str(args.latency_mean_ms)
        env["SPECHOP_TARGET_INJECTED_LATENCY_SIGMA_MS"] = str(args.latency_sigma_ms)
        env["SPECHOP_TARGET_INJECTED_LATENCY_SEED"] = str(args.seed)
    # A run must not depend on what the runs before it have taught the server.
    command = [args.spechop, "serve", "--config", args.config, "--set", "tuning.state=none"]
    command += [word for pair in args.set for word in ("--set", pair)]
    log = open(out / "server.log", "w", encoding="utf-8")
    server = subprocess.Popen(command, env=env, stdout=log, stderr=log)
    host, port = address.split(":")
    # Two seconds on a machine of its own; on one that is busy with other things it may take a hundred times as long.
    for _ in range(3000):
        if server.poll() is not None:
            sys.exit(f"the server did not start: {(out / 'server.log').read_text()[-2000:]}")
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            (out / "server.log").unlink(missing_ok=True)
            return server, address
        except OSError:
            time.sleep(0.2)
    server.kill()
    sys.exit("the server did not start within ten minutes")


def ask(spechop, address, record, k):
    command = [spechop, "ask", record["question"], "--addr", address, "--k", str(k), "--json"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise Unanswered(f"{record['_id']} at k = {k}: {run.stderr.strip()}")
    answer = json.loads(run.stdout)
    usage = answer["usage"]
    return {
        "id": record["_id"],
        "type": record["type"],
        "k": k,
        "answer": answer["answer"],
        "gold": record["answer"],
        "exact_match": any(normalise(answer["answer"]) == normalise(gold) for gold in golds(record)),
        "f1": max(f1(answer["answer"], gold) for gold in golds(record)),
        "gold_titles_found": found(answer["hops"], record),
        "elapsed_ms": answer["elapsed_ms"],
        "trajectory": [[hop["sub_question"], hop["sub_answer"]] for hop in answer["hops"]],
        "kinds": [hop["kind"].removeprefix("COMMIT_KIND_").lower() for hop in answer["hops"]],
        "guesses": [hop.get("guess") for hop in answer["hops"]],
        "times_ms": [hop["times"] for hop in answer["hops"]],
        "calls": {stage: [usage[stage]["started"], usage[stage]["wasted"]] for stage in ("segments", "targets", "speculations")},
        "stop": answer["stop_reason"].removeprefix("STOP_REASON_").lower(),
        "injected_latency": answer.get("injected_latency"),
    }


def summarise(args, rows, manifest):
    at = {k: [row for row in rows if row["k"] == k] for k in args.k}
    first = at[args.k[0]]
    injected = "none" if args.latency_mean_ms == 0 else (
        f"**injected**, log-normal, mean {args.latency_mean_ms:.0f} ms, sigma {args.latency_sigma_ms:.0f} ms on every look-up")
    lines = [
        f"{len(first)} questions of {Path(args.dataset).parent.name}, one at a time, exact verifier; "
        f"{manifest['machine']['cores']} cores, {manifest['machine']['cpu']}. Latency: {injected}. "
        f"Peak memory of the server: {manifest['server_memory_peak_mib']} MiB.",
        "",
        f"| k | mean s | median s | ratio of means to k = {args.k[0]} | same trajectory | guesses accepted | target calls | wasted | exact match |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for k, here in at.items():
        base = {row["id"]: row for row in first}
        same = sum(row["trajectory"] == base[row["id"]]["trajectory"] and row["answer"] == base[row["id"]]["answer"] for row in here)
        kinds = [kind for row in here for kind in row["kinds"]]
        judged = sum(kind != "observed" for kind in kinds)
        mean = statistics.mean(row["elapsed_ms"] for row in here) / 1000
        calls = [sum(row["calls"]["targets"][i] for row in here) for i in (0, 1)]
        lines.append(
            f"| {k} | {mean:.2f} | {statistics.median(row['elapsed_ms'] for row in here) / 1000:.2f} "
            f"| {mean * 1000 / statistics.mean(row['elapsed_ms'] for row in first):.3f} | {same}/{len(here)} "
            f"| {kinds.count('accepted')}/{judged} | {calls[0]} | {calls[1]} | {sum(row['exact_match'] for row in here)}/{len(here)} |")
    lines += [
        "",
        f"Quality at k = {args.k[0]} (SQuAD normalisation; recall: share of the gold pages among the passages read):",
        "",
        "| type | questions | exact match | F1 | recall of gold pages | hops | mean s |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind in ["all", *sorted({row["type"] for row in first})]:
        here = [row for row in first if kind in ("all", row["type"])]
        mean = lambda value: statistics.mean(map(value, here))
        lines.append(
            f"| {kind} | {len(here)} | {100 * mean(lambda row: row['exact_match']):.1f} | {100 * mean(lambda row: row['f1']):.1f} "
            f"| {mean(lambda row: row['gold_titles_found']):.2f} | {mean(lambda row: len(row['trajectory'])):.2f} "
            f"| {mean(lambda row: row['elapsed_ms']) / 1000:.2f} |")
    lines += ["", f"Again: `{manifest['command']}`", ""]
    return "\n".join(lines)


def golds(record):
    return [record["answer"], *record.get("answer_aliases", [])]


def f1(answer, gold):
    """SQuAD's: the harmonic mean of precision and recall over words; yes and no only count whole."""
    said, wanted = normalise(answer).split(), normalise(gold).split()
    if said == wanted:
        return 1.0
    if {"yes", "no"} & {*said[:1], *wanted[:1]}:
        return 0.0
    shared = sum((collections.Counter(said) & collections.Counter(wanted)).values())
    return 2 * shared / (len(said) + len(wanted)) if shared else 0.0


def found(hops, record):
    """The share of the question's gold pages that were among the passages read."""
    gold = {title for title, _ in record["supporting_facts"]}
    read = {passage["title"] for hop in hops for passage in hop["observation"]["evidence"]}
    return len(gold & read) / len(gold) if gold else 1.0


def normalise(answer):
    """SQuAD's: lower case, no punctuation, no articles, single spaces."""
    answer = "".join(c for c in answer.lower() if c not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", answer).split())


def memory_peak_mib(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) // 1024
    return None


def cpu():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def text(*command):
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False).stdout.strip()


if __name__ == "__main__":
    main()
