"""The erasure of a user: all conversations, their memory, data stored by bundles, tickets and connections.

    1   each conversation that began before the request is deleted, like one that its owner deletes
    2   the user's data beside conversations is deleted; connections are notified, and closed
    3   a pass that begins LATE_S after the request and finds no conversation left records that it is done

The listing that names the conversations may be late, hence the last pass. Each step may be repeated. The user's usage
counts are stored under a hash; only an admin's request deletes them, so that erasing yourself does not reset a limit.
Source: docs/concepts/erasure.md.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from msgspec.structs import replace

from stepline.errors import BusyError, NotFoundError, SteplineError
from stepline.ingress.delete import end_conversation, redo_deletion
from stepline.log.bindings import Ports
from stepline.log.erase_conversation import erase
from stepline.log.fork_tree import walk_forks
from stepline.model.batch import Tombstone
from stepline.model.ids import Lane, person, utc
from stepline.model.tenancy.limits import Scope
from stepline.model.wire.event import ErrorFrame, encode_frame
from stepline.ports.tenancy.erasure import Erasure, UserErasure, UserErasures

logger = logging.getLogger(__name__)

LATE_S: Final = 60
"""The time after which a listing names every conversation that began before, and every ticket has expired."""
ROWS_AT_ONCE: Final = 25
TRIES: Final = 5
ERASED: Final = "account_erased"
STORES: Final = ("mem", "store")
"""The first part of the keys of a user's objects that belong to no one conversation; a hash of the user follows."""


@dataclass(frozen=True, kw_only=True)
class ErasurePorts:
    """The ports of erasure in addition to the loop's; `wake` asks the eraser to run at once, and may be lost."""

    ports: Ports
    erasure: Erasure
    users: UserErasures
    wake: Callable[[], None] = lambda: None


def ask_erasure(
    desk: ErasurePorts, *, tenant: str, project: str, user: str, by_admin: bool = False
) -> UserErasure:
    """Begin the erasure of a user, unless one is in progress; return the current one. Raises DependencyError."""
    asked = UserErasure(
        tenant=tenant,
        project=project,
        whose=person(tenant, project, user),
        user=user,
        asked_at=utc(desk.ports.clock.now()),
        by_admin=by_admin,
    )
    kept = desk.users.ask(asked)
    desk.wake()
    return kept


def erase_all(desk: ErasurePorts, *, until_s: float) -> dict[str, int]:
    """Make a pass over everything that is to be erased; return counts by kind and result.

    It ends at `until_s` of the monotonic clock. Failures are logged and retried in the next pass.
    """
    clock, counts = desk.ports.clock, Counter[str]()
    for erasure in desk.users.pending():
        if clock.monotonic_s() < until_s:
            counts[_passed("user", partial(_erase_user, desk, erasure, until_s=until_s))] += 1
    for stone in desk.erasure.pending(before=utc(clock.now())):
        if clock.monotonic_s() < until_s:
            counts[_passed("conversation", partial(_erase_conversation, desk, stone, until_s=until_s))] += 1
        else:
            counts["conversations_left"] += 1
    return dict(counts)


def _passed(what: str, run: Callable[[], bool]) -> str:
    try:
        return f"{what}s_done" if run() else f"{what}s_pending"
    except SteplineError as error:
        logger.exception("not erased", extra={"what": what, "code": error.reason})
        return f"{what}s_failed"


def _erase_conversation(desk: ErasurePorts, stone: Tombstone, *, until_s: float) -> bool:
    redo_deletion(desk.ports, stone.lane)
    return erase(desk.ports, desk.erasure, stone, until_s=until_s)


def _erase_user(desk: ErasurePorts, erasure: UserErasure, *, until_s: float) -> bool:
    """Make a pass over a user; return True if nothing is left but conversations that are being erased.

    Raises DependencyError, BusyError.
    """
    ports, began = desk.ports, desk.ports.clock.now()
    deleted, whole = _delete_conversations(ports, erasure, until_s)
    if whole:
        _erase_person(desk, erasure)
    is_late = began >= datetime.fromisoformat(erasure.asked_at) + timedelta(seconds=LATE_S)
    done = whole and not deleted and is_late
    return _record_pass(desk, erasure, deleted=deleted, notified=whole, done=done) and done


def _record_pass(
    desk: ErasurePorts, erasure: UserErasure, *, deleted: int, notified: bool, done: bool
) -> bool:
    """Add a pass to the record of an erasure; return False if that is done already, or was requested again since.

    Passes may run concurrently: the API wakes one, and a clock another. Raises BusyError: others were faster too often.
    """
    before: UserErasure | None = erasure
    for _ in range(TRIES):
        if before is None or before.asked_at != erasure.asked_at or before.done_at:
            return False
        after = replace(before, conversations=before.conversations + deleted, told=before.told or notified)
        if done:
            after = replace(after, user="", done_at=utc(desk.ports.clock.now()))
        if after == before or desk.users.keep(after, before=before):
            return True
        before = desk.users.get(erasure.tenant, erasure.project, erasure.user)
    raise BusyError("the erasure is contended", tries=TRIES)


def _delete_conversations(ports: Ports, erasure: UserErasure, until_s: float) -> tuple[int, bool]:
    """Delete the conversations that began before the request; return their number, and whether all were checked."""
    deleted, after = 0, None
    while True:
        rows = ports.log.conversations(
            erasure.tenant, erasure.project, erasure.user, after=after, most=ROWS_AT_ONCE
        )
        for row in rows:
            if ports.clock.monotonic_s() >= until_s:
                return deleted, False
            if row.started_at <= erasure.asked_at and _is_alive(ports, row.lane):
                deleted += _delete(ports, row.lane, erasure.user)
        if len(rows) < ROWS_AT_ONCE:
            return deleted, True
        after = rows[-1].place


def _is_alive(ports: Ports, lane: Lane) -> bool:
    """Return True unless the conversation was deleted: the listing may not show that yet."""
    return ports.erasure is None or ports.erasure.tombstone(lane) is None


def _delete(ports: Ports, lane: Lane, user: str) -> int:
    """Delete a conversation with its forks; return their number."""
    ended = 1 + sum(1 for _ in walk_forks(ports.log, lane))
    try:
        end_conversation(ports, lane, user, cascade=True)
    except NotFoundError:
        return 0
    return ended


def _erase_person(desk: ErasurePorts, erasure: UserErasure) -> None:
    """Erase a user's data beside conversations, and end their connections, once.

    The index of memory is deleted in each pass: newer messages are indexed from the logs again.
    """
    ports, whose = desk.ports, (erasure.tenant, erasure.project, erasure.user)
    digest = hashlib.sha256(erasure.user.encode()).hexdigest()[:32]
    for kind in ("mem",) if erasure.told else STORES:
        for _ in desk.erasure.delete_prefix(f"{kind}/{erasure.tenant}/{erasure.project}/{digest}/"):
            pass
    if erasure.told:
        return
    ports.tickets.void(*whose)
    if erasure.by_admin:
        _forget_account(ports, Scope(tenant=erasure.tenant, project=erasure.project, user=erasure.user))
    notice = encode_frame(ErrorFrame(code=ERASED, message="Your data here was erased."))
    for connection in ports.subscriptions.connections(*whose):
        _end_connection(ports, connection, notice)


def _forget_account(ports: Ports, scope: Scope) -> None:
    """Delete the usage counts of a user, unless the user is stopped: erasing must not lift the stop."""
    (given,) = ports.accounts.limits([scope])
    if not given.limits.stopped:
        ports.accounts.forget(scope)


def _end_connection(ports: Ports, connection: str, notice: bytes) -> None:
    try:
        ports.publisher.post(connection, notice)
    except SteplineError as error:  # it is gone, or learns of the erasure when it is closed
        logger.info("connection not notified", extra={"code": error.reason})
    ports.publisher.close(connection)
    ports.subscriptions.disconnect(connection)
