#!/usr/bin/env python3
"""What an encoder in eight bits costs in retrieval, and what it gains in time.

Encodes passages and questions of a data set with two model folders in Python onnxruntime, on one
thread, and compares the five nearest passages of every question: exact f32 rows of the first model
against int8 rows (one scale a row, as in an index) of the second.

    pip install onnxruntime==1.28.0 tokenizers numpy
    spechop models pull e5-small-v2-int8
    eval/bench/int8.py --data FOLDER/musique --passages 2000 --questions 300

FOLDER/NAME holds corpus.jsonl, questions.jsonl and qrels.jsonl (eval/train/README.md). Of the
corpus it takes the passages that the questions need, and others spread evenly over it.
Times are CPU time, so that a busy machine does not change them much.
"""

import argparse
import json
import os
import sys
import time
import tomllib
from pathlib import Path

import numpy
import onnxruntime
from tokenizers import Tokenizer

sys.path.append(str(Path(__file__).resolve().parents[1]))
from train.runtime import cpu_options  # noqa: E402

NEAREST = 5
RUN_TOKENS = 512


class Encoder:
    """A model folder, as `encoder.toml` in it describes it; mean pooling only."""

    def __init__(self, folder: Path) -> None:
        self.recipe = tomllib.loads((folder / "encoder.toml").read_text())
        assert self.recipe["pooling"] == "mean", "only mean pooling is known here"
        options = cpu_options(1)
        options.enable_mem_pattern = False
        model = folder / self.recipe["model"]
        self.session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
        self.tokenizer = Tokenizer.from_file(str(folder / self.recipe["tokenizer"]))
        self.tokenizer.no_padding()
        self.seconds = 0.0

    def encode(self, kind: str, texts: list[str]) -> numpy.ndarray:
        self.tokenizer.enable_truncation(self.recipe[f"{kind}_tokens_max"])
        prefix = self.recipe[f"{kind}_prefix"]
        ids = [self.tokenizer.encode(prefix + text).ids for text in texts]
        most = 1 if self.recipe.get("alone") else RUN_TOKENS
        order = sorted(range(len(ids)), key=lambda at: -len(ids[at]))
        out = numpy.empty((len(ids), self.recipe["width"]), dtype=numpy.float32)
        started = time.thread_time()
        while order:
            count = max(1, most // len(ids[order[0]]))
            run, order = order[:count], order[count:]
            out[run] = self.run([ids[at] for at in run])
        self.seconds += time.thread_time() - started
        return out

    def run(self, ids: list[list[int]]) -> numpy.ndarray:
        tokens = numpy.zeros((len(ids), max(map(len, ids))), dtype=numpy.int64)
        mask = numpy.zeros_like(tokens)
        for row, text in enumerate(ids):
            tokens[row, : len(text)] = text
            mask[row, : len(text)] = 1
        feed = {"input_ids": tokens, "attention_mask": mask}
        feed["token_type_ids"] = numpy.zeros_like(tokens)
        wanted = {given.name for given in self.session.get_inputs()}
        feed = {name: value for name, value in feed.items() if name in wanted}
        states = self.session.run(None, feed)[0]
        mean = (states * mask[:, :, None].astype(numpy.float32)).sum(axis=1)
        return mean / numpy.linalg.norm(mean, axis=1, keepdims=True)


def main() -> None:
    args = arguments()
    passages, questions, gold = sample(args.data, args.passages, args.questions)
    texts = [f"{passage['title']}\n{passage['text']}" for passage in passages]
    names = [passage["id"] for passage in passages]
    found = {}
    for name in ("model", "against"):
        encoder = Encoder(vars(args)[name])
        rows = encoder.encode("passage", texts)
        seconds = encoder.seconds
        found[name] = (rows, encoder.encode("query", questions), seconds)
    (rows, queries, before), (rows8, queries8, after) = found["model"], found["against"]
    exact, own = nearest(queries, rows), nearest(queries, int8(rows))
    other = nearest(queries8, int8(rows8))
    cosines = (rows * rows8).sum(axis=1)
    result = {
        "data": args.data.name,
        "passages": len(passages),
        "questions": len(questions),
        "cosine_min": float(cosines.min()),
        "cosine_mean": float(cosines.mean()),
        "same_of_5": same(other, exact),
        "same_of_5_int8_rows_only": same(own, exact),
        "gold_recall_at_5": recall(other, names, gold),
        "gold_recall_at_5_exact": recall(exact, names, gold),
        "speed_up": before / after,
        "onnxruntime": onnxruntime.__version__,
    }
    print(json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in result.items()}))


def arguments() -> argparse.Namespace:
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "spechop"
    models = Path(os.environ.get("SPECHOP_DATA_DIR") or data) / "models"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", type=Path, default=models / "e5-small-v2")
    parser.add_argument("--against", type=Path, default=models / "e5-small-v2-int8")
    parser.add_argument("--passages", type=int, default=2000)
    parser.add_argument("--questions", type=int, default=300)
    return parser.parse_args()


def sample(data: Path, passages: int, questions: int) -> tuple[list[dict], list[str], list[set]]:
    asked, gold, corpus = (
        [json.loads(line) for line in (data / f"{name}.jsonl").open()]
        for name in ("questions", "qrels", "corpus")
    )
    step = max(1, len(asked) // questions)
    asked, gold = asked[::step][:questions], gold[::step][:questions]
    gold = [{hop["passage_id"] for hop in one["gold"]} for one in gold]
    needed = set().union(*gold)
    others = [one["id"] for one in corpus if one["id"] not in needed]
    room = max(1, passages - len(needed))
    needed.update(others[:: max(1, len(others) // room)][:room])
    kept = [one for one in corpus if one["id"] in needed]
    return kept, [one["question"] for one in asked], gold


def int8(rows: numpy.ndarray) -> numpy.ndarray:
    scales = numpy.abs(rows).max(axis=1, keepdims=True) / 127
    return numpy.rint(rows / scales) * scales


def nearest(queries: numpy.ndarray, rows: numpy.ndarray) -> numpy.ndarray:
    return numpy.argsort(-(queries @ rows.T), axis=1, kind="stable")[:, :NEAREST]


def same(found: numpy.ndarray, exact: numpy.ndarray) -> float:
    shares = [len(set(a) & set(b)) / NEAREST for a, b in zip(found, exact)]
    return float(numpy.mean(shares))


def recall(found: numpy.ndarray, names: list[str], gold: list[set]) -> float:
    shares = [len({names[at] for at in row} & want) / len(want) for row, want in zip(found, gold)]
    return float(numpy.mean(shares))


if __name__ == "__main__":
    main()
