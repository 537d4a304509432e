#!/usr/bin/env python3
"""The engine's overhead per hop against the same algorithm in Python asyncio, by turns on one core.

    eval/bench/overhead.py
    eval/bench/overhead.py --target-turns 0 --rounds 9 --core 0

The one is crates/spechop-agent/benches/overhead.rs (k = 4; criterion's median), the other
asyncio_reference.py with as many hops, with a time limit for every stage, as the engine has it, and
without ("python_no_limits"). In both a look-up takes --target-turns turns of the executor: from one
turn on every guess comes first and is accepted; without any, none is. The tools' own work is in all
of the figures. The last line is the medians over all rounds, their spread (lowest and highest) and
the ratios of the medians: above 1 the engine is cheaper. Standard library only.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "eval/bench/asyncio_reference.py"
CARGO_BENCH = ["cargo", "bench", "--locked", "-q", "-p", "spechop-agent", "--bench", "overhead"]


def main() -> None:
    args = arguments()
    subprocess.run([*CARGO_BENCH, "--no-run"], cwd=ROOT, check=True)
    costs = {"rust": [], "python": [], "python_no_limits": []}
    hops = None
    for turn in range(args.rounds):
        # The first of a turn may find a cooler machine: take turns at that, too. The Rust one is
        # the very first, since it says how many hops there are.
        for name in sorted(costs, reverse=turn % 2 == 0):
            if name == "rust":
                result = rust(args)
                if hops not in (None, result["hops"]):
                    sys.exit(f"the benchmark had {hops} hops a round ago, now {result['hops']}")
                hops = result["hops"]
            else:
                result = python(args, hops, ["--no-limits"] if name == "python_no_limits" else [])
            costs[name].append(result["us_per_hop"])
            print(f"round {turn + 1} {name}: {json.dumps(result)}", file=sys.stderr)
    medians = {name: round(statistics.median(values), 3) for name, values in costs.items()}
    spread = {name: [min(values), max(values)] for name, values in costs.items()}
    ratios = {name: round(medians[name] / medians["rust"], 2) for name in medians if name != "rust"}
    summary = {
        "hops": hops,
        "k": args.k,
        "target_turns": args.target_turns,
        "us_per_hop": medians,
        "spread": spread,
        "rounds": costs,
        "ratio": ratios,
    }
    print(json.dumps(summary))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--core", type=int, default=1, help="the core that both run on")
    parser.add_argument("--k", type=int, default=4)
    parser.add_argument("--target-turns", type=int, default=1, help="0, 1 or 8, as the benchmarks")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each measures")
    return parser.parse_args()


def rust(args: argparse.Namespace) -> dict:
    with tempfile.TemporaryDirectory() as home:
        # A home of its own: nothing stale is read, and nobody's baseline is overwritten.
        environment = {**os.environ, "CRITERION_HOME": home}
        times = ["--warm-up-time", "1", "--measurement-time", str(args.seconds)]
        # Not behind the scheduler, which asyncio_reference.py has nothing like.
        what = "guesses accepted" if args.target_turns else "look-ups at once"
        name = f"{what}, turns={args.target_turns}, k={args.k},"
        command = [*CARGO_BENCH, "--", name, *times, "--noplot"]
        pinned(args, command, env=environment)
        found = sorted(Path(home).glob("**/new/estimates.json"))
        if len(found) != 1:
            names = [str(path.parent.parent.relative_to(home)) for path in found]
            sys.exit(f"{name!r} must be in the name of one benchmark, not of {names}")
        estimates = json.loads(found[0].read_text())
        benchmark = json.loads(found[0].with_name("benchmark.json").read_text())
    hops = (benchmark["throughput"] or {}).get("Elements")
    if not hops:
        sys.exit(f"the benchmark {benchmark['full_id']!r} does not say how many hops it has")
    microseconds = estimates["median"]["point_estimate"] / 1000
    return {
        "us_per_hop": round(microseconds / hops, 3),
        "hops": hops,
        "benchmark": benchmark["full_id"],
    }


def python(args: argparse.Namespace, hops: int, more: list[str]) -> dict:
    work = ["--hops", str(hops), "--k", str(args.k), "--target-turns", str(args.target_turns)]
    work += ["--seconds", str(args.seconds), *more]
    out = pinned(args, [sys.executable, str(REFERENCE), *work])
    return json.loads(out.strip().splitlines()[-1])


def pinned(args: argparse.Namespace, command: list[str], **options) -> str:
    command = ["taskset", "-c", str(args.core), *command]
    done = subprocess.run(
        command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, **options
    )
    return done.stdout


if __name__ == "__main__":
    main()
