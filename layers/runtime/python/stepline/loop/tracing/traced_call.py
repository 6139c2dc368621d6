"""The span of an action: a tool's call in Act, or the run of a program in any placement."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING

from stepline.loop.attempt import Attempt
from stepline.metering.convention import OPERATION, TOOL, TOOL_CALL_ID, call_texts, failure_code, result_texts
from stepline.model.decision import Action
from stepline.model.entry import Resulted
from stepline.model.program.execution import ToolEvent
from stepline.model.wire.event import report_lane
from stepline.ports.tracing.traces import Attribute, Attributes
from stepline.timeline.fold import Timeline
from stepline.tools.context import ToolContext, ToolOutput
from stepline.tools.registry import run_tool

if TYPE_CHECKING:
    from stepline.delivery.call_reports import CallReports


def run_traced(
    attempt: Attempt, timeline: Timeline, action: Action, at: str, *, claim: int
) -> tuple[ToolContext, ToolOutput]:
    """Run an action; return its inputs and its result. The model calls that it makes are below its span."""
    span = attempt.ports.span.begin(f"execute_tool {action.tool_id}", _attributes(action))
    if span.texts:
        span.set(call_texts(action.params))
    reports = _Reports(attempt, timeline, action, claim)
    try:
        within = replace(attempt, ports=replace(attempt.ports, span=span)) if span.traced else attempt
        context = within.context(timeline, action, at, claim=claim, report=reports.send)
        output = run_tool(attempt.agent.registry, action, context)
        reports.is_settled = output.task is None
        if output.status != "ok":
            span.fail(_code(output.error))
        if span.texts:
            span.set(result_texts(block.text or "" for block in output.blocks))
    except BaseException as error:
        span.fail(failure_code(error))
        raise
    finally:
        reports.close()
        span.end()
    return context, output


class _Reports:
    """The reports of a call; the first one opens their stream."""

    def __init__(self, attempt: Attempt, timeline: Timeline, action: Action, claim: int) -> None:
        self._call = (attempt, timeline, action, claim)
        self._opening = Lock()
        self._opened: CallReports | None = None
        self.is_settled = False

    def send(self, report: ToolEvent) -> None:
        with self._opening:
            self._opened = self._opened or _open_reports(*self._call)
        self._opened.send(report)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close(settled=self.is_settled)


def _open_reports(attempt: Attempt, timeline: Timeline, action: Action, claim: int) -> CallReports:
    from stepline.delivery.call_reports import CallReports, reports_claim  # noqa: PLC0415 - most calls have none

    ports, step = attempt.ports, attempt.step
    stream = ports.relay.open(step.lane(), claim or reports_claim(timeline.state, timeline.since))
    return CallReports(
        stream=stream,
        name=report_lane(step.visit, step.attempt),
        outward=ports.of(timeline.state.bundle).outward,
        clock=ports.clock,
        tool_id=action.tool_id,
        call_id=action.call_id,
        turn=step.turn,
    )


def trace_program(
    attempt: Attempt, action: Action, result: Resulted, *, began: datetime, place: str, seconds: float
) -> None:
    """Record the run of a program when its result is collected: the runner need not know of the trace.

    `place` is the backend, `seconds` the program's own time.
    """
    span = attempt.ports.span
    if not span.traced:
        return
    attributes = {**_attributes(action), "stepline.program.place": place, "stepline.program.seconds": seconds}
    if span.texts:
        attributes |= call_texts(action.params, action.code)
        attributes |= result_texts(block.text or "" for block in result.blocks)
    failed = "" if result.status == "ok" else _code(result.error)
    name = f"execute_tool {action.tool_id}"
    span.record(name, attributes, began=began, ended=attempt.ports.clock.now(), failed=failed)


def _attributes(action: Action) -> dict[str, Attribute]:
    return {
        OPERATION: "execute_tool",
        TOOL: action.tool_id,
        TOOL_CALL_ID: action.call_id,
        "gen_ai.tool.type": "function",
    }


def _code(error: Attributes | None) -> str:
    return str((error or {}).get("code") or "error")
