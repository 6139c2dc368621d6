"""Turns, events, requests and feedback as facts of the log, and their logical paths.

Source: docs/concepts/timeline.md#paths.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from stepline.model.base import Row, Value
from stepline.model.block import Block
from stepline.model.entry import Decided, Feedback, Inbound, Steered
from stepline.model.usage import Usage


class Turn(Row):
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


class Asked(Value):
    """The newest request: when it was sent, what the provider counted, and its facts.

    `tokens` is the whole request, `cached` the part of it that a cache holds from then on; both are 0 without
    a count by the provider. `size` are the bytes of the timeline in it, `system` is the digest of its system
    part, and `overhead_bytes` are those of all but the timeline; 0 if they were not recorded. The cache lives
    `lives_s` after its last use, by what the provider counted as written.
    """

    at: str = ""
    size: int = 0
    tokens: int = 0
    cached: int = 0
    system: str = ""
    model: str = ""
    overhead_bytes: int = 0
    lives_s: float = 300.0

    def idle_s(self, at: str) -> float:
        """Return the seconds from this request to a time of the log; 0 if there was no request."""
        return (
            (datetime.fromisoformat(at) - datetime.fromisoformat(self.at)).total_seconds() if self.at else 0.0
        )

    def after(self, entry: Decided, at: str, *, size: int, rewritten: bool = False) -> Asked:
        """Return the newest request once a decision is recorded at `at`; `size` bytes of timeline were sent.

        A call that was cut off before the provider counted it was sent all the same: the known values stay,
        but the cached tokens only if the call began as the one before, and was not `rewritten`. Of a request in the layout
        `journal` a cache serves what it promised, and its count says nothing of the timeline.
        """
        usage, journal = entry.usage, entry.sent is not None and entry.sent.layout == "journal"
        counted = usage is not None and not usage.estimated
        if entry.interrupted and not (counted and usage and usage.prompt_tokens):
            system, model = entry.system or self.system, entry.model or self.model
            alike = not rewritten and (system, model) == (self.system, self.model)
            began = entry.started_at or at
            return replace(self, at=began, system=system, model=model, cached=self.cached if alike else 0)
        cached = usage.prompt_tokens - usage.input_tokens if counted and usage else 0
        if journal and entry.sent:
            cached = min(cached, entry.sent.promised_tokens)
        return Asked(
            at=entry.started_at or at,
            size=size,
            tokens=usage.prompt_tokens if counted and usage and not journal else 0,
            cached=cached,
            system=entry.system or self.system,
            model=entry.model,
            overhead_bytes=entry.overhead_bytes,
            lives_s=self._life_s(usage),
        )

    def _life_s(self, usage: Usage | None) -> float:
        if usage is None or not (usage.cache_write_1h_tokens or usage.cache_write_5m_tokens):
            return self.lives_s
        return 3600.0 if usage.cache_write_1h_tokens else 300.0


NEVER_ASKED = Asked()


def prompt_path(turn: str, index: int, message_id: str) -> str:
    """Return the path of the `index`-th message that opened a turn; the first has the plain path."""
    plain = f"ar:{turn}.user.prompt"
    return f"{plain}.{message_id}" if index else plain


def event_path(turn: str, event: Inbound) -> str:
    """Return the path of an event that came while `turn` was open, or that waited for it."""
    return f"ar:{turn}.external.{event.event}.{event.message_id}"


def steered_path(entry: Steered) -> str:
    """Return the path of the message that a steer was heeded."""
    return f"ar:{entry.turn}.system.message.steered_{entry.n}"


def steer_path(entry: Steered) -> str:
    """Return the path of the steer that was heeded."""
    return f"ar:{entry.turn}.external.steer.{entry.message_id}"


def feedback_path(turn: str) -> str:
    """Return the logical path of a turn's feedback."""
    return f"ar:{turn}.feedback.latest"


def feedback_key(entry: Feedback) -> str:
    """Return the key by which a newer feedback replaces an older one: its turn and its origin."""
    return f"{entry.turn}/{entry.origin}"


def feedback_block(entry: Feedback) -> Block:
    """Return the newest feedback of one origin as a block of its turn; one that was withdrawn says so."""
    said: dict[str, Any] = {
        "origin": entry.origin,
        "reaction": entry.reaction,
        "confidence": entry.confidence,
    }
    if entry.withdrawn:
        said["withdrawn"] = True
    if entry.given_at:
        said["given_at"] = entry.given_at
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
