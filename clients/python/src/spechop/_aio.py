"""The client for asyncio."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager, suppress
from types import TracebackType
from typing import Any, TypeVar

import grpc
import grpc.aio
from typing_extensions import Self, Unpack

from spechop._channel import Asking, Patience, Tls, metadata, options, question_id_of
from spechop._errors import CLOSED, UNREADABLE, SpecHopError, closed
from spechop._methods import ASK, ASK_STREAM, CANCEL, FINISH_NOW, GET_ANSWER, RESUME
from spechop._request import Options, ask_request
from spechop.v1 import spechop_pb2 as wire

Events = grpc.aio.UnaryStreamCall[Any, wire.AskEvent]
Response = TypeVar("Response")


class AsyncSpecHop:
    """A server of questions. It belongs to the event loop in which it was made."""

    def __init__(
        self,
        address: str = "127.0.0.1:50051",
        *,
        tls: Tls | None = None,
        key: str | None = None,
        tenant: str | None = None,
    ) -> None:
        """Connects at the first question.

        Args:
            address: `host:port`.
            tls: certificates; without it nothing is encrypted.
            key: the API key, if the server wants one.
            tenant: on whose behalf questions are asked, if the server takes the client's word for it.
        """
        self._metadata = metadata(address, tls, key, tenant)
        self._closed = asyncio.Event()
        self._calls: set[grpc.aio.Call] = set()
        if tls is None:
            self._channel = grpc.aio.insecure_channel(address, options(address))
        else:
            self._channel = grpc.aio.secure_channel(address, tls.credentials(), options(address))
        self._ask = self._channel.unary_unary(*ASK)
        self._ask_stream = self._channel.unary_stream(*ASK_STREAM)
        self._resume = self._channel.unary_stream(*RESUME)
        self._get_answer = self._channel.unary_unary(*GET_ANSWER)
        self._cancel = self._channel.unary_unary(*CANCEL)
        self._finish_now = self._channel.unary_unary(*FINISH_NOW)

    async def ask(self, question: str, *, timeout: float | None = None, **options: Unpack[Options]) -> wire.AskResponse:
        """The answer, when it is there.

        Args:
            question: at most 4096 bytes of UTF-8.
            timeout: seconds after which the question is given up.
            options: how to answer it.

        Raises:
            SpecHopError: there is no answer.
        """
        request = ask_request(question, **options)
        self._must_be_open(request.question_id)
        call = self._ask(request, timeout=timeout, metadata=self._metadata)
        return await self._response(call, request.question_id)

    async def stream(
        self, question: str, *, timeout: float | None = None, **options: Unpack[Options]
    ) -> AsyncGenerator[wire.AskEvent, None]:
        """What happens, as it happens. The last event is the answer.

        Closing the iterator ends the question, unless `linger_ms` lets it continue. With `linger_ms`, a lost
        connection is made again, and no event is lost or told twice.

        Raises:
            SpecHopError: there is no answer. Its `sequence` is that of the last event.
        """
        request = ask_request(question, **options)
        self._must_be_open(request.question_id)
        call = self._ask_stream(request, timeout=timeout, metadata=self._metadata)
        patience = Patience(request.linger_ms, timeout)
        asking = Asking(request, is_named=bool(options.get("question_id")))
        async with aclosing(self._follow(call, request.question_id, 0, patience, asking)) as events:
            async for event in events:
                yield event

    async def resume(
        self, question_id: str, after: int = 0, *, timeout: float | None = None
    ) -> AsyncGenerator[wire.AskEvent, None]:
        """What happens to a question that somebody has asked, from the event behind `after` on.

        Raises:
            SpecHopError: with NOT_FOUND if no such question is known, with OUT_OF_RANGE if these events are gone.
        """
        self._must_be_open(question_id, after)
        call = self._resume(
            wire.ResumeRequest(question_id=question_id, after=after), timeout=timeout, metadata=self._metadata
        )
        async with aclosing(self._follow(call, question_id, after, Patience(0, timeout), Asking())) as events:
            async for event in events:
                yield event

    async def _follow(
        self,
        call: Events,
        name: str,
        last: int,
        patience: Patience,
        asking: Asking,
    ) -> AsyncGenerator[wire.AskEvent, None]:
        """The events of a stream. If it breaks although the question continues, those of another one."""
        while True:
            try:
                with self._held(call):
                    # It comes as soon as the server has the question, even if nothing happens. Else it is empty.
                    if told := question_id_of(await call.initial_metadata()):
                        name, asking.heard = name or told, True
                        patience.attached()
                    async for event in call:
                        last = decoded(event).sequence
                        patience.restored()
                        yield event
                        if event.HasField("answer"):
                            return  # It is whole, however the connection ends.
                return
            except grpc.RpcError as error:
                failed = SpecHopError.of(error, name, last)
                request = asking.next(error, failed) if name else None
                pause = None if request is None else patience.pause(failed)
                if request is None or pause is None:
                    raise failed from None
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._closed.wait(), pause)
                self._must_be_open(name, last)
                left = patience.left()
                if isinstance(request, wire.AskRequest):
                    call = self._ask_stream(request, timeout=left, metadata=self._metadata)
                else:
                    call = self._resume(request, timeout=left, metadata=self._metadata)

    async def get_answer(self, question_id: str, *, timeout: float | None = None) -> wire.AskResponse:
        """The answer of a question that somebody has asked, when it is there.

        Raises:
            SpecHopError: the error with which it ended, or NOT_FOUND if no such question is known.
        """
        self._must_be_open(question_id)
        request = wire.GetAnswerRequest(question_id=question_id)
        call = self._get_answer(request, timeout=timeout, metadata=self._metadata)
        return await self._response(call, question_id)

    async def cancel(self, question_id: str) -> None:
        """Ends all work on a question, without an answer.

        Raises:
            SpecHopError: with NOT_FOUND if no such question is known.
        """
        self._must_be_open(question_id)
        call = self._cancel(wire.CancelRequest(question_id=question_id), metadata=self._metadata)
        await self._response(call, question_id)

    async def finish_now(self, question_id: str) -> None:
        """Has the question of this name answered at once, from what is committed. Whoever asked it gets the answer.

        Raises:
            SpecHopError: with NOT_FOUND if no such question is open.
        """
        self._must_be_open(question_id)
        call = self._finish_now(wire.FinishNowRequest(question_id=question_id), metadata=self._metadata)
        await self._response(call, question_id)

    async def _response(self, call: grpc.aio.UnaryUnaryCall[Any, Response], question_id: str) -> Response:
        try:
            with self._held(call):
                return decoded(await call)
        except grpc.RpcError as error:
            raise SpecHopError.of(error, question_id) from None

    def _must_be_open(self, question_id: str, sequence: int = 0) -> None:
        """gRPC has errors of its own for what is asked of a closed channel."""
        if self._closed.is_set():
            raise closed(question_id, sequence) from None

    @contextmanager
    def _held(self, call: grpc.aio.Call) -> Iterator[None]:
        """Keeps an open call where `close` finds it, and ends it."""
        self._calls.add(call)
        try:
            yield
        except asyncio.CancelledError:
            # So gRPC reports a call that is ended on this side, although nobody has cancelled the task.
            if self._closed.is_set() and not is_cancelled():
                raise failure(grpc.StatusCode.CANCELLED, CLOSED) from None
            raise
        finally:
            self._calls.discard(call)
            call.cancel()

    async def close(self) -> None:
        """Hangs up. Open questions end with a `SpecHopError`.

        On Python 3.10, one whose task has just been cancelled ends so, too.
        """
        self._closed.set()
        # By itself, gRPC does not find those of streams.
        for call in self._calls:
            call.cancel()
        await self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def decoded(message: Response | None) -> Response:
    """The message. In place of one that cannot be decoded, gRPC brings nothing here, but fails for threads."""
    if message is None:
        raise failure(grpc.StatusCode.INTERNAL, UNREADABLE)
    return message


def failure(code: grpc.StatusCode, message: str) -> grpc.aio.AioRpcError:
    """The failure of a call that ends on this side."""
    nothing = grpc.aio.Metadata()
    return grpc.aio.AioRpcError(code, nothing, nothing, message)


def is_cancelled() -> bool:
    """Whether somebody has cancelled the task that runs. Python 3.10 does not tell."""
    task = asyncio.current_task()
    return sys.version_info >= (3, 11) and task is not None and task.cancelling() > 0
