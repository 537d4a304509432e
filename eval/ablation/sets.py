#!/usr/bin/env python3
"""The question sets of the ablation: questions that nothing was trained on, and that the corpus can answer.

    python3 eval/ablation/sets.py --data DATA --out DIR

Writes DIR/musique.jsonl and DIR/2wiki.jsonl, original records that eval/bench/live.py reads, and DIR/sets.json, which says
what was taken. MuSiQue's are validation questions of eval/train whose gold paragraphs all stand in the extended
corpus; 2Wiki's are the shipped evaluation set and those validation questions whose gold pages all stand in the shipped
corpus. DATA is the folder that eval/train/README.md describes. Standard library only.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "eval"), str(ROOT / "eval/bench")]

import live  # noqa: E402
from train.records import read_jsonl, sha256  # noqa: E402

WIKI = ROOT / "eval/datasets/2wikimultihopqa"
VALIDATION = ROOT / "eval/train/results/validation.json"
# The fuller record first: an id that occurs again is passed over.
FULL_FILES = ("questions.jsonl", "extra_questions.jsonl")
# Without paragraphs; whoever made the file looked their gold paragraphs up in the extended corpus.
COVERED_FILE = "goldonly_covered.jsonl"


def main():
    args = arguments()
    validation = set(json.loads(VALIDATION.read_text())["validation"])
    sets = {
        "musique": (musique(args.data / "musique", validation), args.data / "musique/corpus_extended.jsonl"),
        "2wiki": (wiki(args.data / "2wikimultihopqa", validation), WIKI / "corpus.jsonl.gz"),
    }
    args.out.mkdir(parents=True, exist_ok=True)
    about = {}
    for name, (records, corpus) in sets.items():
        text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        (args.out / f"{name}.jsonl").write_text(text, encoding="utf-8")
        about[name] = {
            "questions": len(records),
            "ids": [identity(record) for record in records],
            "sha256": hashlib.sha256(text.encode()).hexdigest(),
            "corpus": corpus.name,
            "corpus_sha256": sha256(corpus),
        }
        print(f"{name}: {len(records)} questions over {corpus.name}")
    (args.out / "sets.json").write_text(json.dumps(about, indent=1) + "\n")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def musique(folder, validation):
    corpus = {(page["title"], page["text"]) for page in read_jsonl(folder / "corpus_extended.jsonl")}
    titles = {title for title, _ in corpus}
    taken = {}
    for name in (*FULL_FILES, COVERED_FILE):
        for record in read_jsonl(folder / name):
            if record["id"] not in validation or record["id"] in taken:
                continue
            if record.get("paragraphs"):
                covered = all((page["title"], page["paragraph_text"]) in corpus for page in record["paragraphs"] if page["is_supporting"])
            else:
                covered = set(live.gold_titles(record)) <= titles
            if covered:
                taken[record["id"]] = record
    return [taken[key] for key in sorted(taken)]


def wiki(folder, validation):
    titles = {page["title"] for page in read_jsonl(WIKI / "corpus.jsonl.gz")}
    taken = {record["_id"]: record | {"part": "shipped"} for record in read_jsonl(WIKI / "questions.jsonl.gz")}
    for name in (*FULL_FILES, COVERED_FILE):
        for record in read_jsonl(folder / name):
            covered = {title for title, _ in record["supporting_facts"]} <= titles
            if record["_id"] in validation and covered:
                taken.setdefault(record["_id"], record | {"part": "validation"})
    return [taken[key] for key in sorted(taken)]


def identity(record):
    return record.get("_id") or record["id"]


if __name__ == "__main__":
    main()
