"""Decides the next round by fixed rules: what was asked, what was done, what is left.

Deterministic: the same prompt gets the same answer. What it quotes from a file it takes from the result of reading
the file, never from the request, so that a quoted word proves that the loop ran.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any, Final

from stepline.local.scripted.draft import PLANNED, draft_file, plan_steps
from stepline.local.scripted.errand import answer_errand
from stepline.local.scripted.goal import Goal, Step
from stepline.local.scripted.program import run_params, totals_program
from stepline.local.scripted.progress import TOOLS, Progress, joinable, match_progress, newest_file
from stepline.local.scripted.prompt import Prompt
from stepline.local.scripted.reading import TurnView, View, parse_view
from stepline.local.scripted.report import report
from stepline.local.scripted.search import search_params
from stepline.local.scripted.slip import spoil_prefix, spoil_quote
from stepline.local.scripted.speech import WHO_I_AM, Saying, quote, say_answer, say_calls
from stepline.local.scripted.wish import read_wish

PROTOCOL_MARK: Final = "ReactDecisionOutV2"
VIOLATIONS_MAX: Final = 2
_ROSTER: Final = re.compile(r"^\[TOOLS\] \d+ available: (?P<names>.+)$", re.MULTILINE)
_SEVERAL: Final = re.compile(r"\bseveral\s+(?:actions|decisions)\b", re.IGNORECASE)
_WORDS: Final[dict[Step, str]] = {"pull": "pull files", "exec": "run the program"}


def answer_prompt(prompt: Prompt) -> str:
    """Return the whole answer to a request: a round of the protocol, a summary or a title, or plain text."""
    if errand := answer_errand(prompt):
        return errand
    if PROTOCOL_MARK not in f"{prompt.system}\n{prompt.newest_message}":
        return f"{WHO_I_AM}\n\nYou wrote: “{quote(prompt.newest_message)}”"
    roster = _ROSTER.search(prompt.system)
    tools = roster["names"].split(", ") if roster else TOOLS.values()
    several = bool(_SEVERAL.search(prompt.system))
    return answer_view(parse_view(prompt.newest_message), tools, several=several)


def answer_view(view: View, tools: Collection[str] = tuple(TOOLS.values()), *, several: bool = False) -> str:
    """Return the next round of a turn of an agent that has these tools and allows one action a round, or several."""
    wish = read_wish(view)
    view, turn, goals = wish.view, wish.view.current, wish.goals
    progress = match_progress(goals, view, tools)
    spent = view.last_round or (view.max_iterations and view.iteration >= view.max_iterations)
    calls: list[Saying] = []
    todo = next((item for item in progress if item.open), None)
    if todo is not None and not spent and turn.violations <= VIOLATIONS_MAX:
        items = _round_of(todo, progress, turn, several=several)
        calls = [_call(item, progress, view) for item in items]
        if not _ends(items, progress, several=several):
            return _slip(say_calls(thinking=_mood(turn, _thinking(items, calls)), calls=calls), goals, turn)
    said = (text for item in progress if (text := _said(item, calls, view)))
    reports = list(dict.fromkeys([*wish.told, *said]))
    if spent and todo is not None:
        reports.append("This was the last round of the turn, so I stop here.")
    if turn.violations > VIOLATIONS_MAX:
        reports.append(
            "My output broke the protocol several times in a row, so I end the turn instead of looping."
        )
    refs = tuple(path for call in turn.calls for path in call.paths if path.startswith("fi:"))
    answer = say_answer(
        thinking=_mood(turn, "Everything asked for is settled; I answer."),
        answer="\n\n".join([*reports, f"*{WHO_I_AM}*"]),
        outcome="stopped" if wish.steered else "answered",
        goal="; ".join(wish.asked) or "none stated",
        notes=_last_marks(progress),
        refs=tuple(dict.fromkeys(refs)),
        calls=calls,
    )
    return _slip(answer, goals, turn)


def _round_of(todo: Progress, progress: list[Progress], turn: TurnView, *, several: bool) -> list[Progress]:
    """Return the steps of the next round: one, or all that go together if that was asked for.

    It is tried once; what was refused then is done one by one.
    """
    goal = todo.goal
    tried = turn.violations or any(item.tries for item in progress if item.goal is goal)
    if tried or not goal.together or not (several or goal.insists):
        return [todo]
    return joinable(todo, progress)


def _ends(items: Sequence[Progress], progress: Sequence[Progress], *, several: bool) -> bool:
    """Tell whether the answer may stand beside these steps: plans wait for nothing, and nothing waits for them."""
    return (
        several
        and items[0].goal.together
        and all(item.step == "plan" for item in items)
        and not any(item.open for item in progress if item not in items)
    )


def _thinking(items: Sequence[Progress], calls: Sequence[Saying]) -> str:
    if len(items) > 1:
        named = [_WORDS.get(item.step, item.step) for item in items]
        return f"All in one round, as asked: I {', '.join(named[:-1])} and {named[-1]}."
    item, goal = items[0], items[0].goal
    match item.step:
        case "plan":
            thinking = "I lay out a plan first." if item.nth == 1 else "And another plan."
        case "search":
            thinking = f"I search for {goal.query}."
        case "write":
            thinking = f"Now I write {goal.file_name}."
        case "pull":
            thinking = "The program needs files of an earlier turn."
        case "exec":
            thinking = "Now I run the program."
        case _:
            path = str(calls[0].params["paths"][0])
            thinking = f"I read {path.rpartition('/')[2]} to see what is really there."
    return thinking


def _call(todo: Progress, progress: Sequence[Progress], view: View) -> Saying:
    goal, turn = todo.goal, view.current
    # Marks are for the steps of the one plan that is about the file.
    planned = not goal.reads_another and any(p.step == "plan" and p.call for p in progress if p.goal is goal)
    params: dict[str, Any]
    notes = code = ""
    match todo.step:
        case "plan":
            params = {"mode": "new", "steps": plan_steps(goal, todo.nth)}
        case "search":
            params, notes = search_params(goal), f"Searching for {goal.query}"
        case "write":
            content = draft_file(goal, progress)
            params = {"path": goal.file_name, "channel": "canvas", "content": content, "kind": "file"}
            notes = f"✓ [1] {plan_steps(goal)[0]}" if planned else f"Writing {goal.file_name}"
        case "pull":
            params = {"paths": list(todo.files)}
        case "exec":
            params = run_params(goal)
            code = totals_program(todo.files[0], turn.turn_id) if goal.totals else goal.code
            notes = "Computing the monthly totals" if goal.totals else "Running the program"
        case _:
            params = {"paths": [_read_path(todo, progress, view)]}
            notes = f"✓ [2] {goal.file_name} is written" if planned and goal.plan_steps > 1 else ""
    return Saying(tool=TOOLS[todo.step], params=params, notes=notes, code=code)


def _last_marks(progress: Sequence[Progress]) -> str:
    """Return the mark of the last step of a plan whose file was read back."""
    done = {item.step for item in progress if item.call}
    planned = next((item.goal for item in progress if item.step == "plan" and item.call), None)
    if planned is None or planned.plan_steps != len(PLANNED) or not {"write", "read"} <= done:
        return ""
    if planned.reads_another or planned.steps.count("plan") > 1:
        return ""
    return f"✓ [{planned.plan_steps}] read back and reported"


def _mood(turn: TurnView, thinking: str) -> str:
    if turn.violations:
        return f"My last output broke the protocol; this time in the right form. {thinking}"
    if turn.messages and turn.messages[-1].kind == "followup":
        return f"A followup came in; I take it into account. {thinking}"
    return thinking


def _slip(text: str, goals: Sequence[Goal], turn: TurnView) -> str:
    """Make the mistake that was asked for, once."""
    wanted = next((goal.slip for goal in goals if goal.slip), "")
    if turn.violations:
        return text
    match wanted:
        case "prefix" if not turn.calls:
            return spoil_prefix(text)
        case "quote" if '"action": "complete"' in text:
            return spoil_quote(text)
        case _:
            return text


def _said(item: Progress, calls: Sequence[Saying], view: View) -> str:
    """Return what is to be said of a step; a plan of this very round is told of as it is."""
    if item.step == "plan" and item.open and calls:
        return report(item, view, doing=True)
    return report(item, view)


def _read_path(todo: Progress, progress: Sequence[Progress], view: View) -> str:
    goal = todo.goal
    if goal.older:
        return newest_file(view)
    if goal.attached:
        return view.attachments[-1]
    written = next((p.call for p in progress if p.goal is goal and p.step == "write" and p.call), None)
    wanted = goal.read_path or goal.file_name
    if re.match(r"[a-z]{2}:", wanted):
        return wanted
    calls = (
        [written] if written and not goal.reads_another else [c for seen in view.turns for c in seen.calls]
    )
    known = [*view.attachments] + [p for call in calls for p in call.paths if p.startswith("fi:")]
    named = [path for path in known if path.endswith(f"/{wanted}")]
    return (named or known[-1:] or [f"fi:{view.current.turn_id}.outputs/{wanted}"])[-1]
