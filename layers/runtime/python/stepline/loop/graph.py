"""The loop as a table: its states, the routes that each may return, and the state that follows a failure.

The state machine (`definition`), its Retry and Catch lists, the tests and the diagram in
docs/reference/loop.md are all derived from this table, and so is the course of a turn without a state machine
(`turn`). It contains no ARN.
Source: docs/reference/loop.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stepline.errors import (
    ModelOverloaded,
    ModelRateLimited,
    ModelStreamBroken,
    ModelTimeout,
    ModelUnreachable,
    retryable_names,
)
from stepline.model.base import Value
from stepline.model.program.handover import COLLECT_S, PROVISION_S, RUN_MAX_S, UNSTARTED

START: Final = "Decide"
ROUTER: Final = "Route"
LAUNCHER: Final = "Launch"
END: Final = "Done"
CLOSE_FAILED: Final = "CloseFailed"

# Step Functions must never retry over a live function (docs/adr/0001-orchestrator.md).
TASK_MARGIN_S: Final = 30
EXECUTION_TIMEOUT_S: Final = 3600
ACT_TIMEOUT_S: Final = 870
SWEEP_EVERY_S: Final = 300
"""Time between two sweeps by the clock (`sweep`)."""

TRANSPORT: Final = "Transport"
"""Any error of a request that was refused or lost before the handler ran: safe to retry for longer."""
UNKNOWN_ERROR: Final = "Unknown"
"""Any error after which the handler may have run: the next attempt reads in the log how far it got."""
UNKNOWN_ERRORS: Final = ("Lambda.Unknown", "Sandbox.Timedout", "Runtime.ExitError", "States.Timeout")
"""Step Functions' names of these errors."""
NO_ANSWER: Final = (ModelStreamBroken.__name__, ModelTimeout.__name__, ModelUnreachable.__name__)
SHED_LOAD: Final = (ModelOverloaded.__name__, ModelRateLimited.__name__)
OWN_ERRORS: Final = tuple(name for name in retryable_names() if name not in (*SHED_LOAD, *NO_ANSWER))


class RetryRule(Value):
    """Try again on these errors: `tries` times, first after `interval_s`, doubled each time up to `max_s`."""

    errors: tuple[str, ...]
    interval_s: int
    tries: int
    max_s: int = 20


class Task(Value):
    """A state that runs a function: its timeout, its retries in order, and its next states."""

    name: str
    function: str
    function_timeout_s: int
    retries: tuple[RetryRule, ...]
    next: str
    catch: str

    @property
    def timeout_s(self) -> int:
        return self.function_timeout_s + TASK_MARGIN_S


class RemoteTaskState(Value):
    """A state that starts a task elsewhere and waits for its report.

    `function` starts the task, and is tried again if it could not. The state fails after `heartbeat_s`
    without a heartbeat.
    """

    name: str
    function: str
    retries: tuple[RetryRule, ...]
    timeout_s: int
    heartbeat_s: int
    next: str
    catch: str


class Wait(Value):
    """A state that waits for the step's `wait_s` seconds and then continues."""

    name: str
    next: str


def _retries(*, transport: int, unknown: int, model: bool = False) -> tuple[RetryRule, ...]:
    """Return retries with the specific errors before the unknown ones; each list has its own count.

    They do not cover a provider that sheds load: the round waits for it, and records that (`decide`).
    """
    own = (*OWN_ERRORS, *NO_ANSWER) if model else OWN_ERRORS
    return (
        RetryRule(errors=(TRANSPORT,), interval_s=1, tries=transport),
        RetryRule(errors=own, interval_s=1, tries=2),
        RetryRule(errors=(UNKNOWN_ERROR,), interval_s=2, tries=unknown),
    )


TASKS: Final = (
    Task(
        name="Decide",
        function="decide",
        function_timeout_s=600,
        retries=_retries(transport=8, unknown=2, model=True),
        next=ROUTER,
        catch="Close",
    ),
    Task(
        name="Act",
        function="act",
        function_timeout_s=ACT_TIMEOUT_S,
        retries=_retries(transport=8, unknown=2),
        next="Decide",
        catch="Close",
    ),
    Task(
        name="Prepare",
        function="act",
        function_timeout_s=ACT_TIMEOUT_S,
        retries=_retries(transport=8, unknown=2),
        next=LAUNCHER,
        catch="Close",
    ),
    # Never retried: the next state finds out from the run's objects whether the program ran.
    Task(
        name="Execute",
        function="execute",
        function_timeout_s=870,
        retries=(),
        next="Act",
        catch="Act",
    ),
    Task(
        name="Close",
        function="close",
        function_timeout_s=90,
        retries=_retries(transport=10, unknown=4),
        next=ROUTER,
        catch=CLOSE_FAILED,
    ),
)

# Only a task that was not started is tried again. The task enforces the program's own timeout; this one covers a
# task that fails to.
REMOTE: Final = RemoteTaskState(
    name="ExecuteTask",
    function="act",
    retries=(
        RetryRule(errors=(TRANSPORT,), interval_s=2, tries=4),
        RetryRule(errors=OWN_ERRORS, interval_s=1, tries=2),
        RetryRule(errors=(UNSTARTED,), interval_s=5, tries=5, max_s=60),
    ),
    timeout_s=PROVISION_S + RUN_MAX_S + COLLECT_S,
    heartbeat_s=PROVISION_S,
    next="Act",
    catch="Act",
)

# A provider that sheds load for longer than a process waits is asked again after this state.
WAIT: Final = Wait(name="Wait", next="Decide")

# The `route` of a step → the state that follows. `stop`: the turn belongs to another execution.
ROUTES: Final[Mapping[str, str]] = {
    "decide": "Decide",
    "act": "Act",
    "prepare": "Prepare",
    "close": "Close",
    "wait": WAIT.name,
    "done": END,
    "stop": END,
}
DEFAULT_ROUTE: Final = "Close"

# The routes of Prepare if there is a program to run; any other means that the round continued without one.
LAUNCHES: Final[Mapping[str, str]] = {"execute": "Execute", "execute_task": REMOTE.name}
DEFAULT_LAUNCH: Final = "Decide"


def absent_states(*, executes: bool, remote: bool) -> frozenset[str]:
    """Return the states that a deployment does not have, by where it can run programs."""
    absent = {name for name, there in (("Execute", executes), (REMOTE.name, remote)) if not there}
    return frozenset(absent | ({"Prepare", LAUNCHER} if len(absent) > 1 else set()))


def count_transitions(state: str, route: str | None) -> int:
    """Return the transitions billed for one attempt at a state, with the following states that call no function.

    A retry counts like a first attempt. `route` is the one that the attempt returned, None if it failed: the state that
    catches the failure counts its own.
    """
    leads = STATES[state].next
    if route is None or leads not in (ROUTER, LAUNCHER):
        return 1
    target = ROUTES.get(route, DEFAULT_ROUTE) if leads == ROUTER else ""
    return 2 + (target in (WAIT.name, END))


def is_last_try(state: str, error: str, attempt: int) -> bool:
    """Return True if no retry follows this attempt, whose error and those before it had this name."""
    retries = STATES[state].retries
    tries = next((retry.tries for retry in retries if error in retry.errors), 0)
    return attempt >= tries


def tries_of_lost(state: str) -> int:
    """Return how often a state asks a function whose process died each time."""
    return 1 + next((retry.tries for retry in STATES[state].retries if UNKNOWN_ERROR in retry.errors), 0)


STATES: Final[Mapping[str, Task | RemoteTaskState]] = {task.name: task for task in (*TASKS, REMOTE)}
