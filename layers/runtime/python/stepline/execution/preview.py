"""The preview of a text file that a program wrote: its beginning, and how much of it that is."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from msgspec.structs import replace

from stepline.model.base import Value
from stepline.model.program.execution import PREVIEW_CHARS
from stepline.tools.window import Span, Window, decode_pieces, find_part

PREVIEWS_CHARS: Final = 24_000
"""Of all files of one run."""
PREVIEW_CHARS_MIN: Final = 500
"""A shorter piece of a longer file is not worth its header."""

TITLE: Final = "[TEXT FILE PREVIEW]"

_CHUNK_BYTES: Final = 1024 * 1024


class Preview(Value):
    """What is shown of a text, under its header; `whole` if nothing is left out."""

    text: str
    whole: bool


def read_text(path: Path, *, keep_chars: int = PREVIEW_CHARS) -> Window | None:
    """Read a file as UTF-8, a piece at a time, and keep its beginning; None if it is no text."""
    try:
        with path.open("rb") as file:
            pieces = decode_pieces(iter(lambda: file.read(_CHUNK_BYTES), b""))
            return find_part(pieces, Span(), max_chars=keep_chars).part
    except UnicodeDecodeError:
        return None


def render_preview(beginning: Window, path: str, *, max_chars: int = PREVIEW_CHARS) -> Preview:
    """Render what is shown of the file at a logical path, up to `max_chars` of its characters."""
    window = replace(beginning, text=beginning.text[:max_chars])
    whole = window.end == window.size
    lines = [TITLE, f"path: {path}", f"lines: {window.notation()}"]
    lines += [f"partial_line: {line}" for line in window.partial_lines()]
    lines += [
        f"line_count: {window.line_count}",
        f"text_symbols: {window.size.offset}",
        f"cap: {max_chars}",
        f"line_numbers: {window.line_numbers}",
        f"text_truncated: {'false' if whole else 'true; react.read shows the rest'}",
        "",
        window.text,
    ]
    return Preview(text="\n".join(lines), whole=whole)
