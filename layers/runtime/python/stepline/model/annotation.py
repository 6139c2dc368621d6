"""Entries beside the course of a turn: what a conversation is called, and what bundles and users say about it."""

from __future__ import annotations

from typing import Literal

from stepline.model.base import Value
from stepline.model.block import Produced
from stepline.model.usage import Usage


class Titled(Value, tag="titled", tag_field="kind"):
    """The conversation has a title; `text` is what the gate stage said besides, and what that cost, if there was one."""

    title: str
    at: str
    turn: str = ""
    text: str = ""
    usage: Usage | None = None


class Contributed(Value, tag="contributed", tag_field="kind"):
    """Blocks that the code of a bundle puts on the timeline."""

    turn: str
    at: str
    blocks: tuple[Produced, ...]


class Feedback(Value, tag="feedback", tag_field="kind"):
    """What a user, or a machine, thinks of a turn's answer; the newest of an origin counts. One that says nothing takes it back."""

    turn: str
    at: str
    reaction: Literal["ok", "not_ok", "neutral"] | None = None
    text: str = ""
    origin: Literal["user", "machine"] = "user"
    confidence: float | None = None

    @property
    def withdrawn(self) -> bool:
        """Whether it says nothing any more."""
        return self.reaction is None and not self.text and self.confidence is None
