"""Pieces: what the model reads of a timeline, one block after another, each with what it takes to show it shorter.

A piece is made once, when its entry is folded, and is never made again: a round renders what is new. Forgetting
replaces pieces by shorter ones; the log keeps what they were made of, and their paths lead there.
Source: docs/concepts/context.md#pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Literal, Self, TypeAlias, overload

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
    of, or empty if it does not. `size` counts the content's bytes, `hint` is its beginning on one line, `range` what
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


class Pieces(Sequence[Piece]):
    """Pieces in the order of the log, of which the oldest may have to be made first.

    A segment brings thousands of pieces, and most rounds look at the newest only: `older` returns the first `before`
    when somebody wants one of them. What is appended stands behind; a copy shares everything that stands so far.
    """

    __slots__ = ("_before", "_newer", "_older")

    def __init__(
        self,
        newer: Iterable[Piece] = (),
        *,
        before: int = 0,
        older: Callable[[], Sequence[Piece]] = tuple,
    ) -> None:
        """Take pieces; `older` is called as often as its pieces are wanted."""
        self._newer, self._before, self._older = list(newer), before, older

    def copy(self) -> Self:
        """Return the same pieces, to be appended to."""
        return type(self)(self._newer, before=self._before, older=self._older)

    def append(self, piece: Piece) -> None:
        """Put a piece behind all others."""
        self._newer.append(piece)

    def __len__(self) -> int:
        return self._before + len(self._newer)

    @overload
    def __getitem__(self, at: int) -> Piece: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Piece]: ...

    def __getitem__(self, at: int | slice) -> Piece | Sequence[Piece]:
        before = self._before
        if not before:
            return self._newer[at]
        if isinstance(at, slice):
            start, stop, stride = at.indices(len(self))
            if stride == 1 and start >= before:
                return self._newer[start - before : max(0, stop - before)]
            return list(self)[at]
        index = at + len(self) if at < 0 else at
        return self._newer[index - before] if index >= before else self._older()[index]

    def __iter__(self) -> Iterator[Piece]:
        if self._before:
            yield from self._older()
        yield from self._newer

    def __reversed__(self) -> Iterator[Piece]:
        yield from reversed(self._newer)
        if self._before:
            yield from reversed(self._older())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # it grows


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
