"""Feedback of a period: counts by origin and reaction, the rate of satisfaction, and the conversations that were rated.

Only current feedback counts: one a turn and origin, at the time of the newest. Rows are read from an index by time, the
counts of a conversation from its own rows, which are never late. Source: docs/concepts/log.md#feedback.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import Final

from msgspec.structs import replace

from stepline.errors import InputError
from stepline.log.lists.cursor import read_cursor, write_cursor
from stepline.model.base import Value
from stepline.model.batch import FeedbackPlace, FeedbackRow
from stepline.model.decision import Origin
from stepline.model.ids import SEGMENT, TURN, Lane, read_utc, utc
from stepline.ports.log import FeedbackIndex, FeedbackQuery

PERIOD_DAYS_MAX: Final = 366
"""The longest period: one query of the index a day."""
ROWS_MAX: Final = 5_000
"""Rows that one request reads; its cursor continues it."""
ROWS_AT_ONCE: Final = 200
DAY_CHARS: Final = 10
ORIGINS: Final[tuple[Origin, ...]] = ("user", "machine")


class OriginRates(Value, omit_defaults=False):
    """Counts of one origin. `satisfaction` is ok / (ok + not_ok + neutral), null if there are none of these.

    Feedback of a machine may have no reaction: it is in `total` alone.
    """

    total: int
    ok: int
    not_ok: int
    neutral: int
    satisfaction: float | None


def read_period(start: str, end: str) -> tuple[str, str]:
    """Return the first and the last moment of a period in the stored format; a day as `end` includes that day.

    Raises InputError `bad_window`: invalid times, an end before the beginning, or more than PERIOD_DAYS_MAX days.
    """
    try:
        since, until = read_utc(start, "start"), read_utc(end, "end")
        if len(end) <= DAY_CHARS:
            until = utc(datetime.fromisoformat(until) + timedelta(days=1, milliseconds=-1))
    except (InputError, OverflowError) as error:
        raise InputError(str(error), code="bad_window") from error
    days = (date.fromisoformat(until[:DAY_CHARS]) - date.fromisoformat(since[:DAY_CHARS])).days
    if until < since or days > PERIOD_DAYS_MAX:
        raise InputError(
            f"a period ends after its beginning, and has at most {PERIOD_DAYS_MAX} days", code="bad_window"
        )
    return since, until


def count_period(
    index: FeedbackIndex, query: FeedbackQuery, *, after: str
) -> tuple[OriginRates, OriginRates, str]:
    """Return the rates of a period's users and machines after the cursor `after`, and the cursor of the rest, or "".

    Raises InputError `bad_cursor`.
    """
    rows = index.feedback(_after_cursor(query, after), ROWS_MAX + 1)
    counted = rows[:ROWS_MAX]
    user, machine = (rates_of(row for row in counted if row.origin == origin) for origin in ORIGINS)
    more = len(rows) > ROWS_MAX
    return user, machine, _write_cursor(counted[-1].place, query) if more else ""


def rates_of(rows: Iterable[FeedbackRow]) -> OriginRates:
    """Return the rates of rows."""
    reactions = Counter(row.reaction for row in rows)
    ok, not_ok, neutral = reactions["ok"], reactions["not_ok"], reactions["neutral"]
    rated = ok + not_ok + neutral
    return OriginRates(
        total=reactions.total(),
        ok=ok,
        not_ok=not_ok,
        neutral=neutral,
        satisfaction=ok / rated if rated else None,
    )


def list_rated(
    index: FeedbackIndex, query: FeedbackQuery, *, limit: int, after: str
) -> tuple[list[list[FeedbackRow]], str]:
    """Return at most `limit` conversations rated in a period after the cursor `after`, and the next cursor.

    Each conversation has all its rows. It is listed at its newest row of the period, so that it is on one page. Raises
    InputError `bad_cursor`.
    """
    page_query, found = _after_cursor(query, after), list[list[FeedbackRow]]()
    by_conversation: dict[Lane, list[FeedbackRow]] = {}
    for _ in range(ROWS_MAX // ROWS_AT_ONCE):
        rows = index.feedback(page_query, ROWS_AT_ONCE)
        for row in rows:
            page_query = replace(page_query, before=row.place)
            if row.lane not in by_conversation:
                rows_of_lane = index.conversation_feedback(row.lane)
                by_conversation[row.lane] = [
                    one for one in rows_of_lane if query.since <= one.at <= query.until
                ]
            if [one.place for one in by_conversation[row.lane][-1:]] == [row.place]:
                found.append(by_conversation[row.lane])
            if len(found) == limit:
                more = row != rows[-1] or len(rows) == ROWS_AT_ONCE
                return found, _write_cursor(row.place, query) if more else ""
        if len(rows) < ROWS_AT_ONCE:
            return found, ""
    return found, _write_cursor(page_query.before, query) if page_query.before else ""


def _after_cursor(query: FeedbackQuery, after: str) -> FeedbackQuery:
    place = read_cursor(after, _list_of(query), _fits)
    return replace(query, before=(place[0], place[1], place[2], place[3])) if place else query


def _write_cursor(place: FeedbackPlace, query: FeedbackQuery) -> str:
    return write_cursor(place, _list_of(query))


def _list_of(query: FeedbackQuery) -> tuple[str, ...]:
    users = () if query.user is None else (query.user,)
    return (query.since, query.until, query.tenant, query.project, *users)


def _fits(place: tuple[str, ...]) -> bool:
    if len(place) != 4:
        return False
    at, conversation, turn, origin = place
    try:
        known = read_utc(at, "after") == at
    except InputError:
        return False
    named = SEGMENT.fullmatch(conversation) and TURN.fullmatch(turn)
    return bool(known and named and origin in ORIGINS)
