#!/usr/bin/env python3
"""How good guesses are: p-hat and alpha-hat of speculators, on the sets of the ablation, k = 4 and the rule verifier.

    python3 eval/ablation/speculators.py --spechop target/release/spechop --sets SETS --out eval/runs/ablation

A constant latency is injected into every look-up, so that the look-up does not outrun the guess; a hop whose guess was
not there in time is not compared. Writes OUT/speculators.md and speculators.json; for what it keeps and
resumes see run.py. Standard library only.
"""

import json
import statistics
import sys

import asking
from asking import Row

RULE = {"question.verifier": "rule"}
ROWS = {
    row.name: row
    for row in (
        Row("hot", "hot subset, read by our reader", RULE | {"speculator.kind": "hot"}, k=4),
        Row(
            "base-from-memory",
            "SmolLM2-135M-Instruct from memory (the planner's base)",
            RULE
            | {
                "speculator.kind": "llm",
                "speculator.model.kind": "local",
                "speculator.model.style": "tagged",
                "speculator.model.file": "{data}/models/smollm2-135m-instruct/model.gguf",
            },
            k=4,
        ),
    )
}
# Long enough for the slowest of the speculators on a loaded machine, at one thread.
LATENCY_MS = 2000.0


def main():
    args = asking.arguments(__doc__.splitlines()[0], ROWS)
    for name in args.rows:
        for of in args.only:
            asking.ask_all(args, ROWS[name], of, latency_ms=LATENCY_MS)
            report(args.out)
    print((args.out / "speculators.md").read_text())


def report(out):
    results = []
    for row in ROWS.values():
        for name in asking.SETS:
            about = out / "rows" / f"{row.name}.{name}.json"
            rows = asking.read_rows(about.with_suffix(".jsonl"))
            if rows:
                results.append(figures(row, name, rows) | {"circumstances": json.loads(about.read_text())})
    (out / "speculators.json").write_text(json.dumps(results, indent=1) + "\n")
    (out / "speculators.md").write_text(table(results))


def figures(row, name, rows):
    hops = [hop for got in rows for hop in zip(got["kinds"], got["times_ms"], strict=True)]
    accepted = sum(kind == "accepted" for kind, _ in hops)
    compared = sum(kind in ("accepted", "rejected") for kind, _ in hops)
    guess_ms = [times["speculation_ms"] for _, times in hops if times.get("speculation_ms") is not None]
    target_ms = [times["target_ms"] for _, times in hops if times.get("target_ms") is not None]
    return {
        "row": row.name,
        "about": row.about,
        "set": name,
        "questions": len(rows),
        "hops": len(hops),
        "compared": compared,
        "accepted": accepted,
        "p": accepted / compared if compared else None,
        "p_95": wilson(accepted, compared),
        "guess_ms": statistics.fmean(guess_ms) if guess_ms else None,
        "target_ms": statistics.fmean(target_ms) if target_ms else None,
        "alpha": statistics.fmean(guess_ms) / statistics.fmean(target_ms) if guess_ms and target_ms else None,
        "exact_match": 100 * statistics.fmean(got["exact_match"] for got in rows),
    }


def wilson(hits, of, z=1.96):
    """The 95 % interval of a share; unlike the usual one it is no point at 0 and 1."""
    if not of:
        return None
    share, spread = hits / of, z * z / of
    middle = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * (share * (1 - share) / of + spread / of / 4) ** 0.5
    return [max(0.0, middle - half), min(1.0, middle + half)]


def table(results):
    lines = [
        f"k = 4, rule verifier, {LATENCY_MS:.0f} ms **injected** into every look-up (in the target's time and in α). p̂: share of the guesses",
        "compared that were accepted, with a 95 % Wilson interval; hops not compared had no guess, or a late one.",
        "",
        "| speculator | set | questions | hops | compared | accepted | p̂ | guess ms | target ms | α̂ |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for result in results:
        share, alpha = "–", "–"
        if result["p"] is not None:
            share = f"{result['p']:.2f} ({result['p_95'][0]:.2f}–{result['p_95'][1]:.2f})"
        if result["alpha"] is not None:
            alpha = f"{result['guess_ms']:.0f} | {result['target_ms']:.0f} | {result['alpha']:.2f}"
        else:
            alpha = "– | – | –"
        lines.append(
            f"| {result['about']} | {result['set']} | {result['questions']} | {result['hops']} | {result['compared']} "
            f"| {result['accepted']} | {share} | {alpha} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
