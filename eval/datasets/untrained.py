"""Which questions no model of ours was trained on. Used by make_untrained.py and make_musique.py; standard library only."""

import json
import sys
from pathlib import Path

DATASETS = Path(__file__).resolve().parent
sys.path.insert(0, str(DATASETS.parent))

from train.records import musique_question, normal, read_jsonl, shipped  # noqa: E402
from train.splits import make_split  # noqa: E402

SEED = 1
# The training's own record of its split: another split would be about other models.
VALIDATION = DATASETS.parent / "train/results/validation.json"
FOLDERS = {"2wiki": "2wikimultihopqa", "musique": "musique"}


def parts(data):
    """{data set: {part: [record, …]}}; the parts are those of README.md."""
    split = make_split(data, DATASETS, seed=SEED)
    wanted = json.loads(VALIDATION.read_text(encoding="utf-8"))["sha256"]
    if split.as_json(SEED)["sha256"] != wanted:
        sys.exit(f"{data} gives another split than the models were trained on, see {VALIDATION}: take the data of eval/train/README.md")
    trained = {question.id for question in split.train}
    trained_keys = set().union(*(question.keys for question in split.train))
    trained_texts = {normal(question.text) for question in split.train}
    validation = {question.id for question in split.validation}
    shipped_ids = shipped(DATASETS)[0]
    found = {name: {"validation": [], "shipped": [], "apart": [], "near": []} for name in FOLDERS}
    for name, folder in FOLDERS.items():
        for record in records(data / folder):
            if identity(record) in trained or normal(record["question"]) in trained_texts:
                continue
            shares = bool(keys(record) & trained_keys)
            if identity(record) in validation:
                part = "validation"
            elif identity(record) in shipped_ids:
                part = "shipped"
            else:
                part = "near" if shares else "apart"
            if shares and part != "near":
                sys.exit(f"{identity(record)} shares a page or a hop with the training, and is one of {part}")
            found[name][part].append(record)
    return {name: {part: records for part, records in of_name.items() if records} for name, of_name in found.items()}


def records(folder):
    """The questions that a corpus of ours can answer, each once, the fuller record first."""
    seen = set()
    for name in ("questions.jsonl", "extra_questions.jsonl", "goldonly_covered.jsonl"):
        for record in read_jsonl(folder / name):
            if identity(record) not in seen:
                seen.add(identity(record))
                yield record


def identity(record):
    return record.get("_id") or record["id"]


def keys(record):
    """Gold titles and gold hops, as the split counts them; also of records whose structure the training cannot use."""
    if "question_decomposition" in record:
        return musique_question(record).keys
    titles = {f"t:{normal(title)}" for title, _ in record["supporting_facts"]}
    return titles | {f"h:{normal(subject)}|{relation}|{normal(value)}" for subject, relation, value in record["evidences"]}
