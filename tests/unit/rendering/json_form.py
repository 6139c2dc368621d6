"""A second form, as far from the standard one as a form can be: one object of JSON a line."""

from __future__ import annotations

import json
from typing import Any, Final

from stepline.model.base import Value
from stepline.rendering.text_form import TextForm

CLIPPED_CHARS: Final = 200
FACTS: Final = (
    *(
        "turn",
        "text",
        "message",
        "summary",
        "checkpoint",
        "answer",
        "code",
        "iteration",
        "tool_id",
        "call_id",
    ),
    *("path", "kind", "hint", "plan_id", "type", "status", "reaction"),
)


def line(kind: str, *facts: Any) -> str:
    """Return one line that says what kind of thing this is, and what is known of it."""
    return json.dumps({"a": kind, "facts": [_plain(fact) for fact in facts]}) + "\n"


def _plain(fact: Any) -> Any:
    match fact:
        case Value():
            return {name: _plain(getattr(fact, name)) for name in FACTS if getattr(fact, name, None)}
        case str():
            return fact[:CLIPPED_CHARS]
        case list() | tuple():
            return [_plain(item) for item in fact[:4]]
        case dict():
            return len(fact)
        case _:
            return fact


def _said(kind: str) -> Any:
    return lambda *facts: line(kind, *facts)


def _never(*_: Any) -> bool:
    return False


OTHER: Final = {
    "name": "terse",
    "rows": lambda pieces: line("rows", [piece.path for piece in pieces if piece.path]),
    "stub": lambda piece: line("stub", piece.path),
    "forked": lambda effects: line("forked", effects) if effects else "",
    "plans": lambda plans: line("plans", plans) if plans else "",
    "shows_text": _never,
    "shows_call": _never,
    "shows_event": _never,
}
TERSE: Final = TextForm(
    **{name: OTHER.get(name, _said(name)) for name in TextForm.__struct_fields__},
)
