"""Chronological order of a conversation's blocks: turn by turn, and within a turn by start time.

The log is ordered by the time of each put. An answer is put when it is complete, yet it began before a
message that came meanwhile; a block's `ts` is the start time, so the order of the talk can be restored.
Source: docs/concepts/timeline.md#order.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from stepline.model.block import Block

_NEVER = datetime.min.replace(tzinfo=UTC)


def conversation_order(blocks: Iterable[Block]) -> list[Block]:
    """Return blocks, given in the order of the log, turn by turn and within a turn by `ts`.

    Blocks of the same time stay in the order of the log, and a block without a time stays behind the one
    before it. Raises ValueError for a time that is not ISO-8601.
    """
    turns: dict[str, list[tuple[datetime, Block]]] = {}
    for block in blocks:
        own = turns.setdefault(block.turn_id, [])
        before = own[-1][0] if own else _NEVER
        own.append((_instant(block.ts) if block.ts else before, block))
    return [block for own in turns.values() for _, block in sorted(own, key=lambda at: at[0])]


def _instant(ts: str) -> datetime:
    """Return a time as an instant, so that two spellings of it are equal; without a zone it is UTC."""
    found = datetime.fromisoformat(ts)
    return found if found.tzinfo else found.replace(tzinfo=UTC)
