"""Questions of two to four hops, joined from single ones as MuSiQue's were.

A question with a slot ("Where was {0} born?") takes another question's noun phrase ("the person who wrote X")
into the slot. Single questions are MuSiQue's hops of the training split, relations in our wordings, and
QAMR's questions. Only the form is to be learnt: names and answers are of the right sort and seldom true.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from dataclasses import dataclass

from .augment import OPTIONS, PERSONS, Augmenter
from .phrases import kind_of, phrases
from .records import Hop, Question
from .trajectories import Trajectory, build
from .wording import WORDINGS, ask, tidy

# Of each relation: what may stand in its slot, what answers it, and how it is said as a phrase.
_RELATIONS: dict[str, tuple[str, str, list[str]]] = {
    "director": ("work", "person", ["the director of {0}", "the person who directed {0}", "{0}'s director"]),
    "performer": ("work", "person", ["the performer of {0}", "the artist who performed {0}", "{0}'s performer", "the singer of {0}"]),
    "composer": ("work", "person", ["the composer of {0}", "the person who composed {0}"]),
    "author": ("work", "person", ["the author of {0}", "the writer of {0}", "the person who wrote {0}"]),
    "creator": ("work", "person", ["the creator of {0}", "the person who created {0}"]),
    "producer": ("work", "person", ["the producer of {0}"]),
    "screenwriter": ("work", "person", ["the screenwriter of {0}"]),
    "cast member": ("work", "person", ["a cast member of {0}", "the star of {0}"]),
    "record label": ("person", "group", ["the record label of {0}", "{0}'s record label", "the label {0} is signed to"]),
    "founded by": ("group", "person", ["the founder of {0}", "the person who founded {0}"]),
    "father": ("person", "person", ["the father of {0}", "{0}'s father"]),
    "mother": ("person", "person", ["the mother of {0}", "{0}'s mother"]),
    "spouse": ("person", "person", ["the spouse of {0}", "{0}'s spouse", "the wife of {0}", "the husband of {0}"]),
    "sibling": ("person", "person", ["the sibling of {0}", "the brother of {0}", "{0}'s sister"]),
    "child": ("person", "person", ["the child of {0}", "{0}'s child", "the son of {0}"]),
    "place of birth": ("person", "place", ["the birthplace of {0}", "{0}'s birthplace", "the city where {0} was born", "the place {0} was born"]),
    "place of death": ("person", "place", ["the place of death of {0}", "the city where {0} died", "the place where {0} died"]),
    "country of citizenship": ("person", "place", ["the country of citizenship of {0}", "{0}'s country of citizenship", "the country {0} is a citizen of"]),
    "educated at": ("person", "group", ["the school {0} attended", "the university where {0} was educated", "{0}'s alma mater", "the institution where {0} studied"]),
    "employer": ("person", "group", ["the employer of {0}", "{0}'s employer", "the company {0} works for"]),
    "member of sports team": ("person", "group", ["the team {0} plays for", "{0}'s team", "the sports team {0} is a member of"]),
    "member of political party": ("person", "group", ["the political party of {0}", "{0}'s party", "the party {0} belongs to"]),
    "country": ("place", "place", ["the country where {0} is located", "the country of {0}", "the country {0} is in"]),
    "located in the administrative territorial entity": ("place", "place", [
        "the county where {0} is located", "the state where {0} is located", "the region {0} is in", "the county {0} is located in",
        "the province where {0} is found", "the district that contains {0}", "the administrative territorial entity of {0}",
    ]),
    "capital": ("place", "place", ["the capital of {0}", "{0}'s capital"]),
    "shares border with": ("place", "place", ["the place that shares a border with {0}", "the county that borders {0}", "the country that shares a border with {0}"]),
    "contains administrative territorial entity": ("place", "place", ["the place in {0}", "the city that shares {0}"]),
    "headquarters location": ("group", "place", ["the city where {0} is headquartered", "the headquarters location of {0}", "{0}'s headquarters"]),
    "location of formation": ("group", "place", ["the city where {0} was formed", "the place where {0} was formed"]),
    "located in or next to body of water": ("place", "place", ["the body of water by {0}", "the body of water next to {0}"]),
    "mouth of the watercourse": ("place", "place", ["the body of water {0} flows into", "the mouth of {0}"]),
    "league": ("group", "group", ["the league {0} plays in", "{0}'s league"]),
    "owned by": ("group", "group", ["the owner of {0}", "the company that owns {0}"]),
    "operator": ("group", "group", ["the operator of {0}"]),
    "manufacturer": ("thing", "group", ["the manufacturer of {0}", "the maker of {0}", "the company that makes {0}"]),
    "developer": ("work", "group", ["the developer of {0}"]),
    "publisher": ("work", "group", ["the publisher of {0}"]),
    "distributed by": ("work", "group", ["the distributor of {0}"]),
    "original broadcaster": ("work", "group", ["the network that aired {0}", "the original network of {0}"]),
    "licensed to broadcast to": ("group", "place", ["the city {0} is licensed to broadcast to", "the town {0} is licensed in"]),
    "named after": ("place", "person", ["the person {0} is named after", "{0}'s namesake"]),
    "notable work": ("person", "work", ["a notable work of {0}", "the notable work of {0}"]),
    "present in work": ("person", "work", ["the work {0} appears in"]),
    "part of": ("thing", "thing", ["what {0} is part of"]),
    "place of burial": ("person", "place", ["the burial place of {0}"]),
    "date of birth": ("person", "date", []), "date of death": ("person", "date", []), "inception": ("group", "date", []),
    "award received": ("person", "thing", []), "cause of death": ("person", "thing", []), "publication date": ("work", "date", []),
    "instrument": ("person", "thing", []), "position held": ("person", "thing", []), "occupation": ("person", "thing", []),
    "continent": ("place", "place", []), "occupant": ("place", "group", []), "winner": ("thing", "person", []),
}
HOPS = {2: 0.25, 3: 0.45, 4: 0.30}
# How often a question's last part is taken from each source.
SOURCES = {"musique": 0.45, "relation": 0.25, "qamr": 0.30}
_NAME = re.compile(r"(?<=\s)(?:the )?[A-Z][\w.&’-]*(?: (?:of |de |the )?[A-Z0-9][\w.&’-]*)*")


@dataclass(frozen=True)
class Piece:
    """A single question. `slots`: the sorts of what stands in {0} and {1}; none for one that names its subject."""

    forms: tuple[str, ...]  # the planner's own first
    phrases: tuple[str, ...]
    slots: tuple[str, ...]
    kind: str
    relation: str | None = None
    subject: str | None = None


class Joins:
    """Draws one joined trajectory at a time."""

    def __init__(self, pools: Augmenter, train: list[Question], asked: list[str]) -> None:
        """`asked`: single questions beside those of `train`."""
        self.pools = pools
        self.values: dict[str, list[str]] = defaultdict(list)
        found = {"musique": _musique(train, self.values), "relation": _relations(train), "qamr": _named(asked)}
        # By what they are good for: (source, sort of the answer) of those with a phrase, source of those that may come last.
        self.inner: dict[tuple[str, str, int], list[Piece]] = defaultdict(list)
        self.last: dict[tuple[str, int], list[Piece]] = defaultdict(list)
        for source, pieces in found.items():
            for piece in pieces:
                if piece.phrases:
                    self.inner[source, piece.kind, len(piece.slots)].append(piece)
                self.last[source, len(piece.slots)].append(piece)

    def draw(self, rng: random.Random) -> Trajectory:
        while True:
            count = rng.choices(list(HOPS), list(HOPS.values()))[0]
            slots = 2 if count > 2 and rng.random() < 0.3 else 1
            pool = self.last[_source(rng), slots]
            hops: list[tuple[Hop, str]] = []
            last = rng.choice(pool) if pool else None
            form = last and self._fill(last, rng.choice(last.forms), count, rng, hops)
            if form:
                break
        known = [self._value(kind, rng) for _, kind in hops]
        text = form[0].upper() + form[1:].rstrip(" ?") + "?"
        question = Question("join", "join", f"join{count}", text, known[-1], [h for h, _ in hops])
        return build(question, known, known[-1], OPTIONS, rng)

    def _fill(self, piece: Piece, form: str, count: int, rng: random.Random, hops: list[tuple[Hop, str]]) -> str | None:
        """The form with phrases of `count - 1` hops in its slots; the hops are appended, its own last."""
        counts = [count - 1] if len(piece.slots) < 2 else _parts(count - 1, rng)
        at = []
        for n, (kind, inner) in enumerate(zip(piece.slots, counts)):
            phrase = self._phrase(kind, inner, rng, hops)
            if phrase is None:
                return None
            # "the largest state in the {0}" has an article already.
            form = re.sub(rf"(?:\b(?:the|a|an) )?\{{{n}\}}", lambda _: phrase, form) if phrase.startswith("the ") else form.replace(f"{{{n}}}", phrase)
            at.append(len(hops) - 1)
        hops.append((_hop(piece, at), piece.kind))
        return form

    def _phrase(self, kind: str, count: int, rng: random.Random, hops: list[tuple[Hop, str]]) -> str | None:
        if kind == "any":
            kind = rng.choices(("person", "place", "group"), (0.5, 0.3, 0.2))[0]
        slots = 0 if count == 1 else 2 if count > 2 and rng.random() < 0.2 else 1
        pool = self.inner[_source(rng), kind, slots]
        if not pool:
            return None
        piece = rng.choice(pool)
        return self._fill(piece, rng.choice(piece.phrases), count, rng, hops)

    def _value(self, kind: str, rng: random.Random) -> str:
        if kind == "person" and rng.random() < 0.6:
            return self.pools.person(rng)
        return rng.choice(self.values[kind] or self.pools.people)


def _source(rng: random.Random) -> str:
    return rng.choices(list(SOURCES), list(SOURCES.values()))[0]


def _parts(count: int, rng: random.Random) -> list[int]:
    first = rng.randint(1, count - 1)
    return [first, count - first]


def _hop(piece: Piece, at: list[int]) -> Hop:
    if piece.relation:
        return Hop([], piece.subject, at[0] if at else None, piece.relation)
    template = piece.forms[0]
    for n, index in enumerate(at):
        template = template.replace(f"{{{n}}}", f"#{index + 1}")
    return Hop([], template=template)


def _sort(hop: Hop) -> str:
    if hop.template is not None:
        return kind_of(hop.template)
    if hop.relation in PERSONS:
        return "person"
    return _RELATIONS.get(hop.relation or "", ("", "thing", []))[1]


def _musique(train: list[Question], values: dict[str, list[str]]) -> list[Piece]:
    """The hops that people worded, once each; fills `values` with the answers of each sort."""
    pieces = {}
    for q in train:
        sorts = [_sort(h) for h in q.hops] if q.source == "musique" else []
        for hop, sort in zip(q.hops, sorts):
            values[sort] += hop.answers
            refs = hop.refs()
            if hop.template is None or len(refs) > 2 or "…" in hop.template:
                continue
            form = tidy(hop.template)
            for n, ref in enumerate(refs):
                form = form.replace(f"#{ref + 1}", f"{{{n}}}")
            kept = () if "'s" in form[-8:] else tuple(phrases(form))
            pieces.setdefault(form, Piece((form,), kept, tuple(sorts[r] for r in refs), sort))
    return list(pieces.values())


def _relations(train: list[Question]) -> list[Piece]:
    """Each relation with a slot, and with every subject that a question of the split names."""
    pieces = []
    for relation, (slot, kind, said) in _RELATIONS.items():
        forms = tuple(f.replace("{k}", "").replace("{x}", "{0}") for f in WORDINGS[relation])
        # Against 390 hops of MuSiQue with a slot; few phrases are of works.
        pieces += (1 if slot == "work" else 12) * [Piece(forms, tuple(said), (slot,), kind, relation)]
    for q in train:
        for hop in q.hops:
            if hop.relation in _RELATIONS and hop.subject and hop.ref is None:
                _, kind, said = _RELATIONS[hop.relation]
                forms = (ask(Hop([], hop.subject, None, hop.relation), "", []),)
                pieces.append(Piece(forms, tuple(p.replace("{0}", hop.subject) for p in said), (), kind, hop.relation, hop.subject))
    return pieces


def _named(asked: list[str]) -> list[Piece]:
    """Questions with a name, as they are and with a slot in its place."""
    pieces = []
    for text in asked:
        if not re.match(r"(?:who|what|which|where|when|how (?:many|old|long|much))\b", text, re.IGNORECASE) or "{" in text:
            continue
        names = [n for n in dict.fromkeys(_NAME.findall(text)) if text.count(n) == 1 and len(n) > 2 and f" de {n}" not in text]
        if not names or len(text.split()) < 4:
            continue
        kind = kind_of(text)
        pieces.append(Piece((text,), tuple(phrases(text)), (), kind))
        open_ = text.replace(names[0], "{0}")
        pieces.append(Piece((open_,), tuple(phrases(open_)), ("any",), kind))
        if len(names) == 2:
            both = open_.replace(names[1], "{1}")
            pieces.append(Piece((both,), tuple(phrases(both)), ("any", "any"), kind))
    return pieces
