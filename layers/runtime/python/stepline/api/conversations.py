"""Conversations: the list, one row, its events in pages, its title, and its read position."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

from msgspec import Meta
from msgspec.structs import replace

from stepline.api.endpoint import OWNED, Call, Endpoint, Nothing, StrictInput
from stepline.delivery.effect import make_listing, publish_read
from stepline.delivery.event_page import EventPage, ForkStart, read_page
from stepline.ingress.rename import rename
from stepline.log.lists.listed_conversations import list_conversations
from stepline.model.base import Value
from stepline.model.batch import forked_from
from stepline.ports.log import Listing

CURSOR_MAX_CHARS: Final = 512
N_MAX: Final = 10**12 - 1

ConversationState = Literal["idle", "in_progress", "error"]
WaitsFor = Literal["", "approval"]


class ListQuery(StrictInput):
    """A page of the list: `limit` rows after the cursor `after`, with the words of `q` in their titles."""

    after: Annotated[str, Meta(max_length=CURSOR_MAX_CHARS)] = ""
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    q: Annotated[str, Meta(max_length=200)] = ""


class EventsQuery(StrictInput):
    """The last `turns` turns before event `before`; 0 is the end."""

    before: Annotated[int, Meta(ge=0, le=N_MAX)] = 0
    turns: Annotated[int, Meta(ge=1, le=50)] = 20


class Title(StrictInput):
    """A title; each run of white space becomes one space."""

    title: Annotated[str, Meta(min_length=1, max_length=400)]


class Mark(StrictInput):
    """The number of the newest event that the user has read."""

    n: Annotated[int, Meta(ge=0, le=N_MAX)]


class ConversationRow(Value, omit_defaults=False):
    """A conversation in the list. `unread_n` is the number of the first batch that the user has not read, or 0.

    Times are ISO-8601 in UTC; `started_at` is "" if it was not recorded. The row reflects all batches up to `n`; of
    those, `active_n` is the newest one with something to read. `waits_for` names the reason why an open turn waits: a
    person's `approval`, or "" for none. `branch_of` is the root of a branch, "" for a conversation that is none.
    """

    conversation: str
    title: str
    state: ConversationState
    waits_for: WaitsFor
    started_at: str
    last_activity_at: str
    turns: int
    unread_n: int
    n: int
    active_n: int
    branch_of: str


class ConversationList(Value, omit_defaults=False):
    """Rows, newest activity first; `next` is the cursor of the next page, "" on the last one."""

    items: tuple[ConversationRow, ...]
    next: str


def state_of(row: Listing) -> ConversationState:
    """Return the state of a conversation."""
    if row.open or row.waits_for:
        return "in_progress"
    return "error" if row.outcome == "error" else "idle"


def make_row(row: Listing) -> ConversationRow:
    """Return a row of the list in the form that clients read."""
    return ConversationRow(
        conversation=row.lane.conversation,
        title=row.title,
        state=state_of(row),
        waits_for=row.waits_for,
        started_at=row.started_at,
        last_activity_at=row.last_at,
        turns=row.turns,
        unread_n=row.read_n + 1 if row.read_n < row.active_n else 0,
        n=row.applied_n,
        active_n=row.active_n,
        branch_of=row.branch_of,
    )


def listing_of(call: Call[Any, Any]) -> Listing:
    """Return the row of the caller's conversation, made from its log if it has none yet. Raises NotFoundError."""
    journal, tail = call.tail()
    row = call.ports.log.listing(journal.lane) or make_listing(call.ports, journal.lane, tail)
    return replace(row, open=tail.state.status == "open")


def list_all(call: Call[ListQuery, None]) -> ConversationList:
    """List the caller's conversations, newest activity first."""
    query = call.query
    page = list_conversations(
        call.ports.log, call.principal, after=query.after, limit=query.limit, words=query.q
    )
    return ConversationList(items=tuple(map(make_row, page.rows)), next=page.next)


def read_conversation(call: Call[Nothing, None]) -> ConversationRow:
    """Read a conversation's row of the list."""
    return make_row(listing_of(call))


def read_events(call: Call[EventsQuery, None]) -> EventPage:
    """Read the newest turns before an event, as the frames that `resume` sends."""
    journal, tail = call.tail()
    timeline = call.services.history.load(journal, segment=tail.state.segment, consistent=True)
    page = read_page(call.ports, timeline, before=call.query.before, turns=call.query.turns)
    begun = journal.get(tail.state.forked) if tail.state.forked else None
    first = forked_from(begun) if begun else None
    if first is None:
        return page
    return replace(page, fork=ForkStart(origin=first.origin, n=first.n, branch_of=first.branch_of))


def rename_conversation(call: Call[Nothing, Title]) -> None:
    """Name a conversation; the model does not name it again."""
    rename(call.ports, call.lane(), call.body.title, user=call.principal.user)


def mark_read(call: Call[Nothing, Mark]) -> None:
    """Record the event up to which the user has read; a smaller number than before has no effect."""
    journal, tail = call.tail()
    n = min(call.body.n, tail.n)
    call.ports.log.mark_read(journal.lane, n)
    publish_read(call.ports, journal.lane, n, user=call.principal.user)


_CONVERSATION: Final = "/v1/conversations/{conversation}"
NAMED: Final = {**OWNED, HTTPStatus.BAD_REQUEST: ("bad_conversation",)}

ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/v1/conversations",
        list_all,
        codes={HTTPStatus.BAD_REQUEST: ("bad_cursor",)},
        gives={"conversation": "/items/0/conversation", "after": "/next"},
    ),
    Endpoint("GET", _CONVERSATION, read_conversation, codes=NAMED),
    Endpoint(
        "PATCH",
        _CONVERSATION,
        rename_conversation,
        codes={**OWNED, HTTPStatus.BAD_REQUEST: ("bad_conversation", "bad_title")},
    ),
    Endpoint("GET", f"{_CONVERSATION}/events", read_events, codes=NAMED, gives={"before": "/first_n"}),
    Endpoint("PUT", f"{_CONVERSATION}/read", mark_read, codes=NAMED),
)
