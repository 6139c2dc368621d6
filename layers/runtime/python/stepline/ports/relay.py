"""The way of running text: from the model's stream to the stored deltas and the listening clients.

Stored text of the running generation: one writer a claim, addressed by character offset.
"""

from __future__ import annotations

from typing import Final, Protocol

from stepline.model.base import Value
from stepline.model.ids import Lane


class RelayStream(Protocol):
    """The stream of one claim. Its one writer pushes; nothing it does may block the writer for long."""

    def push(self, name: str, text: str) -> None:
        """Append `text` to the lane `name` of the stream."""
        ...

    def close(self) -> None:
        """Store and post what is left. A piece that cannot be delivered is the resume's business, not an error."""
        ...


class Relay(Protocol):
    def open(self, lane: Lane, claim: int) -> RelayStream:
        """Begin the stream of a claim."""
        ...


DELTA_TTL_S: Final = 3600
"""Longer than any turn runs; the batch that settles a claim holds what its stream said."""


class Delta(Value):
    """`text` of lane `name` from character `off` on."""

    name: str
    off: int
    text: str


class Deltas(Protocol):
    def put(self, lane: Lane, claim: int, *deltas: Delta) -> None:
        """Store pieces, all of them or none; the same ones twice are one. More than one together cost less."""
        ...

    def since(self, lane: Lane, claim: int) -> list[Delta]:
        """Return every stored piece of the stream, ordered by lane name and offset, by a strong read."""
        ...
