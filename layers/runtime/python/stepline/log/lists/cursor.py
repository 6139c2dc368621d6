"""Cursors of lists: the key of the last row that was read, valid for the list and user that it was written for.

A cursor grants no access: the partition that is read is always the caller's. Rows that are added or move meanwhile
shift no page.
Source: docs/concepts/http-api.md#cursors.
"""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable

import msgspec

from stepline.errors import InputError

CursorKey = tuple[str, ...]


def write_cursor(position: CursorKey, list_of: CursorKey) -> str:
    """Return the cursor after a row of a list; `list_of` identifies the list."""
    return urlsafe_b64encode(msgspec.json.encode((*position, _mark(list_of)))).decode().rstrip("=")


def read_cursor(text: str, list_of: CursorKey, fits: Callable[[CursorKey], bool]) -> CursorKey | None:
    """Return the position of a cursor that was written for this list; None for "". Raises InputError `bad_cursor`."""
    if not text:
        return None
    try:
        raw = urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4))
        *position, mark = msgspec.json.decode(raw, type=tuple[str, ...])
    except ValueError as error:
        raise InputError("the cursor is not one of this list", code="bad_cursor") from error
    if mark != _mark(list_of) or not fits(tuple(position)):
        raise InputError("the cursor is not one of this list", code="bad_cursor")
    return tuple(position)


def _mark(list_of: CursorKey) -> str:
    return hashlib.sha256(msgspec.json.encode(list_of)).hexdigest()[:16]
