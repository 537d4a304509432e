"""How well the reader reads: validation hops with the gold passage among five.

`python -m train.reader_eval --data DIR --encoder E5_FOLDER --model reader.onnx [--report FILE]`.
The other four are BM25's best wrong guesses for the sub-question, as a retriever would bring them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from .corpus import Corpus, Passage
from .reader_answer import Read, read
from .reader_batches import Row, tensors, tokenize
from .reader_data import NOT_HERE, Item, find, gold_items, shown
from .records import Question, load_questions, normal
from .runtime import cpu_options
from .splits import make_split
from .values import parse_date

POOL = 5
Runner = Callable[[list[Row]], tuple[Sequence[np.ndarray], Sequence[np.ndarray], Sequence[np.ndarray]]]


def pools(validation: list[Question], corpus: Corpus) -> list[tuple[Item, list[Passage]]]:
    """Each validation hop once, with five passages, the gold one at a fixed but unobvious place."""
    made = []
    for item in gold_items(validation, corpus):
        others = [p for p in corpus.search(item.questions[0], 12) if p != item.gold][: POOL - 1]
        place = sum(map(ord, item.questions[0])) % POOL
        made.append((item, [*others[:place], item.gold, *others[place:]]))
    # Mixed, so that any prefix is a sample.
    return sorted(made, key=lambda m: hash_order(m[0].questions[0]))


def hash_order(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def exact(guess: str, answers: list[str]) -> bool:
    """Equal after normalising; two spellings of one date are equal."""
    date = parse_date(guess)
    return any(normal(guess) == normal(a) or (date is not None and date == parse_date(a)) for a in answers)


def f1(guess: str, answers: list[str]) -> float:
    """Best token F1, as in SQuAD."""
    best = 0.0
    ours = Counter(normal(guess).split())
    for answer in answers:
        theirs = Counter(normal(answer).split())
        same = sum((ours & theirs).values())
        if same:
            best = max(best, 2 * same / (sum(ours.values()) + sum(theirs.values())))
    return best


def torch_runner(model, device: str, mixed) -> Runner:
    import torch

    def run(rows: list[Row]) -> tuple[np.ndarray, ...]:
        with torch.no_grad(), mixed:
            outputs = model(**tensors(rows, device))
        return tuple(o.float().cpu().numpy() for o in outputs)

    return run


def onnx_runner(path: Path, threads: int = 1, together: bool = False) -> Runner:
    """Each row by itself, as the program reads, or all in one run: int8 scales the activations of a run together."""
    import onnxruntime as ort

    session = ort.InferenceSession(str(path), cpu_options(threads), providers=["CPUExecutionProvider"])

    def run(rows: list[Row]) -> tuple[list[np.ndarray], ...]:
        runs = [rows] if together else [[row] for row in rows]
        feeds = [{name: t.numpy() for name, t in tensors(some, "cpu").items()} for some in runs]
        outputs = [session.run(["start_logits", "end_logits", "class_logits"], feed) for feed in feeds]
        return tuple([row for output in kind for row in output] for kind in zip(*outputs))

    return run


def readings(run: Runner, tokenizer, question: str, passages: list[Passage], class_weight: float = 1.0) -> list[Read]:
    """One reading a passage."""
    texts = [shown(p) for p in passages]
    encoded = [tokenize(tokenizer, question, t) for t in texts]
    starts, ends, classes = run([Row(e.ids, e.type_ids, [], [], NOT_HERE) for e in encoded])
    return [
        read(question, starts[i][: len(e.ids)], ends[i][: len(e.ids)], classes[i], e.offsets, texts[i], class_weight)
        for i, e in enumerate(encoded)
    ]


def evaluate(run: Runner, tokenizer, checks: list[tuple[Item, list[Passage]]], class_weight: float = 1.0) -> tuple[dict, list[dict]]:
    """Figures, and one row a hop. `gold_em` reads the gold passage alone."""
    rows = []
    for item, passages in checks:
        reads = readings(run, tokenizer, item.questions[0], passages, class_weight)
        best = max(range(len(reads)), key=lambda i: reads[i].score)
        place = passages.index(item.gold)
        without = [r.score for i, r in enumerate(reads) if not find(item.answers, shown(passages[i]))]
        rows.append({
            "kind": item.kind, "question": item.questions[0], "answers": item.answers, "guess": reads[best].text,
            "em": exact(reads[best].text, item.answers), "f1": f1(reads[best].text, item.answers),
            "gold_em": exact(reads[place].text, item.answers), "right_passage": best == place,
            "score": reads[best].score, "score_without": max(without, default=None),
        })
    return summary(rows), rows


def summary(rows: list[dict]) -> dict:
    def mean(name: str, some: list[dict]) -> float:
        return round(sum(r[name] for r in some) / max(1, len(some)), 4)

    figures = {"hops": len(rows)} | {n: mean(n, rows) for n in ("em", "f1", "gold_em", "right_passage")}
    for source in sorted({r["kind"].split("/")[0] for r in rows}):
        some = [r for r in rows if r["kind"].startswith(f"{source}/")]
        figures |= {f"{source}_hops": len(some), f"{source}_em": mean("em", some), f"{source}_f1": mean("f1", some)}
    return figures


def calibrate(rows: list[dict]) -> dict[str, float]:
    """Platt scaling (1999): confidence = sigmoid(scale * score + shift), fitted by Newton's method.

    Right answers count as right; wrong ones and the best reading of pools without any answer as wrong.
    """
    points = [(r["score"], float(r["em"])) for r in rows]
    points += [(r["score_without"], 0.0) for r in rows if r["score_without"] is not None]
    x = np.array([[s, 1.0] for s, _ in points])
    y = np.array([t for _, t in points])
    w = np.zeros(2)
    for _ in range(50):
        p = 1 / (1 + np.exp(-x @ w))
        hessian = (x * (p * (1 - p))[:, None]).T @ x + 1e-3 * np.eye(2)
        w += np.linalg.solve(hessian, x.T @ (y - p) - 1e-3 * w)
    p = 1 / (1 + np.exp(-x @ w))
    bins = np.clip((p * 10).astype(int), 0, 9)
    error = sum(abs(p[bins == b].mean() - y[bins == b].mean()) * (bins == b).mean() for b in set(bins))
    return {"scale": float(w[0]), "shift": float(w[1]), "expected_calibration_error": round(float(error), 4), "points": len(y)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--datasets", type=Path, default=Path("datasets"))
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True, help="an exported ONNX file")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--class-weight", type=float, default=1.0)
    parser.add_argument("--limit", type=int, default=None)
    parser.add_argument("--untrained", action="store_true", help="hops of DATASETS/untrained.json, validation among them")
    parser.add_argument("--together", action="store_true", help="the passages of a hop in one run, padded to the longest")
    parser.add_argument("--report", type=Path, help="JSON with the figures and every row")
    args = parser.parse_args()
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(args.encoder / "tokenizer.json"))
    if args.untrained:
        named = json.loads((args.datasets / "untrained.json").read_text())
        ids = {one for lists in named.values() for some in lists.values() for one in some}
        questions = [q for q in load_questions(args.data)[0] if q.id in ids]
    else:
        questions = make_split(args.data, args.datasets, args.seed).validation
    checks = pools(questions, Corpus(args.data))[: args.limit]
    run = onnx_runner(args.model, args.threads, args.together)
    figures, rows = evaluate(run, tokenizer, checks, args.class_weight)
    figures["calibration"] = calibrate(rows)
    print(json.dumps(figures, indent=1))
    if args.report:
        args.report.write_text(json.dumps({"figures": figures, "rows": rows}, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
