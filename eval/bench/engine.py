#!/usr/bin/env python3
"""What the engine costs without its tools: latency added under load, memory, questions a second, connections.

    engine.py --spechop BINARY [--out FOLDER] [--seconds N] [--parts NAMES]

Every part starts `spechop eval scripted` anew, and loads it with `spechop eval load` on the same machine, so both
share its cores. CPU time and memory are those that Linux reports of the server's process. The part "overhead" needs
grpcio, which the tests' Python environment has: <data folder>/venv/bin/python."""

import argparse
import asyncio
import contextlib
import json
import os
import pathlib
import random
import resource
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from circumstances import circumstances
from million import cpu_s, size_mib

# A look-up of the web in the paper, in milliseconds.
MEAN, SIGMA = 4150, 1680
HOPS = 3
# A receiver of traces that reads what it is sent and looks at none of it.
RECEIVER = """
import concurrent.futures, sys, grpc
class Takes(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: b"")
server = grpc.server(concurrent.futures.ThreadPoolExecutor(1), options=[("grpc.max_receive_message_length", -1)])
server.add_generic_rpc_handlers((Takes(),))
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
sys.stdin.read()
"""


class Server:
    """A server over scripted tools; `key` is what its clients must show."""

    def __init__(self, spechop, *args, key=None):
        self.key = key
        command = [spechop, "eval", "scripted", "--listen", "127.0.0.1:0", *args]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("ready on "):
            sys.exit(f"the server has not started; this says why: {shlex.join(command)}")
        self.address = line.removeprefix("ready on ").strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def status(self, name):
        """A size in MiB."""
        return round(size_mib(self.process.pid, name), 1)

    def cpu_s(self):
        return cpu_s(self.process.pid)


def load(args, server, *more):
    command = [args.spechop, "eval", "load", "--addr", server.address, "--questions", args.questions, "--json", *more]
    before = server.cpu_s()
    key = {"SPECHOP_KEY": server.key} if server.key else {}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=os.environ | key)
    run = json.loads(done.stdout)
    run["server_cpu_s"] = round(server.cpu_s() - before, 2)
    run["server_peak_mib"], run["server_idle_mib"] = server.status("VmHWM"), server.status("VmRSS")
    return run


def show(name, run):
    of = run["settings"][0]
    latency = of["latency_ms"]
    asked = of["asked"] + run["warm_up"]
    shown = " ".join(f"{key} {latency[key]:.2f}" for key in ("mean", "p50", "p99", "max"))
    print(
        f"{name}: {of['answered']} answered, errors {of['errors']}, {run['answered_per_s']:.1f}/s, in flight {run['in_flight_max']},"
        f" ms: {shown}; sent late p99 {run['sent_late_ms']['p99']:.2f} ms;"
        f" server: {run['server_peak_mib']} MiB at most, {1e6 * run['server_cpu_s'] / asked:.0f} µs of CPU a question",
        flush=True,
    )


def under_way(args, rows):
    """A thousand questions at once. With a steady look-up, what is beyond the sum of three is the engine's."""
    web = ["--look-up", f"{MEAN}:0:1", "--hops", str(HOPS)]
    rate = 1000 / (HOPS * MEAN / 1000)
    connections = ["--connections", "16", "--warm-up", "20"]
    with Server(args.spechop, *web) as server:
        alone = load(args, server, "--a", "k=1", "--rate", "0.5", "--for", "30", "--warm-up", "0")
        show("a few, k = 1", alone)
        many = load(args, server, "--a", "k=1", "--rate", f"{rate:.2f}", "--for", str(args.seconds), *connections)
        show("1,000 at once, k = 1", many)
    added = many["settings"][0]["latency_ms"]["p99"] - alone["settings"][0]["latency_ms"]["p50"]
    print(f"p99 of a thousand beyond the median of a few: {added:.2f} ms", flush=True)
    rows |= {"alone": alone, "thousand": many, "added_p99_ms": round(added, 3)}
    with Server(args.spechop, "--look-up", f"{MEAN}:{SIGMA}:1", "--hops", str(HOPS)) as server:
        ahead = load(args, server, "--a", "k=3", "--rate", "125", "--for", str(args.seconds), *connections)
        show("1,000 at once, k = 3, log-normal", ahead)
    rows["thousand_ahead"] = ahead


def throughput(args, rows):
    """Tools of no time: rates up to where questions queue."""
    rows["throughput"] = []
    for hops, k in ((1, 1), (3, 1), (3, 3)):
        for rate in args.rates:
            with Server(args.spechop, "--hops", str(hops), "--set", "server.requests_per_second=1000000") as server:
                run = load(args, server, "--a", f"k={k}", "--rate", str(rate), "--for", "8", "--warm-up", "2", "--connections", "8")
            show(f"{hops} look-ups of no time, k = {k}, {rate}/s", run)
            rows["throughput"].append({"hops": hops, "k": k, "rate": rate, "run": run})
            if run["answered_per_s"] < 0.9 * rate:
                break


def overhead(args, rows):
    """What keys and traces cost the server: CPU time a question, without, with each by default settings, with both, and if
    every question is traced, of `--asking` LOOK-UPS:K:RATE. They take turns, in an order by chance: the machine is not the
    same from one minute to the next. Metrics are counted in all of them; `cargo bench --bench access` has their cost."""
    receiver = subprocess.Popen([sys.executable, "-c", RECEIVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    port = receiver.stdout.readline().strip()
    if not port or args.turns < 2:
        sys.exit("the part overhead needs grpcio (<data folder>/venv/bin/python has it), and --turns of 2 or more")
    made = subprocess.run([args.spechop, "keys", "new", "--name", "load"], stdout=subprocess.PIPE, text=True, check=True)
    key, table = made.stdout.split("\n", 1)
    keys_file = pathlib.Path(args.questions).with_name("keys.toml")
    keys_file.write_text(table, encoding="utf-8")
    keys_file.chmod(0o600)
    keys = ["--set", f"server.keys_file={keys_file}"]
    told = ["--set", f"otlp.endpoint=http://127.0.0.1:{port}"]
    ways = {"none": [], "keys": keys, "traces": told, "keys and traces": [*keys, *told],
            "every trace": [*told, "--set", "otlp.per_second=1000000"]}
    found = {name: [] for name in ways}
    order = random.Random(1)
    hops, k, rate = args.asking.split(":")
    fast = ["--hops", hops, "--set", "server.requests_per_second=1000000"]
    asks = ["--a", f"k={k}", "--rate", rate, "--connections", "8", "--warm-up", "0", "--for"]
    with contextlib.ExitStack() as stack:
        # All of them stand there from the start, and one at a time has something to do.
        servers = {
            name: stack.enter_context(Server(args.spechop, *fast, *way, key=key if way[:2] == keys else None))
            for name, way in ways.items()
        }
        for server in servers.values():
            load(args, server, *asks, "3")
        for _ in range(args.turns):
            for name in order.sample(list(ways), len(ways)):
                run = load(args, servers[name], *asks, "3")
                if run["settings"][0]["errors"]:
                    sys.exit(f"not every question was answered: {run['settings'][0]['errors']}")
                found[name].append(1e6 * run["server_cpu_s"] / run["settings"][0]["asked"])
    receiver.kill()
    receiver.wait()
    rows["overhead"] = {"asking": args.asking, "turns": args.turns, "cpu_us_a_question": {name: [round(us) for us in all] for name, all in found.items()}}
    for name in list(ways)[1:]:
        ratios = [b / a for a, b in zip(found["none"], found[name])]
        error = statistics.stdev(ratios) / len(ratios) ** 0.5
        rows["overhead"][f"ratio, {name}"] = {"mean": round(statistics.mean(ratios), 3), "standard_error": round(error, 3)}
    print(f"overhead, {hops} look-ups of no time, k = {k}, {rate} questions/s:", rows["overhead"], flush=True)


async def connect(host, port, outcomes):
    """One connection that sends the first bytes of HTTP/2 and waits for those of the server."""
    try:
        reader, writer = await asyncio.wait_for(asyncio.open_connection(host, port), 30)
    except (OSError, asyncio.TimeoutError) as error:
        outcomes.append(f"refused ({type(error).__name__})")
        return None
    try:
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
        got = await asyncio.wait_for(reader.read(9), 30)
        outcomes.append("served" if got else "closed")
    except asyncio.TimeoutError:
        outcomes.append("hung")
    except OSError:
        outcomes.append("closed")
    return writer


async def flood(address, count):
    host, port = address.rsplit(":", 1)
    outcomes, begun = [], time.monotonic()
    held = []
    for n in range(0, count, 500):
        held += await asyncio.gather(*(connect(host, int(port), outcomes) for _ in range(min(500, count - n))))
    took = time.monotonic() - begun
    counts = {name: outcomes.count(name) for name in sorted(set(outcomes))}
    return {"connections": count, "outcomes": counts, "seconds": round(took, 2)}, held


def connections(args, rows):
    """10,000 connections that stay open, and a question while they do."""
    with Server(args.spechop, "--set", "server.connections_max=2048") as server:

        async def run():
            found, held = await flood(server.address, 10_000)
            command = [args.spechop, "ask", "--addr", server.address, "Who is it after all?"]
            asked = await asyncio.create_subprocess_exec(*command, stdout=subprocess.DEVNULL)
            found["question_meanwhile"] = "answered" if await asked.wait() == 0 else "not answered"
            found["server_mib"] = server.status("VmRSS")
            for writer in filter(None, held):
                writer.close()
            return found

        rows["connections"] = asyncio.run(run())
        print(rows["connections"], flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spechop", required=True, help="the program, built for release")
    parser.add_argument("--out", type=pathlib.Path, help="a folder for engine.json, or for that of a single part")
    parser.add_argument("--seconds", type=int, default=40, help="how long a thousand questions are under way")
    parser.add_argument("--rates", type=lambda text: [int(rate) for rate in text.split(",")], default=[2000, 5000, 8000])
    parts = {part.__name__: part for part in (connections, throughput, under_way, overhead)}
    every = "connections,throughput,under_way"
    parser.add_argument("--parts", type=lambda names: [parts[name] for name in names.split(",")], default=every,
                        help=f"of {', '.join(parts)}; by default all but the last")
    parser.add_argument("--turns", type=int, default=24, help="how often keys and traces are compared")
    parser.add_argument("--asking", default="2:3:1500", help="look-ups, k and questions a second of the part overhead")
    args = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    rows = circumstances()
    with tempfile.TemporaryDirectory() as folder:
        questions = pathlib.Path(folder) / "questions.txt"
        questions.write_text("".join(f"Who is number {n}?\n" for n in range(20_000)), encoding="utf-8")
        args.questions = str(questions)
        for part in args.parts:
            part(args, rows)
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        name = args.parts[0].__name__ if len(args.parts) == 1 else "engine"
        (args.out / f"{name}.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
