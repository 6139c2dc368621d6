"""The budgets of the exact rows: counts and sizes, the same on every machine.

`tests/unit/bench/test_exact_rows.py` holds each landing to the rows that are cheap to count, `python -m bench` every run
to those that it measured, and `tests/stacks/test_layer.py` the layers. A change that needs more, or less, changes a
line here in a commit of its own, which says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from bench.row import Row


class Budget(NamedTuple):
    """The most that a row may have, the goal that it has not reached yet, and the share below `most` that still counts as it."""

    most: float
    goal: float | None = None
    slack: float = 0.0

    @property
    def aim(self) -> float:
        """The goal of the row."""
        return self.most if self.goal is None else self.goal


BYTES: Final = 0.005
"""The slack of bytes, in which a number may have a digit less."""
LAYERS: Final = 0.02

BUDGETS: Final[Mapping[str, Budget]] = {
    "round_bytes_10": Budget(2_108, goal=1_931, slack=BYTES),
    "round_bytes_5000": Budget(2_170, goal=1_931, slack=BYTES),
    "calls_per_round_warm": Budget(8, goal=4),
    "calls_per_round_cold": Budget(10, goal=6),
    "wru_per_round": Budget(7, goal=6),
    "wru_per_stream_minute": Budget(59),
    "turn_usd_1000": Budget(0.4102, slack=BYTES),
    "transitions_per_tool_round": Budget(3),
    "reads_per_round_cold_1000": Budget(26),
    "reads_per_round_cold": Budget(26),
    "read_bytes_per_round_cold_1000": Budget(469_913, slack=BYTES),
    "read_bytes_per_round_cold": Budget(496_691, slack=BYTES),
    "fork_writes": Budget(3),
    "fork_reads_more": Budget(2, slack=0.5),
    "fork_read_bytes_x": Budget(1.006, slack=0.005),
    "parked_calls_per_day": Budget(0),
    "page_calls_list": Budget(1),
    "page_calls_events": Budget(4),
    "page_calls_fetch": Budget(10),
    "page_calls_list_300": Budget(1),
    "page_calls_events_300": Budget(4),
    "page_calls_fetch_300": Budget(4),
    "rounds_of_recorded": Budget(0.885),
    "hops_message": Budget(31),
    "hops_parameter": Budget(43),
    "hops_program": Budget(51),
    "hops_delta": Budget(24),
    "modules_authorizer": Budget(112),
    "modules_socket": Budget(237),
    "modules_decide": Budget(292),
    "modules_act": Budget(274),
    "modules_close": Budget(219),
    "modules_sweeper": Budget(252),
    "door_bytes_x_client_ai_sdk": Budget(0.692, slack=BYTES),
    "door_bytes_x_client_ag_ui": Budget(1.063, slack=BYTES),
    "door_bytes_x_client_served_ai_sdk": Budget(0.753, slack=BYTES),
    "door_bytes_x_client_served_ag_ui": Budget(1.123, slack=BYTES),
    "door_bytes_x_client_served_responses": Budget(1.508, slack=BYTES),
    "deps_layer_mb": Budget(111, slack=LAYERS),
    "authorizer_layer_mb": Budget(41.8, slack=LAYERS),
    "memory_layer_mb": Budget(74.4, slack=LAYERS),
    "mcp_layer_mb": Budget(2.75, slack=LAYERS),
    "tracing_layer_mb": Budget(3, slack=LAYERS),
}


def off_budget(rows: Iterable[Row]) -> list[str]:
    """Return a sentence for each exact row that is above its budget, or so far below that the budget has to follow."""
    return [
        f"{row.metric} is {row.value:g} {row.unit}, its budget {budget.most:g}: "
        "change its line in bench/budget.py, in a commit of its own that says why"
        for row in rows
        if (budget := BUDGETS.get(row.metric)) and row.value is not None
        if not budget.most * (1 - budget.slack) <= row.value <= budget.most
    ]
