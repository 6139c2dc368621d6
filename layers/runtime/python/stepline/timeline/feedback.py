"""Feedback: what people and machines think of a turn's answer, at one path a turn.

Source: docs/concepts/timeline.md#paths.
"""

from __future__ import annotations

import msgspec

from stepline.model.block import Block
from stepline.model.entry import Feedback


def feedback_path(turn: str) -> str:
    """Return where what is thought of a turn's answer stands."""
    return f"ar:{turn}.feedback.latest"


def feedback_key(entry: Feedback) -> str:
    """Return what a newer feedback replaces an older one by: its turn and its origin."""
    return f"{entry.turn}/{entry.origin}"


def feedback_block(entry: Feedback) -> Block:
    """Return the newest feedback of one origin as a block of the turn that it is about."""
    said = {"origin": entry.origin, "reaction": entry.reaction, "confidence": entry.confidence}
    facts = {name: value for name, value in {**said, "text": entry.text}.items() if value not in (None, "")}
    return Block(
        type="turn.feedback",
        author="user" if entry.origin == "user" else "system",
        ts=entry.at,
        turn_id=entry.turn,
        path=feedback_path(entry.turn),
        mime="application/json",
        text=msgspec.json.encode(facts).decode(),
        meta=said,
    )
