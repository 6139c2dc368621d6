"""Erasure of a deleted conversation: passes over all its data, until one finds nothing.

    1   its tombstone is stored outside the table, and its row is removed from the listing
    2   its rows are deleted from the memory of its owner, its objects with all their versions
    3   the rows next to its log are deleted, then its batches, the oldest first; those of the last day become husks

A day later the same pass runs again. Anything it finds was put by a process that did not know of the deletion, so it
runs once more after an hour. When it finds nothing, the husks are deleted, and only the tombstone is left. A husk keeps
a batch's number for as long as a suspended process may wake and put there: without it, the number would look free. A
process whose tail is older than an hour reads it again.

Each step may be repeated, and an interrupted pass starts again. Source: docs/concepts/erasure.md.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from stepline.errors import NotFoundError, SteplineError
from stepline.log.bindings import Ports
from stepline.log.fence import DELETED
from stepline.model.batch import Tombstone
from stepline.model.ids import Lane, utc
from stepline.model.memory_row import MemoryScope
from stepline.ports.tenancy.erasure import Erasure

logger = logging.getLogger(__name__)

CLASSES: Final = ("att", "exec", "git", "out", "quarantine", "seg")
"""The first part of the keys of a conversation's objects; the keys of a user's own objects begin with `mem` and `store`."""
HUSK_S: Final = 86_400
"""How long a batch's number is held: no process sleeps longer and still puts."""
AGAIN_S: Final = 3_600
"""The time to the next pass after a late one has found something."""


def erase(ports: Ports, erasure: Erasure, tombstone: Tombstone, *, until_s: float = math.inf) -> bool:
    """Make one pass; return True if nothing but the tombstone is left.

    It ends at `until_s` of the monotonic clock, or with an error, and continues when it is called again. Raises
    DependencyError.
    """
    found = 0
    deleted_at = datetime.fromisoformat(tombstone.deleted_at)
    husks_until = deleted_at + timedelta(seconds=HUSK_S)
    is_last = ports.clock.now() >= husks_until
    erasure.keep(tombstone)
    for count in _erase_content(ports, erasure, tombstone):
        found += count
        if ports.clock.monotonic_s() >= until_s:
            return False
    if not is_last:
        erasure.postpone(tombstone.lane, utc(husks_until))
        return False
    if found:
        logger.warning("erased again", extra={"pieces": found})
        erasure.postpone(tombstone.lane, utc(ports.clock.now() + timedelta(seconds=AGAIN_S)))
        return False
    for _ in erasure.erase_husks(tombstone.lane):
        if ports.clock.monotonic_s() >= until_s:
            return False
    erasure.finish(tombstone.lane, utc(ports.clock.now()))
    return True


def _erase_content(ports: Ports, erasure: Erasure, tombstone: Tombstone) -> Iterator[int]:
    """Erase everything but husks; yield the removed count of each request."""
    lane = tombstone.lane
    ports.log.clear_open(lane, tombstone.n)
    erasure.unlist(tombstone)
    yield 0
    yield from _forget(ports, erasure, tombstone)
    for kind in CLASSES:
        yield from erasure.delete_prefix(f"{kind}/{lane.prefix()}/")
    deleted_at = datetime.fromisoformat(tombstone.deleted_at)
    yield from erasure.erase_rows(lane, husks_from=utc(deleted_at - timedelta(seconds=HUSK_S)))


def _forget(ports: Ports, erasure: Erasure, tombstone: Tombstone) -> Iterator[int]:
    """Remove a conversation from its owner's memory, and delete the objects of older forms of that memory."""
    lane = tombstone.lane
    if ports.memory is None or not tombstone.owner:
        return
    scope = MemoryScope(tenant=lane.tenant, project=lane.project, user=tombstone.owner)
    left = ports.memory.forget(scope, lane.conversation)
    yield left.rows
    if left.prefix:
        # Older forms may hold other conversations too, so they do not count as restored content of this one.
        for _ in erasure.delete_prefix(left.prefix, but=left.keys):
            yield 0


def erase_pending(ports: Ports, erasure: Erasure, *, until_s: float = math.inf) -> dict[str, int]:
    """Make a pass over each conversation whose pass is due; return how many are `done`, `pending`, `failed` and `left`.

    One that cannot be erased now must not block the ones after it.
    """
    counts = dict.fromkeys(("done", "pending", "failed", "left"), 0)
    for tombstone in erasure.pending(before=utc(ports.clock.now())):
        if ports.clock.monotonic_s() >= until_s:
            counts["left"] += 1
            continue
        try:
            counts["done" if erase(ports, erasure, tombstone, until_s=until_s) else "pending"] += 1
        except SteplineError as error:
            logger.exception("conversation not erased", extra={"code": error.reason})
            counts["failed"] += 1
    return counts


def apply_tombstones(ports: Ports, erasure: Erasure) -> int:
    """Restore the tombstones that a table lost when it was restored to an earlier time; return their count.

    They are then pending, like any other tombstone.
    """
    missing = 0
    for kept in erasure.kept():
        stored = erasure.tombstone(kept.lane)
        if stored is not None and not stored.done_at:
            continue
        owner = _owner(ports, kept.lane)
        if stored is not None and not owner:
            continue
        erasure.bury(replace(kept, owner=owner, due=utc(ports.clock.now())))
        missing += 1
    return missing


def _owner(ports: Ports, lane: Lane) -> str:
    """Return the owner of a deleted conversation that the table has again; "" if it has nothing of it."""
    try:
        tail = ports.log.tail(lane, consistent=True)
    except NotFoundError as error:
        if error.reason != DELETED:
            raise
        return ""
    return tail.state.owner if tail else ""
