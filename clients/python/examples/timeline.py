"""Asks one question and draws what happened: a lane for each branch, a bar for each stage.

    python timeline.py "Who is the mother of the director of film Polish-Russian War?" > timeline.svg

Solid bars are part of the answer. Faded bars were rolled back, or are of a model whose answer it is not.
A guess that is not there before the observation is dropped.
"""

import argparse
import sys
from dataclasses import dataclass
from xml.sax.saxutils import escape

from spechop import AskEvent, SpecHop, SpecHopError

STAGES = {1: ("segment", "#4c78a8"), 2: ("target", "#f58518"), 3: ("speculation", "#54a24b")}
ENDS = {"planned": 1, "drafted": 1, "observed": 2, "guessed": 3}
SPECULATION, DROPPED = 3, "dropped"
WIDTH, LANE, BAR, MARGIN = 900, 44, 11, 70


@dataclass
class Bar:
    """A stage of a branch, in milliseconds."""

    branch: int
    stage: int
    begin: float
    end: float | None = None
    label: str = ""


def bars(events: list[AskEvent]) -> tuple[list[Bar], set[int], float]:
    """The stages of all branches, the branches that are no part of the answer, and when all was over."""
    done: list[Bar] = []
    rolled_back: set[int] = set()
    # The first branch of the fallback, if it was asked.
    anew: int | None = None
    for event in events:
        kind = event.WhichOneof("event")
        # A draft of the planner's words has no end of its own, and no bar.
        if kind == "launched" and event.launched.stage in STAGES:
            done.append(Bar(event.branch, event.launched.stage, event.at_ms))
            continue
        mine = [bar for bar in done if bar.branch == event.branch and bar.end is None]
        if kind in ("observed", "committed"):
            # No event says that a guess was dropped.
            for bar in [bar for bar in mine if bar.stage == SPECULATION]:
                bar.end, bar.label = event.at_ms, DROPPED
        if kind == "rolled_back":
            rolled_back.add(event.branch)
            for bar in mine:
                bar.end = event.at_ms
        elif kind == "handed_over":
            anew = event.branch
            for bar in [bar for bar in done if bar.end is None]:
                bar.end = event.at_ms
        elif kind == "answer" and anew is not None:
            # No event rolls back what was before the fallback. If the fallback fails, that is the answer after all.
            is_by_fallback = event.answer.HasField("handed_over")
            rolled_back |= {bar.branch for bar in done if (bar.branch < anew) == is_by_fallback}
        elif kind in ENDS or kind in ("failed", "not_speculated"):
            happened = getattr(event, kind)
            # What fails, or is refused a turn, is begun again if the answer needs it.
            stage = ENDS[kind] if kind in ENDS else happened.stage
            # A guess may come after all.
            mine += [bar for bar in done if bar.branch == event.branch and bar.label == DROPPED]
            for bar in [bar for bar in mine if bar.stage == stage][-1:]:
                bar.end = event.at_ms
                bar.label = {
                    "planned": lambda: happened.sub_question,
                    "drafted": lambda: happened.answer,
                    "observed": lambda: happened.observation.answer,
                    "guessed": lambda: happened.guess or "no guess",
                    "failed": lambda: happened.reason,
                    "not_speculated": lambda: "not done ahead of need",
                }[kind]()
    return done, rolled_back, events[-1].at_ms


def svg(question: str, events: list[AskEvent]) -> str:
    """The picture."""
    done, rolled_back, over = bars(events)
    branches = sorted({bar.branch for bar in done})
    scale = (WIDTH - MARGIN - 20) / max(over, 1)
    height = MARGIN + LANE * len(branches) + 30
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="11">',
        f'<text x="10" y="20" font-size="14">{escape(question)}</text>',
        f'<text x="10" y="40">{escape(events[-1].answer.answer)}, after {over / 1000:.2f} s</text>',
    ]
    for row, branch in enumerate(branches):
        top = MARGIN + row * LANE
        out.append(f'<text x="10" y="{top + 12}">branch {branch}</text>')
        for bar in (bar for bar in done if bar.branch == branch):
            name, colour = STAGES[bar.stage]
            begin, end = MARGIN + bar.begin * scale, MARGIN + (over if bar.end is None else bar.end) * scale
            y = top + (bar.stage - 1) * (BAR + 2)
            faded = 0.3 if branch in rolled_back else 1
            out.append(
                f'<rect x="{begin:.1f}" y="{y}" width="{max(end - begin, 1):.1f}" height="{BAR}" fill="{colour}" '
                f'opacity="{faded}"><title>{name}: {escape(bar.label)}</title></rect>'
            )
    for at, (name, colour) in enumerate(STAGES.values()):
        x = MARGIN + at * 110
        out.append(f'<rect x="{x}" y="{height - 18}" width="10" height="10" fill="{colour}"/>')
        out.append(f'<text x="{x + 14}" y="{height - 9}">{name}</text>')
    return "\n".join([*out, "</svg>"])


def main() -> None:
    """Reads the command line."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("question")
    words.add_argument("--address", default="127.0.0.1:50051")
    words.add_argument("--k", type=int, default=4)
    asked = words.parse_args()
    try:
        with SpecHop(asked.address) as client:
            events = list(client.stream(asked.question, k=asked.k))
    except SpecHopError as error:
        sys.exit(f"no answer: {error}")
    # Whatever the locale is: an SVG that names no encoding is UTF-8.
    sys.stdout.reconfigure(encoding="utf-8")
    print(svg(asked.question, events))


if __name__ == "__main__":
    main()
