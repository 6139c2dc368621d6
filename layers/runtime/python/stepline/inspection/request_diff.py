"""The difference of two requests, by the identity of their pieces: exact, and listed piece by piece.

A provider's cache ends at the first byte that differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal, TypeAlias

from msgspec.structs import replace

from stepline.inspection.request_view import PieceView, RequestView, conceal, pieces_of
from stepline.inspection.rounds import WholeValue

Op: TypeAlias = Literal["same", "added", "removed", "changed"]


class DiffRun(WholeValue):
    """Adjacent pieces with the same change; `tokens` are those of the newer request, or of the removed pieces.

    Equal pieces have no texts. `before` has the older versions of changed pieces, in their order.
    """

    op: Op
    tokens: int
    pieces: tuple[PieceView, ...]
    before: tuple[PieceView, ...] = ()


class FirstDifference(WholeValue):
    """The first byte at which two requests differ, counted from the beginning, and the piece of the newer request there.

    `n`, `kind` and `path` describe the piece of the older request if the newer one ends there.
    """

    at_byte: int
    at_tokens: int
    n: int
    kind: str
    path: str


class RequestDiff(WholeValue):
    """The difference between the requests of `decided_n` and `to_n`; `first_difference` is None if they are equal."""

    decided_n: int
    to_n: int
    runs: tuple[DiffRun, ...]
    first_difference: FirstDifference | None


def diff_requests(older: RequestView, newer: RequestView) -> RequestDiff:
    """Return the difference between two requests. Both must have all of their texts."""
    old, new = list(pieces_of(older)), list(pieces_of(newer))
    return RequestDiff(
        decided_n=older.decided_n,
        to_n=newer.decided_n,
        runs=tuple(_runs(old, new)),
        first_difference=_first_difference(old, new),
    )


def conceal_system(diff: RequestDiff) -> RequestDiff:
    """Return the difference without the text of the system part, which is the deployment's."""
    return replace(
        diff,
        runs=tuple(
            replace(run, pieces=tuple(map(conceal, run.pieces)), before=tuple(map(conceal, run.before)))
            for run in diff.runs
        ),
    )


def _runs(old: Sequence[PieceView], new: Sequence[PieceView]) -> Iterator[DiffRun]:
    matcher = SequenceMatcher(None, [*map(_identity, old)], [*map(_identity, new)], autojunk=False)
    for op, a, b, c, d in matcher.get_opcodes():
        if op == "equal":
            yield DiffRun(op="same", tokens=_tokens(new[c:d]), pieces=tuple(map(_bare, new[c:d])))
        else:
            yield from _changes(old[a:b], new[c:d])


def _changes(old: Sequence[PieceView], new: Sequence[PieceView]) -> Iterator[DiffRun]:
    """Yield the changes of differing pieces: pieces at the same position are changed, the others removed or new."""
    places = [_position(piece) for piece in old], [_position(piece) for piece in new]
    for op, a, b, c, d in SequenceMatcher(None, *places, autojunk=False).get_opcodes():
        if op == "equal":
            yield DiffRun(
                op="changed", tokens=_tokens(new[c:d]), pieces=tuple(new[c:d]), before=tuple(old[a:b])
            )
            continue
        if a < b:
            yield DiffRun(op="removed", tokens=_tokens(old[a:b]), pieces=tuple(old[a:b]))
        if c < d:
            yield DiffRun(op="added", tokens=_tokens(new[c:d]), pieces=tuple(new[c:d]))


def _first_difference(old: Sequence[PieceView], new: Sequence[PieceView]) -> FirstDifference | None:
    pairs = zip(old, new, strict=False)
    same = next((i for i, (a, b) in enumerate(pairs) if a.digest != b.digest), min(len(old), len(new)))
    left, right = (b"".join(map(_data, pieces[same:])) for pieces in (old, new))
    if left == right:
        return None
    more = next(
        (i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
    )
    begun, at = sum(len(_data(piece)) for piece in new[:same]), more
    there = new[same:] or old[same:]
    while len(there) > 1 and at >= len(_data(there[0])):
        at -= len(_data(there[0]))
        there = there[1:]
    piece = there[0]
    return FirstDifference(
        at_byte=begun + more, at_tokens=_tokens(new[:same]), n=piece.n, kind=piece.kind, path=piece.path
    )


def _identity(piece: PieceView) -> tuple[str, int, str, str]:
    return piece.kind, piece.n, piece.path, piece.digest


def _position(piece: PieceView) -> tuple[str, int, str]:
    return piece.kind, piece.n, piece.path


def _bare(piece: PieceView) -> PieceView:
    return replace(piece, text="")


def _data(piece: PieceView) -> bytes:
    """Return the bytes of a piece; a file is represented by its digest."""
    return (piece.text or piece.digest).encode("utf-8", "surrogatepass") if piece.tokens else b""


def _tokens(pieces: Sequence[PieceView]) -> int:
    return sum(piece.tokens for piece in pieces)
