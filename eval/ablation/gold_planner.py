#!/usr/bin/env python3
"""A planner that knows the gold decompositions, behind an OpenAI-compatible chat endpoint: the ceiling of the ablation.

    python3 eval/ablation/gold_planner.py --port 8099 SETS/musique.jsonl SETS/2wiki.jsonl
    spechop serve --set generator.kind=openai --set generator.style=tagged --set generator.base_url=http://127.0.0.1:8099/v1 \
        --set generator.model=gold --set reader.kind=spans

It finds the question of a prompt in the files and asks the next gold sub-question, with the answers of the prompt
filled in. The final answer is concluded from those alone, never copied from the data: a chain's is its last answer; a
comparison's follows from the dates or countries that were found, and where one is missing, it is the other side. What
it takes from the gold answer is only which way a comparison goes ("min", "max", "same"), as a perfect understanding of the question would.

For evaluation only; nothing outside eval uses it. Standard library only.
"""

import argparse
import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "eval")]

from train.records import Question, musique_question, read_jsonl, wiki_question  # noqa: E402
from train.trajectories import DATES, NO_INFO, UNKNOWN, leaves, operation, side_of  # noqa: E402
from train.values import canonical_country, earlier, parse_date  # noqa: E402
from train.wording import ask, wordings  # noqa: E402

COMPARISONS = ("comparison", "bridge_comparison")
# A look-up that found nothing is tried once more in other words, as the trained planner does.
TRIES = 2
MUST_ANSWER = "Nothing more can be looked up"


class GoldPlanner:
    """The plans of some questions."""

    def __init__(self, files):
        self.plans = {}
        for path in files:
            for record in read_jsonl(Path(path)):
                plan = wiki_question(record) if "evidences" in record else musique_question(record)
                # Where the gold label does not follow from the gold values, nothing honest can be concluded.
                if plan is not None and (plan.kind not in COMPARISONS or operation(plan) is not None):
                    self.plans[clean(record["question"])] = plan

    def reply(self, messages):
        """The next step in the tagged style; None where the question is not known."""
        # The last message may be a complaint about an output; the prompt then stands before it.
        for message in reversed(messages):
            prompt = read_prompt(message["content"]) if message["role"] == "user" else None
            if prompt and prompt[0] in self.plans:
                question, facts, must_answer = prompt
                return next_step(self.plans[question], facts, must_answer)
        return None


def read_prompt(text):
    """Question, facts and whether an answer is due, of a prompt in the tagged style; see crates/spechop-llm/src/prompt/tagged.rs."""
    if not text.startswith("Facts:"):
        return clean(text), [], False
    lines = text.splitlines()
    facts = [line.removeprefix("- ") for line in lines if line.startswith("- ")]
    question = next((line.removeprefix("Question: ") for line in lines if line.startswith("Question: ")), "")
    return clean(question), facts, lines[-1].startswith(MUST_ANSWER)


def next_step(plan: Question, facts, must_answer=False):
    """The first hop that can be asked and was not, else the answer."""
    known = [None] * len(plan.hops)
    for i, hop in enumerate(plan.hops):
        if any(known[ref] is None for ref in hop.refs()):
            continue
        # An unknown answer is never filled in: no hop that is asked refers to one.
        filled = [answer or "" for answer in known]
        for which in range(min(TRIES, wordings(hop))):
            sub_question = clean(ask(hop, plan.text, filled, which))
            # Two hops may come to ask the same, of one person in both their films: it is known then.
            answer = said(facts, sub_question)
            if answer is None and not must_answer:
                return f"<question>{sub_question}</question>"
            if answer is not None and answer != NO_INFO:
                known[i] = answer
                break
    return f"<answer>{conclude(plan, known)}</answer>"


def said(facts, sub_question):
    """A fact is a sub-question and its answer on one line, with nothing but a space between."""
    for fact in facts:
        if fact.startswith(sub_question + " "):
            return fact[len(sub_question) + 1 :].strip()
    return None


def conclude(plan, known):
    if plan.kind not in COMPARISONS:
        return known[-1] or UNKNOWN
    ends = leaves(plan)
    left, right = (known[i] for i in ends)
    rule = operation(plan)
    if rule == "same":
        return "yes" if left and right and canonical_country(left) == canonical_country(right) else "no"
    assert plan.hops[ends[0]].relation in DATES
    a, b = date(left), date(right)
    if a is None or b is None:
        return side_of(plan, ends[1] if a is None and b is not None else ends[0])
    first = earlier(a, b)
    # Equal as far as they are written: either side is a guess.
    chosen = 0 if first is None or first == (rule == "min") else 1
    return side_of(plan, ends[chosen])


def date(text):
    """Of words that are more than a date, the year counts."""
    if text is None:
        return None
    year = re.search(r"\b\d{3,4}\b", text)
    return parse_date(text) or (year and (int(year[0]), 0, 0))


def clean(text):
    return " ".join(text.split())


def serve(planner, port=0):
    """A server that the caller must run; port 0 takes any free one."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body in one packet, at once: otherwise every fourth reply waits 40 ms for an acknowledgement.
        disable_nagle_algorithm = True
        wbufsize = -1

        def do_GET(self):
            if self.path == "/v1/models":
                self.answer(200, {"object": "list", "data": [{"id": "gold", "object": "model"}]})
            else:
                self.answer(404, {"error": {"message": "not found"}})

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            if self.path != "/v1/chat/completions":
                return self.answer(404, {"error": {"message": "only /v1/chat/completions is here"}})
            try:
                request = json.loads(body)
                text = planner.reply(request["messages"])
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                return self.answer(400, {"error": {"message": f"not a chat request: {error!r}"}})
            if text is None:
                return self.answer(422, {"error": {"message": "no gold plan of this question"}})
            if request.get("stream"):
                return self.stream(text)
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            return self.answer(200, {"object": "chat.completion", "model": "gold", "choices": [choice]})

        def stream(self, text):
            chunks = [
                {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]},
                {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
            ]
            events = [json.dumps(chunk) for chunk in chunks] + ["[DONE]"]
            self.send(200, "text/event-stream", "".join(f"data: {event}\n\n" for event in events))

        def answer(self, status, value):
            self.send(status, "application/json", json.dumps(value))

        def send(self, status, kind, text):
            body = text.encode()
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            # The client hangs up at the closing tag, which is no failure.
            try:
                self.wfile.write(body)
                self.wfile.flush()
            except ConnectionError:
                self.close_connection = True

        def log_message(self, *_):
            pass

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--port", type=int, default=0)
    args = parser.parse_args()
    planner = GoldPlanner(args.files)
    server = serve(planner, args.port)
    print(f"{len(planner.plans)} plans on http://127.0.0.1:{server.server_port}/v1", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
