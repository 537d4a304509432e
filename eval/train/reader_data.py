"""Reader examples: a sub-question, the passage that answers it, and passages that do not.

Three sources. Gold hops of the data sets; sentences of the corpus that say a fact in a fixed form
("(born 13 April 1965)", "directed by …"), which is distant supervision after Mintz et al. (2009);
and clozes after Lewis et al. (arXiv 1906.04980). The last two exist because four thousand gold hops
teach the facts' forms but not enough of finding a span.
"""

from __future__ import annotations

import hashlib
import random
import re
from dataclasses import dataclass
from pathlib import Path

from .corpus import Corpus, Passage
from .records import Hop, Question, normal, read_jsonl
from .values import COUNTRIES, MONTHS, parse_date
from .wording import WORDINGS, ask, wordings

SPAN, YES, NO, NOT_HERE = range(4)
CLASSES = ("span", "yes", "no", "not_here")


@dataclass
class Item:
    """One question and where it is answered."""

    questions: list[str]  # wordings, the planner's first
    answers: list[str]  # any of them is right
    gold: Passage
    near: list[Passage]  # of the same question's context, without the answer
    label: int = SPAN
    kind: str = ""
    span: tuple[int, int] | None = None  # the characters of `shown(gold)` that answer, where only these do


def variants(answer: str) -> list[str]:
    """The answer and, for a date, its other usual spellings."""
    date = parse_date(answer)
    if not date or not date[1]:
        return [answer]
    year, month, day = date
    name = MONTHS[month - 1]
    forms = [f"{day} {name} {year}", f"{name} {day}, {year}"] if day else [f"{name} {year}"]
    return list(dict.fromkeys([answer, *forms]))


def find(answers: list[str], text: str) -> list[tuple[int, int]]:
    """Character spans of whole-word occurrences of any answer."""
    spans = []
    for answer in answers:
        if answer.strip():
            pattern = rf"(?<!\w){re.escape(answer.strip())}(?!\w)"
            spans += [m.span() for m in re.finditer(pattern, text, re.IGNORECASE)]
    return sorted(set(spans))


def shown(passage: Passage) -> str:
    """The passage as the encoder sees it, behind the question."""
    return f"{passage.title}. {passage.text}"


def gold_items(questions: list[Question], corpus: Corpus) -> list[Item]:
    """One item per hop whose passage is at hand and contains the answer."""
    items: dict[tuple[str, str], Item] = {}
    for q in questions:
        context = [Passage(p["title"], p["text"]) for p in q.passages]
        known = [h.answers[0] for h in q.hops]
        for i, hop in enumerate(q.hops):
            title = normal(hop.title or "")
            candidates = [p for p in context if normal(p.title) == title] or corpus.by_title.get(title, [])
            answers = [v for a in hop.answers for v in variants(a)]
            # Where the title has several passages, the one that answers it most often.
            ranked = sorted(candidates, key=lambda p: -len(find(answers, p.text)))
            if not title or not ranked or not find(answers, ranked[0].text):
                continue
            asked = [ask(hop, q.text, known, w) for w in range(wordings(hop))]
            near = [p for p in context if not find(answers, shown(p))]
            # The other hops' passages tempt most: they are about the same people and places.
            titles = {normal(h.title or "") for h in q.hops}
            near += 2 * [p for p in near if normal(p.title) in titles]
            items.setdefault((normal(asked[0]), answers[0]), Item(asked, answers, ranked[0], near, kind=_kind(q, hop)))
    return list(items.values())


def digest(passage: Passage) -> str:
    """Names a passage in files that leave its text to the corpora."""
    return hashlib.sha256(shown(passage).encode()).hexdigest()[:16]


def generated_items(path: Path, corpus: Corpus, closed: set[str]) -> list[Item]:
    """What `questions_keep` kept. A passage that is not at hand, or has been closed since, is an error."""
    named = {digest(p): p for p in corpus.passages}
    items = []
    for raw in read_jsonl(path):
        gold = named.get(raw["passage"])
        if gold is None or normal(gold.title) in closed:
            raise ValueError(f"{path}: the passage of {raw['question']!r} is not at hand, or of a question that is not trained on")
        items.append(Item([raw["question"]], [raw["answer"]], gold, [], kind=f"generated/{raw['style']}", span=tuple(raw["span"])))
    return items


def _kind(q: Question, hop: Hop) -> str:
    return f"{q.source}/{hop.relation or 'free'}"


_DATE = rf"(?:\d{{1,2}} (?:{'|'.join(MONTHS)}),? \d{{3,4}}|(?:{'|'.join(MONTHS)}) \d{{1,2}}, \d{{3,4}}|\d{{4}})"
# A full stop belongs to a name only behind an initial or an abbreviation.
_PROPER = r"(?:(?:[A-Z]\.)+|(?:St|Dr|Jr|Sr)\.|[A-Z][\w'’-]+)"
_NAME = rf"{_PROPER}(?: (?:{_PROPER}|de|von|van|da|di|of)){{0,2}} {_PROPER}"
_PLACE = rf"{_PROPER}(?: (?:{_PROPER}|de|upon|la) ?{_PROPER}?)?(?:, {_PROPER}(?: {_PROPER})?)?"
_TITLE = r"(?:the )?(?:(?:late|first|former|actor|actress|singer|director|politician|poet|writer|film|King|Queen|Sir|Lord|Lady|Emperor|Sultan) ){0,3}"
_OWN = r"^(?:(?!mother|wife|married|husband|whose|who was).){0,250}?"  # still about the page's own subject
_ADJECTIVE = "|".join(re.escape(g[1]) for g in COUNTRIES if len(g) > 1)
_COUNTRY = "|".join(re.escape(g[0]) for g in COUNTRIES)
_PATTERNS: tuple[tuple[str, str], ...] = (
    ("date of birth", rf"^.{{0,120}}?\(\s*(?:[^()]{{0,60}}?\bborn\s+)?({_DATE})\s*(?:[–-]|\)|in\b)"),
    ("date of death", rf"^.{{0,120}}?\([^()]{{4,80}}?[–-]\s*(?:died\s+)?({_DATE})\s*\)"),
    ("country of citizenship", rf"^.{{0,160}}?\)? (?:is|was) an? (?:former |retired )?({_ADJECTIVE})\b(?!.{{0,40}}\bfilm\b)"),
    ("country of origin", rf"^.{{0,80}}? is an? \d{{4}} ({_ADJECTIVE})\b.{{0,60}}\bfilm\b"),
    ("publication date", r"^.{0,80}? is an? (\d{4}) .{0,80}\bfilm\b"),
    ("director", rf"\bfilm\b.{{0,80}}\bdirected by ({_NAME})"),
    ("cast member", rf"\bfilm\b.{{0,120}}\bstarring ({_NAME})"),
    ("screenwriter", rf"\bfilm\b.{{0,120}}\bwritten by ({_NAME})"),
    ("producer", rf"\bfilm\b.{{0,120}}\bproduced by ({_NAME})"),
    ("place of birth", rf"^.{{0,250}}?\b(?:born|Born)\b[^.();]{{0,40}}?\b(?:in|at) (?:the )?({_PLACE})"),
    ("place of death", rf"^.{{0,400}}?\b(?:[Hh]e|[Ss]he|who|and) died\b[^.();]{{0,40}}?\b(?:in|at) (?:the )?({_PLACE})"),
    ("father", rf"{_OWN}\b(?:son|daughter|child) of {_TITLE}({_NAME})"),
    ("mother", rf"{_OWN}\b(?:son|daughter|child) of [A-Z][^.;]{{3,60}}? and (?:his (?:\w+ )?wife,? )?{_TITLE}({_NAME})"),
    ("spouse", rf"^.{{0,400}}?\b(?:married to|wife of|husband of|widow of|[Hh]e married|[Ss]he married) {_TITLE}({_NAME})"),
    ("sibling", rf"{_OWN}\b(?:brother|sister) of {_TITLE}({_NAME})"),
    ("educated at", rf"\b(?:graduated from|was educated at|attended|studied at) (?:the )?((?:[A-Z][\w.'’-]+ ){{1,3}}(?:University|College|School|Institute|Academy)(?: of [A-Z]\w+)?|University of [A-Z]\w+(?: [A-Z]\w+)?)"),
    ("composer", rf"\b(?:music|score|soundtrack) (?:was |is )?(?:composed )?by ({_NAME})"),
    ("author", rf"\b(?:novel|book|story|poem|play) (?:written )?by (?:the )?(?:\w+ )?(?:author |writer |novelist )?({_NAME})"),
    ("record label", rf"\b(?:released|issued) (?:by|on|through) ((?:[A-Z][\w.&'’-]+ ){{1,3}}Records)\b"),
    ("country", rf"^.{{0,120}}? (?:is|was) an? (?:small |former )?(?:village|town|city|municipality|river|lake|district|commune|university|company|airport)\b[^.]{{0,60}}? (?:in|of) (?:the )?({_COUNTRY})\b"),
    ("headquarters location", rf"\b(?:headquartered|headquarters (?:is |are |was )?(?:located )?) ?in (?:the )?({_PLACE})"),
    ("founded by", rf"\b(?:founded|established) (?:in \d{{4}} )?by (?:the )?({_NAME})"),
    ("inception", rf"^.{{0,200}}?\b(?:founded|established|formed) (?:in|on) ({_DATE})"),
    ("performer", rf"\b(?:song|album|single) (?:recorded |performed )?by (?:the )?(?:\w+ )?(?:singer |band |rapper |artist |musician )?({_NAME})"),
)

_PLACES = {"place of birth", "place of death", "headquarters location"}
_NO_PLACE = {*MONTHS, "Battle", "Suite", "He", "She", "The"}


def pattern_items(corpus: Corpus, closed: set[str]) -> list[Item]:
    """Facts that passages state in a fixed form. `closed` titles are left alone."""
    items = []
    for p in corpus.passages:
        if normal(p.title) in closed:
            continue
        name = re.sub(r"\s*\([^()]*\)$", "", p.title)
        for relation, pattern in _PATTERNS:
            m = re.search(pattern, p.text[:500])
            if not m or (relation.startswith("date of") and not re.search(r"\b(is|was) an?\b|\b(was|is) the\b", p.text)):
                continue
            hop = Hop([m[1]], name, None, relation)
            answer = m[1].strip()
            if relation in _PLACES:
                # Gold hops say "Paris" where the passage has "Paris, France", seven times of eight.
                answer = answer.split(",")[0]
                if answer in _NO_PLACE:
                    continue
            noun = "film " if " film" in p.text else ""
            asked = [ask(hop, noun, [], w) for w in range(wordings(hop))]
            items.append(Item(asked, [answer], p, [], kind=f"pattern/{relation}"))
    return items


def evenly(items: list[Item], most: int, rng: random.Random) -> list[Item]:
    """At most so many of a kind: every page states a date of birth, few a mother."""
    kinds: dict[str, list[Item]] = {}
    for item in items:
        kinds.setdefault(item.kind, []).append(item)
    return [i for of in kinds.values() for i in rng.sample(of, min(most, len(of)))]


# Without any of these words a passage about X cannot say this of X.
_CUES = {
    "date of death": r"died|death|dead|killed|murder|executed|suicide|\bd\.|\d\s*[–-]\s*\w* ?\w* ?\d",
    "place of death": r"died|death|dead|killed|murder|executed|suicide|[–-]",
    "cause of death": r"died|death|dead|killed|murder|executed|suicide|disease|cancer|accident",
    "father": r"father|\bsons? of|daughter of|child|born to|parents?|family|\bben\b|\bibn\b|\bbin\b",
    "mother": r"mother|\bsons? of|daughter of|child|born to|parents?|family",
    "spouse": r"marri|wife|husband|spouse|widow|consort|partner|divorc",
    "educated at": r"educat|graduat|stud|attend|universit|college|school|degree|academy",
    "place of burial": r"buri|cemetery|grave|interred|tomb|church",
    "composer": r"music|compos|score|soundtrack|song",
    "award received": r"award|prize|medal|won|honou?r|winner",
}


def lacking_items(items: list[Item], rng: random.Random) -> list[Item]:
    """The right passage for the entity, but not for the question: the reader must say so."""
    made = []
    for item in items:
        film = item.kind in ("pattern/director", "pattern/publication date")
        if not film and item.kind not in ("pattern/date of birth", "pattern/country of citizenship"):
            continue
        relation = rng.choice(["composer"] if film else [r for r in _CUES if r != "composer"])
        if re.search(_CUES[relation], item.gold.text, re.IGNORECASE):
            continue
        name = re.sub(r"\s*\([^()]*\)$", "", item.gold.title)
        hop = Hop([], name, None, relation)
        asked = [ask(hop, "film" if film else "", [], w) for w in range(wordings(hop))]
        made.append(Item(asked, [], item.gold, [], NOT_HERE, f"lacking/{relation}"))
    return made


_SPANS = re.compile(rf"{_DATE}|{_NAME}|\b[A-Z][a-z]{{3,}}\b|\b\d[\d,.]*\d\b")


def cloze(passage: Passage, rng: random.Random) -> Item | None:
    """A sentence with a hole, thinned so that copying its neighbourhood is not enough."""
    sentences = [s for s in re.split(r"(?<=[.!?])\s+", passage.text) if 6 <= len(s.split()) <= 40]
    if not sentences:
        return None
    sentence = rng.choice(sentences)
    holes = [m for m in _SPANS.finditer(sentence) if m.start() > 3]
    if not holes:
        return None
    hole = rng.choice(holes)
    answer = hole.group().rstrip(".,")
    number = answer[0].isdigit() or answer.split()[0] in MONTHS
    word = rng.choice(["when", "what date", "which year"] if number else ["what", "who", "which one", "where"])
    left, right = sentence[: hole.start()].split()[-9:], sentence[hole.end() :].split()[:9]
    keep = [w for w in left if rng.random() > 0.3], [w for w in right if rng.random() > 0.3]
    parts = [word, *keep[0], *keep[1]] if rng.random() < 0.5 else [*keep[0], word, *keep[1]]
    text = " ".join(parts).strip(" .,;:()")
    if rng.random() < 0.5:
        text = f"{passage.title}: {text}"
    return Item([text[:160] + "?"], [answer], passage, [], kind="cloze")


_STATEMENTS = {
    "director": "Is {v} the director of {x}?", "father": "Is {v} the father of {x}?", "mother": "Is {v} the mother of {x}?",
    "place of birth": "Was {x} born in {v}?", "place of death": "Did {x} die in {v}?", "performer": "Did {v} perform {x}?",
    "country of citizenship": "Is {v} the nationality of {x}?", "date of birth": "Was {x} born on {v}?",
    "publication date": "Was {x} released in {v}?", "spouse": "Is {v} married to {x}?", "composer": "Did {v} compose {x}?",
}


def yes_no(items: list[Item], rng: random.Random) -> list[Item]:
    """Statements to confirm or deny, from gold items; the data sets' hops have none of their own."""
    by_kind: dict[str, list[Item]] = {}
    for item in items:
        by_kind.setdefault(item.kind, []).append(item)
    made = []
    for item in items:
        relation = item.kind.split("/", 1)[1]
        first = WORDINGS.get(relation, [""])[0].replace("{k}", "")
        before, _, after = first.partition("{x}")
        if relation not in _STATEMENTS or not after:
            continue
        subject = item.questions[0].removeprefix(before.split("{")[0])[: -len(after)]
        subject = re.sub(r"^the (film|song|album) ", "", subject)
        true = rng.random() < 0.5
        other = rng.choice(by_kind[item.kind])
        if not true and normal(other.answers[0]) == normal(item.answers[0]):
            continue
        value = item.answers[0] if true else other.answers[0]
        text = _STATEMENTS[relation].replace("{v}", value).replace("{x}", subject)
        made.append(Item([text], [], item.gold, item.near, YES if true else NO, f"yes_no/{relation}"))
    return made
