"""A plan as a card for the user: what changes, and its steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

TOOL_ID: Final = "react.plan"

_TITLES: Final = {
    "new": "Plan",
    "replace": "New plan",
    "activate": "Back to the plan",
    "close": "Plan closed",
}


def render_plan_card(params: Mapping[str, Any]) -> str:
    """Return the card of a valid call of `react.plan`: a title, what it is about, a line a step."""
    steps = params.get("steps") or ()
    lines = [_TITLES.get(params.get("mode", "new"), _TITLES["new"])]
    if about := params.get("plan_id") or (
        f"{len(steps)} step{'s' if len(steps) > 1 else ''}" if steps else ""
    ):
        lines.append(f"└ {about}")
    lines += [f"□ {' '.join(str(step).split())}" for step in steps]
    return "\n".join(lines)
