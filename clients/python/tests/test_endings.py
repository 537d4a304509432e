"""Questions that their client leaves, and those that are asked again under a name that was used before."""

import asyncio
import signal
import threading
import time
import unittest
import unittest.mock
from collections.abc import Iterator
from contextlib import aclosing
from types import FrameType
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import BadRequest, RetryInfo
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status
from stand_ins import entered, events_of, serve

from spechop import AsyncSpecHop, SpecHop, SpecHopError
from spechop.v1 import spechop_pb2 as wire

QUESTION = "What comes of it?"
# Seconds within which a server hears that its client has left, however busy the machine is.
SOON = 10


def refusal(code: grpc.StatusCode, detail: Any) -> Any:
    """What a server says together with its reason."""
    status = Status(code=code.value[0], message="no", details=[AnyMessage()])
    status.details[0].Pack(detail)
    return rpc_status.to_status(status)


OPEN = BadRequest.FieldViolation(field="question_id", description="is the name of another question that is still open")
TAKEN = refusal(grpc.StatusCode.INVALID_ARGUMENT, BadRequest(field_violations=[OPEN]))
TOO_FAST = refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, RetryInfo(retry_delay=Duration(nanos=100_000_000)))
LOST = refusal(grpc.StatusCode.UNAVAILABLE, BadRequest())


class NamedTwice(unittest.IsolatedAsyncioTestCase):
    """A question whose name the caller has used before, and whose connection breaks before anything is heard."""

    def server(self, refusals: list[Any], known: str) -> tuple[str, list[str]]:
        """The address of a server that refuses those who ask so, one after the other, and has a question of the name
        with that answer; and what was called."""
        calls: list[str] = []
        left = iter(refusals)

        def ask(request: wire.AskRequest, context: grpc.ServicerContext) -> Iterator[wire.AskEvent]:
            calls.append("ask")
            for refused in left:
                context.abort_with_status(refused)
            yield wire.AskEvent(sequence=1, answer=wire.AskResponse(answer="asked now"))

        def resume(request: wire.ResumeRequest, context: grpc.ServicerContext) -> Iterator[wire.AskEvent]:
            calls.append("resume")
            yield wire.AskEvent(sequence=1, answer=wire.AskResponse(answer=known))

        server, address = serve(events_of(ask, resume))
        self.addCleanup(server.stop, None)
        return address, calls

    async def check(self, refusals: list[Any], known: str, calls: list[str], answer: str) -> None:
        address, called = self.server(refusals, known)
        with SpecHop(address) as client:
            *_, last = client.stream(QUESTION, question_id="twice", linger_ms=20_000)
        self.assertEqual((called, last.answer.answer), (calls, answer))
        address, called = self.server(refusals, known)
        async with AsyncSpecHop(address) as other:
            *_, last = [event async for event in other.stream(QUESTION, question_id="twice", linger_ms=20_000)]
        self.assertEqual((called, last.answer.answer), (calls, answer))

    async def test_an_earlier_answer_is_not_told_as_that_of_a_new_question(self) -> None:
        await self.check([LOST], "asked before", ["ask", "ask"], "asked now")

    async def test_a_question_that_had_arrived_after_all_is_resumed(self) -> None:
        await self.check([LOST, TAKEN], "asked now", ["ask", "ask", "resume"], "asked now")

    async def test_who_asks_again_too_fast_waits_since_the_question_may_have_arrived(self) -> None:
        await self.check([LOST, TOO_FAST, TAKEN], "asked now", ["ask", "ask", "ask", "resume"], "asked now")

    async def test_a_name_that_is_taken_at_first_is_not_this_questions(self) -> None:
        address, called = self.server([TAKEN, TAKEN], "asked before")
        with SpecHop(address) as client, self.assertRaises(SpecHopError):
            list(client.stream(QUESTION, question_id="twice", linger_ms=20_000))
        async with AsyncSpecHop(address) as other:
            with self.assertRaises(SpecHopError):
                [event async for event in other.stream(QUESTION, question_id="twice", linger_ms=20_000)]
        self.assertEqual(called, ["ask", "ask"], "once each")


class Interrupted(BaseException):
    """Somebody has pressed Ctrl-C."""


def interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted


class Left(unittest.IsolatedAsyncioTestCase):
    """Questions that their client leaves while it stays open."""

    def server(self) -> tuple[str, threading.Event]:
        """The address of a server that tells nothing behind the first event, and interrupts whoever waits for an
        answer alone; and whether its one call has ended."""
        ended = threading.Event()

        def stream(request: Any, context: grpc.ServicerContext) -> Iterator[wire.AskEvent]:
            # Before the client hears anything: of what is over nobody is told.
            context.add_callback(ended.set)
            context.send_initial_metadata((("spechop-question-id", request.question_id),))
            yield wire.AskEvent(sequence=1, launched=wire.Launched())
            ended.wait(60)

        def respond(request: Any, context: grpc.ServicerContext) -> wire.AskResponse:
            context.add_callback(ended.set)
            # Nothing tells when the client has begun to wait.
            time.sleep(0.5)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)
            ended.wait(60)
            return wire.AskResponse()

        write = wire.AskResponse.SerializeToString
        ask = grpc.unary_unary_rpc_method_handler(respond, wire.AskRequest.FromString, write)
        get_answer = grpc.unary_unary_rpc_method_handler(respond, wire.GetAnswerRequest.FromString, write)
        server, address = serve({**events_of(stream, stream), "Ask": ask, "GetAnswer": get_answer})
        self.addCleanup(server.stop, None)
        return address, ended

    def hold(self, client: Any, method: str) -> list[Any]:
        """The calls that the client will make. Garbage collection ends a call, too, but only if nobody holds it."""
        calls: list[Any] = []
        real = getattr(client, method)

        def called(*args: Any, **kwargs: Any) -> Any:
            calls.append(real(*args, **kwargs))
            return calls[-1]

        entered(self, unittest.mock.patch.object(client, method, called))
        return calls

    def test_a_closed_stream_ends(self) -> None:
        address, ended = self.server()
        with SpecHop(address) as client:
            calls = self.hold(client, "_ask_stream")
            stream = client.stream(QUESTION, question_id="left")
            self.assertEqual(next(stream).sequence, 1)
            self.assertFalse(ended.is_set())
            stream.close()
            self.assertTrue(ended.wait(SOON))
        self.assertEqual(len(calls), 1)

    async def test_so_it_does_with_asyncio(self) -> None:
        address, ended = self.server()
        async with AsyncSpecHop(address) as client:
            calls = self.hold(client, "_ask_stream")
            async with aclosing(client.stream(QUESTION, question_id="left")) as stream:
                self.assertEqual((await anext(stream)).sequence, 1)
                self.assertFalse(ended.is_set())
            self.assertTrue(await asyncio.to_thread(ended.wait, SOON))
        self.assertEqual(len(calls), 1)

    def test_an_interrupted_call_ends(self) -> None:
        before = signal.signal(signal.SIGALRM, interrupt)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        for method in ("ask", "get_answer"):
            address, ended = self.server()
            # Whoever keeps an error holds all that it went through.
            kept: list[Interrupted] = []
            with self.subTest(method), SpecHop(address) as client:
                try:
                    getattr(client, method)(QUESTION)
                except Interrupted as error:
                    kept.append(error)
                self.assertEqual(len(kept), 1)
                self.assertTrue(ended.wait(SOON))


if __name__ == "__main__":
    unittest.main()
