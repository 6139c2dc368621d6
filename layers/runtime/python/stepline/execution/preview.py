"""The preview of a text file that a program wrote: its beginning, and how much of it that is."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Final

from stepline.model.base import Value
from stepline.model.execution import PREVIEW_CHARS
from stepline.tools.window import SourceText, Window, fit_window

PREVIEWS_CHARS: Final = 24_000
"""Of all files of one run."""
PREVIEW_CHARS_MIN: Final = 500
"""A shorter piece of a longer file is not worth its header."""

TITLE: Final = "[TEXT FILE PREVIEW]"

_CHUNK_BYTES: Final = 1024 * 1024
_BYTES_PER_CHAR_MAX: Final = 4


class TextFacts(Value):
    """What is known of a whole text: its length in characters and lines, and the beginning that was kept of it."""

    text_symbols: int
    line_count: int
    head: str


class Preview(Value):
    """What is shown of a text, under its header; `whole` if nothing is left out."""

    text: str
    whole: bool


def read_text(path: Path, *, keep_chars: int = PREVIEW_CHARS) -> TextFacts | None:
    """Read a file as UTF-8, a piece at a time, and keep one character more than `keep_chars`; None if it is none."""
    decode = codecs.getincrementaldecoder("utf-8")().decode
    symbols, breaks, head, last = 0, 0, "", ""
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                text = decode(chunk)
                symbols += len(text)
                breaks += text.count("\n")
                last = text[-1:] or last
                head += text[: keep_chars + 1 - len(head)] if len(head) <= keep_chars else ""
        decode(b"", True)
    except UnicodeDecodeError:
        return None
    return TextFacts(text_symbols=symbols, line_count=breaks + (last not in ("", "\n")), head=head)


def render_preview(facts: TextFacts, path: str, *, max_chars: int = PREVIEW_CHARS) -> Preview:
    """Render what is shown of the file at a logical path, up to `max_chars` of its characters."""
    source = SourceText(facts.head)
    window = fit_window(
        source,
        0,
        len(facts.head),
        max_chars=max_chars,
        max_bytes=_BYTES_PER_CHAR_MAX * max_chars,
        line_numbers="disabled",
    )
    whole = window.end == facts.text_symbols
    lines = [TITLE, f"path: {path}", f"lines: {_notation(window, facts.line_count)}"]
    lines += [f"partial_line: {line}" for line in window.partial_lines()]
    lines += [
        f"line_count: {facts.line_count}",
        f"text_symbols: {facts.text_symbols}",
        f"cap: {max_chars}",
        f"line_numbers: {window.line_numbers}",
        f"text_truncated: {'false' if whole else 'true; react.read shows the rest'}",
        "",
        window.text,
    ]
    return Preview(text="\n".join(lines), whole=whole)


def _notation(window: Window, line_count: int) -> str:
    shown = window.whole_lines()
    return f"[{f'{shown[0]}-{shown[1]}' if shown else 'none'}]/{line_count}"
