#!/usr/bin/env python3
"""The ablation: who plans and who reads, on questions that nothing was trained on, k = 1.

    python3 eval/ablation/sets.py --data DATA --out SETS
    spechop models pull smollm2-135m-instruct qwen2.5-coder-0.5b-instruct qwen2.5-coder-1.5b-instruct
    spechop index build --corpus DATA/musique/corpus_extended.jsonl --out DATA_DIR/indexes/musique-extended \
        --hot-fraction 0.25 --in-degree DATA/musique/title_mention_indegree.jsonl
    python3 eval/ablation/run.py --spechop target/release/spechop --sets SETS --out eval/runs/ablation

(and `make index` for 2Wiki's). Every answered question is kept in OUT/rows at once; what is there is not asked again,
unless --again. Writes OUT/table.md, results.json and manifest.json from all rows that have answers. Standard library only.
"""

import json
import random
import statistics
import sys
import threading

import asking
import gold_planner
from asking import Row

RESAMPLES = 2000
CHAT = {"generator.kind": "local", "generator.style": "tagged", "reader.kind": "generator"}
READER_15B = {"reader.kind": "local", "reader.file": "{data}/models/qwen2.5-coder-1.5b-instruct/model.gguf"}
GOLD = {
    "generator.kind": "openai",
    "generator.style": "tagged",
    "generator.base_url": "{gold}",
    "generator.model": "gold",
    "reader.kind": "spans",
}


def chat(model):
    return CHAT | {"generator.file": f"{{data}}/models/{model}/model.gguf"}


ROWS = {
    row.name: row
    for row in (
        Row("135m", "off the shelf: SmolLM2-135M-Instruct plans and reads", chat("smollm2-135m-instruct"), limit=24),
        Row("0.5b", "off the shelf: Qwen2.5-Coder-0.5B-Instruct", chat("qwen2.5-coder-0.5b-instruct"), limit=16),
        Row("1.5b", "off the shelf: Qwen2.5-Coder-1.5B-Instruct", chat("qwen2.5-coder-1.5b-instruct"), limit=12),
        Row("planner+1.5b", "our planner, Qwen2.5-Coder-1.5B-Instruct reads", READER_15B, limit=12),
        Row("planner+reader", "our planner, our reader", {}),
        Row("gold+reader", "gold planner, our reader: the ceiling", GOLD),
    )
}
for row in ROWS.values():
    row.settings = {"speculator.kind": "none"} | row.settings


def main():
    args = asking.arguments(__doc__.splitlines()[0], ROWS)
    gold = gold_planner.serve(gold_planner.GoldPlanner([args.sets / f"{name}.jsonl" for name in asking.SETS]))
    threading.Thread(target=gold.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{gold.server_port}/v1"
    for name in args.rows:
        for of in args.only:
            asking.ask_all(args, ROWS[name], of, url)
            report(args.out)
    print((args.out / "table.md").read_text())


def report(out):
    """Everything that was ever answered, not only this call's rows."""
    results, manifest = [], []
    for row in ROWS.values():
        for name in asking.SETS:
            about = out / "rows" / f"{row.name}.{name}.json"
            rows = asking.read_rows(about.with_suffix(".jsonl"))
            if rows:
                results.append(figures(row, name, rows))
                manifest.append(json.loads(about.read_text()))
    (out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (out / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    (out / "table.md").write_text(table(results))


def figures(row, name, rows):
    mean = lambda value: statistics.mean(map(value, rows))
    kinds = sorted({got["type"] for got in rows})
    return {
        "row": row.name,
        "about": row.about,
        "set": name,
        "questions": len(rows),
        "exact_match": 100 * mean(lambda got: got["exact_match"]),
        "exact_match_95": bootstrap([100.0 * got["exact_match"] for got in rows]),
        "f1": 100 * mean(lambda got: got["f1"]),
        "f1_95": bootstrap([100.0 * got["f1"] for got in rows]),
        "gold_pages_recall": mean(lambda got: got["gold_titles_found"]),
        "hops": mean(lambda got: len(got["trajectory"])),
        "unanswered": sum(got["stop"] == "unanswered" for got in rows),
        "by_type": {
            kind: [sum(got["exact_match"] for got in rows if got["type"] == kind), sum(got["type"] == kind for got in rows)]
            for kind in kinds
        },
        "ids": [got["id"] for got in rows],
    }


def bootstrap(values):
    """The 95 % percentile interval of the mean."""
    draw = random.Random(1)
    means = sorted(statistics.fmean(draw.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return [means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES) - 1]]


def table(results):
    lines = [
        "Validation questions, never trained on, over the full corpus (E5-small-v2, 5 passages a hop), k = 1. Exact match and F1 in per",
        "cent (SQuAD normalisation), with 95 % bootstrap intervals over questions; recall: share of the gold pages among the passages read.",
        "Slow models were asked the first questions of the same seeded order: compare rows of unlike numbers by their intervals.",
        "",
        "| planner and reader | set | questions | exact match | F1 | recall of gold pages | hops | unanswered |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for result in results:
        scores = [f"{result[key]:.1f} ({result[key + '_95'][0]:.0f}–{result[key + '_95'][1]:.0f})" for key in ("exact_match", "f1")]
        lines.append(
            f"| {result['about']} | {result['set']} | {result['questions']} | {scores[0]} | {scores[1]} "
            f"| {result['gold_pages_recall']:.2f} | {result['hops']:.2f} | {result['unanswered']} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
