"""The words of the scripted model, in the shape the protocol asks for."""

from __future__ import annotations

import json
from typing import Any, Final

WHO_I_AM: Final = (
    "I am Stepline's scripted model: a small program with fixed rules, not an AI. "
    "To talk to a real model, set `ANTHROPIC_API_KEY` and run `stepline up` again."
)
WHAT_I_CAN: Final = (
    "What I do know: *make a plan with three steps, write it to a file with the word tulip in it and read it "
    "back* · *write a file note.md with some text* · *read note.md* · *write a CSV of sales over six months to "
    "sales.csv* · *compute the monthly totals of sales.csv and draw a chart* · *run this program:* with a block of "
    "Python · *what did I say before?*"
)
_CHANNEL: Final = "<channel:{name}>{body}</channel:{name}>"


def say_call(*, thinking: str, tool: str, params: dict[str, Any], notes: str = "", code: str = "") -> str:
    """Return a round that calls one tool; `code` is the program that the tool runs."""
    decision: dict[str, Any] = {"action": "call_tool"}
    if notes:
        decision["notes"] = notes
    decision["tool_call"] = {"tool_id": tool, "params": params}
    return _round(thinking, decision, code)


def say_answer(
    *, thinking: str, answer: str, outcome: str, goal: str, notes: str = "", refs: tuple[str, ...] = ()
) -> str:
    """Return a round that completes the turn, with its working summary; `notes` hold plan marks only."""
    decision = {
        "action": "complete",
        "notes": notes,
        "final_answer": answer,
        "suggested_followups": ["Read the file again", "Write another file"]
        if refs
        else ["Make a plan with three steps"],
    }
    summary = "\n".join(
        [
            f"Goal: {_plain(goal)}",
            f"Outcome: {_plain(outcome)}",
            f"Refs: {', '.join(refs) or 'none'}",
            "Retrieval anchors: phrases[scripted model], entities[]",
        ]
    )
    return _round(thinking, decision) + _CHANNEL.format(name="summary", body=summary)


def quote(text: str, *, limit_chars: int = 300) -> str:
    """Return a text on one line and not too long, for quoting in an answer."""
    line = " ".join(text.split())
    return line if len(line) <= limit_chars else f"{line[: limit_chars - 1].rstrip()}…"


def _round(thinking: str, decision: dict[str, Any], code: str = "") -> str:
    body = json.dumps(decision, ensure_ascii=False, indent=2)
    # Quoted text may hold tags of the protocol; written as escapes they stay data in any parser.
    fenced = f"```json\n{body.replace('<', chr(92) + 'u003c')}\n```"
    return (
        _CHANNEL.format(name="thinking", body=_plain(thinking))
        + _CHANNEL.format(name="ReactDecisionOutV2", body=fenced)
        + _CHANNEL.format(name="code", body=code)
    )


def _plain(text: str) -> str:
    return quote(text, limit_chars=400).replace("<", "(").replace(">", ")").replace("`", "'")
