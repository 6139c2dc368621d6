"""Plans as text and as facts: steps as lines of data, past plans, and snapshots parsed from JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

import msgspec

from stepline.model.base import Value
from stepline.model.entry import Contributed
from stepline.model.path import PlanPath
from stepline.model.plan_steps import STEP_MARKS, Plan, StepStatus
from stepline.model.visible_text import shorten
from stepline.rendering.quote import INDENT, clip, inline

PlanTag: TypeAlias = Literal["closed", "superseded", "complete", "unfinished"]

NOTE_CHARS: Final = 160
_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])
_NO_NOTES: Final[Mapping[str, str]] = MappingProxyType({})


class PlanFacts(Value):
    """A past plan: its end, its steps with their statuses, and the path of its newest snapshot."""

    plan_id: str
    tag: PlanTag
    steps: tuple[tuple[StepStatus, str], ...]
    snapshot_ref: str
    last_turn_id: str
    note: str = ""


class _Step(Value):
    label: str
    status: StepStatus = "pending"


def render_steps(plan: Plan) -> str:
    """Return a plan's steps, one per line: mark, number, label."""
    return "\n".join(
        f"{STEP_MARKS[status]} [{n}] {inline(step)}" for n, (status, step) in enumerate(plan_steps(plan), 1)
    )


def plan_steps(plan: Plan) -> tuple[tuple[StepStatus, str], ...]:
    """Return a plan's steps in order, each with its status."""
    return tuple((plan.status.get(str(n), "pending"), step) for n, step in enumerate(plan.steps, 1))


def current_plan(plans: Iterable[Plan]) -> Plan | None:
    """Return the plan whose progress is reported: the current one, if it is open."""
    return next((plan for plan in plans if plan.current and plan.is_open()), None)


def plan_history(plans: Iterable[Plan], notes: Mapping[str, str] = _NO_NOTES) -> tuple[PlanFacts, ...]:
    """Return the facts of every plan but the current one, in the order given.

    `notes` holds the last note about a plan, by plan.
    """
    found = tuple(plans)
    current = current_plan(found)
    return tuple(
        PlanFacts(
            plan_id=plan.plan_id,
            tag=plan_tag(plan),
            steps=plan_steps(plan),
            snapshot_ref=str(PlanPath(plan=plan.plan_id)),
            last_turn_id=plan.last_turn_id,
            note=shorten(inline(notes.get(plan.plan_id, "")), NOTE_CHARS),
        )
        for plan in found
        if plan != current
    )


def plan_tag(plan: Plan) -> PlanTag:
    """Return the state of a plan as one word."""
    if plan.superseded_ts:
        return "superseded"
    if plan.closed_ts:
        return "closed"
    return "complete" if plan.is_complete() else "unfinished"


def plan_facts(plan: Plan) -> dict[str, Any]:
    """Return the progress of a plan in numbers."""
    done = [status for status, _ in plan_steps(plan)]
    return {
        "plan_id": plan.plan_id,
        "current": plan.current,
        "open": plan.is_open(),
        "steps": len(done),
        **{status: done.count(status) for status in STEP_MARKS},
    }


def read_plan(snapshot: Mapping[str, Any]) -> Plan:
    """Parse a snapshot from elsewhere; each of its steps is a text, or `{n, label, status}`.

    Raises msgspec.ValidationError for an invalid step or a missing id.
    """
    given = msgspec.convert(snapshot.get("steps") or (), tuple[str | _Step, ...])
    given_status = msgspec.convert(snapshot.get("status") or {}, dict[str, StepStatus])
    steps = [step if isinstance(step, str) else step.label for step in given]
    own = {str(n): step.status for n, step in enumerate(given, 1) if isinstance(step, _Step)}
    status = {str(n): "pending" for n in range(1, len(steps) + 1)} | given_status | own
    origin = snapshot.get("origin_turn_id", "")
    defaults = {"created_ts": "", "last_ts": "", "last_turn_id": origin, "origin_turn_id": origin, **snapshot}
    return msgspec.convert({**defaults, "steps": steps, "status": status}, Plan)


def contributed_plans(entry: Contributed) -> tuple[Plan, ...]:
    """Return the snapshots among the blocks of a bundle; an invalid one stays text only."""
    found = []
    for block in entry.blocks:
        if block.type == "react.plan":
            defaults = {
                "last_turn_id": entry.turn,
                "origin_turn_id": entry.turn,
                "created_ts": entry.at,
                "last_ts": entry.at,
            }
            try:
                found.append(read_plan({**defaults, **_OBJECT.decode(block.text)}))
            except msgspec.MsgspecError:
                continue
    return tuple(found)


STEPS_SHOWN: Final = 40
STEP_CHARS: Final = 120


def render_outline(
    steps: Sequence[tuple[StepStatus, str]],
    *,
    indent: str = INDENT,
    most: int = STEPS_SHOWN,
    chars: int = STEP_CHARS,
) -> str:
    """Return the first steps, one per line after `indent`, and the count of any further ones."""
    lines = [
        f"{indent}{STEP_MARKS[status]} [{n}] {clip(step, chars)}\n"
        for n, (status, step) in enumerate(islice(steps, most), 1)
    ]
    left_out = len(steps) - most
    return "".join(lines) + (f"{indent}… {left_out} more\n" if left_out > 0 else "")


def count_done(plan: Plan) -> str:
    """Return how many of a plan's steps are done, as text."""
    done = sum(status == "done" for status, _ in plan_steps(plan))
    return f"{done} of {len(plan.steps)} steps done"
