"""Pruning: older turns are shortened once this is free, or once it pays.

    ttl     the provider's cache has expired, so the prompt is written anew anyway
    price   reading the removed tokens would cost more than writing the rest anew

The price is checked when a turn begins: the prunable part does not change while a turn is open, and the part
after it only grows. Turns that have become too old for turns are at the beginning, so that shortening them writes
everything anew; while the cache lives they stay turns until that pays, too.
Source: docs/concepts/context.md#pruning.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec.structs import replace

from stepline.context.rules import ContextRules
from stepline.model.entry import Pruned
from stepline.model.ids import utc
from stepline.rendering.piece import byte_length, estimate_bytes, text_bytes
from stepline.rendering.reduce import prune
from stepline.rendering.request_parts import first_change
from stepline.timeline.fold import Timeline

READ_PRICE: Final = 0.1
WRITE_PRICE: Final = 1.25
"""Prices of a token read from the cache and of one written to it, relative to an uncached one."""


def plan_pruning(timeline: Timeline, now: datetime, rules: ContextRules) -> Pruned | None:
    """Return the pruning to do now; None if it would cost more than it saves, or shorten nothing."""
    if not timeline.state.turn:
        return None
    entry = Pruned(
        turn=timeline.state.turn,
        at=utc(now),
        cause="ttl",
        keep=rules.keep_turns,
        intact=rules.intact_turns,
        settled=find_settled(timeline, rules),
        steady=True,
    )
    if is_cold(timeline, now, rules):
        return measure_pruning(timeline, entry)
    if timeline.state.cursor.iteration or not _is_grown(timeline, rules):
        return None
    kept = dict.fromkeys((rules.keep_turns, max(rules.keep_turns, _shown_turns(timeline))))
    prunings = [replace(entry, cause="price", keep=keep) for keep in kept]
    savings = [find_saving(timeline, one, rules.horizon_requests) for one in prunings]
    most = max(savings)
    return measure_pruning(timeline, prunings[savings.index(most)]) if most > 0 else None


def _shown_turns(timeline: Timeline) -> int:
    """Return how many turns are not shown as a card, counted back from the open one."""
    return len(timeline.history) - max((one.turn for one in timeline.pieces if one.kind == "card"), default=0)


def find_settled(timeline: Timeline, rules: ContextRules) -> int:
    """Return the batch up to which a closed turn is too large to stay whole; 0 for none."""
    newest, size = len(timeline.history), 0
    for piece in reversed(timeline.pieces):
        if piece.turn <= newest - rules.intact_turns:
            break
        size += piece.size if piece.turn < newest else 0
        if estimate_bytes(size) > rules.intact_tokens:
            return piece.n
    return 0


def is_cold(timeline: Timeline, now: datetime, rules: ContextRules) -> bool:
    """Return True if the newest request's cache counts as expired. Without a TTL it never does."""
    if rules.ttl_s <= 0 or not timeline.asked.at:
        return False
    idle_s = (now - datetime.fromisoformat(timeline.asked.at)).total_seconds()
    return idle_s >= rules.ttl_s - rules.ttl_buffer_s


def _is_grown(timeline: Timeline, rules: ContextRules) -> bool:
    return (
        rules.horizon_requests > 0
        and estimate_bytes(timeline.parts.size) >= rules.budget * rules.horizon_from
    )


def find_saving(timeline: Timeline, entry: Pruned, requests: float) -> float:
    """Return the saving of a pruning over this number of requests, less the cost of the rewrite, in bytes of plain text.

    At the prices of a live cache; below 0 the pruning does not pay.
    """
    pruned = prune(timeline.pieces, entry, len(timeline.history), timeline.form)
    same = first_change(timeline.pieces, pruned)
    rest = text_bytes(pruned[same:]) + _notice_bytes(timeline, entry)
    removed = text_bytes(timeline.pieces[same:]) - rest
    return READ_PRICE * removed * requests - (WRITE_PRICE - READ_PRICE) * rest


def measure_pruning(timeline: Timeline, entry: Pruned) -> Pruned | None:
    """Return the entry with the tokens before and after it, or None if it does not shorten the timeline."""
    pruned = prune(timeline.pieces, entry, len(timeline.history), timeline.form)
    after = text_bytes(pruned) + _notice_bytes(timeline, entry)
    if after >= timeline.parts.size:
        return None
    return replace(
        entry, before_tokens=estimate_bytes(timeline.parts.size), after_tokens=estimate_bytes(after)
    )


def _notice_bytes(timeline: Timeline, entry: Pruned) -> int:
    """Return the bytes of the message that informs the model, once per turn."""
    return byte_length(timeline.form.pruned(entry)) if timeline.pruned != entry.turn else 0
