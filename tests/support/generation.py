"""Generations as a model writes them. Only the test kit spells the channels' tags, and tests of that spelling."""

from __future__ import annotations

import json
from typing import Any, Final

from stepline.protocol.decision.spell import end_tag, start_tag, tagged
from stepline.protocol.parser.grammar import DECISION as DECISION_CHANNEL
from stepline.testing import Decision, call_tool

__all__ = [
    "BROKEN", "DECISION", "PROGRAM", "answer_of", "answered", "call_of", "called", "coded", "decided", "end_tag", "said",
    "start_tag", "tagged",
]  # fmt: skip

DECISION: Final = DECISION_CHANNEL.name
PROGRAM: Final = "exec_tools.execute_code_python"


def decided(decision: dict[str, Any] | str) -> str:
    """Return the channel of a decision; a text is its unchanged body."""
    return tagged(DECISION, decision if isinstance(decision, str) else json.dumps(decision))


def said(*decisions: dict[str, Any] | str, thinking: str = "Let me see.") -> str:
    """Return a generation that thinks and decides."""
    return Decision(decisions, thinking=thinking).text


def answer_of(text: str, **fields: Any) -> dict[str, Any]:
    """Return a decision that completes the turn."""
    return {"action": "complete", "final_answer": text, **fields}


def call_of(tool_id: str, params: dict[str, Any] | None = None, *, notes: str = "") -> dict[str, Any]:
    """Return a decision that calls a tool."""
    return {"action": "call_tool", "notes": notes, "tool_call": {"tool_id": tool_id, "params": params or {}}}


def answered(text: str, **fields: Any) -> str:
    """Return a generation that answers."""
    return said(answer_of(text, **fields))


def called(tool_id: str, params: dict[str, Any] | None = None, *, notes: str = "", **staged: Any) -> str:
    """Return a generation that calls a tool; `staged` are the contents that it stages."""
    return call_tool(tool_id, params, notes=notes, **staged).text


def coded(code: str, *filenames: str, notes: str = "", **params: Any) -> str:
    """Return a generation that runs a program for these files."""
    contract = [{"filename": name, "description": f"what {name} holds"} for name in filenames]
    decision = called(PROGRAM, {"contract": contract, **params}, notes=notes)
    return f"{decision}\n{tagged('code', code)}"


BROKEN: Final = said("{not json", thinking="")
