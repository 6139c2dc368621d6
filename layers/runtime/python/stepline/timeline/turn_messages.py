"""Messages: those of the user and the answers to them, turn by turn, with citations as links.

Source: docs/concepts/http-api.md#the-older-spelling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from stepline.events.derive_round import linked
from stepline.model.base import Value
from stepline.model.entry import Closed, Deferred, Inbound
from stepline.rendering.turn_facts import Turn
from stepline.timeline.fold import Timeline


class TurnMessage(Value):
    """One message of a turn. `id` is the client's for those of users; an answer is named by its batch."""

    turn: str
    id: str
    type: Literal["chat:user", "chat:assistant"]
    at: str
    text: str


def turn_messages(timeline: Timeline, turns: Sequence[Turn]) -> Iterator[TurnMessage]:
    """Yield the messages of these turns in the order of the log; events without a text are skipped.

    `turns` are some of the timeline's own, oldest first. Batches that are not loaded are read.
    """
    if not turns:
        return
    wanted = {turn.id for turn in turns}
    began = {n: turn.id for turn in timeline.history for n in turn.prompts}
    first = min((turns[0].opened, *turns[0].prompts))
    for batch in timeline.since(first - 1, turns[-1].closed or timeline.n):
        for entry in batch.entries:
            match entry:
                case Inbound() if entry.text and (turn := began.get(batch.n, batch.state.turn)) in wanted:
                    yield TurnMessage(
                        turn=turn, id=entry.message_id, type="chat:user", at=entry.at, text=entry.text
                    )
                case Closed() | Deferred() if entry.answer and entry.turn in wanted:
                    text = linked(entry.answer, entry)
                    yield TurnMessage(
                        turn=entry.turn, id=f"n:{batch.n}", type="chat:assistant", at=batch.at, text=text
                    )
                case _:
                    pass
