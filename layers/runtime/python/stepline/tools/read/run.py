"""`react.read`: show the content of logical paths, whole or by ranges, within the limits of the context.

The status comes first, with a row for every request. Views follow: blocks with their own
paths (`tc:<turn>.<call>.view.<i>`) whose `meta.source_path` names the source, so that no later
reader mistakes a part for the whole.
Source: docs/reference/tools.md#reactread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec.structs import replace

from stepline.context.media import NEWEST
from stepline.errors import PathError, ToolError
from stepline.model.block import Block
from stepline.model.file.mime import PICTURES, is_media
from stepline.model.path import SkillPath, SourcesPath, parse_path
from stepline.model.source import Source
from stepline.rendering.piece import Attached, Shown
from stepline.rendering.turn_facts import ATTACHMENT
from stepline.timeline.sources_pool import select_sources
from stepline.tools.content import PathContent, load_content, read_path
from stepline.tools.context import ToolContext, ToolOutput
from stepline.tools.parameter import PATH, choice, closed_schema, param
from stepline.tools.read.attach import DOWNSCALED, attached_already, attached_by, show_media
from stepline.tools.read.read_request import ReadRequest, parse_requests
from stepline.tools.read.shown_content import METADATA_ONLY, TOO_LARGE, TRUNCATED, ContentView, show
from stepline.tools.read.source_rows import show_sources
from stepline.tools.registry import Tool
from stepline.tools.spec import ToolSpec
from stepline.tools.window import FoundPart

REQUESTS_MAX: Final = 40

_LINE_NUMBERS: Final = choice(
    ["lines", "sparsed", "disabled", True, False],
    "number every line of a range (the default), a few, or none; numbers are no part of the text",
)
# Every keyword applies to one type only, so one schema accepts both and reports exact errors for either.
_ITEM: Final[dict[str, Any]] = {
    **PATH,
    **closed_schema(
        {
            "path": {**PATH, "description": "logical path"},
            "line_start": param("integer", "first line, from 1", minimum=1),
            "line_count": param("integer", "how many lines", minimum=1),
            "offset_text_symbols": param("integer", "first character, from 0, instead of lines", minimum=0),
            "max_text_symbols": param("integer", "at most so many characters", minimum=1),
            "line_numbers": _LINE_NUMBERS,
        },
        "path",
    ),
    "type": ["object", "string"],
}

READ: Final = ToolSpec(
    tool_id="react.read",
    purpose=(
        "Show what stands at logical paths: events and answers (ar:), tool calls and results (tc:), files (fi:), "
        "working summaries (ws:), rows of the pool of sources (so:sources_pool[1,3-5]). Use it for what you do not see in full; what you already see is not repeated."
    ),
    schema=closed_schema(
        {
            "paths": param(
                "array",
                "logical paths to show from their beginning; give paths, items, or both",
                maxItems=REQUESTS_MAX,
                items=PATH,
            ),
            "items": param(
                "array",
                "exact ranges, served in order; several may name one path",
                maxItems=REQUESTS_MAX,
                items=_ITEM,
            ),
            "max_text_symbols": param(
                "integer", "ask for fewer characters a path than the limit in ANNOUNCE", minimum=1
            ),
            "line_numbers": _LINE_NUMBERS,
            "stats_only": param("boolean", "sizes, lines and tokens only, no content", default=False),
        }
    ),
    returns=(
        "a status with a row per request, and an error if it can show none; then what is shown, each at a path of its own, the two newest pictures and PDFs behind the timeline, other bytes not; a piece that was cut "
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


SKILL_READ: Final = "react.skill.read"
"""The event of a read of skills."""
HIDDEN_PREFIX: Final = "sk:hidden-guidance-"
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
    attached: list[Attached] = []
    cited: list[Source] = []
    requests = list(_with_pictures(_with_imports(requests, context), context))
    for request in requests:
        row, view = _serve(request, context, attached, cited, stats_only=stats_only, alone=len(requests) == 1)
        if view is not None:
            path = context.path(f"view.{len(views)}")
            row["view"] = path
            views.append(replace(view, path=path))
        rows.append(row)
    _report_skills(rows, context)
    status = context.result(READ.tool_id, _status(rows, context, params, stats_only=stats_only))
    blocks = (*_missing_notice(rows, context), status, *views)
    if any(_is_served(row) for row in rows):
        return ToolOutput(blocks=blocks, sources=tuple(cited))
    error = {"code": NOTHING_ATTACHED, "message": "nothing that was asked for is shown; each row says why"}
    return ToolOutput(status="error", blocks=blocks, error=error)


def _report_skills(rows: Iterable[Mapping[str, Any]], context: ToolContext) -> None:
    """Report the requested skills and their results to the clients; a skill whose id is secret has no path."""
    skills = [
        {
            **({"path": row["path"]} if _is_disclosed(row["path"], context) else {}),
            "status": "missing" if "missing" in row or "invalid" in row else row.get("status", "loaded"),
        }
        for row in rows
        if row["path"].startswith("sk:")
    ]
    if skills:
        context.emit(SKILL_READ, {"count": len(skills), "skills": skills})


def _is_disclosed(path: str, context: ToolContext) -> bool:
    """Return False for a hidden skill and its files, existing or not, and for a text that is not a path."""
    try:
        found = parse_path(path)
    except PathError:
        return False
    shelf = context.shelves.get("sk")
    skill = shelf(f"sk:{found.skill}") if shelf and isinstance(found, SkillPath) else None
    return skill is None or not skill.path.startswith(HIDDEN_PREFIX)


def _is_served(row: Mapping[str, Any]) -> bool:
    """Return True if the model has the requested content: in this result, or already in its view."""
    return not ("missing" in row or "invalid" in row or row.get("status") in (METADATA_ONLY, TOO_LARGE))


def _with_imports(requests: Iterable[ReadRequest], context: ToolContext) -> Iterator[ReadRequest]:
    """Yield the requests, each skill after the skills that it imports; each skill once."""
    shelf, done = context.shelves.get("sk"), set[str]()
    for request in requests:
        found = shelf(str(path)) if shelf and (path := _skill_path(request)) else None
        if found is None:
            yield request
            continue
        yield from (ReadRequest(path=path) for path in found.imports if path not in done)
        if found.path not in done:
            yield request
        done |= {*found.imports, found.path}


def _skill_path(request: ReadRequest) -> SkillPath | None:
    """Return the skill that is requested; None for one of its files or a range of it, and for any other request."""
    try:
        path = parse_path(request.path)
    except PathError:
        return None
    return path if isinstance(path, SkillPath) and not (path.rel or request.is_range) else None


def _with_pictures(requests: Iterable[ReadRequest], context: ToolContext) -> Iterator[ReadRequest]:
    """Yield the requests; a request for pool rows is followed by those for the pictures that the rows name."""
    for request in requests:
        yield request
        if request.path.startswith("so:") and not request.is_range:
            yield from (ReadRequest(path=path) for path in _pictures(request.path, context))


def _pictures(path: str, context: ToolContext) -> list[str]:
    """Return the paths of the pictures among pool rows; none for a whole pool, or for any other path."""
    try:
        parsed = read_path(path, context.turn)
    except PathError:
        return []
    if not isinstance(parsed, SourcesPath) or not parsed.ranges:
        return []
    rows = select_sources(context.sources.rows, parsed.ranges)
    return [row.path for row in rows if row.path and row.mime in PICTURES][:NEWEST]


def _serve(
    request: ReadRequest,
    context: ToolContext,
    attached: list[Attached],
    cited: list[Source],
    *,
    stats_only: bool,
    alone: bool,
) -> tuple[dict[str, Any], Block | None]:
    """Return the row of one request and its view without a path, if there is one.

    `attached` are the files that the call attaches so far, and `cited` the sources of the shown content. If there are
    other requests, which may attach newer files, a file is attached even if the next request would have it anyway.
    """
    try:
        content = load_content(read_path(request.path, context.turn, context.resolvers), context)
        found = content.find(request.span, max_chars=_max_chars(request, context))
        row = {"path": content.path, **_asked(request, content), **_facts(content, found)}
        if stats_only:
            return {**row, "status": "stats_only"}, None
        if not content.size_bytes:
            return {**row, "status": "empty"}, None
        if shown := _shown_by(request, content, context, alone=alone):
            return {**row, "status": VISIBLE, "visible_at": _visible_at(shown)}, None
        if is_media(content.mime):
            view = show_media(content, context, attached)
        else:
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
    if view.body is not None:
        attached.append(attached_by(view, content))
    if view.body is not None and (source := _picture_source(content)):
        (numbered,) = context.cite((source,))
        cited.append(numbered)
        row["sid"] = numbered.sid
    cited += content.cited
    return {**row, **view.row}, _block(view, content, context)


def _picture_source(content: PathContent) -> Source | None:
    """Return a picture that came with an event as a source; None for anything else."""
    block = content.block
    if block.type != ATTACHMENT or content.mime not in PICTURES or content.conversation:
        return None
    return Source(
        title=block.meta["name"],
        source_type="attachment",
        mime=content.mime,
        size_bytes=content.size_bytes,
        path=content.path,
        turn_id=block.turn_id,
    )


def _max_chars(request: ReadRequest, context: ToolContext) -> int:
    """Return the maximum characters kept of a text, for any range."""
    return min(context.caps.max_chars, request.max_chars or context.caps.max_chars)


def _show(
    request: ReadRequest, content: PathContent, found: FoundPart | None, context: ToolContext
) -> ContentView:
    rows = None if request.is_range else content.rows
    view = show_sources(rows, context.caps, max_chars=request.max_chars) if rows else None
    return view or show(request, content, found, context.caps)


def _asked(request: ReadRequest, content: PathContent) -> dict[str, str]:
    """Return the requested path if it is an alias."""
    return {} if request.path == content.path else {"requested": request.path}


def _facts(content: PathContent, found: FoundPart | None) -> dict[str, Any]:
    facts: dict[str, Any] = {"mime": content.mime, "bytes": content.size_bytes}
    if content.conversation:
        facts["refs_begin_with"] = f"<family>:conv_{content.conversation}.<turn>"
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


def _shown_by(
    request: ReadRequest, content: PathContent, context: ToolContext, *, alone: bool
) -> Shown | None:
    """Return where the model already sees all of this content; a range is shown again."""
    if is_media(content.mime):
        seen = alone and context.layout.shows_timeline and attached_already(content, context)
        return Shown(path=content.path, n=0, turn_id="") if seen else None
    if request.is_range:
        return None
    shown = context.visible(content.path)
    return shown if shown is not None and content.is_shown_by(shown) else None


def _visible_at(shown: Shown) -> dict[str, str]:
    at = {"path": shown.path, **({"turn_id": shown.turn_id} if shown.turn_id else {})}
    if shown.call_id and shown.turn_id:
        at |= {
            "tool_call_id": shown.call_id,
            "tool_result_path": f"tc:{shown.turn_id}.{shown.call_id}.result",
        }
    return at


def _block(view: ContentView, content: PathContent, context: ToolContext) -> Block:
    return context.block(
        READ.tool_id,
        mime=view.body.mime if view.body else content.mime if view.whole else "text/plain",
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
        "downscaled_paths": _with_status(rows, DOWNSCALED),
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
