"""The span of an action: a tool's call in Act, or the run of a program in any placement."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from stepline.loop.attempt import Attempt
from stepline.metering.convention import OPERATION, TOOL, TOOL_CALL_ID, call_texts, failure_code, result_texts
from stepline.model.decision import Action
from stepline.model.entry import Resulted
from stepline.ports.tracing.traces import Attribute, Attributes
from stepline.timeline.fold import Timeline
from stepline.tools.context import ToolContext, ToolOutput
from stepline.tools.registry import run_tool


def run_traced(
    attempt: Attempt, timeline: Timeline, action: Action, at: str, *, claim: int
) -> tuple[ToolContext, ToolOutput]:
    """Run an action; return its inputs and its result. The model calls that it makes are below its span."""
    span = attempt.ports.span.begin(f"execute_tool {action.tool_id}", _attributes(action))
    if span.texts:
        span.set(call_texts(action.params))
    try:
        within = replace(attempt, ports=replace(attempt.ports, span=span)) if span.traced else attempt
        context = within.context(timeline, action, at, claim=claim)
        output = run_tool(attempt.agent.registry, action, context)
        if output.status != "ok":
            span.fail(_code(output.error))
        if span.texts:
            span.set(result_texts(block.text or "" for block in output.blocks))
    except BaseException as error:
        span.fail(failure_code(error))
        raise
    finally:
        span.end()
    return context, output


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
