"""Erasure: of a conversation, of a user with all conversations, and the progress of both.

Deleted data is hidden from every reader at once; stored copies are erased in passes, the last of them a day later.
Source: docs/concepts/erasure.md.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final, Literal

from stepline.api.endpoint import Call, Endpoint, Nothing, StrictInput
from stepline.errors import NotFoundError
from stepline.ingress import delete
from stepline.ingress.erase_user import ErasurePorts, ask_erasure
from stepline.log.fence import DELETED
from stepline.model.base import Value
from stepline.model.ids import check_segment, is_user, person
from stepline.ports.tenancy.erasure import UserErasure

State = Literal["pending", "done"]


class DeletionQuery(StrictInput):
    """With `cascade` the forks of a conversation are deleted with it; its branches always are."""

    cascade: bool = False


class ConversationErasure(Value, omit_defaults=False):
    """The progress of a conversation's erasure; `done_at` is "" until only its tombstone is left."""

    conversation: str
    state: State
    deleted_at: str
    done_at: str


class PersonErasure(Value, omit_defaults=False):
    """The progress of a user's erasure, which the user or an admin requested at `asked_at`.

    `conversations` counts those deleted so far. Done means that nothing of the user can be read; the stored data of
    each conversation is removed by its own erasure.
    """

    user: str
    state: State
    asked_at: str
    done_at: str
    conversations: int


def delete_conversation(call: Call[DeletionQuery, None]) -> ConversationErasure:
    """Delete a conversation and its branches permanently, with running turns; deleting it again gives the same answer."""
    desk, lane = _desk(call), call.lane()
    try:
        delete.apply_deletion(call.ports, lane, call.principal.user, cascade=call.query.cascade)
    except NotFoundError as error:
        if error.reason != DELETED:
            raise
    desk.wake()
    return _read_stone(call)


def read_erasure(call: Call[Nothing, None]) -> ConversationErasure:
    """Read the progress of a conversation's erasure."""
    return _read_stone(call)


def _read_stone(call: Call[Any, None]) -> ConversationErasure:
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
    """Erase the caller: all conversations that have begun, and all other data that is stored about them."""
    return _ask(call, call.principal.project, call.principal.user)


def read_my_erasure(call: Call[Nothing, None]) -> PersonErasure:
    """Read the progress of the caller's erasure."""
    return _read(call, call.principal.project, call.principal.user)


def erase_user(call: Call[Nothing, None]) -> PersonErasure:
    """Erase a user of the project and the counts of their usage, as an admin of the project or of the tenant."""
    return _ask(call, *_administered(call), by_admin=True)


def read_user_erasure(call: Call[Nothing, None]) -> PersonErasure:
    """Read the progress of a user's erasure, as an admin."""
    return _read(call, *_administered(call))


def _desk(call: Call[Any, Any]) -> ErasurePorts:
    """Return the ports of erasure. Raises NotFoundError if the stage erases nothing."""
    if call.services.erasing is None:
        raise NotFoundError("there is nothing here")
    return call.services.erasing


def _administered(call: Call[Any, Any]) -> tuple[str, str]:
    """Return the project and the user in the path, if the caller administers them.

    Raises NotFoundError: the caller does not. Raises InputError `bad_project`.
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
    Endpoint(
        "DELETE",
        _CONVERSATION,
        delete_conversation,
        status=HTTPStatus.ACCEPTED,
        codes={**_NAMED, HTTPStatus.CONFLICT: ("has_forks",)},
    ),
    Endpoint("GET", f"{_CONVERSATION}/erasure", read_erasure, codes=_NAMED),
    Endpoint("POST", _MINE, erase_me, status=HTTPStatus.ACCEPTED, codes=_ABSENT),
    Endpoint("GET", _MINE, read_my_erasure, codes=_ABSENT),
    Endpoint("POST", _USER, erase_user, status=HTTPStatus.ACCEPTED, codes=_ADMINISTERED),
    Endpoint("GET", _USER, read_user_erasure, codes=_ADMINISTERED),
)
