"""Rules of tools' parameters, by the keywords of JSON schema; the model's catalogue is made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

PATH: Final = {"type": "string", "minLength": 1, "maxLength": 2048}


def param(kind: str | Sequence[str], description: str, **rules: Any) -> dict[str, Any]:
    """Return the rule of a parameter of one type, or of one of several."""
    return {"type": kind if isinstance(kind, str) else list(kind), **rules, "description": description}


def choice(options: Sequence[Any], description: str, **rules: Any) -> dict[str, Any]:
    """Return the rule of a parameter that is one of some values."""
    return {"enum": list(options), **rules, "description": description}


def closed_schema(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    """Return the schema of a call with these parameters, in this order, and no others."""
    needed = {"required": list(required)} if required else {}
    return {"type": "object", "additionalProperties": False, **needed, "properties": properties}
