"""What stands in for a server, and for the network before it."""

import socket
import threading
import time
import unittest
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import Any, TypeVar

import grpc

from spechop.v1 import spechop_pb2 as wire

Entered = TypeVar("Entered")


def entered(test: unittest.TestCase, context: AbstractContextManager[Entered]) -> Entered:
    """Enters it until the test is over. Python 3.10 has no `enterContext`."""
    stack = ExitStack()
    test.addCleanup(stack.close)
    return stack.enter_context(context)


class Line:
    """A wire between client and server that can be cut."""

    def __init__(self, bytes_max: int | None, server: str) -> None:
        """The first connection ends once it has brought so many bytes from the server, if a number is given."""
        self._bytes_max = bytes_max
        self._server = server
        self._ends: list[socket.socket] = []
        self.cuts = 0
        # So many of the next connections end at once.
        self.refusals = 0
        # From then on nothing arrives, and nobody is told.
        self.is_dead = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.refusals > 0:
                self.refusals -= 1
                client.close()
                continue
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
                if self.is_dead:
                    continue
                brought += len(data)
                if limit is not None and brought > limit:
                    self.cuts += 1
                    break
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            hang_up(end)
        # Each of the two copies closes the end that it reads.
        source.close()

    def cut(self) -> None:
        """Ends every connection that there is now."""
        self.cuts += 1
        ends, self._ends = self._ends, []
        for end in ends:
            hang_up(end)

    def close(self) -> None:
        self._listener.close()


def hang_up(end: socket.socket) -> None:
    # The other side may have done so already.
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


def serve(methods: dict[str, "grpc.RpcMethodHandler[Any, Any]"]) -> tuple[grpc.Server, str]:
    """A server with these methods, and its address. It minds no pings, as SpecHop's does not."""
    server = grpc.server(ThreadPoolExecutor(8), options=(("grpc.http2.max_ping_strikes", 0),))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("spechop.v1.SpecHop", methods)])
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    return server, address


def events_of(ask: Any, resume: Any) -> dict[str, "grpc.RpcMethodHandler[Any, Any]"]:
    """The methods that bring events."""
    write = wire.AskEvent.SerializeToString
    return {
        "AskStream": grpc.unary_stream_rpc_method_handler(ask, wire.AskRequest.FromString, write),
        "Resume": grpc.unary_stream_rpc_method_handler(resume, wire.ResumeRequest.FromString, write),
    }


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
        self.asked = threading.Event()
        self.resumed = 0
        self._server, self.address = serve(events_of(self._ask, self._resume))

    def _ask(self, request: wire.AskRequest, context: grpc.ServicerContext) -> Iterator[wire.AskEvent]:
        self._begun = time.monotonic()
        self.asked.set()
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
