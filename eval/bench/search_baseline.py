#!/usr/bin/env python3
"""Exact search over a large index beside faiss (flat fp32 and int8) and usearch (int8), on the same rows.

    pip install --requirement deploy/requirements-bench.txt
    eval/bench/search_baseline.py --index DIR --out FOLDER -- cargo bench -q -p spechop-store --bench large --

The other engines get one thread: ours has one. All search exactly, or as exactly as their int8 allows. They run by turns;
times are medians over the rounds. Recall is of the five best by fp32 over the same (dequantised) rows.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import faiss
import numpy
import usearch
from circumstances import circumstances
from usearch.index import MetricKind, search

WIDTH = 384
LIMIT = 5
REPEATS = 7


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--index", type=Path, required=True, help="an index, as `fill` makes it")
    parser.add_argument("--out", type=Path, help="a folder for search.json and search.md")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("command", nargs="+", help="the benchmark `large`, without its arguments")
    args = parser.parse_args()
    ours = [*args.command, "--index", str(args.index.resolve())]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*ours, "--export", folder], check=True)
        rows = numpy.fromfile(f"{folder}/rows.i8", dtype=numpy.int8).reshape(-1, WIDTH)
        scales = numpy.fromfile(f"{folder}/scales.f32", dtype=numpy.float32)
        queries = numpy.fromfile(f"{folder}/queries.f32", dtype=numpy.float32).reshape(-1, WIDTH)
    engines = others(rows, scales)
    times: dict[str, dict[int, list[float]]] = {name: {1: [], 8: []} for name in engines}
    own = []
    for turn in range(args.rounds):
        out = subprocess.run([*ours, "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout
        own.append(json.loads(out.strip().splitlines()[-1]))
        for name, find in engines.items():
            for count in (1, 8):
                times[name][count].append(measure(find, queries[:count]))
        print(f"round {turn + 1}: {own[-1]}", file=sys.stderr)
    result = {
        **circumstances(),
        "rows": len(rows),
        "versions": {"faiss": faiss.__version__, "usearch": usearch.__version__},
        "spechop": {key: statistics.median(one[key] for one in own) for key in own[0]},
        "others": {
            name: {
                "one_ms": statistics.median(of[1]),
                "eight_ms": statistics.median(of[8]),
                "recall_at_5": recall(engines["faiss flat, fp32"](queries), engines[name](queries)),
            }
            for name, of in times.items()
        },
    }
    table = as_table(result)
    print(table)
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "search.json").write_text(json.dumps(result, indent=1) + "\n")
        (args.out / "search.md").write_text(table + "\n")


def others(rows: numpy.ndarray, scales: numpy.ndarray) -> dict:
    faiss.omp_set_num_threads(1)
    flat = faiss.IndexFlatIP(WIDTH)
    eight = faiss.IndexScalarQuantizer(WIDTH, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT)
    for start in range(0, len(rows), 1 << 16):
        part = slice(start, start + (1 << 16))
        vectors = rows[part].astype(numpy.float32) * scales[part, None]
        if not eight.is_trained:
            eight.train(vectors)
        flat.add(vectors)
        eight.add(vectors)

    def with_usearch(queries: numpy.ndarray) -> numpy.ndarray:
        units = queries / numpy.abs(queries).max(axis=1, keepdims=True) * 127
        # By cosine: the rows are unit vectors, each on a scale of its own.
        found = search(rows, numpy.rint(units).astype(numpy.int8), LIMIT, MetricKind.Cos, exact=True, threads=1)
        return numpy.atleast_2d(found.keys)

    return {
        "faiss flat, fp32": lambda queries: flat.search(queries, LIMIT)[1],
        "faiss int8": lambda queries: eight.search(queries, LIMIT)[1],
        "usearch int8, exact": with_usearch,
    }


def measure(find, queries: numpy.ndarray) -> float:
    taken = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        find(queries)
        taken.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(taken)


def recall(exact: numpy.ndarray, found: numpy.ndarray) -> float:
    shared = [len(set(a.tolist()) & set(b.tolist())) for a, b in zip(exact, found)]
    return round(sum(shared) / exact.size, 4)


def as_table(result: dict) -> str:
    ours = result["spechop"]
    lines = [
        f"{result['rows']:,} rows, one thread; medians, milliseconds:",
        "",
        "| | one query | eight at once | recall@5 |",
        "|---|---|---|---|",
        f"| this index, int8 | {ours['one_ms']:.1f} | {ours['eight_ms']:.1f} | – |",
    ]
    for name, other in result["others"].items():
        ratios = [other[key] / ours[key] for key in ("one_ms", "eight_ms")]
        lines.append(
            f"| {name} | {other['one_ms']:.1f} ({ratios[0]:.2f} x) | {other['eight_ms']:.1f} ({ratios[1]:.2f} x) "
            f"| {other['recall_at_5']:.3f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
