"""Coming to an end: what a turn may still do, and say, after a steer with a text.

Source: docs/reference/live-events.md.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from stepline.log.bindings import Policy
from stepline.loop.agent import Agent
from stepline.model.entry import Decided
from stepline.timeline.fold import Timeline

FINALIZE_TOOLS: Final = ("react.write", "react.patch", "react.plan", "react.hide")
"""What a turn may still do that comes to an end: put down what it has."""
STOPPED: Final = "Stopped at your request."
TOKENS_MIN: Final = 512


def finalize_left(timeline: Timeline) -> int:
    """Return how many rounds the open turn has to come to an end, counting the next one; 0 if it goes on as it likes."""
    state = timeline.state
    if not state.finalize:
        return 0
    behind = (event.inbound.reactive for event in timeline.events_since(state.steered))
    return 0 if any(behind) else state.finalize


def finalize_tools(agent: Agent) -> tuple[str, ...]:
    """Return what an agent may still call then."""
    return tuple(tool for tool in FINALIZE_TOOLS if tool in agent.callable_ids)


def finalize_tokens(policy: Policy, max_tokens: int) -> int:
    """Return how long an answer of such a round may be."""
    return min(max_tokens, max(TOKENS_MIN, policy.finalize_max_tokens))


def settle_final(decision: Decided, left: int) -> Decided:
    """Return a decision of a turn that comes to an end: in its last round anything but an answer becomes one.

    `left` counts the rounds that are left, this one among them; 0 if the turn goes on as it likes.
    """
    if left != 1 or (decision.accepted and decision.action != "call_tool"):
        return decision
    return replace(
        decision,
        accepted=True,
        action="complete",
        actions=(),
        answer=decision.answer or STOPPED,
        ended="steer",
    )
