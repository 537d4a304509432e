"""Keeps the generated questions that two readers answer alike.

`python -m train.questions_keep --encoder E5_FOLDER --raw raw.jsonl.gz --readers A/reader.pt B/reader.pt --out FILE`.
As with QAMR's three people: the question's writer and one reader mark the same words of the passage, and the
other reader's overlap with them. Neither reader was trained on such questions. Those that kept the shipped ones are
of one lineage: the fourth training began with the third's weights.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import Counter
from pathlib import Path

import torch
from tokenizers import Tokenizer

from .corpus import Passage
from .reader_answer import SPAN_TOKENS_MAX
from .reader_batches import TRAIN_TOKENS_MAX, Row, tensors, tokenize
from .reader_data import SPAN, digest, shown
from .reader_eval import exact, f1
from .reader_model import OUTSIDE, Reader, new_reader
from .records import normal, read_jsonl

QUESTION_WORDS_MAX, ANSWER_WORDS_MAX = 28, 12


def plausible(raw: dict) -> bool:
    """A question of usual length that does not hold its own answer, and an answer that the passage has."""
    question, answer = normal(raw["question"]).split(), normal(raw["answer"])
    return (
        3 <= len(question) <= QUESTION_WORDS_MAX and 0 < len(answer.split()) <= ANSWER_WORDS_MAX
        and f" {answer} " not in f" {' '.join(question)} " and f" {answer} " in f" {normal(raw['text'])} "
    )


@torch.no_grad()
def best_pairs(model: Reader, rows: list[Row], device: str, batch: int = 512) -> list[tuple[int, int]]:
    """First and last token of each row's likeliest span."""
    order = sorted(range(len(rows)), key=lambda i: len(rows[i].ids))
    best: list[tuple[int, int]] = [(0, 0)] * len(rows)
    mixed = torch.autocast(device.split(":")[0], torch.bfloat16)
    for at in range(0, len(order), batch):
        take = order[at : at + batch]
        with mixed:
            starts, ends, _ = model(**tensors([rows[i] for i in take], device))
        behind = torch.nn.functional.pad(ends.float(), (0, SPAN_TOKENS_MAX - 1), value=2 * OUTSIDE).unfold(1, SPAN_TOKENS_MAX, 1)
        places = (starts.float().unsqueeze(-1) + behind).flatten(1).argmax(-1).tolist()
        for i, place in zip(take, places):
            best[i] = (place // SPAN_TOKENS_MAX, place // SPAN_TOKENS_MAX + place % SPAN_TOKENS_MAX)
    return best


def agreed(answer: str, first: str, second: str) -> int | None:
    """Which reader marks the writer's words, if the other's overlap with them."""
    for at, (one, other) in enumerate(((first, second), (second, first))):
        if exact(one, [answer]) and f1(other, [answer]) > 0:
            return at
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--raw", type=Path, required=True)
    parser.add_argument("--readers", type=Path, nargs=2, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(args.encoder / "tokenizer.json"))
    written = read_jsonl(args.raw)
    seen: dict[tuple[str, str], dict] = {}
    for raw in written:
        if plausible(raw):
            seen.setdefault((raw["text"], normal(raw["question"])), raw)
    questions = list(seen.values())
    encoded = [tokenize(tokenizer, q["question"], shown(Passage(q["title"], q["text"])), TRAIN_TOKENS_MAX) for q in questions]
    rows = [Row(e.ids, e.type_ids, [], [], SPAN) for e in encoded]
    offsets = [e.offsets for e in encoded]
    marked = []
    for path in args.readers:
        model = new_reader(args.encoder / "model.onnx", 0)
        model.load_state_dict(torch.load(path, weights_only=True))
        pairs = best_pairs(model.to(args.device).eval(), rows, args.device)
        marked.append([(at[first][0], at[last][1]) for at, (first, last) in zip(offsets, pairs)])
    kept, counts = 0, Counter(written=len(written), plausible=len(questions))
    with gzip.open(args.out, "wt", encoding="utf-8") as out:
        for q, spans in zip(questions, zip(*marked)):
            passage = Passage(q["title"], q["text"])
            text = shown(passage)
            which = agreed(q["answer"], *(text[a:b] for a, b in spans))
            if which is not None:
                row = {"passage": digest(passage), "style": q["style"], "question": q["question"], "answer": text[slice(*spans[which])], "span": spans[which]}
                out.write(json.dumps(row, ensure_ascii=False) + "\n")
                counts[f"kept/{q['style']}"] += 1
                kept += 1
    print(json.dumps({**counts, "kept": kept}))


if __name__ == "__main__":
    main()
