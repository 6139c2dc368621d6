"""What clients hear of a compaction: that it began, and how it ended, under one id."""

from __future__ import annotations

from typing import Final

from stepline.events.types import CompactionTold, Status, make_event
from stepline.model.entry import Compacted, Compacting
from stepline.model.wire.event import ClientEvent

_TITLES: Final[dict[Status, str]] = {
    "started": "Context Compaction Started",
    "completed": "Context Compaction Completed",
    "skipped": "Context Compaction Skipped",
    "error": "Context Compaction Failed",
}


def compaction_event(entry: Compacting | Compacted) -> ClientEvent:
    """Return the event of a compaction's beginning or end."""
    ended = entry if isinstance(entry, Compacted) else None
    status: Status = ended.status if ended else "started"
    usage = ended.usage if ended else None
    changed = ended is not None and ended.status == "completed"
    data = CompactionTold(
        compaction_id=entry.id,
        title=_TITLES[status],
        kind=entry.scope,
        trigger_reason=entry.trigger,
        before_tokens=entry.before_tokens,
        max_tokens=entry.max_tokens,
        force=entry.trigger == "forced",
        after_tokens=ended.after_tokens if ended else 0,
        compacted_tokens=max(0, entry.before_tokens - ended.after_tokens) if ended and changed else 0,
        input_tokens=usage.prompt_tokens if usage else 0,
        output_tokens=usage.output_tokens if usage else 0,
        reason=ended.reason if ended else "",
        covered_turns=ended.turns if ended and changed else 0,
        covered_turn_ids=list(ended.covered) if ended and changed else [],
        split_turn_id=entry.turn if ended and changed and ended.split else "",
    )
    return make_event(data, entry.at, entry.turn, status)
