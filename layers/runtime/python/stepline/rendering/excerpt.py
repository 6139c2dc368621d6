"""Excerpts of long texts: the shape and a glimpse of JSON, and previews with the way to the rest.

Everything that the model reads is bounded. Messages of user and model are shown up to `TEXT_BYTES`, results
of tools up to `RESULT_PREVIEW_CHARS`; a cut text says how much is missing, and its path leads to the whole.
Source: docs/concepts/context.md#what-is-too-long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from stepline.model.usage import BYTES_PER_TOKEN, estimate_tokens
from stepline.rendering.quote import INDENT, clean, clip, inline, inline_json, quote

DEPTH: Final = 4
CHILDREN: Final = 10
KEY_CHARS: Final = 40
PARSED_CHARS: Final = 2_000_000

GLIMPSE_CHARS: Final = 320
WORDS_CHARS: Final = 80
GLIMPSE_ITEMS: Final = 8
GLIMPSE_KEYS: Final = 16
VALUE_CHARS: Final = 60
TITLE_CHARS: Final = 36


def parse_json(text: str) -> Any:
    """Return a text parsed as a JSON object or array; None for any other text, or one that is too long."""
    if len(text) > PARSED_CHARS or text[:1] not in ("{", "["):
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def render_shape(text: str) -> str:
    """Return the shape of a JSON text, four levels deep: types and lengths without values; else ""."""
    value = parse_json(text)
    return "\n".join(_shape("", value, 0)) if value is not None else ""


def _shape(name: str, value: Any, depth: int) -> Iterator[str]:
    blanks = "  " * depth
    yield f"{blanks}{name}{': ' if name else ''}{name_type(value)}"
    if depth >= DEPTH - 1:
        return
    match value:
        case dict():
            for key, item in islice(value.items(), CHILDREN):
                yield from _shape(inline(key)[:KEY_CHARS], item, depth + 1)
            if len(value) > CHILDREN:
                yield f"{blanks}  … {len(value) - CHILDREN} more keys"
        case [first, *_]:
            yield from _shape("[0]", first, depth + 1)
            if len(value) > 1:
                yield f"{blanks}  … more_items: {len(value) - 1}"


def name_type(value: Any) -> str:
    """Return the type of a JSON value, with its length if it has one."""
    match value:
        case dict() | list() | str():
            return f"{type(value).__name__}[{len(value)}]"
        case None:
            return "null"
        case _:
            return type(value).__name__


def render_glimpse(text: str) -> str:
    """Return a one-line gist of a text: the sources it lists, its short values, or its first words."""
    value = parse_json(text)
    if value is None:
        return clip(text, WORDS_CHARS)
    rows = _sources(value)
    if rows:
        told = "; ".join(f"[{row['sid']}] {clip(str(row.get('title', '')), TITLE_CHARS)}" for row in rows)
        return clip(f"{len(rows)} sources: {told}", GLIMPSE_CHARS)
    compact = inline_json(_compact(value))
    if len(compact) <= GLIMPSE_CHARS:
        return compact
    if isinstance(value, dict):
        keys = ", ".join(inline(key)[:KEY_CHARS] for key in islice(value, GLIMPSE_KEYS))
        return clip(f"dict[{len(value)}]: {keys}", WORDS_CHARS)
    return name_type(value)


def _sources(value: Any) -> list[dict[str, Any]]:
    candidates = [value, *islice(value.values(), GLIMPSE_KEYS)] if isinstance(value, dict) else [value]
    for found in candidates:
        if isinstance(found, list) and found:
            rows = [row for row in found if isinstance(row, dict) and isinstance(row.get("sid"), int)]
            if len(rows) == len(found):
                return rows
    return []


def _compact(value: Any) -> Any:
    """Return a value with its short parts unchanged and the types of the others."""
    match value:
        case dict():
            kept = islice(value.items(), GLIMPSE_KEYS)
            return {key[:KEY_CHARS]: _leaf(item) for key, item in kept}
        case _:
            return [_leaf(item) for item in value[:GLIMPSE_ITEMS]]


def _leaf(value: Any) -> Any:
    if isinstance(value, str):
        return clip(value, VALUE_CHARS)
    return name_type(value) if isinstance(value, Mapping | list) else value


TEXT_TOKENS: Final = 12_000
TEXT_BYTES: Final = int(TEXT_TOKENS * BYTES_PER_TOKEN)
RESULT_PREVIEW_CHARS: Final = 12_000
READ_CHARS: Final = 200_000
"""Maximum characters of tools with caps of their own: more than any setting allows."""


def is_short(text: str, most: int = TEXT_BYTES) -> bool:
    """Return True if `render_text` shows all of a text."""
    return len(text) <= most // 4 or _length(quote(text)) <= most


def render_text(text: str, what: str, most: int = TEXT_BYTES) -> str:
    """Return a text as lines of data; a long one as beginning and end, behind a banner named `what`."""
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
    """Return a tool's text as lines of data, or a preview if it is longer than `most`."""
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
    """Return at most about `chars` characters of foreign text as lines of data, with a mark if it is cut."""
    cleaned = clean(text[: chars * 4])
    if len(cleaned) <= chars and len(text) <= chars * 4:
        return quote(text)
    return f"{quote(cleaned[: chars - 1].rstrip())}…"
