#!/usr/bin/env python3
"""Makes own_mix.json and own_mix_large.json: untrained questions in the data sets' own mix of kinds.

    make_own_mix.py DATA [--out FOLDER]

DATA is the folder that eval/train/README.md describes. The rules: README.md.
Standard library only; the same input gives the same bytes.
"""

import argparse
import collections
import json
from pathlib import Path

from make_2wiki import shares
from make_musique import rank
from untrained import DATASETS, FOLDERS, identity, parts, read_jsonl

# How many questions of each data set a file has. The large ones have as many as their rarest kind leaves.
COUNTS = {
    "own_mix.json": {"2wiki": 100, "musique": 100},
    "own_mix_large.json": {"2wiki": 200, "musique": 150},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=DATASETS)
    args = parser.parse_args()
    untrained = parts(args.data)
    kinds = {
        name: collections.Counter(map(kind, read_jsonl(args.data / folder / "questions.jsonl")))
        for name, folder in FOLDERS.items()
    }
    for file, counts in COUNTS.items():
        ids = {}
        for name, count in counts.items():
            share = shares(kinds[name], count)
            ids[name] = sorted(drawn(untrained[name], share))
            print(file, name, share)
        (args.out / file).write_text(json.dumps(ids, indent=1) + "\n", encoding="utf-8")


def kind(record):
    """2WikiMultihopQA's type; MuSiQue's number of hops, since its finer kinds are too rare to draw from."""
    return record.get("type") or identity(record)[:4]


def drawn(of_parts, share):
    """So many ids of each kind: those that share nothing with the training first, then the others, each by a seeded hash."""
    by_kind = collections.defaultdict(list)
    for part, records in of_parts.items():
        for record in records:
            by_kind[kind(record)].append((part == "near", rank({"id": identity(record)}), identity(record)))
    for name, wanted in share.items():
        if len(by_kind[name]) < wanted:
            raise SystemExit(f"only {len(by_kind[name])} untrained questions are of the kind {name}, and {wanted} are wanted")
        yield from (found for _, _, found in sorted(by_kind[name])[:wanted])


if __name__ == "__main__":
    main()
