"""The rows of a conversation in the memory index: its closed turns, and its range summaries.

A row has the path of its whole text. A long text has several rows, cut between sentences, so that
one fact in a long answer is found by its meaning. Source: docs/concepts/memory.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Final

import msgspec

from stepline.model.block import Block, read_note
from stepline.model.entry import Compacted, Resulted
from stepline.model.memory_row import MEMORY_TEXT_CHARS, MemoryRow, RowKind
from stepline.model.path import SourcesPath
from stepline.model.plan_steps import Plan
from stepline.model.source import Source
from stepline.model.visible_text import shorten
from stepline.rendering.plan_text import render_steps
from stepline.rendering.turn_facts import Turn
from stepline.timeline.fold import Timeline

PIECE_CHARS: Final = 80
"""Sentences share a row up to this length: the shorter a row, the closer its vector is to a question about it.

One sentence may have up to `MEMORY_TEXT_CHARS`. Measured: docs/reference/bench.md, `memory_found_by_meaning`."""

_KINDS: Final[dict[str, RowKind]] = {
    "user.prompt": "prompt",
    "user.followup": "event",
    "user.steer": "event",
    "event.external": "event",
    "assistant.completion": "answer",
    "react.note": "note",
    "react.plan": "plan",
    "user.attachment": "attachment",
    "conv.working.summary": "summary",
}
_UNSHOWN: Final = ("promoted_to", "handed_back")
"""Metadata of an event that its turn never showed: it opened the next turn, or went back to its sender."""
_END: Final = re.compile(r"(?<=[.!?…])\s+|(?<=[\u3002\uff01\uff1f])|\n+")
_LAST: Final = 10**12
"""Larger than every batch number."""


def turn_rows(timeline: Timeline, turn: str) -> tuple[MemoryRow, ...]:
    """Return the rows of a turn; none for a turn that is unknown or still open."""
    found = _turn(timeline, turn)
    if found is None or not found.closed:
        return ()
    # A path with several blocks resolves to the last one.
    newest = {_path(block): block for block in timeline.turn_blocks(turn) if _is_shown(block, turn)}
    rows = [row for block in newest.values() for row in _block_rows(timeline, found, block)]
    return (*rows, *_source_rows(timeline, found), *range_rows(timeline, turn))


def range_rows(timeline: Timeline, turn: str) -> tuple[MemoryRow, ...]:
    """Return the rows of the range summaries that were made in a turn, which may be open."""
    found = _turn(timeline, turn)
    if found is None:
        return ()
    made = [
        (batch.n, entry)
        for batch in timeline.since(found.opened - 1, found.closed or _LAST)
        for entry in batch.entries
        if isinstance(entry, Compacted) and entry.turn == turn and entry.status == "completed" and entry.cut
    ]
    return tuple(
        MemoryRow(
            conversation=timeline.lane.conversation,
            turn=turn,
            kind="range",
            path=f"su:{turn}.conv.range.summary.{number}",
            text=text,
            at=entry.at,
            n=n,
            part=part,
            tags=tags,
            covers=entry.covered,
        )
        for number, (n, entry) in enumerate(made, 1)
        for part, (text, tags) in enumerate(_summary_pieces(entry.summary))
    )


def cut_text(text: str) -> list[str]:
    """Return a text in pieces of whole sentences, in order; none for a blank text."""
    pieces: list[str] = []
    begin = end = 0
    for first, last in _sentences(text):
        if last - begin > PIECE_CHARS and end > begin:
            pieces.append(text[begin:end])
            begin = first
        end = last
    pieces.append(text[begin:end])
    return [piece for whole in pieces if (piece := whole.strip())]


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each sentence or line begins and ends; one that is too long for a row is several."""
    begin = 0
    for end, following in [*((found.start(), found.end()) for found in _END.finditer(text)), (len(text), 0)]:
        while end - begin > MEMORY_TEXT_CHARS:
            yield begin, begin + MEMORY_TEXT_CHARS
            begin += MEMORY_TEXT_CHARS
        yield begin, end
        begin = following


def _turn(timeline: Timeline, turn: str) -> Turn | None:
    return next((one for one in reversed(timeline.history) if one.id == turn), None)


def _path(block: Block) -> str:
    """Return the path of a block; of a turn's summaries, the newest is at the plain one."""
    return block.path.partition(".attempt.")[0] if block.type == "conv.working.summary" else block.path


def _is_shown(block: Block, turn: str) -> bool:
    own = block.path[2:].startswith(f":{turn}.") and block.meta.get("source_path", block.path) == block.path
    return own and block.type in _KINDS and not any(block.meta.get(fact) for fact in _UNSHOWN)


def _block_rows(timeline: Timeline, turn: Turn, block: Block) -> Iterator[MemoryRow]:
    for part, (text, tags) in enumerate(_pieces(block)):
        yield MemoryRow(
            conversation=timeline.lane.conversation,
            turn=turn.id,
            kind=_KINDS[block.type],
            path=_path(block),
            text=text,
            at=block.ts,
            n=turn.closed,
            part=part,
            tags=tags,
        )


def _pieces(block: Block) -> Iterable[tuple[str, tuple[str, ...]]]:
    """Return the texts of a block's rows, each with the tags of a note's line."""
    match block.type:
        case "react.note":
            return _note_pieces(block.text)
        case "user.attachment":
            text = f"{block.meta.get('name', '')} ({block.mime})"
        case "react.plan":
            text = _plan_text(block.text)
        case _:
            text = block.text
    return [(piece, ()) for piece in cut_text(text)]


def _note_pieces(text: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the pieces of each tagged line with its tag; the lines before the first tag have none."""
    head = takewhile(lambda line: not read_note(line), text.splitlines())
    lines = [("", "\n".join(head)), *read_note(text)]
    return [(piece, (tag,) if tag else ()) for tag, line in lines for piece in cut_text(line)]


def _summary_pieces(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the pieces of a summary in order; a line that it took over from a note is one piece, with its tag."""
    plain: list[str] = []
    for line in [*text.splitlines(), "[K]"]:
        if noted := read_note(line):
            yield from ((piece, ()) for piece in cut_text("\n".join(plain)))
            yield from ((piece, (tag,)) for tag, text in noted for piece in cut_text(text))
            plain = []
        else:
            plain.append(line)


def _plan_text(snapshot: str) -> str:
    try:
        return render_steps(msgspec.json.decode(snapshot, type=Plan))
    except msgspec.MsgspecError:  # a block of a bundle may hold anything
        return snapshot


def _source_rows(timeline: Timeline, turn: Turn) -> Iterator[MemoryRow]:
    """Yield a row for each source that the turn added or changed, as the pool has it now."""
    changed: dict[int, str] = {
        row.sid: entry.at
        for batch in timeline.since(turn.opened - 1, turn.closed)
        for entry in batch.entries
        if isinstance(entry, Resulted)
        for row in entry.sources
    }
    for sid, at in changed.items():
        yield MemoryRow(
            conversation=timeline.lane.conversation,
            turn=turn.id,
            kind="source",
            path=str(SourcesPath(ranges=((sid, sid),))),
            text=_source_text(timeline.sources[sid]),
            at=at,
            n=turn.closed,
        )


def _source_text(source: Source) -> str:
    parts = (source.title, source.text, source.url or source.path)
    return shorten("\n".join(part.strip() for part in parts if part.strip()), MEMORY_TEXT_CHARS)
