"""The view of one content: the text itself, a marked piece of it, or a marker that replaces it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from stepline.model.base import Value
from stepline.model.block import Body
from stepline.model.file.magic_bytes import MISMATCH, find_mismatch
from stepline.model.usage import BYTES_PER_TOKEN, estimate_tokens
from stepline.tools.content import PathContent
from stepline.tools.context import ReadCaps, render_json
from stepline.tools.read.read_request import ReadRequest
from stepline.tools.window import FoundPart, TextPosition, TextWindow, fit_window

TRUNCATED: Final = "truncated_for_visible_context"
TOO_LARGE: Final = "too_large_for_visible_context_bytes"
METADATA_ONLY: Final = "metadata_only"


class ContentView(Value):
    """The parts of a view: `row` for the status, `meta` for the block. `whole`: nothing left out or added."""

    row: dict[str, Any]
    text: str = ""
    body: Body | None = None
    whole: bool = False
    meta: dict[str, Any] = msgspec.field(default_factory=dict)


def show(request: ReadRequest, content: PathContent, found: FoundPart | None, caps: ReadCaps) -> ContentView:
    """Return the view of a content that is not empty. Raises ToolError for a range that is not in it."""
    if found is None:
        return _name_bytes(content)
    part = request.check(found)
    max_bytes = min(caps.max_bytes, int(caps.max_tokens * BYTES_PER_TOKEN))
    if not request.is_range:
        whole = fit_window(part, max_bytes=max_bytes, line_numbers="disabled")
        if whole.end == found.end:
            return _show_whole(whole)
    window = fit_window(part, max_bytes=max_bytes, line_numbers=request.line_numbers or "lines")
    if not window.text:
        return mark_large(content, caps.max_bytes)
    return _show_window(request, content, window, found.end)


def _show_whole(window: TextWindow) -> ContentView:
    return ContentView(text=window.text, whole=True, row={"visible_tokens": estimate_tokens(window.text)})


def _show_window(
    request: ReadRequest, content: PathContent, window: TextWindow, end: TextPosition
) -> ContentView:
    cut = window.end.offset < end.offset
    shown = window.render()
    text = f"{_header(request, content, window)}\n{shown}"
    if cut:
        text += ("" if text.endswith("\n") else "\n") + _footer(
            content, window, _next(request, content, window, end)
        )
    row: dict[str, Any] = {
        "read_range": _read_range(request, window),
        "visible_tokens": estimate_tokens(shown),
    }
    if cut:
        row |= {"status": TRUNCATED, "next": _next(request, content, window, end)}
    return ContentView(text=text, row=row, meta={"read_range": row["read_range"]})


def _read_range(request: ReadRequest, window: TextWindow) -> dict[str, Any]:
    """Return the position of the window: offsets always, lines in the notation of the header."""
    return {
        "range_kind": "lines" if request.by_lines else "text_symbols",
        "offset_text_symbols": window.start.offset,
        "text_symbols": len(window.text),
        "lines": window.notation(),
        "partial_lines": window.partial_lines(),
    }


def _header(request: ReadRequest, content: PathContent, window: TextWindow) -> str:
    title = "[READ RANGE]" if request.is_range else "[READ PREVIEW]"
    lines = [title, f"path: {content.path}", f"lines: {window.notation()}"]
    lines += [f"partial_line: {line}" for line in window.partial_lines()]
    lines.append(f"text_symbols: [{window.start.offset}-{window.end.offset}]/{window.size.offset}")
    lines.append(f"line_numbers: {window.line_numbers}")
    return "\n".join([*lines, ""])


def _footer(content: PathContent, window: TextWindow, following: dict[str, Any]) -> str:
    again = render_json({"items": [following]})
    before, total = window.start.offset, window.size.offset
    return "\n".join(
        [
            "[READ PREVIEW TRUNCATED]",
            f"omitted_text_symbols: {total - window.end.offset} after, {before} before this piece",
            f"whole: {total} text_symbols, {content.size_bytes} bytes, about {content.tokens} tokens",
            f"to go on, call react.read with {again}",
        ]
    )


def _next(
    request: ReadRequest, content: PathContent, window: TextWindow, end: TextPosition
) -> dict[str, Any]:
    """Return the item that requests the rest of the requested piece, which ends at `end`."""
    at, bounded = window.end, end.offset < window.size.offset
    item: dict[str, Any] = {"path": content.path}
    if at.begins_line and (end.begins_line or not bounded):
        item["line_start"] = at.line
        if bounded:
            item["line_count"] = end.line - at.line
    else:
        item["offset_text_symbols"] = at.offset
        if bounded:
            item["max_text_symbols"] = end.offset - at.offset
    if request.line_numbers:
        item["line_numbers"] = request.line_numbers
    return item


def _name_bytes(content: PathContent) -> ContentView:
    """Return the facts of bytes that no model accepts."""
    mismatch = find_mismatch(content.head(), content.mime)
    return not_shown(content, f"{MISMATCH}: {mismatch}" if mismatch else "")


def not_shown(content: PathContent, flaw: str = "", status: str = METADATA_ONLY) -> ContentView:
    """Return the facts of bytes that are not shown, and why if that is not their type."""
    lines = [f"path: {content.path}", f"mime: {content.mime}", f"bytes: {content.size_bytes}"]
    lines += [f"flaw: {flaw}"] if flaw else []
    row = {"status": status, **({"flaw": flaw} if flaw else {})}
    return ContentView(text="\n".join(["[BINARY FILE NOT SHOWN]", *lines, ""]), row=row)


def mark_large(content: PathContent, most_bytes: int) -> ContentView:
    """Return the marker that replaces a content larger than `most_bytes`."""
    return ContentView(
        text=(
            f"[LARGE READ NOT MATERIALIZED]\npath: {content.path}\nmime: {content.mime}\n"
            f"bytes: {content.size_bytes}\nbyte_limit: {most_bytes}\n"
        ),
        row={"status": TOO_LARGE},
    )
