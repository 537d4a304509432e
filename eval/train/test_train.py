"""Laws of the training code that need no model: `python -m unittest train.test_train`."""

from __future__ import annotations

import argparse
import json
import math
import random
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper

from .ahead import ahead
from .augment import Augmenter
from .corpus import Passage
from .joins import Joins
from .lora import add_lora, merge_lora
from .manifest import append_jsonl, keep_until, refuse_other, write_manifest
from .phrases import kind_of, phrases
from .planner_export import export, permute, read_adapter
from .planner_whole import gguf_name
from .qamr import agreed, around, detokenise, qamr_items, read_questions, read_sentences, topic
from .questions import parse
from .questions_keep import agreed as agreed_readers, plausible
from .reader import schedule
from .reader_answer import best_spans, counts
from .reader_average import mean
from .reader_batches import Row, group_loss, pair_total
from .reader_boundary import CASES, cut, joined, with_addition
from .reader_data import NOT_HERE, SPAN, digest, find, generated_items, gold_items, pattern_items, shown, variants
from .reader_model import OUTSIDE, Average, start_from
from .records import Hop, Question, mention, normal, read_jsonl, wiki_question
from .trajectories import NO_INFO, Options, build, gold, operation
from .values import canonical_country, date_pair, earlier, judged, parse_date, spell_date
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

    def test_what_a_note_concludes_of_two_countries_is_computed(self) -> None:
        for note, expected in (
            ("Compare: American / Australian: same", "Compare: American / Australian: different"),
            ("Compare: Canadian / the Canada: different", "Compare: Canadian / the Canada: same"),
            ("Compare: American / Atlantis: same", None), ("Compare: first 1848 Ben Birk", None), ("Compare:", None),
        ):
            self.assertEqual(judged(note), expected or note)

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


    def test_a_place_found_by_pattern_is_as_short_as_the_gold_ones(self) -> None:
        corpus = corpus_of(Passage("Ada B", "Ada B is a poet who was born in Paris, France."), Passage("Cy D", "Cy D was born in May 1901."))
        places = [i.answers for i in pattern_items(corpus, set()) if i.kind == "pattern/place of birth"]
        self.assertEqual(places, [["Paris"]])

    def test_a_closed_title_teaches_no_fact(self) -> None:
        corpus = corpus_of(Passage("Ada B", "Ada B is a poet who was born in Paris, France."))
        self.assertEqual(pattern_items(corpus, {normal("Ada B")}), [])

    def test_the_passages_of_other_hops_tempt_most(self) -> None:
        texts = {"F": "F was directed by X.", "X": "X was born in Y.", "Z": "Z is a town."}
        hops = [Hop(["X"], "F", None, "director", title="F"), Hop(["Y"], None, 0, "place of birth", title="X")]
        context = [{"title": t, "text": x, "gold": t != "Z"} for t, x in texts.items()]
        q = Question("1", "2wiki", "compositional", "Where was the director of F born?", "Y", hops, passages=context)
        near = [p.title for p in gold_items([q], corpus_of())[1].near]
        self.assertEqual((near.count("F"), near.count("Z"), near.count("X")), (3, 1, 0))


def corpus_of(*passages: Passage):
    """As much of a corpus as the reader's items ask of one."""
    return SimpleNamespace(passages=list(passages), by_title={}, search=lambda query, limit: list(passages)[:limit])


class Joined(unittest.TestCase):
    """Questions of several hops, made of single ones."""

    def test_a_question_becomes_what_it_asks_for(self) -> None:
        cases = {
            "Who is the father of Ada B?": "the father of Ada B",
            "Who wrote Rights of Man?": "the person who wrote Rights of Man",
            "Where was {0} born?": "the place where {0} was born",
            "Where did Ada B die?": "the place where Ada B died",
            "Who did {0} marry?": "the person {0} married",
            "Which city is {0} in?": "the city {0} is in",
            "What team did {0} play for?": "the team {0} played for",
            "In which country does Ada B live?": "the country in which Ada B lives",
        }
        for question, phrase in cases.items():
            self.assertEqual(phrases(question)[:1], [phrase], question)
        # Of no form that is known, or it asks for no thing.
        for question in ("How many people live in {0}?", "Is Ada B a poet?", ""):
            self.assertEqual(phrases(question), [], question)

    def test_a_question_says_what_sort_of_thing_it_wants(self) -> None:
        cases = {"who wrote X": "person", "Which city is X in?": "place", "What is the name of the band of X?": "thing",
                 "In what year did X die?": "date", "What record label is X on?": "group", "How many are X?": "number"}
        self.assertEqual({q: kind_of(q) for q in cases}, cases)

    def pieces(self) -> Joins:
        asked = [[("who wrote Rights of Man", "Thomas Paine"), ("where was #1 born", "Thetford"), ("what river is in #2", "Thet")],
                 [("which city is Gazprom in", "Moscow"), ("who ran #1 during #2", "Ada B")]]
        train = []
        for n, hops in enumerate(asked):
            made = [Hop([answer], template=template) for template, answer in hops]
            train.append(Question(str(n), "musique", f"{len(hops)}hop", "?", hops[-1][1], made))
        people = Question("p", "2wiki", "compositional", "?", "x", [Hop(["Cy D"], "Film", None, "director"), Hop(["1990"], None, 0, "date of birth")])
        return Joins(Augmenter([*train, people]), [*train, people], ["Who did Nobel meet in Oslo?", "What is it?"])

    def test_every_hop_of_a_joined_question_is_asked_with_what_was_found(self) -> None:
        joins, counts = self.pieces(), set()
        for seed in range(300):
            text = joins.draw(random.Random(seed)).text
            lines = text.splitlines()
            self.assertTrue(lines[0].startswith("Question: ") and lines[0].endswith("?"), text)
            hops = [line.split(" => ") for line in lines[1:] if " => " in line]
            counts.add(len(hops))
            # No slot is left, neither in the question nor in a look-up.
            self.assertNotRegex(text, r"[{}]|#\d")
            if "No relevant" in text or "the answer of sub-question" in text:
                continue
            # What was found is asked about further on, or it is the answer.
            for at, (_, found) in enumerate(hops[:-1]):
                later = " ".join(asked for asked, _ in hops[at + 1 :])
                self.assertIn(found.rstrip(" ,;"), later, text)
            self.assertEqual(lines[-1], f"Answer: {hops[-1][1]}")
        self.assertLessEqual({2, 3, 4}, counts)

    def test_the_same_number_draws_the_same_question(self) -> None:
        first, second = (self.pieces().draw(random.Random(7)).text for _ in range(2))
        self.assertEqual(first, second)


class Qamr(unittest.TestCase):
    def test_sentences_are_written_as_people_write_them(self) -> None:
        tokens = "He `` did n't '' pay $ 5 -LRB- 4 % -RRB- , Ada 's son said .".split()
        text, places = detokenise(tokens)
        self.assertEqual(text, 'He "didn\'t" pay $5 (4%), Ada\'s son said.')
        self.assertEqual([text[a:b] for a, b in places[7:11]], ["5", "(", "4", "%"])

    def test_what_two_of_three_marked_is_the_answer(self) -> None:
        tokens = "He met the US attorney general , Eric Holder , in 2013 .".split()
        for markings, span in (
            (["2 3 4 5", "3 4 5", "3 4 5"], (3, 5)),  # an article more or less
            (["7 8", "7 8", "8"], (7, 8)),  # a third who saw it narrower
            (["7 8", "7 8", "11"], None),  # a third who saw it elsewhere
            (["7", "8", "7 8"], None),
            (["7 11", "7 11", "7 11"], None),  # no span of the passage
            (["7 8", "Invalid", "7 8"], None),
            (["2", "2", "2"], None),  # nothing but an article
        ):
            self.assertEqual(agreed(tokens, markings), span, markings)

    def test_a_document_is_called_what_it_speaks_of(self) -> None:
        self.assertEqual(topic(["In Rome he met Ada's son.", "Then Ada B left for Rome.", "So did Rome."]), "Rome")

    def test_the_sentence_stays_where_the_passage_says(self) -> None:
        document = [f"d:1:{i}" for i in range(9)]
        texts = {name: f"Sentence {name} has seven or more words here." for name in document}
        for seed in range(30):
            text, at = around("d:1:4", document, texts, ["A sentence of elsewhere."] * 20, random.Random(seed))
            self.assertTrue(text[at:].startswith(texts["d:1:4"]))
            self.assertIn(len(text.split()), range(50, 130))

    def test_a_line_ends_with_its_line_feed(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            (path / "wiki-sentences.tsv").write_text("w:1:0:0\tAda\u2028B left .\n", encoding="utf-8")
            (path / "dev.tsv").write_text("w:1:0:0\t1\t9\t0\t0\tWho\u2028left?\t0\t7:0\t8:0\n", encoding="utf-8")
            (path / "test.tsv").write_text("")
            sentences = read_sentences(path)
            self.assertEqual(sentences, {"w:1:0:0": ["Ada\u2028B", "left", "."]})
            self.assertEqual([asked.question for asked in read_questions(path, sentences)], ["Who left?"])

    def test_items_point_at_the_marked_words_and_leave_closed_text_alone(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            sentences = {"w:1:0:0": "Ada B met Ada C in Rome .", "w:1:0:1": "One two three four five six seven eight nine ."}
            (path / "wiki-sentences.tsv").write_text("".join(f"{k}\t{v}\n" for k, v in sentences.items()))
            (path / "dev.tsv").write_text(
                "w:1:0:0\t1\t9\t0\t0\tWho was met ?\t3 4\t7:3 4\t8:3 4\nw:1:0:0\t1\t9\t0\t1\tWho was met?\t3 4\t7:3 4\t8:3 4\n"
            )
            (path / "test.tsv").write_text("w:1:0:1\t1\t9\t0\t0\tWhat is first?\t0\t7:0\t8:0\n")
            self.assertEqual(len(read_questions(path, read_sentences(path))), 2)
            other = Passage("Q", "They say: one, two, three, four, five, six, seven, eight.")
            items = qamr_items(path, corpus_of(other), {other}, set(), 1)
            self.assertEqual([(i.questions, i.answers) for i in items], [(["Who was met ?"], ["Ada C"])])
            self.assertEqual(shown(items[0].gold)[slice(*items[0].span)], "Ada C")
            self.assertEqual(qamr_items(path, corpus_of(other), {other}, {normal(items[0].gold.title)}, 1), [])


class Generated(unittest.TestCase):
    def test_a_written_line_is_a_question_and_its_answer_or_nothing(self) -> None:
        self.assertEqual(parse(" Who wrote  it?\nAnswer: Ada B"), ("Who wrote it?", "Ada B"))
        for line in (" Who wrote it?", " Who wrote it\nAnswer: Ada B", " Who wrote it?\nAnswer:"):
            self.assertIsNone(parse(line))

    def test_a_question_may_not_hold_its_answer_and_the_passage_must(self) -> None:
        raw = {"question": "Who wrote the book?", "answer": "Ada B", "text": "The book is by Ada B."}
        self.assertTrue(plausible(raw))
        self.assertFalse(plausible(raw | {"question": "Who is Ada B of the book?"}))
        self.assertFalse(plausible(raw | {"answer": "Cy D"}))

    def test_one_reader_marks_the_words_and_the_other_comes_near(self) -> None:
        self.assertEqual(agreed_readers("Paris", "Paris, France", "Paris"), 1)
        self.assertEqual(agreed_readers("Paris", "paris", "Paris"), 0)
        self.assertIsNone(agreed_readers("Paris", "Paris", "Rome"))
        self.assertIsNone(agreed_readers("Paris", "Paris, France", "Paris, Texas"))

    def test_a_kept_question_finds_its_passage_unless_that_is_closed(self) -> None:
        passage = Passage("Ada B", "Ada B was born in Ulm.")
        corpus = SimpleNamespace(passages=[passage])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "kept.jsonl"
            row = {"passage": digest(passage), "style": "musique", "question": "Where was Ada B born?", "answer": "Ulm", "span": [25, 28]}
            path.write_text(json.dumps(row) + "\n")
            (item,) = generated_items(path, corpus, set())
            self.assertEqual((item.gold, shown(item.gold)[slice(*item.span)]), (passage, "Ulm"))
            with self.assertRaises(ValueError):
                generated_items(path, corpus, {normal("Ada B")})

    def test_what_is_drawn_ahead_is_what_one_would_draw(self) -> None:
        def some(workers: int) -> list[int]:
            drawn = ahead(lambda at: at * at, 3, 4, workers)
            return [next(drawn) for _ in range(20)]

        self.assertEqual(some(2), some(0))

    def test_a_merged_adapter_computes_what_it_did_beside_the_weights(self) -> None:
        torch.manual_seed(1)
        model = torch.nn.ModuleDict({"q_proj": torch.nn.Linear(6, 4)})
        for p in add_lora(model, 2, 4).values():
            torch.nn.init.normal_(p)
        x = torch.randn(3, 6)
        before = model["q_proj"](x)
        merge_lora(model)
        self.assertIsInstance(model["q_proj"], torch.nn.Linear)
        self.assertTrue(torch.allclose(model["q_proj"](x), before, atol=1e-5))


class Reading(unittest.TestCase):
    def test_spans_are_cut_and_passed_over_as_the_table_says(self) -> None:
        lines = [line for line in CASES.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
        self.assertGreater(len(lines), 40)
        for line in lines:
            question, span, answer = line.split("\t")
            span, _, behind = span.partition("|")
            said = cut(question, with_addition(question, span + behind, len(span)))
            self.assertEqual(joined(said) if said else "-", answer, line)

    def test_the_total_is_over_the_pairs_that_can_be_chosen(self) -> None:
        torch.manual_seed(1)
        starts, ends = torch.randn(2, 40), torch.randn(2, 40)
        starts[:, :5], ends[:, :5] = OUTSIDE, OUTSIDE
        for start, end, total in zip(starts.numpy(), ends.numpy(), pair_total(starts, ends)):
            pairs = [start[i] + end[j] for i in range(40) for j in range(i, min(40, i + 24))]
            self.assertAlmostEqual(float(total), float(np.logaddexp.reduce(pairs)), places=4)
            self.assertAlmostEqual(next(best_spans(start, end))[2], max(pairs), places=5)

    def test_passages_of_one_question_share_a_softmax_whatever_their_number(self) -> None:
        def rows(*labels: int) -> list[Row]:
            return [Row([0] * 4, [1] * 4, [1] if l == SPAN else [], [1] if l == SPAN else [], l) for l in labels]

        groups = [rows(SPAN, NOT_HERE, NOT_HERE), rows(NOT_HERE), rows(SPAN, NOT_HERE)]
        even = torch.zeros(6, 4)
        span, kind = group_loss((even, even, torch.zeros(6, 4)), groups)
        # Even logits: 12 and 8 places for each border, 10 pairs a row.
        self.assertAlmostEqual(float(span), sum(2 * math.log(4 * n) + math.log(10 * n) for n in (3, 2)) / 8, places=5)
        self.assertAlmostEqual(float(kind), math.log(4), places=5)

    def test_the_first_reading_that_is_sure_enough_is_the_answer(self) -> None:
        for confidences, enough, expected in [
            ([0.2, 0.6, 0.9], 0.5, 1), ([0.2, 0.6, 0.9], 0.7, 2), ([0.2, 0.6, 0.9], None, 2), ([0.3, 0.4, 0.1], 0.5, 1), ([0.4], 0.5, 0),
        ]:
            self.assertEqual(counts(confidences, enough), expected, (confidences, enough))

    def test_the_rate_falls_only_at_the_end(self) -> None:
        args = argparse.Namespace(warmup=10, steps=100, decay=20)
        rates = [schedule(step, args) for step in (0, 10, 79, 90, 99)]
        self.assertEqual([round(r, 3) for r in rates], [0.1, 1.0, 1.0, 0.5, 0.05])

    def test_a_resumed_log_has_no_step_twice(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log.jsonl"
            keep_until(log, 100)
            for step in (90, 100, 110):
                append_jsonl(log, {"step": step})
            keep_until(log, 100)
            self.assertEqual([row["step"] for row in read_jsonl(log)], [90, 100])

    def test_a_training_goes_on_with_what_it_began_with(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            manifest = Path(folder) / "manifest.json"
            arguments = {"lr": 1e-3, "data": Path("/here/data"), "steps": 700}
            write_manifest(manifest, arguments=arguments, data={"a": "1"}, split_sha256="s", counts={"train": 1})
            elsewhere = arguments | {"data": Path("/there/data"), "steps": 900}
            refuse_other(manifest, arguments=elsewhere, data={"a": "1"}, split_sha256="s", start_sha256=None)
            for other in ({"arguments": arguments | {"lr": 3e-3}}, {"data": {"a": "2"}}, {"split_sha256": "t"}):
                with self.assertRaises(SystemExit):
                    refuse_other(manifest, **{"arguments": arguments, "data": {"a": "1"}, "split_sha256": "s"} | other)

    def test_an_exported_reader_gives_its_weights_back(self) -> None:
        class Small(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.span = torch.nn.Linear(2, 3)
                self.frozen = torch.nn.Linear(1, 1).requires_grad_(False)

        weight = np.array([[10, -20, 30], [40, 50, -127]], np.int8)
        scale, even = np.array([0.5, 0.1, 2], np.float32), np.array([4, 0.25], np.float32)
        initializers = {
            "w_quantized": weight, "w_scale": scale, "w_zero_point": np.zeros(3, np.int8), "/span/MatMul/even": even,
            "span.bias": np.array([1, 2, 3], np.float32),
        }
        node = helper.make_node("MatMulInteger", ["x", "w_quantized", "x0", "w_zero_point"], ["y"], name="/span/MatMul_quant")
        graph = helper.make_graph([node], "reader", [], [], [numpy_helper.from_array(v, k) for k, v in initializers.items()])
        model = Small()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            onnx.save(helper.make_model(graph), str(path))
            start_from(model, path)
            np.testing.assert_allclose(model.span.weight.detach().numpy().T, weight * scale * even[:, None])
            self.assertEqual(model.span.bias.tolist(), [1, 2, 3])
            model.frozen.requires_grad_(True)
            with self.assertRaisesRegex(ValueError, "frozen"):
                start_from(model, path)

    def test_the_mean_of_readers(self) -> None:
        states = [{"w": torch.tensor([1.0, 3.0]), "n": torch.tensor(2)}, {"w": torch.tensor([3.0, 5.0]), "n": torch.tensor(2)}]
        both = mean(states)
        self.assertEqual((both["w"].tolist(), both["n"].item()), ([2.0, 4.0], 2))
        with self.assertRaisesRegex(ValueError, "different"):
            mean([states[0], {"w": torch.tensor([1.0])}])

    def test_the_mean_of_the_weights_follows_them(self) -> None:
        model = torch.nn.Linear(1, 1, bias=False)
        average = Average(model, 0.9)
        with torch.no_grad():
            model.weight.fill_(5.0)
        for step in range(200):
            average.update(model, step)
        self.assertAlmostEqual(float(average.model.weight), 5.0, places=3)


class Export(unittest.TestCase):
    def test_permutation_puts_rotary_pairs_side_by_side(self) -> None:
        rows = torch.arange(8).unsqueeze(1)
        self.assertEqual(permute(rows, 1).squeeze(1).tolist(), [0, 4, 1, 5, 2, 6, 3, 7])

    def test_every_weight_has_the_name_that_llama_cpp_looks_for(self) -> None:
        named = {
            "model.embed_tokens.weight": "token_embd.weight",
            "model.norm.weight": "output_norm.weight",
            "model.layers.11.input_layernorm.weight": "blk.11.attn_norm.weight",
            "model.layers.0.self_attn.q_proj.bias": "blk.0.attn_q.bias",
            "model.layers.0.mlp.down_proj.weight": "blk.0.ffn_down.weight",
        }
        self.assertEqual({name: gguf_name(name) for name in named}, named)

    def test_an_exported_adapter_is_read_as_it_was(self) -> None:
        torch.manual_seed(1)
        shapes = {"self_attn.q_proj": (576, 576), "self_attn.k_proj": (192, 576), "mlp.down_proj": (576, 1536)}
        lora = {}
        for module, (out, into) in shapes.items():
            lora[f"model.layers.3.{module}.lora_a"] = torch.randn(32, into)
            lora[f"model.layers.3.{module}.lora_b"] = torch.randn(out, 32)
        with tempfile.TemporaryDirectory() as folder:
            saved, path = Path(folder) / "adapter.pt", Path(folder) / "adapter.gguf"
            torch.save({"lora": lora, "rank": 32, "alpha": 16.0}, saved)
            export(saved, path, "f16")
            read = read_adapter(path)
        self.assertEqual((read["rank"], read["alpha"], read["lora"].keys()), (32, 16.0, lora.keys()))
        for name, value in lora.items():
            torch.testing.assert_close(read["lora"][name], value, rtol=1e-3, atol=1e-3)


if __name__ == "__main__":
    unittest.main()
