"""Generations as a model writes them. The only place that spells a channel's tag, but for tests of that spelling."""

from __future__ import annotations

import json
from typing import Any, Final

DECISION: Final = "ReactDecisionOutV2"
PROGRAM: Final = "exec_tools.execute_code_python"


def start_tag(channel: str) -> str:
    return f"<channel:{channel}>"


def end_tag(channel: str) -> str:
    return f"</channel:{channel}>"


def tagged(channel: str, body: str) -> str:
    """Return a channel with its body."""
    return f"{start_tag(channel)}{body}{end_tag(channel)}"


def decided(decision: dict[str, Any] | str) -> str:
    """Return the channel of a decision; a text is its body as it is."""
    return tagged(DECISION, decision if isinstance(decision, str) else json.dumps(decision))


def said(*decisions: dict[str, Any] | str, thinking: str = "Let me see.") -> str:
    """Return a generation that thinks and decides."""
    return "\n".join([tagged("thinking", thinking), *map(decided, decisions)])


def answer_of(text: str, **fields: Any) -> dict[str, Any]:
    """Return a decision that completes the turn."""
    return {"action": "complete", "final_answer": text, **fields}


def call_of(tool_id: str, params: dict[str, Any] | None = None, *, notes: str = "") -> dict[str, Any]:
    """Return a decision that calls a tool."""
    return {"action": "call_tool", "notes": notes, "tool_call": {"tool_id": tool_id, "params": params or {}}}


def answered(text: str, **fields: Any) -> str:
    """Return a generation that answers."""
    return said(answer_of(text, **fields))


def called(tool_id: str, params: dict[str, Any] | None = None, *, notes: str = "") -> str:
    """Return a generation that calls a tool."""
    return said(call_of(tool_id, params, notes=notes))


def coded(code: str, *filenames: str, notes: str = "", **params: Any) -> str:
    """Return a generation that runs a program for these files."""
    contract = [{"filename": name, "description": f"what {name} holds"} for name in filenames]
    decision = called(PROGRAM, {"contract": contract, **params}, notes=notes)
    return f"{decision}\n{tagged('code', code)}"


BROKEN: Final = said("{not json", thinking="")
