"""The mean of two readers of one lineage: `python -m train.reader_average --weights A/reader.pt B/reader.pt --out DIR`.

Where the second was trained from the first, their mean reads better than either (Wortsman et al., arXiv 2203.05482):
what each has lost of the other is halved.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch


def mean(states: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Of each tensor of numbers; whatever else there is must be the same in all."""
    first = states[0]
    if any(state.keys() != first.keys() for state in states):
        raise ValueError("the weights are of different models")
    return {
        name: torch.stack([state[name] for state in states]).mean(0) if value.is_floating_point() else value
        for name, value in first.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=Path, nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.save(mean([torch.load(path, weights_only=True) for path in args.weights]), args.out / "reader.pt")


if __name__ == "__main__":
    main()
