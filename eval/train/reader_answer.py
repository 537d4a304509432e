"""From logits to an answer: what the service does with the top passages of a sub-question."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .reader_data import NO, NOT_HERE, SPAN, YES

SPAN_TOKENS_MAX = 24


@dataclass
class Read:
    """The best reading of one passage."""

    text: str
    score: float  # start + end logits + how sure the class head is of a span
    label: int  # SPAN, YES or NO


def best_span(start: np.ndarray, end: np.ndarray) -> tuple[int, int, float]:
    """The highest start + end with start <= end < start + SPAN_TOKENS_MAX."""
    n = len(start)
    pair = start[:, None] + end[None, :]
    allowed = np.triu(np.ones((n, n), dtype=bool)) & ~np.triu(np.ones((n, n), dtype=bool), SPAN_TOKENS_MAX)
    pair = np.where(allowed, pair, -np.inf)
    i, j = np.unravel_index(int(pair.argmax()), pair.shape)
    return int(i), int(j), float(pair[i, j])


def log_softmax(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64) - x.max()
    return x - math.log(np.exp(x).sum())


def read(start: np.ndarray, end: np.ndarray, classes: np.ndarray, offsets: list[tuple[int, int]], passage: str, class_weight: float = 1.0) -> Read:
    """One passage's reading. `offsets` are characters of the passage, one pair a token."""
    log_p = log_softmax(classes)
    odds = float(np.logaddexp.reduce(log_p[[SPAN, YES, NO]]) - log_p[NOT_HERE])
    i, j, score = best_span(start, end)
    label = int(np.argmax(log_p[[SPAN, YES, NO]]))
    text = passage[offsets[i][0] : offsets[j][1]] if label == SPAN else ("yes" if label == YES else "no")
    return Read(text.strip(), score + class_weight * odds, label)


def confidence(score: float, scale: float, shift: float) -> float:
    """Probability that the best reading is right, by Platt scaling on validation hops."""
    return 1 / (1 + math.exp(-(scale * score + shift)))
