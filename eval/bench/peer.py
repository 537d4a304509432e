#!/usr/bin/env python3
"""What a user would write in Python, beside the server: the same models, prompts, index and window.

    pip install --requirement deploy/requirements-bench.txt
    eval/bench/peer.py --spechop target/release/spechop --index FOLDER --out FOLDER

The peer is one process on asyncio: llama.cpp (xllamacpp) with the same planner, onnxruntime for E5 and the
reader, numpy for the search, and the window of asyncio_reference.py. Both answer the same questions in the same run and
take turns: one question at a time, and 16 at once. Each cell of the table has questions of its own, so that no cache of
either side has seen them. The server is asked by `spechop ask`, a process for each question; its seconds at one question
are its own. CPU seconds tell more than seconds if the machine does other work. The server is told to do no more than the
peer (peer_settings.py); what it does all the same stands in eval/README.md. Some answers differ: the peer batches prompts in
another version of llama.cpp, and it has no rules behind reader and planner. The server drafts tokens of sub-questions, which the
peer does not: with --without-draft-tokens neither does.
"""

import argparse
import asyncio
import gzip
import json
import math
import os
import random
import struct
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Before the libraries are loaded: idle threads must not take the cores from the other side.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
import numpy
import onnxruntime
import xllamacpp
from tokenizers import Tokenizer

import asyncio_reference as reference
from circumstances import circumstances
from million import Server, cpu_s
from peer_settings import GUESS_PASSAGES, HOPS_MAX, settings

sys.path.append(str(Path(__file__).resolve().parents[1]))
from train.runtime import cpu_options  # noqa: E402
from train.values import judged  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
DATASET = ROOT / "eval/datasets/2wikimultihopqa/questions.jsonl.gz"
WARM_UP = "Who is the mother of the director of film Polish-Russian War?"
CORES = len(os.sched_getaffinity(0))
HEADER = 64
WIDTHS = (1, 4)
AT_ONCE = (1, 16)
# One at a time: so many questions in turn, and so many turns for each batch of 16 at once.
IN_TURN, ALONE = 4, 3
# As in crates/spechop-llm/src/steps.rs.
SUB_QUESTION_TOKENS, ANSWER_TOKENS, NOTES_MAX, PIECE_CHARS = 64, 128, 2, 300
ARROW, NOTHING = " =>", "No relevant information found"
SPAN, YES, NO, NOT_HERE = range(4)


class Planner:
    """The planner, and the lines that it was trained on."""

    def __init__(self, models: Path):
        params = xllamacpp.CommonParams()
        params.model.path = str(models / "spechop-planner-merged/model.gguf")
        params.n_parallel = slots = 16
        params.n_ctx = 1024 * slots
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = CORES
        params.verbosity = 0
        self.server = xllamacpp.Server(params)
        # A call blocks its thread until the text is there; llama.cpp itself batches what comes together.
        self.threads = ThreadPoolExecutor(slots)

    def complete(self, prompt: str, tokens: int, stop: list) -> tuple[str, bool]:
        request = {"prompt": prompt, "n_predict": tokens, "temperature": 0, "stop": stop, "cache_prompt": True}
        replies = []
        self.server.handle_completions(json.dumps(request), replies.append)
        choice = json.loads(replies[-1])["choices"][0]
        return choice["text"], choice["finish_reason"] == "length"

    async def write(self, prompt: str, tokens: int, stop: list) -> tuple[str, bool]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.threads, self.complete, prompt, tokens, stop)

    async def plan(self, question: str, hops, must_answer: bool):
        text = f"Question: {plain(question)}\n"
        for asked, answer in hops:
            text += f"{piece(asked) or '?'}{ARROW} {piece(answer).rstrip(', ') or NOTHING}\n"
        tokens = ANSWER_TOKENS if must_answer else SUB_QUESTION_TOKENS
        for _ in range(NOTES_MAX + 1):
            line, cut = await self.write(text, tokens, [ARROW, "\n"])
            line = line.strip()
            if line.startswith("Answer:"):
                if cut and tokens < ANSWER_TOKENS:
                    line += (await self.write(text + line, ANSWER_TOKENS - tokens, ["\n"]))[0]
                return self.answer(line, hops)
            if line.startswith("Compare:") and not cut:
                text += judged(line) + "\n"
                continue
            if cut or must_answer or not any(map(str.isalnum, line)):
                break
            return reference.Ask(line)
        if not hops and not must_answer:
            return reference.Ask(piece(question))
        line, _ = await self.write(text + "Answer:", ANSWER_TOKENS, ["\n"])
        return self.answer(line, hops)

    @staticmethod
    def answer(line: str, hops):
        said = plain(line.removeprefix("Answer:").split(ARROW)[0])
        found = [answer for _, answer in hops if answer != NOTHING]
        return reference.Answer(said if any(map(str.isalnum, said)) else (found or ["unknown"])[-1])


class Onnx:
    """A model of ONNX Runtime and its tokenizer, on a thread of its own."""

    def __init__(self, folder: Path):
        options = cpu_options(CORES)
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = onnxruntime.InferenceSession(folder / "model.onnx", options, ["CPUExecutionProvider"])
        self.inputs = {given.name for given in self.session.get_inputs()}
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.thread = ThreadPoolExecutor(1)

    def run(self, outputs, rows: list) -> tuple[list, numpy.ndarray]:
        """`rows` are token ids with their types."""
        longest = max(len(ids) for ids, _ in rows)
        feed = {name: numpy.zeros((len(rows), longest), numpy.int64) for name in ("input_ids", "attention_mask", "token_type_ids")}
        for at, (ids, types) in enumerate(rows):
            feed["input_ids"][at, : len(ids)] = ids
            feed["token_type_ids"][at, : len(ids)] = types
            feed["attention_mask"][at, : len(ids)] = 1
        given = {name: value for name, value in feed.items() if name in self.inputs}
        return self.session.run(outputs, given), feed["attention_mask"]

    async def aside(self, work, *args):
        return await asyncio.get_running_loop().run_in_executor(self.thread, work, *args)


class Encoder(Onnx):
    """E5: one query, a unit vector."""

    def encode(self, query: str) -> numpy.ndarray:
        ids = self.tokenizer.encode("query: " + query).ids
        ids = ids if len(ids) <= 64 else ids[:63] + ids[-1:]
        (states, *_), _ = self.run(None, [(ids, [0] * len(ids))])
        mean = states[0].mean(axis=0)
        return mean / numpy.linalg.norm(mean)


class Reader(Onnx):
    """The extractive reader: the words of a passage that answer a sub-question."""

    TOKENS, ANSWER_TOKENS = 256, 24

    def __init__(self, folder: Path):
        super().__init__(folder)
        recipe = tomllib.loads((folder / "reader.toml").read_text())
        self.calibration = recipe["calibration"]
        self.threshold, self.enough = recipe["threshold"], recipe["enough"]

    def read(self, question: str, passages: list) -> str | None:
        sure, said = 0.0, ""
        for title, text in passages:
            text = f"{title}. {text}"
            pair = self.tokenizer.encode("query: " + question, text)
            row = (pair.ids[: self.TOKENS], pair.type_ids[: self.TOKENS])
            logits, _ = self.run(["start_logits", "end_logits", "class_logits"], [row])
            found = self.best(text, pair, *(of[0] for of in logits))
            if found and self.confidence(found[0]) > sure:
                sure, said = self.confidence(found[0]), found[1]
            if sure >= self.enough:
                break
        return said if sure >= self.threshold and any(map(str.isalnum, said)) else None

    def confidence(self, score: float) -> float:
        return 1 / (1 + math.exp(-(self.calibration["scale"] * score + self.calibration["shift"])))

    def best(self, text: str, pair, start, end, classes):
        where = [at for at, of in enumerate(pair.sequence_ids[: self.TOKENS]) if of == 1]
        if not where:
            return None
        first, past = where[0], where[-1] + 1
        sums = start[first:past, None] + end[None, first:past]
        legal = numpy.triu(numpy.ones_like(sums, bool)) & ~numpy.triu(numpy.ones_like(sums, bool), self.ANSWER_TOKENS)
        sums = numpy.where(legal, sums, -numpy.inf)
        at, to = numpy.unravel_index(sums.argmax(), sums.shape)
        p = classes.astype(numpy.float64)
        p = p - numpy.logaddexp.reduce(p)
        odds = numpy.logaddexp.reduce(p[[SPAN, YES, NO]]) - p[NOT_HERE]
        score = float(sums[at, to]) + odds
        if max(p[YES], p[NO]) > p[SPAN]:
            return score, "yes" if p[YES] >= p[NO] else "no"
        return score, text[pair.offsets[first + at][0] : pair.offsets[first + to][1]].strip()


class Index:
    """The rows and passages of an index of ours, as one matrix."""

    def __init__(self, folder: Path):
        manifest = json.loads((folder / "manifest.json").read_text())["content"]
        width, extended = manifest["inputs"]["width"], manifest["format"] == 2
        self.passages, vectors = [], []
        for number, shard in enumerate(manifest["shards"]):
            part = lambda kind: (folder / f"{kind}-{number:05}.bin").read_bytes()[HEADER:]
            rows = numpy.frombuffer(part("vectors"), numpy.int8).reshape(shard["rows"], -1)[:, :width]
            scales = numpy.frombuffer(part("scales"), numpy.float32)
            vectors.append(rows.astype(numpy.float32) * scales[:, None])
            offsets, texts = numpy.frombuffer(part("offsets"), numpy.uint64).tolist(), part("passages")
            self.passages += [record(one, extended) for one in parts(texts, offsets)]
        self.vectors = numpy.concatenate(vectors)

    def nearest(self, vector: numpy.ndarray, limit: int) -> list:
        scores = self.vectors @ vector
        order = numpy.argsort(-scores, kind="stable")[:limit]
        return [self.passages[at] for at in order]


def parts(data: bytes, offsets: list) -> list:
    """Each record from its offset to the next one's, or up to its own end."""
    if offsets and offsets[0] == 0:
        offsets = [*offsets[1:], len(data)]
    return [data[a:b] for a, b in zip([0, *offsets], offsets)]


def record(data: bytes, extended: bool) -> tuple[str, str]:
    """Title and text of a stored passage."""
    lengths = struct.unpack_from("<4I" if extended else "<2I", data)
    at = (16 if extended else 8) + lengths[0]
    title_end = at + lengths[1]
    text_at = title_end + (lengths[2] if extended else 0)
    return data[at:title_end].decode(), data[text_at:].decode()


class Tools:
    """The ports of asyncio_reference.py, with real models behind them."""

    def __init__(self, models: Path, index: Path):
        self.planner = Planner(models)
        self.encoder, self.reader = Encoder(models / "e5-small-v2-int8"), Reader(models / "spechop-reader")
        self.whole, self.hot = Index(index), Index(index / "hot")

    async def plan(self, question, prefix, must_answer):
        return await self.planner.plan(question, prefix, must_answer)

    async def retrieve(self, query, limit):
        return self.whole.nearest(await self.encoder.aside(self.encoder.encode, query), limit)

    async def read(self, sub_question, passages):
        return await self.reader.aside(self.reader.read, sub_question, passages)

    async def guess(self, _question, _prefix, sub_question):
        vector = await self.encoder.aside(self.encoder.encode, sub_question)
        return await self.read(sub_question, self.hot.nearest(vector, GUESS_PASSAGES))


class Peer:
    """The peer as one of the two sides."""

    def __init__(self, tools: Tools):
        self.tools = tools

    async def ask(self, question: str, k: int) -> tuple[float, str]:
        begin = time.perf_counter()
        answer, _ = await reference.ask(self.tools, question, k, HOPS_MAX, limits=None)
        return time.perf_counter() - begin, answer

    def cpu(self) -> float:
        return time.process_time()


class Ours:
    """The server as the other side."""

    def __init__(self, binary: str, address: str, pid: int):
        self.binary, self.address, self.pid = binary, address, pid

    async def ask(self, question: str, k: int) -> tuple[float, str]:
        command = [self.binary, "ask", question, "--addr", self.address, "--k", str(k), "--json"]
        run = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        out, _ = await run.communicate()
        if run.returncode:
            sys.exit(f"no answer to {question!r}")
        answer = json.loads(out)
        return answer["elapsed_ms"] / 1000, answer["answer"]

    def cpu(self) -> float:
        return cpu_s(self.pid)


async def measure(side, questions: list, k: int, at_once: int) -> dict:
    """A batch of questions on one side."""
    room = asyncio.Semaphore(at_once)

    async def one(question: str):
        async with room:
            return await side.ask(question, k)

    cpu, begin = side.cpu(), time.perf_counter()
    answers = await asyncio.gather(*map(one, questions))
    wall = time.perf_counter() - begin
    # One at a time, the time of `spechop ask` itself would count for the server.
    wall = sum(seconds for seconds, _ in answers) if at_once == 1 else wall
    return {"wall": wall, "cpu": side.cpu() - cpu, "answers": [answer for _, answer in answers]}


async def compare(sides: dict, questions: list, batches: int) -> list:
    cells, left = [], iter(questions)
    for at_once in AT_ONCE:
        for k in WIDTHS:
            cell = {"k": k, "at_once": at_once, "same": 0, "questions": 0}
            for name in sides:
                cell[name] = {"wall": 0.0, "cpu": 0.0}
            for turn in range(batches * (ALONE if at_once == 1 else 1)):
                batch = [next(left) for _ in range(IN_TURN if at_once == 1 else at_once)]
                said = {}
                # The first of a turn may find a quieter machine: take turns at that, too.
                for name in sorted(sides, reverse=turn % 2 == 1):
                    done = await measure(sides[name], batch, k, at_once)
                    said[name] = done.pop("answers")
                    for what, value in done.items():
                        cell[name][what] += value
                cell["questions"] += len(batch)
                cell["same"] += sum(map(str.__eq__, *said.values()))
            print(json.dumps(cell), file=sys.stderr)
            cells.append(cell)
    return cells


def table(cells: list) -> str:
    lines = [
        "| at once | k | questions | server s a question | peer | ratio | server questions/s | peer | CPU s a question, server | peer | ratio | same answer |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for cell in cells:
        count, ours, peer = cell["questions"], cell["server"], cell["peer"]
        lines.append(
            f"| {cell['at_once']} | {cell['k']} | {count} | {ours['wall'] / count:.3f} | {peer['wall'] / count:.3f} "
            f"| {peer['wall'] / ours['wall']:.2f} | {count / ours['wall']:.2f} | {count / peer['wall']:.2f} "
            f"| {ours['cpu'] / count:.3f} | {peer['cpu'] / count:.3f} | {peer['cpu'] / ours['cpu']:.2f} | {cell['same']} |"
        )
    return "\n".join(lines)


def plain(text: str) -> str:
    return " ".join(text.split()).replace("=>", "->")


def piece(text: str) -> str:
    return plain(text)[:PIECE_CHARS].rstrip()


def main() -> None:
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "spechop"
    data = Path(os.environ.get("SPECHOP_DATA_DIR") or data)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spechop", required=True, help="the binary")
    parser.add_argument("--index", type=Path, required=True, help="an index with a hot subset")
    parser.add_argument("--models", type=Path, default=data / "models")
    parser.add_argument("--dataset", type=Path, default=DATASET)
    parser.add_argument("--batches", type=int, default=2, help="batches of 16 questions for each width, and 12 one at a time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without-draft-tokens", action="store_true", help="the server drafts none, as the peer")
    parser.add_argument("--out", type=Path, required=True, help="a folder for peer.json and peer.md")
    args = parser.parse_args()
    with gzip.open(args.dataset, "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    random.Random(args.seed).shuffle(records)
    wanted = args.batches * len(WIDTHS) * sum(IN_TURN * ALONE if at_once == 1 else at_once for at_once in AT_ONCE)
    if len(records) < wanted:
        sys.exit(f"{len(records)} questions in {args.dataset}, and {wanted} are needed: give fewer --batches")
    questions = [record["question"] for record in records[:wanted]]
    args.out.mkdir(parents=True, exist_ok=True)
    run = circumstances()
    with Server(args.spechop, settings(args.index, not args.without_draft_tokens)) as server:
        ours = Ours(args.spechop, server.address, server.process.pid)
        sides = {"server": ours, "peer": Peer(Tools(args.models, args.index))}
        for side in sides.values():
            # What is done once for all is done before anything is measured.
            asyncio.run(measure(side, [WARM_UP], max(WIDTHS), 1))
        cells = asyncio.run(compare(sides, questions, args.batches))
    result = {
        **run,
        "versions": {"xllamacpp": xllamacpp.__version__, "onnxruntime": onnxruntime.__version__, "numpy": numpy.__version__},
        "rows": len(sides["peer"].tools.whole.passages),
        "cells": cells,
    }
    (args.out / "peer.json").write_text(json.dumps(result, indent=1) + "\n")
    (args.out / "peer.md").write_text(table(cells) + "\n")
    print(table(cells))
    sys.stdout.flush()
    # The threads of llama.cpp wait for more.
    os._exit(0)


if __name__ == "__main__":
    main()
