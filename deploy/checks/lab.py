"""What the tests of this folder share: where things are, and running programs that end with the test."""

import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
# Of everybody: Helm reads nothing beside the chart.
ALERTS = DEPLOY / "helm" / "spechop" / "alerts.yml"
DATA = pathlib.Path(os.environ["SPECHOP_DATA_DIR"])
START_SECONDS_MAX = 300
# What is asked is on this machine, whatever the environment says of proxies.
urllib.request.install_opener(urllib.request.build_opener(urllib.request.ProxyHandler({})))


def tool(name):
    """The path of an installed tool, or None."""
    for folder in (DATA / "bin", DATA / "venv" / "bin"):
        if os.access(folder / name, os.X_OK):
            return str(folder / name)
    return shutil.which(name)


def needs(*names):
    """Leaves a test out, and says so, if a tool is not installed."""
    missing = [name for name in names if tool(name) is None]
    return unittest.skipIf(missing, f"not installed: {', '.join(missing)}")


def spechop():
    """The program: SPECHOP_BIN, else what cargo has built, else none."""
    named = os.environ.get("SPECHOP_BIN")
    target = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
    built = [ROOT / named] if named else [target / kind / "spechop" for kind in ("debug", "release")]
    return next((str(path) for path in built if os.access(path, os.X_OK)), None)


def needs_spechop():
    models = DATA / "models" / "e5-small-v2-int8", DATA / "models" / "gte-small"
    there = spechop() and any(model.exists() for model in models)
    return unittest.skipUnless(there, "there is no program (cargo build), or no models (spechop models pull default)")


def run(*command, **options):
    """Runs a command; its output, or a failure that shows it."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def config_keys():
    """The variables that stand for keys of the configuration, by the example: question.k is SPECHOP_QUESTION_K."""
    keys, section = {}, ""
    for line in (DEPLOY / "spechop.example.toml").read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"(?:##? )?\[([a-z_.]+)\]$", line):
            section = heading[1]
        elif key := re.match(r"(?:##? )?([a-z_0-9]+) = ", line):
            dotted = f"{section}.{key[1]}"
            keys["SPECHOP_" + dotted.replace(".", "_").upper()] = dotted
    return keys


# Variables of the program that are no keys.
OTHER_VARIABLES = {"SPECHOP_DATA_DIR", "SPECHOP_STATE_DIR", "SPECHOP_CONFIG", "SPECHOP_LOG", "SPECHOP_LOG_FORMAT"}


def unknown_variables(names):
    """Those that begin with SPECHOP_ and mean nothing to the program."""
    known = OTHER_VARIABLES | set(config_keys())
    return sorted(name for name in names if name.startswith("SPECHOP_") and name not in known)


def mistakes(variables, config=None):
    """What the program finds wrong with a configuration. One wrong key is added, so that it ends before it opens anything."""
    wrong = "SPECHOP_SERVER_NONSENSE"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPECHOP_")}
    command = [spechop(), "serve"] + (["--config", str(config)] if config else [])
    env = {**kept, "SPECHOP_DATA_DIR": str(DATA), **variables, wrong: "1"}
    said = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=START_SECONDS_MAX).stderr
    found = re.findall(r"^(?:spechop: configuration: |  )(\S+ \(.*)$", said, re.M)
    if not any(wrong in one for one in found):
        raise AssertionError(f"the wrong key is not named: {said}")
    return [one for one in found if wrong not in one]


def write_corpus(folder):
    """The passages that belong to the demo's questions, some thirty, and how often each title is mentioned."""
    wiki = ROOT / "eval" / "datasets" / "2wikimultihopqa"
    with open(wiki / "demo_questions.jsonl", encoding="utf-8") as lines:
        wanted = {title for line in lines for title, _ in json.loads(line)["context"]}
    for name, out in (("corpus.jsonl.gz", "corpus.jsonl"), ("in_degree.jsonl.gz", "in_degree.jsonl")):
        with gzip.open(wiki / name, "rt", encoding="utf-8") as lines, open(folder / out, "w", encoding="utf-8") as kept:
            kept.writelines(line for line in lines if json.loads(line)["title"] in wanted)


def questions():
    with open(ROOT / "eval" / "datasets" / "2wikimultihopqa" / "demo_questions.jsonl", encoding="utf-8") as lines:
        return [json.loads(line)["question"] for line in lines]


class Running:
    """A process in the background; its output goes to a file. It ends with the test that is given."""

    def __init__(self, ends_with, command, **options):
        self.log = tempfile.NamedTemporaryFile(suffix=".log")  # pylint: disable=consider-using-with
        self.command = [str(word) for word in command]
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            self.command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT, **options
        )
        ends_with(self.end)

    def end(self):
        self.process.terminate()
        try:
            return self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def text(self):
        return pathlib.Path(self.log.name).read_text(encoding="utf-8", errors="replace")

    def until(self, pattern):
        """Waits until the output matches, and returns the match."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while not (found := re.search(pattern, self.text(), re.M)):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"{' '.join(self.command)} does not say {pattern!r}:\n{self.text()}")
            time.sleep(0.1)
        return found


def status(url):
    """The status of a GET, or None if nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


def wait_for(what, ready):
    """Waits until `ready` returns something true, and returns that."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while not (found := ready()):
        if time.monotonic() > deadline:
            raise AssertionError(f"this has not come: {what}")
        time.sleep(0.2)
    return found
