"""Trajectories to mine the drafter's patterns from, in the wording that the planner was trained to write.

One line a trajectory, as `spechop patterns mine` reads it:
`{"question": …, "hops": [{"sub_question": …, "answer": …, "found": true}, …]}`. `found` is false if the
look-up found nothing, after which the planner asks once more in other words.

Only questions of the training split are written, so no figure rests on a question that was mined: the
script stops if one of them stands in datasets/untrained.json or an own_mix*.json.

    python -m train.draft_trajectories --data $DATA --out trajectories.jsonl
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

from .records import Question
from .splits import make_split, refuse_evaluated
from .trajectories import ARROW, NO_INFO, Options, build, gold, gold_answers

DATASETS = Path(__file__).resolve().parents[1] / "datasets"
# How many trajectories with look-ups that found nothing are made of each question, and how likely a
# look-up is to find nothing in them. The planner meets such look-ups, so the drafter should know them.
LOST_ROUNDS = 1
LOST_SHARE = 0.4


def hops_of(text: str) -> list[dict]:
    """The look-ups of a trajectory as the planner writes it."""
    hops = []
    for line in text.split("\n"):
        asked, arrow, answer = line.partition(ARROW)
        if arrow:
            hops.append({"sub_question": asked, "answer": answer.strip(), "found": answer.strip() != NO_INFO})
    return hops


def of_question(q: Question, rng: random.Random) -> list[dict]:
    """Its gold trajectory, and those in which something was not found."""
    texts = [gold(q).text]
    for _ in range(LOST_ROUNDS):
        lost = build(q, gold_answers(q), q.answer, Options(no_info=LOST_SHARE), rng).text
        if lost not in texts:
            texts.append(lost)
    return [{"question": q.text, "hops": hops_of(text)} for text in texts]


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    args.add_argument("--data", type=Path, required=True, help="the folder with 2wikimultihopqa/ and musique/")
    args.add_argument("--out", type=Path, required=True, help="the file to write, one trajectory a line")
    args.add_argument("--seed", type=int, default=1, help="of the split; 1 is the one the models were trained on")
    given = args.parse_args()
    split = make_split(given.data, DATASETS, given.seed)
    refuse_evaluated(split, DATASETS)
    rng = random.Random(given.seed)
    lines = [line for q in split.train for line in of_question(q, rng) if line["hops"]]
    with given.out.open("w", encoding="utf-8") as out:
        for line in lines:
            out.write(json.dumps(line, ensure_ascii=False) + "\n")
    print(f"{len(lines)} trajectories of {len(split.train)} questions")


if __name__ == "__main__":
    main()
