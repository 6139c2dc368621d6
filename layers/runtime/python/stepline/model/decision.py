"""Decisions of the model in a round, approval rules and verdicts, notices, and the modes for several actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from stepline.model.base import Value
from stepline.model.block import Body

ActionName: TypeAlias = Literal["call_tool", "complete", "exit"]

ApprovalRule: TypeAlias = Literal["always", "never", "first_use"]
"""When a call needs a person: each time, not at all, or until one was approved in the conversation."""

ApprovalVerdict: TypeAlias = Literal["approved", "edited", "denied", "expired", "withdrawn"]
"""The answer to a request for an approval; `expired` came too late, and a steer withdraws the request."""

Reaction: TypeAlias = Literal["ok", "not_ok", "neutral"]
Origin: TypeAlias = Literal["user", "machine"]
"""Who gives feedback on a turn."""

FEEDBACK_CHARS: Final = 1_000
"""The longest text of feedback, which is the most that the model reads of it."""


class ToolCall(Value):
    """The requested tool call; `params` keep the model's order."""

    tool_id: str
    params: dict[str, Any]


class Action(Value):
    """One action of a round, recorded before it runs. A repeated run has the same id.

    `bound` are the contents of the references in its parameters, by path: every run gets the same.
    """

    call_id: str
    tool_id: str
    params: dict[str, Any]
    code: str | None = None
    bound: dict[str, Body] = msgspec.field(default_factory=dict)


class Notice(Value):
    """A message to the model for the next round: a stable `code`, a self-contained sentence, and its facts."""

    code: str
    message: str
    extra: dict[str, Any] = msgspec.field(default_factory=dict)


class Declined(Value):
    """The refusal of a model, or of its provider's safeguards, to answer a request.

    `category` and `explanation` are those of the provider, or empty. `fallback`: the role has another model,
    which is called next.
    """

    category: str = ""
    explanation: str = ""
    fallback: bool = False


class ParsedDecision(Value):
    """One valid decision. `final_answer` is set exactly for `complete` and `exit`.

    A call may stage content to show in full.
    """

    action: ActionName
    notes: str = ""
    tool_call: ToolCall | None = None
    final_answer: str | None = None
    suggested_followups: tuple[str, ...] = ()
    show_artifacts: tuple[str, ...] = ()
    show_skills: tuple[str, ...] = ()


FanoutMode: TypeAlias = Literal["off", "safe_fanout", "read_write_search"]

FANOUT_MODES: Final[Mapping[str, FanoutMode]] = {
    **dict.fromkeys(("off", "false", "0", "no"), "off"),
    **dict.fromkeys(("safe_fanout", "fanout", "on", "true", "1", "yes"), "safe_fanout"),
    "read_write_search": "read_write_search",
}
"""The accepted names of each mode."""
