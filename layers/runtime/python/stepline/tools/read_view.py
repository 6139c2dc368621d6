"""What a read shows of one content: the text itself, a marked piece of it, or a marker in its place."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from stepline.model.base import Value
from stepline.model.block import Body
from stepline.model.usage import BYTES_PER_TOKEN, estimate_tokens
from stepline.tools.content import Content
from stepline.tools.context import ReadCaps, render_json
from stepline.tools.read_request import Request
from stepline.tools.window import LineNumbers, Window, fit_window

ATTACHED_MIMES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf")
"""Bytes a model can look at: shown whole or not at all."""

TRUNCATED: Final = "truncated_for_visible_context"
TOO_LARGE: Final = "too_large_for_visible_context_bytes"
METADATA_ONLY: Final = "metadata_only"


class View(Value):
    """A view to be: `row` goes into the status, `meta` into the block. `whole`: nothing is left out or added."""

    row: dict[str, Any]
    text: str = ""
    body: Body | None = None
    whole: bool = False
    meta: dict[str, Any] = msgspec.field(default_factory=dict)


def show(request: Request, content: Content, caps: ReadCaps) -> View:
    """Return the view of one content that is not empty. Raises ToolError for a range it does not have."""
    if content.text is None:
        return _show_bytes(content, caps)
    source = content.source
    start, end = request.bounds(source)
    numbers: LineNumbers = request.line_numbers or "lines"
    limits = {
        "max_chars": min(caps.max_chars, request.max_chars or caps.max_chars),
        "max_bytes": min(caps.max_bytes, int(caps.max_tokens * BYTES_PER_TOKEN)),
    }
    if not request.is_range:
        whole = fit_window(source, start, end, **limits, line_numbers="disabled")
        if whole.end == end:
            return _show_whole(whole)
    window = fit_window(source, start, end, **limits, line_numbers=numbers)
    if window.end == window.start:
        return _marker(content, caps)
    return _show_window(request, content, window, end)


def _show_whole(window: Window) -> View:
    return View(text=window.text, whole=True, row={"visible_tokens": estimate_tokens(window.text)})


def _show_window(request: Request, content: Content, window: Window, end: int) -> View:
    cut = window.end < end
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
    return View(text=text, row=row, meta={"read_range": row["read_range"]})


def _read_range(request: Request, window: Window) -> dict[str, Any]:
    """Return where the window stands: offsets always, lines in the notation of the header."""
    return {
        "range_kind": "lines" if request.by_lines else "text_symbols",
        "offset_text_symbols": window.start,
        "text_symbols": window.end - window.start,
        "lines": window.notation(),
        "partial_lines": window.partial_lines(),
    }


def _header(request: Request, content: Content, window: Window) -> str:
    title = "[READ RANGE]" if request.is_range else "[READ PREVIEW]"
    lines = [title, f"path: {content.path}", f"lines: {window.notation()}"]
    lines += [f"partial_line: {line}" for line in window.partial_lines()]
    lines.append(f"text_symbols: [{window.start}-{window.end}]/{len(window.source.text)}")
    lines.append(f"line_numbers: {window.line_numbers}")
    return "\n".join([*lines, ""])


def _footer(content: Content, window: Window, following: dict[str, Any]) -> str:
    text = window.source.text
    again = render_json({"items": [following]})
    return "\n".join(
        [
            "[READ PREVIEW TRUNCATED]",
            f"omitted_text_symbols: {len(text) - window.end} after, {window.start} before this piece",
            f"whole: {len(text)} text_symbols, {content.size_bytes} bytes, about {estimate_tokens(text)} tokens",
            f"to go on, call react.read with {again}",
        ]
    )


def _next(request: Request, content: Content, window: Window, end: int) -> dict[str, Any]:
    """Return the item that shows what is left of the piece that was asked for and ends at `end`."""
    source, bounded = window.source, end < len(window.source.text)
    line, last = source.line_at(window.end), source.line_at(end - 1)
    item: dict[str, Any] = {"path": content.path}
    if source.starts[line - 1] == window.end and source.line_end(last) == end:
        item["line_start"] = line
        if bounded:
            item["line_count"] = last - line + 1
    else:
        item["offset_text_symbols"] = window.end
        if bounded:
            item["max_text_symbols"] = end - window.end
    if request.line_numbers:
        item["line_numbers"] = request.line_numbers
    return item


def _show_bytes(content: Content, caps: ReadCaps) -> View:
    if content.mime not in ATTACHED_MIMES:
        return View(
            text=f"[BINARY FILE NOT SHOWN]\npath: {content.path}\nmime: {content.mime}\nbytes: {content.size_bytes}\n",
            row={"status": METADATA_ONLY},
        )
    if content.size_bytes > caps.max_bytes:
        return _marker(content, caps)
    return View(body=content.body, whole=True, row={})


def _marker(content: Content, caps: ReadCaps) -> View:
    return View(
        text=(
            f"[LARGE READ NOT MATERIALIZED]\npath: {content.path}\nmime: {content.mime}\n"
            f"bytes: {content.size_bytes}\nbyte_limit: {caps.max_bytes}\n"
        ),
        row={"status": TOO_LARGE},
    )
