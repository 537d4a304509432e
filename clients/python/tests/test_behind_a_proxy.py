"""The client behind a proxy that tells in its own way that the server is gone."""

import time
import unittest
import unittest.mock
from collections.abc import Iterator

import grpc
from stand_ins import entered, events_of, serve

from spechop import AsyncSpecHop, SpecHop, SpecHopError
from spechop._channel import Patience
from spechop.v1 import spechop_pb2 as wire

QUESTION = "What comes of it?"
# What gRPC says of nginx's RST_STREAM.
RESET = "Received RST_STREAM with error code 2"
# So many streams no client makes in the half second for which a question lingers.
TOO_OFTEN = 20


class BehindAProxy(unittest.IsolatedAsyncioTestCase):
    def reset(self, code: grpc.StatusCode, *, is_named: bool = True, is_over: bool = False) -> tuple[str, list[int]]:
        """The address of a server whose first stream ends so behind the first event, and behind what events it was
        asked to resume.

        Args:
            code: with which the stream ends.
            is_named: whether the server has named the question before.
            is_over: whether it says that the question has ended.
        """
        resumed: list[int] = []

        def ask(request: wire.AskRequest, context: grpc.ServicerContext) -> Iterator[wire.AskEvent]:
            if is_named:
                context.send_initial_metadata((("spechop-question-id", request.question_id),))
            yield wire.AskEvent(sequence=1, launched=wire.Launched())
            # What comes together with an error may be lost by it.
            time.sleep(0.5)
            context.set_trailing_metadata((("spechop-ended", "1"),) if is_over else ())
            context.abort(code, RESET)

        def resume(request: wire.ResumeRequest, context: grpc.ServicerContext) -> Iterator[wire.AskEvent]:
            resumed.append(request.after)
            yield wire.AskEvent(sequence=2, answer=wire.AskResponse(answer="so fact 1"))

        server, address = serve(events_of(ask, resume))
        self.addCleanup(server.stop, None)
        return address, resumed

    async def test_a_stream_that_is_reset_is_made_again(self) -> None:
        for code in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN):
            address, resumed = self.reset(code)
            with self.subTest(code), SpecHop(address) as client:
                events = list(client.stream(QUESTION, linger_ms=20_000))
                self.assertEqual([event.sequence for event in events], [1, 2])
            async with AsyncSpecHop(address) as other:
                with self.subTest(code):
                    sequences = [event.sequence async for event in other.stream(QUESTION, linger_ms=20_000)]
                    self.assertEqual(sequences, [1, 2])
            self.assertEqual(resumed, [1, 1], "once each")

    async def test_an_error_of_the_question_or_of_no_question_is_told(self) -> None:
        code = grpc.StatusCode.INTERNAL
        for address, resumed in (self.reset(code, is_over=True), self.reset(code, is_named=False)):
            with SpecHop(address) as client, self.assertRaises(SpecHopError) as caught:
                list(client.stream(QUESTION, linger_ms=20_000))
            self.assertEqual((caught.exception.code, caught.exception.sequence), (code, 1))
            async with AsyncSpecHop(address) as other:
                with self.assertRaises(SpecHopError) as caught:
                    [event async for event in other.stream(QUESTION, linger_ms=20_000)]
            self.assertEqual((caught.exception.code, caught.exception.sequence), (code, 1))
            self.assertEqual(resumed, [])

    def reset_every_time(self) -> tuple[str, list[int]]:
        """The address of a server that has the question, and whose streams end so before their next event, and behind
        what events it was asked to resume. If it is asked too often, there is an answer."""
        resumed: list[int] = []

        def ask(request: wire.AskRequest, context: grpc.ServicerContext) -> Iterator[wire.AskEvent]:
            context.send_initial_metadata((("spechop-question-id", request.question_id),))
            yield wire.AskEvent(sequence=1, launched=wire.Launched())
            time.sleep(0.5)
            context.abort(grpc.StatusCode.INTERNAL, RESET)

        def resume(request: wire.ResumeRequest, context: grpc.ServicerContext) -> Iterator[wire.AskEvent]:
            resumed.append(request.after)
            context.send_initial_metadata((("spechop-question-id", request.question_id),))
            if len(resumed) == TOO_OFTEN:
                yield wire.AskEvent(sequence=2, answer=wire.AskResponse())
                return
            time.sleep(0.05)
            context.abort(grpc.StatusCode.INTERNAL, RESET)

        server, address = serve(events_of(ask, resume))
        self.addCleanup(server.stop, None)
        return address, resumed

    async def test_an_event_that_never_comes_whole_is_asked_for_as_long_as_the_question_lingers(self) -> None:
        code = grpc.StatusCode.INTERNAL
        address, resumed = self.reset_every_time()
        with SpecHop(address) as client, self.assertRaises(SpecHopError) as caught:
            list(client.stream(QUESTION, linger_ms=500))
        self.assertEqual((caught.exception.code, caught.exception.sequence), (code, 1))
        self.assertIn(len(resumed), range(1, TOO_OFTEN))
        address, resumed = self.reset_every_time()
        async with AsyncSpecHop(address) as other:
            with self.assertRaises(SpecHopError) as caught:
                [event async for event in other.stream(QUESTION, linger_ms=500)]
        self.assertEqual((caught.exception.code, caught.exception.sequence), (code, 1))
        self.assertIn(len(resumed), range(1, TOO_OFTEN))

    def test_a_server_that_has_the_question_is_believed_unless_a_proxy_speaks_for_it(self) -> None:
        now = 100.0
        entered(self, unittest.mock.patch("time.monotonic", lambda: now))
        for code, continues in ((grpc.StatusCode.UNAVAILABLE, True), (grpc.StatusCode.INTERNAL, False)):
            with self.subTest(code):
                patience, failed = Patience(10_000, None), SpecHopError(code, RESET)
                self.assertIsNotNone(patience.pause(failed))
                now += 11
                patience.attached()
                self.assertEqual(patience.pause(failed) is not None, continues)
                # An event shows it whatever has happened.
                patience.restored()
                self.assertIsNotNone(patience.pause(failed))


if __name__ == "__main__":
    unittest.main()
