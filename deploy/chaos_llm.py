#!/usr/bin/env python3
"""A scripted language model behind an OpenAI-compatible endpoint, for chaos.py: it plans and reads chains of successors.

    chaos_llm.py PORT

It knows nothing by heart: every answer stands in the prompt. So an answer is right only if every look-up was."""

import http.server
import json
import re
import sys

NOTHING = "No relevant information found"
HOP = "the successor of "


def said(prompt):
    """What the model says to the last message of a prompt in the tagged style."""
    question = prompt.rsplit("Question: ", 1)[-1].strip().splitlines()[0]
    if re.search(r"^\[1\]", prompt, re.MULTILINE):
        return f"<answer>{read(prompt, question)}</answer>"
    hops, start = question.count(HOP), question.rsplit(HOP, 1)[-1].rstrip("?")
    facts = re.findall(r"^- .*\? (.+)$", prompt, re.MULTILINE)
    name = facts[-1].strip() if facts else start
    if len(facts) < hops and "Nothing more can be looked up" not in prompt:
        return f"<question>Who is {HOP}{name}?</question>"
    return f"<answer>{name}</answer>"


def read(prompt, question):
    name = question.rsplit(HOP, 1)[-1].rstrip("?")
    found = re.search(rf"The successor of {re.escape(name)} is (\w+ \w+)", prompt)
    return found[1] if found else NOTHING


class Endpoint(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        text = said(asked["messages"][-1]["content"])
        chunks = [
            {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
            {"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 10}},
        ]
        body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        self.answer(body.encode(), "text/event-stream")

    def do_GET(self):
        self.answer(b"{}", "application/json")

    def answer(self, body, kind):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):
        """A client that has gone away is nothing to speak of."""


if __name__ == "__main__":
    Server(("127.0.0.1", int(sys.argv[1])), Endpoint).serve_forever()
