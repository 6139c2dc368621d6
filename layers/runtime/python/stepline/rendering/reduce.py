"""Reductions: pieces in, shorter pieces out. Pure and idempotent.

The log keeps everything, and the path of a removed piece leads to its whole content.
Source: docs/concepts/context.md#forgetting.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from msgspec.structs import replace

from stepline.model.block import Hide
from stepline.model.entry import Feedback, Pruned
from stepline.rendering.piece import ALL, Kind, Piece
from stepline.rendering.quote import quote
from stepline.rendering.text_form import TextForm

KEPT: Final[frozenset[Kind]] = frozenset({"header", "event", "note", "feedback", "card", "memory", "plans"})
"""Kinds of a turn that always stay."""
KEPT_CALLS: Final = frozenset({"react.plan"})
"""Tools whose calls stay with a turn: its plans."""
STUB_FROM_BYTES: Final = 400
"""The size up to which a tool's result is unchanged in a turn that remains a turn."""
CLIP_BYTES: Final = 4_000
"""Maximum bytes of a message or an answer of such a turn."""
IMAGES_KEPT: Final = 2
IMAGES_KEPT_BYTES: Final = 750_000
"""Limits of the newest pictures and PDFs that stay: their number, and their total bytes."""


def prune(pieces: Sequence[Piece], entry: Pruned, newest: int, form: TextForm) -> list[Piece]:
    """Return the pieces with turns up to `newest - keep` collapsed and other turns lightened, except the intact ones.

    In intact turns, too, rounds up to the batch `settled` are lightened.
    """
    found: list[Piece] = []
    images = _newest_images(pieces)
    for number, group in groupby(pieces, key=lambda piece: piece.turn):
        own = list(group)
        if number <= newest - entry.keep:
            found += _collapsed(own, form)
        elif number <= newest - entry.intact:
            found += _lightened(own, form, images)
        elif entry.settled:
            settled = next((i for i, piece in enumerate(own) if piece.n > entry.settled), len(own))
            opening = next((i for i, piece in enumerate(own[:settled]) if piece.round), settled)
            found += [*own[:opening], *_lightened(own[opening:settled], form, images), *own[settled:]]
        else:
            found += own
    return found


def shortened(pieces: Sequence[Piece], entry: Pruned, newest: int) -> int:
    """Return the number of leading pieces that a pruning shortened, or would have."""
    whole = (
        i for i, piece in enumerate(pieces) if piece.turn > newest - entry.intact and piece.n > entry.settled
    )
    return next(whole, len(pieces))


def _collapsed(own: Sequence[Piece], form: TextForm) -> list[Piece]:
    """Return the kept pieces of a turn, with a card in place of the first removed one."""
    removed = [piece for piece in own if not _stays(piece)]
    if not removed:
        return list(own)
    first = next(index for index, piece in enumerate(own) if not _stays(piece))
    kept = [piece for piece in own[first:] if _stays(piece)]
    return [*own[:first], _card(removed, form), *kept]


def _stays(piece: Piece) -> bool:
    return piece.kind in KEPT or (piece.kind == "call" and piece.tool in KEPT_CALLS)


def _card(removed: Sequence[Piece], form: TextForm) -> Piece:
    last = removed[-1]
    summary = next((piece for piece in reversed(removed) if piece.kind == "summary"), None)
    if summary is None:
        return Piece(kind="card", n=last.n, turn=last.turn, text=form.rows(removed))
    text = form.card(summary)
    return replace(
        summary, kind="card", n=last.n, text=text, shows=ALL if quote(summary.hint) in text else ""
    )


def _lightened(own: Sequence[Piece], form: TextForm, images: frozenset[str]) -> list[Piece]:
    """Return the pieces without those that can be read again or were useful only while new.

    A call that has only stubs left loses its status, too.
    """
    found = [_lighter(piece, form, images) for piece in own]
    shown = {piece.call for piece in found if piece.kind == "result" and piece.bulk}
    stubs = {piece.call for piece in found if piece.kind == "result" and not piece.bulk} - shown
    return [
        _stub(piece, form) if piece.kind == "status" and piece.bulk and piece.call in stubs else piece
        for piece in found
    ]


def _lighter(piece: Piece, form: TextForm, images: frozenset[str]) -> Piece:
    match piece.kind:
        case "thinking":
            return _stub(piece, form)
        case "code" if piece.shows and piece.size > STUB_FROM_BYTES:
            return _stub(piece, form)
        case "result" if piece.bulk and piece.size > STUB_FROM_BYTES and piece.path not in images:
            return _stub(piece, form)
        case "prompt" | "answer" if piece.shows and piece.size > CLIP_BYTES:
            return replace(piece, text=form.clipped(piece, CLIP_BYTES), shows="")
        case _:
            return piece


def _stub(piece: Piece, form: TextForm) -> Piece:
    """Return a piece as its stub, if that is shorter."""
    text = form.stub(piece)
    return (
        replace(piece, text=text, shows="", bulk=False, media=None) if len(text) < len(piece.text) else piece
    )


def _newest_images(pieces: Sequence[Piece]) -> frozenset[str]:
    """Return the paths of the newest pictures and PDFs that stay within the limits."""
    kept: dict[str, int] = {}
    for piece in reversed(pieces):
        if piece.mime.startswith("image/") or piece.mime == "application/pdf":
            kept.setdefault(piece.path, piece.size)
            if len(kept) > IMAGES_KEPT or sum(kept.values()) > IMAGES_KEPT_BYTES:
                kept.popitem()
                break
    return frozenset(kept)


def hide(pieces: Sequence[Piece], overlay: Hide, form: TextForm) -> list[Piece]:
    """Return the pieces with those of the overlay's batch and path hidden.

    The first one gets the replacement as its text, others an empty text.
    """
    found, left = list(pieces), overlay.replacement
    for index, piece in enumerate(pieces):
        if piece.n == overlay.n and overlay.path in (piece.path, piece.view) and piece.text:
            text = form.hidden(piece, left) if left else ""
            found[index] = replace(piece, text=text, shows="", bulk=False, media=None)
            left = ""
    return found


def answer_to(pieces: Sequence[Piece], entry: Feedback, path: str, text: str, number: int) -> list[Piece]:
    """Return the pieces with a feedback after turn `number`; it replaces the earlier one of the same origin.

    A withdrawn feedback is replaced by a text that says so. The user's feedback precedes a machine's. If the turn was
    compacted, both follow the memory.
    """
    kept = [p for p in pieces if not (p.kind == "feedback" and p.path == path and p.tool == entry.origin)]
    turn = number if any(piece.turn == number for piece in kept) else 0
    machines = [i for i, p in enumerate(kept) if p.kind == "feedback" and p.path == path]
    if entry.origin == "user" and machines:
        position = machines[0]
    else:
        position = max((i for i, piece in enumerate(kept, 1) if piece.turn == turn), default=0)
    about = Piece(kind="feedback", n=0, turn=turn, text=text, path=path, tool=entry.origin)
    return [*kept[:position], about, *kept[position:]] if position else kept
