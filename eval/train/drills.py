"""Generated questions where the real ones are too few: comparisons, and chains of two and three hops.

All wordings are ours; names and values come from the augmenter's pools. Ten thousands can be
drawn without a repetition.
"""

from __future__ import annotations

import random

from .augment import Augmenter, OPTIONS
from .records import Hop, Question
from .trajectories import Trajectory, build

# Question forms by (relation, operation). {a} and {b} are the two sides.
_PEOPLE = {
    ("date of birth", "min"): [
        "Who is older, {a} or {b}?", "Who was born first, {a} or {b}?", "Who was born earlier, {a} or {b}?",
        "Was {a} or {b} born first?", "Which of {a} and {b} is older?", "Is {a} or {b} the older one?",
        "Who came into the world first, {a} or {b}?", "Of {a} and {b}, who is the elder?",
    ],
    ("date of birth", "max"): [
        "Who is younger, {a} or {b}?", "Who was born later, {a} or {b}?", "Was {a} or {b} born later?",
        "Which of {a} and {b} is younger?", "Who was born more recently, {a} or {b}?",
    ],
    ("date of death", "min"): [
        "Who died first, {a} or {b}?", "Who died earlier, {a} or {b}?", "Did {a} or {b} die first?",
    ],
    ("date of death", "max"): [
        "Who died later, {a} or {b}?", "Did {a} or {b} die later?", "Who died more recently, {a} or {b}?",
    ],
}
_WORKS = {
    ("publication date", "min"): [
        "Which {k} was released first, {a} or {b}?", "Which {k} came out first, {a} or {b}?",
        "Which {k} is older, {a} or {b}?", "Which {k} was released earlier, {a} or {b}?",
    ],
    ("publication date", "max"): [
        "Which {k} was released more recently, {a} or {b}?", "Which {k} came out later, {a} or {b}?",
        "Which {k} is newer, {a} or {b}?", "Which {k} was released later, {a} or {b}?",
    ],
}
_BRIDGES = {
    ("date of birth", "min"): [
        "Which film has the director who is older, {a} or {b}?", "Which film's director was born first, {a} or {b}?",
        "Which film has the director born earlier, {a} or {b}?",
    ],
    ("date of birth", "max"): [
        "Which film has the director who is younger, {a} or {b}?", "Which film has the director born later, {a} or {b}?",
    ],
    ("date of death", "min"): [
        "Which film has the director who died first, {a} or {b}?", "Which film whose director died earlier, {a} or {b}?",
    ],
    ("date of death", "max"): ["Which film has the director who died later, {a} or {b}?"],
    ("country of citizenship", "same"): [
        "Do the directors of films {a} and {b} have the same nationality?",
        "Are the directors of {a} and {b} from the same country?",
    ],
}
_SAME = {
    "country of citizenship": [
        "Are {a} and {b} of the same nationality?", "Do {a} and {b} share the same nationality?",
        "Were {a} and {b} from the same country?", "Do {a} and {b} come from the same country?",
    ],
    "country": ["Are {a} and {b} located in the same country?", "Are both {a} and {b} in the same country?"],
}
# Noun phrases for the inner relations and questions for the outer ones.
_INNER = {
    "director": ["the director of {k}{x}", "the director of film {x}"],
    "performer": ["the performer of song {x}", "the performer of {k}{x}"],
    "composer": ["the composer of {k}{x}"],
    "father": ["the father of {x}", "{x}'s father"],
    "mother": ["the mother of {x}", "{x}'s mother"],
    "spouse": ["the spouse of {x}", "{x}'s husband", "{x}'s wife"],
    "author": ["the author of {x}", "the writer of {x}"],
    "creator": ["the creator of {x}"],
    "founded by": ["the founder of {x}"],
    "producer": ["the producer of {x}"],
}
_OUTER = {
    "place of birth": ["Where was {p} born?", "What is the birthplace of {p}?", "In which city was {p} born?"],
    "place of death": ["Where did {p} die?", "What is the place of death of {p}?"],
    "date of birth": ["When was {p} born?", "What is the date of birth of {p}?"],
    "date of death": ["When did {p} die?", "What is the date of death of {p}?"],
    "country of citizenship": ["What nationality is {p}?", "Which country is {p} from?", "What is the nationality of {p}?"],
    "father": ["Who is the father of {p}?", "Who is {p}'s father?"],
    "mother": ["Who is the mother of {p}?", "Who is {p}'s mother?"],
    "spouse": ["Who is the spouse of {p}?", "Who is {p} married to?"],
    "educated at": ["Where did {p} study?", "Where was {p} educated?"],
    "employer": ["Where does {p} work?"],
    "award received": ["What award did {p} win?"],
    "cause of death": ["Why did {p} die?", "What was the cause of death of {p}?"],
    "place of burial": ["Where is {p} buried?"],
    "sibling": ["Who is the sibling of {p}?", "Who is the brother of {p}?", "Who is {p}'s sister?", "Who is {p}'s brother?", "Who was the sister of {p}?"],
    "child": ["Who is the child of {p}?", "Who is the son of {p}?", "Who is {p}'s daughter?"],
}
# 2WikiMultihopQA goes from a sibling that it asks for to a parent's child, so that the nearer way is forgotten without these.
_OFTEN = {"sibling": 3, "child": 2}
_KIN = {
    ("father", "father"): "paternal grandfather", ("father", "mother"): "paternal grandmother",
    ("mother", "father"): "maternal grandfather", ("mother", "mother"): "maternal grandmother",
    ("spouse", "father"): "father-in-law", ("spouse", "mother"): "mother-in-law",
    ("father", "sibling"): "uncle", ("mother", "sibling"): "aunt", ("child", "spouse"): "child-in-law",
    ("spouse", "sibling"): "sibling-in-law", ("child", "child"): "grandchild",
}


class Drills:
    """Draws one generated trajectory at a time."""

    def __init__(self, pools: Augmenter) -> None:
        self.pools = pools
        self.works = [m for (r, _), names in pools.subjects.items() if r == "director" for m in names]
        self.places = [m for (r, _), names in pools.subjects.items() if r == "country" for m in names]

    def draw(self, rng: random.Random) -> Trajectory:
        roll = rng.random()
        if roll < 0.60:
            return self.comparison(rng)
        return self.kin(rng) if roll < 0.70 else self.chain(rng)

    def comparison(self, rng: random.Random) -> Trajectory:
        roll = rng.random()
        if roll < 0.38:
            (relation, op), forms = rng.choice(list(_PEOPLE.items()))
            a, b = self.pools.person(rng), self.pools.person(rng)
        elif roll < 0.65:
            (relation, op), forms = rng.choice(list(_WORKS.items()))
            a, b = rng.choice(self.works), rng.choice(self.works)
        elif roll < 0.71:
            relation, op = rng.choice(list(_SAME)), "same"
            forms, pool = _SAME[relation], self.places if relation == "country" else self.pools.people
            a, b = rng.choice(pool), rng.choice(pool)
        else:
            return self.bridge(rng)
        if a == b:
            return self.comparison(rng)
        kind = rng.choice(["film", "film", "film", "song", "album", "book"])
        text = rng.choice(forms).replace("{k}", kind).replace("{a}", a).replace("{b}", b)
        q = Question("drill", "drill", "comparison", text, "", [Hop([], a, None, relation), Hop([], b, None, relation)])
        return self._finish(q, op, rng)

    def bridge(self, rng: random.Random) -> Trajectory:
        (relation, op), forms = rng.choice(list(_BRIDGES.items()))
        a, b = rng.sample(self.works, 2)
        if a == b:
            return self.bridge(rng)
        text = rng.choice(forms).replace("{a}", a).replace("{b}", b)
        hops = [Hop([], a, None, "director"), Hop([], b, None, "director"), Hop([], None, 0, relation), Hop([], None, 1, relation)]
        return self._finish(Question("drill", "drill", "bridge_comparison", text, "", hops), op, rng)

    def _finish(self, q: Question, op: str, rng: random.Random) -> Trajectory:
        first, second, answer = self.pools._compare(q, op, rng)
        known = [first, second]
        if q.kind == "bridge_comparison":
            known = [self.pools.person(rng), self.pools.person(rng), first, second]
        return build(q, known, answer, OPTIONS, rng)

    def kin(self, rng: random.Random) -> Trajectory:
        (one, two), name = rng.choice(list(_KIN.items()))
        x = self.pools.person(rng)
        text = rng.choice([f"Who is the {name} of {x}?", f"Who is {x}'s {name}?", f"Who was the {name} of {x}?"])
        return self._chain(text, x, [one, two], rng)

    def chain(self, rng: random.Random) -> Trajectory:
        """"Where was the father of the director of X born?": two hops, sometimes three."""
        inner = rng.choice(list(_INNER))
        pool = self.works if inner not in ("father", "mother", "spouse", "sibling", "child") else None
        x = rng.choice(pool) if pool else self.pools.person(rng)
        kind = rng.choice(["", "film "]) if inner in ("director", "composer") else ""
        phrase = rng.choice(_INNER[inner]).replace("{k}", kind).replace("{x}", x)
        relations = [inner]
        if rng.random() < 0.3:
            middle = rng.choice(["father", "mother", "spouse"])
            phrase = rng.choice(_INNER[middle]).replace("{x}", phrase)
            relations.append(middle)
        outer = rng.choices(list(_OUTER), [_OFTEN.get(relation, 1) for relation in _OUTER])[0]
        return self._chain(rng.choice(_OUTER[outer]).replace("{p}", phrase), x, [*relations, outer], rng)

    def _chain(self, text: str, x: str, relations: list[str], rng: random.Random) -> Trajectory:
        hops = [Hop([], x if i == 0 else None, None if i == 0 else i - 1, r) for i, r in enumerate(relations)]
        known = [self.pools.value(h, rng) for h in hops]
        kind = "inference" if len(hops) == 2 else "chain"
        return build(Question("drill", "drill", kind, text, known[-1], hops), known, known[-1], OPTIONS, rng)
