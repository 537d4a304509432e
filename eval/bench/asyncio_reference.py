#!/usr/bin/env python3
"""SpecHop in plain Python asyncio: what the engine's overhead is measured against.

The algorithm of crates/spechop-window and crates/spechop-agent, without salvage: a window of k
branches, each with a target call and a guess; the head alone is verified; an accepted guess slides
the window, a rejected one rolls it back. It is written to be quick: a task a stage and no other, no
queue and no driver task, since whoever has news applies it (one thread needs no lock). It keeps
no timings, traces, token counts or budgets, which the other does.

    eval/bench/asyncio_reference.py --check
    eval/bench/asyncio_reference.py
    eval/bench/asyncio_reference.py --target-turns 1 --no-limits

The tools are those of crates/spechop-agent/benches/overhead.rs: scripted, without latency, every
guess right. A look-up that takes no time beats its guess (law 5), so nothing is built on guesses
there; --target-turns N lets the event loop turn N times in a look-up, and the guesses come first.
--no-limits leaves out the time limit of every stage, which the other has. --check holds random
questions, with wrong guesses, failures and other interleavings, against the sequential agent.
Standard library only, Python 3.11.
"""

import argparse
import asyncio
import gc
import json
import platform
import random
import statistics
import time
import tracemalloc
from collections import deque
from dataclasses import dataclass, field

LIMITS_S = {"segment": 60.0, "target": 60.0, "speculation": 20.0}
REFUSALS = ("i don't know", "unknown", "not available", "no relevant information")
HANGING = 200  # Questions in flight at once whose memory is counted.


@dataclass(slots=True, frozen=True)
class Ask:
    """The planner's next sub-question."""

    sub_question: str


@dataclass(slots=True, frozen=True)
class Answer:
    """The planner's final answer."""

    text: str


@dataclass(slots=True, frozen=True)
class Observation:
    """What the target tool found."""

    answer: str
    found: bool
    evidence: list


@dataclass(slots=True, frozen=True)
class Hop:
    """A committed hop. `guess` is what was compared, where something was."""

    sub_question: str
    answer: str
    accepted: bool
    guess: str | None
    observation: Observation


@dataclass(slots=True, eq=False)
class Branch:
    """One speculative thread: a prefix, partly guessed, and the work running on it."""

    prefix: tuple  # (sub-question, answer) pairs
    must_answer: bool
    sub_question: str | None = None
    final: str | None = None
    observation: Observation | None = None
    guess: str | None = None
    guessing: bool = False  # The guess is running, ready, or over.
    granted: str | None = None  # What the next branch takes this one's answer to be.
    failed: str | None = None  # The stage that failed while it was speculative.
    tasks: dict = field(default_factory=dict)  # Running, by stage.


class StageFailed(Exception):
    """A stage that the answer needs has failed."""


class Run:
    """One question under way: its window, head first, and its committed hops."""

    def __init__(self, tools, question, k, hops_max, not_found_max, limits, group):
        self.tools, self.question = tools, question
        self.k, self.hops_max, self.not_found_max = k, hops_max, not_found_max
        self.limits, self.group = limits, group
        self.window: deque[Branch] = deque()
        self.committed: list[Hop] = []
        self.over = asyncio.get_running_loop().create_future()
        self.answer: str | None = None
        self.error: Exception | None = None

    # Stages: what runs.

    def launch(self, branch: Branch, stage: str) -> None:
        authoritative = branch is self.window[0]
        work = self.work(branch, stage, authoritative)
        branch.tasks[stage] = self.group.create_task(work)

    async def work(self, branch: Branch, stage: str, authoritative: bool) -> None:
        call, take = self.STAGES[stage]
        try:
            if self.limits is None:
                news = await call(self, branch)
            else:
                async with asyncio.timeout(self.limits[stage]):
                    news = await call(self, branch)
        except Exception as error:
            del branch.tasks[stage]
            self.on_failure(branch, stage, authoritative, error)
        else:
            del branch.tasks[stage]
            take(self, branch, news)

    async def segment(self, branch: Branch) -> Ask | Answer:
        step = await self.tools.plan(self.question, branch.prefix, branch.must_answer)
        if branch.must_answer and isinstance(step, Ask):
            raise StageFailed("the planner asked on although it had to answer")
        return step

    async def target(self, branch: Branch) -> Observation:
        passages = await self.tools.retrieve(branch.sub_question, 5)
        answer = await self.tools.read(branch.sub_question, passages)
        found = answer is not None
        return Observation(answer if found else "No relevant information found", found, passages)

    async def speculation(self, branch: Branch) -> str | None:
        return await self.tools.guess(self.question, branch.prefix, branch.sub_question)

    # News: what came of it. An aborted branch has no news, since its tasks are cancelled (law 7).

    def on_segment(self, branch: Branch, step: Ask | Answer) -> None:
        if isinstance(step, Answer):
            branch.final = step.text
            self.settle()
        elif any(same(step.sub_question, asked) for asked, _ in branch.prefix):
            branch.must_answer = True
            self.launch(branch, "segment")
        else:
            branch.sub_question = step.sub_question
            self.launch(branch, "target")
            self.extend()

    def on_target(self, branch: Branch, observation: Observation) -> None:
        branch.observation = observation
        if branch.granted is None:
            # Faster than its guess, which is not needed any more (law 5).
            branch.guessing, branch.guess = True, None
            if guess := branch.tasks.get("speculation"):
                guess.cancel()
        self.settle()

    def on_speculation(self, branch: Branch, guess: str | None) -> None:
        if branch.observation is None:
            branch.guess = guess
            self.extend()

    def on_failure(self, branch: Branch, stage: str, authoritative: bool, error: Exception) -> None:
        if stage == "speculation":
            return  # A failed guess is no guess (law 6).
        if authoritative:
            self.error = error
            self.end()
        else:
            # No error until its branch is head (law 6).
            branch.failed = stage
            self.settle()

    STAGES = {
        "segment": (segment, on_segment),
        "target": (target, on_target),
        "speculation": (speculation, on_speculation),
    }

    # Decisions.

    def settle(self) -> None:
        """Follows the head as far as its news goes, then extends the tail."""
        while True:
            head = self.window[0]
            if head.final is not None:
                self.answer = head.final
                return self.end()
            if head.failed is not None:
                stage, head.failed = head.failed, None
                self.launch(head, stage)
                break
            if (observation := head.observation) is None:
                break
            guessed = head.granted is not None and head.guess is not None
            accepted = guessed and observation.found and accepts(observation.answer, head.guess)
            if guessed and not accepted:
                self.abort(1)
            self.commit(head, accepted)
        self.extend()

    def commit(self, head: Branch, accepted: bool) -> None:
        """Makes the head's hop final. The next branch becomes head, or a new one does."""
        self.window.popleft()
        text = head.guess if accepted else head.observation.answer
        guess = head.guess if head.granted is not None else None
        self.committed.append(Hop(head.sub_question, text, accepted, guess, head.observation))
        if not self.window:
            self.push(head, text)

    def extend(self) -> None:
        """Has the tail's answer guessed, and extends the tail where there is room (law 3)."""
        tail = self.window[-1]
        if self.k == 1 or tail.sub_question is None:
            return
        if tail.observation is not None:
            granted = tail.observation.answer
        elif not tail.guessing:
            tail.guessing = True
            self.launch(tail, "speculation")
            return
        else:
            granted = tail.guess
        if granted is not None and len(self.window) < self.k:
            tail.granted = granted
            self.push(tail, granted)

    def push(self, before: Branch | None, answer: str | None) -> None:
        """Adds a branch behind the one before, whose answer is taken for known."""
        prefix = (*before.prefix, (before.sub_question, answer)) if before else ()
        out_of_hops = len(prefix) >= self.hops_max
        branch = Branch(prefix, out_of_hops or self.not_found() > self.not_found_max)
        self.window.append(branch)
        assert len(self.window) <= self.k  # law 1
        self.launch(branch, "segment")

    def not_found(self) -> int:
        """Look-ups of the present chain that found nothing; a guess stands for something found."""
        observed = [branch.observation for branch in self.window if branch.guess is None]
        missing = sum(not hop.observation.found for hop in self.committed)
        return missing + sum(seen is not None and not seen.found for seen in observed)

    def end(self) -> None:
        self.abort(0)
        # The question may have been cancelled in this very turn of the loop.
        if not self.over.done():
            self.over.set_result(None)

    def abort(self, depth: int) -> None:
        """Rolls back every branch from this depth on: their work is cancelled."""
        while len(self.window) > depth:
            for task in self.window.pop().tasks.values():
                task.cancel()


async def ask(tools, question, k, hops_max, not_found_max=1, limits=LIMITS_S):
    """Answers one question: the answer, and its committed hops. Leaves no task behind (law 9)."""
    async with asyncio.TaskGroup() as group:
        run = Run(tools, question, k, hops_max, not_found_max, limits, group)
        run.push(None, None)
        await run.over
    if run.error is not None:
        raise run.error
    return run.answer, run.committed


def accepts(observed: str, guess: str) -> bool:
    """The exact verifier: the same text, which says something."""
    observed, guess = observed.strip(), guess.strip()
    return observed == guess and observed != "" and not observed.casefold().startswith(REFUSALS)


def same(one: str, other: str) -> bool:
    return one == other or one.casefold().split() == other.casefold().split()


@dataclass
class Scripted:
    """Tools that play a script, as spechop-testkit does: a sub-question holds the answer of the hop
    before, so that a wrong guess leads astray. `turns` of the event loop are their latency."""

    asks: list
    answers: list  # An empty one is not found.
    guesses: list
    turns: list  # (segment, target, speculation) by hop, one more for the final segment
    failures: dict = field(default_factory=dict)  # (hop, stage): how often it fails first
    hang: bool = False  # Look-ups never return.

    async def play(self, hop: int, stage: int) -> None:
        for _ in range(self.turns[hop][stage]):
            await asyncio.sleep(0)
        if self.failures and self.failures.get((hop, stage), 0) > 0:
            self.failures[hop, stage] -= 1
            raise StageFailed(f"stage {stage} of hop {hop}: so it is written")

    async def plan(self, question, prefix, must_answer):
        known = prefix[-1][1] if prefix else "nothing"
        at = len(self.asks) if must_answer else len(prefix)
        await self.play(at, 0)
        if at < len(self.asks):
            return Ask(f"{self.asks[at]} {known}?")
        return Answer(f"so {known}")

    async def retrieve(self, query, limit):
        if self.hang:
            await asyncio.get_running_loop().create_future()
        await self.play(self.find(query), 1)
        return [
            (f"p{n}-{query}", f"Title {n}", f"Text {n} about {query}", 1 / (1 + n))
            for n in range(min(limit, 3))
        ]

    async def read(self, sub_question, passages):
        at = self.find(sub_question)
        before = self.answers[at - 1] if at else "nothing"
        if before and sub_question != f"{self.asks[at]} {before}?":
            return f"{self.answers[at]} astray"
        return self.answers[at] or None

    async def guess(self, question, prefix, sub_question):
        at = self.find(sub_question)
        await self.play(at, 2)
        return self.guesses[at]

    def find(self, sub_question: str) -> int:
        return next(at for at, ask in enumerate(self.asks) if sub_question.startswith(ask))


def instant(hops: int, target_turns: int = 0) -> Scripted:
    facts = [f"fact {at}" for at in range(hops)]
    asks = [f"q{at} after" for at in range(hops)]
    return Scripted(asks, facts, facts, [(0, target_turns, 0)] * hops + [(0, 0, 0)])


def drawn(seed: int) -> Scripted:
    """One to six hops; wrong, missing and failing guesses, look-ups that find nothing."""
    rng = random.Random(seed)
    tools = instant(rng.randint(1, 6))
    hops = range(len(tools.asks))
    tools.answers = [rng.choice([answer] * 9 + [""]) for answer in tools.answers]
    guess = [lambda at: tools.answers[at] or None, lambda at: f"fiction {at}", lambda at: None]
    tools.guesses = [rng.choices(guess, [5, 4, 1])[0](at) for at in hops]
    tools.turns = [[rng.randint(0, most) for most in (4, 30, 8)] for _ in [*hops, None]]
    tools.failures = {(at, 2): 1 for at in hops if rng.random() < 0.1}
    return tools


async def check() -> int:
    """Laws 6, 8 and 9 on random questions, law 1 by an assertion; returns how many."""
    seeds = 2000
    for seed in range(seeds):
        alone, committed = await ask(drawn(seed), "?", 1, 6)
        hops = [(hop.sub_question, hop.answer) for hop in committed]
        for k in (2, 3, 4, 64):
            tools = drawn(seed)
            if k == 64 and seed % 3 == 0:
                fail_once_while_speculative(tools, random.Random(seed))
            answer, committed = await ask(tools, "?", k, 6)
            trajectory = [(hop.sub_question, hop.answer) for hop in committed]
            assert (answer, trajectory) == (alone, hops), f"seed {seed}, k {k}"
            assert len(asyncio.all_tasks()) == 1, f"seed {seed}, k {k}: tasks are left"
        cancelled = asyncio.create_task(ask(drawn(seed), "?", 4, 6))
        for _ in range(seed % 50):
            await asyncio.sleep(0)
        cancelled.cancel()
        [outcome] = await asyncio.gather(cancelled, return_exceptions=True)
        assert not isinstance(outcome, Exception), f"seed {seed}, cancelled: {outcome!r}"
        assert len(asyncio.all_tasks()) == 1, f"seed {seed}, cancelled: tasks are left"
    return seeds


def fail_once_while_speculative(tools: Scripted, rng: random.Random) -> None:
    """A planner's or look-up's first call fails, and must be tried again (law 6). It is speculative
    for sure: the window is wide, and before it lie quick right guesses and slow look-ups."""
    at = rng.randrange(len(tools.asks))
    if at == 0 or not all(tools.answers[:at]):
        return
    for before in range(at):
        tools.guesses[before] = tools.answers[before]
        tools.turns[before] = [0, 100, 0]
        tools.failures.pop((before, 2), None)
    tools.failures[at, rng.choice([0, 1])] = 1


async def measure(args: argparse.Namespace) -> dict:
    tools = instant(args.hops, args.target_turns)
    limits = None if args.no_limits else LIMITS_S
    question = "Who is the mother of the director?"

    async def batch(questions: int) -> float:
        start = time.perf_counter()
        for _ in range(questions):
            await ask(tools, question, args.k, args.hops, limits=limits)
        return (time.perf_counter() - start) / questions

    _, committed = await ask(tools, question, args.k, args.hops, limits=limits)
    assert len(committed) == args.hops
    await batch(args.batch * 5)
    costs, end = [], time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        costs.append(await batch(args.batch))
    return {
        "us_per_hop": round(statistics.median(costs) * 1e6 / args.hops, 3),
        "questions": len(costs) * args.batch,
        "bytes_in_flight": await bytes_in_flight(args, limits),
        "k": args.k,
        "hops": args.hops,
        "guesses_accepted": sum(hop.accepted for hop in committed),
        "target_turns": args.target_turns,
        "limits": not args.no_limits,
        "python": platform.python_version(),
    }


async def bytes_in_flight(args: argparse.Namespace, limits: dict | None) -> int:
    """Memory of a question whose look-ups hang, its window full: the mean over many of them."""
    tools = instant(args.hops)
    tools.hang = True
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    questions = [
        asyncio.create_task(ask(tools, f"Question {n}?", args.k, args.hops, limits=limits))
        for n in range(HANGING)
    ]
    for _ in range(10 * args.k):
        await asyncio.sleep(0)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    for question in questions:
        question.cancel()
    await asyncio.gather(*questions, return_exceptions=True)
    return (after - before) // HANGING


def main() -> None:
    args = arguments()
    if args.check:
        print(json.dumps({"checked": asyncio.run(check())}))
    else:
        print(json.dumps(asyncio.run(measure(args))))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--k", type=int, default=4)
    parser.add_argument("--hops", type=int, default=6)
    parser.add_argument("--target-turns", type=int, default=0)
    parser.add_argument("--no-limits", action="store_true")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long to measure")
    parser.add_argument("--batch", type=int, default=50, help="questions timed together")
    parser.add_argument("--check", action="store_true", help="check the laws instead")
    return parser.parse_args()


if __name__ == "__main__":
    main()
