"""The parameters of a call as the model reads them, and capped for the call's block.

Short parameters are shown whole; a long one is cut, with the way to the whole.
Source: docs/concepts/timeline.md#calls.
"""

from __future__ import annotations

import hashlib
from itertools import islice
from typing import Any, Final

from stepline.rendering.quote import inline_json

LONG_CHARS: Final = 400
"""Longer strings are cut; so are bodies longer than `CONTENT_CHARS`."""
CONTENT_CHARS: Final = 100
BODIES: Final = frozenset({"content", "code", "patch"})
"""Parameters that are bodies: they are read at the path they were written to, not in the call."""
DICT_KEYS: Final = 80
LIST_ITEMS: Final = 50
PARAMS_CHARS: Final = 12_000
"""Maximum characters of all parameters of a call together, as JSON."""


def render_params(params: dict[str, Any]) -> tuple[str, bool]:
    """Return parameters as JSON on one line, and True if they are complete; cuts are counted in the text."""
    shown = {name: _cut(name, value) for name, value in islice(params.items(), DICT_KEYS)}
    text = inline_json(shown)
    whole = shown == params
    if len(text) > PARAMS_CHARS:
        return f"{text[:PARAMS_CHARS]}… [{len(text) - PARAMS_CHARS} more characters]", False
    return text, whole


def _cut(name: str, value: Any) -> Any:
    match value:
        case str():
            most = CONTENT_CHARS if name in BODIES and not value.startswith("ref:") else LONG_CHARS
            if len(value) <= most:
                return value
            return f"{value[:CONTENT_CHARS]}… [{len(value) - CONTENT_CHARS} more characters]"
        case dict():
            kept = {key: _cut(str(key), item) for key, item in islice(value.items(), DICT_KEYS)}
            return kept if len(kept) == len(value) else {**kept, "…": f"[{len(value) - len(kept)} more keys]"}
        case list():
            items = [_cut(name, item) for item in value[:LIST_ITEMS]]
            more = len(value) - len(items)
            return [*items, f"… [{more} more items]"] if more else items
        case _:
            return value


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
