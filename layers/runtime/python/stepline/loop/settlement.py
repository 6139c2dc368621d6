"""The settlement: what becomes of events that a turn's end finds unseen, and of one that comes to no turn.

Source: docs/reference/live-events.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stepline.model.batch import Batch, State
from stepline.model.entry import Dropped, Inbound, Steered
from stepline.model.wire.live_event import DropReason


class Settlement(NamedTuple):
    """What becomes of the events that the model has not seen: `promoted` open the next turn, `dropped` are handed back.

    `holding` says that one of them keeps the turn open, as long as it has rounds left.
    """

    holding: bool
    promoted: tuple[int, ...]
    dropped: tuple[Dropped, ...]


def settle_events(suffix: Sequence[Batch], state: State) -> Settlement:
    """Settle the events behind what the model saw last, as the table of live events has it.

    A stop among them, heeded or not, settles those before it and keeps the turn from going on.
    """
    entries = [(batch.n, entry) for batch in suffix if batch.n > state.rendered for entry in batch.entries]
    unseen = [(n, entry) for n, entry in entries if isinstance(entry, Inbound)]
    stop = max((n for n, event in unseen if event.rule.then == "close"), default=0)
    heeded = {entry.n: entry.finalize for _, entry in entries if isinstance(entry, Steered)}
    newest_text = max((n for n, finalize in heeded.items() if finalize), default=0)
    promoted, handed, holding = [], [], False
    for n, event in unseen:
        if n in heeded or (event.steers and n <= newest_text):
            continue  # the turn heeded it, or a later one that is read with it
        rule = event.rule
        holding = holding or (rule.holds and not stop)
        fate = rule.stopped if n < stop else rule.unseen
        reason: DropReason = "stopped" if n < stop else "turn_closed"
        if fate == "promoted":
            promoted.append(n)
        elif fate == "dropped":
            handed.append(hand_back(n, event, reason))
    return Settlement(holding=holding, promoted=tuple(promoted), dropped=tuple(handed))


def stop_of(suffix: Sequence[Batch], state: State) -> Steered | None:
    """Return the stop that leads the turn here, if one does."""
    entries = (entry for batch in suffix for entry in batch.entries)
    heeded = (e for e in entries if isinstance(e, Steered) and e.n == state.steered and e.turn == state.turn)
    return next((entry for entry in heeded if not entry.finalize), None)


def hand_back(n: int, event: Inbound, reason: DropReason) -> Dropped:
    """Return what says that the event of batch `n` comes to nothing, so that its sender may say it again."""
    return Dropped(n=n, reason=reason, message_id=event.message_id, event=event.event)
