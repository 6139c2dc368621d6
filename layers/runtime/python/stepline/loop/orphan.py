"""Tasks without an owner: one that stopped while a state still waits for it, and handovers nobody took back.

A state that waits for a task hears of its end from the task alone. One that died says nothing, so its end is told
for it; and what a lost run left (a task, a secret, a row) is found by the row. Both do nothing where there is
nothing to do. Source: docs/concepts/execution.md#fargate.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

import msgspec

from stepline.errors import SteplineError
from stepline.log.bindings import Ports
from stepline.loop.loss import TASK_STOPPED, trim_cause
from stepline.metrics import HANDOVERS_STALE
from stepline.model.base import Value
from stepline.model.ids import utc
from stepline.model.program.task import TOKEN_VARIABLE
from stepline.ports.task import Stale

logger = logging.getLogger(__name__)

NOT_NEEDED: Final = "nobody waits for this run any more"


class StoppedTask(Value):
    """A task that has stopped: its own name, and what was said of it. Any of `variables` may be left out of that."""

    task: str
    cluster: str
    reason: str
    variables: dict[str, str] = msgspec.field(default_factory=dict)


def end_wait(ports: Ports, stopped: StoppedTask) -> bool:
    """End the state that waits for a task which has stopped; false if nobody waits any more.

    Raises DependencyError.
    """
    token = stopped.variables.get(TOKEN_VARIABLE)
    if not token:
        token = ports.tasks.overrides(stopped.task, stopped.cluster).get(TOKEN_VARIABLE)
    if not token or not ports.tasks.fail(token, TASK_STOPPED, trim_cause(stopped.reason)):
        return False
    logger.warning("task stopped under its run", extra={"reason": trim_cause(stopped.reason)})
    return True


def sweep_tasks(ports: Ports) -> dict[str, int]:
    """End what is left of each handover that should have been taken back; return how many came to which end.

    One that cannot be ended now is counted as `failed`: it must not keep the ones behind it from their turn.
    """
    before = utc(ports.clock.now())
    return dict(Counter(_try_end(ports, stale) for stale in ports.tasks.stale(before=before)))


def _try_end(ports: Ports, stale: Stale) -> str:
    try:
        stopped = ports.tasks.stop(stale.ref, stale.cluster, NOT_NEEDED)
        ports.tasks.take_back(stale.ref)
    except SteplineError as error:
        logger.exception("handover not swept", extra={"ref": stale.ref, "code": error.reason})
        return "tasks_failed"
    ports.meter.count(HANDOVERS_STALE)
    logger.warning("handover swept", extra={"ref": stale.ref, "tasks": stopped})
    return "tasks_swept"
