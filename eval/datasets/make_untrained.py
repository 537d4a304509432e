#!/usr/bin/env python3
"""Makes untrained.json: the questions that no model of ours was trained on. Standard library only; same input, same bytes.

    make_untrained.py DATA [--out FILE]

DATA is the folder that eval/train/README.md describes. What the parts mean: README.md.
"""

import argparse
import json
from pathlib import Path

from untrained import DATASETS, identity, parts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=DATASETS / "untrained.json")
    args = parser.parse_args()
    ids = {
        name: {part: sorted(identity(record) for record in records) for part, records in of_name.items()}
        for name, of_name in parts(args.data).items()
    }
    args.out.write_text(json.dumps(ids, indent=1) + "\n", encoding="utf-8")
    for name, of_name in ids.items():
        print(name, sum(map(len, of_name.values())), {part: len(listed) for part, listed in of_name.items()})


if __name__ == "__main__":
    main()
