"""The client against a real server, whose address is in SPECHOP_ADDRESS.

The server's tools are scripted: the answer is "so fact 1" after two hops, and the first guess is right, the second
wrong. `crates/spechop-server/tests/real/python_client.rs` starts it, and packs and installs the client first.
"""

import asyncio
import math
import os
import pathlib
import socket
import sys
import threading
import time
import unittest
import unittest.mock
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc

import spechop
from spechop import AsyncSpecHop, SpecHop, SpecHopError, Tls
from spechop.v1 import spechop_pb2 as wire

ADDRESS = os.environ.get("SPECHOP_ADDRESS", "")
# Of another one, whose second look-up never works.
FAILING = os.environ.get("SPECHOP_FAILING", "")
QUESTION = "What comes of it?"
ROOT = pathlib.Path(__file__).parent.parent


class Threads(unittest.TestCase):
    def setUp(self) -> None:
        self.client = self.enterContext(SpecHop(ADDRESS))

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


class Line:
    """A wire between client and server that can be cut."""

    def __init__(self, bytes_max: int | None, server: str = ADDRESS) -> None:
        """The first connection ends once it has brought so many bytes from the server, if a number is given."""
        self._bytes_max = bytes_max
        self._server = server
        self._ends: list[socket.socket] = []
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            host, port = self._server.rsplit(":", 1)
            server = socket.create_connection((host, int(port)))
            self._ends += client, server
            threading.Thread(target=self._copy, args=(client, server, None), daemon=True).start()
            limit = self._bytes_max if self.cuts == 0 else None
            threading.Thread(target=self._copy, args=(server, client, limit), daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket, limit: int | None) -> None:
        brought = 0
        try:
            while data := source.recv(65536):
                brought += len(data)
                if limit is not None and brought > limit:
                    self.cuts += 1
                    break
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        # Each of the two copies closes the end that it reads.
        source.close()

    def cut(self) -> None:
        """Ends every connection that there is now."""
        self.cuts += 1
        ends, self._ends = self._ends, []
        for end in ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self) -> None:
        self._listener.close()


class QuietServer:
    """Answers one question by a look-up that takes this many seconds, in which nothing is told."""

    def __init__(self, look_up: float) -> None:
        hop = wire.Hop(sub_answer="fact 1")
        self._events = (
            wire.AskEvent(sequence=1, launched=wire.Launched()),
            wire.AskEvent(sequence=2, committed=wire.Committed(hop=hop)),
            wire.AskEvent(sequence=3, answer=wire.AskResponse(answer="so fact 1", hops=[hop])),
        )
        self._look_up = look_up
        self._begun = 0.0
        self.resumed = 0
        methods = {
            "AskStream": grpc.unary_stream_rpc_method_handler(
                self._ask, wire.AskRequest.FromString, wire.AskEvent.SerializeToString
            ),
            "Resume": grpc.unary_stream_rpc_method_handler(
                self._resume, wire.ResumeRequest.FromString, wire.AskEvent.SerializeToString
            ),
        }
        self._server = grpc.server(ThreadPoolExecutor(8))
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("spechop.v1.SpecHop", methods)])
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def _ask(self, request: wire.AskRequest, context: grpc.ServicerContext) -> Iterator[wire.AskEvent]:
        self._begun = time.monotonic()
        return self._follow(request.question_id, 0, context)

    def _resume(self, request: wire.ResumeRequest, context: grpc.ServicerContext) -> Iterator[wire.AskEvent]:
        self.resumed += 1
        return self._follow(request.question_id, request.after, context)

    def _follow(self, name: str, after: int, context: grpc.ServicerContext) -> Iterator[wire.AskEvent]:
        context.send_initial_metadata((("spechop-question-id", name),))
        for event in self._events[after:]:
            while event.sequence > 1 and time.monotonic() < self._begun + self._look_up:
                if not context.is_active():
                    return
                time.sleep(0.02)
            yield event

    def close(self) -> None:
        self._server.stop(None)


class LostConnections(unittest.IsolatedAsyncioTestCase):
    LIMITS = (300, 600, 1000, 1500)

    def check(self, line: Line, events: list[spechop.AskEvent]) -> None:
        self.assertEqual(line.cuts, 1)
        self.assertEqual([event.sequence for event in events], list(range(1, len(events) + 1)))
        self.assertEqual(events[-1].answer.answer, "so fact 1")

    def test_no_event_is_lost_or_told_twice(self) -> None:
        for limit in self.LIMITS:
            line = Line(limit)
            self.addCleanup(line.close)
            with self.subTest(limit), SpecHop(line.address) as client:
                self.check(line, list(client.stream(QUESTION, k=3, linger_ms=20_000, timeout=60)))

    async def test_nor_with_asyncio(self) -> None:
        for limit in self.LIMITS:
            line = Line(limit)
            self.addCleanup(line.close)
            async with AsyncSpecHop(line.address) as client:
                stream = client.stream(QUESTION, k=3, linger_ms=20_000, timeout=60)
                self.check(line, [event async for event in stream])

    def quiet(self) -> tuple[QuietServer, Line]:
        """A line that is cut twice while nothing is told, the second time when the question has lost its client for
        longer than it lingers, had nobody come back."""
        server = QuietServer(3)
        self.addCleanup(server.close)
        line = Line(None, server.address)
        self.addCleanup(line.close)
        for after in (0.3, 2):
            cut = threading.Timer(after, line.cut)
            self.addCleanup(cut.cancel)
            cut.start()
        return server, line

    def check_quiet(self, server: QuietServer, line: Line, events: list[spechop.AskEvent]) -> None:
        self.assertEqual((line.cuts, server.resumed), (2, 2))
        self.assertEqual([event.sequence for event in events], [1, 2, 3])
        self.assertEqual(events[-1].answer.answer, "so fact 1")

    def test_whoever_has_come_back_is_not_lost_though_nothing_is_told(self) -> None:
        server, line = self.quiet()
        with SpecHop(line.address) as client:
            events = list(client.stream(QUESTION, linger_ms=1000, timeout=60))
        self.check_quiet(server, line, events)

    async def test_nor_is_it_with_asyncio(self) -> None:
        server, line = self.quiet()
        async with AsyncSpecHop(line.address) as client:
            events = [event async for event in client.stream(QUESTION, linger_ms=1000, timeout=60)]
        self.check_quiet(server, line, events)

    def test_without_lingering_the_stream_ends(self) -> None:
        line = Line(600)
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


class WithoutServer(unittest.TestCase):
    def test_mistakes_are_told_before_anything_is_sent(self) -> None:
        client = SpecHop("127.0.0.1:9")
        for options, error in (
            ({"k": 1.5}, ValueError),
            ({"k": True}, ValueError),
            ({"k": "two"}, ValueError),
            ({"verifier": "ours"}, ValueError),
            ({"effort": "some"}, ValueError),
            ({"hops": 3}, TypeError),
        ):
            with self.subTest(options), self.assertRaises(error):
                client.ask(QUESTION, **options)  # type: ignore[arg-type]

    def test_every_field_of_a_request_is_an_option(self) -> None:
        # k stands for three of them.
        others = {"question", "options", "unbounded", "auto"}
        messages = wire.AskRequest, wire.Options
        fields = {field.name for message in messages for field in message.DESCRIPTOR.fields}
        self.assertEqual(fields - others, set(spechop.Options.__annotations__))

    def test_a_key_never_travels_in_the_clear(self) -> None:
        for address in ("qa.example.org:443", "10.0.0.1:50051", "127.0.0.1.example.org:1"):
            with self.subTest(address), self.assertRaises(ValueError):
                SpecHop(address, key="secret")
        for address in ("127.0.0.1:50051", "[::1]:50051", "localhost:50051"):
            SpecHop(address, key="secret").close()
        self.assertNotIn("secret", repr(Tls(key=b"secret")))

    def test_no_proxy_is_asked_for_this_machine(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as proxy:
            proxy.settimeout(0.5)
            self.enterContext(unittest.mock.patch.dict(os.environ, http_proxy=f"http://127.0.0.1:{proxy.getsockname()[1]}"))
            # Nothing listens on port 9.
            with SpecHop("127.0.0.1:9", key="k") as client, self.assertRaises(SpecHopError):
                client.ask(QUESTION, timeout=1)
            with self.assertRaises(TimeoutError):
                proxy.accept()

    def test_nobody_there(self) -> None:
        with SpecHop("127.0.0.1:9") as client, self.assertRaises(SpecHopError) as caught:
            client.ask(QUESTION, timeout=20)
        self.assertEqual(caught.exception.code, grpc.StatusCode.UNAVAILABLE)

    def test_says_that_it_has_types(self) -> None:
        self.assertTrue((pathlib.Path(spechop.__file__).parent / "py.typed").exists())


class Example(unittest.TestCase):
    def test_draws_every_branch(self) -> None:
        sys.path.insert(0, str(ROOT / "examples"))
        import timeline

        with SpecHop(ADDRESS) as client:
            events = list(client.stream(QUESTION + " <script>", k=3))
        picture = timeline.svg(QUESTION + " <script>", events)
        self.assertNotIn("<script>", picture)
        for branch in {event.branch for event in events if event.HasField("launched")}:
            self.assertIn(f">branch {branch}<", picture)


if __name__ == "__main__":
    unittest.main()
