"""The course of an execution where no state machine runs it: which state follows, and whether a failed one is tried again.

Both come from the graph's own table, so that a turn which runs in one process follows the same edges and is as patient
as one that Step Functions runs. Nothing waits here, and nothing is run.
Source: docs/reference/loop.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from stepline.loop.graph import (
    DEFAULT_LAUNCH,
    DEFAULT_ROUTE,
    LAUNCHER,
    LAUNCHES,
    REMOTE,
    ROUTER,
    ROUTES,
    TASKS,
    RemoteTask,
    Retry,
    Task,
)
from stepline.model.step import Step

STATES: Final[Mapping[str, Task | RemoteTask]] = {task.name: task for task in (*TASKS, REMOTE)}

Jitter = Callable[[float], float]
"""Shortens a pause to anything between nothing and all of it."""


def following(state: str, step: Step) -> str:
    """Return the state after `state` has answered `step`."""
    match STATES[state].next:
        case str(leads) if leads == ROUTER:
            return ROUTES.get(step.route, DEFAULT_ROUTE)
        case str(leads) if leads == LAUNCHER:
            return LAUNCHES.get(step.route, DEFAULT_LAUNCH)
        case leads:
            return leads


def caught(step: Step, error: Exception) -> Step:
    """Return the step that the state after a failed one gets: what the failed one got, with the error beside it."""
    kind = type(error).__name__
    cause = msgspec.json.encode({"errorType": kind, "errorMessage": str(error)}).decode()
    return replace(step, attempt=0, error={"Error": kind, "Cause": cause})


class Patience:
    """What is left of a state's retries while it is tried. Each list of errors has a count of its own."""

    def __init__(self, state: str, jitter: Jitter) -> None:
        """Begin with the first try of `state`."""
        task = STATES[state]
        self._retries: tuple[Retry, ...] = task.retries if isinstance(task, Task) else ()
        self._jitter = jitter
        self._used: Counter[Retry] = Counter()

    @property
    def attempt(self) -> int:
        """Return how often the state was tried again so far."""
        return self._used.total()

    def pause_s(self, error: Exception) -> float | None:
        """Count a failure; return how long to wait before the next try, or None if there is none."""
        retry = next((retry for retry in self._retries if type(error).__name__ in retry.errors), None)
        if retry is None or self._used[retry] >= retry.tries:
            return None
        self._used[retry] += 1
        return self._jitter(min(retry.max_s, retry.interval_s * 2 ** (self._used[retry] - 1)))


def catcher(state: str) -> str:
    """Return the state that a failure of `state` leads to."""
    return STATES[state].catch
