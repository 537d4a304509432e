"""How a server is reached: what both clients have in common."""

import ipaddress
import os
import random
import ssl
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from spechop._errors import SpecHopError
from spechop.v1 import spechop_pb2 as wire

# Seconds before the first try to make a lost connection again, and the most before a later one.
PAUSE = 0.05
PAUSE_MAX = 2.0

# Where Debian and Fedora keep whom they trust.
AUTHORITIES: Sequence[str] = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")

OPTIONS: Sequence[tuple[str, int]] = (
    # An answer has at most 128 MiB (proto/spechop/v1/spechop.proto).
    ("grpc.max_receive_message_length", 129 << 20),
    # A client that only reads hears of a connection that is gone in no other way.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # Otherwise gRPC asks only once a minute while it has nothing to send, and waits a minute for the answer.
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.ping_timeout_ms", 20_000),
    # Its own pauses grow to two minutes. It connects at its own pace, however often a call is tried.
    ("grpc.max_reconnect_backoff_ms", int(1000 * PAUSE_MAX)),
)


def options(address: str) -> Sequence[tuple[str, int]]:
    """Of a channel. gRPC asks the proxy of the environment even for this machine, and what goes there leaves it."""
    return (*OPTIONS, ("grpc.enable_http_proxy", 0)) if is_loopback(address) else OPTIONS


@dataclass(frozen=True)
class Tls:
    """Certificates as PEM texts. Without `ca`, the machine's own authorities are trusted.

    Raises:
        ValueError: a certificate without its key, or a key without its certificate.
    """

    ca: bytes | None = None
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        # gRPC would abort the process.
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key belong together")

    def credentials(self) -> grpc.ChannelCredentials:
        ca = authorities() if self.ca is None else self.ca
        return grpc.ssl_channel_credentials(ca, self.key, self.certificate)


def authorities() -> bytes | None:
    """Whom this machine trusts. Where that cannot be found, gRPC trusts its own list."""
    # gRPC follows this variable by itself.
    if os.environ.get("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"):
        return None
    # The file of Python's own OpenSSL comes last: that of conda is not the machine's.
    files = (os.environ.get("SSL_CERT_FILE"), *AUTHORITIES, ssl.get_default_verify_paths().cafile)
    return next((text for file in files if file and (text := content(file))), None)


def content(file: str) -> bytes | None:
    """What is in a file, if it can be read."""
    try:
        return Path(file).read_bytes()
    except OSError:
        return None


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
        ValueError: the key would be sent in the clear over a network, or key or tenant cannot be sent at all.
    """
    key, tenant = sendable("key", key), sendable("tenant", tenant)
    if key is not None and tls is None and not is_loopback(address):
        raise ValueError(f"a key would be sent to {address} in the clear: pass tls=Tls(…)")
    pairs = {"authorization": f"Bearer {key}" if key else None, "spechop-tenant": tenant}
    return tuple((name, value) for name, value in pairs.items() if value)


def sendable(what: str, value: str | None) -> str | None:
    """The value without the line break of the file that it comes from.

    Raises:
        ValueError: it has other characters than those of a header, which gRPC would refuse at every call, and show.
    """
    value = value.strip() if value is not None else None
    if value and not (value.isascii() and value.isprintable()):
        raise ValueError(f"the {what} has characters that cannot be sent")
    return value


# What a proxy between makes of a server that it has lost in the middle of an answer: nginx resets the stream.
BROKEN = (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN)


def is_lost(error: Any, failed: SpecHopError, *, is_asking: bool, heard: bool) -> bool:
    """Whether the question may continue although the call for its events has failed.

    Who comes back may be told to come later. If the first call that asks is told so, there is no question yet. A
    question that the server has named ends with an error that says so; any other failure of that kind is of the
    connection.
    """
    is_over = any(name == "spechop-ended" for name, _ in error.trailing_metadata() or ())
    is_early = failed.code is grpc.StatusCode.RESOURCE_EXHAUSTED and failed.retry_after is not None and not is_asking
    is_broken = failed.code is grpc.StatusCode.UNAVAILABLE or (heard and failed.code in BROKEN)
    return not is_over and (is_broken or is_early)


def question_id_of(metadata: Iterable[Any]) -> str:
    """The name that the server has given a question."""
    return next((str(value) for name, value in metadata if name == "spechop-question-id"), "")


def is_open_already(failed: SpecHopError) -> bool:
    """Whether a question of this name is open. The server says so only of a request without other faults."""
    fields = [wrong.field for wrong in failed.fields]
    return failed.code is grpc.StatusCode.INVALID_ARGUMENT and fields == ["question_id"]


class Asking:
    """Whether the server has the question of a stream, as far as is known, and so what to send if a call fails."""

    def __init__(self, request: wire.AskRequest | None = None, *, is_named: bool = False) -> None:
        """Before the first call.

        Args:
            request: what it asks, unless it resumes what somebody has asked.
            is_named: whether the caller has named the question. An earlier one of this name may still be kept.
        """
        # The server has said that it has the question. The clients write it.
        self.heard = False
        self._request = request
        self._is_named = is_named
        # The open call asks what the server cannot have, or asks again what it may have.
        self._is_first, self._is_again = request is not None, False

    def next(self, error: Any, failed: SpecHopError) -> wire.AskRequest | wire.ResumeRequest | None:
        """What to send after this failure, or `None` if it is the end of the question."""
        lost = is_lost(error, failed, is_asking=self._is_first, heard=self.heard)
        resume = wire.ResumeRequest(question_id=failed.question_id, after=failed.sequence) if lost else None
        was_again, self._is_first, self._is_again = self._is_again, False, False
        if self._request is None or self.heard or failed.sequence > 0:
            return resume
        if failed.code is grpc.StatusCode.NOT_FOUND:
            # A question that the server has never heard of can be asked again.
            self._is_first = True
            return self._request
        if was_again and is_open_already(failed):
            # The call that was lost had arrived.
            self.heard = True
            return wire.ResumeRequest(question_id=failed.question_id)
        if lost and self._is_named:
            # The events of this name may be those of an earlier question. An open one cannot be asked twice.
            self._is_again = True
            return self._request
        return resume


class Patience:
    """How often and how long a lost connection is made again."""

    def __init__(self, linger_ms: int, timeout: float | None) -> None:
        self._limit = linger_ms / 1000
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._lost: float | None = None
        self._attached: float | None = None
        self._pause = PAUSE

    def left(self) -> float | None:
        """What is left of the caller's seconds."""
        return None if self._deadline is None else max(self._deadline - time.monotonic(), 0)

    def restored(self) -> None:
        """Something has come."""
        self._lost, self._attached, self._pause = None, None, PAUSE

    def attached(self) -> None:
        """The server has the question and will tell what happens to it, so it lingers anew from the next loss on.

        Pauses go on growing: a connection that breaks again and again before anything comes must not spin. Behind a
        failure of `BROKEN` the word of the server is not enough, unless the stream has stood as long as the question
        lingers: an event that cannot be read fails in the same way, and would be asked for until the question is
        forgotten.
        """
        self._attached = time.monotonic()

    def _has_stood(self, failed: SpecHopError, now: float) -> bool:
        """Whether a stream that the server had confirmed broke for another reason than what came next in it."""
        if self._attached is None:
            return False
        return failed.code not in BROKEN or now - self._attached >= self._limit

    def pause(self, failed: SpecHopError) -> float | None:
        """Seconds until the next try, or `None` if the question will be gone. The server may want more of them."""
        now = time.monotonic()
        if self._lost is None or self._has_stood(failed, now):
            self._lost = now
        self._attached = None
        least = failed.retry_after or 0
        most = self._limit - (now - self._lost)
        if least >= most:
            return None
        # Between half of it and all of it, so that the clients of a server that comes back do not all come at once.
        # A pause of earlier losses must not outlast the question.
        pause = min(self._pause, self._limit / 2) * random.uniform(0.5, 1)
        self._pause = min(2 * self._pause, PAUSE_MAX)
        left = self.left()
        return min(least + pause, most if left is None else min(most, left))
