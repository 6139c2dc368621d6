"""A row of the results, the required metrics, and the output formats."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

HANDLERS = ("authorizer", "socket", "decide", "act", "close", "sweeper")

COLD = ("authorizer", "socket", "decide", "act", "close")
"""The functions that a turn waits for."""

WIRES = ("messages", "chat", "converse")
SHAPES = ("linear", "fanout")

EXEC_METRICS = tuple(
    f"exec_start_ms_{backend}_{state}_{program}"
    for backend in ("process", "docker")
    for program in ("bare", "pandas")
    for state in ("cold", "warm")
)

CHAT_PAGE = (
    "first_paint",
    "first_delta",
    "main_piece",
    "main_frame",
    "renderer_piece",
    "renderer_frame",
    "longest_task",
    "heap_200_turns",
    "turn_of_250",
    "gzip",
    "brotli",
    "inspector_gzip",
)
"""What is measured of the chat page in a browser, and of its build."""

SERVED_DOORS = ("served_ai_sdk", "served_ag_ui", "served_responses")
"""Those of `stepline serve`."""
DOORS = ("ai_sdk", "ag_ui", *SERVED_DOORS, "durable_streams")

METRICS: Mapping[str, tuple[str, ...]] = {
    "parser": (
        *(f"splitter_{what}_{chars}" for what in ("mb_s", "ratio_find") for chars in (8, 40)),
        "throughput_1mb_to_8kb",
        "splitter_to_naive_8kb",
    ),
    "field": ("json_delta_mb_s_8", "json_delta_mb_s_40"),
    "pipeline": ("pipeline_mb_s_8", "pipeline_mb_s_40"),
    "resume": (
        *(f"resume_cpu_ms_{blocks}" for blocks in (10, 1000, 5000, 50000)),
        "round_bytes_10",
        "round_bytes_5000",
        "resume_growth_in_budget",
        "seal_cpu_ms",
    ),
    "resume_real": tuple(f"resume_real_cpu_ms_{blocks}" for blocks in (10, 1000, 5000)),
    "render": tuple(
        f"render_ms_{state}_{blocks}" for state in ("warm", "cold") for blocks in (10, 1000, 5000)
    ),
    "replay": ("replay_cpu_s_500",),
    "pictures": ("request_ms_two_pictures",),
    "reads": (
        *(f"{what}_per_round_cold{size}" for size in ("", "_1000") for what in ("reads", "read_bytes")),
        *("fork_writes", "fork_reads_more", "fork_read_bytes_x"),
    ),
    "rounds": ("rounds_of_recorded",),
    "trips": ("hops_message", "hops_parameter", "hops_program", "hops_delta"),
    "project": ("rg_x_ripgrep", "pull_x_cp", "checkout_x_cp"),
    "cost": (
        *(f"cost_x_own_ideal_{shape}" for shape in SHAPES),
        *(f"cost_own_cache_x_uncached_{shape}" for shape in SHAPES),
        "cost_x_l5m_with_announce",
        *(
            f"cost_{what}_x_automatic_{shape}"
            for what in ("full_policy", "held_out", "all_gaps_cold")
            for shape in SHAPES
        ),
        *(f"cost_journal_x_timeline_{shape}" for shape in SHAPES),
        "cost_hour_x_five_minutes",
        "cost_hour_x_five_minutes_slow",
    ),
    "store": ("calls_per_round_warm", "calls_per_round_cold", "wru_per_round"),
    "parked": ("parked_calls_per_day",),
    "sweep": ("sweep_s_1000_turns", "sweep_s_1000_turns_forks_queue"),
    "stream": ("wru_per_stream_minute",),
    "turn_cost": ("turn_usd_1000",),
    "steer": ("steer_ms_log", "steer_ms_redis"),
    "imports": (
        *(f"import_cpu_ms_{handler}" for handler in HANDLERS),
        *(f"modules_{handler}" for handler in HANDLERS),
    ),
    "wires": tuple(f"wire_{what}_{wire}" for what in ("cpu_ms", "imports") for wire in WIRES),
    "cold": tuple(f"cold_cpu_{handler}" for handler in COLD),
    "sizes": tuple(f"size_{handler}" for handler in (*COLD, "stream")),
    "layers": tuple(f"{layer}_layer_mb" for layer in ("deps", "authorizer", "memory", "mcp", "tracing")),
    "first_token": ("cold_first_token",),
    "execution": EXEC_METRICS,
    "stage": ("overhead_ms_per_round", "transitions_per_tool_round"),
    "fanout": ("events_per_s_1_clients", "events_per_s_10_clients"),
    "load": (),
    "recovery": ("recovery_s_after_kill",),
    "memory": (
        "memory_found_by_other_words",
        "memory_found_by_its_words",
        *(f"memory_search_ms_{state}_{part}" for state in ("warm", "cold") for part in ("p50", "p95")),
        "memory_read_bytes",
    ),
    "pages": tuple(
        f"page_{what}_{page}" for what in ("cpu_ms", "calls") for page in ("list", "events", "fetch")
    ),
    "web": ("web_fetch_ms",),
    "chat_page": tuple(f"chat_page_{what}" for what in CHAT_PAGE),
    "doors": tuple(f"door_{what}_x_client_{door}" for door in DOORS for what in ("cpu", "bytes")),
    "door_stop": tuple(f"door_stop_ms_{door}" for door in DOORS),
    "door_streams": ("door_streams_mb",),
    "verdict": tuple(f"upload_verdict_ms_{file}" for file in ("picture", "office", "pdf")),
    "remote": ("mcp_call_ms", "mcp_import_cpu_ms"),
}
"""The required metrics by topic; a run of a topic without one of them has failed."""

MORE_IS_BETTER = frozenset({"MB/s", "of the speed", "facts"})
"""Units in which a goal is a minimum; in all others it is a maximum."""


class MeasureError(Exception):
    """The measurement does not match its metric: no value is better than a wrong one."""


@dataclass(frozen=True)
class Limit:
    """The best value on this machine for the same result, by the simplest program."""

    name: str
    value: float


@dataclass(frozen=True, kw_only=True)
class Row:
    """One metric. `peers` and `limit` come from the same run; `note` says how the value was obtained.

    The goal is an absolute one, or `goal_times` the limit: then it can be met on a slow machine, too. Without a value, the measured part is missing on this machine, and the note names it.
    """

    metric: str
    value: float | None
    unit: str
    peers: Mapping[str, float] = field(default_factory=dict)
    limit: Limit | None = None
    goal: float | None = None
    goal_times: float | None = None
    note: str = ""

    @property
    def aim(self) -> float | None:
        """The goal as a value of this run; None without one."""
        if self.goal_times is None or self.limit is None:
            return self.goal
        if self.unit in MORE_IS_BETTER:
            return self.limit.value / self.goal_times
        return self.limit.value * self.goal_times

    @property
    def met(self) -> bool | None:
        """True if the value reaches its goal; None without one of them."""
        if self.aim is None or self.value is None:
            return None
        return self.value >= self.aim if self.unit in MORE_IS_BETTER else self.value <= self.aim


def missing(rows: Iterable[Row], topics: Iterable[str] = METRICS) -> list[str]:
    """Return the required metrics of topics without a row, in order."""
    found = {row.metric for row in rows}
    return [metric for topic in topics for metric in METRICS[topic] if metric not in found]


def write_results(rows: Sequence[Row], path: Path) -> None:
    """Write the rows as a JSON list, each with every field."""
    listed = [{**asdict(row), "aim": row.aim, "met": row.met} for row in rows]
    path.write_text(json.dumps(listed, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def render_table(rows: Sequence[Row]) -> str:
    """Return the rows as aligned columns, notes below."""
    head = ("metric", "value", "unit", "goal", "", "limit", "peers")
    lines = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(head) - 1)]
    table = [
        "  ".join(
            [
                *(_fit(cell, width, at) for at, (cell, width) in enumerate(zip(line, widths, strict=False))),
                line[-1],
            ]
        )
        for line in lines
    ]
    notes = [f"{row.metric}: {row.note}" for row in rows if row.note]
    return "\n".join([*(line.rstrip() for line in table), *(["", *notes] if notes else [])])


def _cells(row: Row) -> tuple[str, ...]:
    sign = "≥" if row.unit in MORE_IS_BETTER else "≤"
    goal = "" if row.aim is None else f"{sign} {row.aim:.4g}"
    if row.aim is not None and row.goal_times is not None:
        goal += f" ({row.goal_times:g} x limit)"
    met = {None: "", True: "met", False: "NOT MET"}[row.met]
    limit = f"{row.limit.value:g} {row.limit.name}" if row.limit else ""
    peers = ", ".join(f"{name} {value:g}" for name, value in row.peers.items())
    value = "none" if row.value is None else f"{row.value:g}"
    return (row.metric, value, row.unit, goal, met, limit, peers)


def _fit(cell: str, width: int, at: int) -> str:
    return cell.rjust(width) if at == 1 else cell.ljust(width)
