"""Reader items from QAMR: people's questions on single sentences, put back among other sentences.

QAMR (Michael et al., arXiv 1711.05885; MIT) has forty questions on a sentence, with the answer marked
by token, by its writer and by two others. Its sentences come without their pages, so a passage is made
around each: its neighbours in the same document, then sentences of a like passage of our corpora. The
reader must find the sentence before the span, and wrong spans of the same passage lie close by.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from .corpus import Corpus, Passage
from .reader_data import Item, find, shown
from .records import normal, sha256

FILES = ("dev.tsv", "test.tsv")
SENTENCES = "wiki-sentences.tsv"
WORDS = (55, 115)  # of a made passage: those of the corpora have about as many
# So many words in a row are a quotation: a sentence that shares them with a closed passage is left out.
SHINGLE = 8

_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "``": '"', "''": '"', "--": "–", "\\/": "/"}
_NO_SPACE_BEFORE = re.compile(r"[,.;:?!%)\]}]|\.\.\.|n't|N'T|'(?:s|S|re|ve|ll|d|m|t)?|’(?:s|re|ve|ll|d|m|t)?")
_NO_SPACE_BEHIND = {"(", "[", "{", "$", "£", "€", "#"}
# What may stand before or behind an answer without being part of it.
_LOOSE = {"a", "an", "the", ",", ".", ";", ":", "``", "''", "'s", "of", "in", "by", "on", "at", "to", "for", "from", "with"}


@dataclass(frozen=True)
class Asked:
    """A question on a sentence, and the tokens (first, last) that answer it."""

    sentence: str
    question: str
    first: int
    last: int


def detokenise(tokens: list[str]) -> tuple[str, list[tuple[int, int]]]:
    """The sentence as one writes it, and the characters of each token."""
    text, places, glued = "", [], True
    for token in tokens:
        word = _BRACKETS.get(token, token.replace("\\/", "/"))
        if not glued and token != "''" and not _NO_SPACE_BEFORE.fullmatch(word):
            text += " "
        places.append((len(text), len(text) + len(word)))
        text += word
        glued = word in _NO_SPACE_BEHIND or token == "``"
    return text, places


def agreed(tokens: list[str], markings: list[str]) -> tuple[int, int] | None:
    """The span that most of the three marked, articles and such at its ends aside; None if they differ.

    The third may disagree about the border, not about the place.
    """
    spans = []
    for marking in markings:
        if not re.fullmatch(r"\d+(?: \d+)*", marking):
            return None
        at = [int(i) for i in marking.split()]
        while at and tokens[at[0]].lower() in _LOOSE:
            at.pop(0)
        while at and tokens[at[-1]].lower() in _LOOSE:
            at.pop()
        # Words with a gap between them are no span of the passage.
        if not at or at != list(range(at[0], at[-1] + 1)):
            return None
        spans.append((at[0], at[-1]))
    best, count = Counter(spans).most_common(1)[0]
    apart = any(a > best[1] or b < best[0] for a, b in spans)
    return None if count < 2 or apart else best


def _lines(file: Path) -> list[str]:
    """Those that are not empty. `splitlines` would cut a sentence that has a line separator of Unicode."""
    return [line for line in file.read_text(encoding="utf-8").split("\n") if line]


def read_sentences(folder: Path) -> dict[str, list[str]]:
    return {name: text.split(" ") for name, text in (line.split("\t", 1) for line in _lines(folder / SENTENCES))}


def read_questions(folder: Path, sentences: dict[str, list[str]]) -> list[Asked]:
    """Those whose answer is agreed upon, each wording of a sentence once."""
    found: dict[tuple[str, str], Asked] = {}
    for name in FILES:
        for line in _lines(folder / name):
            sentence, _, _, _, _, question, answer, *others = line.split("\t")
            span = agreed(sentences[sentence], [answer, *(o.split(":", 1)[1] for o in others)])
            text = " ".join(question.split())
            if span and text.endswith("?"):
                found.setdefault((sentence, normal(text)), Asked(sentence, text, *span))
    return list(found.values())


def _place(sentence: str) -> tuple[int, int]:
    paragraph, number = sentence.rsplit(":", 2)[1:]
    return int(paragraph), int(number)


def _document(sentence: str) -> str:
    return sentence.rsplit(":", 2)[0]


_PROPER = re.compile(r"[A-Z][\w'’.-]+(?: (?:of |de |the )?[A-Z][\w'’.-]+){0,3}")


def topic(texts: list[str]) -> str:
    """What a document speaks of most often: QAMR does not say what its page is called."""
    counts: Counter[str] = Counter()
    for text in texts:
        for m in _PROPER.finditer(text):
            # The first word of a sentence is a capital for another reason.
            if m.start() > 0 or " " in m.group():
                counts[re.sub(r"['’]s$|\.$", "", m.group())] += 1
    best = max(counts.values(), default=0)
    return next((name for name in counts if counts[name] == best), texts[0].split()[0])


def shingles(text: str) -> set[tuple[str, ...]]:
    words = normal(text).split()
    return {tuple(words[i : i + SHINGLE]) for i in range(len(words) - SHINGLE + 1)}


def around(sentence: str, document: list[str], texts: dict[str, str], fill: list[str], rng: random.Random) -> tuple[str, int]:
    """A passage that holds the sentence, and the character where it begins."""
    wanted, parts, at = rng.randint(*WORDS), [texts[sentence]], 0
    here = document.index(sentence)
    before, behind = document[:here][::-1], document[here + 1 :]
    fill = list(fill)
    while sum(len(p.split()) for p in parts) < wanted and (before or behind or fill):
        if before and (rng.random() < 0.5 or not behind):
            part, in_front = texts[before.pop(0)], True
        elif behind:
            part, in_front = texts[behind.pop(0)], False
        else:
            part, in_front = fill.pop(0), rng.random() < 0.5
        parts = [part, *parts] if in_front else [*parts, part]
        at += len(part) + 1 if in_front else 0
    return " ".join(parts), at


def qamr_items(folder: Path, corpus: Corpus, shut: set[Passage], closed: set[str], seed: int) -> list[Item]:
    """Every agreed question with a passage around its sentence. `shut` passages and `closed` titles stay unread."""
    rng = random.Random(f"{seed}:qamr")
    sentences = read_sentences(folder)
    asked: dict[str, list[Asked]] = defaultdict(list)
    for a in read_questions(folder, sentences):
        asked[a.sentence].append(a)
    written = {name: detokenise(tokens) for name, tokens in sentences.items()}
    texts = {name: text for name, (text, _) in written.items()}
    quoted = set().union(*(shingles(shown(p)) for p in shut))
    documents: dict[str, list[str]] = defaultdict(list)
    for name in sorted(sentences, key=lambda s: (_document(s), _place(s))):
        if not shingles(texts[name]) & quoted:
            documents[_document(name)].append(name)
    items = []
    for document in documents.values():
        title = topic([texts[name] for name in document])
        if normal(title) in closed:
            continue
        for name in document:
            if name not in asked:
                continue
            like = [p for p in corpus.search(texts[name], 8) if p not in shut and not shingles(p.text) & shingles(texts[name])]
            for a in asked[name]:
                fill = re.split(r"(?<=[.!?])\s+", rng.choice(like).text) if like else []
                text, at = around(name, document, texts, fill, rng)
                gold = Passage(title, text)
                begins = len(title) + 2 + at
                places = written[name][1]
                span = (begins + places[a.first][0], begins + places[a.last][1])
                answer = shown(gold)[slice(*span)]
                near = [p for p in like if not find([answer], shown(p))]
                items.append(Item([a.question], [answer], gold, near, kind="qamr", span=span))
    return items


def hashes(folder: Path) -> dict[str, str]:
    return {f"qamr/{name}": sha256(folder / name) for name in (*FILES, SENTENCES)}


def named(item: Item) -> bool:
    """Whether the answer is a name, a date or a number, as those of most hops are."""
    return any(c.isupper() or c.isdigit() for c in item.answers[0])
