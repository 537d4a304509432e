#!/usr/bin/env python3
"""Makes the files of musique/ but shapes.jsonl. Standard library only; same input, same bytes.

    make_musique.py DATA [--out FOLDER]

DATA is the folder that eval/train/README.md describes. What is made, and by which rules: musique/README.md.
"""

import argparse
import hashlib
import json
from pathlib import Path

import make_2wiki
from make_2wiki import gzipped, read_lines, shares
from untrained import DATASETS, parts

# What the shipped questions may come from: no gold page or hop in common with the questions that were trained on.
PARTS = ("validation", "apart")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=DATASETS / "musique")
    args = parser.parse_args()
    source = args.data / "musique"

    lines = {page(json.loads(line)): line for line in read_lines(source / "corpus_extended.jsonl")}
    untrained = parts(args.data)["musique"]
    whole = [record for part in PARTS for record in untrained[part] if record.get("paragraphs")]
    # A question is of use only with all that was to be told apart: its pages and those that distract from them.
    whole = [record for record in whole if all(page(paragraph) in lines for paragraph in record["paragraphs"])]
    first = {record["id"] for record in untrained["validation"]}
    taken = sample(whole, first)
    pages = {page(paragraph) for record in taken for paragraph in record["paragraphs"]}
    titles = {title for title, _ in pages}

    files = {
        "corpus.jsonl.gz": gzipped([line for at, line in lines.items() if at in pages]),
        "in_degree.jsonl.gz": gzipped(
            [line for line in read_lines(source / "title_mention_indegree.jsonl") if json.loads(line)["title"] in titles]
        ),
        "questions.jsonl.gz": gzipped([json.dumps(slim(record), ensure_ascii=False) for record in taken]),
    }
    args.out.mkdir(parents=True, exist_ok=True)
    sums = []
    for name, content in files.items():
        (args.out / name).write_bytes(content)
        sums.append(f"{hashlib.sha256(content).hexdigest()}  {name}")
    (args.out / "SHA256SUMS").write_text("\n".join(sums) + "\n")
    print(f"{len(taken)} of {len(whole)} questions, {len(pages)} passages, {len(titles)} titles; "
          f"{sum(record['id'] in first for record in taken)} of the validation part")
    print("\n".join(sums))


def page(record):
    """What tells passages apart: a title may stand over several."""
    return record["title"], record.get("paragraph_text") or record.get("text")


def sample(records, first):
    """A stratified sample over the kind: those of `first`, then the others, each by a seeded hash."""
    by_kind = {}
    for record in records:
        by_kind.setdefault(record["id"].split("__")[0], []).append(record)
    share = shares({kind: len(members) for kind, members in by_kind.items()}, make_2wiki.SAMPLE_SIZE)
    chosen = []
    for kind in sorted(by_kind):
        chosen += sorted(by_kind[kind], key=lambda record: (record["id"] not in first, rank(record)))[: share[kind]]
    return sorted(chosen, key=lambda record: record["id"])


def rank(record):
    return hashlib.sha256(f"{make_2wiki.SEED}:{record['id']}".encode()).hexdigest()


def slim(record):
    """The record without the paragraphs that distract, which stand in the corpus, and without the note on its source file."""
    kept = {field: value for field, value in record.items() if not field.startswith("_")}
    return kept | {"paragraphs": [paragraph for paragraph in record["paragraphs"] if paragraph["is_supporting"]]}


if __name__ == "__main__":
    main()
