"""A question with its known hops as one text, and which parts of it are to be learnt.

The format (FORMAT.md has it byte for byte) grows only at its end, so one pass over a whole
trajectory trains every step of it at once, and at run time each prompt is the previous prompt
plus what was written and found: the KV cache is always reusable.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from .records import Question, normal
from .values import canonical_country, earlier, parse_date
from .wording import ask, wordings

ARROW = " =>"
NO_INFO = "No relevant information found"
UNKNOWN = "unknown"
OPEN = "the answer of sub-question {n}"  # plan-ahead's stand-in; n counts from 1
DATES = {"date of birth", "date of death", "publication date", "inception"}
COUNTRY_RELATIONS = {"country of citizenship", "country", "country of origin"}


@dataclass
class Trajectory:
    """`segments` joined are the text; each carries the weight of its tokens in the loss."""

    segments: list[tuple[str, float]]
    kind: str = ""

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.segments)


def opening(question: str) -> str:
    return f"Question: {question}\n"


def found(answer: str) -> str:
    """What follows a sub-question once its answer is known."""
    return f" {answer}\n"


def final(answer: str) -> str:
    kept = answer.rstrip(" ,;")
    return f"Answer: {kept}\n"


def comparison(q: Question, shown: list[str], answer: str) -> str:
    """The planner's note to itself before it answers a comparison, or nothing.

    Without it, models of this size compare dates at chance: which answer is right depends on the
    order of the dates and on the wording ("older", "later"), and neither alone tells anything. The
    note takes the two apart: first what is asked for, from the wording alone; then that date, for
    which "first" prefers the smaller digit and "last" the larger; then whose date it is. Tried and left:
    "1848 < 1990" and "1848 A < 1990 B; last", where the pick at the end stayed at chance. Days and months
    appear when the years are equal.
    """
    ends = leaves(q)
    relations = {q.hops[i].relation for i in ends}
    if len(ends) != 2 or len(relations) != 1:
        return ""
    left, right = (shown[i] for i in ends)
    if answer in ("yes", "no"):
        if not relations <= COUNTRY_RELATIONS:
            return ""
        return f"Compare: {left} / {right}: {'same' if answer == 'yes' else 'different'}\n"
    a, b = parse_date(left), parse_date(right)
    if not relations <= DATES or a is None or b is None or earlier(a, b) is None:
        return ""
    parts = 1 if a[0] != b[0] else 3
    chosen = ends[0] if normal(side_of(q, ends[0])) == normal(answer) else ends[1]
    date = a if chosen == ends[0] else b
    wanted = "first" if (chosen == ends[0]) == earlier(a, b) else "last"
    return f"Compare: {wanted} {_iso(date, parts)} {_subject(q, chosen, shown)}\n"


def _iso(date: tuple[int, int, int], parts: int) -> str:
    """Year, or year-month-day as far as known; four digits, so that text order is time order."""
    known = [n for n in date[:parts] if n]
    return "-".join([f"{known[0]:04d}", *(f"{n:02d}" for n in known[1:])])


def _subject(q: Question, index: int, shown: list[str]) -> str:
    hop = q.hops[index]
    return (hop.subject if hop.ref is None else shown[hop.ref]) or ""


@dataclass
class Options:
    """How much a training trajectory deviates from the gold one. All zero: the gold one."""

    paraphrase: float = 0.0  # an earlier line in another wording, not learnt
    no_info: float = 0.0  # a look-up that found nothing
    open: float = 0.0  # the whole trajectory goes on past one answer that is not known yet
    answer_weight: float = 1.0


def build(q: Question, known: list[str], answer: str, opts: Options, rng: random.Random) -> Trajectory:
    """Writes the trajectory. `known` holds one displayed answer per hop."""
    segments: list[tuple[str, float]] = [(opening(q.text), 0.0)]
    compares = q.kind in ("comparison", "bridge_comparison")
    shown = list(known)
    lost: set[int] = set()
    left_open = rng.randrange(len(q.hops)) if rng.random() < opts.open else None
    for i, hop in enumerate(q.hops):
        if any(r in lost for r in hop.refs()):
            # Its subject was never found: an agent cannot ask it.
            if not compares:
                break
            lost.add(i)
            continue
        if i == left_open:
            shown[i] = OPEN.format(n=i + 1)
        line = ask(hop, q.text, shown)
        ways = wordings(hop)
        if i != left_open and opts.no_info and rng.random() < opts.no_info and ways > 1:
            segments += [(line + ARROW, 1.0), (found(NO_INFO), 0.0)]
            # Once more in other words, then without.
            line = ask(hop, q.text, shown, 1)
            segments.append((line + ARROW, 1.0))
            if rng.random() < 0.5:
                segments.append((found(NO_INFO), 0.0))
                lost.add(i)
                if not compares:
                    break
                continue
        elif ways > 1 and rng.random() < opts.paraphrase:
            line = ask(hop, q.text, shown, rng.randrange(1, ways))
            segments.append((line + ARROW, 0.0))
        else:
            segments.append((line + ARROW, 1.0))
        segments.append((found(shown[i]), 0.0))
    if left_open is not None:
        # Nothing can be concluded before that answer is in; what to ask next can.
        return Trajectory(segments, q.kind)
    if lost:
        answer = _guess(q, lost, answer) if compares else UNKNOWN
    note = comparison(q, shown, answer) if compares and not lost else ""
    segments.append((note + final(answer), opts.answer_weight if compares and not lost else 1.0))
    return Trajectory(segments, q.kind)


def _guess(q: Question, lost: set[int], answer: str) -> str:
    """With half of a comparison missing: "no", or the side that is known (the first, if none)."""
    if answer in ("yes", "no"):
        return "no"
    roots = [i for i, h in enumerate(q.hops) if h.ref is None]
    sides = list(dict.fromkeys(q.hops[i].subject or "" for i in roots))

    def side(i: int) -> str:
        hop = q.hops[i]
        return side(hop.ref) if hop.ref is not None else hop.subject or ""

    bad = {side(i) for i in lost}
    good = [s for s in sides if s not in bad]
    return (good or sides)[0]


def leaves(q: Question) -> list[int]:
    """The hops whose answers a comparison compares, in the order of the question's sides."""
    if q.kind == "comparison":
        return list(range(len(q.hops)))
    return sorted((2, 3), key=lambda i: q.hops[i].ref or 0)


def operation(q: Question) -> str | None:
    """What a comparison does with its two last answers: "min", "max", "same", or None.

    Read off the gold values, so that answers can be drawn anew and the label stays right. None
    where the gold label does not follow from what is written, or it is no plain comparison.
    """
    if q.kind not in ("comparison", "bridge_comparison"):
        return None
    ends = leaves(q)
    if len(ends) != 2:
        return None
    a, b = (q.hops[i] for i in ends)
    if a.relation != b.relation:
        return None
    if q.answer in ("yes", "no"):
        if a.relation not in COUNTRY_RELATIONS:
            return None
        left, right = ({canonical_country(v) for v in h.answers} for h in (a, b))
        return "same" if bool(left & right) == (q.answer == "yes") else None
    if a.relation not in DATES:
        return None
    first, second = parse_date(a.answers[0]), parse_date(b.answers[0])
    if not first or not second or earlier(first, second) is None:
        return None
    chosen_first = normal(side_of(q, ends[0])) == normal(q.answer)
    return "min" if chosen_first == earlier(first, second) else "max"


def side_of(q: Question, index: int) -> str:
    """The name in the question that a hop's answer is about."""
    hop = q.hops[index]
    return side_of(q, hop.ref) if hop.ref is not None else hop.subject or ""


def gold(q: Question) -> Trajectory:
    """The plain gold trajectory, for evaluation."""
    return build(q, gold_answers(q), q.answer, Options(), random.Random(0))


def gold_answers(q: Question) -> list[str]:
    """One gold value per hop; where a person has two nationalities, the one that the label rests on."""
    known = [h.answers[0] for h in q.hops]
    if operation(q) == "same" and q.answer == "yes":
        i, j = leaves(q)
        pairs = [(a, b) for a in q.hops[i].answers for b in q.hops[j].answers]
        known[i], known[j] = next(p for p in pairs if canonical_country(p[0]) == canonical_country(p[1]))
    return known
