"""The client against a real server, whose address is in SPECHOP_ADDRESS.

The server's tools are scripted: the answer is "so fact 1" after two hops, and the first guess is right, the second
wrong. `crates/spechop-server/tests/real/python_client.rs` starts it, and packs and installs the client first.
"""

import asyncio
import math
import os
import pathlib
import sys
import threading
import unittest

import grpc
from stand_ins import Line, entered

import spechop
from spechop import AsyncSpecHop, SpecHop, SpecHopError

ADDRESS = os.environ.get("SPECHOP_ADDRESS", "")
# Of another one, whose second look-up never works.
FAILING = os.environ.get("SPECHOP_FAILING", "")
QUESTION = "What comes of it?"
ROOT = pathlib.Path(__file__).parent.parent


class Threads(unittest.TestCase):
    def setUp(self) -> None:
        self.client = entered(self, SpecHop(ADDRESS))

    def test_asks(self) -> None:
        answer = self.client.ask(QUESTION, k=3)
        self.assertEqual(answer.answer, "so fact 1")
        self.assertEqual([hop.sub_answer for hop in answer.hops], ["fact 0", "fact 1"])
        self.assertEqual(answer.applied.options.k, 3)

    def test_every_k(self) -> None:
        self.assertEqual(self.client.ask(QUESTION, k=1).applied.options.k, 1)
        applied = self.client.ask(QUESTION, k=math.inf).applied
        self.assertEqual(applied.options.WhichOneof("width"), "unbounded")
        self.assertNotEqual(self.client.ask(QUESTION, k="auto").applied.tuned.reason, "")

    def test_options_arrive(self) -> None:
        applied = self.client.ask(
            QUESTION, k=2.0, verifier="exact", hop_budget=5, top_passages=2, salvage=False, quiet=True, chance_min=0.25, effort="low"
        ).applied.options
        self.assertEqual((applied.k, applied.hop_budget, applied.top_passages), (2, 5, 2))
        self.assertEqual((applied.salvage, applied.quiet, applied.chance_min), (False, True, 0.25))
        self.assertEqual(applied.verifier, 1)

    def test_streams(self) -> None:
        events = list(self.client.stream(QUESTION, k=3))
        self.assertEqual([event.sequence for event in events], list(range(1, len(events) + 1)))
        self.assertEqual(events[-1].answer.answer, "so fact 1")
        kinds = {event.WhichOneof("event") for event in events}
        # Nothing runs ahead while no core is idle; then the stream says so instead.
        self.assertTrue(kinds & {"rolled_back", "not_speculated"}, kinds)

    def test_a_closed_stream_ends_the_question(self) -> None:
        stream = self.client.stream(QUESTION, k=3, question_id="left")
        next(stream)
        stream.close()
        # The name is free again as soon as the question is gone.
        for _ in range(500):
            try:
                self.assertEqual(self.client.ask(QUESTION, question_id="left").answer, "so fact 1")
                return
            except SpecHopError as error:
                self.assertEqual([field.field for field in error.fields], ["question_id"])
        self.fail("the question is still open")

    def test_every_wrong_field_is_told(self) -> None:
        with self.assertRaises(SpecHopError) as caught:
            self.client.ask("", k=0)
        self.assertEqual(caught.exception.code, grpc.StatusCode.INVALID_ARGUMENT)
        self.assertEqual({field.field for field in caught.exception.fields}, {"question", "options.k"})
        with self.assertRaises(SpecHopError) as caught:
            list(self.client.stream(""))
        self.assertEqual([field.field for field in caught.exception.fields], ["question"])

    def test_finish_now_of_no_question(self) -> None:
        with self.assertRaises(SpecHopError) as caught:
            self.client.finish_now("nobody")
        self.assertEqual(caught.exception.code, grpc.StatusCode.NOT_FOUND)

    def test_many_threads(self) -> None:
        answers: list[str] = []
        threads = [
            threading.Thread(target=lambda: answers.append(self.client.ask(QUESTION, k=2).answer)) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(answers, ["so fact 1"] * 8)


class LostConnections(unittest.IsolatedAsyncioTestCase):
    LIMITS = (300, 600, 1000, 1500)

    def check(self, line: Line, events: list[spechop.AskEvent]) -> None:
        self.assertEqual(line.cuts, 1)
        self.assertEqual([event.sequence for event in events], list(range(1, len(events) + 1)))
        self.assertEqual(events[-1].answer.answer, "so fact 1")

    def test_no_event_is_lost_or_told_twice(self) -> None:
        for limit in self.LIMITS:
            line = Line(limit, ADDRESS)
            self.addCleanup(line.close)
            with self.subTest(limit), SpecHop(line.address) as client:
                self.check(line, list(client.stream(QUESTION, k=3, linger_ms=20_000, timeout=60)))

    async def test_nor_with_asyncio(self) -> None:
        for limit in self.LIMITS:
            line = Line(limit, ADDRESS)
            self.addCleanup(line.close)
            async with AsyncSpecHop(line.address) as client:
                stream = client.stream(QUESTION, k=3, linger_ms=20_000, timeout=60)
                self.check(line, [event async for event in stream])

    def test_without_lingering_the_stream_ends(self) -> None:
        line = Line(600, ADDRESS)
        self.addCleanup(line.close)
        with SpecHop(line.address) as client, self.assertRaises(SpecHopError) as caught:
            list(client.stream(QUESTION, k=3))
        self.assertEqual(caught.exception.code, grpc.StatusCode.UNAVAILABLE)

    def test_a_question_is_followed_and_its_answer_fetched(self) -> None:
        with SpecHop(ADDRESS) as client:
            events = list(client.stream(QUESTION, k=3, question_id="followed", linger_ms=20_000))
            again = list(client.resume("followed", after=3))
            self.assertEqual(again, events[3:])
            self.assertEqual(client.get_answer("followed").answer, "so fact 1")
            client.cancel("followed")
            for call in (client.get_answer, client.cancel, lambda name: list(client.resume(name))):
                with self.assertRaises(SpecHopError) as caught:
                    call("nobody")
                self.assertEqual(caught.exception.code, grpc.StatusCode.NOT_FOUND)


class Failed(unittest.IsolatedAsyncioTestCase):
    """A question that ends with UNAVAILABLE has not lost its connection: asking for its events again brings nothing."""

    def check(self, error: SpecHopError) -> None:
        self.assertEqual(error.code, grpc.StatusCode.UNAVAILABLE)
        self.assertIn("hop 2 got nothing from its target stage", str(error))

    def test_it_is_not_asked_for_again(self) -> None:
        with SpecHop(FAILING) as client, self.assertRaises(SpecHopError) as caught:
            client._resume = self.fail  # type: ignore[assignment]
            list(client.stream(QUESTION, k=1, linger_ms=20_000))
        self.check(caught.exception)
        self.assertGreater(caught.exception.sequence, 0)

    async def test_nor_with_asyncio(self) -> None:
        async with AsyncSpecHop(FAILING) as client:
            client._resume = self.fail  # type: ignore[assignment]
            with self.assertRaises(SpecHopError) as caught:
                [event async for event in client.stream(QUESTION, k=1, linger_ms=20_000)]
        self.check(caught.exception)


class Asyncio(unittest.IsolatedAsyncioTestCase):
    async def test_asks_and_streams(self) -> None:
        async with AsyncSpecHop(ADDRESS) as client:
            answers = await asyncio.gather(*(client.ask(QUESTION, k=k) for k in (1, 2, 3, "auto")))
            self.assertEqual({answer.answer for answer in answers}, {"so fact 1"})
            events = [event async for event in client.stream(QUESTION, k=3)]
            self.assertEqual(events[-1].answer.answer, "so fact 1")

    async def test_wrong_fields(self) -> None:
        async with AsyncSpecHop(ADDRESS) as client:
            with self.assertRaises(SpecHopError) as caught:
                await client.ask("", k=0)
            self.assertEqual({field.field for field in caught.exception.fields}, {"question", "options.k"})
            with self.assertRaises(SpecHopError):
                [event async for event in client.stream("")]


class Example(unittest.TestCase):
    def test_draws_every_branch(self) -> None:
        sys.path.insert(0, str(ROOT / "examples"))
        import timeline  # type: ignore[import-not-found]

        with SpecHop(ADDRESS) as client:
            events = list(client.stream(QUESTION + " <script>", k=3))
        picture = timeline.svg(QUESTION + " <script>", events)
        self.assertNotIn("<script>", picture)
        for branch in {event.branch for event in events if event.HasField("launched")}:
            self.assertIn(f">branch {branch}<", picture)


if __name__ == "__main__":
    unittest.main()
