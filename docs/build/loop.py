"""docs/reference/loop.md: the states of the loop, as a diagram and as a table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from docs.build import DOCS
from stepline.loop.graph import (
    CLOSE_FAILED,
    DEFAULT_LAUNCH,
    DEFAULT_ROUTE,
    END,
    LAUNCHER,
    LAUNCHES,
    REMOTE,
    ROUTER,
    ROUTES,
    START,
    TASKS,
    WAIT,
    RetryRule,
)
from stepline_cdk.definition import ERRORS

PATH: Final = DOCS / "reference/loop.md"

EXAMPLE_STEP: Final[Mapping[str, Any]] = {
    "tenant": "acme",
    "project": "docs",
    "conversation": "conv_7f3a",
    "turn": "turn_20261121T101500_k3x9qp",
    "epoch": 12,
    "iteration": 0,
    "route": "decide",
}


def render_mermaid() -> str:
    """Return the loop as a mermaid state diagram; dotted words in brackets are failures."""
    lines = ["stateDiagram-v2", f"    [*] --> {START}"]
    for task in (*TASKS, REMOTE):
        lines.append(f"    {task.name} --> {task.next}")
        lines.append(f"    {task.name} --> {task.catch}: (failed)")
    lines.append(f"    {WAIT.name} --> {WAIT.next}")
    for word, state in ROUTES.items():
        lines.append(f"    {ROUTER} --> {state}: {word}")
    lines.append(f"    {ROUTER} --> {DEFAULT_ROUTE}: (any other)")
    for word, state in LAUNCHES.items():
        lines.append(f"    {LAUNCHER} --> {state}: {word}")
    lines.append(f"    {LAUNCHER} --> {DEFAULT_LAUNCH}: (any other)")
    lines.append(f"    {END} --> [*]")
    lines.append(f"    {CLOSE_FAILED} --> [*]")
    return "\n".join(lines) + "\n"


def render() -> str:
    """Return the page."""
    rows = [
        f"| {task.name} | {task.function_timeout_s} | {task.timeout_s} | "
        f"{'<br>'.join(_render_retry_row(retry) for retry in task.retries) or 'never'} | {task.catch} |"
        for task in TASKS
    ]
    return "\n".join(
        [
            "# The loop",
            "",
            "Generated from `stepline/loop/graph.py`; a test compares them.",
            "",
            "```mermaid",
            render_mermaid().rstrip(),
            "```",
            "",
            "A round with tools takes three transitions (Decide, Route, Act), one that runs a program six (Decide, Route,",
            "Prepare, Launch, Execute or ExecuteTask, Act), the last round of a turn five (Decide, Route, Close, Route,",
            "Done). Execute exists if programs run next to the functions, ExecuteTask if they run on Fargate, and",
            "a deployment without both has neither Prepare nor Launch. A wait that the model's provider requests takes",
            "three more (Wait, Decide, Route) and runs nothing meanwhile. State contains only ids and counters:",
            "",
            "```json",
            json.dumps(EXAMPLE_STEP),
            "```",
            "",
            "| state | function s | state s | retried | after that |",
            "|---|---|---|---|---|",
            *rows,
            "",
            "Two of the words mean errors of the service that runs the functions:",
            "",
            *(f"- `{word}`: {', '.join(f'`{name}`' for name in names)}" for word, names in ERRORS.items()),
            "",
            f"ExecuteTask has `{REMOTE.function}` start a task and waits for the task's report: {REMOTE.timeout_s} s at most, and",
            f"{REMOTE.heartbeat_s} s without a sign of life, which covers its provisioning. It is tried again only if no task was",
            f"started ({'; '.join(map(_render_retry_row, REMOTE.retries))}); Act collects in any case.",
            "",
        ]
    )


def _render_retry_row(retry: RetryRule) -> str:
    names = ", ".join(f"`{name}`" for name in retry.errors)
    return f"{names}: {retry.interval_s} s doubled, {retry.tries} times"
