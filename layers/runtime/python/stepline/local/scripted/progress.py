"""How far each step of what was asked for has come: the calls that served it, and what stands in its way."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from stepline.local.scripted.goal import Goal, Step
from stepline.local.scripted.program import EXEC_TOOL, files_needed, find_source
from stepline.local.scripted.reading import Call, View
from stepline.model.base import Value

MAX_TRIES: Final = 2
TOOLS: Final[dict[Step, str]] = {
    "plan": "react.plan",
    "search": "web_tools.web_search",
    "write": "react.write",
    "read": "react.read",
    "pull": "react.pull",
    "exec": EXEC_TOOL,
}


class Progress(Value):
    """One step of a goal and the calls that served it.

    `nth` counts the steps of its kind in the goal, from 1. `files` is what a pull is for or a program works on;
    `blocked` says why the step cannot be done here.
    """

    goal: Goal
    step: Step
    nth: int = 1
    tries: tuple[Call, ...] = ()
    files: tuple[str, ...] = ()
    blocked: str = ""

    @property
    def call(self) -> Call | None:
        """The call that succeeded."""
        return next((call for call in self.tries if call.result and not call.failed), None)

    @property
    def open(self) -> bool:
        """Tell whether it is still worth trying."""
        # Whether a program did its work is for its reader to judge; it may have effects, so it runs once.
        most = 1 if self.step == "exec" else MAX_TRIES
        if self.step not in TOOLS or self.blocked or (self.step == "pull" and not self.files):
            return False
        return self.call is None and len(self.tries) < most


def match_progress(goals: Sequence[Goal], view: View, tools: Collection[str]) -> list[Progress]:
    """Give each step the calls that served it: in order, each call once, a failed try and the next together."""
    left = list(view.current.calls)
    progress: list[Progress] = []
    for goal in goals:
        source = find_source(goal, view) if goal.totals else ""
        for at, step in enumerate(goal.steps):
            tries: list[Call] = []
            while step in TOOLS and not any(call.result and not call.failed for call in tries):
                n = next((n for n, call in enumerate(left) if call.tool == TOOLS[step]), None)
                if n is None:
                    break
                tries.append(left.pop(n))
            files = files_needed(goal, source, view) if step == "pull" else [source] if source else []
            pulled = next((item for item in progress if item.goal is goal and item.step == "pull"), None)
            blocked = _obstacle(goal, step, source, tools, view)
            if step == "exec" and pulled and pulled.tries and not pulled.call and not pulled.open:
                blocked = "The program did not run, because its files could not be pulled."
            progress.append(
                Progress(
                    goal=goal,
                    step=step,
                    nth=1 + goal.steps[:at].count(step),
                    tries=tuple(tries),
                    files=tuple(files),
                    blocked=blocked,
                )
            )
    return progress


def joinable(todo: Progress, progress: Sequence[Progress]) -> list[Progress]:
    """Return the open steps of a goal that need no result of each other, its first open one among them."""
    items = [item for item in progress if item.open and item.goal is todo.goal]
    steps = {item.step for item in items}
    waiting: set[Step] = set()
    if "search" in steps:
        waiting.add("write")
    if "pull" in steps:
        waiting.add("exec")
    if "write" in steps and not todo.goal.reads_another:
        waiting.add("read")
    return [item for item in items if item.step not in waiting]


def newest_file(view: View) -> str:
    """Return the newest file of the turns before; empty if there is none."""
    paths = [path for turn in view.turns[:-1] for call in turn.calls for path in call.paths]
    return next((path for path in reversed(paths) if path.startswith("fi:")), "")


def _obstacle(goal: Goal, step: Step, source: str, tools: Collection[str], view: View) -> str:
    """Return why a step cannot be done; a program that cannot run needs no files either."""
    needed = [TOOLS["exec"], TOOLS[step]] if step == "pull" else [TOOLS[step]] if step in TOOLS else []
    if missing := next((tool for tool in needed if tool not in tools), ""):
        what = {EXEC_TOOL: "Running programs", TOOLS["search"]: "Searching"}.get(missing, f"`{missing}`")
        return f"{what} is not available here."
    if step in ("pull", "exec") and goal.totals and not source:
        return f"I see no file `{goal.data}`." if goal.data else "I see no CSV file to work on."
    if step == "read" and goal.older and not newest_file(view):
        return "I see no file of an earlier turn."
    if step == "read" and goal.attached and not view.attachments:
        return "I see no attachment."
    return ""
