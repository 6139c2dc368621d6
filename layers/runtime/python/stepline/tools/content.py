"""The content of a logical path: text of the log, or a body in the artifact store, read on demand.

Rows of the pool of sources, at `so:sources_pool[…]`, are JSON, ascending by number.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final, TypeVar

import msgspec

from stepline.errors import NotFoundError, PathError, ToolError
from stepline.model.block import Block, Body
from stepline.model.file.charset import WINDOWS, charset_of
from stepline.model.file.magic_bytes import HEAD_BYTES
from stepline.model.file.mime import is_text
from stepline.model.path import (
    AttachmentPath,
    CallPath,
    CodePath,
    FilePath,
    ForeignPath,
    LogicalPath,
    PlanPath,
    SourcesPath,
    TurnPath,
    artifact_path,
    from_physical,
    name_foreign,
    parse_path,
)
from stepline.model.source import Source
from stepline.model.usage import estimate_tokens_of
from stepline.ports.artifacts import Artifacts
from stepline.rendering.piece import ALL, Shown
from stepline.rendering.turn_facts import ATTACHMENT
from stepline.timeline.sources_pool import select_sources
from stepline.tools.context import ToolContext, read_shelf, render_json
from stepline.tools.window import FoundPart, TextRange, decode_pieces, find_part

MISSING_SHOWN: Final = 50

Made = TypeVar("Made")


def source_rows(path: SourcesPath, context: ToolContext) -> list[dict[str, Any]]:
    """Return the rows that a path names, ascending. Raises ToolError `not_found` if it finds none of them."""
    rows = select_sources(context.sources.rows, path.ranges)
    if path.ranges and not rows:
        named = ", ".join(map(str, _missing(path, set())[:10]))
        raise ToolError(f"the source pool has no row {named}", code="not_found")
    return [msgspec.to_builtins(row) for row in rows]


def sources_block(path: SourcesPath, rows: Sequence[Mapping[str, Any]], context: ToolContext) -> Block:
    """Return the content of a pool path as a block, which the log does not hold."""
    missing = _missing(path, {row["sid"] for row in rows})
    return Block(
        type="react.sources",
        author="react",
        ts=context.ts,
        path=str(path),
        mime="application/json",
        text=render_rows(rows) if rows else "",
        meta={"missing_sids": missing} if missing else {},
    )


def render_rows(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as JSON, one row per line."""
    return "[" + ",\n".join(render_json(row) for row in rows) + "]"


def _missing(path: SourcesPath, there: AbstractSet[int]) -> list[int]:
    """Return the sids that a path names and the pool lacks; of a long range only the first ones."""
    missing: dict[int, None] = {}
    for first, last in path.ranges:
        for sid in range(first, last + 1):
            if len(missing) == MISSING_SHOWN:
                return list(missing)
            if sid not in there:
                missing[sid] = None
    return list(missing)


READABLE: Final = (TurnPath, PlanPath, CallPath, FilePath, AttachmentPath, CodePath)
"""Paths that lead to blocks of the log. Pool rows are readable, too; other families need a shelf."""

WHOLE_MAX_BYTES: Final = 16 * 1024 * 1024
"""Maximum bytes of a body held in memory: as text it may take four times as much, in a function of 1 GiB."""
CONTENT_TOO_LARGE: Final = "content_too_large"


@dataclass(frozen=True, kw_only=True)
class PathContent:
    """The newest content of one path: text of the log, or `body` in the artifact store; `block` describes it.

    `rows` are the pool rows that the text consists of, if it is a list of rows. `conversation` is the other
    conversation that contains it; the paths in the text belong to that conversation. `cited` are the sources that a
    shelf's text adds to the pool.
    """

    path: str
    block: Block
    written: str = ""
    body: Body | None = None
    artifacts: Artifacts
    rows: Sequence[Mapping[str, Any]] = ()
    conversation: str = ""
    cited: tuple[Source, ...] = ()

    @property
    def mime(self) -> str:
        """The MIME type of the content."""
        return self.body.mime if self.body else self.block.mime

    @cached_property
    def text(self) -> str | None:
        """The whole text; None for bytes that are not text.

        Raises:
            ToolError: `body_missing`; `content_too_large` to be held in memory.
            DependencyError: the artifact store cannot answer now.
        """
        if self.body is not None and self._encodings:
            check_body_size(self.body)
        return self._decoded("".join)

    def find(self, span: TextRange, *, max_chars: int) -> FoundPart | None:
        """Return a part of the text, regardless of its length; None for bytes that are not text.

        Raises the errors of `text`.
        """
        return self._decoded(partial(find_part, span=span, max_chars=max_chars))

    @cached_property
    def size_bytes(self) -> int:
        """UTF-8 bytes of the text, or the body's."""
        return self.body.size_bytes if self.body else len(self.written.encode())

    @property
    def tokens(self) -> int:
        """Estimated tokens of the text."""
        return estimate_tokens_of(self.size_bytes)

    @cached_property
    def sha256(self) -> str:
        """Hash of the content; identifies the version that a view shows."""
        return self.body.sha256 if self.body else hashlib.sha256(self.written.encode()).hexdigest()

    def is_shown_by(self, shown: Shown) -> bool:
        """Return True if the view shows all of the current content."""
        return shown.digest == ALL or self.sha256.startswith(shown.digest)

    def data(self) -> bytes:
        """Return all bytes of a body. Raises the errors of `text`."""
        if self.body is not None:
            check_body_size(self.body)
        return b"".join(self._stream())

    def head(self) -> bytes:
        """Return the first bytes of a body. Raises the errors of `text`."""
        return next(self._stream(), b"")[:HEAD_BYTES]

    @property
    def _encodings(self) -> tuple[str, ...]:
        """The encodings to try: for a text from outside, the one that its check recorded."""
        if self.body is not None and not is_text(self.body.mime):
            return ()
        if self.body is None or self.block.type != ATTACHMENT:
            return ("utf-8",)
        recorded = charset_of(self.body.mime)
        return (recorded,) if recorded else ("utf-8-sig", WINDOWS)

    def _decoded(self, take: Callable[[Iterator[str]], Made]) -> Made | None:
        """Return the result of `take` for the text's pieces; None for bytes that are not text."""
        for encoding in self._encodings:
            try:
                return take(self._pieces(encoding))
            except UnicodeDecodeError:
                continue
        return None

    def _pieces(self, encoding: str) -> Iterator[str]:
        """Yield the text in pieces. Raises UnicodeDecodeError for a body that is not text in the encoding."""
        if self.body is None:
            yield self.written
            return
        yield from decode_pieces(self._stream(), encoding)

    def _stream(self) -> Iterator[bytes]:
        if self.body is None:
            return
        try:
            yield from self.artifacts.stream(self.body.key)
        except NotFoundError as error:
            raise ToolError(
                "the log names bytes that are gone from the store", code="body_missing"
            ) from error


def check_body_size(body: Body) -> None:
    """Refuse a body too large for memory before it is read. Raises ToolError `content_too_large`."""
    if body.size_bytes > WHOLE_MAX_BYTES:
        raise ToolError(
            f"{body.size_bytes} bytes are too many to be taken whole; react.read shows a part",
            code="content_too_large",
            bytes=body.size_bytes,
            byte_limit=WHOLE_MAX_BYTES,
        )


def load_content(path: LogicalPath, context: ToolContext) -> PathContent:
    """Return the content of a path.

    Raises:
        ToolError: `family_not_available`, `turn_not_found`, `view_not_readable`, `not_found`, `conversation_not_here`.
    """
    if isinstance(path, ForeignPath):
        return _load_foreign(path, context)
    if isinstance(path, SourcesPath):
        rows = source_rows(path, context)
        block = sources_block(path, rows, context)
        return PathContent(
            path=block.path, block=block, written=block.text, artifacts=context.artifacts, rows=rows
        )
    family = str(path).partition(":")[0]
    if shelf := context.shelf(family):
        return _shelved(*read_shelf(str(path), shelf, context), context)
    if not isinstance(path, READABLE):
        raise ToolError(f"{family}: paths cannot be read here", code="family_not_available")
    blocks = context.timeline.resolve(str(path))
    if not blocks:
        if not isinstance(path, PlanPath) and path.turn not in context.timeline.turns:
            raise ToolError(f"this conversation has no turn {path.turn}", code="turn_not_found")
        if isinstance(path, CallPath) and path.part.startswith("view."):
            raise ToolError("a view shows a part of another path; read that one", code="view_not_readable")
        raise ToolError("nothing stands at this path", code="not_found")
    with_body = [block for block in blocks if block.body]
    block = with_body[-1] if with_body else blocks[0]
    where = block.path or str(path)
    if block.body is None:
        return PathContent(path=where, block=block, written=_join(blocks), artifacts=context.artifacts)
    return PathContent(path=where, block=block, body=block.body, artifacts=context.artifacts)


_REFERENCE: Final = re.compile(r"\b(ar|tc|fi|su|ws):(?=turn_|plan\.latest:)")
_POOL: Final = re.compile(r"\bso:sources_pool\[[0-9,-]{1,400}\]")


def _load_foreign(path: ForeignPath, context: ToolContext) -> PathContent:
    """Return the content of a path in another conversation of the same owner, at its qualified path.

    If the content is a list of paths, made on demand, each path is qualified, too, so it can be read from here.
    """
    if path.conversation == context.lane.conversation:
        return load_content(path.path, context)
    if context.conversations is None:
        raise ToolError("from here only this conversation can be read", code="conversation_not_here")
    timeline = context.conversations.find(path.conversation)
    if timeline is None:
        raise ToolError(f"there is no conversation {path.conversation}", code="not_found")
    found = load_content(path.path, replace(context, timeline=timeline, shelves={}, resolvers={}))
    written, qualifier = found.written, f"conv_{path.conversation}."
    if found.block.meta.get("generated") == "on_demand":
        written = _REFERENCE.sub(rf"\1:{qualifier}", written)
        written = _POOL.sub("a source of that conversation", written)
    where = name_foreign(found.path, path.conversation)
    return replace(found, path=where, written=written, conversation=path.conversation)


def _shelved(block: Block, cited: tuple[Source, ...], context: ToolContext) -> PathContent:
    """Return the content of a shelf's path, which consists of this one block."""
    return PathContent(
        path=block.path,
        block=block,
        written=block.text,
        body=block.body,
        artifacts=context.artifacts,
        cited=cited,
    )


def read_path(text: str, turn: str, namespaces: Collection[str] = ()) -> LogicalPath:
    """Parse the path the model wrote. Raises PathError, with a suggestion if it wrote a physical path."""
    try:
        return parse_path(text, namespaces)
    except PathError as refused:
        meant = _meant(text, turn) if ":" not in text else None
        if meant is None:
            raise
        raise PathError(
            f"a file is read by its logical path; this one is {meant}",
            code="path_not_logical",
            suggested_path=str(meant),
        ) from refused


def _meant(text: str, turn: str) -> LogicalPath | None:
    try:
        return from_physical(text) if text.startswith("turn_") else artifact_path(turn, text)
    except PathError:
        return None


def _join(blocks: tuple[Block, ...]) -> str:
    """Return the texts of one group, each beginning on a new line."""
    texts = [block.text for block in blocks if block.text]
    return "".join(
        text if i == len(texts) - 1 or text.endswith("\n") else f"{text}\n" for i, text in enumerate(texts)
    )
