"""Park a turn: a person is asked whether a call may run, and no execution waits for the answer.

    Act            put `approval_requested` with `parked = n`, remove the open mark, end the execution
    an answer      one transaction at ingress: a new epoch, the open mark, and a new execution at the same call
    Act, then      run the call, run the edited one, or record that it was not run

A parked turn has no owner: no step may put for it, no sweep takes it over. Source: docs/concepts/log.md#parked-turns.
"""

from __future__ import annotations

import logging
from datetime import timedelta

from stepline.delivery.effect import publish
from stepline.delivery.stage_queue import follow_parking
from stepline.log.fence import compare_step, ended
from stepline.log.journal import Draft
from stepline.log.transition import parked
from stepline.loop.agent import Agent
from stepline.loop.attempt import Attempt
from stepline.loop.steer import not_run
from stepline.metrics import APPROVALS_REQUESTED
from stepline.model.batch import Batch
from stepline.model.decision import Action, ApprovalRule, digest_call
from stepline.model.entry import ApprovalAnswered, ApprovalRequested, Resulted
from stepline.model.ids import utc
from stepline.model.step import Step
from stepline.timeline.fold import Timeline

logger = logging.getLogger(__name__)

DENIED = "The user did not allow this call, and it was not run."
EXPIRED = "Nobody allowed this call in time, and it was not run."


def needs_person(agent: Agent, timeline: Timeline, tool_id: str) -> ApprovalRule | None:
    """Return the rule that makes a call of this tool need a person now; None if it needs none."""
    if tool_id not in agent.registry:
        return None
    rule = agent.approvals(agent.registry.find(tool_id).spec)
    if rule == "never" or (rule == "first_use" and tool_id in timeline.allowed):
        return None
    return rule


def repeats_effect(timeline: Timeline, action: Action) -> bool:
    """Return True if a call is equal to a `once` call that an origin of this fork made after the fork's point."""
    asked = digest_call(action)
    return any(call.digest == asked for call in timeline.kept_effects if call.effect == "once")


def runs_unasked(agent: Agent, timeline: Timeline, tool_id: str) -> bool:
    """Return True if no call of this tool needs a person now: neither by the policy, nor as one that a fork may repeat."""
    kept = (call.tool for call in timeline.kept_effects if call.effect == "once")
    return not needs_person(agent, timeline, tool_id) and tool_id not in kept


def answer_about(timeline: Timeline, call: str) -> ApprovalAnswered | None:
    """Return the answer about a call of the newest decision; None if there is none."""
    batches = timeline.since(timeline.state.decided)
    entries = (entry for batch in reversed(batches) for entry in batch.entries)
    return next((e for e in entries if isinstance(e, ApprovalAnswered) and e.call_id == call), None)


def park(attempt: Attempt, timeline: Timeline, index: int, action: Action, rule: ApprovalRule) -> Step | None:
    """Put the request for an approval, and leave the turn; None if the round continued without this attempt."""
    ports, state, now = attempt.ports, timeline.state, attempt.ports.clock.now()
    waits_s = ports.policy.approval_wait_s
    request = ApprovalRequested(
        turn=state.turn,
        at=utc(now),
        iteration=state.cursor.iteration,
        action=action,
        rule=rule,
        until=utc(now + timedelta(seconds=waits_s)) if waits_s else "",
    )

    def plan(at: Batch) -> Draft | None:
        mine = compare_step(at.state, attempt.step, "act") == "mine" and at.state.cursor.action == index
        if not mine or slipped_in(at, timeline):
            return None
        return Draft(entries=(request,), state=parked(at.state, at.n + 1))

    batch = attempt.journal.commit(plan, tail=timeline.tail)
    if batch is None:
        return None
    logger.info("turn parked", extra={"tool_id": action.tool_id, "call_id": action.call_id})
    publish(ports, attempt.journal.lane, batch)
    ports.meter.count(APPROVALS_REQUESTED)
    follow_parking(ports, attempt.journal.lane, batch)
    return ended(attempt.step, "stop")


def slipped_in(at: Batch, timeline: Timeline) -> bool:
    """Return True if the log has more than was read: it may be a steer, which a parked turn would not heed."""
    return at.n != timeline.n


def refused(action: Action, iteration: int, at: str, answer: ApprovalAnswered) -> Resulted | None:
    """Return the result of a call that was not allowed; None if the answer allows it."""
    if answer.verdict in ("approved", "edited"):
        return None
    if answer.verdict == "withdrawn":
        return not_run(action, iteration, at)
    if answer.verdict == "expired":
        error = {"code": "approval_expired", "message": EXPIRED}
    else:
        said = f" They say: {answer.text}" if answer.text else ""
        error = {"code": "denied", "message": f"{DENIED}{said}"}
    return Resulted(
        call_id=action.call_id,
        tool_id=action.tool_id,
        iteration=iteration,
        status="error",
        at=at,
        error=error,
    )
