"""A list of conversations: a line for each, or an object."""

from __future__ import annotations

from typing import Any

from stepline.local.safe_text import one_line
from stepline.ports.log import Listing


def render_row(listing: Listing) -> str:
    """Return a conversation's line: its name, the minute of its last event in UTC, its last turn, its title."""
    minute = listing.last_at[:16].replace("T", " ")
    standing = listing.outcome or ("open" if listing.turn else "idle")
    return f"{listing.lane.conversation:20}  {minute}  {standing:9}  {one_line(listing.title)}"


def render_listing(listing: Listing) -> dict[str, Any]:
    """Return a conversation as an object; `n` is its newest batch that the listing knows."""
    return {
        "conversation": listing.lane.conversation,
        "title": listing.title,
        "last_at": listing.last_at,
        "n": listing.applied_n,
        "turn_id": listing.turn,
        "outcome": listing.outcome,
        "input_tokens": listing.input_tokens,
        "output_tokens": listing.output_tokens,
    }
