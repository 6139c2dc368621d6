"""The artifacts of the open turn, its files, what it searched, and the pool of sources.

An artifact is shown by its beginning: `show_artifacts` with its path stages all of it for the next round.
Source: docs/concepts/journal.md#the-current-turn.
"""

from __future__ import annotations

from typing import Any, Final

from stepline.context.announce import shown_rows
from stepline.context.journal.turn_course import Course, Detail
from stepline.model.block import Produced
from stepline.model.entry import Resulted
from stepline.model.source import Source, host_of
from stepline.rendering.pieces_of_entry import NOTE_TYPES, shown_blocks
from stepline.rendering.quote import clip, inline, label, quote
from stepline.rendering.render_entry import UNPREVIEWED, render_shape
from stepline.rendering.result import result_path
from stepline.timeline.fold import Timeline
from stepline.timeline.workspace import fold_files, last_checkout, pulled_refs

PATH_CHARS: Final = 400
TITLE_CHARS: Final = 120
MIME_CHARS: Final = 100
SOURCES_SHOWN: Final = 24
SOURCE_CHARS: Final = 160


def artifact_rows(course: Course, detail: Detail) -> str:
    """Return the contents that the calls of the turn brought, each with its facts and its beginning."""
    found = []
    for _, _, entry in course.rows:
        if isinstance(entry, Resulted):
            own = result_path(course.turn.id, entry.call_id)
            found += [
                _artifact(entry, block, own, detail) for block in shown_blocks(entry) if _is_artifact(block)
            ]
    return detail.rows_of([detail.fit(text) for text in found])


def _is_artifact(block: Produced) -> bool:
    return block.type not in NOTE_TYPES and block.type != "react.notice"


def _artifact(entry: Resulted, block: Produced, own: str, detail: Detail) -> str:
    """Return one content; what shows a part of another path names that, and the path of the part."""
    source = str(block.meta.get("source_path") or "")
    path = source or block.path or own
    head = f"- {clip(path, PATH_CHARS)} | {clip(block.type, MIME_CHARS)} by {entry.call_id} {inline(entry.tool_id)}"
    part = f" | shown part: {clip(block.path, PATH_CHARS)}" if source and block.path else ""
    if block.body is not None:
        return f"{head}{part} | {_stored(block)}\n"
    most = detail.read_chars if entry.tool_id in UNPREVIEWED else detail.preview_chars
    facts = f"{clip(block.mime, MIME_CHARS)} | {len(block.text)} characters"
    return f"{head}{part} | {facts}\n{_beginning(block.text, most)}"


def _beginning(text: str, most: int) -> str:
    """Return a text of at most `most` characters whole, and the shape and the beginning of a longer one."""
    if len(text) <= most:
        return f"{quote(text)}\n"
    shape = render_shape(text)
    told = f"shape:\n{quote(shape)}\npreview:\n" if shape else ""
    return f"{told}{quote(text[:most])}\n...[truncated]: {len(text) - most} more characters; show_artifacts shows them\n"


def _stored(block: Produced) -> str:
    """Return the facts of a stored file: its type, its size, who sees it, and the extent of a picture or a PDF."""
    assert block.body is not None
    about: Any = block.meta.get("media")
    extent = clip(str(about.get("extent", "")), MIME_CHARS) if isinstance(about, dict) else ""
    facts = [
        clip(block.body.mime, MIME_CHARS),
        f"{block.body.size_bytes} bytes",
        clip(str(block.meta.get("visibility") or ""), MIME_CHARS),
        f"{extent}; show_artifacts attaches it" if extent else "",
    ]
    return " | ".join(fact for fact in facts if fact)


def file_rows(course: Course, detail: Detail) -> str:
    """Return the files of the turn below the folder of its programs, then what it pulled and checked out."""
    files = fold_files(course.blocks)
    rows = [
        f"- {clip(path, PATH_CHARS)} | {clip(file.mime, MIME_CHARS)} | {file.size_bytes} bytes\n"
        for path, file in files.items()
    ]
    rows += [f"- pulled: {clip(ref, PATH_CHARS)}\n" for ref in pulled_refs(course.blocks)]
    made = last_checkout(course.blocks)
    rows += [f"- checked out ({clip(made.mode, MIME_CHARS)}): {clip(ref, PATH_CHARS)}\n" for ref in made.refs]
    return detail.rows_of(rows)


def explored_rows(course: Course, detail: Detail) -> str:
    """Return the calls that brought sources, with the numbers of these."""
    rows = []
    for _, _, entry in course.rows:
        if isinstance(entry, Resulted) and entry.sources:
            sids = ",".join(str(row.sid) for row in entry.sources)
            rows.append(
                f"- {entry.call_id} {inline(entry.tool_id)}: so:sources_pool[{clip(sids, detail.chars)}]"
                f" | {result_path(course.turn.id, entry.call_id)}\n"
            )
    return detail.rows_of(rows)


def source_rows(timeline: Timeline, detail: Detail) -> str:
    """Return the rows of the pool: those cited last and the newest."""
    pool = timeline.sources
    shown = shown_rows(pool, timeline.cited, most=min(SOURCES_SHOWN, detail.rows))
    rows = [
        f"- SID:{sid:02} {label(clip(pool[sid].title, TITLE_CHARS))}"
        f" {clip(host_of(pool[sid].url) or pool[sid].path, TITLE_CHARS)} {label(clip(_text(pool[sid]), min(SOURCE_CHARS, detail.chars)))}\n"
        for sid in shown
    ]
    return "".join([*detail.more(len(pool) - len(shown)), *rows])


def _text(row: Source) -> str:
    return row.text or row.content
