#!/usr/bin/env python3
"""Samples the pairs of aliases.jsonl from the original MuSiQue and 2WikiMultihopQA records.

    make_aliases.py DATA > aliases.jsonl

DATA holds the folders `musique` and `2wikimultihopqa` with their `*questions.jsonl` and
`corpus_extended.jsonl`. Deterministic: the same data and seed give the same bytes. Every pair is
judged by where it comes from, never by the verifier that it tests.
"""

import json
import random
import re
import sys
import unicodedata
from collections import defaultdict
from datetime import date, timedelta
from pathlib import Path

SEED = 2605
PER_CLASS = 50
PER_CLASS_NEAR = 220
MONTHS = (
    "January February March April May June July August September October November December"
).split()
TITLES = (
    "sir dr prof general president pope king queen prince princess emperor st saint captain"
).split()
ARTICLES = ("the", "a", "an")
# Two names of one state among the values of a relation are no pair to reject.
STATES = {"us": "united states", "usa": "united states", "russian federation": "russia"}


def fold(text):
    """Lower case, no accents, letters and digits only."""
    text = unicodedata.normalize("NFKD", text.lower())
    text = "".join(c for c in text if not unicodedata.combining(c))
    return re.sub(r"[^\w]+", " ", re.sub(r"['’.]", "", text)).strip()


def words(text):
    """Folded words without the articles at the start."""
    out = fold(text).split()
    while len(out) > 1 and out[0] in ARTICLES:
        out = out[1:]
    return out


def records(folder):
    for name in ("questions", "extra_questions", "goldonly_questions"):
        with open(folder / f"{name}.jsonl", encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)


def alias_class(answer, alias):
    """The kind of difference between an answer and its alias; `beyond` needs to know the world."""
    a, b = words(answer), words(alias)
    if a == b:
        return "spelling"
    if len(a) > len(b):
        a, b, answer, alias = b, a, alias, answer
    if re.fullmatch(re.escape(answer) + r", [A-Z][\w ]+", alias):
        return "region"
    if len(a) > 1 and b[1:] == a and b[0] in TITLES:
        return "title"
    return "beyond"


def parse_date(text):
    """A full date in one of the two writings of 2Wiki."""
    found = re.fullmatch(r"(\d{1,2}) (\w+) (\d{4})", text)
    if found:
        day, month, year = found.groups()
    else:
        found = re.fullmatch(r"(\w+) (\d{1,2}), (\d{4})", text)
        if not found:
            return None
        month, day, year = found.groups()
    try:
        return date(int(year), MONTHS.index(month) + 1, int(day))
    except ValueError:
        return None


def writings(day):
    """The usual writings of a day."""
    month = MONTHS[day.month - 1]
    end = "th" if 10 < day.day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    return [
        f"{day.day} {month} {day.year}",
        f"{month} {day.day}, {day.year}",
        f"{day.day}{end} of {month} {day.year}",
        f"{month} {day.day}{end}, {day.year}",
        f"{day.year:04}-{day.month:02}-{day.day:02}",
        f"{day.day} {month[:3]} {day.year}",
    ]


def without_accents(text):
    text = unicodedata.normalize("NFKD", text)
    return "".join(c for c in text if not unicodedata.combining(c))


class Pairs:
    """Pairs by class, each once; a class is sampled when all of it is known."""

    def __init__(self):
        self.classes = defaultdict(dict)

    def add(self, kind, accept, source, record, observed, guess):
        if observed != guess:
            self.classes[(accept, kind)].setdefault((observed, guess), (source, record))

    def sampled(self, rng):
        for (accept, kind), pairs in sorted(self.classes.items()):
            pairs = sorted(pairs.items())
            most = PER_CLASS_NEAR if kind == "near_title" else PER_CLASS
            if len(pairs) > most:
                pairs = sorted(rng.sample(pairs, most))
            for (observed, guess), (source, record) in pairs:
                yield {
                    "observed": observed,
                    "guess": guess,
                    "accept": accept,
                    "class": kind,
                    "source": source,
                    "id": record,
                }


def from_musique(folder, pairs, rng):
    by_kind = defaultdict(set)
    for record in records(folder):
        ident, answer = record["id"], record["answer"]
        for alias in record.get("answer_aliases") or []:
            pairs.add(alias_class(answer, alias), True, "musique", ident, answer, alias)
        hops = [hop["answer"] for hop in record["question_decomposition"]]
        for first, second in zip(hops, hops[1:]):
            if not set(words(first)) & set(words(second)):
                pairs.add("other_hop", False, "musique", ident, first, second)
        for hop in record["question_decomposition"]:
            relation = hop["question"].rpartition(">> ")[2] if ">>" in hop["question"] else ""
            if relation:
                by_kind[relation].add((hop["answer"], ident))
            number = hop["answer"]
            if re.fullmatch(r"\d{1,3}(,\d{3})+", number):
                plain = number.replace(",", "")
                pairs.add("number", True, "musique", ident, number, plain)
                pairs.add("other_number", False, "musique", ident, number, f"{int(plain) + 1:,}")
            if re.fullmatch(r"[12]\d{3}", number):
                pairs.add("other_year", False, "musique", ident, number, str(int(number) + 1))
                pairs.add("wrapped", True, "musique", ident, number, f"It was in {number}.")
    same_relation(by_kind, pairs, "musique", rng)


def from_2wiki(folder, pairs, rng):
    by_relation = defaultdict(set)
    for record in records(folder):
        ident, answer = record["_id"], record["answer"]
        for subject, relation, value in record["evidences"]:
            day = parse_date(value)
            if day:
                other = rng.choice([w for w in writings(day) if w != value])
                pairs.add("date", True, "2wiki", ident, value, other)
                wrong = day + timedelta(days=rng.choice([-1, 1, 31, -31, 365, 3653]))
                pairs.add("other_date", False, "2wiki", ident, value, rng.choice(writings(wrong)))
                pairs.add("less_exact", False, "2wiki", ident, value, str(day.year))
                pairs.add("more_exact", False, "2wiki", ident, str(day.year), value)
            else:
                by_relation[relation].add((value, ident))
            plain = without_accents(value)
            pairs.add("accents", True, "2wiki", ident, value, plain)
        if len(words(answer)) > 1 and not answer.lower().startswith(("no", "yes")):
            wrapped = rng.choice(["The answer is {}.", "It was {}.", "{}.", "Answer: {}"])
            pairs.add("wrapped", True, "2wiki", ident, answer, wrapped.format(answer))
        for title, _ in record["supporting_facts"]:
            base = re.sub(r" \([^()\d]+\)$", "", title)
            if base != title:
                pairs.add("disambiguation", True, "2wiki", ident, base, title)
            if fold(title) == fold(answer):
                pairs.add("spelling", True, "2wiki", ident, answer, title)
    same_relation(by_relation, pairs, "2wiki", rng)


def same_relation(by_relation, pairs, source, rng):
    """Two values of one relation, which would be guessed for each other."""
    for relation, values in sorted(by_relation.items()):
        values = sorted(values)
        for value, ident in values:
            other, _ = rng.choice(values)
            a, b = words(value), words(other)
            # The aliases above show how a value and a longer writing of it look.
            a, b = (set(STATES.get(" ".join(name), " ".join(name)).split()) for name in (a, b))
            if not a <= b and not b <= a:
                pairs.add("same_relation", False, source, ident, value, other)


def near_titles(folder, source, pairs):
    """Titles of different pages that have most words in common."""
    holders = defaultdict(list)
    titles = {}
    with open(folder / "corpus_extended.jsonl", encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            base = re.sub(r" \([^()]*\)$", "", record["title"])
            titles.setdefault(" ".join(words(base)), (base, record["id"]))
    for key in sorted(titles):
        for word in set(key.split()):
            holders[word].append(key)
    for key in sorted(titles):
        mine = set(key.split())
        rare = min(mine, key=lambda word: (len(holders[word]), word), default=None)
        for other in holders.get(rare, []):
            theirs = set(other.split())
            shared = len(mine & theirs) / len(mine | theirs)
            base, ident = titles[key]
            # A page of the bare name beside one of the same name and a region: see `region`.
            region = base.split(",")[0] == titles[other][0].split(",")[0]
            if other != key and shared >= 0.5 and not region:
                pairs.add("near_title", False, source, ident, base, titles[other][0])


def main():
    data = Path(sys.argv[1])
    rng = random.Random(SEED)
    pairs = Pairs()
    from_musique(data / "musique", pairs, rng)
    from_2wiki(data / "2wikimultihopqa", pairs, rng)
    near_titles(data / "musique", "musique", pairs)
    near_titles(data / "2wikimultihopqa", "2wiki", pairs)
    for pair in pairs.sampled(rng):
        print(json.dumps(pair, ensure_ascii=False))


if __name__ == "__main__":
    main()
