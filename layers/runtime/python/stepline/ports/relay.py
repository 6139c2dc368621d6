"""The way of running text: from the model's stream to the stored deltas and the listening clients."""

from __future__ import annotations

from typing import Protocol

from stepline.model.ids import Lane
from stepline.ports.boundary import write


class RelayStream(Protocol):
    """The stream of one claim. Its one writer pushes; nothing it does may block the writer for long."""

    @write
    def push(self, name: str, text: str) -> None:
        """Append `text` to the lane `name` of the stream."""
        ...

    @write
    def close(self) -> None:
        """Store and post what is left. A piece that cannot be delivered is the resume's business, not an error."""
        ...


class Relay(Protocol):
    def open(self, lane: Lane, claim: int) -> RelayStream:
        """Begin the stream of a claim."""
        ...
