"""The state of the state machine: names and counters, never content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from stepline.errors import DependencyError
from stepline.model.base import Value
from stepline.model.ids import Lane
from stepline.model.program.handover import TaskLaunch

FORMAT = 1
"""The version of a step's format; one without a version has the first one."""


class Step(Value, omit_defaults=False):
    """One invocation of a state. `attempt` counts the state machine's retries of it, from 0.

    `launch` is set between the state that prepares a task and the one that starts it. `wait_s` is how long to wait
    before the next decision, on the route `wait` and after it. `due_ms` is when the task of a running call is polled
    next, in milliseconds since the Unix epoch. `segment` is the newest batch in a segment, where a process without a
    cache starts to read. `bundle` is the name of the conversation's bundle, "" for the stage's default. `visit` counts
    the states that the execution has run before. `v` is the format's version: fields may be added within one, and a
    reader ignores unknown ones. Source: docs/concepts/log.md#versions.

    Every field is written, because the state machine chooses on `route`, and a choice on a missing field
    fails under another name.
    """

    tenant: str
    project: str
    conversation: str
    turn: str
    epoch: int
    iteration: int = 0
    route: str = "decide"
    attempt: int = 0
    error: dict[str, Any] | None = None
    launch: TaskLaunch | None = None
    segment: int = 0
    wait_s: int = 0
    due_ms: int = 0
    bundle: str = ""
    visit: int = 0
    v: int = 1

    def lane(self) -> Lane:
        """Return the conversation this step works on."""
        return Lane(tenant=self.tenant, project=self.project, conversation=self.conversation)


def read_step(state: Mapping[str, Any], *, attempt: int) -> Step:
    """Parse the output of the previous state; `attempt` is the machine's count of its retries.

    Raises:
        DependencyError: `format_newer`, a later release wrote it, whose functions can read it.
        msgspec.ValidationError: it is not a step.
    """
    version = state.get("v", FORMAT)
    if isinstance(version, int) and version > FORMAT:
        raise DependencyError(
            f"a step has format {version}, and this release reads up to {FORMAT}", code="format_newer"
        )
    return msgspec.convert({**state, "attempt": attempt}, Step)
