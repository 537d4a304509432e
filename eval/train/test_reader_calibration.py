"""`python3 -m unittest train.test_reader_calibration` (from eval/): which readings count, and how far they are from what was said. Standard library only."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

TRAIN = Path(__file__).resolve().parent
sys.path.insert(0, str(TRAIN))

import reader_calibration  # noqa: E402
from fit_confidence import calibration_error  # noqa: E402

RUNS = TRAIN.parent / "runs"


def question(text: str, hops: list[tuple[str, str]], answers: list[str]) -> dict:
    return {"text": text, "answers": answers, "hops": [{"asks": asks, "answer": answer} for asks, answer in hops]}


def stages(text: str, read: list[tuple[str, str | None, float]], answer: str) -> list[dict]:
    """What the agent wrote and read on its way to the answer."""
    found, hops = [], []
    for asked, said, sure in read:
        segment = {"stage": "segment", "question": text, "hops": list(hops), "must_answer": False}
        found.append({"input": segment, "output": {"ask": asked}})
        found.append({"input": {"stage": "reading", "sub_question": asked}, "output": {"read": said}, "sure": sure})
        hops.append([asked, said or "No relevant information found"])
    last = {"stage": "segment", "question": text, "hops": hops, "must_answer": False}
    return [*found, {"input": last, "output": {"answer": answer}}]


def readings(questions: list[dict], recorded: list[dict]) -> list[tuple[float, bool]]:
    with tempfile.TemporaryDirectory() as folder:
        for name, of in (("questions", questions), ("stages", recorded)):
            text = "".join(json.dumps(line) + "\n" for line in of)
            (Path(folder) / f"{name}.jsonl").write_text(text, encoding="utf-8")
        return reader_calibration.readings(Path(folder))


class Readings(unittest.TestCase):
    def test_a_hop_counts_while_all_before_it_were_right(self):
        hops = [("Ash >> author", "Ann"), ("Ann >> spouse", "Ben"), ("Ben >> mother", "Cid")]
        for read, said in [
            ([("Who wrote Ash?", "the Ann.", 0.9), ("Ann's spouse?", "Dan", 0.4), ("Dan's mother?", "Cid", 0.8)], [(0.9, True), (0.4, False)]),
            ([("Who wrote Ash?", None, 0.0), ("The author of Ash?", "Ann", 0.7)], [(0.0, False)]),
        ]:
            text = "Who is the mother of the spouse of the author of Ash?"
            self.assertEqual(readings([question(text, hops, ["Cid"])], stages(text, read, "Cid")), said)

    def test_a_sub_question_of_two_questions_counts_once(self):
        texts = ["Who is the spouse of the author of Ash?", "Who is the mother of the author of Ash?"]
        last = ["Ann's spouse?", "Ann's mother?"]
        read = [[("Who wrote Ash?", "Ann", 0.9), (asked, "Ben", 0.5)] for asked in last]
        questions = [question(text, [("Ash >> author", "Ann"), (text, "Ben")], ["Ben"]) for text in texts]
        recorded = [stage for text, of in zip(texts, read) for stage in stages(text, of, "Ben")]
        self.assertEqual(readings(questions, recorded), [(0.9, True), (0.5, True), (0.5, True)])

    def test_the_hop_that_answers_the_question_takes_its_other_answers(self):
        text, read = "Where is the lake that Knott is part of?", [("Which lake?", "Lake District", 0.8), ("Where is it?", "Cumbria", 0.6)]
        hops = [("Knott >> part of", "Lake District"), ("where is #1", "county of Cumbria")]
        for answers, right in ((["county of Cumbria", "Cumbria"], True), (["county of Cumbria"], False), (["Wales", "Cumbria"], False)):
            said = readings([question(text, hops, answers)], stages(text, read, "Cumbria"))
            self.assertEqual(said, [(0.8, True), (0.6, right)])

    def test_a_reader_that_does_not_say_how_sure_it_is_is_refused(self):
        recorded = stages("Who wrote Ash?", [("Who wrote Ash?", "Ann", 0.9)], "Ann")
        del recorded[1]["sure"]
        with self.assertRaisesRegex(SystemExit, "how sure"):
            readings([question("Who wrote Ash?", [("Ash >> author", "Ann")], ["Ann"])], recorded)


class Errors(unittest.TestCase):
    def test_the_error_is_the_mean_gap_of_the_bins(self):
        # Four readings say 0.6 in all and one is right; six say 5.6 and five are. Who says 1 is in the last bin.
        said = [*[(0.15, False)] * 3, (0.15, True), *[(0.9, True)] * 4, (1.0, True), (1.0, False)]
        self.assertAlmostEqual(calibration_error(said), (0.4 + 0.6) / 10)
        self.assertEqual(calibration_error([]), 0)

    def test_a_reader_that_is_as_often_right_as_it_says_has_an_error_by_chance(self):
        self.assertEqual(reader_calibration.error_by_chance([(0.0, False), (1.0, True)] * 20), 0)
        # Of 100 tosses of a coin |share - 1/2| is 0.040 in the mean.
        self.assertAlmostEqual(reader_calibration.error_by_chance([(0.5, True)] * 100), 0.040, delta=0.003)

    def test_an_empty_bin_has_no_share(self):
        rows = reader_calibration.table({"runs/a": [(0.95, True), (0.05, False), (0.05, True)]}).splitlines()
        self.assertEqual(rows[0], "| confidence | a: hops | a: said | a: right |")
        self.assertEqual(rows[2:4], ["| 0.0 to 0.1 | 2 | 0.05 | 0.50 |", "| 0.1 to 0.2 | 0 | – | – |"])
        self.assertEqual(rows[-1], "| all | 3 | 0.350 | 0.667 |")

    def test_the_stored_runs_are_as_docs_measured_has_them(self):
        for run, hops, error in (("2wiki-gold", 452, 0.069), ("musique-gold", 220, 0.142)):
            said = reader_calibration.readings(RUNS / run / "bundle")
            self.assertEqual((len(said), round(calibration_error(said), 3)), (hops, error), run)


if __name__ == "__main__":
    unittest.main()
