"""The bound on concurrent executions of turns: a turn begins with a slot of the stage, or is queued for one.

Both kinds of input that start an execution pass through here: a message that opens a turn, and an answer to a request
for an approval. A stop begins beyond the bound, because its turn ends at once. Source: docs/concepts/log.md#queued-turns.
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
"""The longest queue. Each waiting client asks for its position from time to time, which counts the turns before it."""
QUEUE_FULL_S: Final = 30
"""How long to wait for a full queue to shrink."""


def enqueue(
    ports: Ports, lane: Lane, allowance: Allowance, draft: Draft, used: Mapping[Scope, Used] = NOTHING_READ
) -> Draft:
    """Return the draft with the slots that its turn takes, or with the turn queued if the stage has none for it.

    A slot that the lane already holds is kept, and no turn overtakes queued ones. `used` is the accounts' usage.

    Raises LimitError `limit_turns`, `limit_tokens`, `limit_usd`; `queue_full`, never for a steer.
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
    """Begin a turn that waits at `tail` in the batch of a draft that stops it; return any other draft unchanged."""
    waits = queued_turn(ports, lane, tail.state) if is_stop(draft) else None
    if waits is None:
        return draft
    entry = begun_entry(ports, draft.state, waits.at)
    begins = begun(draft.state, tail.n + 1)
    return replace(draft, entries=(*draft.entries, entry), state=begins, marks_open=True)
