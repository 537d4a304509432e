"""How a server is reached: what both clients have in common."""

import ipaddress
import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc

OPTIONS: Sequence[tuple[str, int]] = (
    # An answer has at most 128 MiB (proto/spechop/v1/spechop.proto).
    ("grpc.max_receive_message_length", 129 << 20),
    # A client that only reads hears of a connection that is gone in no other way.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 20_000),
)


def options(address: str) -> Sequence[tuple[str, int]]:
    """Of a channel. gRPC asks the proxy of the environment even for this machine, and what goes there leaves it."""
    return (*OPTIONS, ("grpc.enable_http_proxy", 0)) if is_loopback(address) else OPTIONS


@dataclass(frozen=True)
class Tls:
    """Certificates as PEM texts. Without `ca`, the machine's own authorities are trusted."""

    ca: bytes | None = None
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)

    def credentials(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(self.ca, self.key, self.certificate)


def is_loopback(address: str) -> bool:
    """Whether nobody between client and server can listen."""
    host = address.rsplit(":", 1)[0].removeprefix("[").removesuffix("]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def metadata(address: str, tls: Tls | None, key: str | None, tenant: str | None) -> tuple[tuple[str, str], ...]:
    """Who asks.

    Raises:
        ValueError: the key would be sent in the clear over a network.
    """
    if key is not None and tls is None and not is_loopback(address):
        raise ValueError(f"a key would be sent to {address} in the clear: pass tls=Tls(…)")
    pairs = {"authorization": f"Bearer {key}" if key else None, "spechop-tenant": tenant}
    return tuple((name, value) for name, value in pairs.items() if value)


def is_over(error: Any) -> bool:
    """Whether it is the error with which the question itself ended."""
    return any(name == "spechop-ended" for name, _ in error.trailing_metadata() or ())


def question_id_of(metadata: Iterable[Any]) -> str:
    """The name that the server has given a question."""
    return next((str(value) for name, value in metadata if name == "spechop-question-id"), "")


# Seconds before the first try.
PAUSE = 0.05
PAUSE_MAX = 2.0


class Patience:
    """How often and how long a lost connection is made again."""

    def __init__(self, linger_ms: int, timeout: float | None) -> None:
        self._limit = linger_ms / 1000
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._lost: float | None = None
        self._pause = PAUSE

    def left(self) -> float | None:
        """What is left of the caller's seconds."""
        return None if self._deadline is None else max(self._deadline - time.monotonic(), 0)

    def restored(self) -> None:
        """Something has come."""
        self._lost, self._pause = None, PAUSE

    def attached(self) -> None:
        """The server has the question and will tell what happens to it, so it lingers anew from the next loss on.

        Pauses go on growing: a connection that breaks again and again before anything comes must not spin.
        """
        self._lost = None

    def pause(self) -> float | None:
        """Seconds until the next try, or `None` if the question will be gone."""
        now = time.monotonic()
        if self._lost is None:
            self._lost = now
        if now - self._lost >= self._limit:
            return None
        # Between half of it and all of it, so that the clients of a server that comes back do not all come at once.
        # A pause of earlier losses must not outlast the question.
        pause = min(self._pause, self._limit / 2) * random.uniform(0.5, 1)
        self._pause = min(2 * self._pause, PAUSE_MAX)
        return pause
