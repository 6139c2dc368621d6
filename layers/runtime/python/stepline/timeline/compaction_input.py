"""What a model is given to sum up: the pieces that are about to go, as a conversation with roles, in chunks that fit.

The summaries that turns already have come first. Long results are shown by shape and sample, and where there is
more than a few calls can take, by less.
Source: docs/concepts/context.md#compaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from stepline.timeline.compacted import share
from stepline.timeline.compaction import Outline, open_pieces
from stepline.timeline.fold import Timeline
from stepline.timeline.piece import Kind, Piece, byte_length, estimate_bytes
from stepline.timeline.render.quote import INDENT, quote
from stepline.timeline.render.shape import render_shape

CALLS_MAX: Final = 4
"""Calls that one summary may take."""
LONG_TOKENS: Final = 3_000
"""A result of more is shown by its shape, if it is JSON, its beginning and its end."""
SHAPE_CHARS: Final = 4_000
BEGINNING_CHARS: Final = 6_000
END_CHARS: Final = 2_000
CHUNK_MIN_BYTES: Final = 2_000

_ROLES: Final[dict[Kind, str]] = {
    "prompt": "user",
    "event": "event",
    "thinking": "assistant thinking",
    "notes": "assistant",
    "call": "tool call",
    "notice": "notice",
    "raw": "assistant, interrupted",
    "result": "tool result",
    "status": "tool result",
    "answer": "assistant",
    "outcome": "notice",
    "note": "internal note",
    "stage": "stage",
    "closing": "notice",
    "message": "notice",
    "feedback": "feedback",
    "card": "working summary",
    "plans": "plans",
    "checkpoint": "working summary",
    **dict.fromkeys(("code",), "program"),
}
"""Whose words a piece is. A turn's header and the frame of a round are nobody's, and an older memory is not read again."""


def history_pieces(timeline: Timeline, outline: Outline) -> list[Piece]:
    """Return the pieces of the turns that are about to go."""
    return [piece for piece in timeline.pieces if 0 < piece.turn < outline.first_kept]


def prefix_pieces(timeline: Timeline, outline: Outline) -> list[Piece]:
    """Return the pieces of the open turn up to where it is split: what it is about, and the rounds that are about to go."""
    own = open_pieces(timeline, len(timeline.history))
    return [piece for piece in own if piece.n <= outline.entry.split and piece.kind != "checkpoint"]


def serialise(pieces: Iterable[Piece], turns: Sequence[str]) -> list[str]:
    """Return passages: summaries first, then everything in the order of the log, under the role that it has.

    `turns` are the ids of all turns.
    """
    found = list(pieces)
    summaries = [_passage("working summary", quote(p.hint)) for p in found if p.kind == "summary" and p.hint]
    passages: list[str] = []
    turn = role = ""
    for piece in found:
        if piece.kind not in _ROLES or not piece.text.strip():
            continue
        if piece.turn and turns[piece.turn - 1] != turn:
            turn, role = turns[piece.turn - 1], ""
            passages.append(f"=== turn {turn}\n")
        passages.append(
            _shortened(piece)
            if role == _ROLES[piece.kind]
            else _passage(_ROLES[piece.kind], _shortened(piece))
        )
        role = _ROLES[piece.kind]
    return [*summaries, *passages]


def split_chunks(passages: Sequence[str], most_bytes: int) -> list[str]:
    """Return the passages in few texts of at most `most_bytes`; where they are too much, the longest are cut.

    No passage is spread over two texts.
    """
    room = max(CHUNK_MIN_BYTES, most_bytes)
    # A text may end early, by the length of the passage that begins the next one: half of each is sure to be used.
    limit = min(share(map(byte_length, passages), CALLS_MAX * room // 2), room)
    chunks: list[str] = []
    own: list[str] = []
    size = 0
    for passage in (cut_middle(passage, limit) for passage in passages):
        length = byte_length(passage)
        if own and size + length > room:
            chunks.append("".join(own))
            own, size = [], 0
        own.append(passage)
        size += length
    return [*chunks, "".join(own)] if own else chunks


def cut_middle(text: str, most_bytes: int) -> str:
    """Return a text without its middle, if it is longer than so many bytes."""
    body = text.encode("utf-8", "surrogatepass")
    if len(body) <= most_bytes:
        return text
    kept = max(0, most_bytes - 32)
    # What follows the cut is data, whatever it begins with: it stands indented.
    first, last = body[: kept * 3 // 4], body[len(body) - kept // 4 :]
    return f"{first.decode('utf-8', 'ignore')}\n[… cut]\n{INDENT}{last.decode('utf-8', 'ignore')}"


def _passage(role: str, text: str) -> str:
    return f"--- {role}\n{text}" if text.endswith("\n") else f"--- {role}\n{text}\n"


def _shortened(piece: Piece) -> str:
    text = piece.text.lstrip("\n")
    if piece.kind != "result" or estimate_bytes(byte_length(text)) < LONG_TOKENS:
        return text
    left_out = len(text) - BEGINNING_CHARS - END_CHARS
    if left_out <= 0:
        return text
    data = "\n".join(line[len(INDENT) :] for line in text.split("\n") if line.startswith(INDENT))
    shape = render_shape(data)[:SHAPE_CHARS]
    told = f"shape:\n{quote(shape)}\n" if shape else ""
    return (
        f"{told}{text[:BEGINNING_CHARS]}\n[… {left_out} of {len(text)} characters left out]\n"
        f"{INDENT}{text[-END_CHARS:]}"
    )
