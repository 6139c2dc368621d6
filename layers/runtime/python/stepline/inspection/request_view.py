"""The request of a round in parts and pieces: the text that the model read, the sizes, and the effect of the cache.

Tokens are estimates. The provider's count and the marks show which parts were read from a cache and which were written
to one: a cache holds a request up to a mark. To trace reductions, the log is folded from one reduction to the next, and
the pieces before and after each are compared.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from stepline.inspection.rounds import WholeValue
from stepline.inspection.sent_request import (
    PartRole,
    SentRequest,
    read_staged,
    read_system,
    read_upto,
    render_sent,
)
from stepline.log.journal import Journal, lane_of
from stepline.model.batch import Batch
from stepline.model.entry import Compacted, Opened, Pruned, Resulted
from stepline.model.usage import Usage, estimate_tokens
from stepline.ports.model import Content, Part
from stepline.rendering.piece import Kind, Piece, byte_length
from stepline.timeline.fold import Timeline

MERGED: Final[frozenset[Kind]] = frozenset({"card", "memory", "checkpoint"})
"""Kinds that replace several pieces."""

Key: TypeAlias = tuple[int, str, str, str, str, int]


class Reduced(WholeValue):
    """The reduction of a piece: its reason, the tokens before it, and the path of the whole content.

    `why` is `hidden`, `pruned: ttl`, `pruned: price`, `pruned: budget` or `compacted`.
    """

    why: str
    from_tokens: int
    path: str


class Traced(NamedTuple):
    """A timeline, and the reductions of its pieces by key."""

    timeline: Timeline
    reduced: Mapping[Key, Reduced]

    def pieces(self) -> Iterator[tuple[Piece, Reduced | None]]:
        """Yield the pieces that the model reads or that were removed, each with its reduction."""
        for key, piece in zip(keys_of(self.timeline.pieces), self.timeline.pieces, strict=True):
            reduced = self.reduced.get(key)
            if piece.text or reduced:
                yield piece, reduced


def trace(timeline: Timeline, batches: Iterable[Batch]) -> Traced:
    """Return the timeline extended by these batches, and the reductions in them."""
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
    """Yield a key for each piece, which a reduction does not change."""
    count: Counter[tuple[int, str, str, str, str]] = Counter()
    for piece in pieces:
        key = (piece.n, piece.kind, piece.path, piece.call, piece.view)
        yield (*key, count[key])
        count[key] += 1


def _why(batch: Batch) -> str:
    """Return why a batch reduces the timeline; "" if it does not."""
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
    """Add the reductions of one batch."""
    old = dict(zip(keys_of(before.pieces), before.pieces, strict=True))
    new = dict(zip(keys_of(after.pieces), after.pieces, strict=True))
    removed = [(piece, _whole(found, key, piece)) for key, piece in old.items() if key not in new]
    merging = {piece.turn for key, piece in new.items() if key not in old and piece.kind in MERGED}
    for key, piece in new.items():
        if key in old:
            if old[key].text != piece.text:
                tokens = _whole(found, key, old[key])
                found[key] = Reduced(why=why, from_tokens=tokens, path=piece.path)
        elif piece.kind in MERGED:
            own = [tokens for one, tokens in removed if _replaces(piece, one, merging)]
            found[key] = Reduced(why=why, from_tokens=sum(own), path=piece.path or _index(after, piece))


def _whole(found: Mapping[Key, Reduced], key: Key, piece: Piece) -> int:
    """Return the tokens of a piece before its first reduction."""
    return found[key].from_tokens if key in found else estimate_tokens(piece.text)


def _replaces(merged: Piece, removed: Piece, merging: set[int]) -> bool:
    """Return True if a merged piece replaces a removed one: of the same turn, or, for a memory, of any turn without one."""
    return removed.turn == merged.turn or (merged.kind == "memory" and removed.turn not in merging)


def _index(timeline: Timeline, piece: Piece) -> str:
    return f"ar:{timeline.history[piece.turn - 1].id}.react.turn.index" if piece.turn else ""


CacheClass: TypeAlias = Literal["read", "written", "plain"]
DIGEST_CHARS = 16


class PieceView(WholeValue):
    """A piece of a request: the batch that added it, its turn's id and the round (from 1; 0 is none), and its text.

    Its `path` leads to its whole content. A file has no text, and its digest is that of its content. `hidden`: the text
    belongs to the deployment, and is not shown to this caller.
    """

    n: int
    turn: str
    round: int
    kind: str
    path: str
    digest: str
    tokens: int
    text: str
    reduced: Reduced | None = None
    hidden: bool = False


class PartView(WholeValue):
    """A part of a request. `mark` is true if a cache may hold the request up to the end of this part."""

    role: PartRole
    mark: bool
    tokens: int
    size_bytes: int
    cache: CacheClass
    pieces: tuple[PieceView, ...]


class RequestView(WholeValue):
    """The request of a round. `estimated`: the provider did not count it, so its cache use is unknown.

    `max_tokens` is the limit of a request of the turn, 0 if that is not recorded. `equal`: these are the bytes that were
    sent, by their `digest`, the beginning of their SHA-256; false if the release that sent them rendered differently.
    """

    decided_n: int
    rendered_n: int
    digest: str
    equal: bool
    tokens: int
    max_tokens: int
    estimated: bool
    parts: tuple[PartView, ...]


def read_request(journal: Journal, n: int, *, forked: int = 0) -> RequestView:
    """Return the request that the decision of batch `n` answered, from the log and the stored contents.

    `forked` is the first batch of a fork: what is stored for an earlier one is stored for its origin. Raises
    NotFoundError `round_not_found`, DependencyError.
    """
    batches = read_upto(journal, n)
    decided = batches[-1]
    traced = trace(Timeline.empty(journal.lane), batches[: decided.state.rendered])
    artifacts, lane = journal.ports.artifacts, journal.lane
    lane = lane_of(journal.ports.log, lane, n) if n < forked else lane
    sent = render_sent(
        traced.timeline,
        decided,
        system=read_system(artifacts, lane, batches),
        staged=read_staged(artifacts, lane, decided),
    )
    opened = [entry for batch in batches for entry in batch.entries if isinstance(entry, Opened)]
    return view_request(sent, traced, max_tokens=opened[-1].max_tokens)


def view_request(sent: SentRequest, traced: Traced, *, max_tokens: int) -> RequestView:
    """Return the request in parts and pieces; `traced` is its timeline with its reductions."""
    parts = (*sent.request.system, *sent.request.content)
    groups = iter(_pieces_by_part(traced))
    pieces = [
        next(groups) if role == "timeline" else _sections(part, role)
        for part, role in zip(parts, sent.roles, strict=True)
    ]
    usage = sent.decision.usage or Usage(estimated=True)
    classes = classify_parts(parts, usage)
    views = tuple(
        PartView(
            role=role,
            mark=isinstance(part, Part) and part.cache,
            tokens=part.tokens,
            size_bytes=byte_length(part.text) if isinstance(part, Part) else part.body.size_bytes,
            cache=kind,
            pieces=own,
        )
        for part, role, kind, own in zip(parts, sent.roles, classes, pieces, strict=True)
    )
    return RequestView(
        decided_n=sent.decided.n,
        rendered_n=sent.timeline.n,
        digest=sent.sent.sha256,
        equal=sent.equal,
        tokens=sum(view.tokens for view in views),
        max_tokens=max_tokens,
        estimated=usage.estimated,
        parts=views,
    )


def conceal_system(view: RequestView) -> RequestView:
    """Return the request without the text of its system part, which is the deployment's."""
    return replace(
        view, parts=tuple(replace(part, pieces=tuple(map(conceal, part.pieces))) for part in view.parts)
    )


def conceal(piece: PieceView) -> PieceView:
    """Return a piece of the system part without its text; any other unchanged."""
    return replace(piece, text="", hidden=True) if piece.kind == "system" else piece


def classify_parts(parts: Sequence[Content], usage: Usage) -> list[CacheClass]:
    """Return for each part whether it was read from a cache, written to one, or neither.

    A cache is read up to a mark: the mark whose share of the marked tokens is closest to the provider's count.
    """
    marks = [index for index, part in enumerate(parts, 1) if isinstance(part, Part) and part.cache]
    written = usage.cache_write_5m_tokens + usage.cache_write_1h_tokens
    held = usage.cache_read_tokens + written
    if not (marks and held):
        return ["plain"] * len(parts)
    sums = {mark: sum(part.tokens for part in parts[:mark]) for mark in (0, *marks)}
    most = sums[marks[-1]] or 1
    read = min(sums, key=lambda mark: abs(sums[mark] / most - usage.cache_read_tokens / held))
    last = marks[-1] if written else read
    return ["read" if index < read else "written" if index < last else "plain" for index in range(len(parts))]


def _pieces_by_part(traced: Traced) -> Iterator[tuple[PieceView, ...]]:
    """Yield the pieces of each part of the timeline; the last part may be one that no request has ended."""
    timeline = traced.timeline
    shown = {id(piece): reduced for piece, reduced in traced.pieces()}
    bounds, turns = [0, *timeline.parts.ends, len(timeline.pieces)], timeline.turns
    for index, (start, end) in enumerate(pairwise(bounds)):
        pieces = timeline.pieces[start:end]
        if index < len(timeline.parts.ends) or any(piece.text for piece in pieces):
            yield tuple(_view(one, turns, shown[id(one)]) for one in pieces if id(one) in shown)


def _view(piece: Piece, turns: Sequence[str], reduced: Reduced | None) -> PieceView:
    return PieceView(
        n=piece.n,
        turn=turns[piece.turn - 1] if piece.turn else "",
        round=piece.round,
        kind=piece.kind,
        path=piece.path,
        digest=_digest(piece.text),
        tokens=estimate_tokens(piece.text),
        text=piece.text,
        reduced=reduced,
    )


def _sections(part: Content, role: PartRole) -> tuple[PieceView, ...]:
    """Return a part outside the timeline as pieces: a journal by its sections, any other part as one piece."""
    if role != "journal" or not isinstance(part, Part):
        return (_piece(part, role),)
    from stepline.inspection.sent_journal import split_digest  # noqa: PLC0415 - most requests have the other layout

    return tuple(_piece(Part(text=text), role) for text in split_digest(part.text))


def _piece(part: Content, role: PartRole) -> PieceView:
    """Return a part outside the timeline as one piece."""
    return PieceView(
        n=0,
        turn="",
        round=0,
        kind=role,
        path="" if isinstance(part, Part) else part.path,
        digest=_digest(part.text) if isinstance(part, Part) else part.body.sha256[:DIGEST_CHARS],
        tokens=part.tokens,
        text=part.text if isinstance(part, Part) else "",
    )


def pieces_of(view: RequestView) -> Iterable[PieceView]:
    """Yield the pieces of a request in order."""
    return (piece for part in view.parts for piece in part.pieces)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_CHARS]
