"""The loop as a table: its states, what each may answer, and what a failure of each leads to.

The state machine, its Retry and Catch lists, the tests and the diagram in docs/reference/loop.md all come from
this table. It refuses to know any ARN: `render_definition` takes the functions it wires together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from stepline.errors import ModelOverloaded, ModelRateLimited, retryable_names
from stepline.model.base import Value

START: Final = "Decide"
ROUTER: Final = "Route"
LAUNCHER: Final = "Launch"
END: Final = "Done"
FAILED: Final = "CloseFailed"

# Step Functions must never retry over a live function (docs/adr/0001-orchestrator.md).
TASK_MARGIN_S: Final = 30
EXECUTION_TIMEOUT_S: Final = 3600
ACT_TIMEOUT_S: Final = 870

# Lambda refused or lost the request before the handler ran: safe to ask again for longer.
TRANSPORT_ERRORS: Final = (
    "Lambda.ServiceException",
    "Lambda.AWSLambdaException",
    "Lambda.SdkClientException",
    "Lambda.ClientExecutionTimeoutException",
    "Lambda.TooManyRequestsException",
    "Lambda.ResourceNotReadyException",
    "Lambda.SnapStartException",
    "Lambda.SnapStartNotReadyException",
    "Lambda.SnapStartTimeoutException",
)
# The handler may have run, and nobody knows how far: the log tells the next attempt.
UNKNOWN_ERRORS: Final = ("Lambda.Unknown", "Sandbox.Timedout", "Runtime.ExitError", "States.Timeout")
MODEL_ERRORS: Final = (ModelOverloaded.__name__, ModelRateLimited.__name__)
OWN_ERRORS: Final = tuple(name for name in retryable_names() if name not in MODEL_ERRORS)


class Retry(Value):
    """Try again on these errors: `tries` times, first after `interval_s`, doubled each time up to `max_s`."""

    errors: tuple[str, ...]
    interval_s: int
    tries: int
    max_s: int = 20

    def render(self) -> dict[str, Any]:
        return {
            "ErrorEquals": list(self.errors),
            "IntervalSeconds": self.interval_s,
            "MaxAttempts": self.tries,
            "BackoffRate": 2,
            "MaxDelaySeconds": self.max_s,
            "JitterStrategy": "FULL",
        }


class Task(Value):
    """A state that runs a function: its time, its retries in order, and where success and failure lead.

    `executes` marks the states that a deployment has only if it can run programs.
    """

    name: str
    function: str
    function_timeout_s: int
    retries: tuple[Retry, ...]
    next: str
    catch: str
    executes: bool = False

    @property
    def timeout_s(self) -> int:
        return self.function_timeout_s + TASK_MARGIN_S


def _retries(*, transport: int, unknown: int, model: bool = False) -> tuple[Retry, ...]:
    """Typed names stand before the unknown ones; each list has its own count."""
    overload = (Retry(errors=MODEL_ERRORS, interval_s=5, tries=3),) if model else ()
    return (
        Retry(errors=TRANSPORT_ERRORS, interval_s=1, tries=transport),
        *overload,
        Retry(errors=OWN_ERRORS, interval_s=1, tries=2),
        Retry(errors=UNKNOWN_ERRORS, interval_s=2, tries=unknown),
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
        executes=True,
    ),
    # Never tried again: whether the program ran is for the next state to find out, from what the run left behind.
    Task(
        name="Execute",
        function="execute",
        function_timeout_s=870,
        retries=(),
        next="Act",
        catch="Act",
        executes=True,
    ),
    Task(
        name="Close",
        function="close",
        function_timeout_s=90,
        retries=_retries(transport=10, unknown=4),
        next=ROUTER,
        catch=FAILED,
    ),
)

# The word a step answers in `route` → the state that follows. `stop` says the turn belongs to another execution.
ROUTES: Final[Mapping[str, str]] = {
    "decide": "Decide",
    "act": "Act",
    "prepare": "Prepare",
    "close": "Close",
    "done": END,
    "stop": END,
}
DEFAULT_ROUTE: Final = "Close"

# What Prepare answers if there is a program to run; anything else means that the round went on without one.
LAUNCHES: Final[Mapping[str, str]] = {"execute": "Execute"}
DEFAULT_LAUNCH: Final = "Decide"


def render_definition(functions: Mapping[str, str], *, partition: str = "aws") -> dict[str, Any]:
    """Return the state machine in Amazon States Language; `functions` maps a function's name to its ARN.

    A task gets `{step, attempt}` and its answer becomes the whole state; an error is put beside the step, so
    that the state after it still knows whose turn it is. Without a function `execute` no state runs programs,
    and Act answers a decision that asks for one.
    """
    executes = "execute" in functions
    tasks = [task for task in TASKS if executes or not task.executes]
    states: dict[str, Any] = {task.name: _render_task(task, functions, partition) for task in tasks}
    absent = {task.name for task in TASKS} - set(states)
    routes = {word: "Act" if state in absent else state for word, state in ROUTES.items()}
    states[ROUTER] = _render_choice(routes, DEFAULT_ROUTE)
    if executes:
        states[LAUNCHER] = _render_choice(LAUNCHES, DEFAULT_LAUNCH)
    states[END] = {"Type": "Succeed"}
    states[FAILED] = {
        "Type": "Fail",
        "Error": FAILED,
        "Cause": "The turn could not be closed; the sweeper will.",
    }
    return {
        "Comment": "One turn: decide, act on it, until it closes.",
        "StartAt": START,
        "TimeoutSeconds": EXECUTION_TIMEOUT_S,
        "States": states,
    }


def _render_choice(words: Mapping[str, str], default: str) -> dict[str, Any]:
    choices = [{"Variable": "$.route", "StringEquals": word, "Next": state} for word, state in words.items()]
    return {"Type": "Choice", "Choices": choices, "Default": default}


def _render_task(task: Task, functions: Mapping[str, str], partition: str) -> dict[str, Any]:
    retry = {"Retry": [retry.render() for retry in task.retries]} if task.retries else {}
    return {
        "Type": "Task",
        "Resource": f"arn:{partition}:states:::lambda:invoke",
        "Parameters": {
            "FunctionName": functions[task.function],
            "Payload": {"step.$": "$", "attempt.$": "$$.State.RetryCount"},
        },
        "OutputPath": "$.Payload",
        "TimeoutSeconds": task.timeout_s,
        **retry,
        "Catch": [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": task.catch}],
        "Next": task.next,
    }


def render_mermaid() -> str:
    """Return the loop as a mermaid state diagram; dotted words in brackets are failures."""
    lines = ["stateDiagram-v2", f"    [*] --> {START}"]
    for task in TASKS:
        lines.append(f"    {task.name} --> {task.next}")
        lines.append(f"    {task.name} --> {task.catch}: (failed)")
    for word, state in ROUTES.items():
        lines.append(f"    {ROUTER} --> {state}: {word}")
    lines.append(f"    {ROUTER} --> {DEFAULT_ROUTE}: (any other)")
    for word, state in LAUNCHES.items():
        lines.append(f"    {LAUNCHER} --> {state}: {word}")
    lines.append(f"    {LAUNCHER} --> {DEFAULT_LAUNCH}: (any other)")
    lines.append(f"    {END} --> [*]")
    lines.append(f"    {FAILED} --> [*]")
    return "\n".join(lines) + "\n"


def render_reference() -> str:
    """Return docs/reference/loop.md."""
    rows = [
        f"| {task.name} | {task.function_timeout_s} | {task.timeout_s} | "
        f"{'<br>'.join(_render_retry_row(retry) for retry in task.retries) or 'never'} | {task.catch} |"
        for task in TASKS
    ]
    return "\n".join(
        [
            "# The loop",
            "",
            "Generated from `stepline/loop/graph.py`; a test keeps it in step.",
            "",
            "```mermaid",
            render_mermaid().rstrip(),
            "```",
            "",
            "A round with tools takes three transitions (Decide, Route, Act), one that runs a program six (Decide, Route,",
            "Prepare, Launch, Execute, Act), the last round of a turn five (Decide, Route, Close, Route, Done). A",
            "deployment that runs no programs has neither Prepare, Launch nor Execute. State holds ids and counters only:",
            "",
            "```json",
            json.dumps(EXAMPLE_STEP),
            "```",
            "",
            "| state | function s | state s | retried | after that |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _render_retry_row(retry: Retry) -> str:
    names = ", ".join(f"`{name}`" for name in retry.errors)
    return f"{names}: {retry.interval_s} s doubled, {retry.tries} times"


EXAMPLE_STEP: Final[Mapping[str, Any]] = {
    "tenant": "acme",
    "project": "docs",
    "conversation": "conv_7f3a",
    "turn": "turn_20261121T101500_k3x9qp",
    "epoch": 12,
    "iteration": 0,
    "route": "decide",
}
