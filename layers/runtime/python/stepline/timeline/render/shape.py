"""The shape of JSON: what kinds of things are where, without their values. And a glimpse of it on one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from stepline.timeline.render.quote import clip, inline, inline_json

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
    """Return what a text is as JSON: an object or an array; None for any other text, or one too long to look at."""
    if len(text) > PARSED_CHARS or text[:1] not in ("{", "["):
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def render_shape(text: str) -> str:
    """Return the shape of a text that is JSON, four levels deep; "" for any other text."""
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
    """Return what a value of JSON is, with its length if it has one."""
    match value:
        case dict() | list() | str():
            return f"{type(value).__name__}[{len(value)}]"
        case None:
            return "null"
        case _:
            return type(value).__name__


def render_glimpse(text: str) -> str:
    """Return on one line what a text is about: the sources it lists, or the short values in it, or its first words."""
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
    """Return a value with its short parts as they are and a name for the others."""
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
