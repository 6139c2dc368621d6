"""The bound on the turns that have an execution at once: a turn begins with a slot of the stage, or waits in line for one.

Whatever would start an execution at the entrance comes through here: a message that opens a turn, and an answer to a
request for an approval. A stop begins beyond the bound, since it ends what it begins. Source: docs/concepts/log.md#queued-turns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from stepline.delivery.allowance import Allowance
from stepline.delivery.stage_queue import (
    begun_entry,
    extra_stage_slot,
    free_stage_slot,
    queued_turn,
)
from stepline.errors import LimitError
from stepline.ingress.allow import claim_slots
from stepline.log.bindings import Ports
from stepline.log.journal import Draft
from stepline.log.transition import begun, queued
from stepline.model.batch import Batch
from stepline.model.entry import ApprovalAnswered, Begun, Inbound, Opened, Queued
from stepline.model.ids import Lane, utc
from stepline.model.tenancy.limits import Scope, Used
from stepline.ports.log import Slots, is_stage_slot

NOTHING_READ: Final[Mapping[Scope, Used]] = MappingProxyType({})
QUEUE_MAX: Final = 1_000
"""The longest line. Each of those who wait asks for its place from time to time, and that counts the ones in front of it."""
QUEUE_FULL_S: Final = 30
"""How long to wait for a line that is full to become shorter."""


def enqueue(
    ports: Ports, lane: Lane, allowance: Allowance, draft: Draft, used: Mapping[Scope, Used] = NOTHING_READ
) -> Draft:
    """Return the draft with the slots that its turn takes, or with the turn queued if the stage has none for it.

    The one that the lane holds already is kept, and nobody overtakes those who wait. `used` is what the accounts have used.

    Raises LimitError `limit_turns`, `limit_tokens`, `limit_usd`; `queue_full`, of a steer never.
    """
    slots = claim_slots(ports, lane, allowance, draft, used)
    if not ports.policy.open_turns or not _starts(draft):
        return replace(draft, slots=slots)
    held = slots.held if slots else ports.log.held_slots(lane)
    taken = slots.taken if slots else ()
    if any(map(is_stage_slot, held)):
        return replace(draft, slots=Slots(held=held, taken=taken))
    if is_stop(draft):
        return replace(draft, slots=Slots(held=held, taken=(*taken, extra_stage_slot())))
    ahead = ports.log.count_queued()
    slot = None if ahead else free_stage_slot(ports)
    if slot is not None:
        return replace(draft, slots=Slots(held=held, taken=(*taken, slot)))
    if ahead >= QUEUE_MAX and not any(e.steers for e in draft.entries if isinstance(e, Inbound)):
        raise LimitError(
            "Too many messages wait for their turn. Please send this one again in a moment.",
            code="queue_full",
            retry_after_s=QUEUE_FULL_S,
        )
    n = draft.state.epoch  # the batch that this draft becomes
    waits = Queued(turn=draft.state.turn, at=utc(ports.clock.now()), place=ahead + 1)
    held_alone = Slots(held=held, taken=taken) if held or taken else None
    return replace(draft, entries=(*draft.entries, waits), state=queued(draft.state, n), slots=held_alone)


def _starts(draft: Draft) -> bool:
    return any(isinstance(entry, Opened | ApprovalAnswered | Begun) for entry in draft.entries)


def is_stop(draft: Draft) -> bool:
    """Return True if the draft admits a stop: its turn ends as soon as it begins."""
    return any(entry.rule.then == "close" for entry in draft.entries if isinstance(entry, Inbound))


def begin_to_stop(ports: Ports, lane: Lane, draft: Draft, tail: Batch) -> Draft:
    """Let a turn that waits behind `tail` begin in the batch of a draft that stops it; return any other draft as it is."""
    waits = queued_turn(ports, lane, tail.state) if is_stop(draft) else None
    if waits is None:
        return draft
    entry = begun_entry(ports, draft.state, waits.at)
    begins = begun(draft.state, tail.n + 1)
    return replace(draft, entries=(*draft.entries, entry), state=begins, marks_open=True)
