"""Texts too long to be shown whole: how long they are, their beginning (and end), and the way to the rest.

Nothing that the model reads is unbounded. Messages of user and model are shown up to `TEXT_BYTES`, results of tools up to
`RESULT_PREVIEW_CHARS`; where something is missing, the text says how much, and its path leads to all of it.
Source: docs/concepts/context.md#what-is-too-long.
"""

from __future__ import annotations

from typing import Final

from stepline.model.usage import BYTES_PER_TOKEN, estimate_tokens
from stepline.timeline.render.quote import INDENT, clean, quote
from stepline.timeline.render.shape import render_shape

TEXT_TOKENS: Final = 12_000
TEXT_BYTES: Final = int(TEXT_TOKENS * BYTES_PER_TOKEN)
RESULT_PREVIEW_CHARS: Final = 12_000
READ_CHARS: Final = 200_000
"""Of what caps itself: more than any setting lets it show."""


def is_short(text: str, most: int = TEXT_BYTES) -> bool:
    """Tell whether `render_text` shows all of a text."""
    return len(text) <= most // 4 or _length(quote(text)) <= most


def render_text(text: str, what: str, most: int = TEXT_BYTES) -> str:
    """Return a text as lines of data, or its beginning and its end behind a banner that names it `what`."""
    quoted = quote(text)
    if len(text) <= most // 4 or _length(quoted) <= most:
        return f"{quoted}\n"
    first = _beginning(quoted, most - most // 4)
    last = _end(quoted, most // 4)
    left_out = max(0, len(quoted) - len(first) - len(last))
    return (
        f"[{what} PREVIEW TRUNCATED]\n{_facts(text)}{first.rstrip()}\n"
        f"...[truncated]: {left_out} characters left out; react.read shows all of it by its path\n"
        f"{INDENT}{last.strip()}\n"
    )


def render_result_text(text: str, path: str, *, most: int = RESULT_PREVIEW_CHARS) -> str:
    """Return a tool's text as lines of data, or a preview of one that is longer than `most`."""
    if len(text) <= most:
        return f"{quote(text)}\n"
    start = text[:most]
    shape = render_shape(text)
    shown = f"shape:\n{quote(shape)}\npreview:\n" if shape else ""
    return (
        f"[{_banner(path)} PREVIEW TRUNCATED]\n{_facts(text)}visible_preview_chars: {len(start)}\n"
        f"preview_lines: 1-{start.count(chr(10)) + 1} of {text.count(chr(10)) + 1}\n{shown}{quote(start)}\n"
        f"...[truncated]: to go on, react.read this path from offset_text_symbols {len(start)}\n"
    )


def _banner(path: str) -> str:
    if not path.startswith("fi:"):
        return "TOOL RESULT"
    return "CODE" if ".code." in path else "ARTIFACT"


def _facts(text: str) -> str:
    return (
        f"full_text_chars: {len(text)}\nfull_text_bytes: {_length(text)}\n"
        f"tokens_estimate: {estimate_tokens(text)}\n"
    )


def _length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _beginning(text: str, size: int) -> str:
    return text[:size].encode("utf-8", "surrogatepass")[:size].decode("utf-8", "ignore")


def _end(text: str, size: int) -> str:
    return text[-size:].encode("utf-8", "surrogatepass")[-size:].decode("utf-8", "ignore")


def fit_text(text: str, chars: int) -> str:
    """Return foreign text as lines of data, at most about so many characters of it, and a mark where it is cut."""
    cleaned = clean(text[: chars * 4])
    if len(cleaned) <= chars and len(text) <= chars * 4:
        return quote(text)
    return f"{quote(cleaned[: chars - 1].rstrip())}…"
