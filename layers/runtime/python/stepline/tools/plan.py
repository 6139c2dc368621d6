"""`react.plan`: open plans as snapshots. Everything is checked before anything changes.

A change is a pure function from the newest snapshots to new ones; a plan that is not in the result is
unchanged. At most one plan is current. The notes of later decisions report progress on it, as
acknowledgements.
Source: docs/reference/tools.md#reactplan.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from msgspec.structs import replace

from stepline.errors import ToolError
from stepline.model.base import Value
from stepline.model.path import PlanPath
from stepline.model.plan_steps import STEP_MARKS, Plan, StepStatus
from stepline.rendering.result import SILENT
from stepline.tools.context import ToolContext, ToolOutput
from stepline.tools.parameter import choice, closed_schema, param
from stepline.tools.registry import Tool
from stepline.tools.spec import ToolSpec

Mode: TypeAlias = Literal["new", "activate", "replace", "close"]

STEPS_MAX: Final = 40
STEP_MAX_CHARS: Final = 600

_STATUS: dict[str, StepStatus] = {mark: status for status, mark in STEP_MARKS.items()}
_ACK = re.compile(
    rf"[ \t]*(?:[-*•][ \t]+)?(?P<mark>[{''.join(_STATUS)}])\ufe0f?[ \t]*"
    r"(?:\[(?P<bracketed>[0-9]{1,3})\]|(?P<plain>[0-9]{1,3})[.)](?![0-9]))",
)

PLAN: Final = ToolSpec(
    tool_id="react.plan",
    purpose=(
        "Manage plans of ordered steps. The current plan stands in ANNOUNCE. Report progress in the notes of a "
        "later round, one line a step: `✓ [n]` done, `✗ [n]` failed, `… [n]` in progress, `□ [n]` pending."
    ),
    schema=closed_schema(
        {
            "mode": choice(
                ["new", "activate", "replace", "close"],
                "new: make a plan and its steps current; replace: the same, and retire plan_id; activate: make "
                "the open plan_id current; close: end plan_id",
                default="new",
            ),
            "plan_id": param(
                "string", "which plan; for activate, replace and close", minLength=1, maxLength=200
            ),
            "steps": param(
                "array",
                "the steps in order, one sentence each; for new and replace",
                minItems=1,
                maxItems=STEPS_MAX,
                items={"type": "string", "pattern": "\\S", "maxLength": STEP_MAX_CHARS},
            ),
        }
    ),
    returns="the plan's id, the path of its newest snapshot, and its steps",
    effect="pure",
    read_only=False,
    strategies=("neutral",),
    examples=({"mode": "new", "steps": ["collect the metrics", "compare the trends", "write the report"]},),
)


class _PlanChange(Value):
    """The changes of one call: `snapshots` in the order of the log, the plan it is about last."""

    mode: Mode
    snapshots: tuple[Plan, ...]
    target: str = ""

    @property
    def plan(self) -> Plan:
        """The new snapshot of the plan the call is about."""
        return self.snapshots[-1]


def run_plan(params: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    """Change the plans. Raises ToolError for mistakes the model can correct."""
    made = f"plan:{context.turn}:{context.call_id.removeprefix('tc_')[:8]}"
    change = _plan_change(context.timeline.plans, params, plan_id=made, turn=context.turn, ts=context.ts)
    blocks = [context.result(PLAN.tool_id, render_change(change))]
    if change.mode == "close":
        notice = context.notice(PLAN.tool_id, "plan_closed", f"{change.plan.plan_id} is closed.")
        # Silent: the model already reads it in the result.
        blocks.insert(0, replace(notice, meta={**notice.meta, SILENT: True}))
    return ToolOutput(blocks=tuple(blocks), plans=change.snapshots)


def _plan_change(
    plans: Mapping[str, Plan], params: Mapping[str, Any], *, plan_id: str, turn: str, ts: str
) -> _PlanChange:
    """Return the snapshots that one call adds; `plan_id` is the id of a new plan.

    Raises ToolError `protocol_violation.` with `plan_steps`, `plan_target_required` or `plan_target_missing`.
    """
    mode: Mode = params.get("mode", "new")
    steps = tuple(step.strip() for step in params.get("steps", ()))
    if mode in ("new", "replace") and not steps:
        raise ToolError(f"mode {mode} needs steps", code="protocol_violation.plan_steps")
    target = None if mode == "new" else _target(plans, params, mode)
    kept = target.plan_id if target else ""
    demoted = [
        replace(plan, current=False, last_ts=ts, last_turn_id=turn)
        for plan in plans.values()
        if plan.current and plan.plan_id != kept
    ]
    match mode:
        case "close":
            assert target is not None
            return _PlanChange(mode=mode, snapshots=(_closed(target, turn, ts),), target=kept)
        case "activate":
            assert target is not None
            active = replace(target, current=True, last_ts=ts, last_turn_id=turn)
            return _PlanChange(mode=mode, snapshots=(*demoted, active), target=kept)
        case "new" | "replace":
            retired = [_superseded(target, plan_id, turn, ts)] if target else []
            made = _new(plan_id, steps, turn, ts)
            return _PlanChange(mode=mode, snapshots=(*demoted, *retired, made), target=kept)


def render_change(change: _PlanChange) -> str:
    """Return the result that the model reads."""
    plan = change.plan
    lines = [f"mode: {change.mode}"]
    if change.target:
        lines += [f"target_plan_id: {change.target}", f"target_snapshot_ref: {PlanPath(plan=change.target)}"]
    lines += [f"plan_id: {plan.plan_id}", f"latest_snapshot_ref: {PlanPath(plan=plan.plan_id)}"]
    lines.append(f"current: {'yes' if plan.current else 'no'}")
    lines += [f"{STEP_MARKS[plan.status[str(n)]]} [{n}] {step}" for n, step in enumerate(plan.steps, 1)]
    return "\n".join(lines) + "\n"


def parse_acks(notes: str) -> dict[int, StepStatus]:
    """Return the status that the notes report for each step, by its 1-based number; the last report counts.

    A report is a line that begins with a mark and the number, as `✓ [2] …` or `✓ 2. …`.
    """
    acks: dict[int, StepStatus] = {}
    for line in notes.splitlines():
        if found := _ACK.match(line):
            acks[int(found["bracketed"] or found["plain"])] = _STATUS[found["mark"]]
    return acks


def apply_acks(plan: Plan, acks: dict[int, StepStatus], turn: str, ts: str) -> Plan | None:
    """Return the next snapshot of the current plan, or None if the reports change nothing."""
    if not (plan.current and plan.is_open()):
        return None
    changed = {
        str(step): status
        for step, status in acks.items()
        if 1 <= step <= len(plan.steps) and plan.status.get(str(step)) != status
    }
    if not changed:
        return None
    return replace(
        plan,
        status={**plan.status, **changed},
        last_ts=ts,
        last_turn_id=turn,
        last_ack_ts=ts,
        last_ack_turn_id=turn,
    )


def _target(plans: Mapping[str, Plan], params: Mapping[str, Any], mode: Mode) -> Plan:
    wanted = params.get("plan_id", "")
    open_ids = [plan.plan_id for plan in plans.values() if plan.is_open()]
    known = f"open plans: {', '.join(open_ids) or 'none'}"
    if not wanted:
        raise ToolError(f"mode {mode} needs plan_id; {known}", code="protocol_violation.plan_target_required")
    target = plans.get(wanted)
    ended = target is None or bool(target.closed_ts or target.superseded_ts)
    # A plan whose steps are all settled has nothing left to activate, but it may be closed or replaced.
    if target is None or ended or (mode == "activate" and target.is_complete()):
        raise ToolError(
            f"no open plan {wanted[:80]!r}; {known}", code="protocol_violation.plan_target_missing"
        )
    return target


def _new(plan_id: str, steps: tuple[str, ...], turn: str, ts: str) -> Plan:
    return Plan(
        plan_id=plan_id,
        steps=steps,
        status={str(n): "pending" for n in range(1, len(steps) + 1)},
        created_ts=ts,
        last_ts=ts,
        origin_turn_id=turn,
        last_turn_id=turn,
    )


def _closed(plan: Plan, turn: str, ts: str) -> Plan:
    return replace(plan, current=False, closed_ts=ts, closed_turn_id=turn, last_ts=ts, last_turn_id=turn)


def _superseded(plan: Plan, by: str, turn: str, ts: str) -> Plan:
    return replace(
        plan,
        current=False,
        superseded_ts=ts,
        superseded_turn_id=turn,
        superseded_by_plan_id=by,
        last_ts=ts,
        last_turn_id=turn,
    )


PLAN_TOOL: Final = Tool(spec=PLAN, run=run_plan)
