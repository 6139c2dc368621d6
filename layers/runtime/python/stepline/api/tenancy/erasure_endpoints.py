"""Erasure: a conversation, a user with all conversations, and how far either is.

What was deleted is deleted at once for everybody who reads; what was kept of it goes in passes, the last of them a day later.
Source: docs/concepts/erasure.md.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final, Literal

from stepline.api.endpoint import Call, Endpoint, Nothing
from stepline.errors import NotFoundError
from stepline.ingress import delete
from stepline.ingress.erase_user import ErasurePorts, ask_erasure
from stepline.log.fence import DELETED
from stepline.model.base import Value
from stepline.model.ids import check_segment, is_user, person
from stepline.ports.tenancy.erasure import UserErasure

State = Literal["pending", "done"]


class ConversationErasure(Value, omit_defaults=False):
    """How far the erasure of a conversation is; `done_at` is "" until nothing but its tombstone is left."""

    conversation: str
    state: State
    deleted_at: str
    done_at: str


class PersonErasure(Value, omit_defaults=False):
    """How far the erasure of a user is, who asked at `asked_at` or for whom an admin did.

    `conversations` counts those deleted so far. Done means that nothing of the user can be read; what was kept of each
    conversation goes with its own erasure.
    """

    user: str
    state: State
    asked_at: str
    done_at: str
    conversations: int


def delete_conversation(call: Call[Nothing, None]) -> ConversationErasure:
    """Delete a conversation for good, with the turn that runs; the same answer again for one that is deleted."""
    desk, lane = _desk(call), call.lane()
    try:
        delete.apply_deletion(call.ports, lane, call.principal.user)
    except NotFoundError as error:
        if error.reason != DELETED:
            raise
    desk.wake()
    return read_erasure(call)


def read_erasure(call: Call[Nothing, None]) -> ConversationErasure:
    """Read how far the erasure of a conversation is."""
    desk, lane, here = _desk(call), call.lane(), call.principal
    stone = desk.erasure.tombstone(lane)
    if stone is None or stone.whose != person(here.tenant, here.project, here.user):
        raise NotFoundError("no such erasure")
    return ConversationErasure(
        conversation=lane.conversation,
        state="done" if stone.done_at else "pending",
        deleted_at=stone.deleted_at,
        done_at=stone.done_at,
    )


def erase_me(call: Call[Nothing, None]) -> PersonErasure:
    """Erase the caller: all conversations that have begun, and whatever else is kept of them here."""
    return _ask(call, call.principal.project, call.principal.user)


def read_my_erasure(call: Call[Nothing, None]) -> PersonErasure:
    """Read how far the caller's erasure is."""
    return _read(call, call.principal.project, call.principal.user)


def erase_user(call: Call[Nothing, None]) -> PersonErasure:
    """Erase a user of the project, as an admin of it or of the tenant, with what was counted for them."""
    return _ask(call, *_administered(call), by_admin=True)


def read_user_erasure(call: Call[Nothing, None]) -> PersonErasure:
    """Read how far the erasure of a user is, as an admin."""
    return _read(call, *_administered(call))


def _desk(call: Call[Any, Any]) -> ErasurePorts:
    """Return the ports of erasure. Raises NotFoundError where nothing is erased."""
    if call.services.erasing is None:
        raise NotFoundError("there is nothing here")
    return call.services.erasing


def _administered(call: Call[Any, Any]) -> tuple[str, str]:
    """Return the project and the user in the path, of whom the caller is an admin.

    Raises NotFoundError: the caller is not. Raises InputError `bad_project`.
    """
    here, path = call.principal, call.path
    is_admin = here.role == "tenant_admin" or (
        here.role == "project_admin" and path["project"] == here.project
    )
    if not is_admin or path["tenant"] != here.tenant or not is_user(path["user"]):
        raise NotFoundError("no such user")
    return check_segment(path["project"], "project"), path["user"]


def _ask(call: Call[Any, Any], project: str, user: str, *, by_admin: bool = False) -> PersonErasure:
    desk = _desk(call)
    return _shown(
        ask_erasure(desk, tenant=call.principal.tenant, project=project, user=user, by_admin=by_admin), user
    )


def _read(call: Call[Any, Any], project: str, user: str) -> PersonErasure:
    found = _desk(call).users.get(call.principal.tenant, project, user)
    if found is None:
        raise NotFoundError("no such erasure")
    return _shown(found, user)


def _shown(erasure: UserErasure, user: str) -> PersonErasure:
    return PersonErasure(
        user=user,
        state="done" if erasure.done_at else "pending",
        asked_at=erasure.asked_at,
        done_at=erasure.done_at,
        conversations=erasure.conversations,
    )


_CONVERSATION: Final = "/v1/conversations/{conversation}"
_MINE: Final = "/v1/me/erasure"
_USER: Final = "/v1/tenants/{tenant}/projects/{project}/users/{user+}/erasure"
_ABSENT: Final = {HTTPStatus.NOT_FOUND: ("not_found",)}
_NAMED: Final = {**_ABSENT, HTTPStatus.BAD_REQUEST: ("bad_conversation",)}
_ADMINISTERED: Final = {**_ABSENT, HTTPStatus.BAD_REQUEST: ("bad_project",)}

ENDPOINTS: Final = (
    Endpoint("DELETE", _CONVERSATION, delete_conversation, status=HTTPStatus.ACCEPTED, codes=_NAMED),
    Endpoint("GET", f"{_CONVERSATION}/erasure", read_erasure, codes=_NAMED),
    Endpoint("POST", _MINE, erase_me, status=HTTPStatus.ACCEPTED, codes=_ABSENT),
    Endpoint("GET", _MINE, read_my_erasure, codes=_ABSENT),
    Endpoint("POST", _USER, erase_user, status=HTTPStatus.ACCEPTED, codes=_ADMINISTERED),
    Endpoint("GET", _USER, read_user_erasure, codes=_ADMINISTERED),
)
