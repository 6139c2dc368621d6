"""Interrupt: a steer ends the program that a task runs, and the state that waits for it.

A program beside the functions is ended by the function that runs it, which watches the log. A task and the state
that waits for it cannot read the log, so the process that admits the steer ends both, as an effect of the steer's
batch. The launcher of a task reads the log once more after writing the row of its handover, and this module looks
for that row after the steer's batch: at least one of the two sees the other.
Source: docs/concepts/execution.md#when-the-user-steers.
"""

from __future__ import annotations

import logging
from typing import Final

from stepline.errors import SteplineError
from stepline.log.bindings import Ports
from stepline.model.batch import Batch, State
from stepline.model.entry import Inbound
from stepline.model.ids import Lane
from stepline.model.program.handover import STEERED, TOKEN_VARIABLE, run_ref

logger = logging.getLogger(__name__)

LOOKS: Final = 3
PAUSE_S: Final = 1.0
"""Pause between two lookups of a task that is being started: the list of tasks lags by about that much."""

REASON: Final = "the user steered"


def interrupt(ports: Ports, lane: Lane, batch: Batch) -> bool:
    """End the program that runs in a task if this batch steers; return True if a waiting state was notified.

    Idempotent: the same batch may arrive again. Raises nothing: the steer is in the log, and is read at the latest
    when the program ends on its own.
    """
    call = running_program(batch.state)
    if not call or not any(isinstance(entry, Inbound) and entry.steers for entry in batch.entries):
        return False
    try:
        return _end_task(ports, run_ref(lane, batch.state.turn, call))
    except SteplineError as error:
        logger.exception("program not interrupted", extra={"call_id": call, "code": error.reason})
        return False


def end_program(ports: Ports, lane: Lane, turn: str, call: str) -> None:
    """End a program whose conversation was deleted, and remove its handover. Raises DependencyError."""
    ref = run_ref(lane, turn, call)
    if ports.tasks.cluster(ref):
        _end_task(ports, ref)
        ports.tasks.give_up(ref)


def running_program(state: State) -> str:
    """Return the call whose program may be launched but not settled; "" if there is none."""
    return state.running if state.executes > state.cursor.action else ""


def _end_task(ports: Ports, ref: str) -> bool:
    """End a run's wait, then its tasks; one yet to start finds no handover. Raises DependencyError."""
    cluster = ports.tasks.cluster(ref)
    if not cluster:
        return False
    tasks = ports.tasks.running(ref, cluster)
    if not tasks:
        ports.tasks.give_up(ref)
        tasks = _await_task(ports, ref, cluster)
    tokens = {ports.tasks.overrides(task, cluster).get(TOKEN_VARIABLE, "") for task in tasks} - {""}
    heard = [ports.tasks.fail(token, STEERED, REASON) for token in sorted(tokens)]
    stopped = ports.tasks.stop(ref, cluster, REASON)
    logger.info("program interrupted", extra={"ref": ref, "waits": sum(heard), "tasks": stopped})
    return any(heard)


def _await_task(ports: Ports, ref: str, cluster: str) -> tuple[str, ...]:
    """Look a few more times for a task that is being started; if none is found, the task's own end ends the wait."""
    for _ in range(1, LOOKS):
        ports.clock.pause(PAUSE_S)
        if tasks := ports.tasks.running(ref, cluster):
            return tasks
    return ()
