#!/usr/bin/env python3
"""The identifiers of HippoRAG's questions that the project has, as a JSON list: those of questions.jsonl with all gold pages in
HippoRAG's corpus.

    sample_ids.py LOOK-UPS CORPUS      LOOK-UPS as make_look_ups.py writes it, CORPUS its corpus.jsonl"""

import json
import sys


def main():
    look_ups, corpus = ([json.loads(line) for line in open(path)] for path in sys.argv[1:3])
    there = {passage["id"] for passage in corpus}
    sample = [one for one in look_ups if one["from"] == "questions.jsonl"]
    print(json.dumps([one["id"] for one in sample if all(there.intersection(page) for page in one["gold"])]))


if __name__ == "__main__":
    main()
