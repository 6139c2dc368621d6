"""The requests that a new conversation with the default bundle offers."""

from __future__ import annotations

from typing import Final

PLAN_AND_FILE: Final = (
    "Make a plan with three steps, write it to a file with the word kumquat in it and read it back."
)
CHART: Final = "Write a CSV of sales over six months to sales.csv, sum it up by month and draw a chart."
SEARCHED: Final = "Search for prompt caching and tell me what you find."
APPROVAL: Final = "Show me how an approval works."
STEPS: Final = "Take eight steps, so that I can add something, redirect you or stop you."
TOUR: Final = {
    "Make a plan and save it": PLAN_AND_FILE,
    "Run a program and draw a chart": CHART,
    "Search with sources": SEARCHED,
    "Try an approval": APPROVAL,
    "Add, redirect, stop": STEPS,
}
"""Each request by its label."""
ANY_MODEL: Final = 3
"""The number of requests that any model can follow; the others need the scripted one."""
