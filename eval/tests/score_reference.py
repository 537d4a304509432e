#!/usr/bin/env python3
"""Checks score_cases.jsonl against the rules of the data sets' own scorers, restated here. Standard library only.

    python3 eval/tests/score_reference.py

The table was written and checked by hand; eval/tests/score.rs holds the program to it, and this page holds the table
to Python. Normalisation is SQuAD's; F1 is SQuAD's with the rule of HotpotQA and 2WikiMultihopQA for yes and no. Two
things are ours: a blank answer is never right, and texts that are equal without a word left get F1 1, as in SQuAD 2.
"""

import collections
import json
import re
import string
import sys
from fractions import Fraction
from pathlib import Path

CASES = Path(__file__).with_name("score_cases.jsonl")


def normalise(text):
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def exact_match(answer, golds):
    return bool(answer.strip()) and any(normalise(answer) == normalise(gold) for gold in golds)


def f1(answer, golds):
    return max((f1_of(normalise(answer), normalise(gold)) for gold in golds), default=Fraction(0)) if answer.strip() else Fraction(0)


def f1_of(said, gold):
    if said == gold:
        return Fraction(1)
    if {said, gold} & {"yes", "no", "noanswer"}:
        return Fraction(0)
    said, gold = said.split(), gold.split()
    shared = sum((collections.Counter(said) & collections.Counter(gold)).values())
    if not shared:
        return Fraction(0)
    precision, recall = Fraction(shared, len(said)), Fraction(shared, len(gold))
    return 2 * precision * recall / (precision + recall)


def main():
    wrong = 0
    cases = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    for number, case in enumerate(cases, 1):
        computed = exact_match(case["answer"], case["golds"]), f1(case["answer"], case["golds"])
        if computed != (case["em"], Fraction(*case["f1"])):
            wrong += 1
            print(f"line {number}: {case} is {computed[0]}, {computed[1]}")
    print(f"{len(cases)} cases, {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
