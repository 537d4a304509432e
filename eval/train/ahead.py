"""Draws made ahead of the training step, by other processes, in the order in which one would make them."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count
from typing import TypeVar

T = TypeVar("T")
# Draws that wait to be used, for each process.
AHEAD = 3
_draw: Callable[[int], object]


def _begin(draw: Callable[[int], object]) -> None:
    global _draw
    _draw = draw


def _one(at: int) -> object:
    return _draw(at)


def ahead(draw: Callable[[int], T], start: int, stride: int, workers: int) -> Iterator[T]:
    """`draw(start)`, `draw(start + stride)` and so on, without end. What is drawn does not depend on `workers`; 0 draws here."""
    places = count(start, stride)
    if not workers:
        yield from map(draw, places)
        return
    # Forked, so that what `draw` knows is shared and not sent.
    with multiprocessing.get_context("fork").Pool(workers, _begin, (draw,)) as pool:
        waiting = deque(pool.apply_async(_one, (next(places),)) for _ in range(AHEAD * workers))
        while True:
            made = waiting.popleft().get()
            waiting.append(pool.apply_async(_one, (next(places),)))
            yield made
