"""What reading a hop's passages in their order is worth, until one is sure enough to stop.

`python -m train.reader_enough --data DIR --encoder E5_FOLDER --retriever E5_INT8_FOLDER --reader READER_FOLDER` asks
the gold sub-questions of DATASETS/untrained.json over E5's five best passages of the whole corpus, and prints, for
each confidence that would be enough, how many hops are read exactly right and how many passages that takes.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from pathlib import Path

import numpy as np
import onnxruntime as ort
from tokenizers import Tokenizer

from .corpus import Corpus, Passage
from .reader_answer import confidence, counts
from .reader_data import Item, gold_items
from .reader_eval import POOL, exact, onnx_runner, readings
from .records import load_questions, read_jsonl

ENOUGH = (None, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
FOLDERS = {"2wiki": "2wikimultihopqa", "musique": "musique"}


class Retriever:
    """E5 in eight bits, as the service encodes: a text a run, `query: ` and `passage: ` before it, mean of the tokens."""

    def __init__(self, folder: Path, threads: int) -> None:
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = ort.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])

    def vector(self, text: str, tokens_max: int) -> np.ndarray:
        encoded = self.tokenizer.encode(text)
        encoded.truncate(tokens_max)
        ids = np.array([encoded.ids])
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        mean = self.session.run(None, {i.name: feed[i.name] for i in self.session.get_inputs()})[0][0].mean(0)
        return mean / np.linalg.norm(mean)


def ranked(retriever: Retriever, data: Path, items: list[Item]) -> list[list[Passage]]:
    """The five best passages of each item, best first."""
    found: dict[int, list[Passage]] = {}
    for kind, folder in FOLDERS.items():
        passages = [Passage(p["title"], p["text"]) for p in read_jsonl(data / folder / "corpus_extended.jsonl")]
        vectors = np.stack([retriever.vector(f"passage: {p.title}\n{p.text}", 512) for p in passages])
        for at, item in enumerate(items):
            if item.kind.startswith(f"{kind}/"):
                scores = vectors @ retriever.vector(f"query: {item.questions[0]}", 64)
                found[at] = [passages[i] for i in np.argsort(-scores, kind="stable")[:POOL]]
    return [found[at] for at in range(len(items))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--datasets", type=Path, default=Path("datasets"))
    parser.add_argument("--retriever", type=Path, required=True, help="folder with E5's model.onnx and tokenizer.json")
    parser.add_argument("--reader", type=Path, required=True, help="folder with model.onnx, tokenizer.json and reader.toml")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    named = json.loads((args.datasets / "untrained.json").read_text())
    ids = {one for lists in named.values() for some in lists.values() for one in some}
    items = gold_items([q for q in load_questions(args.data)[0] if q.id in ids], Corpus(args.data))
    pools = ranked(Retriever(args.retriever, args.threads), args.data, items)
    tokenizer = Tokenizer.from_file(str(args.reader / "tokenizer.json"))
    calibration = tomllib.loads((args.reader / "reader.toml").read_text())["calibration"]
    run = onnx_runner(args.reader / "model.onnx", args.threads)
    hops = []
    for item, passages in zip(items, pools):
        reads = readings(run, tokenizer, item.questions[0], passages)
        right = [exact(r.text, item.answers) for r in reads]
        hops.append((item.kind.split("/")[0], [confidence(r.score, **calibration) for r in reads], right))
    print("| enough | " + " | ".join(f"{kind}: right, passages read" for kind in FOLDERS) + " |")
    for enough in ENOUGH:
        cells = []
        for kind in FOLDERS:
            some = [(sure, right, counts(sure, enough)) for of, sure, right in hops if of == kind]
            read = [at + 1 if enough is not None and sure[at] >= enough else len(sure) for sure, _, at in some]
            cells.append(f"{sum(right[at] for _, right, at in some)} of {len(some)}, {np.mean(read):.2f}")
        print(f"| {enough or 'none'} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
