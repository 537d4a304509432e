#!/usr/bin/env python3
"""Passages a second with Python onnxruntime: what spechop-embed is measured against.

The same model file, corpus, threads, tokens and library version, and the same care: batches of
512 passages sorted by length, runs of bounded tokens, tokenising included, loading not.

    pip install onnxruntime==1.28.0 tokenizers numpy
    eval/bench/embed_baseline.py
    eval/bench/embed_baseline.py --rounds 5 --against \
        cargo bench -p spechop-embed --bench passages -- --json

With --against, the two run by turns, and the last line is the ratio of their medians: above 1 the
other is faster. --sessions N divides the threads among N copies of the model, as the other does; one
session with all threads is what a Python program has. --batch N makes runs of N passages instead of bounded tokens; --spin lets idle
threads spin (the library's default; it loses on a busy machine).
"""

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "eval"))
from train.runtime import cpu_options  # noqa: E402

JOB_PASSAGES = 512


def main() -> None:
    args = arguments()
    if not args.against:
        print(json.dumps(measure(args)))
        return
    here = [sys.executable, __file__, *same_work(args), "--model", str(args.model.resolve())]
    here += ["--run-tokens", str(args.run_tokens)]
    here += ["--batch", str(args.batch)] if args.batch else []
    here += ["--sessions", str(args.sessions)]
    here += ["--spin"] if args.spin else []
    there = [*args.against, *same_work(args)]
    rates = {"python": [], "other": []}
    for turn in range(args.rounds):
        # The first of a turn may find a cooler machine: take turns at that, too.
        for name in sorted(rates, reverse=turn % 2 == 1):
            command = here if name == "python" else there
            out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            result = json.loads(out.strip().splitlines()[-1])
            rates[name].append(result["passages_per_second"])
            print(f"round {turn + 1} {name}: {json.dumps(result)}", file=sys.stderr)
    medians = {name: statistics.median(values) for name, values in rates.items()}
    ratio = medians["other"] / medians["python"]
    print(json.dumps({"medians": medians, "rates": rates, "ratio": round(ratio, 3)}))


def arguments() -> argparse.Namespace:
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "spechop"
    data = Path(os.environ.get("SPECHOP_DATA_DIR") or data)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    corpus = ROOT / "eval/datasets/2wikimultihopqa/corpus.jsonl.gz"
    parser.add_argument("--corpus", type=Path, default=corpus)
    parser.add_argument("--model", type=Path, default=data / "models/e5-small-v2")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--run-tokens", type=int, default=512)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--sessions", type=int, default=1)
    parser.add_argument("--spin", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", nargs="...", help="a command, to the end of the line")
    # By hand: argparse takes a `--` of that command for its own.
    own = sys.argv[1:]
    cut = own.index("--against") if "--against" in own else len(own)
    args = parser.parse_args(own[:cut])
    args.against = own[cut + 1 :]
    return args


def same_work(args: argparse.Namespace) -> list[str]:
    words = ["--corpus", str(args.corpus.resolve()), "--threads", str(args.threads)]
    return words + (["--limit", str(args.limit)] if args.limit else [])


def measure(args: argparse.Namespace) -> dict:
    import numpy
    import onnxruntime
    from tokenizers import Tokenizer

    texts = read(args.corpus, args.limit)
    options = cpu_options(max(1, args.threads // args.sessions))
    options.enable_mem_pattern = False
    spin = "1" if args.spin else "0"
    options.add_session_config_entry("session.intra_op.allow_spinning", spin)
    sessions = SimpleQueue()
    for _ in range(args.sessions):
        providers = ["CPUExecutionProvider"]
        model = onnxruntime.InferenceSession(args.model / "model.onnx", options, providers)
        sessions.put(model)
    pool = ThreadPoolExecutor(args.sessions)
    tokenizer = Tokenizer.from_file(str(args.model / "tokenizer.json"))
    tokenizer.enable_truncation(512)
    tokenizer.no_padding()

    def vectors(ids: list[list[int]]) -> numpy.ndarray:
        longest = max(map(len, ids))
        tokens = numpy.zeros((len(ids), longest), dtype=numpy.int64)
        mask = numpy.zeros_like(tokens)
        for row, text in enumerate(ids):
            tokens[row, : len(text)] = text
            mask[row, : len(text)] = 1
        feed = {
            "input_ids": tokens,
            "attention_mask": mask,
            "token_type_ids": numpy.zeros_like(tokens),
        }
        session = sessions.get()
        states = session.run(None, feed)[0]
        sessions.put(session)
        mean = (states * mask[:, :, None].astype(numpy.float32)).sum(axis=1)
        return mean / numpy.linalg.norm(mean, axis=1, keepdims=True)

    def job(batch: list[str]) -> numpy.ndarray:
        prefixed = ["passage: " + text for text in batch]
        ids = [encoding.ids for encoding in tokenizer.encode_batch(prefixed)]
        order = sorted(range(len(ids)), key=lambda at: -len(ids[at]))
        out = numpy.empty((len(ids), 384), dtype=numpy.float32)
        runs, start = [], 0
        while start < len(order):
            count = args.batch or max(1, args.run_tokens // len(ids[order[start]]))
            runs.append(order[start : start + count])
            start += count
        for run, found in zip(runs, pool.map(lambda run: vectors([ids[at] for at in run]), runs)):
            out[run] = found
        return out

    job(texts[:2])
    start = time.perf_counter()
    for at in range(0, len(texts), JOB_PASSAGES):
        job(texts[at : at + JOB_PASSAGES])
        print(f"\r{min(at + JOB_PASSAGES, len(texts))}/{len(texts)}", end="", file=sys.stderr)
    seconds = time.perf_counter() - start
    print(file=sys.stderr)
    return {
        "passages": len(texts),
        "seconds": round(seconds, 3),
        "passages_per_second": round(len(texts) / seconds, 2),
        "threads": args.threads,
        "sessions": args.sessions,
        "onnxruntime": onnxruntime.__version__,
    }


def read(path: Path, limit: int | None) -> list[str]:
    opened = gzip.open(path, "rt") if path.suffix == ".gz" else path.open()
    with opened as lines:
        texts = []
        for line in lines:
            if limit is not None and len(texts) >= limit:
                break
            passage = json.loads(line)
            texts.append(f"{passage['title']}. {passage['text']}")
    return texts


if __name__ == "__main__":
    main()
