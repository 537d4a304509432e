#!/usr/bin/env python3
"""Writes sample.parquet: the rows of sample.jsonl, as pyarrow writes them, with a nested column that the loader passes by.

    pip install pyarrow; eval/datasets/deepresearch/make_parquet.py
"""

import json
from pathlib import Path

import pyarrow
import pyarrow.parquet

HERE = Path(__file__).resolve().parent


def main():
    rows = [json.loads(line) for line in (HERE / "sample.jsonl").read_text(encoding="utf-8").splitlines()]
    for row in rows:
        row["search trajectory"] = [{"query": row["question"], "pages": ["a page", "another"]}]
    # Two row groups, as larger files have.
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), HERE / "sample.parquet", row_group_size=4)


if __name__ == "__main__":
    main()
