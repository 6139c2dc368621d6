"""Conversations in the older spelling: the list, the state of one, its details, and the messages of its turns.

Source: docs/concepts/http-api.md#the-older-spelling.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from http import HTTPStatus
from itertools import takewhile
from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, UnsetType

from stepline.api.conversations import NAMED, ConversationState, listing_of, state_of
from stepline.api.endpoint import OWNED, Call, Endpoint, Nothing, StrictInput
from stepline.errors import LimitError, NotFoundError
from stepline.model.base import Value
from stepline.model.batch import FeedbackRow
from stepline.model.decision import Origin, Reaction
from stepline.model.entry import Feedback
from stepline.model.ids import DEFAULT_BUNDLE, read_utc, utc
from stepline.rendering.turn_facts import Turn
from stepline.timeline.export import export_sources
from stepline.timeline.fold import Timeline
from stepline.timeline.turn_messages import TurnMessage, turn_messages

TEXT_MAX_CHARS: Final = 1_000_000
"""The most characters of texts in one answer; each takes at most six bytes of it."""

Days = Annotated[int, Meta(ge=1, le=3650)]


class RecentQuery(StrictInput):
    """The `last_n` conversations with activity in the last `days`, and since `started_after` (ISO-8601)."""

    last_n: Annotated[int, Meta(ge=1, le=500)] = 100
    started_after: Annotated[str, Meta(max_length=64)] = ""
    days: Days = 365
    include_titles: bool = True


class TurnFilter(StrictInput):
    """The turns of the last `days`, only those of `turn_ids` if there are any; `materialize` gives their texts."""

    turn_ids: Annotated[tuple[str, ...], Meta(max_length=500)] = ()
    materialize: bool = False
    days: Days = 365


class NamedFilter(TurnFilter, kw_only=True):
    """The same, of the conversation `conversation_id`."""

    conversation_id: str


class RecentRow(Value, omit_defaults=False):
    """A conversation."""

    conversation_id: str
    last_activity_at: str
    started_at: str
    title: str


class RecentList(Value, omit_defaults=False):
    """Conversations, newest activity first."""

    user_id: str
    items: tuple[RecentRow, ...]


class Standing(Value, omit_defaults=False):
    """The state of a conversation; `meta` names its open turn."""

    conversation_id: str
    state: ConversationState
    updated_at: str
    meta: dict[str, str]


class MessageArtifact(Value, omit_defaults=False):
    """A message. `data` has its text, if it was requested."""

    message_id: str
    type: str
    ts: str
    hosted_uri: str
    bundle_id: str
    data: dict[str, str] | None = None


class FetchedTurn(Value, omit_defaults=False):
    """A turn and its messages; `ts_first` and `ts_last` are those of its first and last one."""

    turn_id: str
    ts_first: str
    ts_last: str
    bundle_id: str
    artifacts: tuple[MessageArtifact, ...]


class Fetched(Value, omit_defaults=False):
    """Turns of a conversation, oldest first."""

    user_id: str
    conversation_id: str
    conversation_title: str
    bundle_ids: tuple[str, ...]
    turns: tuple[FetchedTurn, ...]


class Details(Fetched, omit_defaults=False):
    """A conversation without its texts."""

    started_at: str
    last_activity_at: str
    sources_pool: tuple[dict[str, Any], ...]


class GivenFeedback(Value, omit_defaults=False):
    """Feedback on a turn; a user's counts as certain. `given_at`, in answers about a period, is the client's time."""

    turn_id: str
    ts: str
    reaction: Reaction | None
    text: str
    origin: Origin
    confidence: float | None
    given_at: str | UnsetType = UNSET


class RatedTurn(Value, omit_defaults=False):
    """A turn with feedback, its user's message and the answer."""

    turn_id: str
    bundle_id: str
    user: str
    assistant: str
    feedbacks: tuple[GivenFeedback, ...]


class Rated(Value, omit_defaults=False):
    """Turns with feedback, oldest first."""

    user_id: str
    conversation_id: str
    bundle_ids: tuple[str, ...]
    turns: tuple[RatedTurn, ...]


def days_ago(call: Call[Any, Any], days: int) -> str:
    """Return the time `days` days ago."""
    return utc(call.ports.clock.now() - timedelta(days=days))


def list_recent(call: Call[RecentQuery, None]) -> RecentList:
    """List the newest conversations of the caller."""
    here, query = call.principal, call.query
    if (call.path["tenant"], call.path["project"]) != (here.tenant, here.project):
        raise NotFoundError("no such project")
    since = days_ago(call, query.days)
    if query.started_after:
        since = max(since, read_utc(query.started_after, "started_after"))
    rows = call.ports.log.conversations(here.tenant, here.project, here.user, most=query.last_n)
    return RecentList(
        user_id=here.user,
        items=tuple(
            RecentRow(
                conversation_id=row.lane.conversation,
                last_activity_at=row.last_at,
                started_at=row.started_at,
                title=row.title if query.include_titles else "",
            )
            for row in takewhile(lambda row: row.last_at >= since, rows)
            if not row.importing
        ),
    )


def read_status(call: Call[Nothing, None]) -> Standing:
    """Read the state of a conversation."""
    row = listing_of(call)
    return Standing(
        conversation_id=row.lane.conversation,
        state=state_of(row),
        updated_at=row.last_at,
        meta={"last_turn_id": row.turn} if row.turn else {},
    )


def read_details(call: Call[Nothing, None]) -> Details:
    """Read the parts of a conversation, without their texts."""
    timeline, row = call.timeline(), listing_of(call)
    fetched = _fetched(call, timeline, timeline.history, whole=False)
    return Details(
        **{name: getattr(fetched, name) for name in Fetched.__struct_fields__},
        started_at=row.started_at,
        last_activity_at=row.last_at,
        sources_pool=tuple(export_sources(timeline).payload["sources_pool"]),
    )


def fetch_turns(call: Call[Nothing, TurnFilter]) -> Fetched:
    """Fetch turns of a conversation, with their texts if asked."""
    timeline = call.timeline()
    return _fetched(call, timeline, _wanted(call, timeline), whole=call.body.materialize)


def fetch_named(call: Call[Nothing, NamedFilter]) -> Fetched:
    """Fetch turns of the conversation that the body names."""
    named: Call[Any, Any] = replace(call, path={**call.path, "conversation": call.body.conversation_id})
    return fetch_turns(named)


def read_rated(call: Call[Nothing, TurnFilter]) -> Rated:
    """Read the turns that have feedback."""
    timeline = call.timeline()
    said: dict[str, list[GivenFeedback]] = {}
    for one in timeline.feedback.values():
        if not one.withdrawn:
            said.setdefault(one.turn, []).append(make_given(one))
    turns = [turn for turn in _wanted(call, timeline) if turn.id in said]
    messages = _by_turn(turn_messages(timeline, turns))
    bundle = timeline.state.bundle or DEFAULT_BUNDLE
    rated = tuple(
        RatedTurn(
            turn_id=turn.id,
            bundle_id=bundle,
            user=_joined(messages.get(turn.id, ()), "chat:user"),
            assistant=_joined(messages.get(turn.id, ()), "chat:assistant"),
            feedbacks=tuple(said[turn.id]),
        )
        for turn in turns
    )
    return Rated(
        user_id=call.principal.user,
        conversation_id=timeline.lane.conversation,
        bundle_ids=(bundle,),
        turns=rated,
    )


def make_given(given: Feedback | FeedbackRow, *, given_at: str | UnsetType = UNSET) -> GivenFeedback:
    """Return a feedback in the form that clients read."""
    return GivenFeedback(
        turn_id=given.turn,
        ts=given.at,
        reaction=given.reaction,
        text=given.text,
        origin=given.origin,
        confidence=1.0 if given.origin == "user" else given.confidence,
        given_at=given_at,
    )


def _fetched(call: Call[Any, Any], timeline: Timeline, turns: Iterable[Turn], *, whole: bool) -> Fetched:
    chosen = list(turns)
    messages = _by_turn(turn_messages(timeline, chosen))
    bundle = timeline.state.bundle or DEFAULT_BUNDLE
    return Fetched(
        user_id=call.principal.user,
        conversation_id=timeline.lane.conversation,
        conversation_title=timeline.title,
        bundle_ids=(bundle,),
        turns=tuple(_turn(turn, messages.get(turn.id, []), bundle, whole=whole) for turn in chosen),
    )


def _turn(turn: Turn, messages: list[TurnMessage], bundle: str, *, whole: bool) -> FetchedTurn:
    return FetchedTurn(
        turn_id=turn.id,
        ts_first=messages[0].at if messages else turn.started_at,
        ts_last=messages[-1].at if messages else turn.started_at,
        bundle_id=bundle,
        artifacts=tuple(
            MessageArtifact(
                message_id=message.id,
                type=message.type,
                ts=message.at,
                hosted_uri="",
                bundle_id=bundle,
                data={"text": message.text} if whole else None,
            )
            for message in messages
        ),
    )


def _by_turn(messages: Iterable[TurnMessage]) -> dict[str, list[TurnMessage]]:
    found: dict[str, list[TurnMessage]] = {}
    left = TEXT_MAX_CHARS
    for message in messages:
        left -= len(message.text)
        if left < 0:
            raise LimitError(
                "the turns have too much text for one answer: name fewer in `turn_ids`", limit=TEXT_MAX_CHARS
            )
        found.setdefault(message.turn, []).append(message)
    return found


def _joined(messages: Iterable[TurnMessage], kind: str) -> str:
    return "\n\n".join(message.text for message in messages if message.type == kind)


def _wanted(call: Call[Any, TurnFilter], timeline: Timeline) -> list[Turn]:
    since, named = days_ago(call, call.body.days), frozenset(call.body.turn_ids)
    return [turn for turn in timeline.history if turn.started_at >= since and (not named or turn.id in named)]


_PROJECT: Final = "/conversations/{tenant}/{project}"
_CONVERSATION: Final = f"{_PROJECT}/{{conversation}}"
_LONG: Final = {**NAMED, HTTPStatus.REQUEST_ENTITY_TOO_LARGE: ("limit_exceeded",)}

ENDPOINTS: Final = (
    Endpoint("GET", _PROJECT, list_recent, codes=OWNED, gives={"conversation": "/items/0/conversation_id"}),
    Endpoint("POST", f"{_PROJECT}/fetch", fetch_named, counts="reads", codes=NAMED),
    Endpoint("GET", f"{_CONVERSATION}/status", read_status, codes=NAMED),
    Endpoint("GET", f"{_CONVERSATION}/details", read_details, codes=_LONG),
    Endpoint("POST", f"{_CONVERSATION}/fetch", fetch_turns, counts="reads", codes=NAMED),
    Endpoint("POST", f"{_CONVERSATION}/turns-with-feedbacks", read_rated, counts="reads", codes=NAMED),
)
