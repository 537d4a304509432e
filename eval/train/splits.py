"""Train and validation, without a gold title or gold hop in common.

Random splits of multi-hop data leak: MuSiQue uses one single-hop question in many multi-hop ones.
So validation questions are drawn in the order of a seeded hash, and every training question that
shares a title or a hop with them is dropped, as is everything that shares one with the questions
the repository ships for evaluation.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from .records import Question, evaluated, load_questions, normal, shipped

# Per group: questions wanted, and how many others a candidate may share a key with (each of those
# is lost to training). Long MuSiQue questions are made of widely shared hops, hence their limit.
VALIDATION = {"2wiki": (240, 4), "musique-2hop": (100, 4), "musique-long": (30, 12)}


@dataclass
class Split:
    train: list[Question]
    validation: list[Question]
    data_hashes: dict[str, str]
    dropped: int

    def as_json(self, seed: int) -> dict:
        ids = {n: sorted(q.id for q in getattr(self, n)) for n in ("train", "validation")}
        digest = hashlib.sha256(json.dumps(ids, sort_keys=True).encode()).hexdigest()
        return {"seed": seed, "sha256": digest, "dropped": self.dropped, **ids}


def _group(question: Question) -> str:
    if question.source == "2wiki":
        return "2wiki"
    return "musique-2hop" if question.kind == "2hop" else "musique-long"


def _rank(seed: int, question: Question) -> str:
    return hashlib.sha256(f"{seed}:{question.id}".encode()).hexdigest()


def make_split(data: Path, datasets: Path, seed: int) -> Split:
    """The same files and seed give the same split, whatever the order of the lines."""
    questions, hashes = load_questions(data)
    held_ids, held_texts, held_keys = shipped(datasets)
    usable = [
        q
        for q in questions
        if q.id not in held_ids and normal(q.text) not in held_texts and not q.keys & held_keys
    ]
    by_key: dict[str, set[str]] = defaultdict(set)
    for q in usable:
        for key in q.keys:
            by_key[key].add(q.id)
    wanted = Counter({group: count for group, (count, _) in VALIDATION.items()})
    taken, blocked = [], set()
    for q in sorted(usable, key=lambda q: _rank(seed, q)):
        neighbours = set().union(*(by_key[k] for k in q.keys)) - {q.id}
        group = _group(q)
        if wanted[group] > 0 and len(neighbours) <= VALIDATION[group][1] and q.text.endswith("?"):
            wanted[group] -= 1
            taken.append(q)
            blocked |= q.keys
    taken_ids = {q.id for q in taken}
    train = [q for q in usable if q.id not in taken_ids and not q.keys & blocked]
    train.sort(key=lambda q: q.id)
    return Split(train, taken, hashes, len(questions) - len(train) - len(taken))


def refuse_evaluated(split: Split, datasets: Path) -> None:
    """Exits if a training question is one that figures are made of."""
    leaked = {q.id for q in split.train} & evaluated(datasets)
    if leaked:
        sys.exit(f"{len(leaked)} training questions are used for figures, {min(leaked)} among them: see datasets/README.md")
