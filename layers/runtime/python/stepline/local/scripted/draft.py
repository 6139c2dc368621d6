"""What the scripted model writes down: the steps of its plans and the text of its files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stepline.local.scripted.goal import Goal
from stepline.local.scripted.progress import Progress
from stepline.local.scripted.search import report_search
from stepline.local.scripted.speech import quote

PLANNED: Final = ("Choose what the file says", "Write the file", "Read the file back and report the word")
FURTHER: Final = ("Look at what is there now", "Choose what comes next", "Tell what is left to do")
STEPS_MAX: Final = 12


def plan_steps(goal: Goal, nth: int = 1) -> list[str]:
    """Return the steps of the nth plan of a goal; the first one is about the file, if there is one to write."""
    asked = quote(goal.message, limit_chars=60)
    known = _known_steps(goal) if nth == 1 else FURTHER
    mark = f" (plan {nth})" if nth > 2 else ""
    named = [*known, *(f"Step {n}: {asked}" for n in range(len(known) + 1, STEPS_MAX + 1))]
    return [f"{step}{mark}" for step in named[: goal.plan_steps]]


def _known_steps(goal: Goal) -> tuple[str, ...]:
    if goal.reads_another:
        return f"Write {goal.file_name}", f"Read {goal.read_path or 'an older file'}", "Tell what both say"
    return PLANNED if "write" in goal.steps else ()


def draft_file(goal: Goal, progress: Sequence[Progress]) -> str:
    """Return the text of the file of a goal: what was found, what was dictated, or a plan with the word in it."""
    searched = next((item.call for item in progress if item.goal is goal and item.step == "search"), None)
    if searched is not None:
        return f"# {goal.query}\n\n{report_search(goal, searched)}\n"
    if "search" in goal.steps:
        return f"# {goal.query}\n\nNothing was found.\n"
    if not goal.word and "plan" not in goal.steps:
        return f"{goal.text}\n"
    steps = [f"{n}. {step}" for n, step in enumerate(plan_steps(goal), 1)]
    return "\n".join(["# Plan", "", *steps, "", *([f"Word: {goal.word}", ""] if goal.word else [])])
