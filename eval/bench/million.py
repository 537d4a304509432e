#!/usr/bin/env python3
"""A million passages, end to end: built, killed, resumed, searched, asked, and served by Qdrant on one node and on three.

    million.py --spechop BINARY --fill BINARY --from INDEX --index FOLDER --out FOLDER [--corpus FILE]

The passages of --from come first; the others are mixtures of two of them, vector and text (index/examples/fill.rs), because
encoding a million takes hours on two cores. Parts, in this order:

  build     fills an index, killed three times with SIGKILL and resumed, and compares every byte with an undisturbed one
  embedded  a server over the index: look-ups, and real questions beside the same server over --from
  one       the index pushed to one Qdrant; the server is killed in the middle, then the push: both go on
  three     the same in a cluster of three nodes, each passage on two of them; a server without any index of its own answers
            questions, its hot subset guesses; then a node is killed, and the questions are asked again
  encoded   as `build`, but `spechop index build` encodes every passage of --corpus, if there is one

What a look-up takes is measured through the server's own POST /retrieve, one after the other. recall@5 compares what Qdrant
finds through its graph with what it finds by comparing every vector (exact = true), for the same queries."""

import argparse
import hashlib
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "deploy"))
from circumstances import circumstances  # noqa: E402
from upstream import Qdrant, until  # noqa: E402

QUESTIONS = ROOT / "eval/datasets/2wikimultihopqa/questions.jsonl.gz"
COUNT = 40
TOP = 5
KILLS = 3
COLLECTION = "passages"
# A look-up of the web in the paper, in milliseconds.
INJECTED = {"mean_ms": 4150, "sigma_ms": 1680, "seed": 1}
INDEXED_S = 7200
SERVE = {"question.verifier": "rule", "question.confidence_min": 0, "tuning.state": "none", "server.retrieve": "true"}


def post(url: str, body: dict) -> dict:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.load(response)


def get(url: str) -> dict:
    with urllib.request.urlopen(url, timeout=120) as response:
        return json.load(response)


def ms(seconds: list) -> dict:
    taken = [1e3 * one for one in seconds]
    return {"p50_ms": statistics.median(taken), "p99_ms": p99(taken), "queries": len(taken)}


def p99(values: list) -> float:
    return sorted(values)[int(0.99 * (len(values) - 1))]


def memory_mib(process: subprocess.Popen) -> dict:
    """What is in memory, and what of that is no file that could be read again."""
    return {name: int(size_mib(process.pid, key)) for name, key in (("resident", "VmRSS"), ("own", "RssAnon"))}


def size_mib(pid: int, name: str) -> float:
    """A size of a process, by the name that Linux has for it: what is in memory is VmRSS, the most that ever was VmHWM."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:"))


def cpu_s(pid: int) -> float:
    """Seconds of the processor that a process has taken, in user and kernel."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Server:
    """`spechop serve` with these settings, ready to answer."""

    def __init__(self, spechop: str, settings: dict):
        command = [spechop, "serve", "--listen", "127.0.0.1:0", "--log", "warn"]
        for key, value in (SERVE | settings).items():
            command += ["--set", f"{key}={value}"]
        begun = time.monotonic()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=sys.stderr, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("ready on "):
            sys.exit(f"the server has not started: {line!r}")
        self.ready_s = time.monotonic() - begun
        self.address = line.removeprefix("ready on ").strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def found(self, query: str) -> list:
        asked = {"queries": [query], "topk": TOP, "return_scores": True}
        return post(f"http://{self.address}/retrieve", asked)["result"][0]

    def look_ups(self, queries: list) -> dict:
        # The server keeps the vectors of queries: the second time, none is encoded.
        for query in queries:
            self.found(query)
        taken, missed = [], 0
        for query in queries:
            begun = time.perf_counter()
            missed += len(self.found(query)) < TOP
            taken.append(time.perf_counter() - begun)
        return ms(taken) | {"short": missed, "memory_mib": memory_mib(self.process), "ready_s": self.ready_s}

    def vectors(self, texts: list) -> list:
        found = post(f"http://{self.address}/v1/embeddings", {"model": "spechop-query", "input": texts})
        return [one["embedding"] for one in found["data"]]


class Node(Qdrant):
    """A node that is asked for what it holds."""

    def points(self) -> int:
        """No points as long as there is no collection."""
        try:
            found = post(f"http://127.0.0.1:{self.http}/collections/{COLLECTION}/points/count", {"exact": False})
        except urllib.error.HTTPError:
            return 0
        return found["result"]["count"]

    def search(self, vector: list, exact: bool) -> list:
        asked = {"query": vector, "limit": TOP, "params": {"exact": exact}}
        found = post(f"http://127.0.0.1:{self.http}/collections/{COLLECTION}/points/query", asked)
        return [point["id"] for point in found["result"]["points"]]

    def indexed(self) -> float:
        """Seconds until every vector is in a graph."""
        begun, calm = time.monotonic(), 0

        def is_green():
            nonlocal calm
            time.sleep(2)
            state = get(f"http://127.0.0.1:{self.http}/collections/{COLLECTION}")["result"]
            calm = calm + 1 if state["status"] == "green" and state["optimizer_status"] == "ok" else 0
            return calm > 3

        until(is_green, INDEXED_S, "the graph is not built")
        return time.monotonic() - begun

    def recall(self, vectors: list) -> dict:
        taken = {True: [], False: []}
        shared = 0
        for vector in vectors:
            found = {}
            for exact in taken:
                begun = time.perf_counter()
                found[exact] = set(self.search(vector, exact))
                taken[exact].append(time.perf_counter() - begun)
            shared += len(found[True] & found[False])
        return {"recall_at_5": shared / (TOP * len(vectors)), "graph": ms(taken[False]), "exact": ms(taken[True])}


def digests(folder: pathlib.Path) -> dict:
    def of(path):
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    return {str(path.relative_to(folder)): of(path) for path in sorted(folder.rglob("*")) if path.is_file()}


class Bench:
    def __init__(self, args):
        self.args = args
        self.out = args.out
        self.small, self.index = args.source, args.index
        self.args.spechop, self.args.fill = (str(pathlib.Path(path).resolve()) for path in (args.spechop, args.fill))
        self.results = {}

    def command(self, *arguments, **kwargs):
        return subprocess.run([self.args.spechop, *map(str, arguments)], check=True, text=True, **kwargs)

    def queries(self) -> list:
        """The questions themselves, and what the agent asked for them over the small index."""
        rows = [json.loads(line) for line in (self.out / "small/rows.jsonl").open()]
        asked = {hop["sub_question"] for row in rows for hop in row["hops"]}
        return sorted(asked)

    def live(self, server: Server, name: str, *ways):
        run = self.out / name
        # What was asked of an earlier index, or before a node was killed, is another run.
        shutil.rmtree(run, ignore_errors=True)
        # The run keeps its command, which says nothing of where this repository lies.
        self.command(
            "eval", "live", "--addr", server.address, "--dataset", "2wiki", "--questions", os.path.relpath(QUESTIONS, ROOT),
            "--count", COUNT, "--system", f"embedded default, {name}", "--out", os.path.relpath(run, ROOT), *ways,
            stdout=subprocess.DEVNULL, cwd=ROOT,
        )
        rows = [json.loads(line) for line in (run / "rows.jsonl").open()]
        by = {}
        for row in rows:
            by.setdefault(f"{row['variant']} ({row['concurrency']} at once)", []).append(row)
        mean = {way: statistics.mean(row["latency_ms"] for row in rows) for way, rows in by.items()}
        return {
            way: {
                "seconds": mean[way] / 1e3,
                "rel_lat": mean[way] / next(v for k, v in mean.items() if k.startswith("k=1 ") and k.split("(")[1] == way.split("(")[1]),
                "answers": {row["id"]: row["answer"] for row in by[way]},
            }
            for way in by
        }

    def fill(self, folder: pathlib.Path) -> list:
        return [self.args.fill, self.small, folder, self.args.rows]

    def encode(self, folder: pathlib.Path) -> list:
        return [self.args.spechop, "index", "build", "--corpus", self.args.corpus, "--out", folder]

    def killed(self, build, index: pathlib.Path) -> dict:
        """Builds without a disturbance, then killed and resumed: that one becomes the index."""

        def begin(name: str) -> subprocess.Popen:
            return subprocess.Popen(list(map(str, build(folder / name))), stdout=subprocess.DEVNULL)

        folder = pathlib.Path(tempfile.mkdtemp(dir=index.parent))
        try:
            begun = time.monotonic()
            if begin("undisturbed").wait():
                sys.exit("the index was not built")
            took = time.monotonic() - begun
            rng, killed = random.Random(self.args.seed), []
            for _ in range(KILLS):
                seconds = rng.uniform(0.1, 0.3) * took
                process = begin("killed")
                time.sleep(seconds)
                if process.poll() is not None:
                    sys.exit("the index was built before it was killed")
                process.kill()
                process.wait()
                killed.append(round(seconds, 1))
            begun = time.monotonic()
            if begin("killed").wait():
                sys.exit("the index was not resumed")
            rest = time.monotonic() - begun
            files = digests(folder / "undisturbed")
            if files != digests(folder / "killed"):
                sys.exit("the resumed index has other bytes")
            shutil.rmtree(index, ignore_errors=True)
            os.rename(folder / "killed", index)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        begun = time.monotonic()
        self.command("index", "verify", index, stdout=subprocess.DEVNULL)
        verify_s = time.monotonic() - begun
        info = json.loads(self.command("index", "info", "--json", index, stdout=subprocess.PIPE).stdout)
        return {
            "rows": info["rows"], "undisturbed_s": took, "killed_after_s": killed, "the_rest_s": rest,
            "files_with_the_same_bytes": len(files), "verify_s": verify_s,
            "bytes": sum(path.stat().st_size for path in index.rglob("*") if path.is_file()),
        }

    def build(self):
        return self.killed(self.fill, self.index)

    def encoded(self):
        return self.killed(self.encode, self.index.with_name(self.index.name + "-encoded"))

    def embedded(self):
        hot = {"speculator.hot_dir": self.small / "hot"}
        with Server(self.args.spechop, {"index.dir": self.small} | hot) as server:
            small = self.live(server, "small", "--k", "1")
        with Server(self.args.spechop, {"index.dir": self.index} | hot) as server:
            questions = self.live(server, "embedded", "--k", "1,3")
            look_ups = server.look_ups(self.queries())
        return {"look_ups": look_ups, "small": small, "questions": questions}

    def nodes(self, folder: pathlib.Path, count: int) -> list:
        nodes = []
        for number in range(count):
            nodes.append(Node(folder, f"node-{number}", clustered=count > 1, first=nodes[0] if nodes else None))
            nodes[-1].up()
        return nodes

    def push(self, nodes: list, *settings, disturbed: bool) -> dict:
        urls = [part for node in nodes for part in ("--url", node.url())]
        command = [self.args.spechop, "index", "push", str(self.index), *urls, *settings, "--json"]
        begun, killed = time.monotonic(), []
        if disturbed:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.until_pushed(nodes[0], 0.25)
            nodes[0].kill()
            time.sleep(1)
            nodes[0].up()
            # The push itself goes on.
            self.until_pushed(nodes[0], 0.5)
            if process.poll() is not None:
                sys.exit("the push ended before it was killed")
            process.kill()
            process.wait()
            killed = ["server", "push"]
        done = json.loads(subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout)
        last = {key: done[key] for key in ("passages", "sent", "seconds")}
        return {"killed": killed, "push_s": time.monotonic() - begun, "last": last}

    def until_pushed(self, node: Qdrant, share: float):
        def is_there():
            time.sleep(0.2)
            try:
                return node.points() >= share * self.args.rows
            except OSError:
                return False

        until(is_there, INDEXED_S, f"{share:.0%} of the passages are not pushed")

    def at_qdrant(self, count: int, settings: list, ask) -> dict:
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.index.parent))
        nodes = []
        try:
            nodes = self.nodes(folder, count)
            found = self.push(nodes, *settings, disturbed=count == 1)
            found["indexed_s"] = nodes[0].indexed()
            target = {
                "target.kind": "qdrant", "qdrant.urls": ",".join(node.url() for node in nodes),
                "speculator.hot_dir": self.small / "hot",
            }
            with Server(self.args.spechop, target) as server:
                queries = self.queries()
                vectors = [vector for at in range(0, len(queries), 64) for vector in server.vectors(queries[at : at + 64])]
                found["look_ups"] = server.look_ups(queries)
                found |= nodes[0].recall(vectors)
                found["nodes_memory_mib"] = [memory_mib(node.process)["resident"] for node in nodes]
                found |= ask(server, nodes)
            found |= self.slowed(target) if count > 1 else {}
            return found
        finally:
            for node in nodes:
                node.end()
            shutil.rmtree(folder, ignore_errors=True)

    def one(self):
        return self.at_qdrant(1, [], lambda server, _: {"questions": self.live(server, "one-node", "--k", "1")})

    def three(self):
        settings = self.out / "three.json"
        settings.write_text('{"shard_number": 3, "replication_factor": 2, "write_consistency_factor": 2}\n')

        def ask(server, nodes):
            ways = ["--k", "1,3", "--variant", "k=auto"]
            before = self.live(server, "three-nodes", *ways)
            nodes[-1].kill()
            after = self.live(server, "three-nodes-one-killed", "--k", "1")
            standard = next(iter(before))
            answers, again = before[standard]["answers"], after[standard]["answers"]
            same = sum(again[question] == answer for question, answer in answers.items())
            nodes[-1].up()
            return {"questions": before, "one_killed": after, "same_answers": same}

        return self.at_qdrant(3, ["--settings", str(settings)], ask)

    def slowed(self, target: dict) -> dict:
        """With the latency of the web, injected: what the hot subset hides of a cluster that is far away."""
        injected = {f"target.injected_latency.{key}": value for key, value in INJECTED.items()}
        with Server(self.args.spechop, target | injected) as server:
            ways = ["--k", "1,3", "--variant", "k=auto", "--concurrency", "8"]
            return {"injected": self.live(server, "three-nodes-injected", *ways)}

    def run(self):
        self.out.mkdir(parents=True, exist_ok=True)
        path = self.out / "results.json"
        if path.exists():
            self.results = json.loads(path.read_text())
        for part in self.args.parts:
            print(f"== {part}", file=sys.stderr)
            run = circumstances()
            self.results[part] = {**run, **without_answers(getattr(self, part)())}
            path.write_text(json.dumps(self.results, indent=1) + "\n")
            print(json.dumps(self.results[part]), file=sys.stderr)
        table = as_table(self.results)
        (self.out / "printed.md").write_text(table + "\n")
        print(table)


def without_answers(found):
    """The answers stand in the rows of the runs."""
    if isinstance(found, dict):
        return {key: without_answers(value) for key, value in found.items() if key != "answers"}
    return found


def as_table(results: dict) -> str:
    lines = []
    for build in filter(None, map(results.get, ("build", "encoded"))):
        lines += [
            f"{build['rows']:,} passages, {build['bytes'] / 1e6:.0f} MB, in {build['undisturbed_s']:.0f} s; killed after "
            f"{', '.join(map(str, build['killed_after_s']))} s and resumed: the same bytes in all {build['files_with_the_same_bytes']} files.",
            "",
        ]
    lines += [
        "| passages in | push, s | graph, s | a look-up, p50 / p99, ms | recall@5 | search alone, p50 / p99, ms | every vector compared, p50, ms | memory of the nodes, MiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in ("embedded", "one", "three"):
        if not (found := results.get(name)):
            continue
        look_ups = found["look_ups"]
        cells = [name, "–", "–", f"{look_ups['p50_ms']:.1f} / {look_ups['p99_ms']:.1f}", "1 (exact)", "–", "–", "–"]
        if name != "embedded":
            graph, exact = found["graph"], found["exact"]
            cells[1:3] = [f"{found['push_s']:.0f}", f"{found['indexed_s']:.0f}"]
            cells[4:] = [
                f"{found['recall_at_5']:.4f}", f"{graph['p50_ms']:.1f} / {graph['p99_ms']:.1f}", f"{exact['p50_ms']:.1f}",
                ", ".join(map(str, found["nodes_memory_mib"])),
            ]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "| questions | way | seconds | RelLat |", "|---|---|---|---|"]
    for name, part in results.items():
        for run in ("small", "questions", "one_killed", "injected"):
            for way, found in part.get(run, {}).items():
                lines.append(f"| {name}, {run.replace('_', ' ')} | {way} | {found['seconds']:.3f} | {found['rel_lat']:.3f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spechop", required=True)
    parser.add_argument("--fill", required=True, help="the example `fill` of spechop-index")
    parser.add_argument("--from", dest="source", type=pathlib.Path, required=True, help="the index that is filled up")
    parser.add_argument("--index", type=pathlib.Path, required=True, help="where the filled index goes, and stays")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--corpus", type=pathlib.Path, help="what the part `encoded` builds an index of")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--parts", nargs="+", help="all by default, `encoded` only with --corpus")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.parts = args.parts or ["build", "embedded", "one", "three"] + (["encoded"] if args.corpus else [])
    for name in ("source", "index", "out"):
        setattr(args, name, getattr(args, name).resolve())
    Bench(args).run()


if __name__ == "__main__":
    main()
