#!/usr/bin/env python3
"""Writes the inputs of off_form/questions.tsv as questions that `spechop eval record --dataset 2wiki` takes.

    eval/datasets/make_off_form.py OUT.jsonl

None of them has an answer, so none can be right. An input without a letter or digit is refused by a server, and left out.
"""

import json
import sys
from pathlib import Path

NOTHING = "(no answer)"


def main(out: str) -> None:
    with open(Path(__file__).with_name("off_form") / "questions.tsv", encoding="utf-8") as file:
        inputs = [line.rstrip("\n").split("\t")[1] for line in file]
    with open(out, "w", encoding="utf-8") as file:
        for number, text in enumerate(inputs):
            if any(map(str.isalnum, text)):
                question = {
                    "_id": f"off{number}", "type": "comparison", "question": text, "answer": NOTHING,
                    "context": [["-", ["-"]]], "supporting_facts": [["-", 0]], "evidences": [["-", "-", NOTHING]],
                }
                file.write(json.dumps(question, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
