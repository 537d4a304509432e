"""One shape for the gold decompositions of both data sets.

2WikiMultihopQA (Ho et al., arXiv 2011.01060; Apache-2.0) stores evidence triples, MuSiQue (Trivedi
et al., arXiv 2108.00573; CC BY 4.0) stores single-hop questions that refer to earlier answers as
`#1`. Both become a `Question` with `Hop`s whose subject is either a piece of the question or the
answer of an earlier hop.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path

WIKI_FILES = ("questions.jsonl", "extra_questions.jsonl", "goldonly_questions.jsonl")
MUSIQUE_FILES = WIKI_FILES
_DISAMBIGUATOR = re.compile(r"\s*\([^()]*\)$")


@dataclass
class Hop:
    """One look-up. Exactly one of `relation` and `template` says what is asked."""

    answers: list[str]  # the gold value first; further values are as good
    subject: str | None = None  # as it stands in the question
    ref: int | None = None  # or: index of the hop whose answer is the subject
    relation: str | None = None
    template: str | None = None  # MuSiQue's own words, with #1, #2 for answers
    title: str | None = None  # of the gold passage, where known

    def refs(self) -> list[int]:
        """Indices of the hops that must be answered before this one can be asked."""
        if self.template is not None:
            return sorted({int(n) - 1 for n in re.findall(r"#(\d)", self.template)})
        return [] if self.ref is None else [self.ref]


@dataclass
class Question:
    """A question, how to take it apart, and what the split must keep together."""

    id: str
    source: str  # "2wiki" or "musique"
    kind: str  # comparison, bridge_comparison, inference, compositional, 2hop, 3hop1, ...
    text: str
    answer: str
    hops: list[Hop]
    keys: set[str] = field(default_factory=set)  # gold titles and gold hops, normalised
    passages: list[dict] = field(default_factory=list)  # {"title", "text", "gold"}, if known


def normal(text: str) -> str:
    """SQuAD-style: lower case, no accents, punctuation or articles, single spaces."""
    text = unicodedata.normalize("NFKD", text.lower())
    text = "".join(c for c in text if not unicodedata.combining(c))
    text = re.sub(r"[^\w\s]", " ", text)
    return " ".join(w for w in text.split() if w not in {"a", "an", "the"})


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_jsonl(path: Path) -> list[dict]:
    """Plain or gzipped JSON lines."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def mention(question: str, names: list[str]) -> str | None:
    """The first of `names` that occurs in the question, spelled as the question spells it.

    2Wiki title-cases names in its questions and keeps some disambiguators, so the search ignores
    case and takes a following parenthesis along.
    """
    low = question.lower()
    for name in names:
        for candidate in (name, _DISAMBIGUATOR.sub("", name)):
            at = low.find(candidate.lower())
            if candidate and at >= 0 and len(low) == len(question):
                end = at + len(candidate)
                tail = re.match(r" \([^()]*\)", question[end:])
                return question[at : end + (tail.end() if tail else 0)]
    return None


def _wiki_hops(raw: dict) -> list[Hop] | None:
    """Evidence triples to hops; None where the question does not show its subjects."""
    merged: dict[tuple[str, str], Hop] = {}
    for subject, relation, value in raw["evidences"]:
        hop = merged.setdefault((subject, relation), Hop([], subject, None, relation))
        if value not in hop.answers:
            hop.answers.append(value)
    hops = list(merged.values())
    titles = [t for t, _ in raw["supporting_facts"]]
    kind = raw["type"]
    roots = 1 if kind in ("compositional", "inference") else 2
    if kind in ("compositional", "inference") and len(hops) != 2:
        return None
    if kind == "bridge_comparison" and len(hops) != 4:
        return None
    names_seen: dict[str, str] = {}
    for i, hop in enumerate(hops):
        subject = hop.subject or ""
        is_root = kind == "comparison" or i < roots
        hop.title = subject if subject in titles else (titles[i] if i < len(titles) else subject)
        if is_root:
            if subject not in names_seen:
                found = mention(raw["question"], [subject, hop.title])
                if found is None:
                    return None
                names_seen[subject] = found
            hop.subject = names_seen[subject]
        else:
            # The order is fixed by the data set; names alone would miss spelling variants.
            hop.ref = 0 if roots == 1 else i - 2
            hop.subject = None
    if kind == "bridge_comparison":
        second, third = hops[2], hops[3]
        subjects = [s for s, _ in merged]
        if subjects[2] in hops[1].answers and subjects[2] not in hops[0].answers:
            second.ref, third.ref = 1, 0
    return hops


def wiki_question(raw: dict) -> Question | None:
    """None for the few whose structure the training cannot use."""
    hops = _wiki_hops(raw)
    keys = {f"t:{normal(t)}" for t, _ in raw["supporting_facts"]}
    keys |= {f"h:{normal(s)}|{r}|{normal(o)}" for s, r, o in raw["evidences"]}
    if hops is None:
        return None
    gold = {t for t, _ in raw["supporting_facts"]}
    passages = [
        {"title": t, "text": " ".join(s), "gold": t in gold} for t, s in raw.get("context", [])
    ]
    text = " ".join(raw["question"].split())
    return Question(raw["_id"], "2wiki", raw["type"], text, raw["answer"], hops, keys, passages)


def musique_question(raw: dict) -> Question:
    hops, keys = [], set()
    paragraphs = {p["idx"]: p for p in raw.get("paragraphs", [])}
    for part in raw["question_decomposition"]:
        title = paragraphs.get(part.get("paragraph_support_idx"), {}).get("title")
        if title is None and part.get("document_id"):
            title = part["document_id"].rsplit("_", 1)[0]
        hop = Hop([part["answer"].strip()], title=title)
        ask = part["question"].strip()
        if ">>" in ask:
            subject, relation = (s.strip() for s in ask.split(">>", 1))
            hop.relation = relation
            if re.fullmatch(r"#\d", subject):
                hop.ref = int(subject[1]) - 1
            elif "#" in subject:
                hop.relation, hop.template = None, f"What is the {relation} of {subject}?"
            else:
                hop.subject = mention(raw["question"], [subject]) or subject
                keys.add(f"t:{normal(subject)}")
        else:
            hop.template = ask
        keys |= {f"h:{part['id']}", f"h:{normal(ask)}|{normal(part['answer'])}"}
        if title:
            keys.add(f"t:{normal(title)}")
        hops.append(hop)
    passages = [
        {"title": p["title"], "text": p["paragraph_text"], "gold": p["is_supporting"]}
        for p in raw.get("paragraphs", [])
    ]
    kind = raw["id"].split("__")[0]
    text = " ".join(raw["question"].split())
    return Question(raw["id"], "musique", kind, text, raw["answer"], hops, keys, passages)


def load_questions(data: Path) -> tuple[list[Question], dict[str, str]]:
    """All questions, the fuller record first where an id occurs twice, and the files' hashes."""
    questions: dict[str, Question] = {}
    hashes: dict[str, str] = {}
    for folder, files in (("2wikimultihopqa", WIKI_FILES), ("musique", MUSIQUE_FILES)):
        for name in files:
            path = data / folder / name
            hashes[f"{folder}/{name}"] = sha256(path)
            for raw in read_jsonl(path):
                made = wiki_question(raw) if "evidences" in raw else musique_question(raw)
                if made is not None:
                    questions.setdefault(made.id, made)
    return list(questions.values()), hashes


def shipped(datasets: Path) -> tuple[set[str], set[str], set[str]]:
    """Ids, question texts and keys of the questions that the repository evaluates on.

    Of 2WikiMultihopQA only: MuSiQue's shipped questions were taken from what this split had left out of the training
    (eval/datasets/make_musique.py). To hold them out here as well would be another split than the models were trained on.
    """
    ids, texts, keys = set(), set(), set()
    folder = datasets / "2wikimultihopqa"
    for name in ("questions.jsonl.gz", "demo_questions.jsonl"):
        for raw in read_jsonl(folder / name):
            ids.add(raw["_id"])
            texts.add(normal(raw["question"]))
            keys |= {f"t:{normal(t)}" for t, _ in raw["supporting_facts"]}
            keys |= {f"h:{normal(s)}|{r}|{normal(o)}" for s, r, o in raw["evidences"]}
    return ids, texts, keys


def evaluated(datasets: Path) -> set[str]:
    """The ids of the questions that figures are about: no model may be trained on one of them."""
    ids: set[str] = set()
    for path in (datasets / "untrained.json", *sorted(datasets.glob("own_mix*.json"))):
        for value in json.loads(path.read_text(encoding="utf-8")).values():
            for part in value.values() if isinstance(value, dict) else [value]:
                ids.update(part)
    return ids
