"""The preview of a call: parameters small enough to be read, each cut one with the way to the whole.

Source: docs/concepts/timeline.md#calls.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

STRING_CHARS: Final = 2_000
PREVIEW_CHARS: Final = 600
DICT_KEYS: Final = 80
LIST_ITEMS: Final = 50


def cap_params(params: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the parameters with everything long cut, and the names of the fields where something was."""
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
