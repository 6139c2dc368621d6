"""Why a run left nothing, in words for the model: from what the state that waited for it ended with. Pure.

Whether the program began is not the state's to say: that is known by `started.json` alone.
Source: docs/concepts/execution.md#one-run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from stepline.loop.record import MAYBE
from stepline.model.program.task import STEERED
from stepline.programs.envelope import CANCELLED

UNVERIFIED, NOT_STARTED, RUN_FAILED = "unverified", "sandbox_not_started", "fargate_run_failed"
TASK_STOPPED: Final = "TaskStopped"
"""The error with which the sweeper ends a state whose task has stopped."""

NOT_RUN: Final = (
    "The program did not start, so nothing happened. Ask for it again once; if that fails too, do without it."
)
NO_SIGN: Final = (
    "The task that should have run the program was not provisioned in time, so nothing happened. Ask for it again "
    "once; if that fails too, do without it."
)
TIMED_OUT: Final = (
    "The run was cut off from outside before it could report. Some of its effects may have happened."
)
NOT_WANTED: Final = "The user steered before the program began, so nothing happened, and it will not be run."
CUT_SHORT: Final = (
    "The user steered while the program ran, and it was ended before it could report. Some of its effects may have "
    "happened: check before you ask for it again."
)
CAUSE_CHARS: Final = 300

_OF_ECS: Final = ("Ecs.", "ECS.", "AmazonECS.")
"""How Step Functions names the errors of RunTask: as the SDK's integration does, and the two older ones."""

_REQUEST: Final = re.compile(r"\((?:Service|SDK)\b.*", re.DOTALL)
_NAMES: Final = re.compile(
    r"arn:\S+|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{17,}\b|\b\d{12}\b(?:\.dkr\.\S+)?"
)


def explain_loss(error: Mapping[str, Any] | None, *, begun: bool, steered: bool = False) -> tuple[str, str]:
    """Return the code and the message of a run without an outcome; `steered`: the log has a steer to heed."""
    name, cause = str((error or {}).get("Error", "")), trim_cause(str((error or {}).get("Cause", "")))
    if begun:
        return _explain_begun(name)
    if steered or name == STEERED:
        return CANCELLED, NOT_WANTED
    if name.startswith(_OF_ECS):
        return RUN_FAILED, f"No task could be started for the program: {cause or name}. Nothing happened."
    if name == "States.HeartbeatTimeout":
        return NOT_STARTED, NO_SIGN
    if name == TASK_STOPPED and cause:
        return NOT_STARTED, f"The task ended before the program began: {cause}. {NOT_RUN}"
    return NOT_STARTED, NOT_RUN


def _explain_begun(name: str) -> tuple[str, str]:
    if name == STEERED:
        return UNVERIFIED, CUT_SHORT
    return ("timeout", TIMED_OUT) if name == "States.Timeout" else (UNVERIFIED, MAYBE)


def trim_cause(cause: str) -> str:
    """Return the first line of a cause without the account, the resources and the request that it names."""
    line = _REQUEST.sub("", cause).strip().partition("\n")[0]
    return _NAMES.sub("…", line)[:CAUSE_CHARS].rstrip(" .")
