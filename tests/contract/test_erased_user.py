"""A user is erased after a crash at any call: each conversation leaves a tombstone, and a row without a user's name."""

from __future__ import annotations

import math
import uuid
from dataclasses import replace as replace_fields
from typing import Any

import pytest
from msgspec.structs import replace

from stepline.adapters.aws.tenancy.erasure import DynamoUserErasures
from stepline.adapters.memory.tenancy.erasure import MemoryUserErasures
from stepline.errors import AuthError
from stepline.ingress.erase_user import LATE_S, ErasurePorts, ask_erasure, erase_all
from stepline.log.erase_conversation import HUSK_S
from stepline.model.ids import Lane
from stepline.model.path import store_key
from stepline.ports.channel import Principal
from tests.contract.kept_things import OWNER, everything, fill_conversation, ports_of
from tests.support.budget import budget

FAR = 2**40
CHANGING = frozenset(
    {
        *("put", "keep", "ask", "void", "disconnect", "close", "post", "finish", "postpone", "bury"),
        *("unlist", "clear_open", "erase_rows", "erase_husks", "delete_prefix", "delete_rows"),
    }
)


class Killed(BaseException):
    """The end of a process; nothing may catch it."""


class Life:
    """A process that dies before its change number `left`, counted from 0."""

    def __init__(self, left: float) -> None:
        self.left, self.changes = left, 0

    def of(self, port: Any) -> Any:
        """Return a port of this process."""
        return _Mortal(self, port)

    def step(self) -> None:
        if self.changes >= self.left:
            raise Killed
        self.changes += 1


class _Mortal:
    def __init__(self, life: Life, port: Any) -> None:
        self._life, self._port = life, port

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        if name not in CHANGING:
            return method

        def call(*args: Any, **fields: Any) -> Any:
            self._life.step()
            return method(*args, **fields)

        return call


class Place:
    """A tenant of its own: two conversations of the user, one of a neighbour, and what is kept beside them."""

    def __init__(self, backend: Any) -> None:
        if hasattr(backend, "table"):
            status = {"Status": "Enabled"}
            backend.artifacts.client.put_bucket_versioning(
                Bucket=backend.name, VersioningConfiguration=status
            )
        self.backend, tenant = backend, f"t{uuid.uuid4().hex}"
        self.ports = replace_fields(ports_of(backend), tickets=backend.tickets)
        self.users = (
            DynamoUserErasures(backend.table, backend.clock)
            if hasattr(backend, "table")
            else MemoryUserErasures(backend.clock)
        )
        self.before = everything(backend)
        self.lanes = [Lane(tenant=tenant, project="docs", conversation=name) for name in ("one", "two")]
        for lane in self.lanes:
            fill_conversation(backend, self.ports, lane)
        me = Principal(tenant=tenant, project="docs", user=OWNER, expires_at=FAR)
        self.ports.subscriptions.connect("socket-9", me)
        self.ports.subscriptions.watch("socket-9", me)
        self.ticket = self.ports.tickets.issue(me)
        self.ports.artifacts.put(store_key(self.lanes[0], OWNER, "wish"), b"mine", mime="text/plain")

    def desk(self, life: Life) -> ErasurePorts:
        ports = replace_fields(
            self.ports,
            log=life.of(self.ports.log),
            tickets=life.of(self.ports.tickets),
            subscriptions=life.of(self.ports.subscriptions),
            publisher=life.of(self.ports.publisher),
            erasure=life.of(self.ports.erasure),
        )
        return ErasurePorts(ports=ports, erasure=life.of(self.ports.erasure), users=life.of(self.users))

    def erase(self, left: float) -> bool:
        """Ask, and make passes until nothing is pending, dying once; return True if it died."""
        died, life = False, Life(left)
        for _ in range(6):
            try:
                self._pass(self.desk(life))
            except Killed:
                died = True
                self._pass(self.desk(Life(math.inf)))
            self.backend.clock.pause(LATE_S + HUSK_S)
        return died

    def _pass(self, desk: ErasurePorts) -> None:
        one = self.lanes[0]
        if desk.users.get(one.tenant, one.project, OWNER) is None:
            ask_erasure(desk, tenant=one.tenant, project=one.project, user=OWNER)
        erase_all(desk, until_s=math.inf)

    def left(self) -> dict[str, Any]:
        """Return what is kept of the tenant."""
        found, tenant = everything(self.backend), self.lanes[0].tenant
        return {
            place: what
            for place, what in found.items()
            if place not in self.before and (tenant in place or tenant in str(what))
        }


def check_erased(place: Place) -> None:
    one, left = place.lanes[0], place.left()
    done = place.users.get(one.tenant, one.project, OWNER)
    assert done is not None
    assert (bool(done.done_at), done.user) == (True, "")
    kinds = sorted("tomb" if "tomb" in name.lower() else name.split("#")[0] for name in left)
    assert [kind for kind in kinds if kind != "PERSON"] == ["tomb"] * 4, left
    named = (f"'{OWNER}'", f'"{OWNER}"')
    assert not any(name in str(what) for what in left.values() for name in named)
    assert place.ports.subscriptions.principal("socket-9") is None
    with pytest.raises(AuthError):
        place.ports.tickets.redeem(place.ticket)


def test_a_user_is_erased_after_a_crash_at_any_call(backend: Any) -> None:
    step, left, died = (budget(19, 3) if hasattr(backend, "table") else 1), 0, True
    while died:
        place = Place(backend)
        died = place.erase(left)
        check_erased(place)
        left += step
    assert left > 20


def test_a_neighbour_of_the_same_name_in_another_project_keeps_everything(backend: Any) -> None:
    place = Place(backend)
    other = replace(place.lanes[0], project="other")
    before = everything(backend)
    fill_conversation(backend, place.ports, other)
    theirs = {name: what for name, what in everything(backend).items() if name not in before}
    place.erase(math.inf)
    assert not theirs.keys() - everything(backend).keys()
