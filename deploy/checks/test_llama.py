"""The server of llama.cpp that compose.yaml puts beside the program."""

import json
import os
import subprocess
import sys
import unittest
import urllib.request

import lab
from lab import DATA, DEPLOY, Running

MODEL = DATA / "models" / "smollm2-135m-instruct" / "model.gguf"


def has_xllamacpp():
    return subprocess.run([sys.executable, "-c", "import xllamacpp"], capture_output=True, check=False).returncode == 0


@unittest.skipUnless(MODEL.exists() and has_xllamacpp(), "xllamacpp or its model is not installed")
class Llama(unittest.TestCase):
    def test_it_speaks_what_the_server_asks_for_and_ends_when_told(self):
        command = [sys.executable, DEPLOY / "compose" / "llama.py", "127.0.0.1", "0", MODEL, "1"]
        server = Running(self.addCleanup, command, env={**os.environ, "LLAMA_THREADS": "1"})
        # The lines of llama.cpp's log come between, in pieces.
        address = server.until(r"ready on (http://[0-9.]+:[0-9]+)")[1]
        question = {"model": "local", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
        request = urllib.request.Request(
            f"{address}/v1/chat/completions", json.dumps(question).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=lab.START_SECONDS_MAX) as answer:
            usage = json.load(answer)["usage"]
        self.assertTrue(1 <= usage["completion_tokens"] <= 4, usage)
        self.assertEqual(server.end(), 0)


if __name__ == "__main__":
    unittest.main()
