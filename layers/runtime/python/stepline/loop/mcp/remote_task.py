"""A call that its server runs as a task: recorded, polled until it ends, and no function waits for it meanwhile.

    Act     puts `started` with the task, and leaves; or polls the task, and puts its result or leaves again
    Decide  lets the state machine wait until the task is due, and looks for a steer meanwhile

An attempt that finds the task in the log polls it and never calls the tool again. A steer, the end of its time, and the
deletion of its conversation cancel it.
Source: docs/how-to/connect-an-mcp-server.md#long-calls.
"""

from __future__ import annotations

import dataclasses
import logging
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from stepline.errors import ToolError
from stepline.log.fence import compare_step, onward
from stepline.loop.attempt import Attempt
from stepline.loop.mcp.turn_tools import equip
from stepline.loop.settle_action import put_started, record, result_of
from stepline.loop.steer import steer_of
from stepline.model.batch import Batch
from stepline.model.decision import Action, RemoteTask
from stepline.model.entry import ApprovalAnswered, Decided, Resulted, Started
from stepline.model.ids import utc
from stepline.model.step import Step
from stepline.ports.mcp.mcp_server import MCP_UNREACHABLE, TIMEOUT
from stepline.timeline.fold import Timeline
from stepline.tools.context import CALL_CANCELLED, ToolContext, ToolOutput
from stepline.tools.mcp.remote_tool import MCP_UNAVAILABLE
from stepline.tools.registry import refuse_call

logger = logging.getLogger(__name__)

TASK_TIMEOUT: Final = "mcp_task_timeout"
POLL_MIN_S, POLL_MAX_S = 1.0, 60.0
PATIENCE: Final = 10
"""A task is polled again after another tenth of its time so far, so the answer is at most that late."""
MARGIN_S: Final = 60.0
"""The time at the end of a turn that is kept for ending the task and for the answer."""
_PASSES: Final = (MCP_UNREACHABLE, TIMEOUT)


def keep_task(
    attempt: Attempt, tail: Batch, index: int, action: Action, task: RemoteTask, *, claim: int
) -> Step | None:
    """Put the task of a call that this attempt has just made; return the step that waits for it.

    `claim` is that of the call's start, 0 without one. None if the round continued without this attempt; then the task
    is not polled.
    """
    ports, now = attempt.ports, attempt.ports.clock.now()
    opened = datetime.fromtimestamp(tail.state.tally.opened_ms / 1000, tz=now.tzinfo)
    ends = opened + timedelta(seconds=ports.policy.turn_deadline_s - MARGIN_S)
    kept = replace(task, until=utc(min(now + timedelta(seconds=ports.policy.mcp_task_s), ends)))

    def is_ours(at: Batch, again: int) -> bool:
        here = compare_step(at.state, attempt.step, "act") == "mine" and at.state.cursor.action == index
        held = claim or again
        return here and (at.state.claim == held if held else not at.state.running)

    batch = put_started(attempt, tail, Started(call_id=action.call_id, task=kept), is_ours)
    if batch is None:
        _cancel(attempt, action, task, attempt.context(attempt.load(), action, attempt.now()))
        return None
    return _leave(attempt, batch, kept, 0.0)


def task_of(timeline: Timeline, call: str) -> tuple[RemoteTask, str] | None:
    """Return the task of a call of the newest decision and the time at which it began; None if it has none."""
    for batch in reversed(timeline.since(timeline.state.decided)):
        for entry in batch.entries:
            if isinstance(entry, Started) and entry.call_id == call and entry.task is not None:
                return entry.task, batch.at
    return None


def advance_task(
    attempt: Attempt, timeline: Timeline, index: int, action: Action, found: tuple[RemoteTask, str]
) -> Batch | Step | None:
    """Poll a task; return the batch of its result, or the step that keeps waiting.

    None if the round continued without this attempt.
    """
    task, at = found
    now = attempt.ports.clock.now()
    lasts_s = max(0.0, (now - datetime.fromisoformat(at)).total_seconds())
    context = attempt.context(timeline, action, at)
    try:
        output = _ask(attempt, timeline, action, task, context)
    except ToolError as error:
        if error.reason not in _PASSES or now >= datetime.fromisoformat(task.until):
            _cancel(attempt, action, task, context)
            output = refuse_call(error, action.tool_id, context)
        else:
            output = ToolOutput(task=task)
    if output.task is not None:
        if now < datetime.fromisoformat(task.until):
            hints = replace(task, poll_s=output.task.poll_s or task.poll_s)
            return _leave(attempt, timeline.tail, hints, lasts_s)
        _cancel(attempt, action, task, context)
        late = ToolError(
            "the task was not done in its time, and is cancelled; some of it may have happened",
            code=TASK_TIMEOUT,
        )
        output = refuse_call(late, action.tool_id, context)
    result = result_of(action, context, output, duration_ms=round(lasts_s * 1000))
    return record(attempt, timeline.tail, index, result)


def _ask(
    attempt: Attempt, timeline: Timeline, action: Action, task: RemoteTask, context: ToolContext
) -> ToolOutput:
    """Return the result of a task, or the task while it runs.

    Raises ToolError: those of `Tool.poll`, `cancelled`, `unknown_tool_id`.
    """
    if steer_of(timeline) is not None:
        raise ToolError(
            "the user steered, and the task is cancelled; some of it may have happened", code=CALL_CANCELLED
        )
    poll = attempt.agent.registry.find(action.tool_id).poll
    if poll is None:
        raise ToolError("the tool has no tasks any more", code=MCP_UNAVAILABLE)
    return poll(task.id, context)


def abandon_task(attempt: Attempt, timeline: Timeline) -> None:
    """Cancel the task of a call of a deleted conversation: its result is no longer needed."""
    opened = timeline.history[-1].opened if timeline.history else 0
    actions: dict[str, Action] = {}
    running: dict[str, RemoteTask] = {}
    for batch in timeline.since(opened):
        for entry in batch.entries:
            match entry:
                case Decided():
                    actions |= {action.call_id: action for action in entry.actions}
                case ApprovalAnswered(action=action) if action is not None:
                    actions[action.call_id] = action
                case Started(call_id=call, task=task) if task is not None:
                    running[call] = task
                case Resulted(call_id=call):
                    running.pop(call, None)
                case _:
                    pass
    if not running:
        return
    attempt = dataclasses.replace(attempt, agent=equip(attempt.agent, timeline, attempt.ports.artifacts))
    for call, task in running.items():
        _cancel(attempt, actions[call], task, attempt.context(timeline, actions[call], attempt.now()))


def _cancel(attempt: Attempt, action: Action, task: RemoteTask, context: ToolContext) -> None:
    """Ask the server to end a task. If it refuses or cannot be reached, the task ends on its own."""
    tools = attempt.agent.registry
    cancel = tools.find(action.tool_id).cancel if action.tool_id in tools else None
    if cancel is None:
        return
    try:
        cancel(task.id, context)
    except ToolError as error:
        logger.warning("task not cancelled", extra={"call_id": action.call_id, "code": error.reason})


def _leave(attempt: Attempt, tail: Batch, task: RemoteTask, lasts_s: float) -> Step:
    """Return the step that waits until the next poll of the task."""
    left_s = (datetime.fromisoformat(task.until) - attempt.ports.clock.now()).total_seconds()
    asked_s = min(task.poll_s or 0.0, task.ttl_s / 2) if task.ttl_s else task.poll_s or 0.0
    pause_s = min(max(asked_s, lasts_s / PATIENCE), left_s, POLL_MAX_S)
    due_ms = attempt.now_ms() + round(max(pause_s, POLL_MIN_S) * 1000)
    return replace(onward(attempt.step, tail.state), due_ms=due_ms)
