"""Fencing: a step may put only if its own name and claim match the state; nothing else is compared.

A step's name is (turn, epoch, iteration, phase). If the state is of another turn or epoch, parked or queued, the step
ends (`stop`); if the state is beyond the name, the step was already done (`beyond`: take the state's route).
Source: docs/concepts/log.md#fencing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Final, Literal, ParamSpec

from msgspec.structs import replace

from stepline.errors import Fenced, InputError, NotFoundError
from stepline.model.batch import Batch, State
from stepline.model.step import Step

StepRelation = Literal["mine", "beyond", "stop"]
Phase = Literal["decide", "act", "close"]
P = ParamSpec("P")

DELETED: Final = "conversation_deleted"
"""The code of all refusals by a deleted conversation."""
UNFINISHED: Final = "import_unfinished"
"""The code of all refusals by a conversation that is being imported."""


def owns(state: State, step: Step) -> bool:
    """Return True if the turn is open under this step's epoch; a parked or queued turn belongs to no step."""
    mine = state.turn == step.turn and state.epoch == step.epoch
    return state.status == "open" and not state.waits_outside and mine


def compare_step(state: State, step: Step, phase: Phase) -> StepRelation:
    """Compare a step with the current state."""
    if not owns(state, step):
        return "stop"
    at = state.cursor
    return "mine" if at.iteration == step.iteration and at.phase == phase else "beyond"


def elsewhere(state: State, step: Step, phase: Phase) -> Step | None:
    """Return the step to go to if this step no longer owns the phase; None if it does."""
    match compare_step(state, step, phase):
        case "mine":
            return None
        case "beyond":
            return onward(step, state)
        case "stop":
            return ended(step, "stop")


def check_owner(tail: Batch, user: str) -> None:
    """Refuse a conversation that this user may not access, or that is not accessible now.

    Raises:
        NotFoundError: the conversation belongs to another user, or was deleted (`conversation_deleted`).
        InputError: `import_unfinished`, it is being imported.
    """
    if tail.n and tail.state.owner != user:
        raise NotFoundError("no such conversation")
    check_alive(tail.state)
    check_imported(tail.state)


def check_alive(state: State) -> None:
    """Raise NotFoundError `conversation_deleted` if the conversation was deleted."""
    if state.deleted:
        raise NotFoundError("the conversation was deleted", code=DELETED)


def check_imported(state: State, *, following: State | None = None) -> None:
    """Raise InputError `import_unfinished` if the conversation is being imported, unless the following state deletes it."""
    if state.importing and not (following and following.deleted):
        raise InputError("this conversation is being imported, and is not whole yet", code=UNFINISHED)


def stops_when_deleted(run: Callable[P, Step]) -> Callable[P, Step]:
    """Let a step's function end the execution when its conversation was deleted, even if it is erased already."""

    @wraps(run)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> Step:
        try:
            return run(*args, **kwargs)
        except NotFoundError as error:
            step = next((given for given in args if isinstance(given, Step)), None)
            if error.reason != DELETED or step is None:
                raise
            return ended(step, "stop")

    return guarded


def check_claim(state: State, claim: int) -> None:
    """Raise Fenced if another attempt has claimed the round since."""
    if state.claim != claim:
        raise Fenced("another attempt has claimed this round", claim=claim, found=state.claim)


def check_attempt(state: State, attempt: int) -> None:
    """Raise Fenced if a later attempt has begun, so this invocation was given up."""
    if attempt < state.attempt:
        raise Fenced("a later attempt has begun", attempt=attempt, found=state.attempt)


def onward(step: Step, state: State) -> Step:
    """Return the next step of the state; its route is a route of the graph."""
    return replace(
        step,
        iteration=state.cursor.iteration,
        route=state.route(),
        attempt=0,
        error=None,
        launch=None,
        segment=state.segment,
        wait_s=0,
        due_ms=0,
    )


def ended(step: Step, route: Literal["done", "stop"]) -> Step:
    """Return the step that ends the execution."""
    return replace(step, route=route, attempt=0, error=None, launch=None, wait_s=0, due_ms=0)
