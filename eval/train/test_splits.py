"""`python3 -m unittest train.test_splits` (from eval/): nothing that figures are about is trained on. Standard library only."""

import json
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from . import splits
from .records import evaluated, musique_question, read_jsonl, shipped, wiki_question

TRAIN = Path(__file__).resolve().parent
DATASETS = TRAIN.parent / "datasets"


def wiki(n: int, **changed) -> dict:
    """Two questions of one director each."""
    film, person = f"Film {n}", f"Person {n // 2}"
    return {
        "_id": f"w{n}",
        "type": "compositional",
        "question": f"Who is the mother of the director of {film}?",
        "answer": f"Mother {n // 2}",
        "evidences": [[film, "director", person], [person, "mother", f"Mother {n // 2}"]],
        "supporting_facts": [[film, 0], [person, 0]],
    } | changed


def musique(n: int, hops: int = 2) -> dict:
    """Two questions of one last hop each."""
    parts = [{"id": 10_000 * hops + n, "question": f"Town {hops} {n} >> country", "answer": f"Land {n}"}]
    parts += [{"id": 1_000_000 * hops + 10 * (n // 2) + at, "question": f"Who rules #{at} ?", "answer": f"Ruler {hops} {n // 2} {at}"} for at in range(1, hops)]
    return {"id": f"{hops}hop__{n}", "question": f"Who rules Town {hops} {n}?", "answer": parts[-1]["answer"], "question_decomposition": parts}


def split(records: dict[str, list[dict]], seed: int = 1) -> splits.Split:
    """Of data that holds these questions, with a few for validation."""
    few = {"2wiki": (8, 4), "musique-2hop": (4, 4), "musique-long": (2, 12)}
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(splits.VALIDATION, few):
        for name in ("2wikimultihopqa", "musique"):
            (Path(folder) / name).mkdir()
            for file in ("questions", "extra_questions", "goldonly_questions"):
                lines = records[name] if file == "questions" else []
                text = "".join(json.dumps(record) + "\n" for record in lines)
                (Path(folder) / name / f"{file}.jsonl").write_text(text, encoding="utf-8")
        return splits.make_split(Path(folder), DATASETS, seed)


def made() -> dict[str, list[dict]]:
    return {
        "2wikimultihopqa": [wiki(n) for n in range(40)],
        "musique": [musique(n) for n in range(20)] + [musique(n, hops=3) for n in range(10)],
    }


def ids(questions) -> set[str]:
    return {question.id for question in questions}


class Splits(unittest.TestCase):
    def test_no_gold_page_and_no_hop_is_on_both_sides(self) -> None:
        parts = split(made())
        self.assertEqual(len(parts.validation), 8 + 4 + 2)
        self.assertGreater(len(parts.train), 20)
        keys = [set().union(*(question.keys for question in side)) for side in (parts.train, parts.validation)]
        self.assertFalse(keys[0] & keys[1])
        self.assertEqual(len(parts.train) + len(parts.validation) + parts.dropped, 70)
        self.assertGreater(parts.dropped, 0)

    def test_the_same_seed_draws_the_same_whatever_the_order(self) -> None:
        turned = {name: records[::-1] for name, records in made().items()}
        self.assertEqual(split(made()).as_json(1), split(turned).as_json(1))
        self.assertNotEqual(ids(split(made()).validation), ids(split(made(), seed=2).validation))

    def test_what_shares_anything_with_a_shipped_question_is_on_neither_side(self) -> None:
        *raw, other = read_jsonl(DATASETS / "2wikimultihopqa/questions.jsonl.gz")[:21]
        alike = [
            *raw,
            wiki(100, _id="text", question=raw[0]["question"] + " "),
            wiki(102, _id="page", supporting_facts=[["Film 102", 0], [raw[1]["supporting_facts"][0][0], 0]]),
            wiki(104, _id="hop", evidences=[["Film 104", "director", "Person 52"], raw[2]["evidences"][0]]),
            wiki(106, _id=other["_id"]),
        ]
        # The text must show where the look-ups begin, or the question would be left out for another reason.
        alike[len(raw)]["evidences"][0][0] = wiki_question(raw[0]).hops[0].subject
        self.assertTrue(all(wiki_question(record) for record in alike[len(raw) :]))
        records = made()
        parts = split(records | {"2wikimultihopqa": records["2wikimultihopqa"] + alike})
        self.assertFalse(ids(parts.train + parts.validation) & {record["_id"] for record in alike})

    def test_a_question_of_the_figures_is_refused(self) -> None:
        parts = split(made())
        splits.refuse_evaluated(parts, DATASETS)
        leaked = musique_question(musique(1) | {"id": min(evaluated(DATASETS))})
        parts.train.append(leaked)
        with self.assertRaises(SystemExit):
            splits.refuse_evaluated(parts, DATASETS)

    def test_the_recorded_validation_questions_are_none_of_the_shipped_ones(self) -> None:
        recorded = set(json.loads((TRAIN / "results/validation.json").read_text(encoding="utf-8"))["validation"])
        self.assertEqual(len(recorded), 370)
        self.assertFalse(recorded & shipped(DATASETS)[0])
        untrained = json.loads((DATASETS / "untrained.json").read_text(encoding="utf-8"))
        for parts in untrained.values():
            self.assertLessEqual(set(parts["validation"]), recorded)


if __name__ == "__main__":
    unittest.main()
