#!/usr/bin/env python3
"""Kills and hangs what a server depends on, at random and under load, and checks that it stays honest.

    chaos.py --spechop BINARY [--for SECONDS] [--seed N] [--out FOLDER] [--ready-max SECONDS]

A scripted language model (chaos_llm.py), a local web (`spechop eval web`) and, if it is installed, Qdrant run as
processes of their own behind a real server with a real index. While questions are asked all the time, one of them is
killed or stopped, and comes back. Checked:

  * An answer is the one of the undisturbed server, or there is an error with a status: never another answer.
  * No question takes longer than its deadline and --late-max (1 s).
  * Within --recovered-max (5 s) of the return a question is answered rightly again.
  * If the server itself is killed, clients hear of it at once, and a restart is ready within --ready-max (2 s).

Exit code 0 if all of that held. Otherwise the logs of the processes are kept, and the output says where. The last line of
the output is a JSON object with the counts."""

import argparse
import collections
import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

from upstream import START_S, Qdrant, Upstream, free_port, until

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "eval/bench"))
from circumstances import circumstances  # noqa: E402

NAMES = 64
HOPS = 3
WORKERS = 2
DEADLINE_S = 5.0
# Of a connection that breaks, and of what is no answer of the server.
BROKEN = (OSError, http.client.HTTPException)
UNREADABLE = (ValueError, KeyError, TypeError)


def names():
    """Names that share no word."""
    rng, seen = random.Random(7), set()
    while len(seen) < 2 * NAMES:
        seen.add("".join(rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(3)).capitalize())
    words = sorted(seen)
    rng.shuffle(words)
    return [f"{words[2 * n]} {words[2 * n + 1]}" for n in range(NAMES)]


def corpus(folder):
    """A chain of pages, the last one leading to the first. Returns the file."""
    people = names()
    path = folder / "corpus.jsonl"
    with path.open("w", encoding="utf-8") as out:
        for n, name in enumerate(people):
            after = people[(n + 1) % NAMES]
            text = f"{name} kept the lighthouse of Port {name.split()[0]}. The successor of {name} is {after}."
            out.write(json.dumps({"id": str(n), "title": name, "text": text}) + "\n")
    return path


def questions():
    """Each question with its answer."""
    people = names()
    ask = "Who is " + HOPS * "the successor of "
    return [(f"{ask}{name}?", people[(n + HOPS) % NAMES]) for n, name in enumerate(people)]


class Server(Upstream):
    """Ready when it says so, on its standard output."""

    def start(self):
        self.said = self.log.with_suffix(".out")
        with self.log.open("ab") as log, self.said.open("wb") as out:
            self.process = subprocess.Popen(
                self.command, stdout=out, stderr=log, stdin=subprocess.DEVNULL, env=self.env or os.environ
            )

    def ready(self, seconds=START_S):
        def holds():
            if self.process.poll() is not None:
                raise SystemExit(f"chaos: the server has ended: {self.log.read_text(errors='replace')[-2000:]}")
            return b"ready on" in self.said.read_bytes()

        until(holds, seconds, "the server is not ready")


def ask(port, question):
    """(answer or None, status or why there is none, seconds)."""
    body = json.dumps({"question": question, "deadline_ms": int(DEADLINE_S * 1000), "options": {"fresh": True}}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/ask", body, {"content-type": "application/json"})
    begun = time.monotonic()
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE_S + 30) as response:
            answer = json.load(response)
            # Whatever stopped a question early, it must not be told as an answer that is sure.
            return answer["answer"], "OK", time.monotonic() - begun
    except urllib.error.HTTPError as error:
        try:
            status = json.load(error)["code"]
        except BROKEN as broken:
            status = f"CONNECTION ({type(broken).__name__})"
        except UNREADABLE:
            status = f"HTTP_{error.code}_WITHOUT_STATUS"
        return None, status, time.monotonic() - begun
    except (*BROKEN, *UNREADABLE) as error:
        return None, f"CONNECTION ({type(error).__name__})", time.monotonic() - begun


class Watch:
    """What was seen, and what must not have been."""

    def __init__(self, late_max):
        self.late_max = late_max
        self.lock = threading.Lock()
        self.statuses = collections.Counter()
        self.violations = []
        self.longest = 0.0
        self.recoveries = []
        self.restarts = []
        self.faults = collections.Counter()
        # While the server itself is dead, connections may fail.
        self.server_down = False
        self.rows = []

    def violation(self, text):
        with self.lock:
            self.violations.append(text)
        print(f"VIOLATION: {text}", flush=True)

    def saw(self, question, expected, answer, status, took, during):
        with self.lock:
            self.statuses[status] += 1
            self.longest = max(self.longest, took)
            self.rows.append((round(time.time(), 3), during, status, round(took, 3)))
        if answer is not None and answer != expected:
            self.violation(f"a wrong answer during {during}: {question!r} has {answer!r}, not {expected!r}")
        if took > DEADLINE_S + self.late_max:
            self.violation(f"a question took {took:.2f} s during {during}: its deadline is {DEADLINE_S} s")
        if status.startswith("CONNECTION") and not during.startswith("kill server"):
            self.violation(f"no status but {status} during {during}")
        if status.endswith("WITHOUT_STATUS"):
            self.violation(f"{status} during {during}")


class Drill:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.rng = random.Random(args.seed)
        self.watch = Watch(args.late_max)
        self.now = "calm"
        self.over = threading.Event()
        self.questions = questions()
        self.make()

    def make(self):
        file = corpus(self.folder)
        log = lambda name: self.folder / f"{name}.log"
        spechop = self.args.spechop
        llm, web, self.port = free_port(), free_port(), free_port()
        self.llm = Upstream("llm", llm, [sys.executable, str(HERE / "chaos_llm.py"), str(llm)], log("llm"))
        serve_web = [spechop, "eval", "web", "--corpus", str(file), "--listen", f"127.0.0.1:{web}", "--latency", "120:40"]
        self.web = Upstream("web", web, serve_web, log("web"))
        self.upstreams = [self.llm, self.web]
        index = self.folder / "index"
        build = [spechop, "index", "build", "--corpus", str(file), "--out", str(index)]
        subprocess.run(build, check=True, stdout=subprocess.DEVNULL, stderr=log("build").open("wb"))
        keys = {
            "server.listen": f"127.0.0.1:{self.port}",
            "index.dir": index,
            "question.verifier": "exact",
            "question.k": 3,
            "generator.kind": "openai",
            "generator.style": "tagged",
            "generator.base_url": f"http://127.0.0.1:{llm}/v1",
            "generator.model": "scripted",
            "generator.requests_max": 64,
            "reader.kind": "generator",
            "target.kind": "web",
            "web.providers": "searxng",
            "web.searxng.url": f"http://127.0.0.1:{web}",
            "web.allow": f"127.0.0.1:{web}",
            # Little to compute: what is drilled is waiting and failing.
            "web.results": 3,
            "web.ranked": 3,
            "speculator.kind": "index",
            "speculator.model.kind": "generator",
            "tuning.state": "none",
        }
        if Qdrant.installed():
            qdrant = Qdrant(self.folder)
            self.upstreams.append(qdrant)
            keys |= {
                "speculator.kind": "cascade",
                "speculator.memory_collection": "chaos",
                "qdrant.urls": qdrant.url(),
            }
        else:
            print("Qdrant is not installed: it is not part of this drill", flush=True)
        command = [spechop, "serve"]
        for key, value in keys.items():
            command += ["--set", f"{key}={value}"]
        self.server = Server("server", self.port, command, log("server"))

    def run(self):
        for upstream in self.upstreams:
            upstream.start()
        for upstream in self.upstreams:
            upstream.ready()
        self.server.start()
        self.server.ready()
        # Undisturbed: the answers that must not change. All of them are right, or nothing can be compared.
        for question, expected in self.questions[:16]:
            answer, status, _ = ask(self.port, question)
            if answer != expected:
                raise SystemExit(f"chaos: undisturbed, {question!r} has {answer!r} ({status}), not {expected!r}")
        calm = sorted(ask(self.port, question)[2] for question, _ in self.questions[16:24])
        print(f"undisturbed and alone, a question takes {calm[len(calm) // 2]:.2f} s", flush=True)
        workers = [threading.Thread(target=self.work, args=(n,)) for n in range(WORKERS)]
        for worker in workers:
            worker.start()
        try:
            self.disturb()
        finally:
            if not all(worker.is_alive() for worker in workers):
                self.watch.violation("a worker has ended: less was asked than is meant")
            self.over.set()
            for worker in workers:
                worker.join()

    def work(self, number):
        rng = random.Random(self.args.seed * 1000 + number)
        while not self.over.is_set():
            question, expected = rng.choice(self.questions)
            before = self.now
            answer, status, took = ask(self.port, question)
            # A question meets what was going on when it was asked, and what began meanwhile.
            during = before if before == self.now else f"{before} and {self.now}"
            if "kill server" in during:
                during = "kill server: " + during
            self.watch.saw(question, expected, answer, status, took, during)
            self.over.wait(rng.uniform(0.3, 1.2))

    def disturb(self):
        end = time.monotonic() + self.args.seconds
        kinds = [(upstream, how) for upstream in self.upstreams for how in ("kill", "hang")]
        order, server_next = [], time.monotonic() + self.args.seconds / 2
        while time.monotonic() < end:
            self.pause(0.5, 1.5)
            if time.monotonic() >= server_next:
                self.kill_server()
                server_next = time.monotonic() + 60
                continue
            if not order:
                order = self.rng.sample(kinds, len(kinds))
            self.disturb_one(*order.pop())
        if not self.watch.restarts:
            self.kill_server()

    def pause(self, least, most):
        time.sleep(self.rng.uniform(least, most))

    def disturb_one(self, upstream, how):
        self.now = f"{how} {upstream.name}"
        self.watch.faults[self.now] += 1
        if how == "kill":
            upstream.kill()
            self.pause(0.5, 3)
            upstream.start()
            upstream.ready()
        else:
            upstream.stop()
            self.pause(0.5, 3)
            upstream.resume()
        self.now = f"return of {upstream.name}"
        self.recovers(f"{how} {upstream.name}")
        self.now = "calm"

    def recovers(self, what):
        """A question that is asked after the return is answered in time."""
        back = time.monotonic()
        status = None
        while (waited := time.monotonic() - back) <= self.args.recovered_max:
            question, expected = self.rng.choice(self.questions)
            answer, status, took = ask(self.port, question)
            self.watch.saw(question, expected, answer, status, took, self.now)
            if answer == expected:
                took = time.monotonic() - back
                self.watch.recoveries.append((what, round(took, 2)))
                if took > self.args.recovered_max:
                    self.watch.violation(f"after {what}: the first right answer after {took:.2f} s")
                return
            time.sleep(0.05)
        self.watch.violation(f"after {what}: no right answer within {waited:.2f} s, the last status is {status}")

    def kill_server(self):
        self.now = "kill server"
        self.watch.faults[self.now] += 1
        heard = threading.Thread(target=self.hears_at_once)
        heard.start()
        time.sleep(0.3)
        self.killed = time.monotonic()
        self.server.kill()
        heard.join()
        # Nobody listens: a client is told at once.
        _, status, took = ask(self.port, self.questions[0][0])
        if not status.startswith("CONNECTION") or took > self.args.late_max:
            self.watch.violation(f"with the server dead, a client heard {status} after {took:.2f} s")
        begun = time.monotonic()
        self.server.start()
        self.server.ready()
        took = time.monotonic() - begun
        self.watch.restarts.append(round(took, 2))
        if took > self.args.ready_max:
            self.watch.violation(f"the restart took {took:.2f} s, more than {self.args.ready_max} s")
        self.recovers("kill server")
        self.now = "calm"

    def hears_at_once(self):
        """A question that is open when the server is killed."""
        _, status, _ = ask(self.port, self.questions[1][0])
        heard = time.monotonic()
        killed = getattr(self, "killed", None)
        # It may have been answered before.
        if status.startswith("CONNECTION") and killed and heard - killed > self.args.late_max:
            self.watch.violation(f"a client heard of the killed server after {heard - killed:.2f} s")

    def end(self):
        for process in [self.server, *self.upstreams]:
            process.end()


def summary(drill, seconds):
    watch = drill.watch
    worst = max((took for _, took in watch.recoveries), default=None)
    return {
        **circumstances(),
        "seconds": round(seconds, 1),
        "seed": drill.args.seed,
        "upstreams": [upstream.name for upstream in drill.upstreams],
        "questions": sum(watch.statuses.values()),
        "statuses": dict(sorted(watch.statuses.items())),
        "faults": dict(sorted(watch.faults.items())),
        "longest_s": round(watch.longest, 2),
        "deadline_s": DEADLINE_S,
        "recoveries": len(watch.recoveries),
        "recoveries_s": {
            what: sorted(took for name, took in watch.recoveries if name == what)
            for what in sorted({name for name, _ in watch.recoveries})
        },
        "slowest_recovery_s": worst,
        "restarts_s": watch.restarts,
        "violations": watch.violations,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spechop", required=True, help="the program")
    parser.add_argument("--for", dest="seconds", type=float, default=600, help="how long to disturb, in seconds")
    parser.add_argument("--seed", type=int, default=1, help="of the order and the length of faults")
    parser.add_argument("--out", type=pathlib.Path, help="a folder for summary.json and rows.tsv")
    parser.add_argument("--ready-max", type=float, default=2.0, help="the longest that a restart may take, in seconds")
    parser.add_argument("--recovered-max", type=float, default=5.0, help="the longest wait for an answer after a return")
    parser.add_argument("--late-max", type=float, default=1.0, help="how long after its deadline, or after a crash, a client waits")
    args = parser.parse_args()
    args.spechop = str(pathlib.Path(args.spechop).resolve())
    folder = pathlib.Path(tempfile.mkdtemp(prefix="chaos"))
    # Ended like by Ctrl-C, so that no process is left.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    drill = Drill(args, folder)
    begun = time.monotonic()
    try:
        drill.run()
    finally:
        drill.end()
    found = summary(drill, time.monotonic() - begun)
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "summary.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
        with (args.out / "rows.tsv").open("w", encoding="utf-8") as out:
            out.write("unix_s\tduring\tstatus\tseconds\n")
            out.writelines("\t".join(map(str, row)) + "\n" for row in drill.watch.rows)
    if found["violations"]:
        print(f"the logs are kept in {folder}", flush=True)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(found))
    return 1 if found["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
