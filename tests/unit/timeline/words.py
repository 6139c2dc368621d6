"""What the model reads of one entry, as one text."""

from __future__ import annotations

from collections.abc import Sequence

from stepline.model.entry import Decided, Resulted
from stepline.timeline.render.layout import STANDARD
from stepline.timeline.writer import Writer


def render_decision(entry: Decided, turn: str, *, attempt: int, unseen: Sequence[str]) -> str:
    pieces = Writer(STANDARD, turn, 1).decision(1, entry, attempt, unseen)
    return "".join(piece.text for piece in pieces)


def render_result(entry: Resulted, turn: str, *, last: bool) -> str:
    return "".join(piece.text for piece in Writer(STANDARD, turn, 1).result(1, entry, last=last))
