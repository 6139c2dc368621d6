"""Feedback: a user or a machine rates a turn, and the feedback of a period is counted and listed.

Source: docs/concepts/http-api.md#feedback.
"""

from __future__ import annotations

from http import HTTPStatus
from itertools import groupby
from operator import attrgetter
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from stepline.api.endpoint import OWNED, Call, Endpoint, Nothing, StrictInput
from stepline.api.project_conversations import GivenFeedback, make_given
from stepline.errors import NotFoundError
from stepline.ingress.allow import check_rate
from stepline.ingress.feedback import submit_feedback
from stepline.log.lists.rated_conversations import (
    ORIGINS,
    OriginRates,
    count_period,
    list_rated,
    rates_of,
    read_period,
)
from stepline.model.base import Value
from stepline.model.batch import FeedbackRow
from stepline.model.decision import FEEDBACK_CHARS, Reaction
from stepline.model.entry import Feedback
from stepline.model.ids import SEGMENT
from stepline.model.wire.client_message import TIME_CHARS
from stepline.ports.log import FeedbackQuery

CURSOR_MAX_CHARS: Final = 512

Words = Annotated[str, Meta(max_length=FEEDBACK_CHARS)]
Time = Annotated[str, Meta(min_length=1, max_length=TIME_CHARS)]
After = Annotated[str, Meta(max_length=CURSOR_MAX_CHARS)]


class UserFeedback(StrictInput):
    """A reaction to a turn, with words; null withdraws the earlier feedback, and keeps no words.

    `ts` is the client's time (ISO-8601): it is stored, but not used for ordering.
    """

    reaction: Reaction | None
    text: Words = ""
    ts: Annotated[str, Meta(max_length=TIME_CHARS)] = ""


class MachineFeedback(StrictInput):
    """A machine's finding about a turn, with a confidence of at least 0.7; without reaction and words, a withdrawal."""

    reaction: Reaction | None = None
    text: Words = ""
    confidence: Annotated[float, Meta(ge=0, le=1)] | None = None


class StandingFeedback(Value, omit_defaults=False):
    """The current feedback, which was given `at`."""

    reaction: Reaction | None
    text: str
    at: str


class FeedbackTaken(Value, omit_defaults=False):
    """The feedback that was accepted; `cleared`: there is none any more."""

    success: Literal[True]
    turn_id: str
    reaction: Reaction | None
    message: str
    cleared: bool


class PeriodQuery(StrictInput):
    """The period from `from` to `to`, both included; a day means until its end. `after` is the cursor of the page."""

    since: Time = msgspec.field(name="from")
    until: Time = msgspec.field(name="to")
    after: After = ""


class PeriodRates(Value, omit_defaults=False):
    """The rates of a period: of the `project`, or of the caller's `own` conversations.

    If there is a cursor `next`, they cover the newest feedback, and the next page covers older ones: counts add up.
    """

    since: str = msgspec.field(name="from")
    until: str = msgspec.field(name="to")
    scope: Literal["own", "project"]
    user: OriginRates
    machine: OriginRates
    next: str


class PeriodFilter(StrictInput):
    """The conversations rated between `start` and `end` (ISO-8601, both included), after a cursor."""

    start: Time
    end: Time
    include_turns: bool = False
    limit: Annotated[int, Meta(ge=1, le=500)] = 100
    cursor: After = ""


class Window(Value, omit_defaults=False):
    """The first and the last moment of a period."""

    start: str
    end: str


class FeedbackCounts(Value, omit_defaults=False):
    """Counts of a conversation: by origin, and by reaction for both origins together."""

    total: int
    user: int
    machine: int
    ok: int
    not_ok: int
    neutral: int


class FeedbackTurn(Value, omit_defaults=False):
    """A turn, its start time, and the feedback on it."""

    turn_id: str
    ts: str
    feedbacks: tuple[GivenFeedback, ...]


class FeedbackConversation(Value, omit_defaults=False):
    """A conversation with feedback of the period; `turns` are null unless they were requested."""

    conversation_id: str
    last_activity_at: str
    started_at: str
    feedback_counts: FeedbackCounts
    turns: tuple[FeedbackTurn, ...] | None


class FeedbackPeriod(Value, omit_defaults=False):
    """Conversations, newest feedback first; `next_cursor` leads to the next page, "" on the last one."""

    tenant: str
    project: str
    window: Window
    items: tuple[FeedbackConversation, ...]
    next_cursor: str


def rate_turn(call: Call[Nothing, UserFeedback]) -> StandingFeedback:
    """Rate a turn that has ended, replacing the user's earlier feedback."""
    return _current(_submit(call, _read_body(call, given_at=call.body.ts)))


def give_feedback(call: Call[Nothing, UserFeedback]) -> FeedbackTaken:
    """Rate a turn that has ended; `reaction` null clears that."""
    said = _submit(call, _read_body(call, given_at=call.body.ts))
    return FeedbackTaken(
        success=True,
        turn_id=said.turn,
        reaction=said.reaction,
        message="The feedback was cleared." if said.withdrawn else "The feedback was recorded.",
        cleared=said.withdrawn,
    )


def rate_turn_by_machine(call: Call[Nothing, MachineFeedback]) -> StandingFeedback:
    """Rate a turn of any user in the project as a machine, which signs in as an admin."""
    if not call.principal.is_admin:
        raise NotFoundError("no such conversation")
    return _current(_submit(call, _read_body(call, origin="machine", confidence=call.body.confidence)))


def read_rates(call: Call[PeriodQuery, None]) -> PeriodRates:
    """Read the rates of a period, of users and of machines."""
    query = _query(call, call.query.since, call.query.until)
    user, machine, more = count_period(call.ports.log, query, after=call.query.after)
    return PeriodRates(
        since=query.since,
        until=query.until,
        scope="project" if query.user is None else "own",
        user=user,
        machine=machine,
        next=more,
    )


def list_feedback(call: Call[Nothing, PeriodFilter]) -> FeedbackPeriod:
    """List the conversations with feedback in a period."""
    query = _query(call, call.body.start, call.body.end)
    conversations, more = list_rated(call.ports.log, query, limit=call.body.limit, after=call.body.cursor)
    return FeedbackPeriod(
        tenant=query.tenant,
        project=query.project,
        window=Window(start=query.since, end=query.until),
        items=tuple(_conversation(call, rows) for rows in conversations),
        next_cursor=more,
    )


def _read_body(call: Call[Nothing, Any], **fields: Any) -> Feedback:
    return Feedback(turn=call.path["turn"], at="", reaction=call.body.reaction, text=call.body.text, **fields)


def _submit(call: Call[Any, Any], said: Feedback) -> Feedback:
    owner = None
    if said.origin == "user":  # a machine rates many turns
        check_rate(call.ports, call.principal)
        owner = call.principal.user
    return submit_feedback(call.ports, call.services.history, call.lane(), said, user=owner).feedback


def _current(said: Feedback) -> StandingFeedback:
    return StandingFeedback(reaction=said.reaction, text=said.text, at=said.at)


def _query(call: Call[Any, Any], start: str, end: str) -> FeedbackQuery:
    """Return the query that the caller may run: as an admin on a project, else on the caller's own feedback."""
    here = call.principal
    tenant, project = call.path.get("tenant", here.tenant), call.path.get("project", here.project)
    elsewhere = project != here.project and not (here.role == "tenant_admin" and SEGMENT.fullmatch(project))
    if tenant != here.tenant or elsewhere:
        raise NotFoundError("no such project")
    since, until = read_period(start, end)
    user = None if here.is_admin else here.user
    return FeedbackQuery(tenant=tenant, project=project, since=since, until=until, user=user)


def _conversation(call: Call[Any, PeriodFilter], rows: list[FeedbackRow]) -> FeedbackConversation:
    newest = rows[-1]
    listing = call.ports.log.listing(newest.lane)
    rates = rates_of(rows)
    user, machine = (sum(row.origin == origin for row in rows) for origin in ORIGINS)
    by_turn = attrgetter("turn_at", "turn")
    turns = tuple(
        FeedbackTurn(
            turn_id=turn, ts=at, feedbacks=tuple(make_given(row, given_at=row.given_at) for row in theirs)
        )
        for (at, turn), theirs in groupby(
            sorted(rows, key=lambda row: (*by_turn(row), row.origin != "user")), by_turn
        )
    )
    return FeedbackConversation(
        conversation_id=newest.lane.conversation,
        last_activity_at=listing.last_at if listing else newest.at,
        started_at=newest.started_at,
        feedback_counts=FeedbackCounts(
            total=rates.total,
            user=user,
            machine=machine,
            ok=rates.ok,
            not_ok=rates.not_ok,
            neutral=rates.neutral,
        ),
        turns=turns if call.body.include_turns else None,
    )


_OF_TURNS: Final = {
    HTTPStatus.NOT_FOUND: ("not_found", "turn_not_found"),
    HTTPStatus.CONFLICT: ("turn_open", "import_unfinished"),
}
_CODES: Final = {
    **_OF_TURNS,
    HTTPStatus.BAD_REQUEST: ("bad_conversation",),
    HTTPStatus.TOO_MANY_REQUESTS: ("rate_limited",),
}
_BAD_PERIOD: Final = {HTTPStatus.BAD_REQUEST: ("bad_window", "bad_cursor")}
_TURN: Final = "/v1/conversations/{conversation}/turns/{turn}"
_PROJECT: Final = "/conversations/{tenant}/{project}"

ENDPOINTS: Final = (
    Endpoint("PUT", f"{_TURN}/feedback", rate_turn, codes=_CODES),
    Endpoint(
        "PUT",
        f"{_TURN}/machine-feedback",
        rate_turn_by_machine,
        codes={**_OF_TURNS, HTTPStatus.BAD_REQUEST: ("bad_conversation", "bad_feedback")},
    ),
    Endpoint("GET", "/v1/feedback", read_rates, codes=_BAD_PERIOD),
    Endpoint("POST", f"{_PROJECT}/{{conversation}}/turns/{{turn}}/feedback", give_feedback, codes=_CODES),
    Endpoint(
        "POST", f"{_PROJECT}/feedback/conversations-in-period", list_feedback, codes={**OWNED, **_BAD_PERIOD}
    ),
)
