"""Cursors of lists: the key of the last row that was looked at, for whom it was written and nobody else.

A cursor opens nothing: the partition that is read is always the caller's. Rows that come or move meanwhile shift no page.
Source: docs/concepts/http-api.md#cursors.
"""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable

import msgspec

from stepline.errors import InputError

CursorKey = tuple[str, ...]


def write_cursor(place: CursorKey, list_of: CursorKey) -> str:
    """Return the cursor behind a row of the list that these words name."""
    return urlsafe_b64encode(msgspec.json.encode((*place, _mark(list_of)))).decode().rstrip("=")


def read_cursor(text: str, list_of: CursorKey, fits: Callable[[CursorKey], bool]) -> CursorKey | None:
    """Return the place of a cursor that was written for this list; None for "". Raises InputError `bad_cursor`."""
    if not text:
        return None
    try:
        raw = urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4))
        *place, mark = msgspec.json.decode(raw, type=tuple[str, ...])
    except ValueError as error:
        raise InputError("the cursor is not one of this list", code="bad_cursor") from error
    if mark != _mark(list_of) or not fits(tuple(place)):
        raise InputError("the cursor is not one of this list", code="bad_cursor")
    return tuple(place)


def _mark(list_of: CursorKey) -> str:
    return hashlib.sha256(msgspec.json.encode(list_of)).hexdigest()[:16]
