"""Asks a question set of a server in one configuration, so that a stopped run goes on where it stopped.

Rows and circumstances of one (row, set) lie in OUT/rows/ROW.SET.jsonl and .json. What was begun with other models or
settings is not mixed with: it is refused until --again clears it. Not a command; run.py and speculators.py are.
"""

import argparse
import dataclasses
import hashlib
import json
import os
import random
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "eval/bench")]

import live  # noqa: E402

SETS = ("2wiki", "musique")
INDEXES = {"2wiki": "indexes/2wiki", "musique": "indexes/musique-extended"}
CONFIG = ROOT / "deploy/demo.toml"
# A slow machine must change no answer: the defaults end a stage after two minutes, a question after five.
PATIENCE = {
    "question.segment_ms_max": "900000",
    "question.target_ms_max": "900000",
    "question.deadline_ms": "7200000",
    "question.speculation_ms_max": "900000",
}


@dataclasses.dataclass
class Row:
    """One configuration. Settings are keys of `spechop serve`; "{data}" is its data folder, "{gold}" the gold planner."""

    name: str
    about: str
    settings: dict
    k: int = 1
    # Most questions of a set; the slow models are asked fewer, always the first of the same order.
    limit: int | None = None


def arguments(description, rows):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--spechop", required=True, help="the binary")
    parser.add_argument("--sets", type=Path, required=True, help="what sets.py wrote")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", default=",".join(rows), type=lambda s: s.split(","), help="which, of " + ", ".join(rows))
    parser.add_argument("--only", default=",".join(SETS), type=lambda s: s.split(","), help="which sets")
    parser.add_argument("--limit", type=int, help="most questions of a set, in place of each row's own")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="of every model")
    parser.add_argument("--again", action="store_true", help="throw away what is there of the rows named")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="further keys, e.g. reader.dir=DIR")
    args = parser.parse_args()
    unknown = [name for name in args.rows if name not in rows] + [name for name in args.only if name not in SETS]
    if unknown:
        parser.error(f"no such row or set: {', '.join(unknown)}")
    # Threads that spin while they wait cost a shared machine more than they gain.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    return args


def records(args, name):
    """A set in the order of the seed: a longer run contains the shorter one."""
    found = live.read(args.sets / f"{name}.jsonl")
    random.Random(args.seed).shuffle(found)
    return found


def ask_all(args, row, name, gold_url=None, latency_ms=0.0):
    """The answers of a row on a set: those that are there, and those that were missing."""
    wanted = records(args, name)[: args.limit or row.limit]
    folder = args.out / "rows"
    folder.mkdir(parents=True, exist_ok=True)
    rows_file, about_file = (folder / f"{row.name}.{name}.{end}" for end in ("jsonl", "json"))
    about = circumstances(args, row, name, latency_ms)
    if args.again:
        rows_file.unlink(missing_ok=True)
    have = {got["id"]: got for got in read_rows(rows_file)}
    # What is complete stays, whatever has become of the models since; the manifest says which they were.
    missing = [record for record in wanted if record["_id"] not in have]
    if missing:
        if have and comparable(json.loads(about_file.read_text())) != comparable(about):
            sys.exit(f"{row.name} on {name} was begun with other models or settings: --again --rows {row.name} starts it anew")
        about_file.write_text(json.dumps(about, indent=1) + "\n")
        have |= run(args, row, name, missing, rows_file, gold_url, latency_ms)
    return [have[record["_id"]] for record in wanted]


def run(args, row, name, missing, rows_file, gold_url, latency_ms):
    settings = {"index.dir": f"{data_dir()}/{INDEXES[name]}", **PATIENCE}
    settings |= {f"{part}.threads": str(args.threads) for part in ("generator", "reader", "encoder")}
    if any(key.startswith("speculator.model.") for key in row.settings):
        settings["speculator.model.threads"] = str(args.threads)
    places = {"{data}": str(data_dir()), "{gold}": gold_url or ""}
    for key, value in row.settings.items():
        for mark, place in places.items():
            value = value.replace(mark, place)
        settings[key] = value
    server_args = argparse.Namespace(
        spechop=args.spechop,
        config=str(CONFIG),
        set=[f"{key}={value}" for key, value in settings.items()] + args.set,
        latency_mean_ms=latency_ms,
        latency_sigma_ms=0.0,
        seed=args.seed,
    )
    got = {}
    server, address = live.start(server_args, args.out)
    try:
        with open(rows_file, "a", encoding="utf-8") as file:
            for n, record in enumerate(missing):
                begun = time.monotonic()
                answer = ask(args, server, address, record, row.k)
                print(json.dumps(answer, ensure_ascii=False), file=file, flush=True)
                got[record["_id"]] = answer
                right = "right" if answer["exact_match"] else "wrong"
                spent = time.monotonic() - begun
                print(f"{row.name} {name} {n + 1}/{len(missing)}: {spent:.1f} s, {right}, {answer['answer']!r}", file=sys.stderr)
    finally:
        server.terminate()
        server.wait()
    return got


def ask(args, server, address, record, k):
    """An answer; where the server has none, which small models bring about, an empty one."""
    try:
        return live.ask(args.spechop, address, record, k)
    except live.Unanswered as error:
        # That is a server's answer. One that is gone gives none, and must not look like a bad model.
        if server.poll() is not None:
            raise
        print(error, file=sys.stderr)
    return {
        "id": record["_id"], "type": record["type"], "k": k, "answer": "", "gold": record["answer"],
        "exact_match": False, "f1": 0.0, "gold_titles_found": 0.0, "elapsed_ms": 0.0, "trajectory": [],
        "kinds": [], "guesses": [], "times_ms": [], "stop": "unanswered",
    }  # fmt: skip


def read_rows(path):
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def circumstances(args, row, name, latency_ms):
    """What an answer may depend on, without the names of folders of this machine."""
    return {
        "row": row.name,
        "about": row.about,
        "settings": row.settings,
        "further_keys": [pair.split("=", 1)[0] for pair in args.set],
        "k": row.k,
        "set": name,
        "set_sha256": sha256(args.sets / f"{name}.jsonl"),
        "models_sha256": {key: sha256(path) for key, path in models(row, args).items()},
        "injected_latency_ms": latency_ms,
        "seed": args.seed,
        "commit": live.text("git", "rev-parse", "HEAD"),
        "machine": {"cores": os.cpu_count(), "cpu": live.cpu()},
    }


def comparable(about):
    return {key: value for key, value in about.items() if key not in ("commit", "machine", "about")}


def models(row, args):
    """The files of the models that a row uses, defaults included."""
    settings = row.settings | dict(pair.split("=", 1) for pair in args.set)
    folder = data_dir() / "models"
    found = {}
    if settings.get("generator.kind", "local") == "local" and "generator.file" not in settings:
        found["planner"] = folder / "smollm2-135m-instruct/model.gguf"
        found["planner adapter"] = Path(settings.get("generator.adapter", folder / "spechop-planner/adapter.gguf"))
    for key in ("generator.file", "reader.file", "speculator.model.file"):
        if key in settings:
            found[key.removesuffix(".file")] = Path(settings[key].replace("{data}", str(data_dir())))
    if settings.get("reader.kind", "spans") == "spans":
        reader = Path(settings.get("reader.dir", folder / "spechop-reader"))
        found |= {"reader": reader / "model.onnx", "reader settings": reader / "reader.toml"}
    return found


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def data_dir():
    """As the binary finds it."""
    if given := os.environ.get("SPECHOP_DATA_DIR"):
        return Path(given)
    shared = os.environ.get("XDG_DATA_HOME")
    return (Path(shared) if shared else Path.home() / ".local/share") / "spechop"
