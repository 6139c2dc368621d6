"""The parameters of a call as the model reads them: small ones whole, of long ones the beginning."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from stepline.timeline.render.quote import inline_json

LONG_CHARS: Final = 400
"""A string beyond this is cut, and so is one beyond `CONTENT_CHARS` that is a body."""
CONTENT_CHARS: Final = 100
BODIES: Final = frozenset({"content", "code", "patch"})
"""Parameters that are bodies: they are read at the path they were written to, not in the call."""
DICT_KEYS: Final = 80
LIST_ITEMS: Final = 50
PARAMS_CHARS: Final = 12_000
"""Of all parameters of a call together, as JSON."""


def render_params(params: dict[str, Any]) -> tuple[str, bool]:
    """Return parameters as JSON on one line, and whether they are whole; what is cut says how much is missing."""
    shown = {name: _cut(name, value) for name, value in islice(params.items(), DICT_KEYS)}
    text = inline_json(shown)
    whole = shown == params
    if len(text) > PARAMS_CHARS:
        return f"{text[:PARAMS_CHARS]}… [{len(text) - PARAMS_CHARS} more characters]", False
    return text, whole


def _cut(name: str, value: Any) -> Any:
    match value:
        case str():
            most = CONTENT_CHARS if name in BODIES else LONG_CHARS
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
