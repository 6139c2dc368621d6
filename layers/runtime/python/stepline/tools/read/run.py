"""`react.read`: show the content of logical paths, whole or by ranges, within the limits of the context.

The status comes first, with a row for every request. Views follow: blocks with
paths of their own (`tc:<turn>.<call>.view.<i>`) whose `meta.source_path` names the source, so that no later
reader takes a part for the whole.
Source: docs/reference/tools.md#reactread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec.structs import replace

from stepline.errors import PathError, ToolError
from stepline.model.block import Block
from stepline.rendering.piece import Shown
from stepline.tools.content import Content, load_content, read_path
from stepline.tools.context import ToolContext, ToolOutput
from stepline.tools.read.read_request import Request, parse_requests
from stepline.tools.read.shown_content import METADATA_ONLY, TOO_LARGE, TRUNCATED, View, show
from stepline.tools.read.source_rows import show_sources
from stepline.tools.registry import Tool
from stepline.tools.spec import ToolSpec
from stepline.tools.window import Found

REQUESTS_MAX: Final = 40

_PATH: Final = {"type": "string", "minLength": 1, "maxLength": 2048}
_LINE_NUMBERS: Final = {
    "enum": ["lines", "sparsed", "disabled", True, False],
    "description": "number every line of a range (the default), a few, or none; numbers are no part of the text",
}
# Every keyword applies to one type only, so one schema accepts both and reports exact errors for either.
_ITEM: Final[dict[str, Any]] = {
    **_PATH,
    "type": ["object", "string"],
    "additionalProperties": False,
    "required": ["path"],
    "properties": {
        "path": {**_PATH, "description": "logical path"},
        "line_start": {"type": "integer", "minimum": 1, "description": "first line, from 1"},
        "line_count": {"type": "integer", "minimum": 1, "description": "how many lines"},
        "offset_text_symbols": {
            "type": "integer",
            "minimum": 0,
            "description": "first character, from 0, instead of lines",
        },
        "max_text_symbols": {"type": "integer", "minimum": 1, "description": "at most so many characters"},
        "line_numbers": _LINE_NUMBERS,
    },
}

READ: Final = ToolSpec(
    tool_id="react.read",
    purpose=(
        "Show what stands at logical paths: events and answers (ar:), tool calls and results (tc:), files (fi:), "
        "working summaries (ws:), rows of the pool of sources (so:sources_pool[1,3-5]). Use it for what you do not see in full; what you already see is not repeated."
    ),
    schema={
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "paths": {
                "type": "array",
                "maxItems": REQUESTS_MAX,
                "items": _PATH,
                "description": "logical paths to show from their beginning; give paths, items, or both",
            },
            "items": {
                "type": "array",
                "maxItems": REQUESTS_MAX,
                "items": _ITEM,
                "description": "exact ranges, served in order; several may name one path",
            },
            "max_text_symbols": {
                "type": "integer",
                "minimum": 1,
                "description": "ask for fewer characters a path than the limit in ANNOUNCE",
            },
            "line_numbers": _LINE_NUMBERS,
            "stats_only": {
                "type": "boolean",
                "default": False,
                "description": "sizes, lines and tokens only, no content",
            },
        },
    },
    returns=(
        "a status with a row per request, and an error if it can show none; of pictures, PDFs and other bytes the facts alone; then what is shown, each at a path of its own; a piece that was cut "
        "ends with the request that continues it"
    ),
    effect="pure",
    read_only=True,
    in_exec=True,
    strategies=("exploration",),
    examples=(
        {"paths": ["fi:turn_20261121T101500_ab12cd.outputs/report.md"]},
        {
            "items": [
                {
                    "path": "tc:turn_20261121T101500_ab12cd.tc_0123456789ab.result",
                    "line_start": 40,
                    "line_count": 20,
                }
            ]
        },
    ),
)


VISIBLE: Final = "exists_in_visible_context"
NOTHING_ATTACHED: Final = "read_nothing_attached"


def run_read(params: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    """Read every path in the order of the request, paths before items."""
    requests = parse_requests(params)
    if not requests:
        raise ToolError("name at least one path, in `paths` or `items`", code="read_nothing_requested")
    stats_only = bool(params.get("stats_only", False))
    rows: list[dict[str, Any]] = []
    views: list[Block] = []
    for request in requests:
        row, view = _serve(request, context, stats_only=stats_only)
        if view is not None:
            path = context.path(f"view.{len(views)}")
            row["view"] = path
            views.append(replace(view, path=path))
        rows.append(row)
    status = context.result(READ.tool_id, _status(rows, context, params, stats_only=stats_only))
    blocks = (*_missing_notice(rows, context), status, *views)
    if any(_is_served(row) for row in rows):
        return ToolOutput(blocks=blocks)
    error = {"code": NOTHING_ATTACHED, "message": "nothing that was asked for is shown; each row says why"}
    return ToolOutput(status="error", blocks=blocks, error=error)


def _is_served(row: Mapping[str, Any]) -> bool:
    """Return True if the model has what it asked for: in this result, or in its view already."""
    return not ("missing" in row or "invalid" in row or row.get("status") in (METADATA_ONLY, TOO_LARGE))


def _serve(
    request: Request, context: ToolContext, *, stats_only: bool
) -> tuple[dict[str, Any], Block | None]:
    """Return the row of one request and its view without a path, if there is one."""
    try:
        content = load_content(read_path(request.path, context.turn), context)
        found = content.find(request.span, max_chars=_max_chars(request, context))
        row = {"path": content.path, **_asked(request, content), **_facts(content, found)}
        if stats_only:
            return {**row, "status": "stats_only"}, None
        if not content.size_bytes:
            return {**row, "status": "empty"}, None
        if not request.is_range and (shown := _shown_by(content, context)):
            return {**row, "status": VISIBLE, "visible_at": _visible_at(shown)}, None
        view = _show(request, content, found, context)
    except (PathError, ToolError) as refused:
        known = {key: value for key, value in refused.context.items() if value is not None}
        flaw = (
            "invalid" if isinstance(refused, PathError) or refused.reason.startswith("range_") else "missing"
        )
        return {
            "path": request.path[:300],
            flaw: True,
            "reason": refused.reason,
            "message": str(refused),
            **known,
        }, None
    return {**row, **view.row}, _block(view, content, context)


def _max_chars(request: Request, context: ToolContext) -> int:
    """Return the maximum characters kept of a text, whatever the range."""
    return min(context.caps.max_chars, request.max_chars or context.caps.max_chars)


def _show(request: Request, content: Content, found: Found | None, context: ToolContext) -> View:
    rows = None if request.is_range else content.rows
    view = show_sources(rows, context.caps, max_chars=request.max_chars) if rows else None
    return view or show(request, content, found, context.caps)


def _asked(request: Request, content: Content) -> dict[str, str]:
    """Return the requested path if it is an alias."""
    return {} if request.path == content.path else {"requested": request.path}


def _facts(content: Content, found: Found | None) -> dict[str, Any]:
    facts: dict[str, Any] = {"mime": content.mime, "bytes": content.size_bytes}
    if found is not None:
        facts |= {
            "text_symbols": found.size.offset,
            "line_count": found.size.line_before,
            "tokens": content.tokens,
        }
    facts |= {
        name: content.block.meta[name] for name in ("kind", "missing_sids") if content.block.meta.get(name)
    }
    return facts


def _shown_by(content: Content, context: ToolContext) -> Shown | None:
    """Return where the model already sees all of this content."""
    shown = context.timeline.visible(content.path)
    return shown if shown is not None and content.is_shown_by(shown) else None


def _visible_at(shown: Shown) -> dict[str, str]:
    at = {"path": shown.path, **({"turn_id": shown.turn_id} if shown.turn_id else {})}
    if shown.call_id and shown.turn_id:
        at |= {
            "tool_call_id": shown.call_id,
            "tool_result_path": f"tc:{shown.turn_id}.{shown.call_id}.result",
        }
    return at


def _block(view: View, content: Content, context: ToolContext) -> Block:
    return context.block(
        READ.tool_id,
        mime=content.mime if view.whole else "text/plain",
        text=view.text,
        body=view.body,
        meta={"source_path": content.path, "source_sha256": content.sha256, "whole": view.whole, **view.meta},
    )


def _status(
    rows: list[dict[str, Any]], context: ToolContext, params: Mapping[str, Any], *, stats_only: bool
) -> dict[str, Any]:
    caps = context.caps
    status: dict[str, Any] = {
        "paths": rows,
        "total_tokens": sum(row.get("visible_tokens", 0) for row in rows),
        "visible_read_limit_tokens": caps.max_tokens,
        "visible_read_limit_text_symbols": caps.max_chars,
        "visible_read_limit_bytes": caps.max_bytes,
        "stats_only": stats_only,
    }
    if "max_text_symbols" in params:
        status["requested_text_symbols"] = params["max_text_symbols"]
    lists = {
        "missing": (row["path"] for row in rows if "missing" in row),
        "invalid": (row["path"] for row in rows if "invalid" in row),
        "exists_in_visible_context": _with_status(rows, VISIBLE),
        "truncated_paths": _with_status(rows, TRUNCATED),
        "large_paths": _with_status(rows, TOO_LARGE),
    }
    for key, paths in lists.items():
        if named := list(dict.fromkeys(paths)):
            status[key] = named
    refs = {row["path"]: row.pop("visible_at") for row in rows if "visible_at" in row}
    return status | ({"visible_context_refs": refs} if refs else {})


def _with_status(rows: list[dict[str, Any]], wanted: str) -> Iterator[str]:
    return (row["path"] for row in rows if row.get("status") == wanted)


def _missing_notice(rows: list[dict[str, Any]], context: ToolContext) -> tuple[Block, ...]:
    lost = [
        {"path": row["path"], "reason": row["reason"]} for row in rows if "missing" in row or "invalid" in row
    ]
    if not lost:
        return ()
    message = f"{len(lost)} of {len(rows)} requested paths could not be read; each row says why."
    return (context.notice(READ.tool_id, "read_paths_missing", message, {"missing": lost}),)


READ_TOOL: Final = Tool(spec=READ, run=run_read)
