"""What stands at a logical path, whole: text from the log or the artifact store, or a body to point at."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from stepline.errors import NotFoundError, PathError, ToolError
from stepline.model.block import Block, Body
from stepline.model.path import (
    AttachmentPath,
    CallPath,
    CodePath,
    FilePath,
    LogicalPath,
    PlanPath,
    SourcesPath,
    TurnPath,
    artifact_path,
    from_physical,
    parse_path,
)
from stepline.timeline.piece import ALL, Shown
from stepline.tools.context import ToolContext
from stepline.tools.shelf import read_shelf
from stepline.tools.source_rows import source_rows, sources_block
from stepline.tools.window import SourceText, count_lines

READABLE: Final = (TurnPath, PlanPath, CallPath, FilePath, AttachmentPath, CodePath)
"""Paths that lead to blocks of the log. Rows of the pool are read, too; the other families need a store that this agent does not have."""

_TEXT_SUFFIXES = ("+json", "+xml")
_TEXT_MIMES: Final = frozenset(
    {
        "application/json",
        "application/x-ndjson",
        "application/xml",
        "application/yaml",
        "application/x-yaml",
        "application/javascript",
        "application/toml",
        "application/sql",
    }
)


@dataclass(frozen=True, kw_only=True)
class Content:
    """The newest content of one path: `text`, or `body` for bytes that are no text; `block` says what it is.

    `rows` are those of the pool that the text consists of, if it is a list of some.
    """

    path: str
    block: Block
    text: str | None
    body: Body | None = None
    rows: Sequence[Mapping[str, Any]] = ()

    @property
    def mime(self) -> str:
        """The type of the content."""
        return self.body.mime if self.body else self.block.mime

    @cached_property
    def source(self) -> SourceText:
        """The text with its lines; empty for bytes that are no text."""
        return SourceText(self.text or "")

    @cached_property
    def size_bytes(self) -> int:
        """UTF-8 bytes of the text, or the body's."""
        return self.body.size_bytes if self.body and self.text is None else len((self.text or "").encode())

    @cached_property
    def sha256(self) -> str:
        """Hash of the content, by which two showings of it are told apart."""
        if self.text is None and self.body:
            return self.body.sha256
        return hashlib.sha256((self.text or "").encode()).hexdigest()

    @cached_property
    def line_count(self) -> int:
        """Lines of the text."""
        return count_lines(self.text or "")

    def is_shown_by(self, shown: Shown) -> bool:
        """Tell whether what is visible is all of this, as it is now."""
        return shown.digest == ALL or self.sha256.startswith(shown.digest)


def is_text(mime: str) -> bool:
    """Tell whether bytes of this type are read as UTF-8 text."""
    kind = mime.partition(";")[0].strip().lower()
    return kind.startswith("text/") or kind in _TEXT_MIMES or kind.endswith(_TEXT_SUFFIXES)


def load_content(path: LogicalPath, context: ToolContext) -> Content:
    """Return what stands at a path.

    Raises:
        ToolError: `family_not_available`, `turn_not_found`, `view_not_readable`, `not_found`, `body_missing`.
        DependencyError: the artifact store cannot answer now.
    """
    if isinstance(path, SourcesPath):
        rows = source_rows(path, context)
        block = sources_block(path, rows, context)
        return Content(path=block.path, block=block, text=block.text, rows=rows)
    family = str(path).partition(":")[0]
    if shelf := context.shelves.get(family):
        return _whole(read_shelf(str(path), shelf, context), context)
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
        return Content(path=where, block=block, text=_join(blocks))
    return Content(path=where, block=block, text=_fetch_text(block.body, context), body=block.body)


def _whole(block: Block, context: ToolContext) -> Content:
    """Return the content of a block that is all of it."""
    text = _fetch_text(block.body, context) if block.body else block.text
    return Content(path=block.path, block=block, text=text, body=block.body)


def read_path(text: str, turn: str) -> LogicalPath:
    """Read the path the model wrote. Raises PathError, with the path it probably meant if it named a file's place."""
    try:
        return parse_path(text)
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
    """Return the texts of one group, each beginning on a line of its own."""
    texts = [block.text for block in blocks if block.text]
    return "".join(
        text if i == len(texts) - 1 or text.endswith("\n") else f"{text}\n" for i, text in enumerate(texts)
    )


def _fetch_text(body: Body, context: ToolContext) -> str | None:
    """Return a body as text, or None if it is none."""
    if not is_text(body.mime):
        return None
    try:
        return context.artifacts.get(body.key).decode()
    except NotFoundError as error:
        raise ToolError("the log names bytes that are gone from the store", code="body_missing") from error
    except UnicodeDecodeError:
        return None
