"""From keyword arguments to a request."""

import math
import uuid
from typing import Any, Literal, TypedDict

from typing_extensions import Unpack

from spechop.v1 import spechop_pb2 as wire


class Options(TypedDict, total=False):
    """How a question is to be answered. What is left out, the server's configuration decides."""

    k: int | float | Literal["auto"]
    """The most branches alive at once: 1 does not speculate, `math.inf` is unbounded, "auto" lets the server choose."""
    hop_budget: int
    """The most hops. After them the answer is written from the committed hops."""
    top_passages: int
    """The most passages that are read for each hop, best first."""
    verifier: Literal["exact", "rule", "paper"]
    """When a guess counts as right. With "exact" the answer is the one that k = 1 gives."""
    deadline_ms: int
    """Hard limit, counted from the arrival of the request. `timeout` is a limit, too: the earlier one counts."""
    budget: wire.Budget
    """Soft limits: time, look-ups, tokens, money."""
    speculator: str
    """Who guesses, of those that the server offers."""
    salvage: bool
    """Whether look-ups of rolled-back branches are kept for a while."""
    plan_ahead: bool
    """Whether planning continues without a guess. Needs salvage."""
    guesses: int
    """The most guesses of one hop that branches are built upon."""
    chance_min: float
    """A branch less likely than this to be needed is not built."""
    question_id: str
    """A name for the question, for `finish_now`, `resume`, `get_answer` and `cancel`."""
    linger_ms: int
    """How long the question continues if nobody follows it. So long, `stream` survives a lost connection."""
    not_found_max: int
    """How many look-ups may find nothing."""
    fresh: bool
    """No kept result of an earlier look-up may serve the question."""
    quiet: bool
    """No look-up is made ahead of need."""
    drafts: int
    """The most look-ups that are begun for a hop while its sub-question is still being written."""
    effort: Literal["low", "normal", "high"]
    """How much is done for a better answer. It is there to change answers; `k` is not."""


_VERIFIERS = {"exact": wire.VERIFIER_MODE_EXACT, "rule": wire.VERIFIER_MODE_RULE, "paper": wire.VERIFIER_MODE_PAPER}

_EFFORTS = {"low": wire.EFFORT_LOW, "normal": wire.EFFORT_NORMAL, "high": wire.EFFORT_HIGH}

_FIELDS = set(wire.AskRequest.DESCRIPTOR.fields_by_name)


def ask_request(question: str, **options: Unpack[Options]) -> wire.AskRequest:
    """The request.

    Raises:
        ValueError: an option has a value that no server could take.
        TypeError: there is no such option.
    """
    said: dict[str, Any] = dict(options)
    unknown = sorted(said.keys() - Options.__annotations__.keys())
    if unknown:
        raise TypeError(f"there is no option {unknown[0]!r}; the options are {', '.join(Options.__annotations__)}")
    # What is no field of the question is one of its options.
    fields = {name: said.pop(name) for name in _FIELDS & said.keys()}
    k = said.pop("k", None)
    if k == "auto":
        said["auto"] = wire.Auto()
    elif k == math.inf:
        said["unbounded"] = wire.Unbounded()
    elif k is not None:
        # A bool is an int to Python, and 2.0 is a number that somebody has computed.
        if isinstance(k, (bool, str)) or (isinstance(k, float) and not k.is_integer()) or k != int(k):
            raise ValueError(f'k must be a whole number, math.inf or "auto", not {k!r}')
        said["k"] = int(k)
    verifier = said.pop("verifier", None)
    if verifier is not None:
        if verifier not in _VERIFIERS:
            raise ValueError(f'verifier must be "exact", "rule" or "paper", not {verifier!r}')
        said["verifier"] = _VERIFIERS[verifier]
    effort = said.pop("effort", None)
    if effort is not None:
        if effort not in _EFFORTS:
            raise ValueError(f'effort must be "low", "normal" or "high", not {effort!r}')
        said["effort"] = _EFFORTS[effort]
    request = wire.AskRequest(question=question, options=wire.Options(**said), **fields)
    if request.linger_ms and not request.question_id:
        # Who loses the connection must know what to ask for.
        request.question_id = uuid.uuid4().hex
    return request
