"""The dashboard and the alerts against a real server that a real Prometheus scrapes."""

import json
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.parse
import urllib.request

import yaml

import lab
from lab import DEPLOY, Running, needs, needs_spechop, run, spechop, tool, wait_for

MONITORING = DEPLOY / "monitoring"

# Panels that show nothing on a server to which nothing has happened.
MAY_BE_EMPTY = {
    "Refused by backends": "its query keeps only backends that have refused something",
    "Wait for a place": "no question has stood in line",
}

# Metrics of what this server does not have.
OF_OTHERS = {
    "spechop_last_read_successful": "it has no keys, no TLS and no token issuer",
    "spechop_last_write_successful": "it keeps nothing",
    "spechop_shared_account_changes_total": "it shares no accounts",
}

# What MemoryDenyWriteExecute=yes and NoNewPrivileges=yes of the unit do, done to a process and what it starts.
HARDENED = """
import ctypes, os, sys
kernel = ctypes.CDLL(None, use_errno=True)
PR_SET_MDWE, PR_SET_NO_NEW_PRIVS = 65, 38
kernel.prctl(PR_SET_MDWE, 1, 0, 0, 0)  # older kernels do not know it
assert kernel.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


def get(url, headers=()):
    """The text at an address, whatever its status."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=dict(headers)), timeout=60) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.read().decode()


def queries():
    """Each query of the dashboard, as Grafana would ask it, with its panel."""
    board = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            text = target["expr"].replace("$job", ".*").replace("$instance", ".*")
            # Long enough for all that these tests ask, on a busy machine, too.
            yield panel["title"], text.replace("$__rate_interval", "10m")


def rules():
    return yaml.safe_load(lab.ALERTS.read_text(encoding="utf-8"))["groups"][0]["rules"]


def asked_for():
    """Each query of the dashboard and of the rules."""
    return [one for _, one in queries()] + [rule["expr"] for rule in rules()]


@needs("prometheus")
@needs_spechop()
class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        lab.write_corpus(cls.folder)
        run(
            spechop(), "index", "build", "--corpus", cls.folder / "corpus.jsonl", "--out", cls.folder / "index",
            "--hot-fraction", "0.9", "--in-degree", cls.folder / "in_degree.jsonl",
        )  # fmt: skip
        cls.serve()
        cls.scrape()
        cls.ask()
        # Everything that has happened by now has been read at least twice: rates need two points.
        seen = cls.scrapes()
        wait_for("three more scrapes", lambda: cls.scrapes() >= seen + 3)

    @classmethod
    def serve(cls):
        variables = {
            "SPECHOP_INDEX_DIR": str(cls.folder / "index"),
            "SPECHOP_TUNING_STATE": "none",
            "SPECHOP_SERVER_RETRIEVE": "true",
            # Guesses come before look-ups, whatever the machine has to do.
            "SPECHOP_TARGET_INJECTED_LATENCY_MEAN_MS": "1000",
            "SPECHOP_TARGET_INJECTED_LATENCY_SIGMA_MS": "1",
            "SPECHOP_SCHEDULER_CORES": "64",
            # So that a connection which says nothing is closed soon, and counted. Others say what they have to say,
            # although models take all cores.
            "SPECHOP_SERVER_MESSAGE_MS_MAX": "5000",
        }
        command = [tool("python3"), "-c", HARDENED, spechop(), "serve", "--listen", "127.0.0.1:0"]
        server = Running(cls.addClassCleanup, command, env={**os.environ, **variables})
        cls.address = server.until(r"^ready on (\S+)$")[1]

    @classmethod
    def scrape(cls):
        config = yaml.safe_load((MONITORING / "prometheus.yml").read_text(encoding="utf-8"))
        config["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
        config["rule_files"] = [str(lab.ALERTS)]
        config["scrape_configs"][0]["static_configs"][0]["targets"] = [cls.address]
        (cls.folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        command = [
            tool("prometheus"), f"--config.file={cls.folder}/prometheus.yml", f"--storage.tsdb.path={cls.folder}/tsdb",
            "--web.listen-address=127.0.0.1:0",
        ]  # fmt: skip
        prometheus = Running(cls.addClassCleanup, command)
        port = prometheus.until(r'Listening on".* address=127\.0\.0\.1:(\d+)')[1]
        cls.prometheus = f"http://127.0.0.1:{port}/api/v1"

    @classmethod
    def ask(cls):
        # The first question twice, with time between: a rate needs a counter that has been seen to rise.
        first, *others = lab.questions()
        cls.answer([first])
        seen = cls.scrapes()
        wait_for("two more scrapes", lambda: cls.scrapes() >= seen + 2)
        cls.answer(others)
        cls.answer([first])
        request = urllib.request.Request(
            f"http://{cls.address}/retrieve",
            data=b'{"queries": ["Where did she die?"], "topk": 2, "return_scores": true}',
            headers={"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()
        # A page in a browser asks, and is refused. Another visitor says nothing at all.
        get(f"http://{cls.address}/metrics", {"Origin": "http://example.org"})
        host, port = cls.address.split(":")
        with socket.create_connection((host, int(port))) as silent:
            silent.settimeout(60)
            while silent.recv(1024):
                pass

    @classmethod
    def answer(cls, questions):
        """Asks them all at once, and waits for their answers."""
        asking = [
            subprocess.Popen([spechop(), "ask", one, "--addr", cls.address, "--k", "4"], stdout=subprocess.DEVNULL)
            for one in questions
        ]
        if any(one.wait(600) != 0 for one in asking):
            raise AssertionError("a question was not answered")

    @classmethod
    def query(cls, text):
        answer = json.loads(get(f"{cls.prometheus}/query?" + urllib.parse.urlencode({"query": text})))
        if answer["status"] != "success":
            raise AssertionError(f"{text}: {answer['error']}")
        return answer["data"]["result"]

    @classmethod
    def scrapes(cls):
        """Those that have brought something: on a busy machine some may come to nothing."""
        found = cls.query('sum_over_time(up{job="spechop"}[1h])')
        return int(found[0]["value"][1]) if found else 0

    def test_every_query_of_the_dashboard_has_data(self):
        empty, broken = [], []
        for title, text in queries():
            found = self.query(text)
            if not found and title not in MAY_BE_EMPTY:
                empty.append(f"{title}: {text}")
            broken += [f"{title}: NaN: {text}" for one in found if one["value"][1] == "NaN" and len(found) == 1]
        self.assertEqual(empty, [])
        self.assertEqual(broken, [])

    def test_every_metric_that_is_asked_for_exists(self):
        there = set(re.findall(r"^(spechop_\w+)", self.metrics(), re.M))
        asked = {name for query in asked_for() for name in re.findall(r"\bspechop_\w+", query)}
        self.assertGreater(len(asked), 30)
        self.assertEqual(sorted(asked - there), sorted(OF_OTHERS))

    def test_every_outcome_that_is_asked_for_exists(self):
        # A selector of a word that the server does not know selects nothing, and its alert never rings.
        there = set(re.findall(r'\b(outcome|reason|verdict|fate)="(\w+)"', self.metrics()))
        asked = {
            (label, word)
            for query in asked_for()
            for label, words in re.findall(r'\b(outcome|reason|verdict|fate)(?:=~|!~|=|!=)"([^"]+)"', query)
            for word in words.split("|")
        }
        self.assertLess({("outcome", "busy"), ("outcome", "failed"), ("reason", "displaced")}, asked)
        self.assertEqual(sorted(asked - there), [])

    def metrics(self):
        return get(f"http://{self.address}/metrics")

    def test_the_estimates_are_plausible(self):
        by_title = {}
        for title, text in queries():
            by_title.setdefault(title, []).append(text)

        def value(title, which=0):
            return float(self.query(by_title[title][which])[0]["value"][1])

        self.assertTrue(0 < value("RelLat") < 3, value("RelLat"))
        self.assertTrue(0 <= value("p̂: guesses that were right") <= 1)
        # Look-ups take a second and more. Those that were aborted would make them look quicker.
        times = "α̂ and β̂"
        self.assertTrue(0 < value(times) < 1, value(times))
        self.assertTrue(0 < value(times, 1), value(times, 1))
        asked = {name for text in by_title[times] for name in re.findall(r"\bspechop_\w+", text)}
        self.assertEqual(asked, {"spechop_stage_seconds_sum", "spechop_stage_seconds_count"})
        wait_for("a server that answers", lambda: value("Servers that answer") == 1)

    def test_rules_are_evaluated_and_nothing_rings(self):
        def evaluated():
            groups = json.loads(get(f"{self.prometheus}/rules"))["data"]["groups"]
            all_rules = [rule for group in groups for rule in group["rules"]]
            return all_rules if all_rules and all(rule["health"] != "unknown" for rule in all_rules) else None

        found = wait_for("every rule evaluated", evaluated)
        self.assertEqual(len(found), len(rules()))
        self.assertEqual([rule["name"] for rule in found if rule["health"] != "ok"], [])
        self.assertEqual([rule["name"] for rule in found if rule.get("state") == "firing"], [])
        for name in ("spechop:rel_lat:1h", "spechop:guesses_right:ratio_1h"):
            self.assertTrue(self.query(name), name)


if __name__ == "__main__":
    unittest.main()
