"""A user's list of conversations, page by page, and the cursors that lead through it.

A cursor names the last row that was looked at by its key, so that rows which come or move meanwhile shift no page. It is
bound to its user, and opens nothing: the partition that is read is always the caller's.
Source: docs/concepts/http-api.md#cursors.
"""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final, NamedTuple

import msgspec

from stepline.errors import InputError
from stepline.model.ids import SEGMENT
from stepline.ports.channel import Principal
from stepline.ports.log import Listing, Log, Place

ROWS_MAX: Final = 1_000
"""Rows that one search by title looks at; its cursor leads on."""
ROWS_AT_ONCE: Final = 100
TIME_MAX_CHARS: Final = 32


class ListPage(NamedTuple):
    """Rows, newest activity first, and the cursor behind the last row that was looked at; "" if there are no more."""

    rows: list[Listing]
    next: str


def list_conversations(log: Log, user: Principal, *, after: str, limit: int, words: str = "") -> ListPage:
    """Return at most `limit` conversations whose titles contain each of `words`, behind the cursor `after`.

    Raises InputError `bad_cursor`.
    """
    place, wanted = _read_cursor(after, user), words.casefold().split()
    at_once = max(ROWS_AT_ONCE, limit) if wanted else limit
    found: list[Listing] = []
    for _ in range(ROWS_MAX // ROWS_AT_ONCE):
        rows = log.conversations(user.tenant, user.project, user.user, after=place, most=at_once + 1)
        for row in rows[:at_once]:
            place = row.place
            if all(word in row.title.casefold() for word in wanted):
                found.append(row)
            if len(found) == limit:
                more = len(rows) > at_once or row != rows[-1]
                return ListPage(found, _write_cursor(place, user) if more else "")
        if len(rows) <= at_once:
            return ListPage(found, "")
    return ListPage(found, _write_cursor(place, user) if place else "")


def _write_cursor(place: Place, user: Principal) -> str:
    return urlsafe_b64encode(msgspec.json.encode((*place, _mark(user)))).decode().rstrip("=")


def _read_cursor(text: str, user: Principal) -> Place | None:
    if not text:
        return None
    try:
        raw = urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4))
        last_at, conversation, mark = msgspec.json.decode(raw, type=tuple[str, str, str])
    except ValueError as error:
        raise InputError("the cursor is not one of this list", code="bad_cursor") from error
    fits = SEGMENT.fullmatch(conversation) and 0 < len(last_at) <= TIME_MAX_CHARS and last_at.isascii()
    if mark != _mark(user) or not fits:
        raise InputError("the cursor is not one of this list", code="bad_cursor")
    return (last_at, conversation)


def _mark(user: Principal) -> str:
    who = msgspec.json.encode((user.tenant, user.project, user.user))
    return hashlib.sha256(who).hexdigest()[:16]
