"""New training trajectories from old questions: names, values and spellings are drawn anew.

The planner must learn the form of a question and never its facts, so most trajectories carry
entities that do not belong together. Values are swapped within their kind (a director for a
director); the label of a comparison is computed from the new values.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from dataclasses import replace

from .records import Hop, Question
from .trajectories import (
    COUNTRY_RELATIONS, DATES, Options, Trajectory, build, leaves, operation, side_of,
)
from .values import COUNTRIES, date_pair, earlier, parse_date, random_date, spell_country, spell_date
from .wording import kind_noun

PERSONS = {
    "director", "father", "mother", "spouse", "sibling", "child", "performer", "composer", "producer",
    "author", "creator", "screenwriter", "founded by", "editor", "presenter", "student of",
}
OPTIONS = Options(paraphrase=0.08, no_info=0.035, open=0.06, answer_weight=2.0)


class Augmenter:
    """Holds the pools of names and values; they come from the training questions only."""

    def __init__(self, train: list[Question]) -> None:
        self.subjects: dict[tuple[str, str], list[str]] = defaultdict(list)
        self.values: dict[str, list[str]] = defaultdict(list)
        self.operations = {q.id: operation(q) for q in train}
        for q in train:
            for hop in q.hops:
                self.values[_pool(hop)] += hop.answers
                if hop.subject and hop.relation:
                    self.subjects[_subject_pool(q, hop)].append(hop.subject)
        self.people = self.values["person"]

    def person(self, rng: random.Random) -> str:
        """A known name, or a given name and a surname that never met."""
        name = rng.choice(self.people)
        if rng.random() < 0.3:
            other = rng.choice(self.people)
            if name.count(" ") == 1 and other.count(" ") == 1:
                return f"{name.split()[0]} {other.split()[1]}"
        return name

    def value(self, hop: Hop, rng: random.Random) -> str:
        """A fresh answer of the hop's kind."""
        pool = _pool(hop)
        if pool == "date":
            return spell_date(random_date(rng), rng)
        if pool == "country":
            return spell_country(rng.choice(COUNTRIES)[0], rng)
        if pool == "person":
            return self.person(rng)
        return rng.choice(self.values[pool])

    def draw(self, q: Question, rng: random.Random) -> Trajectory:
        """One trajectory: the question as it is, or with everything replaced."""
        op = self.operations[q.id]
        compares = q.kind in ("comparison", "bridge_comparison")
        if rng.random() < 0.75:
            q = self._rename(q, rng)
        known = [rng.choice(h.answers) for h in q.hops]
        if rng.random() < 0.75:
            for i, hop in enumerate(q.hops):
                # A comparison whose rule is unknown keeps the values that its label rests on.
                if hop.template is None and (not compares or op or i not in leaves(q)):
                    known[i] = self.value(hop, rng)
                elif hop.template is not None:
                    known[i] = self.value(hop, rng)
        answer = q.answer
        if compares and op:
            first, second = leaves(q)
            known[first], known[second], answer = self._compare(q, op, rng)
        else:
            known = [_spelling(h, v, rng) for h, v in zip(q.hops, known)]
            if not compares:
                answer = known[-1]
        return build(q, known, answer, OPTIONS, rng)

    def _compare(self, q: Question, op: str, rng: random.Random) -> tuple[str, str, str]:
        """Two fresh values and the label that follows from them."""
        first, second = leaves(q)
        if op == "same":
            a = rng.choice(COUNTRIES)[0]
            b = a if rng.random() < 0.5 else rng.choice(COUNTRIES)[0]
            return spell_country(a, rng), spell_country(b, rng), "yes" if a == b else "no"
        years_only = q.hops[first].relation == "publication date" and rng.random() < 0.6
        a, b = date_pair(rng, years_only)
        winner = first if (earlier(a, b) is True) == (op == "min") else second
        return spell_date(a, rng), spell_date(b, rng), side_of(q, winner)

    def _rename(self, q: Question, rng: random.Random) -> Question:
        """Replaces the names that the question shows, in the question, its hops and its answer."""
        names = {h.subject: h for h in q.hops if h.subject and h.relation}
        text, answer, new = q.text, q.answer, {}
        for old, hop in names.items():
            pool = self.subjects[_subject_pool(q, hop)]
            # A name inside another word or another name cannot be replaced safely.
            if text.count(old) != 1 or len(pool) < 5:
                return q
            fresh = rng.choice(pool)
            if fresh in new.values() or fresh in text:
                return q
            new[old] = fresh
        for old, fresh in new.items():
            text = text.replace(old, fresh)
            answer = fresh if answer.lower() == old.lower() else answer
        hops = [replace(h, subject=new.get(h.subject, h.subject)) for h in q.hops]
        return replace(q, text=text, answer=answer, hops=hops)


def _pool(hop: Hop) -> str:
    """Which answers may stand in for this hop's."""
    if hop.template is not None:
        word = re.match(r"(who|when|where|how many|what year|which \w+|what \w+)", hop.template.lower())
        return f"template {word[1] if word else 'other'}"
    if hop.relation in DATES:
        return "date"
    if hop.relation in COUNTRY_RELATIONS:
        return "country"
    return "person" if hop.relation in PERSONS else hop.relation or ""


def _subject_pool(q: Question, hop: Hop) -> tuple[str, str]:
    person = hop.relation in {
        "date of birth", "date of death", "father", "mother", "spouse", "sibling", "child",
        "place of birth", "place of death", "country of citizenship", "educated at", "employer",
    }
    return ("person", "") if person else (hop.relation or "", kind_noun(q.text, hop.relation or ""))


def _spelling(hop: Hop, value: str, rng: random.Random) -> str:
    """The value as a reader might have cut it out of a passage."""
    if hop.relation in DATES:
        date = parse_date(value)
        return spell_date(date, rng) if date and rng.random() < 0.5 else value
    if hop.relation and hop.relation.startswith("place of") and ", " in value and rng.random() < 0.2:
        return value.split(", ")[0]
    if rng.random() < 0.01:
        return value + ","
    return value
