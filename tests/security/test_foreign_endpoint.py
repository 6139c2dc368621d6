"""Every endpoint of the table, called by every other user: another user's resources look absent.

The measure is a second stage without any message of the owner: a caller that may not read her data gets the same bytes
there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from stepline.api.endpoint import Endpoint
from stepline.api.endpoint_table import ENDPOINTS
from stepline.api.router import ApiResponse
from tests.security.every_endpoint import (
    ROWS,
    TABLE,
    Names,
    World,
    admin_of_project,
    admin_of_tenant,
    ask,
    make_world,
    name,
    owner,
    reviewer,
    row_of,
)
from tests.security.strangers import OWNERS, STRANGERS, Stranger, asked_by, principal
from tests.support.conversation import LANE

PAGED = [one for one in ENDPOINTS if row_of(one).next]
OWNED = [one for one in ENDPOINTS if row_of(one).may in (owner, reviewer) and not row_of(one).own]
FRESH = frozenset({"ticket", "upload", "url", "fields", "by", "id", "replay"})
"""Fields that are another in each answer."""

by_each_stranger = pytest.mark.parametrize("stranger", STRANGERS, ids=str)


def of_each_pair(
    endpoints: Sequence[Endpoint], strangers: Sequence[Stranger] = STRANGERS
) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("endpoint", "stranger"), asked_by(endpoints, strangers), ids=label)


def label(value: Endpoint | Stranger) -> str:
    return name(value) if isinstance(value, Endpoint) else str(value)


of_each_endpoint = pytest.mark.parametrize("endpoint", ENDPOINTS, ids=name)


@cache
def kept(own: str = "own", *, spoken: bool = True, after: str = "") -> World:
    """Return a world that many requests share; the owner has called the endpoint `after` in it."""
    world = make_world(own=own, spoken=spoken)
    if after and spoken:
        ask(world.caller(Stranger(role="tenant_admin")), TABLE[after], world.names)
    return world


def answers(
    endpoint: Endpoint, stranger: Stranger, asked: Names, own: str = "own", **query: str
) -> list[Any]:
    """Return the answer on a stage where the owner has spoken, and on one where she has not."""
    row = row_of(endpoint)
    if row.taken or (
        row.destroys and (row.own or administers(stranger, endpoint, asked))
    ):  # others are refused, and destroy nothing
        worlds = [make_world(own=own, spoken=spoken) for spoken in (True, False)]
    else:
        worlds = [kept(own, spoken=spoken, after=row.after) for spoken in (True, False)]
    return [said(ask(world.caller(stranger), endpoint, asked, **query)) for world in worlds]


def said(answer: ApiResponse) -> tuple[int, str, Any]:
    """Return the content of an answer, without values that differ each time."""
    body = json.loads(answer.body, object_hook=without_fresh) if answer.body else None
    return int(answer.status), answer.headers.get("Location", ""), body


def without_fresh(found: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key not in FRESH}


def at_home(stranger: Stranger, **names: Any) -> Names:
    """Return the owner's names, but the place is that of the caller, who has no other."""
    return replace(kept().names, tenant=stranger.tenant, project=stranger.project, **names)


def may(stranger: Stranger, endpoint: Endpoint, asked: Names) -> bool:
    """Say whether a request is about the owner's, and this caller may make it; of what is the caller's own, see it."""
    row, who = row_of(endpoint), principal(**stranger._asdict())
    if row.own:
        return row.may(who, kept().names)
    of_tenant = "{tenant}" in endpoint.path and "{project}" not in endpoint.path
    hers = asked.tenant == LANE.tenant and (of_tenant or asked.project == LANE.project)
    return hers and row.may(who, asked)


def administers(stranger: Stranger, endpoint: Endpoint, asked: Names) -> bool:
    """Say whether a request is about an account of which the caller is an admin."""
    rule = row_of(endpoint).may
    return rule in (admin_of_project, admin_of_tenant) and rule(principal(**stranger._asdict()), asked)


def test_no_endpoint_is_left_out_of_these_tests() -> None:
    assert set(ROWS) == set(TABLE)
    assert len(TABLE) == len(ENDPOINTS)


@pytest.mark.parametrize("caller", OWNERS, ids=str)
@of_each_endpoint
def test_no_role_loses_access_to_its_own_resources(endpoint: Endpoint, caller: Stranger) -> None:
    row = row_of(endpoint)
    world = make_world() if row.destroys else kept("owned", after=row.after)
    answer = ask(world.caller(caller), endpoint, world.names)
    if row.taken and may(caller, endpoint, world.names):
        assert (answer.status, answer.code) == (409, row.taken)
    elif row_of(endpoint).own or may(caller, endpoint, world.names):
        assert answer.status < 400, answer.body
    else:
        assert (answer.status, answer.code) == (404, "not_found")


@of_each_pair(ENDPOINTS)
def test_anothers_is_answered_as_if_it_had_never_been(endpoint: Endpoint, stranger: Stranger) -> None:
    """By the owner's names in the caller's place, and in hers."""
    for asked in (at_home(stranger), kept().names):
        if may(stranger, endpoint, asked):
            continue  # an admin's right: where it ends, other requests of this test say
        foreign, absent = answers(endpoint, stranger, asked)
        if row_of(endpoint).founds and asked == kept().names == at_home(stranger):
            # A free name would begin a conversation: a taken one is refused as any other message to a free one is.
            assert foreign == (404, "", foreign[2])
            continue
        assert foreign == absent
        if not (row_of(endpoint).own or row_of(endpoint).founds or administers(stranger, endpoint, asked)):
            assert (foreign[0], foreign[2]["code"]) == (404, "not_found")


@of_each_pair(
    [one for one in ENDPOINTS if "{tenant}" in one.path],
    [one for one in STRANGERS if one.tenant != LANE.tenant],
)
def test_another_tenant_is_not_there_in_any_role(endpoint: Endpoint, stranger: Stranger) -> None:
    status, _, body = answers(endpoint, stranger, kept().names)[0]
    assert (status, body["code"]) == (404, "not_found")


@pytest.mark.parametrize("own", ["own", LANE.conversation])
@of_each_pair(OWNED)
def test_foreign_names_within_ones_own_conversation_are_names_of_nothing(
    endpoint: Endpoint, stranger: Stranger, own: str
) -> None:
    """A turn, a file, a resource, an upload and a number of the owner's; also where both conversations have one name."""
    if own == LANE.conversation and (stranger.tenant, stranger.project) == (LANE.tenant, LANE.project):
        return  # there it is the owner's
    asked = at_home(stranger, conversation=own)
    foreign, absent = answers(endpoint, stranger, asked, own)
    assert foreign == absent
    assert may(stranger, endpoint, asked) or LANE.key() not in str(foreign)


@of_each_pair(PAGED)
def test_a_cursor_of_another_leads_nowhere(endpoint: Endpoint, stranger: Stranger) -> None:
    everywhere = replace(kept().names, conversation="")
    hers = ask(kept().caller(Stranger(role=stranger.role)), endpoint, everywhere)
    cursor = json.loads(hers.body)[row_of(endpoint).next]
    assert cursor
    foreign, absent = answers(endpoint, stranger, at_home(stranger, conversation=""), after=cursor)
    assert foreign == absent
    assert (foreign[0], foreign[2]["code"]) == (400, "bad_cursor")


@by_each_stranger
def test_a_refused_request_changes_nothing(stranger: Stranger) -> None:
    world = make_world()
    before = everything(world)
    for endpoint in (one for one in ENDPOINTS if one.run.__name__ != "erase_me"):
        for asked in (at_home(stranger), at_home(stranger, conversation="own"), world.names):
            if not may(stranger, endpoint, asked):
                ask(world.caller(stranger), endpoint, replace(asked, upload=world.names.upload))
    assert everything(world) == before


def everything(world: World) -> list[Any]:
    """Return the owner's batches, and the answers to all that she may read."""
    hers = world.caller(Stranger())
    reads = [one for one in ENDPOINTS if one.method == "GET" and not row_of(one).spoils]
    return [world.conversation.batches(), *(said(ask(hers, one, world.names)) for one in reads)]


@by_each_stranger
def test_a_deleted_conversation_is_absent_to_every_other_user(stranger: Stranger) -> None:
    world, empty = kept(after="delete_conversation"), kept(spoken=False)
    for endpoint in (one for one in OWNED if not row_of(one).founds):
        for asked in (at_home(stranger), world.names):
            foreign = said(ask(world.caller(stranger), endpoint, asked))
            assert foreign == said(ask(empty.caller(stranger), endpoint, asked)), name(endpoint)
            assert (foreign[0], foreign[2]["code"]) == (404, "not_found")


@of_each_endpoint
def test_the_owner_of_a_deleted_conversation_gets_conversation_deleted(endpoint: Endpoint) -> None:
    world = kept("deleted", after="delete_conversation")
    answer = ask(world.caller(Stranger()), endpoint, world.names)
    if row_of(endpoint).may is owner and endpoint.run.__name__ not in ("delete_conversation", "read_erasure"):
        assert (answer.status, answer.code) == (404, "conversation_deleted")
