"""Pruning by time: once no provider keeps the prompt any more, older turns are read shorter, because it costs nothing.

While a cache may live, nothing is pruned by time: a shorter prefix would have to be paid for in full.
Source: docs/concepts/context.md#pruning.
"""

from __future__ import annotations

from datetime import datetime

from stepline.model.entry import Pruned
from stepline.model.ids import utc
from stepline.timeline.fold import Timeline
from stepline.timeline.piece import byte_length, estimate_bytes, text_bytes
from stepline.timeline.reduce import prune
from stepline.timeline.rules import ContextRules


def plan_pruning(timeline: Timeline, now: datetime, rules: ContextRules) -> Pruned | None:
    """Return what to prune now: nothing while a cache may live, and nothing if no text would become shorter."""
    if not timeline.state.turn or not is_cold(timeline, now, rules):
        return None
    entry = Pruned(
        turn=timeline.state.turn,
        at=utc(now),
        cause="ttl",
        keep=rules.keep_turns,
        intact=rules.intact_turns,
    )
    return measure_pruning(timeline, entry)


def is_cold(timeline: Timeline, now: datetime, rules: ContextRules) -> bool:
    """Tell whether the newest request's cache counts as dead. Without a time to live, none ever does."""
    if rules.ttl_s <= 0 or not timeline.asked.at:
        return False
    idle_s = (now - datetime.fromisoformat(timeline.asked.at)).total_seconds()
    return idle_s >= rules.ttl_s - rules.ttl_buffer_s


def measure_pruning(timeline: Timeline, entry: Pruned) -> Pruned | None:
    """Return the entry with the tokens before and after it, or None if it would not make the timeline shorter."""
    layout = timeline.layout
    after = text_bytes(prune(timeline.pieces, entry, len(timeline.history), layout))
    if timeline.pruned != entry.turn:
        after += byte_length(layout.pruned(entry))
    if after >= timeline.size:
        return None
    return Pruned(
        turn=entry.turn,
        at=entry.at,
        cause=entry.cause,
        keep=entry.keep,
        intact=entry.intact,
        settled=entry.settled,
        before_tokens=estimate_bytes(timeline.size),
        after_tokens=estimate_bytes(after),
    )
