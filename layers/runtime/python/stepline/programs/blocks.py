"""Timeline blocks of a run: its status, its files, previews of its texts, and the tools it called; and its sources.

    tc:<turn>.<call>.result           the report; `meta` holds the facts, deleted files among them
    fi:<turn>.outputs/…, .files/…     each file that was taken over, by its stored bytes
    tc:<turn>.<call>.view.<i>         a preview of the i-th of them
    tc:<turn>.<sub-call>.call/.result  a tool that the program called; `meta.parent` is the run's call

The program itself needs no block here: the log has it with the decision, at `fi:<turn>.code.<call>`. A block with
`meta.silent` is found by its path and takes no room in the timeline, because the report names its content.
Source: docs/concepts/execution.md#in-the-timeline.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stepline.model.block import Block
from stepline.model.path import CallPath
from stepline.model.program.execution import Isolation, ToolCallRecord
from stepline.model.source import Source
from stepline.programs.host import sub_call_id
from stepline.programs.outcome import Envelope, OutputFile
from stepline.rendering.result import SILENT
from stepline.timeline.sources_pool import is_eligible, merge_sources
from stepline.timeline.workspace import DELETED_PATHS
from stepline.tools.context import ToolContext, render_json
from stepline.tools.execute_code import EXECUTE

CALLS_CHARS: Final = 100_000
"""Maximum characters of parameters and returned values that one run's calls add to the log."""


def run_blocks(envelope: Envelope, context: ToolContext) -> tuple[Block, ...]:
    """Return the blocks of a run in the order the model reads them."""
    status = replace(context.result(EXECUTE.tool_id, envelope.report_text), meta=_facts(envelope))
    return (status, *_file_blocks(envelope.files, context), *_call_blocks(envelope, context))


def _facts(envelope: Envelope) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "ok": envelope.ok,
        "returncode": envelope.returncode,
        "seconds": round(envelope.seconds, 3),
        "backend": envelope.backend,
        "code": envelope.code,
        "log_bytes": envelope.log_bytes,
        DELETED_PATHS: list(envelope.deleted),
    }
    if envelope.isolation != Isolation():
        facts["isolation"] = msgspec.to_builtins(envelope.isolation)
    return {key: value for key, value in facts.items() if value not in (None, "", [])}


def _file_blocks(files: Sequence[OutputFile], context: ToolContext) -> Iterator[Block]:
    views = 0
    for file in files:
        yield _file_block(file, context)
        if file.preview:
            yield _view_block(file, context, views)
            views += 1


def file_facts(file: OutputFile, context: ToolContext) -> dict[str, Any]:
    """Return the facts of a file that a program wrote: its paths, type and size."""
    return {
        "artifact_path": file.logical_path,
        "physical_path": file.path,
        "mime": file.body.mime,
        "kind": "file",
        "visibility": file.visibility,
        "tool_call_id": context.call_id,
        "size_bytes": file.body.size_bytes,
    }


def _file_block(file: OutputFile, context: ToolContext) -> Block:
    meta: dict[str, Any] = {
        **file_facts(file, context),
        "description": file.description,
        "text_symbols": file.text_symbols,
        "line_count": file.line_count,
    }
    meta = {key: value for key, value in meta.items() if value not in (None, "")}
    if not file.contracted:
        meta |= {"auto_hosted": True, SILENT: True}
    return context.block(EXECUTE.tool_id, file.logical_path, mime=file.body.mime, body=file.body, meta=meta)


def _view_block(file: OutputFile, context: ToolContext, index: int) -> Block:
    meta = {"source_path": file.logical_path, "source_sha256": file.body.sha256, "whole": file.whole}
    return context.block(
        EXECUTE.tool_id, context.path(f"view.{index}"), mime="text/plain", text=file.preview, meta=meta
    )


def _call_blocks(envelope: Envelope, context: ToolContext) -> Iterator[Block]:
    room = CALLS_CHARS
    for index, record in enumerate(envelope.calls):
        call = sub_call_id(envelope.exec_id, index)
        asked, answered = _call_texts(record, call)
        if len(asked) + len(answered) > room:
            bare = replace(record, params={}, ret="", truncated=True)
            asked, answered = _call_texts(bare, call)
        room = max(0, room - len(asked) - len(answered))
        meta = {"parent": context.call_id, "tool_id": record.tool_id, "status": record.status, SILENT: True}
        for part, text in (("call", asked), ("result", answered)):
            path = str(CallPath(turn=context.turn, call=call, part=part))
            block = context.block(EXECUTE.tool_id, path, mime="application/json", text=text, meta=meta)
            yield replace(block, type=f"react.tool.{part}")


def _call_texts(record: ToolCallRecord, call: str) -> tuple[str, str]:
    asked = {
        "tool_id": record.tool_id,
        "tool_call_id": call,
        "params": record.params,
        "ts": record.at,
        **({"truncated": True} if record.truncated else {}),
    }
    answered = {
        "status": record.status,
        **({"code": record.code} if record.code else {}),
        "duration_ms": record.duration_ms,
        "ret": record.ret,
    }
    return render_json(asked), render_json(answered)


IMAGES_MAX: Final = 50
"""Maximum images of one run that become sources; a program may write any number."""


def run_sources(envelope: Envelope, context: ToolContext) -> tuple[Source, ...]:
    """Return the new or changed pool rows of a run; its tools kept their limits, so all their rows count."""
    offered = (_row(file, context.turn) for file in envelope.files if file.visibility == "external")
    images = islice(filter(is_eligible, offered), IMAGES_MAX)
    return merge_sources(context.sources.known, (*envelope.sources, *images)).rows


def _row(file: OutputFile, turn: str) -> Source:
    return Source(
        title=posixpath.basename(file.path),
        text=file.description,
        source_type="file",
        mime=file.body.mime,
        size_bytes=file.body.size_bytes,
        path=file.logical_path,
        turn_id=turn,
    )
