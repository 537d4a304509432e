"""The client for threads."""

import threading
from collections.abc import Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

import grpc
from typing_extensions import Self, Unpack

from spechop._channel import Asking, Patience, Tls, metadata, options, question_id_of
from spechop._errors import SpecHopError, closed
from spechop._methods import ASK, ASK_STREAM, CANCEL, FINISH_NOW, GET_ANSWER, RESUME
from spechop._request import Options, ask_request
from spechop.v1 import spechop_pb2 as wire

if TYPE_CHECKING:
    # There is such a type for type checkers only.
    from grpc import _CallIterator

Response = TypeVar("Response")


class SpecHop:
    """A server of questions. It may be used by several threads at once."""

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
        self._closed = threading.Event()
        if tls is None:
            self._channel = grpc.insecure_channel(address, options(address))
        else:
            self._channel = grpc.secure_channel(address, tls.credentials(), options(address))
        self._ask = self._channel.unary_unary(*ASK)
        self._ask_stream = self._channel.unary_stream(*ASK_STREAM)
        self._resume = self._channel.unary_stream(*RESUME)
        self._get_answer = self._channel.unary_unary(*GET_ANSWER)
        self._cancel = self._channel.unary_unary(*CANCEL)
        self._finish_now = self._channel.unary_unary(*FINISH_NOW)

    def ask(self, question: str, *, timeout: float | None = None, **options: Unpack[Options]) -> wire.AskResponse:
        """The answer, when it is there.

        Args:
            question: at most 4096 bytes of UTF-8.
            timeout: seconds after which the question is given up.
            options: how to answer it.

        Raises:
            SpecHopError: there is no answer.
        """
        request = ask_request(question, **options)
        return self._response(self._ask, request, request.question_id, timeout)

    def stream(
        self, question: str, *, timeout: float | None = None, **options: Unpack[Options]
    ) -> Generator[wire.AskEvent, None, None]:
        """What happens, as it happens. The last event is the answer.

        Closing the iterator ends the question, unless `linger_ms` lets it continue. With `linger_ms`, a lost
        connection is made again, and no event is lost or told twice.

        Raises:
            SpecHopError: there is no answer. Its `sequence` is that of the last event.
        """
        request = ask_request(question, **options)
        self._must_be_open(request.question_id)
        call = self._ask_stream(request, timeout=timeout, metadata=self._metadata)
        asking = Asking(request, is_named=bool(options.get("question_id")))
        yield from self._follow(call, request.question_id, 0, Patience(request.linger_ms, timeout), asking)

    def resume(
        self, question_id: str, after: int = 0, *, timeout: float | None = None
    ) -> Generator[wire.AskEvent, None, None]:
        """What happens to a question that somebody has asked, from the event behind `after` on.

        Raises:
            SpecHopError: with NOT_FOUND if no such question is known, with OUT_OF_RANGE if these events are gone.
        """
        self._must_be_open(question_id, after)
        call = self._resume(
            wire.ResumeRequest(question_id=question_id, after=after), timeout=timeout, metadata=self._metadata
        )
        yield from self._follow(call, question_id, after, Patience(0, timeout), Asking())

    def _follow(
        self,
        call: "_CallIterator[wire.AskEvent]",
        name: str,
        last: int,
        patience: Patience,
        asking: Asking,
    ) -> Generator[wire.AskEvent, None, None]:
        """The events of a stream. If it breaks although the question continues, those of another one."""
        try:
            while True:
                try:
                    # It comes as soon as the server has the question, even if nothing happens. Else it is empty.
                    if told := question_id_of(call.initial_metadata()):
                        name, asking.heard = name or told, True
                        patience.attached()
                    for event in call:
                        last = event.sequence
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
                    self._closed.wait(pause)
                    self._must_be_open(name, last)
                    left = patience.left()
                    if isinstance(request, wire.AskRequest):
                        call = self._ask_stream(request, timeout=left, metadata=self._metadata)
                    else:
                        call = self._resume(request, timeout=left, metadata=self._metadata)
        finally:
            call.cancel()

    def get_answer(self, question_id: str, *, timeout: float | None = None) -> wire.AskResponse:
        """The answer of a question that somebody has asked, when it is there.

        Raises:
            SpecHopError: the error with which it ended, or NOT_FOUND if no such question is known.
        """
        request = wire.GetAnswerRequest(question_id=question_id)
        return self._response(self._get_answer, request, question_id, timeout)

    def cancel(self, question_id: str) -> None:
        """Ends all work on a question, without an answer.

        Raises:
            SpecHopError: with NOT_FOUND if no such question is known.
        """
        self._response(self._cancel, wire.CancelRequest(question_id=question_id), question_id)

    def finish_now(self, question_id: str) -> None:
        """Has the question of this name answered at once, from what is committed. Whoever asked it gets the answer.

        Raises:
            SpecHopError: with NOT_FOUND if no such question is open.
        """
        self._response(self._finish_now, wire.FinishNowRequest(question_id=question_id), question_id)

    def _response(
        self, method: Callable[..., Response], request: object, question_id: str, timeout: float | None = None
    ) -> Response:
        self._must_be_open(question_id)
        try:
            return method(request, timeout=timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise SpecHopError.of(error, question_id) from None

    def _must_be_open(self, question_id: str, sequence: int = 0) -> None:
        """gRPC has errors of its own for what is asked of a closed channel."""
        if self._closed.is_set():
            raise closed(question_id, sequence) from None

    def close(self) -> None:
        """Hangs up. Open questions end."""
        self._closed.set()
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
