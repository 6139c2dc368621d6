"""Pieces: what the model reads of a timeline, one block after another, each with what it takes to show it shorter.

A piece is made once, when its entry is folded, and is never made again: a round renders what is new. Forgetting
replaces pieces by shorter ones; the log keeps what they were made of, and their paths lead there.
Source: docs/concepts/context.md#pieces.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

from stepline.model.base import Row, Value
from stepline.model.usage import BYTES_PER_TOKEN

Kind: TypeAlias = Literal[
    "header",  # of a turn
    "prompt",
    "event",
    "round",  # the top of a round's frame
    "thinking",
    "notes",
    "code",
    "call",
    "notice",
    "raw",  # of an interrupted decision
    "status",  # the head of a result
    "result",
    "end",  # the end of a round's frame
    "answer",
    "outcome",
    "summary",  # of a turn, not shown while the turn is
    "note",  # of the agent's, for itself
    "stage",  # what the code of a bundle said
    "closing",
    "message",  # of the runtime's
    "feedback",
    "card",  # all that is left of a turn
    "memory",  # all that is left of several turns
    "plans",  # all that is left of their plans
    "checkpoint",  # all that is left of the open turn's rounds
]

ALL: Final = "="
"""The text shows all of what stands at its path, and that never changes."""


class Piece(Row):
    """A text the model reads, whole lines.

    `n` is the batch that brought it, `turn` counts turns from 1 and `round` the turn's rounds from 1; 0 is none.
    `path` is where the whole of it stands; `shows` is `ALL`, or the digest of the content that the text shows all
    of, or empty if it does not. `size` counts the content's bytes, `hint` is its beginning on one line (of a summary all of it), `range` what
    a ranged read asked for. `bulk`: it can be read again at its path, and is the first to be shown by a stub. What
    shows a part of another path has a `view`, a path of its own that leads to nothing but this piece.
    """

    kind: Kind
    n: int
    turn: int
    text: str
    path: str = ""
    shows: str = ""
    call: str = ""
    tool: str = ""
    round: int = 0
    mime: str = ""
    size: int = 0
    hint: str = ""
    range: str = ""
    bulk: bool = False
    view: str = ""


class Shown(Value):
    """Where the model sees the whole of a path now. `digest` is `ALL`, or 16 hex of the SHA-256 of what it sees."""

    path: str
    n: int
    turn_id: str
    call_id: str = ""
    digest: str = ALL


def text_bytes(pieces: Iterable[Piece]) -> int:
    """Return the bytes that the pieces have in a request."""
    return sum(byte_length(piece.text) for piece in pieces)


def byte_length(text: str) -> int:
    """Return the UTF-8 bytes of a text; a lone surrogate counts like any character of three."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def estimate_bytes(size: int) -> int:
    """Return about how many tokens so many bytes are."""
    return -int(-size // BYTES_PER_TOKEN)
