"""`python3 -m unittest train.test_fit_confidence` (from eval/): what is told of the answers of a run. Standard library only."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

TRAIN = Path(__file__).resolve().parent
sys.path.insert(0, str(TRAIN))

import fit_confidence  # noqa: E402


def row(number: int, chance: float | None, right: bool, form: float = 0.9, **more) -> dict:
    confidence = {} if chance is None else {"confidence": {"chance": chance, "of_form": form, "supported": True}}
    return {"id": f"q{number}", "variant": "k=1", "concurrency": 1, "answer": "The Ana." if right else "Eva", **confidence, **more}


class Told(unittest.TestCase):
    def run_of(self, rows: list[dict]) -> Path:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        ids = dict.fromkeys(row["id"] for row in rows)
        for name, of in (("rows", rows), ("questions", [{"id": one, "answers": ["Ana"]} for one in ids])):
            text = "".join(json.dumps(line) + "\n" for line in of)
            (Path(folder.name) / f"{name}.jsonl").write_text(text, encoding="utf-8")
        return Path(folder.name)

    def printed(self, *words: object) -> list[str]:
        out = io.StringIO()
        argv = ["fit_confidence.py", *map(str, words)]
        with unittest.mock.patch.object(sys, "argv", argv), contextlib.redirect_stdout(out):
            fit_confidence.main()
        return out.getvalue().splitlines()

    def test_an_answer_is_right_by_exact_match_and_counts_once(self):
        run = self.run_of([
            row(0, 0.75, True), row(1, 0.25, False), row(1, 0.5, True, concurrency=8), row(1, 0.5, True, variant="k=3"),
        ])
        self.assertEqual(fit_confidence.told(run), ([(0.75, 0.9, True), (0.25, 0.9, False)], 0))

    def test_what_is_not_said_is_not_0(self):
        run = self.run_of([row(0, 0.75, True), row(1, None, False), row(2, 0.5, False, confidence={"supported": True})])
        self.assertEqual(fit_confidence.told(run), ([(0.75, 0.9, True)], 2))
        silent, *said = self.printed(run)
        self.assertIn("2 answers say nothing of themselves", silent)
        self.assertIn("1 answers, 1 right, calibration error 0.250", said[0])
        self.assertIn("confidence 0.0, form 0.0: 0.0 %, 0.0 %, 0 of 1", said[3])
        with self.assertRaisesRegex(SystemExit, "earlier versions"):
            fit_confidence.told(self.run_of([row(0, None, True)]))

    def test_a_run_of_what_is_no_question_says_how_much_is_declined(self):
        on = self.run_of([row(number, 0.9, True) for number in range(4)])
        # One is not looked up, one is flagged; no answer to them can be right.
        off = self.run_of([row(0, 0.0, True, 0.0), row(1, 0.5, True, 0.1), row(2, 0.5, True, 0.9), row(3, 0.5, True, 0.9)])
        said = self.printed(on, "--off-form", off)
        self.assertIn("off-form: 4 answers, 0 right, calibration error 0.375", said)
        self.assertIn("  confidence 0.001, form 0.35: 50.0 %, 0.0 %, 0 of 4", said)
        self.assertNotIn("an answer's chance:", said)

    def test_a_bundle_and_a_run_are_not_told_together(self):
        run, bundle = self.run_of([row(0, 0.9, True)]), tempfile.TemporaryDirectory()
        self.addCleanup(bundle.cleanup)
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as said:
            self.printed(run, bundle.name)
        self.assertIn("cannot be told together", said.getvalue())


class Offered(unittest.TestCase):
    def test_a_question_may_offer_its_answers(self):
        # The same rows are in the program's own test of `Question`.
        for text, yes_or_no, choice in [
            ("Are Ann and Ben from the same country?", True, False),
            ("Was Ann or Ben born first?", False, True),
            ("Who was born first out of Ann and Ben?", False, True),
            ("Of Ann and Ben, who is older?", False, True),
            ("Who is the child of Ann and Ben?", False, False),
            ("Does anyone know who directed Up?", False, False),
            ("Could anybody tell me the director of Up?", False, False),
            ("Was Ann OR Ben born first?", False, True),
            ("Do the films Who and When Ann Met Ben have directors who are French?", True, False),
        ]:
            self.assertEqual(fit_confidence.asks_yes_or_no(text), yes_or_no, text)
            self.assertEqual(fit_confidence.offers_a_choice(text), choice, text)

    def test_what_is_offered_can_be_chosen(self):
        for answer, question, chosen in [
            ("Ann", "Who is older, Ann or Ben?", True),
            ("Ann", "Who is the mother of Ann?", False),
            ("Yes.", "Is Ann old?", True),
            ("Ann", "Is Ann old?", False),
            ("yes", "Who is Ann?", False),
        ]:
            self.assertEqual(fit_confidence.chooses(answer, question), chosen, question)


class Kept(unittest.TestCase):
    def test_the_bound_is_the_one_at_which_four_of_five_right_answers_stay(self):
        right = [(share / 10, True) for share in (9, 8, 7, 6, 1)]
        self.assertEqual(fit_confidence.kept([*right, (0.95, False), (0.6, False), (0.5, False), (0.2, False)]), (0.6, 0.5))
        self.assertEqual(fit_confidence.kept([(0.5, True)]), (0.5, 0.0))
        self.assertIsNone(fit_confidence.kept([(0.5, False)]))


if __name__ == "__main__":
    unittest.main()
