#!/usr/bin/env python3
"""Makes the look-ups of a data set: what a retriever is asked, and the passages that it should find. Standard library only.

    make_look_ups.py DATA SET OUT     DATA: see ../train/README.md; SET: 2wiki or musique

One line a question that the extended corpus can answer:

    {"id", "kind", "from", "question", "gold": [[passage id, …], …], "hops": [{"asks", "gold": [passage id, …]}, …]}

`gold` has an entry for each gold page: the passages that count as that page. It is one passage, unless the record names
its page by title alone and several passages stand under that title. `from` is the file that the question is from;
`questions.jsonl` holds those of HippoRAG's sample that the project has. `hops` are the hops in the wording that the
planner is trained to write, with the gold answers of earlier hops filled in; a question whose structure the training
cannot use has none. The same input gives the same bytes.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path

from untrained import FOLDERS, identity

from train.records import musique_question, normal, read_jsonl, wiki_question
from train.wording import ask

FILES = ("questions.jsonl", "extra_questions.jsonl", "goldonly_covered.jsonl")


class Corpus:
    """Passages by what records call them."""

    def __init__(self, path):
        self.by_text, self.by_title, self.by_normal = {}, defaultdict(list), defaultdict(list)
        for passage in read_jsonl(path):
            self.by_text[passage["title"], passage["text"]] = passage["id"]
            self.by_title[passage["title"]].append(passage["id"])
            self.by_normal[normal(passage["title"])].append(passage["id"])

    def page(self, title):
        return self.by_title.get(title) or self.by_normal.get(normal(title)) or []


def wiki(record, corpus):
    titles = list(dict.fromkeys(title for title, _ in record["supporting_facts"]))
    plan = wiki_question(record)
    hops = []
    if plan is not None:
        answers = [hop.answers[0] for hop in plan.hops]
        hops = [(ask(hop, plan.text, answers), corpus.page(hop.title)) for hop in plan.hops]
    return record["type"], [corpus.page(title) for title in titles], hops


def musique(record, corpus):
    plan = musique_question(record)
    answers = [hop.answers[0] for hop in plan.hops]
    pages = {page["idx"]: page for page in record.get("paragraphs") or []}

    def gold(part, hop):
        page = pages.get(part.get("paragraph_support_idx"))
        if page is None:
            return corpus.page(hop.title)
        found = corpus.by_text.get((page["title"], page["paragraph_text"]))
        return [found] if found else []

    found = [gold(part, hop) for part, hop in zip(record["question_decomposition"], plan.hops, strict=True)]
    hops = [(ask(hop, plan.text, answers), page) for hop, page in zip(plan.hops, found, strict=True)]
    return plan.kind, found, hops


def look_ups(folder, name):
    corpus = Corpus(folder / "corpus_extended.jsonl")
    make = {"2wiki": wiki, "musique": musique}[name]
    seen = set()
    for file in FILES:
        for record in read_jsonl(folder / file):
            if identity(record) in seen:
                continue
            seen.add(identity(record))
            kind, gold, hops = make(record, corpus)
            distinct = [list(page) for page in dict.fromkeys(map(tuple, gold))]
            # What the corpus does not hold cannot be found.
            if not all(distinct):
                continue
            yield {
                "id": identity(record),
                "kind": kind,
                "from": file,
                "question": " ".join(record["question"].split()),
                "gold": distinct,
                "hops": [{"asks": asks, "gold": page} for asks, page in hops if page],
            }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("set", choices=FOLDERS)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    made = list(look_ups(args.data / FOLDERS[args.set], args.set))
    args.out.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in made), encoding="utf-8")
    print(f"{args.out}: {len(made)} questions, {sum(len(line['hops']) for line in made)} hops")


if __name__ == "__main__":
    main()
