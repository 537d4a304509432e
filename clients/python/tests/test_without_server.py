"""The client without a real server: what it refuses, and what it does if a connection breaks or is closed."""

import asyncio
import math
import os
import pathlib
import pickle
import socket
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status
from stand_ins import Line, QuietServer, entered, events_of, serve

import spechop
from spechop import AsyncSpecHop, FieldError, SpecHop, SpecHopError, Tls, _channel
from spechop._channel import Patience
from spechop.v1 import spechop_pb2 as wire

QUESTION = "What comes of it?"


def too_fast(retry_after: Duration) -> Status:
    """A refusal that says when to come back."""
    refusal = Status(code=grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], message="too fast", details=[AnyMessage()])
    refusal.details[0].Pack(RetryInfo(retry_delay=retry_after))
    return refusal


def refusing(test: unittest.TestCase, retry_after: Duration, has_refused: threading.Event | None = None) -> str:
    """The address of a server that loses whoever asks, and refuses whoever comes back for the first time."""
    refusals = iter([too_fast(retry_after)])

    def ask(request: wire.AskRequest, context: grpc.ServicerContext) -> Iterator[wire.AskEvent]:
        context.send_initial_metadata((("spechop-question-id", request.question_id),))
        yield wire.AskEvent(sequence=1, launched=wire.Launched())
        context.abort(grpc.StatusCode.UNAVAILABLE, "lost")

    def resume(request: wire.ResumeRequest, context: grpc.ServicerContext) -> Iterator[wire.AskEvent]:
        for refusal in refusals:
            if has_refused is not None:
                has_refused.set()
            context.abort_with_status(rpc_status.to_status(refusal))
        yield wire.AskEvent(sequence=2, answer=wire.AskResponse(answer="so fact 1"))

    server, address = serve(events_of(ask, resume))
    test.addCleanup(server.stop, None)
    return address


def unknown(request: wire.ResumeRequest, context: grpc.ServicerContext) -> Iterator[wire.AskEvent]:
    """Of no question anything is known."""
    context.abort(grpc.StatusCode.NOT_FOUND, "no such question")
    yield wire.AskEvent()


def restarted(test: unittest.TestCase) -> str:
    """The address of a server that restarts while it is asked, knows no question then, and is full at once."""
    losses = iter(["lost"])

    def ask(request: wire.AskRequest, context: grpc.ServicerContext) -> Iterator[wire.AskEvent]:
        for loss in losses:
            context.abort(grpc.StatusCode.UNAVAILABLE, loss)
        context.abort_with_status(rpc_status.to_status(too_fast(Duration(seconds=1))))
        yield wire.AskEvent()

    server, address = serve(events_of(ask, unknown))
    test.addCleanup(server.stop, None)
    return address


def forgetting(test: unittest.TestCase) -> tuple[str, list[str]]:
    """The address of a server that takes a question, loses its client and forgets it; and what it was asked."""
    asked: list[str] = []

    def ask(request: wire.AskRequest, context: grpc.ServicerContext) -> Iterator[wire.AskEvent]:
        asked.append(request.question)
        context.send_initial_metadata((("spechop-question-id", request.question_id),))
        # What comes together with an error may be lost by it.
        time.sleep(1)
        context.abort(grpc.StatusCode.UNAVAILABLE, "lost")
        yield wire.AskEvent()

    server, address = serve(events_of(ask, unknown))
    test.addCleanup(server.stop, None)
    return address, asked


def ending_badly(test: unittest.TestCase) -> str:
    """The address of a server whose line breaks right behind the answer, which it would tell again."""

    def ask(request: wire.AskRequest, context: grpc.ServicerContext) -> Iterator[wire.AskEvent]:
        context.send_initial_metadata((("spechop-question-id", request.question_id),))
        yield wire.AskEvent(sequence=1, answer=wire.AskResponse(answer="so fact 1"))
        time.sleep(1)
        context.abort(grpc.StatusCode.UNAVAILABLE, "lost")

    def resume(request: wire.ResumeRequest, context: grpc.ServicerContext) -> Iterator[wire.AskEvent]:
        yield wire.AskEvent(sequence=1, answer=wire.AskResponse(answer="so fact 1"))

    server, address = serve(events_of(ask, resume))
    test.addCleanup(server.stop, None)
    return address


class LostConnections(unittest.IsolatedAsyncioTestCase):
    def line(self, look_up: float) -> tuple[QuietServer, Line]:
        server = QuietServer(look_up)
        self.addCleanup(server.close)
        line = Line(None, server.address)
        self.addCleanup(line.close)
        return server, line

    def quiet(self) -> tuple[QuietServer, Line]:
        """A line that is cut twice while nothing is told, the second time when the question has lost its client for
        longer than it lingers, had nobody come back."""
        server, line = self.line(8)

        def cuts() -> None:
            # However long a busy machine takes to ask.
            server.asked.wait(60)
            for pause in (0.3, 4):
                time.sleep(pause)
                line.cut()

        threading.Thread(target=cuts, daemon=True).start()
        return server, line

    def check_quiet(self, server: QuietServer, line: Line, events: list[spechop.AskEvent]) -> None:
        self.assertEqual((line.cuts, server.resumed), (2, 2))
        self.assertEqual([event.sequence for event in events], [1, 2, 3])
        self.assertEqual(events[-1].answer.answer, "so fact 1")

    def test_whoever_has_come_back_is_not_lost_though_nothing_is_told(self) -> None:
        server, line = self.quiet()
        with SpecHop(line.address) as client:
            events = list(client.stream(QUESTION, linger_ms=3000, timeout=60))
        self.check_quiet(server, line, events)

    async def test_nor_is_it_with_asyncio(self) -> None:
        server, line = self.quiet()
        async with AsyncSpecHop(line.address) as client:
            events = [event async for event in client.stream(QUESTION, linger_ms=3000, timeout=60)]
        self.check_quiet(server, line, events)

    def test_a_server_that_is_back_is_found_in_time(self) -> None:
        _, line = self.line(2)
        with SpecHop(line.address) as client:
            stream = client.stream(QUESTION, linger_ms=10_500, timeout=60)
            events = [next(stream)]
            # By the pauses that gRPC would make, the sixth try comes after 12.6 s at the earliest.
            line.refusals = 5
            line.cut()
            events += stream
        self.assertEqual([event.sequence for event in events], [1, 2, 3])

    def test_a_line_that_dies_silently_is_noticed(self) -> None:
        _, line = self.line(60)
        hasty = tuple((name, value // 50 if name.endswith("_ms") else value) for name, value in _channel.OPTIONS)
        entered(self, unittest.mock.patch.object(_channel, "OPTIONS", hasty))
        with SpecHop(line.address) as client:
            stream = client.stream(QUESTION, timeout=20)
            next(stream)
            # Two pings are always sent in time.
            time.sleep(1.5)
            line.is_dead = True
            with self.assertRaises(SpecHopError) as caught:
                next(stream)
        self.assertEqual(caught.exception.code, grpc.StatusCode.UNAVAILABLE)

    def test_who_comes_back_too_fast_waits_as_long_as_told(self) -> None:
        begun = time.monotonic()
        with SpecHop(refusing(self, Duration(nanos=500_000_000))) as client:
            events = list(client.stream(QUESTION, linger_ms=20_000))
        self.assertEqual([event.sequence for event in events], [1, 2])
        self.assertGreater(time.monotonic() - begun, 0.5)

    async def test_so_it_does_with_asyncio(self) -> None:
        begun = time.monotonic()
        async with AsyncSpecHop(refusing(self, Duration(nanos=500_000_000))) as client:
            events = [event async for event in client.stream(QUESTION, linger_ms=20_000)]
        self.assertEqual([event.sequence for event in events], [1, 2])
        self.assertGreater(time.monotonic() - begun, 0.5)

    def test_a_question_that_is_asked_anew_can_be_refused(self) -> None:
        with SpecHop(restarted(self)) as client, self.assertRaises(SpecHopError) as caught:
            list(client.stream(QUESTION, linger_ms=20_000))
        error = caught.exception
        self.assertEqual((error.code, error.retry_after), (grpc.StatusCode.RESOURCE_EXHAUSTED, 1))

    async def test_so_it_can_with_asyncio(self) -> None:
        async with AsyncSpecHop(restarted(self)) as client:
            with self.assertRaises(SpecHopError) as caught:
                [event async for event in client.stream(QUESTION, linger_ms=20_000)]
        error = caught.exception
        self.assertEqual((error.code, error.retry_after), (grpc.StatusCode.RESOURCE_EXHAUSTED, 1))

    async def test_a_question_that_the_server_took_is_not_asked_again(self) -> None:
        address, asked = forgetting(self)
        with SpecHop(address) as client, self.assertRaises(SpecHopError) as caught:
            list(client.stream(QUESTION, question_id="x", linger_ms=20_000))
        self.assertEqual(caught.exception.code, grpc.StatusCode.NOT_FOUND)
        async with AsyncSpecHop(address) as client:
            with self.assertRaises(SpecHopError) as caught:
                [event async for event in client.stream(QUESTION, question_id="y", linger_ms=20_000)]
        self.assertEqual(caught.exception.code, grpc.StatusCode.NOT_FOUND)
        self.assertEqual(asked, [QUESTION, QUESTION], "once each")

    async def test_behind_the_answer_nothing_can_go_wrong(self) -> None:
        address = ending_badly(self)
        with SpecHop(address) as client:
            self.assertEqual([event.sequence for event in client.stream(QUESTION, linger_ms=20_000)], [1])
            self.assertEqual([event.sequence for event in client.stream(QUESTION)], [1])
        async with AsyncSpecHop(address) as client:
            self.assertEqual([event.sequence async for event in client.stream(QUESTION, linger_ms=20_000)], [1])

    def test_no_pause_lasts_longer_than_the_question(self) -> None:
        now = 100.0
        entered(self, unittest.mock.patch("time.monotonic", lambda: now))
        entered(self, unittest.mock.patch("random.uniform", lambda low, high: high))
        patience = Patience(10_000, None)
        failed = SpecHopError(grpc.StatusCode.UNAVAILABLE, "", retry_after=0.1)
        while (pause := patience.pause(failed)) is not None:
            now += pause
        self.assertAlmostEqual(now, 110)

    def test_nobody_waits_for_a_question_that_will_be_gone(self) -> None:
        with SpecHop(refusing(self, Duration(seconds=30))) as client, self.assertRaises(SpecHopError) as caught:
            list(client.stream(QUESTION, linger_ms=20_000))
        self.assertEqual(caught.exception.code, grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertEqual((caught.exception.retry_after, caught.exception.sequence), (30, 1))


class Closed(unittest.IsolatedAsyncioTestCase):
    def silent(self) -> str:
        """The address of a server that never says anything."""
        server = entered(self, socket.create_server(("127.0.0.1", 0)))
        return f"127.0.0.1:{server.getsockname()[1]}"

    async def stream(self, client: AsyncSpecHop) -> None:
        async with aclosing(client.stream(QUESTION, question_id="closed")) as events:
            async for event in events:
                self.assertEqual(event.sequence, 1)

    async def ask(self, client: AsyncSpecHop) -> None:
        await client.ask(QUESTION, question_id="closed")

    async def test_open_questions_end_with_an_error_of_their_own(self) -> None:
        quiet = QuietServer(60)
        self.addCleanup(quiet.close)
        for address, call in ((quiet.address, self.stream), (self.silent(), self.stream), (self.silent(), self.ask)):
            client = AsyncSpecHop(address)
            task = asyncio.create_task(call(client))
            await asyncio.sleep(0.5)
            await client.close()
            with self.subTest(address), self.assertRaises(SpecHopError) as caught:
                await asyncio.wait_for(task, 50)
            error = caught.exception
            self.assertEqual((error.code, error.question_id), (grpc.StatusCode.CANCELLED, "closed"))

    def test_so_does_one_that_waits_to_be_followed_again(self) -> None:
        has_refused = threading.Event()
        client = SpecHop(refusing(self, Duration(seconds=30), has_refused))

        def close() -> None:
            # However long a busy machine takes to ask, and then to wait.
            has_refused.wait(60)
            time.sleep(0.5)
            client.close()

        threading.Thread(target=close, daemon=True).start()
        with self.assertRaises(SpecHopError) as caught:
            list(client.stream(QUESTION, linger_ms=60_000))
        self.assertEqual((caught.exception.code, caught.exception.sequence), (grpc.StatusCode.CANCELLED, 1))

    async def test_and_with_asyncio(self) -> None:
        has_refused = threading.Event()
        client = AsyncSpecHop(refusing(self, Duration(seconds=30), has_refused))

        async def close() -> None:
            await asyncio.to_thread(has_refused.wait, 60)
            await asyncio.sleep(0.5)
            await client.close()

        closing = asyncio.create_task(close())
        with self.assertRaises(SpecHopError) as caught:
            [event async for event in client.stream(QUESTION, linger_ms=60_000)]
        await closing
        self.assertEqual((caught.exception.code, caught.exception.sequence), (grpc.StatusCode.CANCELLED, 1))

    def check_closed(self, caught: Any) -> None:
        error = caught.exception
        self.assertEqual((error.code, error.question_id), (grpc.StatusCode.CANCELLED, "closed"))

    def test_a_closed_client_says_so(self) -> None:
        client = SpecHop("127.0.0.1:9")
        client.close()
        for call in (
            lambda: client.ask(QUESTION, question_id="closed"),
            lambda: next(client.stream(QUESTION, question_id="closed")),
            lambda: next(client.resume("closed")),
            lambda: client.get_answer("closed"),
            lambda: client.cancel("closed"),
            lambda: client.finish_now("closed"),
        ):
            with self.assertRaises(SpecHopError) as caught:
                call()
            self.check_closed(caught)

    async def test_so_it_does_with_asyncio(self) -> None:
        client = AsyncSpecHop("127.0.0.1:9")
        await client.close()
        for call in (
            client.ask(QUESTION, question_id="closed"),
            anext(client.stream(QUESTION, question_id="closed")),
            anext(client.resume("closed")),
            client.get_answer("closed"),
            client.cancel("closed"),
            client.finish_now("closed"),
        ):
            with self.assertRaises(SpecHopError) as caught:
                await call
            self.check_closed(caught)

    @unittest.skipIf(sys.version_info < (3, 11), "Python 3.10 does not tell who has cancelled a task")
    async def test_a_cancelled_task_is_cancelled(self) -> None:
        client = AsyncSpecHop(self.silent())
        tasks = [asyncio.create_task(call(client)) for call in (self.stream, self.ask)]
        await asyncio.sleep(0.5)
        for task in tasks:
            task.cancel()
        await client.close()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        self.assertEqual([type(end) for end in ends], [asyncio.CancelledError] * 2)


class WithoutServer(unittest.IsolatedAsyncioTestCase):
    def test_mistakes_are_told_before_anything_is_sent(self) -> None:
        client = SpecHop("127.0.0.1:9")
        for options, error in (
            ({"k": 1.5}, ValueError),
            ({"k": True}, ValueError),
            ({"k": "two"}, ValueError),
            ({"k": -math.inf}, ValueError),
            ({"k": 10**400}, ValueError),
            ({"verifier": "ours"}, ValueError),
            ({"effort": "some"}, ValueError),
            ({"hops": 3}, TypeError),
        ):
            with self.subTest(options), self.assertRaises(error):
                client.ask(QUESTION, **options)

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
        self.assertNotIn("secret", repr(Tls(certificate=b"", key=b"secret")))

    def test_a_key_that_cannot_be_sent_is_refused_and_not_shown(self) -> None:
        with SpecHop("127.0.0.1:9", key="secret\n", tenant=" a\n") as client:
            self.assertEqual(client._metadata, (("authorization", "Bearer secret"), ("spechop-tenant", "a")))
        for text in ("se\ncret", "secret\0", "schlüssel-secret"):
            for made in (
                lambda: SpecHop("127.0.0.1:9", key=text),
                lambda: SpecHop("127.0.0.1:9", tenant=text),
                lambda: AsyncSpecHop("127.0.0.1:9", key=text),
            ):
                with self.subTest(text), self.assertRaises(ValueError) as caught:
                    made()
                self.assertNotIn("cret", str(caught.exception))

    def test_half_of_a_client_certificate_is_refused(self) -> None:
        for half in ({"certificate": b"x"}, {"key": b"x"}):
            with self.subTest(half), self.assertRaises(ValueError):
                Tls(**half)

    def test_the_machine_says_whom_to_trust(self) -> None:
        folder = entered(self, tempfile.TemporaryDirectory())
        named, system, python, empty = (os.path.join(folder, name) for name in ("named", "system", "python", "empty"))
        for file in (named, system, python, empty):
            pathlib.Path(file).write_text(os.path.basename(file) if file != empty else "")
        entered(self, unittest.mock.patch.dict(os.environ))
        os.environ.pop("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", None)
        paths = unittest.mock.Mock(cafile=python)
        entered(self, unittest.mock.patch("ssl.get_default_verify_paths", return_value=paths))
        entered(self, unittest.mock.patch.object(_channel, "AUTHORITIES", (empty, system)))
        made = entered(self, unittest.mock.patch("grpc.ssl_channel_credentials"))
        # A folder cannot be read.
        for file in (named, empty, folder):
            os.environ["SSL_CERT_FILE"] = file
            Tls().credentials()
        os.remove(system)
        Tls().credentials()
        paths.cafile = None
        Tls().credentials()
        Tls(ca=b"theirs").credentials()
        os.environ["SSL_CERT_FILE"] = named
        os.environ["GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"] = "of gRPC"
        Tls().credentials()
        trusted = [b"named", b"system", b"system", b"python", None, b"theirs", None]
        self.assertEqual([call.args[0] for call in made.call_args_list], trusted)

    async def test_an_error_names_its_question(self) -> None:
        # Nothing listens on port 9.
        client, other = entered(self, SpecHop("127.0.0.1:9")), AsyncSpecHop("127.0.0.1:9")
        self.addAsyncCleanup(other.close)
        for call in (
            lambda: client.ask(QUESTION, question_id="mine"),
            lambda: client.get_answer("mine"),
            lambda: client.cancel("mine"),
            lambda: client.finish_now("mine"),
        ):
            with self.assertRaises(SpecHopError) as caught:
                call()
            self.assertEqual(caught.exception.question_id, "mine")
        for coroutine in (
            other.ask(QUESTION, question_id="mine"),
            other.get_answer("mine"),
            other.cancel("mine"),
            other.finish_now("mine"),
        ):
            with self.assertRaises(SpecHopError) as caught:
                await coroutine
            self.assertEqual(caught.exception.question_id, "mine")
        # Whoever lets it linger must know what to ask for.
        with self.assertRaises(SpecHopError) as caught:
            client.ask(QUESTION, linger_ms=1000)
        self.assertNotEqual(caught.exception.question_id, "")

    def test_an_error_can_be_pickled(self) -> None:
        fields = (FieldError("question", "must not be empty"),)
        error = SpecHopError(grpc.StatusCode.UNAVAILABLE, "gone", fields, 1.5, "mine", 3)
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((str(again), vars(again)), (str(error), vars(error)))

    def test_details_that_cannot_be_read_are_left_out(self) -> None:
        endless = Status(code=grpc.StatusCode.UNAVAILABLE.value[0], message="no", details=[AnyMessage()])
        endless.details[0].Pack(RetryInfo(retry_delay=Duration(seconds=2**62)))
        for details in (b"\xff\xff", endless.SerializeToString()):

            def ask(request: wire.AskRequest, context: grpc.ServicerContext) -> wire.AskResponse:
                context.set_trailing_metadata((("grpc-status-details-bin", details),))
                context.abort(grpc.StatusCode.UNAVAILABLE, "no")

            read, write = wire.AskRequest.FromString, wire.AskResponse.SerializeToString
            server, address = serve({"Ask": grpc.unary_unary_rpc_method_handler(ask, read, write)})
            self.addCleanup(server.stop, None)
            with self.subTest(details), SpecHop(address) as client, self.assertRaises(SpecHopError) as caught:
                client.ask(QUESTION)
            self.assertEqual((caught.exception.code, caught.exception.retry_after), (grpc.StatusCode.UNAVAILABLE, None))

    def test_no_proxy_is_asked_for_this_machine(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as proxy:
            proxy.settimeout(0.5)
            # Whatever this machine's own environment says: gRPC asks these before the others.
            named = {"grpc_proxy": f"http://127.0.0.1:{proxy.getsockname()[1]}", "no_grpc_proxy": "elsewhere.example"}
            entered(self, unittest.mock.patch.dict(os.environ, named))
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


if __name__ == "__main__":
    unittest.main()
