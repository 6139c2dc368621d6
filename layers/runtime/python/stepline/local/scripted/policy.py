"""Decides the next round by fixed rules: what was asked, what was done, what is left.

Deterministic: the same prompt gets the same answer. What it quotes from a file it takes from the result of reading
the file, never from the request, so that a quoted word proves that the loop ran.
"""

from __future__ import annotations

import re
from typing import Any, Final

from stepline.local.scripted.goal import Goal, Step, parse_goal
from stepline.local.scripted.prompt import Prompt
from stepline.local.scripted.reading import Call, TurnView, View, parse_view
from stepline.local.scripted.speech import WHAT_I_CAN, WHO_I_AM, quote, say_answer, say_call
from stepline.model.base import Value

PROTOCOL_MARK: Final = "ReactDecisionOutV2"
MAX_TRIES: Final = 2
_TOOLS: Final[dict[Step, str]] = {"plan": "react.plan", "write": "react.write", "read": "react.read"}
_PLANNED: Final = ("Choose what the file says", "Write the file", "Read the file back and report the word")
_WORD_LINE: Final = re.compile(r"^\W*Word:\s*(?P<word>\S+)\s*$", re.MULTILINE)


class _Progress(Value):
    """One step of a goal and the calls that served it."""

    goal: Goal
    step: Step
    tries: tuple[Call, ...] = ()

    @property
    def call(self) -> Call | None:
        """The call that succeeded."""
        return next((call for call in self.tries if call.result and not call.failed), None)

    @property
    def open(self) -> bool:
        """Tell whether it is still worth trying."""
        return self.step in _TOOLS and self.call is None and len(self.tries) < MAX_TRIES


def answer_prompt(prompt: Prompt) -> str:
    """Return the whole answer to a request: a round of the protocol, or plain text to who does not speak it."""
    if PROTOCOL_MARK not in f"{prompt.system}\n{prompt.newest_message}":
        return f"{WHO_I_AM}\n\nYou wrote: “{quote(prompt.newest_message)}”"
    return answer_view(parse_view(prompt.newest_message))


def answer_view(view: View) -> str:
    """Return the next round of a turn."""
    turn = view.current
    asked = [message.text for message in turn.messages if message.kind != "steer"]
    goals = [parse_goal(text) for text in asked] or [parse_goal("")]
    progress = _match(goals, turn)
    steered = any(message.kind == "steer" for message in turn.messages)
    spent = view.last_round or (view.max_iterations and view.iteration >= view.max_iterations)
    todo = next((item for item in progress if item.open), None)
    if todo is not None and not steered and not spent and turn.violations < MAX_TRIES + 1:
        return _act(todo, progress, turn, view)
    reports = [_report(item, view) for item in progress]
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


def _match(goals: list[Goal], turn: TurnView) -> list[_Progress]:
    """Give each step the calls that served it: in order, each call once, a failed try and the next together."""
    left = list(turn.calls)
    progress = []
    for goal in goals:
        for step in goal.steps:
            tries: list[Call] = []
            while step in _TOOLS and not any(call.result and not call.failed for call in tries):
                n = next((n for n, call in enumerate(left) if call.tool == _TOOLS[step]), None)
                if n is None:
                    break
                tries.append(left.pop(n))
            progress.append(_Progress(goal=goal, step=step, tries=tuple(tries)))
    return progress


def _act(todo: _Progress, progress: list[_Progress], turn: TurnView, view: View) -> str:
    goal, planned = todo.goal, any(p.step == "plan" and p.call for p in progress if p.goal is todo.goal)
    params: dict[str, Any]
    notes = ""
    match todo.step:
        case "plan":
            thinking, params = "I lay out a plan first.", {"mode": "new", "steps": _plan_steps(goal)}
        case "write":
            thinking = f"Now I write {goal.file_name}."
            params = {"path": goal.file_name, "channel": "canvas", "content": _content(goal), "kind": "file"}
            notes = f"✓ [1] {_plan_steps(goal)[0]}" if planned else f"Writing {goal.file_name}"
        case _:
            path = _read_path(todo, progress, turn, view)
            thinking, params = (
                f"I read {path.rpartition('/')[2]} to see what is really there.",
                {"paths": [path]},
            )
            notes = f"✓ [2] {goal.file_name} is written" if planned and goal.plan_steps > 1 else ""
    return say_call(thinking=_mood(turn, thinking), tool=_TOOLS[todo.step], params=params, notes=notes)


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
    goal, call = item.goal, item.call
    if item.step == "chat":
        return f"You wrote: “{quote(goal.message)}”\n\nThat is beyond my rules. {WHAT_I_CAN}"
    if item.step == "recall":
        return _recall(view)
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
