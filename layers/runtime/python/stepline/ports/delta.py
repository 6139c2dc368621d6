"""Stored text of the running generation: one writer a claim, addressed by character offset."""

from __future__ import annotations

from typing import Protocol

from stepline.model.base import Value
from stepline.model.ids import Lane


class Delta(Value):
    """`text` of lane `name` from character `off` on."""

    name: str
    off: int
    text: str


class Deltas(Protocol):
    def put(self, lane: Lane, claim: int, delta: Delta) -> None:
        """Store a piece; the same piece twice is one."""
        ...

    def since(self, lane: Lane, claim: int) -> list[Delta]:
        """Return every stored piece of the stream, ordered by lane name and offset, by a strong read."""
        ...
