"""What a server refuses, and why."""

from dataclasses import dataclass
from typing import Any, cast

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2
from grpc_status import rpc_status

CLOSED = "the client was closed"
UNREADABLE = "the server's message cannot be decoded"
# gRPC's own words for it.
_UNREADABLE_OF_GRPC = "Exception deserializing response!"


@dataclass(frozen=True)
class FieldError:
    """A field of a request that is wrong."""

    field: str
    description: str


class SpecHopError(Exception):
    """There is no answer.

    Attributes:
        code: the gRPC status.
        message: what is wrong, in a line.
        fields: the wrong fields of the request, all of them.
        retry_after: seconds after which to try again, if the server has said so.
        question_id: the question's name, if it has one.
        sequence: the last event that was read of its stream.
    """

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        fields: tuple[FieldError, ...] = (),
        retry_after: float | None = None,
        question_id: str = "",
        sequence: int = 0,
    ) -> None:
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.message = message
        self.fields = fields
        self.retry_after = retry_after
        self.question_id = question_id
        self.sequence = sequence

    def __reduce__(self) -> tuple[Any, ...]:
        # What an exception does by itself makes it anew of its text alone. An error of a worker is pickled.
        made_of = self.code, self.message, self.fields, self.retry_after, self.question_id, self.sequence
        return type(self), made_of, self.__dict__

    @classmethod
    def of(cls, failed: grpc.RpcError, question_id: str = "", sequence: int = 0) -> "SpecHopError":
        """What a failed call says. Details that cannot be read are left out."""
        # Whatever a call raises is the call, too.
        error = cast(grpc.Call, failed)
        fields: list[FieldError] = []
        retry_after = None
        try:
            status = rpc_status.from_call(error)
            for detail in status.details if status else ():
                if detail.Is(error_details_pb2.BadRequest.DESCRIPTOR):
                    wrong = error_details_pb2.BadRequest()
                    detail.Unpack(wrong)
                    fields += [FieldError(each.field, each.description) for each in wrong.field_violations]
                elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
                    retry = error_details_pb2.RetryInfo()
                    detail.Unpack(retry)
                    retry_after = retry.retry_delay.ToTimedelta().total_seconds()
        except (ValueError, OverflowError, DecodeError):
            pass
        message = UNREADABLE if error.details() == _UNREADABLE_OF_GRPC else error.details() or ""
        return cls(error.code(), message, tuple(fields), retry_after, question_id, sequence)


def closed(question_id: str, sequence: int) -> SpecHopError:
    """Nothing comes of a question, for its client was closed."""
    return SpecHopError(grpc.StatusCode.CANCELLED, CLOSED, question_id=question_id, sequence=sequence)
