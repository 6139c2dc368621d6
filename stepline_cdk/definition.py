"""The state machine in Amazon States Language, rendered from the graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stepline.loop.graph import (
    CLOSE_FAILED,
    DEFAULT_LAUNCH,
    DEFAULT_ROUTE,
    END,
    EXECUTION_TIMEOUT_S,
    LAUNCHER,
    LAUNCHES,
    REMOTE,
    ROUTER,
    ROUTES,
    START,
    TASKS,
    TRANSPORT,
    UNKNOWN_ERROR,
    UNKNOWN_ERRORS,
    WAIT,
    RetryRule,
    Task,
    absent_states,
)

ERRORS: Final[Mapping[str, tuple[str, ...]]] = {
    TRANSPORT: (
        *("Lambda.ServiceException", "Lambda.AWSLambdaException", "Lambda.SdkClientException"),
        *("Lambda.ClientExecutionTimeoutException", "Lambda.TooManyRequestsException"),
        *("Lambda.ResourceNotReadyException", "Lambda.SnapStartException"),
        *("Lambda.SnapStartNotReadyException", "Lambda.SnapStartTimeoutException"),
    ),
    UNKNOWN_ERROR: UNKNOWN_ERRORS,
}
"""Step Functions' names of the errors that the table has one word for."""


def render_definition(
    functions: Mapping[str, str], *, remote: bool = False, partition: str = "aws"
) -> dict[str, Any]:
    """Return the state machine in Amazon States Language; `functions` maps a function's name to its ARN.

    A task gets `{step, attempt}` and its answer becomes the whole state; an error is put beside the step, so
    that the next state still knows the turn. Without a function `execute` no state runs programs beside the
    functions, without `remote` none runs them elsewhere; without both, Act answers a decision that asks for
    one.
    """
    absent = absent_states(executes="execute" in functions, remote=remote)
    states: dict[str, Any] = {
        task.name: _render_task(task, functions, partition) for task in TASKS if task.name not in absent
    }
    if remote:
        states[REMOTE.name] = _render_remote(functions, partition)
    routes = {word: "Act" if state in absent else state for word, state in ROUTES.items()}
    states[ROUTER] = _render_choice(routes, DEFAULT_ROUTE)
    if LAUNCHER not in absent:
        launches = {word: state for word, state in LAUNCHES.items() if state not in absent}
        states[LAUNCHER] = _render_choice(launches, DEFAULT_LAUNCH)
    states[WAIT.name] = {"Type": "Wait", "SecondsPath": "$.wait_s", "Next": WAIT.next}
    states[END] = {"Type": "Succeed"}
    states[CLOSE_FAILED] = {
        "Type": "Fail",
        "Error": CLOSE_FAILED,
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
    retry = {"Retry": [_render_retry(retry) for retry in task.retries]} if task.retries else {}
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


def _render_remote(functions: Mapping[str, str], partition: str) -> dict[str, Any]:
    """Return the state that has a function start a task, waits for the task, and keeps the step unchanged.

    RunTask may refuse in an answer that is no error. The optimised integration fails then, but has no client
    token; that of the SDK has one, and does not look into the answer. Source: Step Functions guide, connect-ecs.
    """
    return {
        "Type": "Task",
        "Resource": f"arn:{partition}:states:::lambda:invoke.waitForTaskToken",
        "Parameters": {
            "FunctionName": functions[REMOTE.function],
            "Payload": {
                "step.$": "$",
                "attempt.$": "$$.State.RetryCount",
                "token.$": "$$.Task.Token",
            },
        },
        "ResultPath": None,
        "TimeoutSeconds": REMOTE.timeout_s,
        "HeartbeatSeconds": REMOTE.heartbeat_s,
        "Retry": [_render_retry(retry) for retry in REMOTE.retries],
        "Catch": [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": REMOTE.catch}],
        "Next": REMOTE.next,
    }


def _render_retry(retry: RetryRule) -> dict[str, Any]:
    return {
        "ErrorEquals": [name for error in retry.errors for name in ERRORS.get(error, (error,))],
        "IntervalSeconds": retry.interval_s,
        "MaxAttempts": retry.tries,
        "BackoffRate": 2,
        "MaxDelaySeconds": retry.max_s,
        "JitterStrategy": "FULL",
    }
