"""Laws of the training code that need no model: `python -m unittest train.test_train`."""

from __future__ import annotations

import random
import unittest

import torch

from .planner_export import permute
from .records import Hop, Question, mention, normal, wiki_question
from .reader_boundary import CASES, cut
from .reader_data import find, variants
from .trajectories import NO_INFO, Options, build, gold, operation
from .values import canonical_country, date_pair, earlier, parse_date, spell_date
from .wording import accepted, ask, tidy


def older() -> Question:
    hops = [Hop(["8 October 1848"], "Ada B", None, "date of birth"), Hop(["1990"], "Cy D", None, "date of birth")]
    return Question("1", "2wiki", "comparison", "Who is older, Ada B or Cy D?", "Ada B", hops)


class Values(unittest.TestCase):
    def test_a_date_survives_every_spelling(self) -> None:
        rng = random.Random(1)
        for _ in range(500):
            date, _ = date_pair(rng)
            self.assertEqual(parse_date(spell_date(date, rng)), date)

    def test_what_is_not_written_does_not_decide(self) -> None:
        self.assertIsNone(earlier((1900, 0, 0), (1900, 5, 1)))
        self.assertTrue(earlier((1899, 12, 31), (1900, 0, 0)))

    def test_adjectives_name_their_country(self) -> None:
        self.assertEqual(canonical_country("American"), canonical_country("the U.S."))


class Format(unittest.TestCase):
    def test_gold_comparison(self) -> None:
        self.assertEqual(
            gold(older()).text,
            "Question: Who is older, Ada B or Cy D?\nWhen was Ada B born? => 8 October 1848\n"
            "When was Cy D born? => 1990\nCompare: first 1848 Ada B\nAnswer: Ada B\n",
        )

    def test_only_the_planners_own_lines_are_learnt(self) -> None:
        for text, weight in gold(older()).segments:
            self.assertEqual(weight > 0, text.endswith(" =>") or "Answer: " in text)

    def test_a_hop_lost_twice_ends_a_chain(self) -> None:
        hops = [Hop(["X"], "Film", None, "director"), Hop(["Y"], None, 0, "place of birth")]
        q = Question("2", "2wiki", "compositional", "Where was the director of Film born?", "Y", hops)
        texts = {build(q, ["X", "Y"], "Y", Options(no_info=1.0), random.Random(i)).text for i in range(20)}
        self.assertTrue(any(t.endswith("Answer: unknown\n") and t.count(NO_INFO) == 2 for t in texts))

    def test_an_open_answer_is_asked_about_and_never_concluded_from(self) -> None:
        hops = [Hop(["X"], "Film", None, "director"), Hop(["Y"], None, 0, "place of birth")]
        q = Question("2", "2wiki", "compositional", "Where was the director of Film born?", "Y", hops)
        texts = {build(q, ["X", "Y"], "Y", Options(open=1.0), random.Random(i)).text for i in range(20)}
        self.assertTrue(any("Where was the answer of sub-question 1 born? =>" in t for t in texts))
        self.assertFalse(any("Answer:" in t for t in texts))

    def test_operation_is_read_off_the_gold_values(self) -> None:
        self.assertEqual(operation(older()), "min")

    def test_paraphrases_count_as_right(self) -> None:
        q = older()
        self.assertIn(normal("What is Ada B's date of birth?"), accepted(q.hops[0], q, []))

    def test_hops_are_tidied(self) -> None:
        self.assertEqual(tidy("who is #1 's wife ?"), "Who is #1's wife?")
        self.assertEqual(ask(Hop(["x"], template="when did #1 win the #2"), "", ["A", "B"]), "When did A win the B?")


class Data(unittest.TestCase):
    def test_mentions_are_spelled_as_in_the_question(self) -> None:
        self.assertEqual(mention("Is Haiducii (Film) old?", ["Haiducii (film)"]), "Haiducii (Film)")

    def test_bridges_refer_to_their_own_director(self) -> None:
        raw = {
            "_id": "x", "type": "bridge_comparison", "question": "Which film has the older director, F1 or F2?", "answer": "F1",
            "supporting_facts": [["F1", 0], ["F2", 0]],
            "evidences": [["F1", "director", "A"], ["F2", "director", "B"], ["A", "date of birth", "1900"], ["B", "date of birth", "1950"]],
        }
        self.assertEqual([h.ref for h in wiki_question(raw).hops], [None, None, 0, 1])

    def test_dates_are_found_in_either_order(self) -> None:
        self.assertEqual(len(find(variants("May 4, 1948"), "(born 4 May 1948)")), 1)


class Reading(unittest.TestCase):
    def test_spans_are_cut_and_passed_over_as_the_table_says(self) -> None:
        lines = [line for line in CASES.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
        self.assertGreater(len(lines), 40)
        for line in lines:
            question, span, answer = line.split("\t")
            self.assertEqual(cut(question, span) or "-", answer, line)


class Export(unittest.TestCase):
    def test_permutation_puts_rotary_pairs_side_by_side(self) -> None:
        rows = torch.arange(8).unsqueeze(1)
        self.assertEqual(permute(rows, 1).squeeze(1).tolist(), [0, 4, 1, 5, 2, 6, 3, 7])


if __name__ == "__main__":
    unittest.main()
