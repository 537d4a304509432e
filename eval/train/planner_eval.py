"""How well the planner plans: validation questions, one step at a time on gold known hops.

`python -m train.planner_eval --data DIR --base model.gguf [--adapter adapter.pt|planner.gguf] [--report FILE]`.
A `.pt` adapter runs in torch, a `.gguf` one in llama.cpp on the packaged base. Without one, the base is a
model that an adapter is merged into, as `spechop models pull spechop-planner-merged` makes it.
`--compare OTHER` counts the steps at which two adapters write the same line.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from .augment import Augmenter
from .drills import Drills
from .generate import NextLines, llama_lines, torch_lines
from .records import Hop, Question, normal
from .splits import make_split
from .trajectories import ARROW, Trajectory, gold, gold_answers
from .wording import accepted

DRILLS = 200


@dataclass
class Step:
    """One line to be written."""

    kind: str  # the question's
    what: str  # "ask" or "answer"
    prompt: str
    right: set[str]  # normalised
    gold: str


def askable(q: Question, done: int) -> list[Hop]:
    """The next hop, and any later one that could as well be asked now (the other side of a comparison)."""
    known = set(range(done))
    return [h for i, h in enumerate(q.hops) if i >= done and set(h.refs()) <= known]


def steps(q: Question) -> list[Step]:
    known = gold_answers(q)
    made, prompt = [], ""
    for text, weight in gold(q).segments:
        if weight > 0:
            done = sum(s.what == "ask" for s in made)
            if "Answer: " in text.splitlines()[-1]:
                made.append(Step(q.kind, "answer", prompt, {normal(q.answer)}, text.strip()))
            else:
                right = set().union(*(accepted(h, q, known) for h in askable(q, done)))
                made.append(Step(q.kind, "ask", prompt, right, text.removesuffix(ARROW)))
        prompt += text
    return made


def drill_step(t: Trajectory) -> Step:
    """Only a drill's comparison itself."""
    text = t.segments[-1][0].strip()
    right = {normal(text.splitlines()[-1].removeprefix("Answer: "))}
    return Step(f"drill_{t.kind}", "answer", "".join(s for s, _ in t.segments[:-1]), right, text)


def judge(step: Step, line: str) -> bool:
    line = line.splitlines()[-1] if line else ""
    is_answer = line.startswith("Answer:")
    if step.what == "answer":
        return is_answer and normal(line.removeprefix("Answer:")) in step.right
    return not is_answer and normal(line) in step.right


def evaluate(lines: NextLines, made: list[Step]) -> tuple[dict[str, list[int]], list[dict]]:
    """`[right, of]` by what and kind, and one row a step."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    rows = []
    for step, line in zip(made, lines([s.prompt for s in made])):
        right = judge(step, line)
        labels = [f"{step.what}/{step.kind}"]
        if not step.kind.startswith("drill"):
            labels.append(f"{step.what}/all")
            if step.what == "answer" and step.kind in ("comparison", "bridge_comparison"):
                labels.append("comparison_accuracy/yes_no" if step.right <= {"yes", "no"} else "comparison_accuracy/which")
        for label in labels:
            counts[label][0] += right
            counts[label][1] += 1
        rows.append({"what": step.what, "kind": step.kind, "prompt": step.prompt, "line": line, "gold": step.gold, "right": right})
    return {k: counts[k] for k in sorted(counts)}, rows


def load(base: Path, adapter: Path | None, device: str, threads: int) -> NextLines:
    if adapter is None or adapter.suffix == ".gguf":
        return llama_lines(base, adapter, threads)
    return torch_lines(base, adapter, device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--datasets", type=Path, default=Path("datasets"))
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--adapter", type=Path)
    parser.add_argument("--compare", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--limit", type=int, help="only so many validation questions")
    parser.add_argument("--report", type=Path)
    args = parser.parse_args()
    split = make_split(args.data, args.datasets, args.seed)
    drills = Drills(Augmenter(split.train))
    made = [s for q in split.validation[: args.limit] for s in steps(q)]
    made += [drill_step(drills.comparison(random.Random(f"check:{i}"))) for i in range(DRILLS)]
    counts, rows = evaluate(load(args.base, args.adapter, args.device, args.threads), made)
    report = {"adapter": args.adapter.name if args.adapter else None, "counts": counts}
    if args.compare:
        others = load(args.base, args.compare, args.device, args.threads)([s.prompt for s in made])
        report["same_lines"] = [sum(r["line"] == o for r, o in zip(rows, others)), len(rows)]
        report["compared_with"] = args.compare.name
    print(json.dumps(report, indent=1))
    if args.report:
        args.report.write_text(json.dumps(report | {"rows": rows}, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
