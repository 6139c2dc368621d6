"""Take-over: a turn whose execution ended gets a new epoch and a new execution, a bounded number of times.

There is no lease and no heartbeat. An owner is dead when the execution named by (conversation, epoch) has
ended, or was never started, or runs beyond the turn's deadline. A wrong suspicion costs work, never truth,
because the fence decides and not the suspicion.
Source: docs/concepts/log.md#take-over.
"""

from __future__ import annotations

import logging
from collections import Counter
from datetime import datetime, timedelta
from typing import Literal

from stepline.delivery.effect import publish, redo, standing_step
from stepline.errors import SteplineError
from stepline.log.bindings import Ports
from stepline.log.journal import Draft, Journal
from stepline.log.transition import taken_over
from stepline.loop.close import close_turn, follow_closing
from stepline.loop.tracing.turn_span import trace_take_over
from stepline.metrics import TURNS_TAKEN_OVER
from stepline.model.batch import Batch, State
from stepline.model.entry import Closed, TakenOver
from stepline.model.ids import Lane, execution_name, utc

logger = logging.getLogger(__name__)

Swept = Literal["idle", "parked", "alive", "started", "taken_over", "closed"]


def sweep(ports: Ports) -> dict[str, int]:
    """Check every lane that has been marked open for a while; return the number of lanes by result.

    A lane that cannot be swept now is counted as `failed`: it must not keep the ones behind it from their
    turn.
    """
    before = utc(ports.clock.now() - timedelta(seconds=ports.policy.absent_after_s))
    return dict(Counter(_try_lane(ports, lane.lane) for lane in ports.log.open_lanes(before=before)))


def _try_lane(ports: Ports, lane: Lane) -> Swept | Literal["failed"]:
    try:
        return sweep_lane(ports, lane)
    except SteplineError as error:
        logger.exception("lane not swept", extra={"conversation": lane.conversation, "code": error.reason})
        return "failed"


def sweep_lane(ports: Ports, lane: Lane) -> Swept:
    """Repair one lane: clear a stale mark, start, take over or close. A parked turn waits for a person."""
    journal = Journal(ports, lane, "sweep")
    tail = journal.tail(consistent=True)
    if tail.state.deleted:
        ports.log.clear_open(lane, tail.n)
        return "idle"
    if tail.state.status == "idle":
        # The mark is still there: the process that closed the turn may have died before the close's effects.
        if (closing := _closing(journal, tail)) is not None:
            follow_closing(ports, lane, closing)
        ports.log.clear_open(lane, tail.n)
        return "idle"
    if awaits_person(tail.state):
        ports.log.clear_open(lane, tail.state.parked)
        return "parked"
    verdict = judge(ports, lane, tail)
    if verdict == "alive":
        return "alive"
    if verdict == "absent":
        epoch = ports.log.get(lane, tail.state.epoch, consistent=True)
        if epoch is not None:
            redo(ports, lane, epoch)
        return "started"
    return replace_owner(ports, lane, tail)


def awaits_person(state: State) -> bool:
    """Return True if the turn is parked: it has no execution, and needs none."""
    return state.parked > 0


def _closing(journal: Journal, tail: Batch) -> Batch | None:
    """Return the batch that left the lane idle; few batches stand behind it."""
    batch: Batch | None = tail
    while batch is not None and not any(isinstance(entry, Closed) for entry in batch.entries):
        batch = journal.get(batch.n - 1) if batch.n > 1 else None
    return batch


def replace_owner(ports: Ports, lane: Lane, seen: Batch) -> Swept:
    """Give the open turn of `seen` to a new execution, or end it if that happened too often."""
    if seen.state.takeovers >= ports.policy.takeovers:
        close_turn(ports, standing_step(lane, seen), code="execution_lost")
        return "closed"
    return _take_over(ports, lane, seen)


def revive(ports: Ports, lane: Lane, batch: Batch) -> None:
    """Check that the turn which `batch` found open is alive; an ingress is the first to notice a dead one."""
    if batch.state.status != "open" or awaits_person(batch.state):
        return
    status = ports.machine.status(execution_name(lane, batch.state.epoch))
    if status == "ended":
        sweep_lane(ports, lane)


def judge(ports: Ports, lane: Lane, tail: Batch) -> Literal["alive", "absent", "dead"]:
    """Classify the execution of the open turn: alive, never started, or to be given up."""
    name = execution_name(lane, tail.state.epoch)
    status = ports.machine.status(name)
    if status == "ended":
        return "dead"
    epoch = ports.log.get(lane, tail.state.epoch, consistent=True)
    age = ports.clock.now() - datetime.fromisoformat(epoch.at) if epoch else timedelta()
    if status == "absent":
        return "absent" if age >= timedelta(seconds=ports.policy.absent_after_s) else "alive"
    if age < timedelta(seconds=ports.policy.turn_deadline_s):
        return "alive"
    ports.machine.stop(name)
    return "dead"


def _take_over(ports: Ports, lane: Lane, seen: Batch) -> Swept:
    journal = Journal(ports, lane, "sweep")
    journal.take_over(seen.state.claim)

    def plan(tail: Batch) -> Draft | None:
        state = tail.state
        if state.status != "open" or awaits_person(state) or state.epoch != seen.state.epoch:
            return None
        entry = TakenOver(turn=state.turn, reason="execution_ended", takeovers=state.takeovers + 1)
        return Draft(entries=(entry,), state=taken_over(state, tail.n + 1))

    batch = journal.commit(plan)
    if batch is None:
        return "alive"
    logger.warning("turn taken over", extra={"turn_id": batch.state.turn, "takeovers": batch.state.takeovers})
    redo(ports, lane, batch)
    publish(ports, lane, batch)
    trace_take_over(ports, lane, batch)
    ports.meter.count(TURNS_TAKEN_OVER)
    return "taken_over"
