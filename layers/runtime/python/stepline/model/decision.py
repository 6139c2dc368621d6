"""What the model decided, as values."""

from __future__ import annotations

from typing import Any, Literal

from stepline.model.base import Value


class ToolCall(Value):
    """One tool the model asks for, with its parameters in the order the model wrote them."""

    tool_id: str
    params: dict[str, Any]


class Action(Value):
    """One accepted tool call of a round; `call_id` is the same on every retry of the round."""

    index: int
    call_id: str
    tool_id: str
    params: dict[str, Any]
    code: str | None = None


class Notice(Value):
    """A correction the model reads next round. `code` is stable, `extra` is JSON."""

    code: str
    message: str
    extra: dict[str, Any] = {}


class ParsedDecision(Value):
    """One decision object, read and checked."""

    action: Literal["call_tool", "complete", "exit"]
    notes: str = ""
    tool_call: ToolCall | None = None
    final_answer: str | None = None
    suggested_followups: tuple[str, ...] = ()
