#!/usr/bin/env python3
"""Fits the weights of crates/spechop-agent/src/confidence.rs: how likely an answer is to be right, and a question to be of a known form.

    eval/train/fit_confidence.py BUNDLE... [--off-form BUNDLE]
    eval/train/fit_confidence.py RUN... [--off-form RUN]

A bundle holds recorded questions at k = 1 (`spechop eval record --k 1`). An answer is right by exact match.
No answer to the questions of --off-form (eval/datasets/off_form) is right. The figures come from five-fold
cross-validation over questions; the weights that are printed are fitted on all of them.

A run (`spechop eval live --k 1`) holds what the answers of a server said of themselves: nothing is fitted then, and the
same figures are printed of that. An answer that was not looked up says 0, and counts.
"""

import argparse
import json
import math
import random
import re
import string
from pathlib import Path

from reader_boundary import canonical

LEAST = 1e-3
NAMES = ["intercept", "first_segment", "last_segment", "lowest_segment", "lowest_reading", "mean_reading", "not_found"]
# Pulls weights towards 0: there are few right answers.
RIDGE = 1.0
FOLDS = 5
# What the set of --off-form is called.
OFF = "off-form"


def normalised(text):
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


AUXILIARIES = set("is are was were do does did has have had can could will would".split())
LISTS = re.compile(r" (out of|between|which of|who of) .* and |^ of .* and ")


ASKING = set("what which when where how whom whose why tell".split())
KNOWS = set("know knows me say".split())


def asks_yes_or_no(question):
    """Whether the answer can only be yes or no: `Question` in spechop-types."""
    words = question.split()
    is_to_you = len(words) < 2 or words[1].lower() == "you"
    # With a capital they stand in titles.
    wants_another = ASKING & set(words) or any(one in KNOWS and two == "who" for one, two in zip(words, words[1:]))
    return words[0].lower() in AUXILIARIES and not (is_to_you or wants_another or has_alternatives(question))


def has_alternatives(question):
    return " or " in question or " OR " in question


def offers_a_choice(question):
    """Whether it names what to choose from: `Question` in spechop-types."""
    return has_alternatives(question) or LISTS.search(f" {question.lower()}") is not None


def is_yes_or_no(answer):
    return normalised(answer) in ("yes", "no")


def chooses(answer, question):
    """Whether the answer is one of what the question offers."""
    if asks_yes_or_no(question):
        return is_yes_or_no(answer)
    answer = normalised(answer)
    return answer != "" and f" {answer} " in f" {normalised(question)} " and offers_a_choice(question)


def names_several(sub_question, titles):
    """Whether more than one of the passages is named by it."""
    # What stands in brackets tells namesakes apart.
    bare = [canonical(title.split(" (")[0]) for title in titles]
    return sum(title != "" and f" {title} " in f" {canonical(sub_question)} " for title in bare) > 1


def asks_when(sub_question):
    return sub_question.lower().startswith("when") or "what year" in sub_question.lower()


def names_nothing(question):
    """Whether no word but the first begins with a capital."""
    return not any(word.lstrip("\"'“‘(")[:1].isupper() for word in question.split()[1:])


QUESTION_WORDS = set(
    "who whom whose what which when where why how is are was were be do does did can could has have had".split()
)


def asks_nothing(question):
    """Whether there is neither a question mark nor a word that asks."""
    return "?" not in question and not QUESTION_WORDS & set(normalised(question).split())


def signs(segments, readings):
    """What is weighed for both: `signs` in confidence.rs."""
    ln = lambda sure: math.log(max(sure or 0.0, LEAST))
    read = [ln(sure) for sure, _ in readings]
    return [
        1.0,
        ln(segments[0]),
        ln(segments[-1]),
        min(ln(sure) for sure in segments),
        min(read),
        sum(read) / len(read),
        sum(not found for _, found in readings) / len(readings),
    ]


def trajectories(bundle):
    """Each question of a bundle as the agent at k = 1 came through it: its segments and readings, and its answer, if it was recorded to the end."""
    segments, readings = {}, {}
    for stage in lines(bundle / "stages.jsonl"):
        asked = stage["input"]
        if asked["stage"] == "segment":
            segments[asked["question"], json.dumps(asked["hops"]), asked["must_answer"]] = stage
        elif asked["stage"] == "reading":
            readings.setdefault(asked["sub_question"], stage)
    for question in lines(bundle / "questions.jsonl"):
        hops, wrote, read, answer = [], [], [], None
        # As the stages have it.
        text = " ".join(question["text"].split())
        while answer is None:
            known = (text, json.dumps(hops))
            stage = segments.get((*known, False)) or segments.get((*known, True))
            if stage is None:
                break
            wrote.append(stage)
            if "answer" in stage["output"]:
                answer = stage["output"]["answer"]
                break
            asked = stage["output"]["ask"]
            reading = readings.get(asked)
            if reading is None or len(hops) > 16:
                break
            read.append(reading)
            hops.append([asked, reading["output"]["read"] or "No relevant information found"])
        yield question, wrote, read, answer


def answered(bundle):
    """Each question of a bundle: the signs of its answer and of its form, and whether the answer is right."""
    retrieved = {}
    for stage in lines(bundle / "stages.jsonl"):
        if stage["input"]["stage"] == "retrieval":
            retrieved.setdefault(stage["input"]["query"], stage)
    for question, wrote, read, answer in trajectories(bundle):
        if answer is None or not read:
            continue
        text = " ".join(question["text"].split())
        asked = [stage["input"]["sub_question"] for stage in read]
        found = [retrieved[sub_question]["output"]["passages"] for sub_question in asked]
        titles = [[passage["title"] for passage in passages] for passages in found]
        several = [names_several(*hop) for hop in zip(asked, titles)]
        right = normalised(answer) in map(normalised, question["answers"])
        sure = [stage.get("sure") for stage in wrote]
        readings = [(stage.get("sure"), stage["output"]["read"] is not None) for stage in read]
        row = signs(sure, readings)
        form = [*row, float(names_nothing(text)), float(asks_nothing(text))]
        more = [chooses(answer, text), asks_when(asked[-1]), sum(several) / len(several)]
        is_cut_short = wrote[-1]["input"]["must_answer"] and len(read) >= question["hop_budget"]
        if is_cut_short or (asks_yes_or_no(text) and not is_yes_or_no(answer)):
            # `doubted` in confidence.rs.
            row = signs([*sure[:-1], 0.0], readings)
        yield [*row, *map(float, more)], form, right


def chance(weights, row):
    return 1.0 / (1.0 + math.exp(-sum(w * x for w, x in zip(weights, row))))


def solved(matrix, right):
    """Gaussian elimination; the matrix is small and positive definite."""
    size = len(right)
    rows = [list(row) + [value] for row, value in zip(matrix, right)]
    for at in range(size):
        pivot = max(range(at, size), key=lambda i: abs(rows[i][at]))
        rows[at], rows[pivot] = rows[pivot], rows[at]
        for other in range(size):
            if other != at:
                share = rows[other][at] / rows[at][at]
                rows[other] = [a - share * b for a, b in zip(rows[other], rows[at])]
    return [rows[i][size] / rows[i][i] for i in range(size)]


def fitted(rows):
    """Newton's method for logistic regression with a ridge on all but the intercept."""
    size = len(rows[0][0])
    weights = [0.0] * size
    for _ in range(50):
        gradient = [0.0] * size
        curve = [[0.0] * size for _ in range(size)]
        for signs_of, right in rows:
            p = chance(weights, signs_of)
            for i in range(size):
                gradient[i] += (right - p) * signs_of[i]
                for j in range(size):
                    curve[i][j] += p * (1 - p) * signs_of[i] * signs_of[j]
        for i in range(size):
            ridge = RIDGE if i else 1e-6
            gradient[i] -= ridge * weights[i]
            curve[i][i] += ridge
        step = solved(curve, gradient)
        weights = [w + s for w, s in zip(weights, step)]
        if max(map(abs, step)) < 1e-9:
            break
    return weights


def binned(said, bins=10):
    """What was said and whether it was so, in bins of equal width."""
    return [[(p, r) for p, r in said if n / bins <= p < (n + 1) / bins or (p == 1 and n == bins - 1)] for n in range(bins)]


def calibration_error(said):
    """Expected calibration error over bins of equal width."""
    gaps = (abs(sum(p for p, _ in inside) - sum(r for _, r in inside)) for inside in binned(said))
    return sum(gaps) / max(1, len(said))


def kept(said, share=0.8):
    """The bound at which this share of the right answers stays at least, and which share of the wrong ones does; None if none is right."""
    right = sorted((p for p, r in said if r), reverse=True)
    if not right:
        return None
    least = right[math.ceil(share * len(right)) - 1]
    wrong = [p for p, r in said if not r]
    return least, sum(p >= least for p in wrong) / max(1, len(wrong))


def is_run(folder):
    return (folder / "rows.jsonl").exists()


def told(run):
    """What each answer of the standard agent says of itself, its chance and its form, and whether it is right; and how many
    say nothing."""
    answers = {question["id"]: question["answers"] for question in lines(run / "questions.jsonl")}
    rows = {}
    for row in sorted(lines(run / "rows.jsonl"), key=lambda row: row["concurrency"]):
        if row["variant"] == "k=1":
            rows.setdefault(row["id"], row)
    said, silent = [], 0
    for row in rows.values():
        itself = row.get("confidence") or {}
        chance, form = itself.get("chance"), itself.get("of_form")
        if chance is None or form is None:
            silent += 1
            continue
        said.append((chance, form, normalised(row["answer"]) in map(normalised, answers[row["id"]])))
    if not said:
        raise SystemExit(f"{run}: no answer at k=1 says how likely it is to be right; rows of earlier versions do not")
    return said, silent


def cross_validated(every):
    """By set: what is said of each row by weights that were fitted without its fold, and whether it is so."""
    said = {}
    for fold in range(FOLDS):
        weights = fitted([(row, so) for n, (_, row, so) in enumerate(every) if n % FOLDS != fold])
        for n, (name, row, so) in enumerate(every):
            if n % FOLDS == fold:
                said.setdefault(name, []).append((chance(weights, row), so))
    return said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="+", type=Path, metavar="BUNDLE|RUN")
    parser.add_argument("--off-form", type=Path, metavar="BUNDLE|RUN")
    chosen = parser.parse_args()
    # By their whole path: a recording's own folder is called "bundle", whatever it is of.
    folders = {str(folder): folder for folder in chosen.folder}
    if chosen.off_form:
        folders[OFF] = chosen.off_form
    runs = [is_run(folder) for folder in folders.values()]
    if any(runs) and not all(runs):
        parser.error("bundles and runs cannot be told together")
    if any(runs):
        said, of_form = {}, {}
        for name, folder in folders.items():
            every, silent = told(folder)
            said[name] = [(chance, right and name != OFF) for chance, _, right in every]
            of_form[name] = [(form, name != OFF) for _, form, _ in every]
            if silent:
                # What is not said is not known, and is not 0.
                print(f"{name}: {silent} answers say nothing of themselves, and are left out")
        show(said, of_form, {name: len(pairs) for name, pairs in said.items()})
        return
    sets = {name: list(answered(folder)) for name, folder in folders.items()}
    rows = [(name, *row) for name, of_set in sets.items() for row in of_set]
    random.Random(1).shuffle(rows)
    every = [(name, row, right and name != OFF) for name, row, _, right in rows]
    known = [(name, form, name != OFF) for name, _, form, _ in rows]
    asked = {name: len(lines(folder / "questions.jsonl")) for name, folder in folders.items()}
    show(cross_validated(every), cross_validated(known), asked)
    print("an answer's chance:")
    for name, weight in zip([*NAMES, "chooses", "asks_when", "names_several"], fitted([(row, right) for _, row, right in every])):
        print(f"    {name}: {weight:.3f},")
    print("a question's form:")
    for name, weight in zip([*NAMES, "names_nothing", "asks_nothing"], fitted([(row, form) for _, row, form in known])):
        print(f"    {name}: {weight:.3f},")


def show(said, of_form, asked):
    """Of each set, of which so many were asked: how far the chances are from the truth, and what is declined at which bounds."""
    for name, pairs in sorted(said.items()):
        right = sum(r for _, r in pairs)
        print(f"{name}: {len(pairs)} answers, {right} right, calibration error {calibration_error(pairs):.3f}")
        if bound := kept(pairs):
            print(f"  at {bound[0]:.3f}, where 80 % of the right answers stay, {100 * bound[1]:.0f} % of the wrong ones do")
    # What was not looked up is worth nothing, and is withheld at any bound.
    on_form = {name: pairs for name, pairs in said.items() if name != OFF}
    asked_on, asked_off = sum(asked[name] for name in on_form), asked.get(OFF, 0)
    asked_right = sum(r for pairs in on_form.values() for _, r in pairs)
    print("declined or not looked up: off-form inputs, questions, right answers")
    for least in (0.0, 0.001, 0.003, 0.01):
        for form in (0.0, 0.2, 0.25, 0.3, 0.33, 0.35, 0.4, 0.5):
            stay, right = {}, 0
            for name in said:
                pairs = [p for p, f in zip(said[name], of_form[name]) if p[0] >= least and f[0] >= form]
                stay[name] = len(pairs)
                right += sum(r for _, r in pairs)
            off_stay = stay.pop(OFF, 0)
            off_share = 100 * (asked_off - off_stay) / max(1, asked_off)
            on_share = 100 * (asked_on - sum(stay.values())) / asked_on
            print(f"  confidence {least}, form {form}: {off_share:.1f} %, {on_share:.1f} %, {asked_right - right} of {asked_right}")


if __name__ == "__main__":
    main()
