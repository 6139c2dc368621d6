"""What travels through the state machine: names and counters, never content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from stepline.errors import DependencyError
from stepline.model.base import Value
from stepline.model.ids import Lane
from stepline.model.program.handover import Launch

FORMAT = 1
"""The version of what a step means; one that does not say has the first one."""


class Step(Value, omit_defaults=False):
    """One invocation of a state. `attempt` counts the state machine's retries of it, from 0.

    `launch` is there between the state that prepares a task and the one that starts it. `segment` is the newest batch
    that a segment holds, so that whoever remembers nothing begins there. `v` is the format's version:
    fields may be added within one, and a reader ignores what it does not know. Source: docs/concepts/log.md#versions.

    Every field is written, because the state machine chooses on `route` and a choice on a field that is not there
    is not the one it names.
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
    launch: Launch | None = None
    segment: int = 0
    v: int = 1

    def lane(self) -> Lane:
        """Return the conversation this step works on."""
        return Lane(tenant=self.tenant, project=self.project, conversation=self.conversation)


def read_step(state: Mapping[str, Any], *, attempt: int) -> Step:
    """Read what the state before this one answered; `attempt` is the machine's count of its retries.

    Raises:
        DependencyError: `format_newer`, a release after this one wrote it; its functions will read it.
        msgspec.ValidationError: no release of ours wrote it.

    """
    version = state.get("v", FORMAT)
    if isinstance(version, int) and version > FORMAT:
        raise DependencyError(
            f"a step has format {version}, and this release reads up to {FORMAT}", code="format_newer"
        )
    return msgspec.convert({**state, "attempt": attempt}, Step)
