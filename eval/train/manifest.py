"""Run manifests: what went in, so that a figure keeps its circumstances."""

from __future__ import annotations

import json
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from .records import read_jsonl

PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "gguf", "onnx", "onnxruntime", "xllamacpp")
# What may differ when a training is resumed: how long, where and on what it runs.
FREE = {"steps", "decay", "out", "device", "threads", "workers", "save_every", "check_every"}


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
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_as_json({**fields, "versions": versions(), "machine": machine}))


def refuse_other(path: Path, **fields: object) -> None:
    """Ends a resumed training whose inputs or arguments are not those that its checkpoint was trained with."""
    if not path.exists():
        return
    begun, now = json.loads(path.read_text()), json.loads(_as_json(fields))
    for each in (begun, now):
        each["arguments"] = {name: value for name, value in each["arguments"].items() if name not in FREE}
    # Figures such as counts follow from these.
    inputs = [name for name in now if name in ("arguments", "data") or name.endswith("_sha256")]
    others = [name for name in inputs if now[name] != begun.get(name)]
    if others:
        sys.exit(f"{path} was begun with other {' and '.join(others)}: train in another folder, or take away its checkpoint")


def _as_json(fields: dict) -> str:
    fields = {k: _without_folders(v) for k, v in fields.items()}
    return json.dumps(fields, indent=1, sort_keys=True, default=str) + "\n"


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
