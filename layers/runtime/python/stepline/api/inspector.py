"""The inspector's endpoints: rounds, requests, replies, replays, the log, blocks, receipts and the export of a conversation.

Requests, replies, replays and the log are for owners whom the stage lets `inspect`, the system part for admins among them; the
rest is any owner's.
Source: docs/concepts/context.md#the-recorded-request.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from stepline.api.endpoint import OWNED, Call, Endpoint, Nothing, StrictInput
from stepline.errors import NotFoundError
from stepline.ingress.allow import check_budget, check_rate
from stepline.ingress.fork import ForkPoint, PointKind, find_point
from stepline.inspection import request_diff, request_view
from stepline.inspection.documents import (
    BlocksView,
    ConversationExport,
    LogPage,
    export_documents,
    page_log,
    show_blocks,
)
from stepline.inspection.made_calls import EffectList, show_effects
from stepline.inspection.model_reply import Reply, show_reply
from stepline.inspection.receipt import Receipts, make_receipts
from stepline.inspection.replay_request import (
    SYSTEM_MAX_BYTES,
    ReplayList,
    ReplayView,
    list_replays,
    read_replay,
    start_replay,
)
from stepline.inspection.request_diff import RequestDiff, diff_requests
from stepline.inspection.request_view import RequestView, read_request
from stepline.inspection.rounds import Rounds, check_inspect, list_rounds
from stepline.log.fence import DELETED
from stepline.log.journal import Journal
from stepline.model.base import Value
from stepline.model.batch import EMPTY, Batch
from stepline.ports.model import Effort
from stepline.ports.round_replay import ReplayWish

CONVERSATION: Final = "/v1/conversations/{conversation}"
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,11}", re.ASCII)


class OtherRound(StrictInput):
    """The batch that decided another round."""

    to: Annotated[int, Meta(ge=1, le=999_999_999_999)]


class LogQuery(StrictInput):
    """The batches after the number `after`, at most `limit` of them."""

    after: Annotated[int, Meta(ge=0, le=999_999_999_999)] = 0
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class BlockQuery(StrictInput):
    """A logical path."""

    path: Annotated[str, Meta(min_length=1, max_length=1_024)]


class EffectQuery(StrictInput):
    """A point at which a fork may begin: after a batch, turn, round or message, or `before` it.

    `at` is the number of the batch, also of the one that decided a round, or the id of the turn or the message.
    """

    kind: PointKind
    at: Annotated[str, Meta(min_length=1, max_length=256)]
    before: bool = False


class WantedReplay(StrictInput):
    """The batch that decided a round, and what its replay changes; an empty field changes nothing."""

    decided_n: Annotated[int, Meta(ge=1, le=999_999_999_999)]
    model: Annotated[str, Meta(max_length=2_048)] = ""
    effort: Effort | Literal[""] = ""
    system: Annotated[str, Meta(max_length=SYSTEM_MAX_BYTES)] = ""


class ReplayQuery(StrictInput):
    """The batch that decided a round."""

    decided_n: Annotated[int, Meta(ge=1, le=999_999_999_999)]


class StartedReplay(Value):
    """The id of a replay."""

    replay: str


def list_conversation_rounds(call: Call[Nothing, None]) -> Rounds:
    """List the turns and rounds of a conversation: their times, their usage, and their cache misses."""
    return list_rounds(_log(call))


def get_request(call: Call[Nothing, None]) -> RequestView:
    """Get the request that a round sent to the model, rendered again from the log."""
    journal, tail = _inspected(call)
    view = read_request(journal, _number(call), forked=tail.state.forked)
    return view if call.principal.is_admin else request_view.conceal_system(view)


def compare_requests(call: Call[OtherRound, None]) -> RequestDiff:
    """Compare the request of a round with that of another one."""
    journal, tail = _inspected(call)
    forked = tail.state.forked
    older = read_request(journal, _number(call), forked=forked)
    newer = read_request(journal, call.query.to, forked=forked)
    diff = diff_requests(older, newer)
    return diff if call.principal.is_admin else request_diff.conceal_system(diff)


def get_reply(call: Call[Nothing, None]) -> Reply:
    """Get the reply of the model in a round: its thinking, its decision and its programs."""
    journal, _ = _inspected(call)
    n = _number(call)
    found = journal.get(n)
    if found is None:
        raise NotFoundError(f"this conversation has no batch {n}", code="round_not_found")
    return show_reply(found)


def replay_a_round(call: Call[Nothing, WantedReplay]) -> StartedReplay:
    """Replay a round: ask the model once more, with another model, effort or system part. Nothing is appended."""
    desk, body = call.replaying(), call.body
    journal, _ = _inspected(call)
    allowance = check_rate(call.ports, call.principal)
    check_budget(call.ports, allowance)
    wish = ReplayWish(decided_n=body.decided_n, model=body.model, effort=body.effort, system=body.system)
    key = call.idempotency_key
    return StartedReplay(replay=start_replay(desk, journal, call.principal.user, wish, key=key))


def get_replay(call: Call[Nothing, None]) -> ReplayView:
    """Get a replay of a round: its text so far, or its decision, cost and times. It is kept for an hour."""
    desk, (journal, _) = call.replaying(), _inspected(call)
    return read_replay(desk, journal, call.principal.user, call.path["replay"])


def list_round_replays(call: Call[ReplayQuery, None]) -> ReplayList:
    """List the replays of a round that are kept, and the models that another one may ask."""
    desk, (journal, _) = call.replaying(), _inspected(call)
    return list_replays(desk, journal, call.principal.user, call.query.decided_n)


def get_log(call: Call[LogQuery, None]) -> LogPage:
    """Get a page of the conversation's log."""
    journal, tail = _inspected(call)
    after, limit = call.query.after, call.query.limit
    upto = min(after + limit, tail.n)
    found = journal.since(after, upto=upto, consistent=True) if upto > after else []
    return page_log(found, limit=limit, newest=tail.n)


def get_blocks(call: Call[BlockQuery, None]) -> BlocksView:
    """Get the newest blocks at a logical path of the conversation; none if the path is empty."""
    return show_blocks(call.timeline().resolve(call.query.path), call.ports.artifacts)


def get_receipts(call: Call[Nothing, None]) -> Receipts:
    """Get the tokens, time, services and, where prices are known, dollars of each turn and each round."""
    journal, tail = call.tail()
    batches = journal.since(max(0, tail.state.forked - 1), upto=tail.n, consistent=True)
    prices = call.ports.of(tail.state.bundle).policy.prices
    noted = call.ports.deltas.notes(journal.lane, since=0)
    return make_receipts(batches, call.ports.costs.of(journal.lane), prices, noted)


def list_effects(call: Call[EffectQuery, None]) -> EffectList:
    """List the calls with lasting effects that the conversation made after a point, which a fork from there keeps."""
    journal, tail = call.tail()
    query = call.query
    n = find_point(journal, tail, ForkPoint(kind=query.kind, at=query.at, before=query.before), branch=True)
    begin = journal.get(n) if n else EMPTY
    if begin is None:
        raise NotFoundError("the conversation was deleted", code=DELETED)
    return show_effects(journal, begin, tail.n)


def export(call: Call[Nothing, None]) -> ConversationExport:
    """Export the conversation: its timeline, its sources, and every turn with all of its blocks."""
    timeline = call.timeline()
    rules = call.ports.of(timeline.state.bundle).policy.context
    return export_documents(timeline, ttl_s=rules.ttl_s)


def _inspected(call: Call[Any, Any]) -> tuple[Journal, Batch]:
    """Return the caller's conversation, if this stage lets its owner inspect it. Raises NotFoundError, AuthError."""
    found = call.tail()
    check_inspect(call.services.inspect, call.principal)
    return found


def _log(call: Call[Nothing, None]) -> list[Batch]:
    journal, tail = call.tail()
    return journal.since(0, upto=tail.n, consistent=True)


def _number(call: Call[Any, None]) -> int:
    """Return the number of a batch in the path. Raises NotFoundError."""
    text = call.path["n"]
    if not _NUMBER.fullmatch(text):
        raise NotFoundError("this conversation has no such batch", code="round_not_found")
    return int(text)


_FOUND: Final = {**OWNED, HTTPStatus.SERVICE_UNAVAILABLE: ("body_missing",)}
_INSPECTED: Final = {**_FOUND, HTTPStatus.FORBIDDEN: ("not_inspectable",)}
_ROUND: Final = {**_INSPECTED, HTTPStatus.NOT_FOUND: ("not_found", "round_not_found")}
_POINT: Final = {
    **_FOUND,
    HTTPStatus.NOT_FOUND: ("not_found", "conversation_deleted", "fork_point_not_found"),
    HTTPStatus.BAD_REQUEST: ("bad_conversation", "fork_beyond_end"),
}

_LIMITED: Final = {
    HTTPStatus.TOO_MANY_REQUESTS: ("limit_tokens", "limit_usd"),
    HTTPStatus.FORBIDDEN: ("not_inspectable", "stopped"),
}

ENDPOINTS: Final = (
    Endpoint(
        "GET",
        f"{CONVERSATION}/timeline",
        list_conversation_rounds,
        codes=_FOUND,
        gives={"turn": "/turns/0/turn_id", "n": "/turns/0/rounds/0/decided_n"},
    ),
    Endpoint("GET", f"{CONVERSATION}/requests/{{n}}", get_request, codes=_ROUND),
    Endpoint("GET", f"{CONVERSATION}/requests/{{n}}/diff", compare_requests, codes=_ROUND),
    Endpoint("GET", f"{CONVERSATION}/decisions/{{n}}", get_reply, codes=_ROUND),
    Endpoint(
        "POST",
        f"{CONVERSATION}/replays",
        replay_a_round,
        status=HTTPStatus.ACCEPTED,
        codes={
            **_ROUND,
            **_LIMITED,
            HTTPStatus.BAD_REQUEST: ("unknown_model",),
            HTTPStatus.UNPROCESSABLE_ENTITY: ("idempotency_key_reused",),
        },
        gives={"replay": "/replay"},
    ),
    Endpoint("GET", f"{CONVERSATION}/replays", list_round_replays, codes=_INSPECTED),
    Endpoint(
        "GET",
        f"{CONVERSATION}/replays/{{replay}}",
        get_replay,
        codes={**_INSPECTED, HTTPStatus.NOT_FOUND: ("not_found", "conversation_deleted", "replay_not_found")},
    ),
    Endpoint("GET", f"{CONVERSATION}/log", get_log, codes=_INSPECTED, gives={"after": "/next"}),
    Endpoint("GET", f"{CONVERSATION}/blocks", get_blocks, codes=_FOUND),
    Endpoint("GET", f"{CONVERSATION}/receipts", get_receipts, codes=_FOUND),
    Endpoint("GET", f"{CONVERSATION}/effects", list_effects, codes=_POINT),
    Endpoint("GET", f"{CONVERSATION}/export", export, codes=_FOUND),
)
