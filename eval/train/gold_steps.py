#!/usr/bin/env python3
"""Writes the gold hops of every question, step by step, for `cargo run -p spechop-llm --example concluded`.

    cd eval && python3 -m train.gold_steps DATA > steps.jsonl

A line a step: the question, the hops that are known by then, and the answer if these are all. Each question comes twice,
its sub-questions in wordings that are drawn by seed.
"""

import json
import random
import sys
from pathlib import Path

from . import wording
from .records import load_questions

DRAWS = 2


def main(data: str) -> None:
    rng = random.Random(1)
    for question in load_questions(Path(data))[0]:
        known = [hop.answers[0] for hop in question.hops]
        for _ in range(DRAWS):
            hops = []
            for hop, answer in zip(question.hops, known):
                asked = wording.ask(hop, question.text, known, rng.randrange(wording.wordings(hop)))
                hops.append([asked, answer])
                is_last = len(hops) == len(known)
                step = {"kind": question.kind, "question": question.text, "hops": hops}
                print(json.dumps(step | {"answer": question.answer if is_last else None}, ensure_ascii=False))


if __name__ == "__main__":
    main(*sys.argv[1:])
