"""What reading a hop's passages in their order is worth, until one is sure enough to stop.

`python -m train.reader_enough --data DIR --indexes DIR --retriever E5_INT8_FOLDER --reader READER_FOLDER` asks the gold
sub-questions of DATASETS/untrained.json over E5's five best passages of the whole corpus (`2wiki-extended` and
`musique-extended` of INDEXES, as `eval/run.sh DATA prepare` builds them), and prints, for each confidence that would be
enough, how many hops are read exactly right and how many passages that takes. `--wrong FILE` has each other hop in a
line, as the service would read it: data set, sub-question, gold answer, reading.
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
from .runtime import cpu_options

ENOUGH = (None, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
HEADER = 64  # bytes of a file of the index before its rows
QUERY_TOKENS_MAX = 64
FOLDERS = {"2wiki": "2wikimultihopqa", "musique": "musique"}


class Retriever:
    """E5 in eight bits, as the service encodes queries, and the rows of an index, whose shards have a header each."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        model = str(folder / "model.onnx")
        self.session = ort.InferenceSession(model, cpu_options(threads=1), providers=["CPUExecutionProvider"])

    def query(self, text: str) -> np.ndarray:
        encoded = self.tokenizer.encode(f"query: {text}")
        encoded.truncate(QUERY_TOKENS_MAX)
        ids = np.array([encoded.ids])
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        return self.session.run(None, {i.name: feed[i.name] for i in self.session.get_inputs()})[0][0].mean(0)

    def best(self, index: Path, questions: list[str]) -> list[list[int]]:
        """Rows of the five best passages of each question, best first."""
        rows = []
        for scales, vectors in zip(sorted(index.glob("scales-*.bin")), sorted(index.glob("vectors-*.bin"))):
            scale = np.frombuffer(scales.read_bytes()[HEADER:], np.float32)
            rows.append(np.frombuffer(vectors.read_bytes()[HEADER:], np.int8).reshape(len(scale), -1) * scale[:, None])
        matrix = np.concatenate(rows)
        return [np.argsort(-(matrix @ self.query(q)), kind="stable")[:POOL].tolist() for q in questions]


def ranked(retriever: Retriever, data: Path, indexes: Path, items: list[Item]) -> list[list[Passage]]:
    """The five best passages of each item, best first."""
    found: dict[int, list[Passage]] = {}
    for kind, folder in FOLDERS.items():
        # The index has its rows in the corpus's order.
        passages = [Passage(p["title"], p["text"]) for p in read_jsonl(data / folder / "corpus_extended.jsonl")]
        places = [at for at, item in enumerate(items) if item.kind.startswith(f"{kind}/")]
        best = retriever.best(indexes / f"{kind}-extended", [items[at].questions[0] for at in places])
        found |= {at: [passages[row] for row in rows] for at, rows in zip(places, best)}
    return [found[at] for at in range(len(items))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--datasets", type=Path, default=Path("datasets"))
    parser.add_argument("--indexes", type=Path, required=True, help="folder with 2wiki-extended and musique-extended")
    parser.add_argument("--retriever", type=Path, required=True, help="folder with E5's model.onnx and tokenizer.json")
    parser.add_argument("--reader", type=Path, required=True, help="folder with model.onnx, tokenizer.json and reader.toml")
    parser.add_argument("--wrong", type=Path, help="a file for the hops that are not read exactly right")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    named = json.loads((args.datasets / "untrained.json").read_text())
    ids = {one for lists in named.values() for some in lists.values() for one in some}
    items = gold_items([q for q in load_questions(args.data)[0] if q.id in ids], Corpus(args.data))
    pools = ranked(Retriever(args.retriever), args.data, args.indexes, items)
    tokenizer = Tokenizer.from_file(str(args.reader / "tokenizer.json"))
    recipe = tomllib.loads((args.reader / "reader.toml").read_text())
    calibration = recipe["calibration"]
    run = onnx_runner(args.reader / "model.onnx", args.threads)
    hops, wrong = [], []
    for item, passages in zip(items, pools):
        reads = readings(run, tokenizer, item.questions[0], passages)
        right = [exact(r.text, item.answers) for r in reads]
        kind, sure = item.kind.split("/")[0], [confidence(r.score, **calibration) for r in reads]
        hops.append((kind, sure, right))
        at = counts(sure, recipe["enough"])
        if not right[at]:
            wrong.append("\t".join((kind, item.questions[0], item.answers[0], reads[at].text)))
    if args.wrong:
        args.wrong.write_text("\n".join(wrong) + "\n")
    print("| enough | " + " | ".join(f"{kind}: right, passages read" for kind in FOLDERS) + " |\n|---|---|---|")
    for enough in ENOUGH:
        cells = []
        for kind in FOLDERS:
            some = [(sure, right, counts(sure, enough)) for of, sure, right in hops if of == kind]
            read = [at + 1 if enough is not None and sure[at] >= enough else len(sure) for sure, _, at in some]
            cells.append(f"{sum(right[at] for _, right, at in some)} of {len(some)}, {np.mean(read):.2f}")
        print(f"| {enough or 'none'} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
