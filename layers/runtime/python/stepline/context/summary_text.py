"""Texts of a compaction: the input of the summarising model, the runtime's own summaries, and the ledger.

The ledger follows a summary. A model may forget facts and their paths; the ledger does not. It is made
from the pieces alone, adopts the lines of the previous ledger, and is bounded: the newest lines stay.

The model's input is the pieces to be removed, as a conversation with roles, in chunks that fit. Existing
summaries of turns come first. Long results are shown by shape and sample, and shortened further if they
exceed a few calls.
Source: docs/concepts/context.md#compaction.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, TypeAlias

from stepline.context.compaction import Outline, open_pieces
from stepline.model.block import read_note
from stepline.rendering.excerpt import render_shape
from stepline.rendering.piece import Kind, Piece, byte_length, estimate_bytes
from stepline.rendering.quote import INDENT, clean_for_prompt, clip, inline, quote
from stepline.timeline.compacted import share
from stepline.timeline.fold import Timeline

Ledger: TypeAlias = Mapping[str, Sequence[str]]
"""Lines by section, the oldest first."""

READ: Final = "read-files"
MODIFIED: Final = "modified-files"
RECOVERABLE: Final = "recoverable-tool-results"
STANDING: Final = "standing-notes"
NOTED: Final = "noted"
CALLS: Final = "calls"
SECTIONS: Final[Mapping[str, int]] = {
    MODIFIED: 20,
    READ: 20,
    RECOVERABLE: 20,
    STANDING: 12,
    NOTED: 20,
    CALLS: 60,
}
"""The sections in order, with the maximum lines of each."""

RECOVERABLE_TOKENS: Final = 12_000
LINE_CHARS: Final = 320
GIST_CHARS: Final = 300
EARLIER: Final = "… "
"""Prefix of the line that counts dropped lines."""

_TAG: Final = re.compile(rf"<(/?(?:{'|'.join(SECTIONS)}))>")
PREFERENCE: Final = "P"
_BODIES: Final = ("card", "summary", "answer")
_SAID: Final[Mapping[str, str]] = {"notes": "", "answer": ", to the user"}


def take_ledger(pieces: Sequence[Piece], before: str, *, calls: bool) -> Ledger:
    """Return the ledger of the pieces, appended to that of `before`, the text of an earlier compaction.

    With `calls` it also has a line for each call.
    """
    _, old = split_text(before)
    noted = [line for piece in pieces if piece.kind == "note" for line in read_note(_data(piece))]
    new: dict[str, Iterable[str]] = {
        MODIFIED: (p.path for p in pieces if _is_file(p) and not _is_read(p)),
        READ: (p.path for p in pieces if p.kind == "result" and _is_read(p)),
        RECOVERABLE: (_recoverable(p) for p in pieces if estimate_bytes(p.size) >= RECOVERABLE_TOKENS),
        STANDING: [f"[{tag}] {said}" for tag, said in noted if tag == PREFERENCE],
        NOTED: [f"[{tag}] {said}" for tag, said in noted if tag != PREFERENCE],
        CALLS: _calls(pieces) if calls else (),
    }
    merged = {name: _newest([*old.get(name, ()), *new[name]], most) for name, most in SECTIONS.items()}
    return {name: lines for name, lines in merged.items() if lines}


def split_text(text: str) -> tuple[str, Ledger]:
    """Return a summary as its author wrote it, and the ledger after it."""
    lines = text.split("\n")
    opens = {f"<{name}>": name for name in SECTIONS}
    ends = {name: deque(at for at, line in enumerate(lines) if line == f"</{name}>") for name in SECTIONS}
    body: list[str] = []
    ledger: dict[str, list[str]] = {}
    at = 0
    while at < len(lines):
        name = opens.get(lines[at], "")
        left = ends[name] if name else deque[int]()
        while left and left[0] < at + 2:  # a section has at least one line
            left.popleft()
        if not left:
            body.append(lines[at])
            at += 1
            continue
        if inside := "\n".join(lines[at + 1 : left[0]]):
            ledger[name] = inside.split("\n")
        at = left[0] + 1
    return "\n".join(body).strip(), ledger


def compose(body: str, ledger: Ledger, most_bytes: int) -> str:
    """Return a summary and its ledger as one text of at most `most_bytes` when shown.

    The ledger gets half of that, or the bytes that the body leaves; its oldest lines are dropped first, starting with
    the longest section. Section tags in the body are escaped: they stay readable, but no longer act as tags.
    """
    kept = {name: list(lines) for name, lines in ledger.items()}
    whole = _TAG.sub(r"[\1]", clean_for_prompt(body)).strip()
    room = max(most_bytes // 2, most_bytes - shown_bytes(whole))
    while kept and shown_bytes(_render(kept)) > room:
        longest = max(kept, key=lambda name: sum(map(len, kept[name])))
        own = sum(not line.startswith(EARLIER) for line in kept[longest])
        kept[longest] = _newest(kept[longest], own * 3 // 4)
        kept = {name: lines for name, lines in kept.items() if lines}
    tail = _render(kept)
    return f"{fit_lines(whole, most_bytes - shown_bytes(tail))}{tail}".lstrip("\n")


def shown_bytes(text: str) -> int:
    """Return the bytes of a text as quoted in the prompt."""
    return byte_length(quote(text)) if text else 0


def fit_lines(text: str, most_bytes: int) -> str:
    """Return the longest beginning of a text that has `most_bytes` when shown, cut at a line if possible."""
    if shown_bytes(text) <= most_bytes:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if shown_bytes(f"{text[:middle]}…") <= most_bytes else (low, middle - 1)
    kept = text[:low]
    line = kept.rfind("\n")
    return f"{kept[:line] if line > low // 2 else kept}…" if low else ""


def tell_turns(pieces: Sequence[Piece], turns: Sequence[str], before: str, most_bytes: int) -> str:
    """Return one line per turn with its request and outcome: the summary of turns without a model.

    `before` is the summary of earlier turns, whose beginning stays; if there are too many turns, the
    oldest are counted.
    """
    body = fit_lines(clean_for_prompt(split_text(before)[0]), most_bytes // 3)
    own = [piece for piece in pieces if piece.turn]
    lines = [
        _line_of_turn(list(group), turns[number - 1])
        for number, group in groupby(own, key=lambda piece: piece.turn)
    ]
    return _join_newest(body, lines, most_bytes, "turns")


def tell_rounds(pieces: Sequence[Piece], before: str, most_bytes: int) -> str:
    """Return the agent's notes and answers, one line each: the summary of rounds without a model."""
    body = fit_lines(clean_for_prompt(split_text(before)[0]), most_bytes // 3)
    lines = [
        f"round {piece.round}{_SAID[piece.kind]}: {clip(piece.hint, GIST_CHARS)}"
        for piece in pieces
        if piece.kind in _SAID and piece.hint
    ]
    return _join_newest(body, lines, most_bytes, "rounds")


def _join_newest(body: str, lines: Sequence[str], most_bytes: int, what: str) -> str:
    kept = list(lines)
    while kept and shown_bytes("\n".join([body, *kept])) > most_bytes - 64:
        kept = kept[max(1, len(kept) // 4) :]
    dropped = len(lines) - len(kept)
    more = [f"{EARLIER}{dropped} earlier {what}"] if dropped else []
    return "\n".join([line for line in (body, *more, *kept) if line])


def _line_of_turn(own: Sequence[Piece], turn: str) -> str:
    asked = next((piece.hint for piece in own if piece.kind == "prompt"), "")
    ends = [piece for piece in own if piece.kind in _BODIES]
    ended = min(reversed(ends), key=lambda piece: _BODIES.index(piece.kind), default=None)
    parts = (
        f"asked: {clip(asked, GIST_CHARS)}" if asked else "",
        clip(_gist(ended), GIST_CHARS) if ended else "",
    )
    return f"{turn}: {' → '.join(part for part in parts if part) or 'nothing was answered'}"


def _data(piece: Piece) -> str:
    """Return the lines of foreign text in a piece, without their indentation."""
    return "\n".join(line[len(INDENT) :] for line in piece.text.split("\n") if line.startswith(INDENT))


def _gist(piece: Piece) -> str:
    if piece.hint:
        return inline(piece.hint)
    data = [line for line in piece.text.split("\n") if line.startswith(INDENT)]
    return inline(" ".join(data) or piece.text)


def _render(ledger: Ledger) -> str:
    found = [
        f"\n<{name}>\n" + "\n".join(ledger[name]) + f"\n</{name}>" for name in SECTIONS if name in ledger
    ]
    return "".join(found)


def _newest(lines: Iterable[str], most: int) -> list[str]:
    """Return the newest lines, each once, after a line that counts the dropped ones."""
    found = list(dict.fromkeys(reversed([clip(line, LINE_CHARS) for line in lines])))[::-1]
    counts = [line for line in found if line.startswith(EARLIER)]
    rest = [line for line in found if not line.startswith(EARLIER)]
    dropped = sum(_counted(line) for line in counts) + max(0, len(rest) - most)
    kept = rest[-most:] if most else []
    return [f"{EARLIER}{dropped} earlier", *kept] if dropped and kept else kept


def _counted(line: str) -> int:
    number = line.removeprefix(EARLIER).partition(" ")[0]
    return int(number) if number.isdecimal() else 0


def _calls(pieces: Sequence[Piece]) -> Iterator[str]:
    results: dict[str, list[Piece]] = {}
    for piece in pieces:
        if piece.kind == "result" and piece.call:
            results.setdefault(piece.call, []).append(piece)
    for piece in pieces:
        if piece.kind == "call":
            outcome = "; ".join(map(_result, results.get(piece.call, ()))) or "no text"
            yield f"round {piece.round} {piece.tool} {piece.path} ({clip(piece.hint, 100)}) → {outcome}"


def _result(piece: Piece) -> str:
    part = f" {piece.range}" if piece.range else ""
    return f"{piece.path}{part} ~{estimate_bytes(piece.size)} tokens: {clip(piece.hint, 80)}"


def _recoverable(piece: Piece) -> str:
    return f"{piece.path} ~{estimate_bytes(piece.size)} tokens {piece.tool}".rstrip()


def _is_read(piece: Piece) -> bool:
    return piece.tool == "react.read"


def _is_file(piece: Piece) -> bool:
    return piece.kind == "result" and piece.path.startswith("fi:")


CALLS_MAX: Final = 4
"""Maximum model calls of one summary."""
LONG_TOKENS: Final = 3_000
"""Longer results are shown by their shape, if they are JSON, their beginning and their end."""
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
"""The role of each kind of piece. Headers, the frames of rounds and older memories are left out."""


def history_pieces(timeline: Timeline, outline: Outline) -> list[Piece]:
    """Return the pieces of the turns to be removed."""
    return [piece for piece in timeline.pieces if 0 < piece.turn < outline.first_kept]


def prefix_pieces(timeline: Timeline, outline: Outline) -> list[Piece]:
    """Return the pieces of the open turn up to its split: its prompt, and the rounds to be removed."""
    own = open_pieces(timeline, len(timeline.history))
    return [piece for piece in own if piece.n <= outline.entry.split and piece.kind != "checkpoint"]


def serialise(pieces: Iterable[Piece], turns: Sequence[str]) -> list[str]:
    """Return passages: summaries first, then all pieces in the order of the log, under their roles.

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
    """Return the passages in few texts of at most `most_bytes`; if they are too long, the longest are cut.

    A passage is never split between two texts.
    """
    room = max(CHUNK_MIN_BYTES, most_bytes)
    # A text may end early by up to the length of the next passage, so at least half of each is used.
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
    """Return a text without its middle, if it is longer than `most_bytes`."""
    body = text.encode("utf-8", "surrogatepass")
    if len(body) <= most_bytes:
        return text
    kept = max(0, most_bytes - 32)
    # The text after the cut is data, whatever its first characters: it is indented.
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
    shape = render_shape(_data(piece))[:SHAPE_CHARS]
    heading = f"shape:\n{quote(shape)}\n" if shape else ""
    return (
        f"{heading}{text[:BEGINNING_CHARS]}\n[… {left_out} of {len(text)} characters left out]\n"
        f"{INDENT}{text[-END_CHARS:]}"
    )
