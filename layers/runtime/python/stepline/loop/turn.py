"""A turn: Decide and Act alternate, and Close ends it, as the graph defines.

Step Functions runs it from `stepline_cdk.definition`, your own process from `stepline.bundle.react`, the fault harness
from `tests/contract/fault`. This module neither waits nor runs anything; the driver does both:

    course = turn(step, jitter=jitter)
    visit = next(course)            # wait for visit.pause_s, then ask the function of visit.state
    visit = course.send(answer)     # with visit.step; course.throw(error) if it failed

Source: docs/concepts/turn.md.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Generator
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from stepline.errors import SteplineError
from stepline.loop.graph import (
    CLOSE_FAILED,
    DEFAULT_LAUNCH,
    DEFAULT_ROUTE,
    END,
    LAUNCHER,
    LAUNCHES,
    ROUTER,
    ROUTES,
    START,
    STATES,
    WAIT,
    RetryRule,
)
from stepline.model.step import Step

logger = logging.getLogger(__name__)

Jitter: TypeAlias = Callable[[float], float]
"""Shortens a pause to a random part of it."""


class Visit(NamedTuple):
    """The state to ask, the step to ask it with, and the pause before."""

    state: str
    step: Step
    pause_s: float = 0.0


Course: TypeAlias = Generator[Visit, Step, Step]


def turn(step: Step, *, jitter: Jitter, at: str = START) -> Course:
    """Yield the visits in order, from state `at` to the end; return the last step.

    Raises the error of a state whose failure ends the execution.
    """
    state, pause_s = at, 0.0
    while state != END:
        if state == WAIT.name:
            state, pause_s = WAIT.next, float(step.wait_s)
        try:
            step = yield from _ask(state, step, jitter, pause_s)
        except Exception as error:
            logger.exception("step failed", extra={"state": state, "turn_id": step.turn})
            if catcher(state) == CLOSE_FAILED:
                raise
            state, step = catcher(state), caught(step, error)
        else:
            state = following(state, step)
        pause_s = 0.0
    return step


def _ask(state: str, step: Step, jitter: Jitter, pause_s: float) -> Course:
    """Yield visits to one state until it succeeds, as often as its retries allow; the first after `pause_s`."""
    patience = Patience(state, jitter)
    while True:
        try:
            return (yield Visit(state, replace(step, attempt=patience.attempt), pause_s))
        except Exception as error:
            pause = patience.pause_s(error)
            if pause is None:
                raise
            pause_s = pause
            code = error.reason if isinstance(error, SteplineError) else type(error).__name__
            logger.warning("step is tried again", extra={"state": state, "code": code})


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
    """Return the input of the state after a failed one: the failed state's own input, with the error beside it."""
    kind = type(error).__name__
    cause = msgspec.json.encode({"errorType": kind, "errorMessage": str(error)}).decode()
    return replace(step, attempt=0, error={"Error": kind, "Cause": cause})


class Patience:
    """The remaining retries of one state. Each list of errors has its own count."""

    def __init__(self, state: str, jitter: Jitter) -> None:
        """Begin with the first try of `state`."""
        self._retries: tuple[RetryRule, ...] = STATES[state].retries
        self._jitter = jitter
        self._used: Counter[RetryRule] = Counter()

    @property
    def attempt(self) -> int:
        """The number of retries of the state so far."""
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
