"""A user's list of conversations, page by page, and its cursors.

A cursor names the last row that was read, and is bound to its user.
Source: docs/concepts/http-api.md#cursors.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from stepline.log.lists.cursor import read_cursor, write_cursor
from stepline.model.ids import SEGMENT
from stepline.ports.channel import Principal
from stepline.ports.log import Listing, ListPosition, Log

ROWS_MAX: Final = 1_000
"""Rows that one search by title reads; its cursor continues it."""
ROWS_AT_ONCE: Final = 100
TIME_MAX_CHARS: Final = 32


class ListPage(NamedTuple):
    """Rows, newest activity first, and the cursor after the last row that was read; "" if there are no more."""

    rows: list[Listing]
    next: str


def list_conversations(log: Log, user: Principal, *, after: str, limit: int, words: str = "") -> ListPage:
    """Return at most `limit` conversations whose titles contain each of `words`, after the cursor `after`.

    Raises InputError `bad_cursor`.
    """
    position, wanted = _read_place(after, user), words.casefold().split()
    at_once = max(ROWS_AT_ONCE, limit) if wanted else limit
    found: list[Listing] = []
    for _ in range(ROWS_MAX // ROWS_AT_ONCE):
        rows = log.conversations(user.tenant, user.project, user.user, after=position, most=at_once + 1)
        for row in rows[:at_once]:
            position = row.place
            if not row.importing and all(word in row.title.casefold() for word in wanted):
                found.append(row)
            if len(found) == limit:
                more = len(rows) > at_once or row != rows[-1]
                return ListPage(found, write_cursor(position, _list_of(user)) if more else "")
        if len(rows) <= at_once:
            return ListPage(found, "")
    return ListPage(found, write_cursor(position, _list_of(user)) if position else "")


def _list_of(user: Principal) -> tuple[str, str, str]:
    return (user.tenant, user.project, user.user)


def _read_place(text: str, user: Principal) -> ListPosition | None:
    position = read_cursor(text, _list_of(user), _fits)
    return (position[0], position[1]) if position else None


def _fits(position: tuple[str, ...]) -> bool:
    if len(position) != 2:
        return False
    last_at, conversation = position
    return bool(SEGMENT.fullmatch(conversation)) and 0 < len(last_at) <= TIME_MAX_CHARS and last_at.isascii()
