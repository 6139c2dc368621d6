"""The contents that a round of the layout `journal` shows in full: those that the last decision requests, attachments.

Contents are read once, within the limits of a read, before the request is made. A content that cannot be shown is
replaced by the reason. A request has at most two pictures and two documents: the requested ones, then the newest
attachments of the turn.
Source: docs/concepts/journal.md#staging.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

import msgspec

from stepline.context.journal.staged import Staged, StagedContent
from stepline.context.media import REQUEST_BYTES, SHARE
from stepline.errors import NotFoundError, PathError, ToolError
from stepline.model.block import Block
from stepline.model.entry import Decided
from stepline.model.file.mime import PICTURES, is_media, is_text
from stepline.model.path import CallPath, LogicalPath, out_key
from stepline.model.source import Source
from stepline.ports.model import Media
from stepline.protocol.citation.token import renumber_citations
from stepline.rendering.piece import Attached
from stepline.rendering.turn_facts import ATTACHMENT
from stepline.timeline.fold import Timeline
from stepline.tools.content import PathContent, load_content, read_path
from stepline.tools.context import Shelved, ToolContext
from stepline.tools.read.attach import attached_by, view_media
from stepline.tools.read.read_request import ReadRequest
from stepline.tools.read.shown_content import ContentView, show
from stepline.tools.read.source_rows import show_sources
from stepline.tools.sources import SourcePool

MEDIA_MAX: Final = 2
"""The most pictures, and the most documents, of one request."""
ATTACHMENTS_MAX: Final = 8
"""The most attachments of the turn that are looked at, newest first."""
NO_ROOM: Final = "a request has two of a kind, and as many as fit; name it in show_artifacts in another round"
"""The reason for a picture or a document that the request has no room for."""


def last_decision(timeline: Timeline) -> Decided | None:
    """Return the newest decision of the open turn; None in its first round.

    It alone determines the staged contents: every answered request uses up those of the decision before it.
    """
    return next((entry for _, entry in reversed(timeline.entries) if isinstance(entry, Decided)), None)


def materialise(timeline: Timeline, context: ToolContext) -> Staged:
    """Return the contents that the next request shows in full. Raises DependencyError."""
    before = last_decision(timeline)
    context = replace(context, sources=SourcePool(timeline.sources))  # staged contents add no row to the pool
    room = _Room(context)
    named = before.show_artifacts if before else ()
    shown = [_artifact(path, context, room, timeline.sources) for path in named]
    skills = list(_skills(before.show_skills, context)) if before else []
    attached = list(_attachments(timeline, context, room, before))[::-1]
    return Staged(skills=tuple(skills), shown=tuple(shown), media=(*attached, *room.staged))


class _Room:
    """The pictures and documents that a request has so far, and the remaining room."""

    def __init__(self, context: ToolContext) -> None:
        self.staged: list[Media] = []
        self._kinds = {"image": MEDIA_MAX, "document": MEDIA_MAX}
        self._tokens = int(context.rules.budget * SHARE)
        self._bytes = REQUEST_BYTES
        self._taken: set[str] = set()

    def take(self, one: Media) -> bool:
        """Reserve room for a file; return True if the request has room, or has the file already."""
        if one.body.sha256 in self._taken:
            return True
        kind, tokens, size = format_of(one.body.mime), self._tokens - one.tokens, self._bytes
        size -= one.body.size_bytes
        if not self._kinds[kind] or tokens < 0 or size < 0:
            return False
        self._kinds[kind] -= 1
        self._tokens, self._bytes = tokens, size
        self._taken.add(one.body.sha256)
        return True

    def has(self, sha256: str) -> bool:
        """Return True if the request has this file."""
        return sha256 in self._taken


def format_of(mime: str) -> str:
    """Return the format of a content, in the words of the journal."""
    if mime in PICTURES:
        return "image"
    if is_media(mime):
        return "document"
    return mime.partition(";")[0].rpartition("/")[2] if is_text(mime) else "bytes"


def _artifact(written: str, context: ToolContext, room: _Room, rows: Mapping[int, Source]) -> StagedContent:
    """Return one requested content; a picture or a document is added to the media."""
    try:
        path = read_path(written, context.turn, context.resolvers)
        content = _load(path, context)
        view, why = _view(content, context), ""
    except (PathError, ToolError) as refused:
        return StagedContent(path=written, why=f"{refused.reason}: {refused}")
    if view.body is not None:
        one = _media(attached_by(view, content))
        known = room.has(one.body.sha256)
        if not room.take(one):
            why = NO_ROOM
        elif not known:
            room.staged.append(one)
    elif is_media(content.mime) or not (view.whole or view.text):
        why = str(view.row.get("flaw") or view.row.get("status") or "it is empty")
    return _shown(content, "" if view.body or why else _cited(view.text, content, rows), why)


def _cited(text: str, content: PathContent, rows: Mapping[int, Source]) -> str:
    """Return a shelf's text with those of its citations that are in the pool; any other text unchanged."""
    return renumber_citations(text, {sid: sid for sid in rows}) if content.cited else text


def _load(path: LogicalPath, context: ToolContext) -> PathContent:
    """Return the content of a path; for a view, the part that it shows."""
    if not (isinstance(path, CallPath) and path.part.startswith("view.")):
        return load_content(path, context)
    found = [block for block in context.timeline.turn_blocks(path.turn) if block.path == str(path)]
    if not found:
        raise ToolError("nothing stands at this path", code="not_found")
    block = found[-1]
    return PathContent(
        path=block.path, block=block, written=block.text, body=block.body, artifacts=context.artifacts
    )


def _view(content: PathContent, context: ToolContext) -> ContentView:
    """Return a content within the limits of a read. Raises ToolError, DependencyError."""
    if not content.size_bytes:
        return ContentView(row={"flaw": "it is empty"})
    if is_media(content.mime):
        return view_media(content, context)
    caps, request = context.caps, ReadRequest(path=content.path)
    found = content.find(request.span, max_chars=caps.max_chars)
    rows = show_sources(content.rows, caps, max_chars=None) if content.rows else None
    return rows or show(request, content, found, caps)


def _shown(content: PathContent, text: str, why: str) -> StagedContent:
    block = content.block
    return StagedContent(
        path=content.path,
        kind=str(block.meta.get("kind") or ""),
        format=format_of(content.mime),
        mime=content.mime,
        filename=_filename(block, content.path),
        type=block.type,
        ts=block.ts,
        text=text,
        why=why,
    )


def _filename(block: Block, path: str) -> str:
    """Return the name of a file; "" for anything else."""
    return str(block.meta.get("name") or (path.rpartition("/")[2] if path.startswith("fi:") else ""))


def _skills(ids: Iterable[str], context: ToolContext) -> Iterator[StagedContent]:
    """Yield the requested skills, each once and after the skills that it imports."""
    shelf, done = context.shelves.get("sk"), set[str]()
    for one in ids:
        path = f"sk:{one}"
        try:
            found = shelf(path) if shelf else None
            paths = [*found.imports, found.path or path] if found else [path]
            for each in paths:
                if each not in done:
                    done.add(each)
                    yield _skill(
                        each, found if each == paths[-1] else shelf(each) if shelf else None, context
                    )
        except ToolError as refused:
            yield StagedContent(path=path, kind="skill", why=f"{refused.reason}: {refused}")


def _skill(path: str, found: Shelved | None, context: ToolContext) -> StagedContent:
    """Return a skill; its own citations are left out, because its sources are not in the pool."""
    if found is None or found.data is not None:
        why = "it is no text; name it in show_artifacts" if found else "not_found: there is no such skill"
        return StagedContent(path=path, kind="skill", why=why)
    text = renumber_citations(found.text, {}) if found.sources else found.text
    rest = len(text) - context.caps.max_chars
    cut = f"\n… {rest} more characters; react.read shows them" if rest > 0 else ""
    return StagedContent(
        path=found.path or path,
        kind="skill",
        format="markdown",
        mime=found.mime,
        type="react.skill",
        ts=context.ts,
        text=text[: context.caps.max_chars] + cut,
    )


def _attachments(
    timeline: Timeline, context: ToolContext, room: _Room, before: Decided | None
) -> Iterator[Media]:
    """Yield the pictures and documents that the user attached in the open turn, the newest first."""
    blocks = [
        block
        for block in timeline.turn_blocks(context.turn)
        if block.type == ATTACHMENT and block.body is not None and is_media(block.body.mime)
    ]
    known = _known(context, before) if blocks else {}
    for block in blocks[: -ATTACHMENTS_MAX - 1 : -1]:
        one = known.get(block.path) or _attachment(block, context)
        if not one.why and room.has(one.body.sha256):
            continue
        yield one if one.why or room.take(one) else _left_out(one)


def _known(context: ToolContext, before: Decided | None) -> Mapping[str, Media]:
    """Return the files of the previous request by path: they need not be inspected again."""
    if before is None or before.sent is None or not before.sent.staged:
        return {}
    try:
        body = context.artifacts.get(out_key(context.lane, context.turn, before.sent.staged))
    except NotFoundError:
        return {}
    return {one.path: one for one in _decode_staged(body).media if one.why != NO_ROOM}


def _attachment(block: Block, context: ToolContext) -> Media:
    content = PathContent(path=block.path, block=block, body=block.body, artifacts=context.artifacts)
    assert block.body is not None
    try:
        view = view_media(content, context)
    except ToolError as refused:
        return Media(path=block.path, body=block.body, tokens=0, why=f"{refused.reason}: {refused}")
    if view.body is None:
        why = str(view.row.get("flaw") or view.row.get("status"))
        return Media(path=block.path, body=block.body, tokens=0, why=why)
    return _media(attached_by(view, content))


def _left_out(one: Media) -> Media:
    return Media(path=one.path, body=one.body, tokens=0, why=NO_ROOM)


def _media(one: Attached) -> Media:
    return Media(path=one.path, body=one.body, tokens=one.tokens)


def _decode_staged(body: bytes) -> Staged:
    """Return stored contents."""
    return msgspec.json.decode(body, type=Staged)


def encode_staged(staged: Staged) -> bytes:
    """Return the stored form of contents; b"" for none."""
    return msgspec.json.encode(staged) if staged != Staged() else b""
