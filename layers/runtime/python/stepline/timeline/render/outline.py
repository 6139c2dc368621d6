"""A plan's steps as lines of data: a mark, a number, and as much of the words as a line holds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

from stepline.model.plan import MARKS, Plan, StepStatus
from stepline.timeline.plan import plan_steps
from stepline.timeline.render.quote import INDENT, clip

STEPS_SHOWN: Final = 40
STEP_CHARS: Final = 120


def render_outline(
    steps: Sequence[tuple[StepStatus, str]],
    *,
    indent: str = INDENT,
    most: int = STEPS_SHOWN,
    chars: int = STEP_CHARS,
) -> str:
    """Return the steps, one a line that begins with `indent`; of a long plan the first, and how many more there are."""
    lines = [
        f"{indent}{MARKS[status]} [{n}] {clip(step, chars)}\n"
        for n, (status, step) in enumerate(islice(steps, most), 1)
    ]
    left_out = len(steps) - most
    return "".join(lines) + (f"{indent}… {left_out} more\n" if left_out > 0 else "")


def count_done(plan: Plan) -> str:
    """Return in words how many of a plan's steps are done."""
    done = sum(status == "done" for status, _ in plan_steps(plan))
    return f"{done} of {len(plan.steps)} steps done"
