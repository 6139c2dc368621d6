"""Forks: a conversation is forked at a point, and its branches and forks are listed.

Source: docs/concepts/forks.md.
"""

from __future__ import annotations

from http import HTTPStatus
from itertools import islice
from typing import Annotated, Any, Final

from msgspec import Meta
from msgspec.structs import replace

from stepline.api.endpoint import OWNED, Call, Endpoint, Nothing, StrictInput
from stepline.delivery.effect import make_listing
from stepline.errors import NotFoundError
from stepline.ingress.allow import check_rate, check_stopped
from stepline.ingress.fork import ForkPoint, PointKind, fork_conversation
from stepline.ingress.rename import read_title
from stepline.log.bindings import Ports
from stepline.log.fence import DELETED
from stepline.log.fork_tree import own_forks, root_lane, walk_branches
from stepline.model.base import Value
from stepline.model.batch import ForkRow, forked_from
from stepline.model.entry import Titled
from stepline.model.ids import Lane, make_lane
from stepline.ports.log import Listing

ROWS_MAX: Final = 100
"""The most conversations of an answer."""


class ForkPlace(StrictInput):
    """The place at which a fork begins: after a batch, a turn, a round or a message, or `before` it.

    `at` is the number of the batch, also of the one that decided the round, or the id of the turn or the message.
    """

    kind: PointKind
    at: Annotated[str, Meta(min_length=1, max_length=512)]
    before: bool = False


class ForkRequest(StrictInput):
    """A fork under a new name. With `branch` it is shown with its origin as one conversation.

    Without a `title` a branch has that of the conversation, and a fork the same with "(fork)".
    """

    conversation: str
    point: ForkPlace
    branch: bool = False
    title: Annotated[str, Meta(max_length=400)] = ""


class ForkMade(Value, omit_defaults=False):
    """A fork: its batches up to `n` are in the log of `origin`. A branch names the root of its tree, `branch_of`."""

    conversation: str
    origin: str
    n: int
    branch_of: str
    title: str


class Branch(Value, omit_defaults=False):
    """A conversation of a tree: its batches up to `n` are in the log of `origin`, "" for the root.

    Times are ISO-8601 in UTC; `begun_at` is "" if it was not recorded.
    """

    conversation: str
    origin: str
    n: int
    title: str
    begun_at: str
    last_activity_at: str


class Branches(Value, omit_defaults=False):
    """The tree of a conversation: the root, then its branches, oldest first. `more`: there are others."""

    items: tuple[Branch, ...]
    more: bool


class OwnFork(Value, omit_defaults=False):
    """A fork that is no branch: it has the batches of the conversation up to `n`."""

    conversation: str
    n: int
    title: str
    begun_at: str


class OwnForks(Value, omit_defaults=False):
    """The forks of a conversation that are no branches, oldest first. `more`: there are others."""

    items: tuple[OwnFork, ...]
    more: bool


def make_fork(call: Call[Nothing, ForkRequest]) -> ForkMade:
    """Fork a conversation at a point of its past; the same request finds the same fork."""
    body, here = call.body, call.principal
    lane = call.lane()
    made = make_lane(here.tenant, here.project, body.conversation)
    check_stopped(check_rate(call.ports, here))
    point = ForkPoint(kind=body.point.kind, at=body.point.at, before=body.point.before)
    batch = fork_conversation(
        call.ports,
        lane,
        point,
        user=here.user,
        conversation=made.conversation,
        title=read_title(body.title) if body.title else "",
        branch=body.branch,
    )
    first = forked_from(batch)
    assert first is not None  # it is the first batch of a fork
    titles = [entry.title for entry in batch.entries if isinstance(entry, Titled)]
    return ForkMade(
        conversation=made.conversation,
        origin=first.origin,
        n=first.n,
        branch_of=first.branch_of,
        title=titles[-1],
    )


def list_branches(call: Call[Nothing, None]) -> Branches:
    """List the tree of a conversation: its root and all branches; the same for each of them."""
    journal, tail = call.tail()
    ports, root = call.ports, root_lane(journal.lane, tail.state)
    rows = list(islice(walk_branches(ports.log, root), ROWS_MAX))
    first = ForkRow(conversation=root.conversation, origin="", n=0)
    found = [(row, _listing(ports, root, row)) for row in (first, *rows[: ROWS_MAX - 1])]
    branches = [
        Branch(
            conversation=row.conversation,
            origin=row.origin,
            n=row.n,
            title=listed.title,
            begun_at=listed.started_at,
            last_activity_at=listed.last_at,
        )
        for row, listed in found
        if listed
    ]
    branches[1:] = sorted(branches[1:], key=lambda one: (one.begun_at, one.conversation))
    return Branches(items=tuple(branches), more=len(rows) == ROWS_MAX)


def list_forks(call: Call[Nothing, None]) -> OwnForks:
    """List the forks of a conversation that are conversations of their own, and no branches."""
    journal, _ = call.tail()
    rows = own_forks(call.ports.log, journal.lane)
    found = [(row, _listing(call.ports, journal.lane, row)) for row in rows[:ROWS_MAX]]
    forks = [
        OwnFork(conversation=row.conversation, n=row.n, title=listed.title, begun_at=listed.started_at)
        for row, listed in found
        if listed
    ]
    forks.sort(key=lambda one: (one.begun_at, one.conversation))
    return OwnForks(items=tuple(forks), more=len(rows) > ROWS_MAX)


def _listing(ports: Ports, lane: Lane, row: ForkRow) -> Listing | None:
    """Return the listed row of a fork, made from its log if it has none yet; None if it was deleted meanwhile."""
    lane = replace(lane, conversation=row.conversation)
    listed = ports.log.listing(lane)
    if listed is not None:
        return listed
    try:
        tail = ports.log.tail(lane, consistent=True)
    except NotFoundError as error:
        if error.reason != DELETED:
            raise
        return None
    return make_listing(ports, lane, tail) if tail and not tail.state.deleted else None


_CONVERSATION: Final = "/v1/conversations/{conversation}"
_NAMED: Final[dict[Any, Any]] = {**OWNED, HTTPStatus.BAD_REQUEST: ("bad_conversation",)}

ENDPOINTS: Final = (
    Endpoint(
        "POST",
        f"{_CONVERSATION}/forks",
        make_fork,
        status=HTTPStatus.CREATED,
        codes={
            HTTPStatus.NOT_FOUND: (*OWNED[HTTPStatus.NOT_FOUND], "fork_point_not_found"),
            HTTPStatus.BAD_REQUEST: ("bad_conversation", "bad_title", "fork_beyond_end"),
            HTTPStatus.CONFLICT: ("import_unfinished", "conversation_exists", "fork_too_deep"),
            HTTPStatus.TOO_MANY_REQUESTS: ("rate_limited",),
            HTTPStatus.FORBIDDEN: ("stopped",),
        },
    ),
    Endpoint("GET", f"{_CONVERSATION}/branches", list_branches, codes=_NAMED),
    Endpoint("GET", f"{_CONVERSATION}/forks", list_forks, codes=_NAMED),
)
