"""A plan: ordered steps with a status each; every change is a full snapshot."""

from __future__ import annotations

from typing import Literal

from stepline.model.base import Value

StepStatus = Literal["pending", "in_progress", "done", "failed"]

STEP_MARKS: dict[StepStatus, str] = {"done": "✓", "failed": "✗", "in_progress": "…", "pending": "□"}


class Plan(Value):
    """One snapshot of a plan's lineage. `status` maps the 1-based step number, as text, to its status."""

    plan_id: str
    steps: tuple[str, ...]
    status: dict[str, StepStatus]
    created_ts: str
    last_ts: str
    origin_turn_id: str
    last_turn_id: str
    current: bool = True
    last_ack_turn_id: str = ""
    last_ack_ts: str = ""
    closed_ts: str = ""
    closed_turn_id: str = ""
    superseded_ts: str = ""
    superseded_turn_id: str = ""
    superseded_by_plan_id: str = ""

    def is_complete(self) -> bool:
        """Return True if every step is done or failed."""
        return all(self.status.get(str(n + 1)) in ("done", "failed") for n in range(len(self.steps)))

    def is_open(self) -> bool:
        """Return True if the plan has work left."""
        return not (self.closed_ts or self.superseded_ts or self.is_complete())
