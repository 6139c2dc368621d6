"""Excerpts of values: a call's parameters capped for the call's block, the shape of a JSON text, and its gist.

Source: docs/concepts/timeline.md#calls.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from stepline.rendering.quote import clip, inline, inline_json

BODIES: Final = frozenset({"content", "code", "patch"})
"""Parameters that are bodies: they are read at the path that they were written to, not in the call."""
DICT_KEYS: Final = 80
LIST_ITEMS: Final = 50
STRING_CHARS: Final = 2_000
PREVIEW_CHARS: Final = 600


def cap_params(params: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the parameters with long values cut, and the names of the cut fields."""
    omitted: list[str] = []
    return _cap_dict(params, "", omitted), omitted


def _cap_dict(value: dict[str, Any], at: str, omitted: list[str]) -> dict[str, Any]:
    kept = {
        key: _cap(item, f"{at}.{key}".lstrip("."), omitted) for key, item in list(value.items())[:DICT_KEYS]
    }
    if len(value) > DICT_KEYS:
        omitted.append(at or "params")
        kept["__omitted_keys__"] = len(value) - DICT_KEYS
    return kept


def _cap(value: Any, at: str, omitted: list[str]) -> Any:
    match value:
        case str() if len(value) > STRING_CHARS:
            omitted.append(at)
            return _describe(value, at)
        case dict():
            return _cap_dict(value, at, omitted)
        case list():
            kept = [_cap(item, f"{at}[{i}]", omitted) for i, item in enumerate(value[:LIST_ITEMS])]
            if len(value) > LIST_ITEMS:
                omitted.append(at)
                kept.append({"__omitted_items__": len(value) - LIST_ITEMS})
            return kept
        case _:
            return value


def _describe(text: str, at: str) -> dict[str, Any]:
    body = text.encode("utf-8", "surrogatepass")
    return {
        "preview": text[:PREVIEW_CHARS],
        "truncated": True,
        "omitted_text_symbols": len(text) - PREVIEW_CHARS,
        "text_symbols": len(text),
        "size_bytes": len(body),
        "sha1": hashlib.sha1(body, usedforsecurity=False).hexdigest()[:12],
        "field": at,
    }


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
        listed = "; ".join(f"[{row['sid']}] {clip(str(row.get('title', '')), TITLE_CHARS)}" for row in rows)
        return clip(f"{len(rows)} sources: {listed}", GLIMPSE_CHARS)
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
