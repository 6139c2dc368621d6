"""A conversation in the protocol of Durable Streams, its read side: catch-up and long poll, by offsets.

A stream is never closed, since a conversation may go on, and nothing of it is dropped while it exists. No cache may
keep it: a later read of the same offset has the events in place of the running text.
Source: docs/concepts/streaming.md#durable-streams; github.com/durable-streams/durable-streams, PROTOCOL.md, 5.5 to 5.7.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta

from stepline.api.endpoint import OWNED, Call, Endpoint, Nothing, StreamPart
from stepline.errors import InputError
from stepline.log.journal import Journal
from stepline.model.base import Value
from stepline.model.wire.event import DeltaFrame, EventFrame

BEGIN: Final = "-1"
END: Final = "now"
CURSOR_EPOCH: Final = datetime(2024, 10, 9, tzinfo=UTC)
CURSOR_S: Final = 20
"""A cursor is the number of intervals of this length since the epoch. Source: PROTOCOL.md, 10.1."""
CURSOR_AHEAD: Final = 3600 // CURSOR_S
"""A client that has the newest cursor gets one up to so far ahead, so that no cache answers it twice."""

Frames: TypeAlias = tuple[EventFrame | DeltaFrame, ...]


class StreamQuery(Value):
    """A read after `offset`: that of an answer, `-1` for the beginning, which is the default, or `now` for the end.

    With `live` a read at the end waits. `cursor` is that of the previous answer. Other parameters are ignored.
    """

    offset: Annotated[str, Meta(min_length=1, max_length=512)] | None = None
    live: Literal["long-poll"] | None = None
    cursor: Annotated[str, Meta(max_length=20)] = ""


def read_stream(call: Call[StreamQuery, None]) -> StreamPart[Frames]:
    """Read the frames after an offset, by the protocol of Durable Streams."""
    from stepline.delivery.stream_offset import StreamOffset, parse_offset  # noqa: PLC0415 - few clients read streams
    from stepline.delivery.stream_page import StreamPage, StreamReader  # noqa: PLC0415 - as above

    query, asked = call.query, call.query.offset or BEGIN
    if query.live:
        _check_waits(call)
    begin = {BEGIN: StreamOffset(), END: None}
    reader = StreamReader(
        _journal(call), call.principal.user, begin[asked] if asked in begin else parse_offset(asked)
    )
    if query.live:
        page = reader.wait(call.services.wait_s)
    elif asked == END:
        page = StreamPage([], reader.offset, ends=True)
    else:
        page = reader.read()
    headers = _headers(page.offset.render(), ends=page.ends)
    if query.live:
        headers["Stream-Cursor"] = _make_cursor(call)
        if not page.frames:
            return StreamPart(status=HTTPStatus.NO_CONTENT, headers=headers)
    if asked != END:
        tag = f'"{asked}:{page.offset.render()}"'
        headers["ETag"] = tag
        if tag in call.known.split(", ") and not query.live:
            return StreamPart(status=HTTPStatus.NOT_MODIFIED, headers=headers)
    return StreamPart(status=HTTPStatus.OK, headers=headers, messages=page.frames)


def find_end(call: Call[Nothing, None]) -> StreamPart[None]:
    """Read the offset of the end, by the protocol of Durable Streams."""
    from stepline.delivery.stream_page import StreamReader  # noqa: PLC0415 - as above

    reader = StreamReader(_journal(call), call.principal.user, None)
    return StreamPart(status=HTTPStatus.OK, headers=_headers(reader.offset.render(), ends=False))


def _journal(call: Call[StreamQuery, None] | Call[Nothing, None]) -> Journal:
    """Return the journal of the conversation in the path.

    A receipt does not count its reads: each would be a row, and a reader that waits makes thousands of them a day.
    """
    return Journal(call.ports, call.lane(), "api")


def _check_waits(call: Call[StreamQuery, None]) -> None:
    """Refuse a reader that waits without an offset, or where none can. Raises InputError."""
    if call.query.offset is None:
        raise InputError("a read that waits needs an offset: `-1` is the beginning")
    if not call.services.wait_s:
        raise InputError("readers do not wait on this stage: read without `live`", code="no_waiting")


def _headers(offset: str, *, ends: bool) -> dict[str, str]:
    headers = {"Stream-Next-Offset": offset, "Cross-Origin-Resource-Policy": "same-origin"}
    return headers | {"Stream-Up-To-Date": "true"} if ends else headers


def _make_cursor(call: Call[StreamQuery, None]) -> str:
    """Return the cursor of this time, or one beyond the client's."""
    given = int(call.query.cursor) if call.query.cursor.isdecimal() else 0
    now = int((call.ports.clock.now() - CURSOR_EPOCH).total_seconds()) // CURSOR_S
    return str(now if given < now else given + 1 + secrets.randbelow(CURSOR_AHEAD))


STREAM: Final = "/v1/conversations/{conversation}/stream"
_READS: Final = {**OWNED, HTTPStatus.SERVICE_UNAVAILABLE: ("body_missing",)}

ENDPOINTS: Final = (
    Endpoint(
        "GET",
        STREAM,
        read_stream,
        codes={
            **_READS,
            HTTPStatus.BAD_REQUEST: ("bad_conversation", "bad_offset", "resume_beyond_end", "no_waiting"),
        },
    ),
    Endpoint("HEAD", STREAM, find_end, codes={**_READS, HTTPStatus.BAD_REQUEST: ("bad_conversation",)}),
)
