"""Steer: the running step of a turn heeds a user's steer once, and records it.

    a generation, a tool, a program   ends early; its output so far is kept
    the actions after it              are not run, and their results say so
    a steer with a text               leaves a bounded number of rounds to finalize
    a steer without a text            is a stop: the close is next, without asking the model again

A message or another reactive event after a steer lifts its bound on the turn.
`finalize_*` return the rounds, the tools and the tokens that a turn may still use after a steer with a text.
Source: docs/reference/live-events.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from stepline.log.bindings import Policy
from stepline.log.fence import compare_step, onward
from stepline.metrics import STEERS
from stepline.model.batch import Batch, State
from stepline.model.decision import Action
from stepline.model.entry import Inbound, Resulted, SteeredEntry
from stepline.model.step import Step

if TYPE_CHECKING:
    from stepline.loop.agent import Agent
    from stepline.loop.attempt import Attempt
    from stepline.timeline.fold import Timeline

NOT_RUN: Final = "Not run: the user steered before it was this call's turn."

Phase = Literal["", "decision", "tools"]


class Steer(NamedTuple):
    """A steer that was not heeded yet, and the number of its batch."""

    n: int
    event: Inbound

    @property
    def stops(self) -> bool:
        """True if it is a stop."""
        return self.event.rule.then == "close"


def find_steer(events: Iterable[tuple[int, Inbound]], heeded: int) -> Steer | None:
    """Return the steer after batch `heeded` that counts: the newest stop, or else the newest steer."""
    found = [Steer(n, event) for n, event in events if event.steers and n > heeded]
    stops = [steer for steer in found if steer.stops]
    return next(reversed(stops or found), None)


def steer_of(timeline: Timeline) -> Steer | None:
    """Return the steer that the timeline's open turn has not heeded yet."""
    events = timeline.events_since(timeline.state.steered)
    return find_steer(((event.n, event.inbound) for event in events), timeline.state.steered)


def steer_in(batches: Sequence[Batch], heeded: int) -> Steer | None:
    """Return the steer among batches of an open turn that was not heeded yet."""
    found = ((batch.n, entry) for batch in batches for entry in batch.entries if isinstance(entry, Inbound))
    return find_steer(found, heeded)


def heeding(steer: Steer, policy: Policy, state: State, *, at: str, phase: Phase) -> SteeredEntry:
    """Return the record that a steer was heeded in a phase of the current round of `state`."""
    iteration = state.cursor.iteration
    # A steer that cuts off a round's work also ends that round.
    left = policy.max_iterations + state.credits - iteration - bool(phase)
    return SteeredEntry(
        n=steer.n,
        turn=state.turn,
        at=at,
        iteration=iteration,
        message_id=steer.event.message_id,
        text=steer.event.text,
        phase=phase,
        finalize=0 if steer.stops else max(1, min(policy.finalize_rounds, left)),
    )


def heed(attempt: Attempt, timeline: Timeline) -> Timeline | Step:
    """Heed steers that arrive before the model is asked; return the newest timeline, or the step to go to.

    Raises Fenced.
    """
    step = attempt.step
    while (steer := steer_of(timeline)) is not None:
        entry = heeding(steer, attempt.ports.policy, timeline.state, at=attempt.now(), phase="")
        moved = attempt.amend(timeline, entry)
        if isinstance(moved, Step):
            return moved
        attempt.ports.meter.count(STEERS)
        if compare_step(moved.state, step, "decide") != "mine":
            return onward(step, moved.state)
        timeline = moved  # another steer may have arrived before the record
    return timeline


def not_run(action: Action, iteration: int, at: str) -> Resulted:
    """Return the result of an action that was not run because of a steer."""
    return Resulted(
        call_id=action.call_id,
        tool_id=action.tool_id,
        iteration=iteration,
        status="error",
        at=at,
        error={"code": "steered", "message": NOT_RUN},
    )


FINALIZE_TOOLS: Final = ("react.write", "react.patch", "react.plan", "react.hide")
"""Tools that a turn may still call after a steer with a text: they store its work so far."""
STOPPED: Final = "Stopped at your request."
TOKENS_MIN: Final = 512


def finalize_left(timeline: Timeline) -> int:
    """Return how many rounds the turn has to finalize, counting the next one; 0 if it is not bounded."""
    state = timeline.state
    if not state.finalize:
        return 0
    later = (event.inbound.reactive for event in timeline.events_since(state.steered))
    return 0 if any(later) else state.finalize


def finalize_tools(agent: Agent) -> tuple[str, ...]:
    """Return the tools that an agent may still call while it finalizes."""
    return tuple(tool for tool in FINALIZE_TOOLS if tool in agent.callable_ids)


def finalize_tokens(policy: Policy, max_tokens: int) -> int:
    """Return the maximum tokens of an answer while the turn finalizes."""
    return min(max_tokens, max(TOKENS_MIN, policy.finalize_max_tokens))
