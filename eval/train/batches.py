"""Planner trajectories to token batches.

Each segment is tokenised by itself, as the service does when it appends to a running sequence;
segments start at a line break or with one space, so the pieces equal the tokens of the whole text
(checked by `segments_are_stable`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch

from .ahead import ahead
from .augment import Augmenter
from .drills import Drills
from .joins import Joins
from .records import Question
from .trajectories import Trajectory

# Share of each source among the drawn trajectories. Comparisons, which the drills are full of, are slow
# to learn, and MuSiQue's free wording is slower: fifteen hundred questions of it are few, hence the joins.
MIX = {"2wiki": 0.22, "musique": 0.26, "drill": 0.28, "join": 0.24}
LENGTH_MAX = 224


@dataclass
class Encoded:
    ids: list[int]
    weights: list[float]  # of each token as a target
    spans: list[tuple[int, int]]  # of the learnt segments


def encode(tokenizer, trajectory: Trajectory) -> Encoded:
    ids, weights, spans = [], [], []
    for text, weight in trajectory.segments:
        part = tokenizer.encode(text, add_special_tokens=False)
        if weight > 0:
            spans.append((len(ids), len(ids) + len(part)))
        ids += part
        weights += [weight] * len(part)
    return Encoded(ids, weights, spans)


def segments_are_stable(tokenizer, trajectory: Trajectory) -> bool:
    """Whether tokenising piece by piece gives the tokens of the whole."""
    return encode(tokenizer, trajectory).ids == tokenizer.encode(trajectory.text, add_special_tokens=False)


class Drawing(Protocol):
    """Whatever draws texts to train on, reproducibly by index."""

    seed: int

    def draw(self, index: int) -> Trajectory: ...


class Source:
    """Draws mixed training trajectories, reproducibly by index."""

    def __init__(self, train: list[Question], asked: list[str], seed: int) -> None:
        """`asked`: single questions for the joins, beside those of `train`."""
        self.seed = seed
        self.augmenter = Augmenter(train)
        self.drills = Drills(self.augmenter)
        self.joins = Joins(self.augmenter, train, asked)
        self.groups = {s: [q for q in train if q.source == s] for s in ("2wiki", "musique")}

    def draw(self, index: int) -> Trajectory:
        rng = random.Random(f"{self.seed}:{index}")
        source = rng.choices(list(MIX), list(MIX.values()))[0]
        if source == "drill":
            return self.drills.draw(rng)
        if source == "join":
            return self.joins.draw(rng)
        return self.augmenter.draw(rng.choice(self.groups[source]), rng)


def batches(source: Drawing, tokenizer, tokens: int, start: int, pool: int = 512, workers: int = 0) -> Iterator[tuple[int, list[Encoded]]]:
    """Endless batches of about `tokens` padded tokens; yields the index to resume from as well.

    A pool is sorted by length, cut, and the cuts shuffled: little padding, mixed steps.
    """

    def cuts(at: int) -> tuple[int, list[list[Encoded]]]:
        drawn = [encode(tokenizer, source.draw(i)) for i in range(at, at + pool)]
        drawn = sorted((e for e in drawn if len(e.ids) <= LENGTH_MAX), key=lambda e: len(e.ids))
        made, cut = [], []
        for item in drawn:
            if cut and (len(cut) + 1) * len(item.ids) > tokens:
                made.append(cut)
                cut = []
            cut.append(item)
        if cut:
            made.append(cut)
        random.Random(f"{source.seed}:cuts:{at}").shuffle(made)
        return at + pool, made

    for at, made in ahead(cuts, start, pool, workers):
        for cut in made:
            yield at, cut


def collate(items: list[Encoded], device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Right-padded ids, and target weights that are zero on padding and on what is given.

    No attention mask is needed: padding lies behind everything that is scored, and attention is causal.
    """
    width = max(len(e.ids) for e in items)
    ids = torch.zeros(len(items), width, dtype=torch.long)
    weights = torch.zeros(len(items), width)
    for row, item in enumerate(items):
        ids[row, : len(item.ids)] = torch.tensor(item.ids)
        weights[row, : len(item.ids)] = torch.tensor(item.weights)
    return ids.to(device), weights.to(device)
