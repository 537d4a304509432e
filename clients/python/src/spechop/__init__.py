"""Client of SpecHop, which answers multi-hop questions with continuous speculation.

    from spechop import SpecHop

    with SpecHop("127.0.0.1:50051") as client:
        answer = client.ask("Who is the mother of the director of film Polish-Russian War?", k="auto")
        print(answer.answer)

`AsyncSpecHop` is the same for asyncio. Messages are those of `proto/spechop/v1/spechop.proto`.
"""

from spechop._aio import AsyncSpecHop
from spechop._channel import Tls
from spechop._client import SpecHop
from spechop._errors import FieldError, SpecHopError
from spechop._request import Options
from spechop.v1.spechop_pb2 import AskEvent, AskResponse, Budget, Hop, Passage

__all__ = [
    "AskEvent",
    "AskResponse",
    "AsyncSpecHop",
    "Budget",
    "FieldError",
    "Hop",
    "Options",
    "Passage",
    "SpecHop",
    "SpecHopError",
    "Tls",
]
