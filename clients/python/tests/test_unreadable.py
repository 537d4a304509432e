"""Messages that the client cannot decode: those of something else than SpecHop, or of a later version."""

import time
import unittest
from collections.abc import Iterator
from typing import Any

import grpc
from stand_ins import serve

from spechop import AsyncSpecHop, SpecHop, SpecHopError
from spechop.v1 import spechop_pb2 as wire

QUESTION = "What comes of it?"
UNREADABLE = b"\xff\xff"


def as_it_is(message: bytes) -> bytes:
    return message


class Unreadable(unittest.IsolatedAsyncioTestCase):
    def server(self) -> tuple[str, list[str]]:
        """The address of a server that sends one event that can be read, and nothing else that can; and what was
        called."""
        calls: list[str] = []

        def ask(request: wire.AskRequest, context: grpc.ServicerContext) -> bytes:
            return UNREADABLE

        def stream(request: wire.AskRequest, context: grpc.ServicerContext) -> Iterator[bytes]:
            calls.append("ask")
            context.send_initial_metadata((("spechop-question-id", request.question_id),))
            yield wire.AskEvent(sequence=1, launched=wire.Launched()).SerializeToString()
            yield UNREADABLE

        def resume(request: wire.ResumeRequest, context: grpc.ServicerContext) -> Iterator[bytes]:
            calls.append("resume")
            yield UNREADABLE

        read = wire.AskRequest.FromString
        server, address = serve(
            {
                "Ask": grpc.unary_unary_rpc_method_handler(ask, read, as_it_is),
                "AskStream": grpc.unary_stream_rpc_method_handler(stream, read, as_it_is),
                "Resume": grpc.unary_stream_rpc_method_handler(resume, wire.ResumeRequest.FromString, as_it_is),
            }
        )
        self.addCleanup(server.stop, None)
        return address, calls

    def check(self, error: Any, sequence: int) -> None:
        self.assertIsInstance(error, SpecHopError)
        said = error.code, error.message, error.question_id, error.sequence
        self.assertEqual(said, (grpc.StatusCode.INTERNAL, "the server's message cannot be decoded", "q", sequence))

    async def test_an_answer_that_cannot_be_decoded_is_an_error_of_the_client(self) -> None:
        address, _ = self.server()
        with SpecHop(address) as client, self.assertRaises(SpecHopError) as caught:
            client.ask(QUESTION, question_id="q")
        self.check(caught.exception, 0)
        async with AsyncSpecHop(address) as other:
            with self.assertRaises(SpecHopError) as caught:
                await other.ask(QUESTION, question_id="q")
        self.check(caught.exception, 0)

    async def test_so_is_an_event(self) -> None:
        address, calls = self.server()
        with SpecHop(address) as client, self.assertRaises(SpecHopError) as caught:
            list(client.stream(QUESTION, question_id="q"))
        self.check(caught.exception, 1)
        async with AsyncSpecHop(address) as other:
            with self.assertRaises(SpecHopError) as caught:
                [event async for event in other.stream(QUESTION, question_id="q")]
        self.check(caught.exception, 1)
        self.assertEqual(calls, ["ask", "ask"], "once each")

    async def test_it_is_asked_for_again_no_longer_than_the_question_lingers(self) -> None:
        address, calls = self.server()
        begun = time.monotonic()
        async with AsyncSpecHop(address) as client:
            with self.assertRaises(SpecHopError) as caught:
                [event async for event in client.stream(QUESTION, question_id="q", linger_ms=1000)]
        self.check(caught.exception, 1)
        self.assertGreater(time.monotonic() - begun, 0.9)
        self.assertEqual((calls[0], set(calls[1:])), ("ask", {"resume"}))


if __name__ == "__main__":
    unittest.main()
