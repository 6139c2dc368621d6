"""The export of a user: all data stored about them, conversation by conversation, in pages of some turns.

A page has whole turns of one conversation with the data that belongs to them: their rows in memory, feedback, and links
to files. The turns are the same as in the export of a conversation. Source: docs/concepts/erasure.md#export.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta

from stepline.api.conversations import CURSOR_MAX_CHARS, ConversationRow, listing_of, make_row
from stepline.api.endpoint import Call, Endpoint, StrictInput
from stepline.api.files import FileRow, link_to, make_file_row
from stepline.api.project_conversations import GivenFeedback, make_given
from stepline.errors import InputError, NotFoundError
from stepline.log.lists.cursor import read_cursor, write_cursor
from stepline.log.lists.listed_conversations import TIME_MAX_CHARS
from stepline.model.base import Value
from stepline.model.ids import SEGMENT, TURN, utc
from stepline.model.memory_row import MemoryRow
from stepline.timeline.export import Export, export_sources, export_turn
from stepline.timeline.fold import Timeline
from stepline.timeline.hosted_file import hosted_files
from stepline.timeline.memory_rows import turn_rows

TURNS_AT_ONCE: Final = 20
PAGE_BYTES: Final = 1024 * 1024
"""A page ends after the turn with which its documents reach this size."""
PLACE_WORDS: Final = 3
"""A position is the time and the name of a conversation, and one of its turns, or "" after the last one."""


class ExportQuery(StrictInput):
    """The page after the cursor `after`."""

    after: Annotated[str, Meta(max_length=CURSOR_MAX_CHARS)] = ""


class ExportedFile(Value, omit_defaults=False):
    """A file, and a short-lived address of its bytes. Secret."""

    file: FileRow
    url: str


class UserData(Value, omit_defaults=False):
    """A part of the data stored about a user. `next` is the cursor of the next page, "" on the last one.

    `conversation` is the subject of this page, null if the user has none. The first page of a conversation has its
    sources among the documents.
    """

    tenant: str
    project: str
    user: str
    at: str
    conversation: ConversationRow | None
    documents: tuple[Export, ...]
    memory: tuple[MemoryRow, ...]
    feedback: tuple[GivenFeedback, ...]
    files: tuple[ExportedFile, ...]
    next: str


class _Part(NamedTuple):
    """Some turns of a conversation, and their documents; `is_last` if no turn follows."""

    turns: Sequence[str]
    documents: tuple[Export, ...]
    is_last: bool


def export_me(call: Call[ExportQuery, None]) -> UserData:
    """Export the data stored about the caller: each page has some turns of one conversation, with all related data."""
    here = call.principal
    last_at, conversation, turn = read_cursor(call.query.after, _list_of(call), _fits) or ("", "", "")
    while True:
        if not turn:
            after = (last_at, conversation) if conversation else None
            rows = call.ports.log.conversations(here.tenant, here.project, here.user, after=after, most=1)
            if not rows:
                return _page(call)
            last_at, conversation = rows[0].place
        at: Call[Any, Any] = replace(call, path={"conversation": conversation})
        try:
            timeline, row = at.timeline(), make_row(listing_of(at))
        except (NotFoundError, InputError):  # it was deleted since, or its import is not complete
            turn = ""
            continue
        part = _part(timeline, turn)
        following = (last_at, conversation, "" if part.is_last else part.turns[-1])
        return _filled(at, row, timeline, part, write_cursor(following, _list_of(call)))


def _part(timeline: Timeline, after: str) -> _Part:
    """Return the turns after `after`, from the first for "": the documents of at least one turn, and of few."""
    turns = timeline.turns
    begin = turns.index(after) + 1 if after in turns else 0
    documents, size_bytes = [] if after else [export_sources(timeline)], 0
    end = begin
    while end < len(turns) and end - begin < TURNS_AT_ONCE and size_bytes < PAGE_BYTES:
        documents.append(export_turn(timeline, turns[end]))
        size_bytes += len(msgspec.json.encode(documents[-1]))
        end += 1
    return _Part(turns[begin:end], tuple(documents), end == len(turns))


def _filled(
    call: Call[Any, Any], row: ConversationRow, timeline: Timeline, part: _Part, following: str
) -> UserData:
    found = [file for turn in part.turns for file in hosted_files(timeline.lane, timeline.turn_blocks(turn))]
    begun = {turn.id for turn in timeline.history if turn.opened >= timeline.state.forked}
    return _page(
        call,
        conversation=row,
        documents=part.documents,
        memory=tuple(  # the rows of earlier turns are those of the origin
            memory for turn in part.turns if turn in begun for memory in turn_rows(timeline, turn)
        ),
        feedback=tuple(
            make_given(one)
            for one in timeline.feedback.values()
            if one.turn in part.turns and not one.withdrawn
        ),
        files=tuple(
            ExportedFile(file=make_file_row(call, file), url=link_to(call, file, "download"))
            for file in found
        ),
        next=following,
    )


def _page(call: Call[Any, Any], **fields: Any) -> UserData:
    here = call.principal
    empty: dict[str, Any] = {
        "conversation": None,
        "documents": (),
        "memory": (),
        "feedback": (),
        "files": (),
        "next": "",
    }
    return UserData(
        tenant=here.tenant,
        project=here.project,
        user=here.user,
        at=utc(call.ports.clock.now()),
        **{**empty, **fields},
    )


def _list_of(call: Call[Any, Any]) -> tuple[str, ...]:
    here = call.principal
    return ("export", here.tenant, here.project, here.user)


def _fits(place: tuple[str, ...]) -> bool:
    if len(place) != PLACE_WORDS:
        return False
    last_at, conversation, turn = place
    named = SEGMENT.fullmatch(conversation) and (not turn or TURN.fullmatch(turn))
    return bool(named) and last_at.isascii() and len(last_at) <= TIME_MAX_CHARS


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/v1/me/export",
        export_me,
        codes={HTTPStatus.BAD_REQUEST: ("bad_cursor",)},
        gives={"after": "/next"},
    ),
)
