#!/usr/bin/env python3
"""Whether the reader is right as often as it says: its confidence beside its readings of gold hops. Standard library only.

    eval/train/reader_calibration.py BUNDLE...

A bundle holds recorded questions of the gold planner (eval/ablation/gold_planner.py), which asks the data set's own
hops in their order. A hop counts if every hop before it was read right: only then does it ask what the data set asks.
A sub-question that several questions share counts once.
"""

import argparse
import random
from pathlib import Path

from fit_confidence import binned, calibration_error, lines, normalised, trajectories

DRAWS = 1_000


def is_right(read, hop, answers):
    """By exact match. If a hop's answer is the question's, other ways to write that count, too."""
    golds = {normalised(hop["answer"])}
    written = set(map(normalised, answers))
    if golds & written:
        golds |= written
    return bool((read or "").strip()) and normalised(read) in golds


def readings(bundle):
    """How sure the reader was of each hop that counts, and whether it was right."""
    said = {}
    for question, _, read, _ in trajectories(bundle):
        for hop, stage in zip(question["hops"], read):
            if "sure" not in stage:
                raise SystemExit(f"{bundle}: its reader does not say how sure it is")
            right = is_right(stage["output"]["read"], hop, question["answers"])
            said.setdefault(stage["input"]["sub_question"], (stage["sure"], right))
            if not right:
                break
    return list(said.values())


def error_by_chance(said):
    """The mean calibration error of as many readings, were each right as often as it says. It is not 0."""
    chance = random.Random(1)
    draws = ([(p, chance.random() < p) for p, _ in said] for _ in range(DRAWS))
    return sum(map(calibration_error, draws)) / DRAWS


def cells(said, digits):
    """How many readings, what they said, and how many of them were right."""
    if not said:
        return ["0", "–", "–"]
    means = (sum(value) / len(said) for value in zip(*said))
    return [str(len(said)), *(f"{mean:.{digits}f}" for mean in means)]


def table(sets):
    """A row for each bin, and three columns for each set."""
    rows = [["confidence", *(f"{Path(name).name}: {what}" for name in sets for what in ("hops", "said", "right"))]]
    rows.append(["---"] * len(rows[0]))
    for n, inside in enumerate(zip(*map(binned, sets.values()))):
        rows.append([f"{n / 10} to {(n + 1) / 10}", *(cell for said in inside for cell in cells(said, 2))])
    rows.append(["all", *(cell for said in sets.values() for cell in cells(said, 3))])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", nargs="+", type=Path)
    chosen = parser.parse_args()
    # A recording's own folder is called "bundle", whatever it is of.
    sets = {str(bundle.parent if bundle.name == "bundle" else bundle): readings(bundle) for bundle in chosen.bundle}
    print(table(sets))
    for name, said in sets.items():
        error, by_chance = calibration_error(said), error_by_chance(said)
        print(f"{name}: calibration error {error:.3f}; {by_chance:.3f} if it were right as often as it says")


if __name__ == "__main__":
    main()
