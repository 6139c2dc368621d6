"""The contract of a call before validation: one lenient parser."""

from __future__ import annotations

from typing import Any, Final

import msgspec

_KEPT: Final = ("filename", "description", "visibility")


def read_promises(raw: Any) -> list[dict[str, str]]:
    """Return the files of a contract that is a list of objects, or JSON text of one.

    Each has `filename` (or `filepath`), `description` and `visibility`, if they are texts. Errors in them
    are reported by the run.
    """
    try:
        items = msgspec.json.decode(raw) if isinstance(raw, str) else raw
    except (msgspec.DecodeError, RecursionError):
        return []
    found = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    return [_read_promise(item) for item in found]


def _read_promise(item: dict[str, Any]) -> dict[str, str]:
    named = {**item, "filename": item.get("filename") or item.get("filepath")}
    return {key: named[key] for key in _KEPT if isinstance(named.get(key), str)}
