#!/usr/bin/env python3
"""The simulated RelLat of plain speculation, salvage, plan-ahead and several guesses against RelLat*.

    python3 eval/bench/bound.py --spechop target/release/spechop --out eval/runs/hop-structure-simulated

Questions are drawn: which hop depends on which comes from a dataset (eval/datasets/*/shapes*.jsonl), p, α and β
from the rows of the paper's Table 1 (arXiv 2605.21965) that we know, the times vary by ν. Every policy plays
the same questions in the window of the live service. Writes report.md, results.json and manifest.json.

What the paper does not say is assumed, and named in the report: every hop is guessed rightly with the same
chance p, whatever it asks; where plan-ahead is measured, half of the wrong guesses are no guess at all; where
two guesses are, the second is right half as often as the first.
Standard library only.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

from circumstances import circumstances

ROOT = Path(__file__).resolve().parents[2]
WIKI = "eval/datasets/2wikimultihopqa/shapes.jsonl"
WIKI_CHAINS = "eval/datasets/2wikimultihopqa/shapes_chains.jsonl"
MUSIQUE = "eval/datasets/musique/shapes.jsonl"

# Setting, shapes, p, α, β, RelLat* and RelLat as printed in Table 1.
ROWS = [
    ("2Wiki, web, GPT-4o", WIKI, 0.68, 0.19, 0.10, 0.50, 0.60),
    ("2Wiki, web, Llama-8B", WIKI, 0.28, 0.03, 0.10, 0.75, 0.78),
    ("2Wiki, web, Llama-8B, chain by chain", WIKI_CHAINS, 0.28, 0.03, 0.10, 0.75, 0.78),
    ("MuSiQue, web, Llama-8B", MUSIQUE, 0.41, 0.05, 0.11, 0.65, 0.72),
    ("2Wiki, E5, Llama-8B", WIKI, 0.27, 0.30, 0.74, 0.89, 0.91),
]
# Name, flags, share of wrong guesses that are none, chance of a second guess over p.
POLICIES = [
    ("plain", ["--no-salvage"], 0.0, 0.0),
    ("salvage", [], 0.0, 0.0),
    ("plain, half unguessed", ["--no-salvage"], 0.5, 0.0),
    ("salvage, half unguessed", [], 0.5, 0.0),
    ("salvage and plan-ahead, half unguessed", ["--plan-ahead"], 0.5, 0.0),
    ("two guesses", ["--no-salvage", "--guesses", "2"], 0.0, 0.5),
    ("salvage and two guesses", ["--guesses", "2"], 0.0, 0.5),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spechop", default="target/release/spechop")
    parser.add_argument("--out", required=True)
    parser.add_argument("--trials", type=int, default=40_000, help="questions a seed (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--nu", type=float, default=0.4, help="coefficient of variation (web in the paper: 1.68 / 4.15)")
    parser.add_argument("--k", default="2,3,4,inf")
    args = parser.parse_args()
    results = []
    for row in ROWS:
        for policy in POLICIES:
            results.append(measure(args, row, policy, ROOT / row[1]))
            print(f"{row[0]}: {policy[0]}: {results[-1]['rel_lat']['inf']:.3f}", file=sys.stderr)
    kinds = by_type(args)
    sweep = [
        measure(args, (f"p = {p / 100:.2f}", WIKI, p / 100, *ROWS[1][3:]), policy, ROOT / WIKI)
        for p in range(10, 75, 5)
        for policy in POLICIES[:2]
    ]
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps({"rows": results, "types": kinds, "by_p": sweep}, indent=1) + "\n")
    (out / "manifest.json").write_text(json.dumps(manifest(args), indent=1) + "\n")
    (out / "report.md").write_text(report(args, results, kinds, sweep))


def measure(args, row, policy, shapes):
    """One setting under one policy: mean and standard deviation over seeds, for every k."""
    name, _, p, alpha, beta, *_ = row
    title, flags, missing, later = policy
    runs = []
    for seed in range(1, args.seeds + 1):
        command = [args.spechop, "simulate", "--shapes", str(shapes), "--k", args.k, "--json", *flags]
        for flag, value in [
            ("--p", p), ("--alpha", alpha), ("--beta", beta), ("--nu", args.nu), ("--trials", args.trials),
            ("--seed", seed), ("--missing", missing), ("--later", later * p),
        ]:
            command += [flag, str(value)]
        output = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        runs.append({str(result["k"]): result for result in json.loads(output)["results"]})
    over = lambda k, field: [run[k][field] for run in runs]
    mean = lambda field: {k: statistics.mean(over(k, field)) for k in runs[0]}
    return {
        "setting": name,
        "policy": title,
        "rel_lat": mean("rel_lat"),
        "rel_lat_sd": {k: statistics.stdev(over(k, "rel_lat")) if len(runs) > 1 else 0.0 for k in runs[0]},
        "calls_m": mean("mean_calls_m"),
        "calls_t": mean("mean_calls_t"),
        "salvaged": mean("mean_salvaged"),
    }


def by_type(args):
    """The web row of the small speculator, one question type at a time."""
    row = ROWS[1]
    types = {}
    for line in (ROOT / row[1]).read_text().splitlines():
        shape = json.loads(line)
        types.setdefault(shape["type"], []).append(line)
    results = []
    for kind, lines in types.items():
        path = Path(args.out) / "shapes.tmp"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
        for policy in POLICIES[:2]:
            result = measure(args, row, policy, path.resolve())
            results.append({**result, "type": kind, "questions": sum(json.loads(line)["count"] for line in lines)})
        path.unlink()
    return results


def report(args, results, kinds, sweep):
    table = {(r["setting"], r["policy"]): r for r in results}
    lines = [
        f"Simulated: {args.trials * args.seeds:,} drawn questions a cell ({args.seeds} seeds; the standard deviation "
        f"between seeds is at most {max(max(r['rel_lat_sd'].values()) for r in results):.4f}), ν = {args.nu}, "
        "latency relative to k = 1 on the same questions, the final segment included. RelLat* and the paper's RelLat "
        "are as printed in its Table 1; it does not give the rows of other speculators to us, so they are not here.",
        "",
        "Hop structure: evidences of 2WikiMultihopQA and decompositions of MuSiQue "
        "(eval/datasets/make_shapes.py). p, α and β are the paper's, the same for every hop.",
        "",
    ]
    head = ["setting", "RelLat*", "paper's RelLat"] + [name for name, *_ in POLICIES]
    for k in ("inf", "3"):
        lines += [f"### k = {'∞' if k == 'inf' else k}", "", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
        for row in ROWS:
            cells = [f"{table[row[0], name]['rel_lat'][k]:.3f}" for name, *_ in POLICIES]
            lines.append("| " + " | ".join([row[0], f"{row[5]:.2f}", f"{row[6]:.2f}", *cells]) + " |")
        lines.append("")
    lines += [
        "\"half unguessed\": half of the wrong guesses are no guess at all (assumed: the paper counts refusals as wrong). "
        "\"two guesses\": the second is right p / 2 of the time (assumed).",
        "",
        "### What it costs: calls a question at k = 3",
        "",
        "| setting | policy | calls M | calls T | salvaged |",
        "|---|---|---|---|---|",
    ]
    for row in ROWS:
        for name, *_ in POLICIES:
            r = table[row[0], name]
            lines.append(f"| {row[0]} | {name} | {r['calls_m']['3']:.2f} | {r['calls_t']['3']:.2f} | {r['salvaged']['3']:.2f} |")
    lines += [
        "",
        f"### By type of question: {ROWS[1][0]}, k = ∞, RelLat* {ROWS[1][5]:.2f}",
        "",
        "| type | questions | plain | salvage |",
        "|---|---|---|---|",
    ]
    for kind in dict.fromkeys(r["type"] for r in kinds):
        plain, salvage = (r for r in kinds if r["type"] == kind)
        lines.append(f"| {kind} | {plain['questions']} | {plain['rel_lat']['inf']:.3f} | {salvage['rel_lat']['inf']:.3f} |")
    _, _, _, alpha, beta, *_ = ROWS[1]
    lines += [
        "",
        f"### For which speculators: 2Wiki, α = {alpha}, β = {beta}, k = ∞, RelLat* = 1 − p (1 − α) / (1 + β)",
        "",
        "| p | RelLat* | plain | salvage | salvage below RelLat* |",
        "|---|---|---|---|---|",
    ]
    for plain, salvage in zip(sweep[::2], sweep[1::2]):
        p = float(plain["setting"].split("=")[1])
        bound = 1 - p * (1 - alpha) / (1 + beta)
        below = "yes" if salvage["rel_lat"]["inf"] < bound else "no"
        lines.append(f"| {p:.2f} | {bound:.3f} | {plain['rel_lat']['inf']:.3f} | {salvage['rel_lat']['inf']:.3f} | {below} |")
    lines += ["", f"Again: `make bench-bound`, or `python3 eval/bench/bound.py {' '.join(sys.argv[1:])}`", ""]
    return "\n".join(lines)


def manifest(args):
    return {
        **circumstances(),
        "trials": args.trials,
        "seeds": args.seeds,
        "nu": args.nu,
        "note": "simulated: no time of this machine enters the figures",
    }


if __name__ == "__main__":
    main()
