"""`react.write`: write a text file of the current turn, to be shown, read and downloaded.

The bytes go to the artifact store before the log names them, under a key made from their hash: writing the
same content again is the same object, and no later attempt can change what an earlier one recorded.
Source: docs/reference/tools.md#reactwrite.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec

from stepline.errors import ToolError
from stepline.model.base import Value
from stepline.model.block import NOTE_TAGS, Block, Body, read_note
from stepline.model.file.magic_bytes import HEAD_BYTES, MISMATCH, find_mismatch
from stepline.model.file.mime import guess_mime, is_text
from stepline.model.path import FilePath, artifact_path, physical
from stepline.model.source import Source
from stepline.model.traversal import Names
from stepline.protocol.citation.token import cited_sids, has_unreadable
from stepline.timeline.workspace import fold_files
from stepline.tools.context import ToolContext, ToolOutput, store_bytes
from stepline.tools.parameter import PATH, choice, closed_schema, param
from stepline.tools.registry import Tool
from stepline.tools.spec import ToolSpec
from stepline.tools.window import count_lines

Channel = Literal["canvas", "timeline_text", "internal"]
Kind = Literal["display", "file"]

_CITING: Final = frozenset({".md", ".markdown", ".html", ".htm"})
"""The types of files whose citations are shown as links."""
CANVAS_EXTENSIONS: Final = (
    *(".md", ".markdown", ".html", ".htm", ".mermaid", ".mmd"),
    *(".json", ".yaml", ".yml", ".txt", ".xml"),
)
"""Extensions that a client's canvas can draw."""

WRITE: Final = ToolSpec(
    tool_id="react.write",
    purpose=(
        "Write a text file of the current turn, whole. outputs/ holds what you produce for the user, files/ the "
        "project you keep working on. Writing the same path again replaces it."
    ),
    schema=closed_schema(
        {
            "path": {**PATH, "description": "files/… or outputs/…; a bare name goes to outputs/"},
            "channel": choice(
                ["canvas", "timeline_text", "internal"],
                "where the user sees it: canvas for what is large or no Markdown, timeline_text for short "
                "Markdown, internal for nobody but you",
                default="canvas",
            ),
            "content": param(
                ["string", "object", "array"],
                "the file's text; an object or a list is written as indented JSON",
            ),
            "kind": choice(
                ["display", "file"],
                "display: shown only; file: also offered for download (an internal one always is a file)",
                default="display",
            ),
            "scratchpad": param(
                "boolean",
                "only with channel internal: keep the text as a note that later turns can find. Begin its lines with "
                f"their kind: {', '.join(f'[{tag}] {kind}' for tag, kind in NOTE_TAGS.items())}",
                default=False,
            ),
        },
        "path",
        "content",
    ),
    returns="what was written: logical and physical path, size, lines; read it again by its logical path",
    effect="keyed",
    read_only=False,
    strategies=("exploitation",),
    reads="parameters",
    key_order=("path", "channel", "content", "kind"),
    outputs=lambda params: (params["path"],),
    examples=(
        {"path": "outputs/report.md", "channel": "canvas", "content": "# Report\n…", "kind": "file"},
        {"path": "outputs/note.md", "channel": "internal", "content": "[D] We use UTC.", "scratchpad": True},
    ),
)


class Writing(Value):
    """One write, with its defaults applied."""

    path: FilePath
    text: str
    channel: Channel
    kind: Kind
    scratchpad: bool

    @property
    def visibility(self) -> Literal["internal", "external"]:
        """`external` if the user may see the file."""
        return "internal" if self.channel == "internal" else "external"

    @property
    def extension(self) -> str:
        """The file name's extension, in lower case, with its dot."""
        return posixpath.splitext(self.path.rel)[1].lower()

    @property
    def mime(self) -> str:
        """The MIME type of the extension if that is a text, else `text/plain`."""
        mime = guess_mime(self.path.rel)
        return mime if is_text(mime) else "text/plain"


def run_write(params: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    """Write one file. Raises PathError, ToolError for mistakes the model can correct."""
    writing = read_writing(params, context.turn)
    check_name(writing.path, context)
    written = keep_text(writing, WRITE.tool_id, context)
    blocks = [_mismatch(writing, context)] if writing.channel == "canvas" else []
    blocks.append(_unreadable(writing, context))
    blocks += [context.result(WRITE.tool_id, written.facts), written.block]
    if writing.scratchpad:
        blocks.append(_note_block(writing, context))
    return ToolOutput(blocks=tuple(block for block in blocks if block is not None), sources=written.sources)


def read_writing(params: Mapping[str, Any], turn: str) -> Writing:
    """Apply the defaults to a valid call. Raises PathError; ToolError `scratchpad_requires_internal`."""
    channel: Channel = params.get("channel", "canvas")
    kind: Kind = params.get("kind", "display")
    scratchpad = bool(params.get("scratchpad", False))
    if scratchpad and channel != "internal":
        raise ToolError("scratchpad goes with channel internal", code="scratchpad_requires_internal")
    if channel == "internal" and not scratchpad:
        kind = "file"
    content = params["content"]
    text = content if isinstance(content, str) else _pretty(content)
    return Writing(
        path=artifact_path(turn, params["path"]), text=text, channel=channel, kind=kind, scratchpad=scratchpad
    )


class StoredText(NamedTuple):
    """A text that was stored: its facts for the status, the block of the file, and its row of the pool."""

    facts: dict[str, Any]
    block: Block
    sources: tuple[Source, ...]


def keep_text(writing: Writing, tool_id: str, context: ToolContext) -> StoredText:
    """Store the text of a file. Raises ToolError `content_not_utf8`, `content_type_mismatch`."""
    try:
        data = writing.text.encode()
    except UnicodeEncodeError as error:
        raise ToolError("the content holds half of a surrogate pair", code="content_not_utf8") from error
    if mismatch := find_mismatch(data[:HEAD_BYTES], guess_mime(writing.path.rel)):
        raise ToolError(f"{mismatch}: a program writes such a file", code=MISMATCH)
    body = store_bytes(data, writing.mime, context)
    facts = _describe(writing, body, context)
    block = _content_block(writing, tool_id, body, facts, context)
    return StoredText(facts, block, context.cite(_file_row(writing, body)))


def check_name(path: FilePath, context: ToolContext) -> None:
    """Refuse a name that clashes with the turn's other files, which are all in one workspace."""
    where = physical(path)
    assert where is not None
    names = Names()
    for other in sorted(fold_files(context.timeline.turn_blocks(context.turn)).keys() - {where}):
        names.take(other)
    if clash := names.take(where):
        raise ToolError(
            f"{where[:120]!r} cannot stand beside {clash[:120]!r}: use that name, or another one",
            code="path_clash",
            taken=clash[:200],
        )


def _pretty(content: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(content), indent=2).decode() + "\n"


def _describe(writing: Writing, body: Body, context: ToolContext) -> dict[str, Any]:
    """Return the file's facts for the status."""
    meta: dict[str, Any] = {
        "artifact_path": str(writing.path),
        "physical_path": physical(writing.path),
        "mime": writing.mime,
        "kind": writing.kind,
        "visibility": writing.visibility,
        "channel": writing.channel,
        "tool_call_id": context.call_id,
        "size_bytes": body.size_bytes,
        "text_symbols": len(writing.text),
        "line_count": count_lines(writing.text),
        "ts": context.ts,
    }
    if sids := cited_sids(writing.text):
        meta["sources_used"] = list(sids)
    return meta


def _unreadable(writing: Writing, context: ToolContext) -> Block | None:
    if writing.extension not in _CITING or not context.sources.rows or not has_unreadable(writing.text):
        return None
    return context.notice(
        WRITE.tool_id,
        "citation_unreadable",
        "The file was written. A citation in it cannot be read, and is left out where the file is shown: "
        "write [[S:3]], or [[S:1,4-6]] for several.",
        {"path": str(writing.path)},
    )


def _mismatch(writing: Writing, context: ToolContext) -> Block | None:
    if writing.extension in CANVAS_EXTENSIONS:
        return None
    return context.notice(
        WRITE.tool_id,
        "protocol_violation.write_extension_mismatch",
        "The file was written, but the canvas cannot draw its type.",
        {"path": str(writing.path), "extensions": CANVAS_EXTENSIONS},
    )


def _content_block(
    writing: Writing, tool_id: str, body: Body, meta: Mapping[str, Any], context: ToolContext
) -> Block:
    kept = ("kind", "visibility", "channel", "physical_path", "text_symbols", "line_count", "sources_used")
    about = {key: meta[key] for key in kept if key in meta}
    return context.block(tool_id, str(writing.path), mime=writing.mime, body=body, meta=about)


def _file_row(writing: Writing, body: Body) -> list[Source]:
    """Return the pool row of a file that the user may see; the pool takes it if it is an image."""
    if writing.visibility == "internal":
        return []
    return [
        Source(
            title=posixpath.basename(writing.path.rel),
            source_type="file",
            mime=body.mime,
            size_bytes=body.size_bytes,
            path=str(writing.path),
        )
    ]


def _note_block(writing: Writing, context: ToolContext) -> Block:
    tags = list(dict.fromkeys(tag for tag, _ in read_note(writing.text)))
    meta = {"channel": "internal", **({"note_tags": tags} if tags else {})}
    return context.block(WRITE.tool_id, str(writing.path), type="react.note", text=writing.text, meta=meta)


WRITE_TOOL: Final = Tool(spec=WRITE, run=run_write)
