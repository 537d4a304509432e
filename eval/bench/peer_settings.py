"""What the server beside peer.py is told. Standard library only, so that a test can read it without the peer's libraries."""

from pathlib import Path

HOPS_MAX = 6
PASSAGES = 5
GUESS_PASSAGES = 2


def settings(index: Path, draft_tokens: bool) -> dict:
    """What the peer does, and no more."""
    told = {
        "question.verifier": "exact", "question.passages": PASSAGES, "question.hop_budget": HOPS_MAX,
        "index.dir": index.resolve(), "speculator.kind": "hot", "speculator.passages": GUESS_PASSAGES,
        # Its window (asyncio_reference.py) salvages nothing, plans nothing ahead and builds on every guess.
        "question.salvage": "false", "question.plan_ahead": "false", "question.chance_min": 0.0,
        # Nor does it mix words with vectors, or withhold an answer.
        "index.lexical_weight": 0, "question.confidence_min": 0, "question.form_min": 0,
    }
    # Untold, the server drafts tokens as long as that pays.
    return told if draft_tokens else told | {"generator.draft_tokens": "false"}
