"""`python3 -m unittest discover -s eval/ablation` tests what needs neither models nor a server of ours."""

import json
import sys
import tempfile
import threading
import unittest
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import gold_planner  # noqa: E402
from train.records import normal, read_jsonl  # noqa: E402
from train.trajectories import NO_INFO, gold_answers, leaves, side_of  # noqa: E402
from train.wording import ask  # noqa: E402

WIKI = gold_planner.ROOT / "eval/datasets/2wikimultihopqa/questions.jsonl.gz"
CHAIN = {
    "id": "3hop2__1_2_3",
    "question": "Who leads the party that the author of Ash and the singer of Birk share?",
    "question_decomposition": [
        {"id": 1, "question": "Ash >> author", "answer": "Ann", "document_id": "Ash (novel)_0"},
        {"id": 2, "question": "Who sang Birk", "answer": "Ben", "document_id": "Birk_12"},
        {"id": 3, "question": "Who leads the party of #1 and #2 ?", "answer": "Cid", "document_id": "Party_1"},
    ],
    "answer": "Cid",
}


def messages(question, facts=(), must_answer=False):
    text = question
    if facts or must_answer:
        text = "Facts:" + "".join(f"\n- {fact}" for fact in facts) + f"\nQuestion: {question}"
    if must_answer:
        text += "\nNothing more can be looked up: reply <answer>...</answer> now."
    return [{"role": "system", "content": "Facts:"}, {"role": "user", "content": text}]


def play(planner, plan, question, answers):
    """The final answer where each hop is answered as `answers` says, and how many were asked."""
    facts = []
    for _ in range(20):
        said = planner.reply(messages(question, facts))
        if said.startswith("<answer>"):
            return said[len("<answer>") : -len("</answer>")], len(facts)
        asked = said[len("<question>") : -len("</question>")]
        filled = [answer or "" for answer in answers]
        forms = [(i, ask(hop, plan.text, filled, which)) for i, hop in enumerate(plan.hops) for which in range(2)]
        hop = next(i for i, form in forms if gold_planner.clean(form) == asked)
        facts.append(f"{asked} {answers[hop] or NO_INFO}")
    raise AssertionError(f"no end: {facts}")


class GoldPlanner(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.planner = gold_planner.GoldPlanner([WIKI])
        cls.records = read_jsonl(WIKI)

    def test_perfect_look_ups_give_the_gold_answers(self):
        self.assertEqual(len(self.planner.plans), 120)
        for record in self.records:
            plan = self.planner.plans[gold_planner.clean(record["question"])]
            answer, asked = play(self.planner, plan, record["question"], gold_answers(plan))
            self.assertEqual(normal(answer), normal(record["answer"]))
            self.assertLessEqual(asked, len(plan.hops))

    def test_what_was_found_decides_not_the_gold_answer(self):
        swapped = 0
        for record in self.records:
            plan = self.planner.plans[gold_planner.clean(record["question"])]
            if plan.kind not in gold_planner.COMPARISONS or record["answer"] in ("yes", "no"):
                continue
            answers = gold_answers(plan)
            left, right = leaves(plan)
            answers[left], answers[right] = answers[right], answers[left]
            said, _ = play(self.planner, plan, record["question"], answers)
            self.assertNotEqual(normal(said), normal(record["answer"]))
            swapped += 1
        self.assertGreater(swapped, 30)

    def test_a_missing_side_gives_the_other(self):
        compared = 0
        for record in self.records:
            plan = self.planner.plans[gold_planner.clean(record["question"])]
            if plan.kind != "comparison":
                continue
            for missing in (0, 1):
                answers = gold_answers(plan)
                answers[missing] = None
                said, asked = play(self.planner, plan, record["question"], answers)
                self.assertEqual(said, "no" if record["answer"] in ("yes", "no") else side_of(plan, 1 - missing))
                self.assertEqual(asked, 3, "once more in other words")
            compared += 1
        self.assertGreater(compared, 20)

    def test_chains(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name) / "chain.jsonl"
        path.write_text(json.dumps(CHAIN))
        planner = gold_planner.GoldPlanner([path])
        question = CHAIN["question"]
        one, two = "Who is the author of Ash? Ann", "Who sang Birk? Dan"
        last = "Who leads the party of Ann and Dan?"
        for facts, must_answer, said in [
            ((), False, "<question>Who is the author of Ash?</question>"),
            ((one,), False, "<question>Who sang Birk?</question>"),
            ((one, two), False, f"<question>{last}</question>"),
            ((one, two, f"{last} Eve"), False, "<answer>Eve</answer>"),
            ((one, two), True, "<answer>unknown</answer>"),
            ((), True, "<answer>unknown</answer>"),
            ((one, f"Who sang Birk? {NO_INFO}"), False, "<answer>unknown</answer>"),
            ((f"Who is the author of Ash? {NO_INFO}",), False, "<question>Who wrote Ash?</question>"),
        ]:
            asked = messages(question, facts, must_answer)
            self.assertEqual(planner.reply(asked), said)
            repair = [{"role": "assistant", "content": "…"}, {"role": "user", "content": "Reply with an answer."}]
            self.assertEqual(planner.reply(asked + repair), said)
        self.assertIsNone(planner.reply(messages("Who are you?")))

    def test_speaks_http(self):
        server = gold_planner.serve(self.planner)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        record = self.records[0]
        no_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))

        def post(body, path="/v1/chat/completions"):
            url = f"http://127.0.0.1:{server.server_port}{path}"
            with no_proxy.open(url, data=json.dumps(body).encode()) as got:
                return got.headers["content-type"], got.read().decode()

        request = {"model": "gold", "messages": messages(record["question"])}
        kind, text = post(request)
        whole = json.loads(text)["choices"][0]["message"]["content"]
        self.assertEqual((kind, whole.startswith("<question>")), ("application/json", True))
        kind, text = post(request | {"stream": True})
        events = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
        self.assertEqual((kind, events[-1]), ("text/event-stream", "[DONE]"))
        self.assertEqual(json.loads(events[0])["choices"][0]["delta"]["content"], whole)
        for body, path, status in [
            ({"messages": messages("Who are you?")}, "/v1/chat/completions", 422),
            ({}, "/v1/chat/completions", 400),
            ({"messages": [{"role": "user", "content": [{"type": "text", "text": "Who?"}]}]}, "/v1/chat/completions", 400),
            (request, "/v1/completions", 404),
        ]:
            with self.assertRaises(urllib.error.HTTPError) as raised:
                post(body, path)
            self.assertEqual(raised.exception.code, status)
            raised.exception.close()


if __name__ == "__main__":
    unittest.main()
