"""What an answer says of each step: in the words of what the tools returned, not of what was asked for."""

from __future__ import annotations

import re
from typing import Final

from stepline.local.scripted.draft import plan_steps
from stepline.local.scripted.goal import Goal
from stepline.local.scripted.program import report_run
from stepline.local.scripted.progress import Progress
from stepline.local.scripted.reading import Call, View
from stepline.local.scripted.search import report_search
from stepline.local.scripted.speech import WHAT_I_CAN, quote

_WORD_LINE: Final = re.compile(r"^[^\w\n]*Word:\s*(?P<word>\S+)[^\S\n]*$", re.MULTILINE)


def report(item: Progress, view: View, *, doing: bool = False) -> str:
    """Return what is to be said of a step, empty if that is nothing; `doing` says that this round does it."""
    match item.step:
        case "plan" if doing:
            return _report_plan(item)
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


def _report_call(item: Progress, view: View) -> str:
    goal, call = item.goal, item.call
    if call is None:
        why = quote(item.tries[-1].result, limit_chars=200) if item.tries else "it was not reached"
        return f"The {item.step} did not happen: {why}."
    path = next((p for p in call.paths if not p.startswith("tc:")), goal.read_path or goal.file_name)
    match item.step:
        case "plan":
            return _report_plan(item)
        case "search":
            return report_search(goal, call)
        case "write":
            return f"I wrote `{path}`."
        case _:
            return _report_read(goal, call, path, view)


def _report_plan(item: Progress) -> str:
    name = "The plan" if item.nth == 1 else f"Plan {item.nth}"
    steps = "\n".join(f"{n}. {step}" for n, step in enumerate(plan_steps(item.goal, item.nth), 1))
    return f"{name}:\n{steps}"


def _report_read(goal: Goal, call: Call, path: str, view: View) -> str:
    # What is in sight already is not shown again; the status says where it stands.
    content = call.content or next(
        (text for at in call.paths if (text := view.text_at(at)) and _is_body(at)), ""
    )
    if not content:
        return f"I could not read `{path}`: {quote(call.result, limit_chars=300)}"
    if not goal.word or goal.reads_another:
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
