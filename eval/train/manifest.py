"""Run manifests: what went in, so that a figure keeps its circumstances."""

from __future__ import annotations

import json
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from .records import read_jsonl

PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "gguf", "onnx", "onnxruntime", "xllamacpp")


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def write_manifest(path: Path, **fields: object) -> None:
    """Writes the fields and the machine, sorted, so that two runs can be compared by diff."""
    machine = {"cpu": platform.machine(), "threads": torch.get_num_threads()}
    fields = {k: _without_folders(v) for k, v in fields.items()}
    body = {**fields, "versions": versions(), "machine": machine}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(body, indent=1, sort_keys=True, default=str) + "\n")


def _without_folders(value: object) -> object:
    """Paths by their last part: where a file lay says nothing, its hash does."""
    if isinstance(value, dict):
        return {k: _without_folders(v) for k, v in value.items()}
    return value.name if isinstance(value, Path) else value


def append_jsonl(path: Path, row: dict) -> None:
    with path.open("a", encoding="utf-8") as out:
        out.write(json.dumps(row) + "\n")


def keep_until(log: Path, step: int) -> None:
    """Takes out of a log what a process wrote behind its last checkpoint: those steps are taken again."""
    rows = [row for row in read_jsonl(log) if row["step"] <= step] if log.exists() else []
    log.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
