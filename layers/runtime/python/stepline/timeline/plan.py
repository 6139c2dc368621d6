"""Plans in words: the steps of one as lines."""

from __future__ import annotations

from stepline.model.plan import MARKS, Plan
from stepline.timeline.quote import inline


def render_steps(plan: Plan) -> str:
    """Return a plan's steps, one a line: mark, number, label."""
    marks = [MARKS[plan.status.get(str(n), "pending")] for n in range(1, len(plan.steps) + 1)]
    return "\n".join(
        f"{mark} [{n}] {inline(step)}"
        for n, (mark, step) in enumerate(zip(marks, plan.steps, strict=True), 1)
    )
