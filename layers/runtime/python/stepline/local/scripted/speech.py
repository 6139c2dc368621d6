"""Rounds of the scripted model, in the format of the protocol."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from stepline.model.base import Value

NOT_AN_AI: Final = "I am Stepline's scripted model, not an AI"
WHO_I_AM: Final = f"{NOT_AN_AI}: to talk to a real one, set `ANTHROPIC_API_KEY` and run `stepline up` again."
TITLE_CHARS: Final = 60


class Saying(Value):
    """One tool call in a round; `code` is the program that the tool runs.

    The next round shows `artifacts` and `skills` in full, in the layout `journal`.
    """

    tool: str
    params: dict[str, Any]
    thinking: str = "I do what the script says."
    notes: str = ""
    code: str = ""
    artifacts: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()


def render_calls(calls: Sequence[Saying]) -> str:
    """Return a round that calls these tools in order."""
    return _render(calls) + ("" if any(call.code for call in calls) else channel("code", ""))


def render_answer(
    answer: str,
    *,
    notes: str,
    calls: Sequence[Saying],
    asked: str,
    files: Sequence[str],
    suggestions: Sequence[str],
) -> str:
    """Return a round that completes the turn, after `calls` if any.

    `notes` hold plan marks only. The turn's working summary has the request and the turn's files.
    """
    decision = {
        "action": "complete",
        "notes": notes,
        "final_answer": answer,
        "suggested_followups": list(suggestions),
    }
    summary = (
        f"Title: {plain(quote_line(asked, limit_chars=TITLE_CHARS))}\nGoal: {plain(asked)}\nOutcome: answered\n"
        f"Refs: {', '.join(files) or 'none'}\nRetrieval anchors: phrases[scripted model], entities[]"
    )
    before = _render(calls) if calls else channel("thinking", "Everything asked for is settled; I answer.")
    return before + _decision(decision) + channel("code", "") + channel("summary", summary)


def quote_line(text: str, *, limit_chars: int = 300) -> str:
    """Return text on one line, shortened for a quotation in an answer."""
    line = " ".join(text.split())
    return line if len(line) <= limit_chars else f"{line[: limit_chars - 1].rstrip()}…"


def plain(text: str) -> str:
    """Return text on one line, at most 400 characters, without anything that a parser might mistake for a tag."""
    return quote_line(text, limit_chars=400).replace("<", "(").replace(">", ")").replace("`", "'")


def channel(name: str, body: str) -> str:
    """Return a channel of the protocol."""
    return f"<channel:{name}>{body}</channel:{name}>"


def _render(calls: Sequence[Saying]) -> str:
    parts = [channel("thinking", plain(" ".join(dict.fromkeys(call.thinking for call in calls))))]
    for call in calls:
        named = {"notes": call.notes} if call.notes else {}
        staged = {"show_artifacts": list(call.artifacts), "show_skills": list(call.skills)}
        shown = {name: paths for name, paths in staged.items() if paths}
        called = {"tool_id": call.tool, "params": call.params}
        parts.append(_decision({"action": "call_tool", **named, "tool_call": called, **shown}))
        parts.extend([channel("code", call.code)] if call.code else [])
    return "".join(parts)


def _decision(decision: dict[str, Any]) -> str:
    body = json.dumps(decision, ensure_ascii=False, indent=2)
    # Quoted text may contain protocol tags; as escapes they stay data in any parser.
    return channel("ReactDecisionOutV2", f"```json\n{body.replace('<', chr(92) + 'u003c')}\n```")
