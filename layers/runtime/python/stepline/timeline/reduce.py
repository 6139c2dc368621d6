"""Reductions: pieces in, shorter pieces out. Pure, and each done twice is the same as once.

The log keeps everything, and every path leads to the whole of what stood there.
Source: docs/concepts/context.md#forgetting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Final

from msgspec.structs import replace

from stepline.model.entry import Compacted, Feedback, Hide, Pruned
from stepline.model.plan import Plan
from stepline.timeline.piece import Kind, Piece
from stepline.timeline.render.layout import Layout

KEPT: Final[frozenset[Kind]] = frozenset({"header", "event", "note", "feedback", "card", "memory", "plans"})
"""What stays of a turn whatever else is left of it."""
OPENING: Final[frozenset[Kind]] = KEPT | {"prompt", "checkpoint"}
"""What stays of the open turn when its rounds are compacted."""
CARRIED: Final[frozenset[Kind]] = frozenset({"event", "note"})
"""What is carried along when a turn is compacted, up to CARRIED_MAX of each."""
CARRIED_MAX: Final = 32
STUBBED: Final[frozenset[Kind]] = frozenset({"result", "code"})


def prune(pieces: Sequence[Piece], entry: Pruned, newest: int, layout: Layout) -> list[Piece]:
    """Return the pieces with turns up to `newest - keep` collapsed, and bulk before the intact ones as stubs."""
    found: list[Piece] = []
    for number, group in groupby(pieces, key=lambda piece: piece.turn):
        own = list(group)
        if number <= newest - entry.keep:
            found += _collapsed(own, layout)
        elif number <= newest - entry.intact:
            found += _stubbed(own, layout, lambda _: True)
        elif number == newest and entry.settled:
            found += _stubbed(own, layout, lambda piece: piece.n <= entry.settled)
        else:
            found += own
    return found


def _collapsed(own: Sequence[Piece], layout: Layout) -> list[Piece]:
    kept = [piece for piece in own if piece.kind in KEPT]
    gone = [piece for piece in own if piece.kind not in KEPT]
    if not gone:
        return kept
    summary = next((piece for piece in reversed(gone) if piece.kind == "summary"), None)
    text = layout.card(summary) if summary else "".join([layout.row(piece) for piece in gone])
    path = summary.path if summary else ""
    return [*kept, Piece(kind="card", n=gone[-1].n, turn=gone[-1].turn, text=text, path=path)]


def _stubbed(own: Sequence[Piece], layout: Layout, chosen: Callable[[Piece], bool]) -> list[Piece]:
    return [_stub(piece, layout) if piece.bulk and chosen(piece) else piece for piece in own]


def _stub(piece: Piece, layout: Layout) -> Piece:
    text = layout.stub(piece)
    return replace(piece, text=text, shows="", bulk=False) if len(text) < len(piece.text) else piece


def hide(pieces: Sequence[Piece], overlay: Hide, layout: Layout) -> tuple[list[Piece], int]:
    """Return the pieces with what batch `n` brought at a path replaced, and the index of the first change."""
    found, first = list(pieces), len(pieces)
    for index, piece in enumerate(pieces):
        if piece.n == overlay.n and piece.path == overlay.path and piece.kind != "summary":
            text = (
                layout.hidden(piece, overlay.replacement)
                if first == len(pieces) and overlay.replacement
                else ""
            )
            found[index] = replace(piece, text=text, shows="", bulk=False)
            first = min(first, index)
    return found, first


def compact(
    pieces: Sequence[Piece],
    n: int,
    entry: Compacted,
    *,
    first_kept: int,
    turns: Sequence[str],
    plans: Sequence[Plan],
    layout: Layout,
) -> list[Piece]:
    """Return the pieces with every turn before number `first_kept` as a memory.

    The open turn's rounds up to `split` become a checkpoint. `n` is the batch that says so, `turns` are the ids of
    all turns.
    """
    kept = list(pieces)
    if entry.cut:
        gone = [piece for piece in pieces if piece.turn < first_kept]
        kept = [piece for piece in pieces if piece.turn >= first_kept]
        kept[:0] = _remembered(gone, n, entry, first_kept, turns, plans, layout)
    if entry.split:
        kept = _split(kept, n, entry, layout)
    return kept


def _remembered(
    gone: Sequence[Piece],
    n: int,
    entry: Compacted,
    first_kept: int,
    turns: Sequence[str],
    plans: Sequence[Plan],
    layout: Layout,
) -> list[Piece]:
    path = f"su:{entry.turn}.conv.range.summary"
    memory = Piece(
        kind="memory", n=n, turn=0, text=layout.memory(entry, path, turns[: first_kept - 1]), path=path
    )
    carried: list[Piece] = []
    for kind in ("event", "note"):
        newest = [piece for piece in gone if piece.kind == kind][-CARRIED_MAX:]
        carried += [replace(piece, turn=0, text=layout.carried(piece)) for piece in newest]
    text = layout.plans(plans)
    history = [Piece(kind="plans", n=n, turn=0, text=text)] if text else []
    return [memory, *carried, *history]


def _split(pieces: Sequence[Piece], n: int, entry: Compacted, layout: Layout) -> list[Piece]:
    newest = pieces[-1].turn
    found: list[Piece] = []
    place = -1
    for piece in pieces:
        own = piece.turn == newest and piece.n <= entry.split
        if own and piece.kind == "checkpoint":
            continue
        if own and piece.kind not in OPENING:
            place = len(found) if place < 0 else place
            continue
        found.append(piece)
    if place >= 0:
        path = f"ar:{entry.turn}.react.mid_turn.compaction.{n}"
        text = layout.checkpoint(entry, path)
        found.insert(place, Piece(kind="checkpoint", n=entry.split, turn=newest, text=text, path=path))
    return found


def answer_to(pieces: Sequence[Piece], entry: Feedback, path: str, text: str, number: int) -> list[Piece]:
    """Return the pieces with a feedback behind turn `number`, in place of what the same origin said before."""
    about = Piece(kind="feedback", n=0, turn=number, text=text, path=path, tool=entry.origin)
    kept = [p for p in pieces if not (p.kind == "feedback" and p.path == path and p.tool == entry.origin)]
    place = max((i for i, piece in enumerate(kept, 1) if piece.turn == number), default=0)
    return [*kept[:place], about, *kept[place:]] if place and number else kept
