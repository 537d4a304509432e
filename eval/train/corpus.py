"""The passages of both data sets, by title and by BM25."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from .records import normal, read_jsonl, sha256

_WORD = re.compile(r"\w+")
# Okapi BM25 with the constants of Robertson and Zaragoza (2009).
K1, B = 1.2, 0.75


@dataclass(frozen=True)
class Passage:
    title: str
    text: str


class Corpus:
    """All passages once. `search` supplies hard negatives; it is no part of the service."""

    def __init__(self, data: Path) -> None:
        self.hashes: dict[str, str] = {}
        seen: dict[Passage, None] = {}
        for folder in ("2wikimultihopqa", "musique"):
            path = data / folder / "corpus_extended.jsonl"
            self.hashes[f"{folder}/{path.name}"] = sha256(path)
            for raw in read_jsonl(path):
                seen.setdefault(Passage(raw["title"], raw["text"]))
        self.passages = list(seen)
        self.by_title: dict[str, list[Passage]] = defaultdict(list)
        self.postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self.lengths: list[int] = []
        for i, p in enumerate(self.passages):
            self.by_title[normal(p.title)].append(p)
            counts = Counter(_words(f"{p.title} {p.text}"))
            self.lengths.append(sum(counts.values()))
            for word, n in counts.items():
                self.postings[word].append((i, n))
        self.mean_length = sum(self.lengths) / len(self.lengths)

    def search(self, query: str, limit: int) -> list[Passage]:
        """Best first; ties by position, so the result never varies."""
        scores: dict[int, float] = defaultdict(float)
        for word in set(_words(query)):
            found = self.postings.get(word, [])
            # A word of every tenth passage says little and costs most.
            if not found or len(found) > len(self.passages) / 10:
                continue
            idf = math.log(1 + (len(self.passages) - len(found) + 0.5) / (len(found) + 0.5))
            for i, n in found:
                norm = K1 * (1 - B + B * self.lengths[i] / self.mean_length)
                scores[i] += idf * n * (K1 + 1) / (n + norm)
        best = sorted(scores, key=lambda i: (-scores[i], i))[:limit]
        return [self.passages[i] for i in best]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
