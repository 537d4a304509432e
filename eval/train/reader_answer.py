"""From logits to an answer: what the service does with the top passages of a sub-question."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .reader_boundary import PASSED_OVER_MAX, cut, joined, whole_words, with_addition
from .reader_data import NO, NOT_HERE, SPAN, YES

SPAN_TOKENS_MAX = 24
OUTSIDE = -1e4  # the score of a passage that says nothing


@dataclass
class Read:
    """The best reading of one passage."""

    text: str
    score: float  # start + end logits + how sure the class head is of a span
    label: int  # SPAN, YES or NO


def best_spans(start: np.ndarray, end: np.ndarray) -> Iterator[tuple[int, int, float]]:
    """Pairs with start <= end < start + SPAN_TOKENS_MAX, the highest start + end first."""
    n = len(start)
    pair = start[:, None] + end[None, :]
    allowed = np.triu(np.ones((n, n), dtype=bool)) & ~np.triu(np.ones((n, n), dtype=bool), SPAN_TOKENS_MAX)
    pair = np.where(allowed, pair, -np.inf)
    for at in np.argsort(-pair, axis=None, kind="stable")[: PASSED_OVER_MAX]:
        i, j = np.unravel_index(int(at), pair.shape)
        yield int(i), int(j), float(pair[i, j])


def log_softmax(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64) - x.max()
    return x - math.log(np.exp(x).sum())


def read(
    question: str, start: np.ndarray, end: np.ndarray, classes: np.ndarray, offsets: list[tuple[int, int]], passage: str,
    class_weight: float = 1.0,
) -> Read:
    """One passage's reading. `offsets` are characters of the passage, one pair a token."""
    log_p = log_softmax(classes)
    odds = class_weight * float(np.logaddexp.reduce(log_p[[SPAN, YES, NO]]) - log_p[NOT_HERE])
    label = int(np.argmax(log_p[[SPAN, YES, NO]]))
    for i, j, score in best_spans(start, end):
        if label != SPAN:
            return Read("yes" if label == YES else "no", score + odds, label)
        if not np.isfinite(score):
            break
        first, past = whole_words(passage, offsets[i][0], offsets[j][1])
        text = cut(question, with_addition(question, passage[first:], past - first))
        if text is not None:
            return Read(joined(text), score + odds, label)
    return Read("", OUTSIDE, label)


def confidence(score: float, scale: float, shift: float) -> float:
    """Probability that the best reading is right, by Platt scaling on validation hops."""
    return 1 / (1 + math.exp(min(-(scale * score + shift), 700)))


def counts(confidences: list[float], enough: float | None = None) -> int:
    """Which passage's reading is the answer: the first that is sure enough, else the surest. Those behind it are not read."""
    for at, sure in enumerate(confidences):
        if enough is not None and sure >= enough:
            return at
    return max(range(len(confidences)), key=confidences.__getitem__)
