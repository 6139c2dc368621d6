"""Take-over: a turn whose execution ended gets a new epoch and a new execution, a bounded number of times.

There is no lease and no heartbeat. An owner is dead when the execution named by (conversation, epoch) has
ended, or was never started, or runs beyond the turn's deadline. A wrong suspicion costs work, never correctness,
because the fence decides and not the suspicion.
Source: docs/concepts/log.md#take-over.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from stepline.delivery.effect import current_step, publish, redo
from stepline.delivery.paced_machine import DESCRIBES, PacedMachine
from stepline.delivery.stage_queue import begin_queued, follow_parking, free_mark, queued_turn, try_to_begin
from stepline.errors import DependencyError, SteplineError
from stepline.log.bindings import Ports
from stepline.log.journal import Draft, Journal
from stepline.log.transition import taken_over
from stepline.loop.close import close_turn, follow_closing
from stepline.loop.graph import SWEEP_EVERY_S
from stepline.loop.tracing.turn_span import trace_take_over
from stepline.metrics import LANES_LEFT, TURNS_TAKEN_OVER, TURNS_WAITING
from stepline.model.batch import Batch, State
from stepline.model.entry import Closed, TakenOver
from stepline.model.ids import Lane, execution_name, utc
from stepline.ports.log import OpenLane

logger = logging.getLogger(__name__)

Swept = Literal["idle", "parked", "queued", "alive", "started", "taken_over", "closed"]

Each: TypeAlias = Callable[[Callable[[OpenLane], str], Sequence[OpenLane]], Iterable[str]]
"""Applies a function to each mark, in sequence or several at once."""

SWEEP_S: Final = 240.0
"""The seconds in which a sweep starts new lanes: well within its function's timeout, and over before the next sweep."""


def _in_turn(do: Callable[[OpenLane], str], marks: Sequence[OpenLane]) -> Iterable[str]:
    """Apply the function to the marks in sequence."""
    return map(do, marks)


def sweep(ports: Ports, *, each: Each = _in_turn) -> dict[str, int]:
    """Check every lane that has been marked open for a while, for at most `SWEEP_S`.

    `each` decides whether lanes are checked in sequence or several at once. Return the number of lanes by result. A
    lane that cannot be swept now is counted as `failed` and does not block the ones after it. `left` counts those for
    which no time was left. Queued turns begin first, if there is room for them.
    """
    until_s = ports.clock.monotonic_s() + SWEEP_S
    now = ports.clock.now()
    paced = PacedMachine(ports.machine, ports.clock)
    begin_queued(replace(ports, machine=paced))
    if ports.policy.open_turns:
        ports.meter.count(TURNS_WAITING, ports.log.count_queued())
    marks = ports.log.open_lanes(before=utc(now - timedelta(seconds=ports.policy.absent_after_s)))
    young = utc(now - timedelta(seconds=ports.policy.turn_deadline_s))
    suspects = [mark for mark in marks if not _is_alive(mark, paced.listed, young)]

    def check(mark: OpenLane) -> str:
        if ports.clock.monotonic_s() >= until_s:
            return "left"
        return _try_lane(replace(ports, machine=paced), mark.lane)

    swept = Counter(each(check, _turned(suspects, now)))
    swept["alive"] += len(marks) - len(suspects)
    for reason in ("left", "failed"):
        if count := swept[reason]:
            logger.warning("lanes left over", extra={"lanes": count, "reason": reason})
            ports.meter.count(LANES_LEFT, count)
    return dict(+swept)


def _is_alive(mark: OpenLane, running: frozenset[str], young: str) -> bool:
    """Return True if the execution that the mark names runs within its time; this needs no read of the log.

    After a take-over the mark names no running execution, and the log is read.
    """
    return mark.since > young and execution_name(mark.lane, mark.n) in running


def _turned(marks: Sequence[OpenLane], now: datetime) -> Sequence[OpenLane]:
    """Return the marks, rotated to this sweep's start: after the last sweep's by the least number that one handles.

    Consecutive sweeps therefore reach every lane, even if many of them cannot be repaired.
    """
    if not marks:
        return marks
    begin = int(now.timestamp() / SWEEP_EVERY_S) * DESCRIBES.within(SWEEP_S) % len(marks)
    return [*marks[begin:], *marks[:begin]]


def _try_lane(ports: Ports, lane: Lane) -> Swept | Literal["failed"]:
    try:
        return sweep_lane(ports, lane)
    except Exception as error:
        code = error.reason if isinstance(error, SteplineError) else SteplineError.code
        logger.exception("lane not swept", extra={"conversation": lane.conversation, "code": code})
        return "failed"


def sweep_lane(ports: Ports, lane: Lane, *, ended: str = "") -> Swept:
    """Repair one lane: clear a stale mark, start, take over or close.

    A parked turn waits for a person, and a queued one for its slot, unless the stage has no bound any more.
    `ended` is an execution that is known to have ended.
    """
    journal = Journal(ports, lane, "sweep")
    tail = journal.tail(consistent=True)
    if tail.state.deleted:
        free_mark(ports, lane, tail.n)
        return "idle"
    if tail.state.status == "idle":
        # The mark still exists: the process that closed the turn may have died before the close's effects.
        if (closing := _closing(journal, tail)) is not None:
            follow_closing(ports, lane, closing)
        free_mark(ports, lane, tail.n)
        return "idle"
    if awaits_person(tail.state):
        follow_parking(ports, lane, tail)
        return "parked"
    if awaits_place(tail.state):
        return _look_at_queued(ports, lane, tail.state)
    return _look_at_owner(ports, lane, tail, ended=ended)


def _look_at_queued(ports: Ports, lane: Lane, state: State) -> Swept:
    """Begin a turn that was queued under a bound that no longer exists; a freed slot begins all others."""
    waits = None if ports.policy.open_turns else queued_turn(ports, lane, state)
    return "started" if waits and try_to_begin(ports, waits) == "begun" else "queued"


def _look_at_owner(ports: Ports, lane: Lane, tail: Batch, *, ended: str) -> Swept:
    """Start, replace or leave alone the execution of an open turn."""
    verdict = _classify_execution(ports, lane, tail, ended=ended)
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


def awaits_place(state: State) -> bool:
    """Return True if the turn waits for a slot of the stage: it has no execution yet."""
    return state.queued > 0


def _closing(journal: Journal, tail: Batch) -> Batch | None:
    """Return the batch that left the lane idle; few batches follow it."""
    batch: Batch | None = tail
    while batch is not None and not any(isinstance(entry, Closed) for entry in batch.entries):
        batch = journal.get(batch.n - 1) if batch.n > 1 else None
    return batch


def replace_owner(ports: Ports, lane: Lane, seen: Batch) -> Swept:
    """Give the open turn of `seen` to a new execution, or end it if that happened too often."""
    if seen.state.takeovers >= ports.policy.takeovers:
        close_turn(ports, current_step(lane, seen), code="execution_lost")
        return "closed"
    return _take_over(ports, lane, seen)


def revive(ports: Ports, lane: Lane, batch: Batch) -> None:
    """Check that the turn which `batch` found open is alive; ingress is the first to notice a dead one."""
    if batch.state.status != "open" or awaits_person(batch.state) or awaits_place(batch.state):
        return
    name = execution_name(lane, batch.state.epoch)
    try:
        status = ports.machine.status(name)
    except DependencyError as error:  # such as its quota: the message is in the log, and the sweeper retries
        logger.warning("execution not looked at", extra={"code": error.reason})
        return
    if status == "ended":
        sweep_lane(ports, lane, ended=name)


def _classify_execution(
    ports: Ports, lane: Lane, tail: Batch, *, ended: str = ""
) -> Literal["alive", "absent", "dead"]:
    """Classify the open turn's execution: alive, never started, or to be given up; `ended` names one that has ended."""
    name = execution_name(lane, tail.state.epoch)
    status = "ended" if name == ended else ports.machine.status(name)
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
        if awaits_person(state) or awaits_place(state):
            return None
        if state.status != "open" or state.epoch != seen.state.epoch:
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
