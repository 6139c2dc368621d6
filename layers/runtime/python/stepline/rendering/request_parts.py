"""The parts of a request: the pieces of a conversation, and the end of each part.

A provider caches whole prefixes of parts, so a sent part is sent again unchanged while a cache may
live. A part ends where a request or a turn ended: one per round, and one more per turn. Their number is
bounded by the budget of a request, because each part holds text and each reduction joins parts. An expired cache
joins all of them. Pieces and parts are strands.
Source: docs/concepts/context.md#marks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, Literal, Self, TypedDict, TypeVar, overload

from stepline.model.usage import BustReason
from stepline.ports.model import Part, digest_texts, extend_chain
from stepline.rendering.piece import Attached, Piece, byte_length, text_bytes


class Marks(TypedDict):
    """The ends of a request's parts, and how many of them a cache may hold; see `RequestParts`."""

    ends: list[int]
    size: int
    turn_part: int
    seen_part: int
    rewritten: BustReason | Literal[""]
    marked: list[int]
    media: list[Attached]
    steady_part: int
    chain: bytes


MARK_NAMES: Final = tuple(Marks.__annotations__)


class RequestParts:  # noqa: PLW1641 - no value that holds a list has a hash
    """Pieces, and the parts of a request that they make; `ends` are the piece counts at the parts' ends.

    `sealed` are the parts with their texts, `turn_part` counts those before the open turn, `seen_part` those
    of the newest request that a cache may still hold, and `rewritten` says why they are not the whole
    request. `marked` are the counts of parts after which a request had a mark. `size` are the bytes of all
    pieces, and `media` the files that they attached, the newest last. `steady_part` counts the parts that the newest
    pruning shortened, which the next one leaves as they are, unless it makes cards of turns; 0 without one. `chain` is
    the digest of the parts' texts (`stepline.ports.model.digest_texts`).

    A value, except for a `copy`, which can change until `settle` makes its parts; a part's text is made once.
    """

    __slots__ = (
        "_intact",
        "_kept",
        "_part_ends",
        "chain",
        "ends",
        "marked",
        "media",
        "pieces",
        "rewritten",
        "sealed",
        "seen_part",
        "size",
        "steady_part",
        "turn_part",
    )

    def __init__(
        self,
        pieces: Strand[Piece] | None = None,
        sealed: Strand[Part] | None = None,
        *,
        ends: Sequence[int] = (),
        size: int = 0,
        turn_part: int = 0,
        seen_part: int = 0,
        rewritten: BustReason | Literal[""] = "",
        marked: Sequence[int] = (),
        media: Sequence[Attached] = (),
        steady_part: int = 0,
        chain: bytes = b"",
    ) -> None:
        self.pieces, self.sealed = pieces or Strand(), sealed or Strand()
        self.ends, self.size = list(ends), size
        self.turn_part, self.seen_part, self.rewritten = turn_part, seen_part, rewritten
        self.marked, self.media, self.steady_part = list(marked), list(media), steady_part
        self.chain = chain
        self._part_ends: Sequence[int] = ends
        self._kept = self._intact = len(self.sealed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RequestParts) and all(
            getattr(self, name) == getattr(other, name) for name in self.__slots__ if not name.startswith("_")
        )

    def copy(self) -> RequestParts:
        """Return a copy that can change."""
        return RequestParts(self.pieces.copy(), self.sealed, **self.marks())

    def marks(self) -> Marks:
        """Return all fields but pieces and parts."""
        return Marks(
            ends=self.ends,
            size=self.size,
            turn_part=self.turn_part,
            seen_part=self.seen_part,
            rewritten=self.rewritten,
            marked=self.marked,
            media=self.media,
            steady_part=self.steady_part,
            chain=self.chain,
        )

    @property
    def fixed_part(self) -> int:
        """The parts at the end of which every request has a mark: up to the steady text, or before the open turn."""
        return self.steady_part or self.turn_part

    def add(self, piece: Piece) -> None:
        """Append a piece."""
        self.pieces.append(piece)
        self.size += byte_length(piece.text)
        if piece.media:
            self.media.append(piece.media)

    def lift(self, chosen: Callable[[Piece], bool]) -> list[Piece]:
        """Remove and return the chosen pieces among those that no recorded request sent."""
        loose = self.pieces.cut(self._end)
        lifted = [piece for piece in loose if chosen(piece)]
        for piece in loose:
            if not chosen(piece):
                self.pieces.append(piece)
        self.size -= text_bytes(lifted)
        return lifted

    def seal(self, upto: int) -> None:
        """End a part with the text of batch `upto`."""
        end, start = len(self.pieces), self._end
        while end > start and self.pieces[end - 1].n > upto:
            end -= 1
        self._seal(end)

    def open_turn(self) -> None:
        """Record that a turn begins after the newest part."""
        self.turn_part = len(self.ends)

    def send(self, upto: int) -> int:
        """Record that a request ended with the text of batch `upto`; return the bytes of pieces in it."""
        marks = [self.fixed_part, self.seen_part]
        self.seal(upto)
        for part in (*marks, len(self.ends)):
            self._mark(part)
        self.seen_part, self.rewritten = len(self.ends), ""
        return self.size - text_bytes(self.pieces[self._end :])

    def replace(
        self,
        pieces: Sequence[Piece],
        reason: BustReason,
        newest: int,
        *,
        dead: bool = False,
        steady: int = 0,
    ) -> None:
        """Replace the pieces; `dead`: no cache of the old ones is alive. `newest` is the number of the open turn.

        Parts before the first change stay, because a cache finds them by their ends; the rest before the open
        turn becomes one part, or two if its first `steady` pieces are to stay when the next ones are shortened.
        """
        old, first = self.pieces, first_change(self.pieces, pieces)
        if pieces is not old:
            self.pieces, self.media = Strand(pieces), [piece.media for piece in pieces if piece.media]
        if first < max(len(old), len(pieces)):
            self.size = text_bytes(pieces)
            self._intact = sum(end <= first for end in self._part_ends[: self._intact])
            self._cut(first, newest, reason, steady)
        if dead:
            self.rewritten = reason if self.seen_part else self.rewritten
            self._join(steady)
            self.seen_part, self.marked, self.turn_part = 0, [], len(self.ends)

    def settle(self) -> None:
        """Make the parts with their texts; the value no longer changes."""
        sealed, kept = self.sealed, self._kept
        if kept == len(sealed):
            parts = sealed.copy()
        else:
            parts = Strand(sealed[:kept])
            self.chain = digest_texts(parts)
        starts = [0, *self.ends]
        for start, end in zip(starts[kept:], self.ends[kept:], strict=False):
            text = "".join(self._texts(start, end))
            self.chain = extend_chain(self.chain, text.encode("utf-8", "surrogatepass"))
            parts.append(Part(text=text, chain=self.chain))
        self.sealed, self._part_ends = parts, tuple(self.ends)
        self._kept = self._intact = len(parts)

    def _texts(self, start: int, end: int) -> Iterator[str]:
        """Yield the texts of a span: of parts that are unchanged, and of the pieces after them."""
        ends = self._part_ends
        first = bisect_right(ends, start)
        if start == (ends[first - 1] if first else 0):
            for index in range(first, self._intact):
                if ends[index] > end:
                    break
                yield self.sealed[index].text
                start = ends[index]
        for piece in self.pieces[start:end]:
            yield piece.text

    @property
    def _end(self) -> int:
        return self.ends[-1] if self.ends else 0

    def _mark(self, part: int) -> None:
        """Record that a request had a mark after this many parts, none after 0."""
        at = bisect_left(self.marked, part)
        if part and self.marked[at : at + 1] != [part]:
            self.marked.insert(at, part)

    def _seal(self, end: int) -> None:
        if any(piece.text for piece in self.pieces[self._end : end]):
            self.ends.append(end)

    def _join(self, steady: int) -> None:
        """Join all parts into one, or two if the first ends after `steady` pieces."""
        old, last = self.ends, self._end
        self.ends = []
        self._seal(min(steady, last))
        self.steady_part = len(self.ends)
        self._seal(last)
        same = next(
            (i for i, ends in enumerate(zip(old, self.ends, strict=False)) if ends[0] != ends[1]), None
        )
        self._kept = min(self._kept, len(self.ends) if same is None else same)

    def _cut(self, first: int, newest: int, reason: BustReason, steady: int) -> None:
        whole = sum(end <= first for end in self.ends)
        self.marked = [part for part in self.marked if part <= whole]
        if whole < self.seen_part:
            # A cache holds a prefix only up to a mark of a request: the end of an unsent turn has none.
            self.seen_part, self.rewritten = max(self.marked, default=0), reason
        self._kept = min(self._kept, whole)
        self.ends = self.ends[:whole]
        self.steady_part = self.steady_part if self.steady_part <= whole else 0
        if whole < self.turn_part:
            if steady:
                self._seal(steady)
                self.steady_part = sum(end <= steady for end in self.ends)
            self._seal(turn_start(self.pieces, newest))
            self.turn_part = len(self.ends)


def first_change(old: Sequence[Piece], new: Sequence[Piece]) -> int:
    """Return the number of leading pieces with the same text in both."""
    if old is new:
        return len(old)
    pairs = enumerate(zip(old, new, strict=False))
    changed = (index for index, (a, b) in pairs if a is not b and a.text != b.text)
    return next(changed, min(len(old), len(new)))


def turn_start(pieces: Sequence[Piece], number: int) -> int:
    """Return the number of pieces before a turn."""
    return next((index for index, piece in enumerate(pieces) if piece.turn >= number), len(pieces))


T = TypeVar("T")


class Strand(Sequence[T]):
    """Items in order. `older` makes the first `before` of them.

    A segment has thousands of items, and most rounds read only the newest. New items are appended; a
    copy shares all existing ones.
    """

    __slots__ = ("_before", "_newer", "_older")

    def __init__(
        self, newer: Iterable[T] = (), *, before: int = 0, older: Callable[[], Sequence[T]] = tuple
    ) -> None:
        """Begin with the newer items; `older` is called each time its items are needed."""
        self._newer, self._before, self._older = list(newer), before, older

    def copy(self) -> Self:
        """Return a copy that can be appended to."""
        return type(self)(self._newer, before=self._before, older=self._older)

    def append(self, item: T) -> None:
        """Append an item."""
        self._newer.append(item)

    def cut(self, at: int) -> list[T]:
        """Remove and return the items from index `at` on; `at` must not be among the `older` items."""
        start = at - self._before
        items = self._newer[start:]
        del self._newer[start:]
        return items

    def __len__(self) -> int:
        return self._before + len(self._newer)

    @overload
    def __getitem__(self, at: int) -> T: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[T]: ...

    def __getitem__(self, at: int | slice) -> T | Sequence[T]:
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

    def __iter__(self) -> Iterator[T]:
        return chain(self._older(), self._newer) if self._before else iter(self._newer)

    def __reversed__(self) -> Iterator[T]:
        yield from reversed(self._newer)
        if self._before:
            yield from reversed(self._older())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        return f"Strand({list(self)!r})"
