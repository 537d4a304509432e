#!/usr/bin/env python3
"""Makes the files of 2wikimultihopqa/ from the full dataset. Standard library only; same input, same bytes.

    make_2wiki.py SOURCE_FOLDER [--out FOLDER]

SOURCE_FOLDER holds `corpus.jsonl` (id, title, text), `questions.jsonl` (original 2WikiMultihopQA records) and
`title_mention_indegree.jsonl` (title, mention_indegree). What is made, and by which rules: 2wikimultihopqa/README.md.
"""

import argparse
import gzip
import hashlib
import json
import random
from pathlib import Path

SEED = 20260521
SAMPLE_SIZE = 120
# One demo question of each: a chain, a single comparison, and a comparison of two chains.
DEMO_TYPES = ["compositional", "comparison", "bridge_comparison"]


def read_lines(path):
    """The non-empty lines of a file, unchanged. `splitlines` would cut a title that has a line separator of Unicode."""
    return [line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def gzipped(lines):
    """As `gzip -n -9` would: neither name nor time inside, so that the bytes depend on the content only."""
    return gzip.compress(("\n".join(lines) + "\n").encode("utf-8"), compresslevel=9, mtime=0)


def shares(counts, size):
    """Splits `size` in proportion to `counts`, by largest remainder; ties go by name."""
    total = sum(counts.values())
    exact = {name: size * count / total for name, count in counts.items()}
    share = {name: int(value) for name, value in exact.items()}
    by_remainder = sorted(exact, key=lambda name: (share[name] - exact[name], name))
    for name in by_remainder[: size - sum(share.values())]:
        share[name] += 1
    return share


def sample(lines):
    """A stratified sample over `type`, in the order of the source; the lines stay as they are."""
    by_type = {}
    for index, line in enumerate(lines):
        by_type.setdefault(json.loads(line)["type"], []).append(index)
    share = shares({name: len(members) for name, members in by_type.items()}, SAMPLE_SIZE)
    draw = random.Random(SEED)
    chosen = []
    for name in sorted(by_type):
        chosen += draw.sample(by_type[name], share[name])
    return [lines[index] for index in sorted(chosen)]


def demo(sampled):
    """The first question of each demo type in the sample: chosen by rule, not by how well it is answered."""
    first = {}
    for line in sampled:
        first.setdefault(json.loads(line)["type"], line)
    return [first[name] for name in DEMO_TYPES]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "2wikimultihopqa")
    args = parser.parse_args()

    corpus = read_lines(args.source / "corpus.jsonl")
    titles = {json.loads(line)["title"] for line in corpus}
    in_degree = [
        line
        for line in read_lines(args.source / "title_mention_indegree.jsonl")
        if json.loads(line)["title"] in titles
    ]
    questions = sample(read_lines(args.source / "questions.jsonl"))

    files = {
        "corpus.jsonl.gz": gzipped(corpus),
        "in_degree.jsonl.gz": gzipped(in_degree),
        "questions.jsonl.gz": gzipped(questions),
        "demo_questions.jsonl": ("\n".join(demo(questions)) + "\n").encode("utf-8"),
    }
    args.out.mkdir(parents=True, exist_ok=True)
    sums = []
    for name, content in files.items():
        (args.out / name).write_bytes(content)
        sums.append(f"{hashlib.sha256(content).hexdigest()}  {name}")
    (args.out / "SHA256SUMS").write_text("\n".join(sums) + "\n")
    print("\n".join(sums))


if __name__ == "__main__":
    main()
