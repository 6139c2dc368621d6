"""Turns and events as facts of the log: which batch began them, and which ended them."""

from __future__ import annotations

from stepline.model.base import Value
from stepline.model.entry import Inbound


class Turn(Value):
    """A turn. `opened` and `closed` are batch numbers, `closed` is 0 while it runs; `prompts` began it."""

    id: str
    started_at: str
    opened: int
    prompts: tuple[int, ...]
    closed: int = 0
    outcome: str = ""
    reason: str = ""


class Event(Value):
    """An inbound event and the batch that admitted it. `path` is empty while it waits for a turn to open."""

    n: int
    inbound: Inbound
    path: str = ""


def prompt_path(turn: str, index: int, message_id: str) -> str:
    """Return where the `index`-th message that opened a turn stands; the first has the plain path."""
    plain = f"ar:{turn}.user.prompt"
    return f"{plain}.{message_id}" if index else plain


def event_path(turn: str, event: Inbound) -> str:
    """Return where an event stands that came while `turn` was open, or that waited for it."""
    return f"ar:{turn}.external.{event.event}.{event.message_id}"
