"""The words of the scripted model, in the shape the protocol asks for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from stepline.model.base import Value

NOT_AN_AI: Final = "I am Stepline's scripted model: a small program with fixed rules, not an AI."
WHO_I_AM: Final = f"{NOT_AN_AI} To talk to a real model, set `ANTHROPIC_API_KEY` and run `stepline up` again."
WHAT_I_CAN: Final = (
    "What I do know: *make a plan with three steps, write it to a file with the word tulip in it and read it "
    "back* · *write a file note.md with some text* · *read note.md* · *write a CSV of sales over six months to "
    "sales.csv* · *compute the monthly totals of sales.csv and draw a chart* · *run this program:* with a block of "
    "Python · *search for prompt caching and tell me what you find* · *write a file lake.md with the word reed in it, "
    "read note.md and make two plans, all in one round* · *what did I say before?*"
)
TITLE_CHARS: Final = 60


class Saying(Value):
    """One call of a tool, as a round says it; `code` is the program that the tool runs."""

    tool: str
    params: dict[str, Any]
    notes: str = ""
    code: str = ""

    @property
    def channels(self) -> str:
        """The decision, and its program behind it."""
        decision: dict[str, Any] = {"action": "call_tool"}
        if self.notes:
            decision["notes"] = self.notes
        decision["tool_call"] = {"tool_id": self.tool, "params": self.params}
        return _decision(decision) + (channel("code", self.code) if self.code else "")


def say_calls(*, thinking: str, calls: Sequence[Saying]) -> str:
    """Return a round that calls tools, in this order."""
    empty = "" if any(call.code for call in calls) else channel("code", "")
    return channel("thinking", plain(thinking)) + "".join(call.channels for call in calls) + empty


def say_answer(
    *,
    thinking: str,
    answer: str,
    outcome: str,
    goal: str,
    notes: str = "",
    refs: tuple[str, ...] = (),
    calls: Sequence[Saying] = (),
) -> str:
    """Return a round that completes the turn, with its working summary; `notes` hold plan marks only.

    `calls` stand before the answer and may be of tools that look at nothing and produce nothing.
    """
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
            f"Title: {plain(quote(goal, limit_chars=TITLE_CHARS))}",
            f"Goal: {plain(goal)}",
            f"Outcome: {plain(outcome)}",
            f"Refs: {', '.join(refs) or 'none'}",
            "Retrieval anchors: phrases[scripted model], entities[]",
        ]
    )
    before = channel("thinking", plain(thinking)) + "".join(call.channels for call in calls)
    return before + _decision(decision) + channel("code", "") + channel("summary", summary)


def quote(text: str, *, limit_chars: int = 300) -> str:
    """Return a text on one line and not too long, for quoting in an answer."""
    line = " ".join(text.split())
    return line if len(line) <= limit_chars else f"{line[: limit_chars - 1].rstrip()}…"


def _decision(decision: dict[str, Any]) -> str:
    body = json.dumps(decision, ensure_ascii=False, indent=2)
    # Quoted text may hold tags of the protocol; written as escapes they stay data in any parser.
    return channel("ReactDecisionOutV2", f"```json\n{body.replace('<', chr(92) + 'u003c')}\n```")


def channel(name: str, body: str) -> str:
    """Return a channel of the protocol."""
    return f"<channel:{name}>{body}</channel:{name}>"


def plain(text: str) -> str:
    """Return a text on one line, of at most 400 characters, without anything that a parser might take for a tag."""
    return quote(text, limit_chars=400).replace("<", "(").replace(">", ")").replace("`", "'")
