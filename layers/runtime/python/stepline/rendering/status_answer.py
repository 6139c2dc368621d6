"""The status answer of a turn that ends without an answer of the model: the work done, the open steps, the last problem.

It is a function of the turn's own entries, so a retried step returns the same answer.
Source: docs/concepts/turn.md#budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from stepline.model.entry import Decided, Entry, Resulted
from stepline.model.plan_steps import Plan
from stepline.model.visible_text import shorten
from stepline.rendering.plan_text import plan_steps
from stepline.rendering.quote import inline

Cause: TypeAlias = Literal["max_iterations", "violations"]

FILES_MAX: Final = 10
STEPS_MAX: Final = 8
LINE_CHARS: Final = 200
CAUSES: Final[Mapping[Cause, str]] = {
    "max_iterations": "I have used up the rounds of this turn without reaching an answer.",
    "violations": "I could not produce a valid answer within this turn's limits.",
}
GO_ON: Final = "What was done is kept in the conversation; send a message to continue from there."


def status_answer(entries: Iterable[Entry], plans: Iterable[Plan], *, turn: str, cause: Cause) -> str:
    """Return the status answer in Markdown.

    `entries` are the turn's own so far, `plans` the newest snapshots of all plans.
    """
    own = tuple(entries)
    results = [entry for entry in own if isinstance(entry, Resulted)]
    # The decision that is replaced by this answer is not in the log yet.
    rounds = 1 + sum(isinstance(entry, Decided) for entry in own)
    done = [entry for entry in results if entry.status == "ok"]
    calls = f", {_count(len(results), 'tool call')}, {len(done)} of them successful" if results else ""
    facts = [f"- {_count(rounds, 'round')}{calls}", *_files(done)]
    for plan in plans:
        if plan.last_turn_id == turn or (plan.current and plan.is_open()):
            facts += _plan(plan)
    return "\n\n".join([CAUSES[cause], "\n".join(facts + _last_error(results)), GO_ON])


def _files(done: Sequence[Resulted]) -> list[str]:
    """Return the turn's files, each once, as list items."""
    paths = [block.path for entry in done for block in entry.blocks if block.path.startswith("fi:")]
    own = list(dict.fromkeys(path for path in paths if ".code." not in path))
    more = [f"  - and {len(own) - FILES_MAX} more"] if len(own) > FILES_MAX else []
    return ["- files:", *(f"  - `{_line(path)}`" for path in own[:FILES_MAX]), *more] if own else []


def _plan(plan: Plan) -> list[str]:
    steps = plan_steps(plan)
    done = sum(status == "done" for status, _ in steps)
    left = [(n, status, step) for n, (status, step) in enumerate(steps, 1) if status != "done"]
    words = {"failed": "failed", "in_progress": "begun", "pending": "open"}
    more = [f"  - and {len(left) - STEPS_MAX} more"] if len(left) > STEPS_MAX else []
    return [
        f"- plan: {done} of {len(steps)} steps done",
        *(f"  - {words[status]}: [{n}] {_line(step)}" for n, status, step in left[:STEPS_MAX]),
        *more,
    ]


def _last_error(results: Sequence[Resulted]) -> list[str]:
    failed = [entry for entry in results if entry.status != "ok"]
    if not failed:
        return []
    entry = failed[-1]
    error = entry.error or {}
    message = str(error.get("message") or error.get("code") or "what became of it is not known")
    return [f"- last problem: {entry.tool_id}: {_line(message)}"]


def _count(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


def _line(text: str) -> str:
    return shorten(inline(text).replace("`", "'"), LINE_CHARS)
