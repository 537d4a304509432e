"""Learning curves of a log.jsonl as an SVG."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402  (the backend must be chosen first)

# Without it every drawing gets a random id and a date, and no two files are equal.
plt.rcParams["svg.hashsalt"] = "spechop"


def draw_curves(log: Path, out: Path, losses: list[str], shares: list[str]) -> None:
    """Losses on the left, shares (0 to 1) on the right."""
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2))
    for axis, names in ((left, losses), (right, shares)):
        for name in names:
            points = [(r["step"], r[name]) for r in rows if name in r]
            if points:
                axis.plot(*zip(*points), label=name, linewidth=1)
        axis.set_xlabel("step")
        axis.legend(fontsize=8)
    left.set_yscale("log")
    right.set_ylim(0, 1)
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None})
    plt.close(figure)
