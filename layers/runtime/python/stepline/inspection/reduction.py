"""The reductions of a conversation: which pieces a request shows shorter than they were, why, and from how much.

The log is folded from one reduction to the next; what a reduction changed is seen in the pieces before and behind it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from stepline.inspection.rounds import WholeValue
from stepline.model.batch import Batch
from stepline.model.entry import Compacted, Pruned, Resulted
from stepline.model.usage import estimate_tokens
from stepline.rendering.piece import Kind, Piece
from stepline.timeline.fold import Timeline

MERGED: Final[frozenset[Kind]] = frozenset({"card", "memory", "checkpoint"})
"""Kinds that stand in the place of several pieces."""

Key: TypeAlias = tuple[int, str, str, str, str, int]


class Reduced(WholeValue):
    """A piece is shown shorter than it was: why, from how many tokens, and the path of the whole.

    Why: `hidden`, `pruned: ttl`, `pruned: price`, `pruned: budget` or `compacted`.
    """

    why: str
    from_tokens: int
    path: str


class Traced(NamedTuple):
    """A timeline, and the reductions of its pieces by key."""

    timeline: Timeline
    reduced: Mapping[Key, Reduced]

    def pieces(self) -> Iterator[tuple[Piece, Reduced | None]]:
        """Yield the pieces that the model reads or that were taken out of its sight, each with its reduction."""
        for key, piece in zip(keys_of(self.timeline.pieces), self.timeline.pieces, strict=True):
            reduced = self.reduced.get(key)
            if piece.text or reduced:
                yield piece, reduced


def trace(timeline: Timeline, batches: Iterable[Batch]) -> Traced:
    """Return the timeline extended by these batches, and what was reduced on the way."""
    found: dict[Key, Reduced] = {}
    plain: list[Batch] = []
    for batch in batches:
        plain.append(batch)
        if why := _why(batch):
            before = timeline.extended(plain[:-1])
            timeline = before.extended(plain)
            plain = []
            _note(found, before, timeline, why)
    return Traced(timeline.extended(plain), found)


def keys_of(pieces: Sequence[Piece]) -> Iterator[Key]:
    """Yield a key for each piece, which it keeps when it is reduced."""
    count: Counter[tuple[int, str, str, str, str]] = Counter()
    for piece in pieces:
        key = (piece.n, piece.kind, piece.path, piece.call, piece.view)
        yield (*key, count[key])
        count[key] += 1


def _why(batch: Batch) -> str:
    """Return why a batch reduces what the model reads; "" if it does not."""
    for entry in batch.entries:
        match entry:
            case Pruned():
                return f"pruned: {entry.cause}"
            case Compacted(status="completed"):
                return "compacted"
            case Resulted(hides=hides) if hides:
                return "hidden"
            case _:
                pass
    return ""


def _note(found: dict[Key, Reduced], before: Timeline, after: Timeline, why: str) -> None:
    """Add what one batch reduced."""
    old = dict(zip(keys_of(before.pieces), before.pieces, strict=True))
    new = dict(zip(keys_of(after.pieces), after.pieces, strict=True))
    gone = [(piece, _whole(found, key, piece)) for key, piece in old.items() if key not in new]
    merging = {piece.turn for key, piece in new.items() if key not in old and piece.kind in MERGED}
    for key, piece in new.items():
        if key in old:
            if old[key].text != piece.text:
                tokens = _whole(found, key, old[key])
                found[key] = Reduced(why=why, from_tokens=tokens, path=piece.path)
        elif piece.kind in MERGED:
            own = [tokens for one, tokens in gone if _stands_for(piece, one, merging)]
            found[key] = Reduced(why=why, from_tokens=sum(own), path=piece.path or _index(after, piece))


def _whole(found: Mapping[Key, Reduced], key: Key, piece: Piece) -> int:
    """Return the tokens that a piece had before it was ever reduced."""
    return found[key].from_tokens if key in found else estimate_tokens(piece.text)


def _stands_for(merged: Piece, gone: Piece, merging: set[int]) -> bool:
    """Return True if a piece is gone for a merged one: of the same turn, or for a memory of any turn without one."""
    return gone.turn == merged.turn or (merged.kind == "memory" and gone.turn not in merging)


def _index(timeline: Timeline, piece: Piece) -> str:
    return f"ar:{timeline.history[piece.turn - 1].id}.react.turn.index" if piece.turn else ""
