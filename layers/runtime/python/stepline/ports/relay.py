"""The relay: passes running text from the model's stream to the stored deltas and the listening clients.

Stored deltas have one writer per claim, and are addressed by character offset.
"""

from __future__ import annotations

from typing import Final, Protocol

from stepline.model.base import Value
from stepline.model.ids import Lane
from stepline.model.usage import ModelCall


class RelayStream(Protocol):
    """The stream of one claim, with one writer. No method may block the writer for long."""

    def push(self, name: str, text: str) -> None:
        """Append `text` to the lane `name` of the stream."""

    def note(self, call: ModelCall) -> None:
        """Store a model call of the claim's writer, as `Deltas.note` does; a failure to store it is not an error."""

    def settle(self) -> None:
        """Declare that the writer puts a batch with the whole text next: `close` then stores no more of it."""

    def close(self) -> None:
        """Post the remaining text, and store it unless the stream is settled.

        A piece that cannot be delivered is not an error: a resume delivers it.
        """


class Relay(Protocol):
    def open(self, lane: Lane, claim: int) -> RelayStream:
        """Open the stream of a claim."""


DELTA_TTL_S: Final = 3600
"""Longer than any turn runs; the batch that settles a claim holds the text of its stream."""


class Delta(Value):
    """`text` of lane `name` from character `off` on."""

    name: str
    off: int
    text: str


class Deltas(Protocol):
    def put(self, lane: Lane, claim: int, *deltas: Delta) -> None:
        """Store pieces, all or none; storing the same pieces again has no effect. Several in one call cost less."""

    def note(self, lane: Lane, claim: int, call: ModelCall) -> None:
        """Store a model call that was made under a claim, replacing its earlier note.

        If the process that makes the call dies, another process records it. Notes stay as long as their conversation:
        receipts read those that were never recorded.
        """

    def notes(self, lane: Lane, since: int) -> dict[int, list[ModelCall]]:
        """Return the noted calls of a claim and of all later claims, by claim and id, by a strong read."""

    def since(self, lane: Lane, claim: int) -> list[Delta]:
        """Return every stored piece of the stream, ordered by lane name and offset, by a strong read."""
