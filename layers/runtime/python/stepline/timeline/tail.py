"""The editable tail: the newest pieces, of which one may be hidden without spoiling much of what a cache holds.

Source: docs/concepts/context.md#hiding.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepline.timeline.piece import Piece
from stepline.timeline.rules import ContextRules


def pre_tail(pieces: Sequence[Piece], rules: ContextRules) -> int:
    """Return the index of the first piece that may be hidden: behind the round `offset_rounds` before the last one.

    A round that has not ended is none, and while there are fewer than `min_rounds` everything may be hidden: 0.
    """
    last: dict[tuple[int, int], int] = {}
    settled = False
    for back, piece in enumerate(reversed(pieces), 1):
        if piece.kind == "end":
            settled = True
        if not (piece.round and piece.text):
            continue
        last.setdefault((piece.turn, piece.round), len(pieces) - back)
        if piece.kind == "round":
            if not settled:
                del last[piece.turn, piece.round]
            settled = True
            if len(last) > rules.offset_rounds:
                break
    ends = list(last.values())
    if len(ends) < max(2, rules.min_rounds):
        return 0
    return ends[min(rules.offset_rounds, len(ends) - 1)] + 1 if rules.offset_rounds else 0


def find_group(pieces: Sequence[Piece], path: str) -> list[int]:
    """Return the indexes of the pieces that the newest batch brought at a path, as far as they are seen.

    `path` may be a view's own: then it is this one.
    """
    newest = 0
    found: list[int] = []
    for back, piece in enumerate(reversed(pieces), 1):
        if path in (piece.path, piece.view) and piece.text:
            newest = newest or piece.n
            if piece.n != newest:
                break
            found.append(len(pieces) - back)
    return found[::-1]
