"""Pieces: the blocks of text that the model reads, each with the facts needed to shorten it.

A piece is made once, when its entry is folded: a round renders only new entries. A
reduction replaces pieces by shorter ones; the log keeps the originals, and their paths lead there.
Source: docs/concepts/context.md#pieces.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

from stepline.model.base import Row, Value
from stepline.model.block import Body
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
    "summary",  # of a turn; hidden while the turn itself is shown
    "note",  # of the agent, for itself; or of the runtime, about a fork
    "stage",  # text of a bundle's code
    "closing",
    "message",  # of the runtime
    "feedback",
    "card",  # replaces a turn
    "memory",  # replaces several turns
    "plans",  # replaces their plans
    "checkpoint",  # replaces the open turn's earlier rounds
]

ALL: Final = "="
"""The text shows all content of its path, and this content never changes."""


class Attached(Row):
    """A picture or a PDF that a read attached. `body` are the bytes that the model gets, of `extent`.

    `source` is the beginning of the hash of the content at `path`; the bytes may be a smaller version of this picture.
    """

    path: str
    body: Body
    tokens: int
    extent: str = ""
    source: str = ""


class Piece(Row):
    """A text that the model reads, in whole lines.

    `n` is the batch that added it, `turn` counts turns from 1 and `round` the turn's rounds from 1; 0 is
    none. `path` leads to its whole content; `shows` is `ALL`, or the digest of the content if the text shows
    all of it, or empty. `size` counts the content's bytes, `hint` is its beginning on one line (a whole
    summary), `range` the range of a ranged read. `bulk`: it can be read again at its path, and is the first
    to be replaced by a stub. A piece that shows a part of another path has a `view`, a separate path that
    leads only to this piece. Its text represents `media`, whose bytes are at the end of a request while they are among
    the newest.
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
    media: Attached | None = None


class Shown(Value):
    """The location where the model currently sees the whole content of a path.

    `digest` is `ALL`, or 16 hex of the content's SHA-256.
    """

    path: str
    n: int
    turn_id: str
    call_id: str = ""
    digest: str = ALL


def text_bytes(pieces: Iterable[Piece]) -> int:
    """Return the bytes of the pieces in a request."""
    return sum(byte_length(piece.text) for piece in pieces)


def byte_length(text: str) -> int:
    """Return the UTF-8 bytes of a text; a lone surrogate counts three."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def estimate_bytes(size: int) -> int:
    """Return the estimated tokens of `size` bytes."""
    return -int(-size // BYTES_PER_TOKEN)
