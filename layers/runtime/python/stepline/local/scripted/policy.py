"""Decides the next round by fixed rules: what was asked, what was done, what is left.

Deterministic: the same prompt gets the same answer. What it quotes from a file it takes from the result of reading
the file, never from the request, so that a quoted word proves that the loop ran.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final

from stepline.local.scripted.goal import Goal, Step, parse_goal
from stepline.local.scripted.program import (
    EXEC_TOOL,
    files_needed,
    find_source,
    report_run,
    run_params,
    totals_program,
)
from stepline.local.scripted.prompt import Prompt
from stepline.local.scripted.reading import Call, TurnView, View, parse_view
from stepline.local.scripted.speech import WHAT_I_CAN, WHO_I_AM, quote, say_answer, say_call
from stepline.model.base import Value

PROTOCOL_MARK: Final = "ReactDecisionOutV2"
MAX_TRIES: Final = 2
_TOOLS: Final[dict[Step, str]] = {
    "plan": "react.plan",
    "write": "react.write",
    "read": "react.read",
    "pull": "react.pull",
    "exec": EXEC_TOOL,
}
_ROSTER: Final = re.compile(r"^\[TOOLS\] \d+ available: (?P<names>.+)$", re.MULTILINE)
_PLANNED: Final = ("Choose what the file says", "Write the file", "Read the file back and report the word")
_WORD_LINE: Final = re.compile(r"^\W*Word:\s*(?P<word>\S+)\s*$", re.MULTILINE)


class _Progress(Value):
    """One step of a goal and the calls that served it.

    `files` is what a pull is for or a program works on; `blocked` says why the step cannot be done here.
    """

    goal: Goal
    step: Step
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
        if self.step not in _TOOLS or self.blocked or (self.step == "pull" and not self.files):
            return False
        return self.call is None and len(self.tries) < most


def answer_prompt(prompt: Prompt) -> str:
    """Return the whole answer to a request: a round of the protocol, or plain text to who does not speak it."""
    if PROTOCOL_MARK not in f"{prompt.system}\n{prompt.newest_message}":
        return f"{WHO_I_AM}\n\nYou wrote: “{quote(prompt.newest_message)}”"
    roster = _ROSTER.search(prompt.system)
    tools = roster["names"].split(", ") if roster else _TOOLS.values()
    return answer_view(parse_view(prompt.newest_message), tools)


def answer_view(view: View, tools: Collection[str] = tuple(_TOOLS.values())) -> str:
    """Return the next round of a turn of an agent that has these tools."""
    turn = view.current
    asked = [message.text for message in turn.messages if message.kind != "steer"]
    goals = [parse_goal(text) for text in asked] or [parse_goal("")]
    progress = _match(goals, view, tools)
    steered = any(message.kind == "steer" for message in turn.messages)
    spent = view.last_round or (view.max_iterations and view.iteration >= view.max_iterations)
    todo = next((item for item in progress if item.open), None)
    if todo is not None and not steered and not spent and turn.violations < MAX_TRIES + 1:
        return _act(todo, progress, turn, view)
    reports = list(dict.fromkeys(text for item in progress if (text := _report(item, view))))
    if steered:
        reports.insert(0, "I stopped, as you asked.")
    if spent and todo is not None:
        reports.append("This was the last round of the turn, so I stop here.")
    if turn.violations > MAX_TRIES:
        reports.append(
            "My output broke the protocol several times in a row, so I end the turn instead of looping."
        )
    refs = tuple(path for call in turn.calls for path in call.paths if path.startswith("fi:"))
    return say_answer(
        thinking=_mood(turn, "Everything asked for is settled; I answer."),
        answer="\n\n".join([*reports, f"*{WHO_I_AM}*"]),
        outcome="stopped" if steered else "answered",
        goal="; ".join(asked) or "none stated",
        notes=_last_marks(progress),
        refs=tuple(dict.fromkeys(refs)),
    )


def _match(goals: list[Goal], view: View, tools: Collection[str]) -> list[_Progress]:
    """Give each step the calls that served it: in order, each call once, a failed try and the next together."""
    left = list(view.current.calls)
    progress: list[_Progress] = []
    for goal in goals:
        source = find_source(goal, view) if goal.totals else ""
        for step in goal.steps:
            tries: list[Call] = []
            while step in _TOOLS and not any(call.result and not call.failed for call in tries):
                n = next((n for n, call in enumerate(left) if call.tool == _TOOLS[step]), None)
                if n is None:
                    break
                tries.append(left.pop(n))
            files = files_needed(goal, source, view) if step == "pull" else [source] if source else []
            pulled = next((item for item in progress if item.goal is goal and item.step == "pull"), None)
            blocked = _obstacle(goal, step, source, tools)
            if step == "exec" and pulled and pulled.tries and not pulled.call and not pulled.open:
                blocked = "The program did not run, because its files could not be pulled."
            progress.append(
                _Progress(goal=goal, step=step, tries=tuple(tries), files=tuple(files), blocked=blocked)
            )
    return progress


def _obstacle(goal: Goal, step: Step, source: str, tools: Collection[str]) -> str:
    """Return why a step cannot be done; a program that cannot run needs no files either."""
    needed = [_TOOLS["exec"], _TOOLS[step]] if step == "pull" else [_TOOLS[step]] if step in _TOOLS else []
    if missing := next((tool for tool in needed if tool not in tools), ""):
        what = "Running programs" if missing == EXEC_TOOL else f"`{missing}`"
        return f"{what} is not available here."
    if step in ("pull", "exec") and goal.totals and not source:
        return f"I see no file `{goal.data}`." if goal.data else "I see no CSV file to work on."
    return ""


def _act(todo: _Progress, progress: list[_Progress], turn: TurnView, view: View) -> str:
    goal, planned = todo.goal, any(p.step == "plan" and p.call for p in progress if p.goal is todo.goal)
    params: dict[str, Any]
    notes = code = ""
    match todo.step:
        case "plan":
            thinking, params = "I lay out a plan first.", {"mode": "new", "steps": _plan_steps(goal)}
        case "write":
            thinking = f"Now I write {goal.file_name}."
            params = {"path": goal.file_name, "channel": "canvas", "content": _content(goal), "kind": "file"}
            notes = f"✓ [1] {_plan_steps(goal)[0]}" if planned else f"Writing {goal.file_name}"
        case "pull":
            thinking, params = "The program needs files of an earlier turn.", {"paths": list(todo.files)}
        case "exec":
            thinking, params = "Now I run the program.", run_params(goal)
            code = totals_program(todo.files[0], turn.turn_id) if goal.totals else goal.code
            notes = "Computing the monthly totals" if goal.totals else "Running the program"
        case _:
            path = _read_path(todo, progress, turn, view)
            thinking, params = (
                f"I read {path.rpartition('/')[2]} to see what is really there.",
                {"paths": [path]},
            )
            notes = f"✓ [2] {goal.file_name} is written" if planned and goal.plan_steps > 1 else ""
    return say_call(
        thinking=_mood(turn, thinking), tool=_TOOLS[todo.step], params=params, notes=notes, code=code
    )


def _last_marks(progress: list[_Progress]) -> str:
    """Return the mark of the last step of a plan whose file was read back."""
    done = {item.step for item in progress if item.call}
    planned = next((item.goal for item in progress if item.step == "plan" and item.call), None)
    if planned is None or planned.plan_steps != len(_PLANNED) or not {"write", "read"} <= done:
        return ""
    return f"✓ [{planned.plan_steps}] read back and reported"


def _mood(turn: TurnView, thinking: str) -> str:
    if turn.violations:
        return f"My last output broke the protocol; this time in the right form. {thinking}"
    if turn.messages and turn.messages[-1].kind == "followup":
        return f"A followup came in; I take it into account. {thinking}"
    return thinking


def _plan_steps(goal: Goal) -> list[str]:
    known = list(_PLANNED) if "write" in goal.steps else []
    named = [*known, *(f"Step {n}: {quote(goal.message, limit_chars=60)}" for n in range(len(known) + 1, 13))]
    return named[: goal.plan_steps]


def _content(goal: Goal) -> str:
    if not goal.word and "plan" not in goal.steps:
        return f"{goal.text}\n"
    steps = [f"{n}. {step}" for n, step in enumerate(_plan_steps(goal), 1)]
    return "\n".join(["# Plan", "", *steps, "", *([f"Word: {goal.word}", ""] if goal.word else [])])


def _read_path(todo: _Progress, progress: list[_Progress], turn: TurnView, view: View) -> str:
    goal = todo.goal
    written = next((p.call for p in progress if p.goal is goal and p.step == "write" and p.call), None)
    wanted = goal.read_path or goal.file_name
    if re.match(r"[a-z]{2}:", wanted):
        return wanted
    calls = [written] if written else [call for seen in view.turns for call in seen.calls]
    known = [path for call in calls for path in call.paths if path.startswith("fi:")]
    named = [path for path in known if path.endswith(f"/{wanted}")]
    return (named or known[-1:] or [f"fi:{turn.turn_id}.outputs/{wanted}"])[-1]


def _report(item: _Progress, view: View) -> str:
    match item.step:
        case "chat":
            return f"You wrote: “{quote(item.goal.message)}”\n\nThat is beyond my rules. {WHAT_I_CAN}"
        case "recall":
            return _recall(view)
        case "exec" if item.tries:
            return report_run(item.goal, item.tries[-1], item.files[0] if item.files else "")
        case "pull" if item.call or not item.files:
            return item.blocked
        case _:
            return item.blocked or _report_call(item, view)


def _report_call(item: _Progress, view: View) -> str:
    goal, call = item.goal, item.call
    if call is None:
        why = quote(item.tries[-1].result, limit_chars=200) if item.tries else "it was not reached"
        return f"The {item.step} did not happen: {why}."
    path = next((p for p in call.paths if not p.startswith("tc:")), goal.read_path or goal.file_name)
    match item.step:
        case "plan":
            return "The plan:\n" + "\n".join(f"{n}. {step}" for n, step in enumerate(_plan_steps(goal), 1))
        case "write":
            return f"I wrote `{path}`."
        case _:
            return _report_read(goal, call, path, view)


def _report_read(goal: Goal, call: Call, path: str, view: View) -> str:
    # What is in sight already is not shown again; the status says where it stands.
    content = call.content or next(
        (text for at in call.paths if (text := view.text_at(at)) and _is_body(at)), ""
    )
    if not content:
        return f"I could not read `{path}`: {quote(call.result, limit_chars=300)}"
    if not goal.word:
        return f"`{path}` says: “{quote(content, limit_chars=400)}”"
    found = _WORD_LINE.search(content)
    read = f"the word in it is **{found['word']}**" if found else "I found no line that names the word"
    return f"I read `{path}` back: {read}."


def _is_body(path: str) -> bool:
    return not path.endswith((".result", ".notice", ".call"))


def _recall(view: View) -> str:
    said = [message.text for turn in view.turns[:-1] for message in turn.messages if message.text]
    if not said:
        return "Nothing before this message is visible to me."
    rows = "\n".join(f"- “{quote(text, limit_chars=160)}”" for text in said[-5:])
    return f"Before this you said:\n{rows}"
