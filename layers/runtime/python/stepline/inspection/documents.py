"""The log, the blocks and the documents of a conversation as values for JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from stepline.inspection.rounds import WholeValue
from stepline.log.spill import fetch_body
from stepline.model.base import Row
from stepline.model.batch import Batch
from stepline.model.block import Block
from stepline.model.file.charset import decode_whole
from stepline.model.file.mime import is_text
from stepline.ports.artifacts import Artifacts
from stepline.timeline.export import Export, export_conversation
from stepline.timeline.fold import Timeline

TEXT_MAX_BYTES: Final = 1024 * 1024
"""Maximum bytes of a stored text that is shown in a block; longer texts are files to fetch."""


class LogPage(WholeValue):
    """Batches as `stepline log --json` shows them; `next` is the `after` of the next page, None after the newest batch."""

    batches: tuple[dict[str, Any], ...]
    next: int | None


class BlockView(WholeValue):
    """A block with its stored text, unless that is longer than 1 MiB; `size_bytes` is its stored size."""

    type: str
    path: str
    ts: str
    mime: str
    text: str
    size_bytes: int
    meta: dict[str, Any]


class BlocksView(WholeValue):
    """The newest blocks at a path, in order."""

    blocks: tuple[BlockView, ...]


class ConversationExport(WholeValue):
    """All documents of a conversation: the visible timeline, the sources, and every turn."""

    documents: tuple[Export, ...]


def page_log(batches: Sequence[Batch], *, limit: int, newest: int) -> LogPage:
    """Return the first `limit` batches as a page of a log whose newest batch is `newest`."""
    shown = batches[:limit]
    more = bool(shown) and shown[-1].n < newest
    return LogPage(batches=tuple(map(render_batch, shown)), next=shown[-1].n if more else None)


def render_batch(batch: Batch) -> dict[str, Any]:
    """Return a batch as JSON values with field names, each entry with its `kind`."""
    named: dict[str, Any] = _named(batch)
    return named


def _named(value: Any) -> Any:
    match value:
        case Row():
            return {name: _named(field) for name, field in msgspec.structs.asdict(value).items()}
        case msgspec.Struct():
            built = msgspec.to_builtins(value)
            return {name: _named(getattr(value, name, field)) for name, field in built.items()}
        case tuple():
            return tuple(_named(item) for item in value)
        case _:
            return value


def show_blocks(blocks: Iterable[Block], artifacts: Artifacts) -> BlocksView:
    """Return blocks with their stored texts. Raises DependencyError."""
    return BlocksView(blocks=tuple(_shown(block, artifacts) for block in blocks))


def _shown(block: Block, artifacts: Artifacts) -> BlockView:
    body, text = block.body, block.text
    if body is not None and is_text(body.mime) and body.size_bytes <= TEXT_MAX_BYTES:
        text = decode_whole(fetch_body(artifacts, body.key, body.sha256), body.mime)
    return BlockView(
        type=block.type,
        path=block.path,
        ts=block.ts,
        mime=block.mime,
        text=text,
        size_bytes=body.size_bytes if body else 0,
        meta=block.meta,
    )


def export_documents(timeline: Timeline, *, ttl_s: float) -> ConversationExport:
    """Return every document of a conversation; a cache of its prompts lives `ttl_s`."""
    return ConversationExport(documents=tuple(export_conversation(timeline, ttl_s=ttl_s)))
