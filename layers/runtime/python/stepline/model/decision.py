"""What the model decided in a round, and what it is told when a decision breaks the protocol.

The modes of a round: whether it may take several actions, and the words in which a deployment says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from stepline.model.base import Value

ActionName: TypeAlias = Literal["call_tool", "complete", "exit"]


class ToolCall(Value):
    """The tool the model asks for; `params` keep the order in which the model wrote them."""

    tool_id: str
    params: dict[str, Any]


class Action(Value):
    """One thing for a round to run: recorded before it runs, named so that running it again is the same run."""

    call_id: str
    tool_id: str
    params: dict[str, Any]
    code: str | None = None


class Notice(Value):
    """What the model reads next round: a stable `code`, a message that stands alone, and the facts behind it."""

    code: str
    message: str
    extra: dict[str, Any] = msgspec.field(default_factory=dict)


class ParsedDecision(Value):
    """One decision that keeps the protocol. `final_answer` is set exactly for `complete` and `exit`."""

    action: ActionName
    notes: str = ""
    tool_call: ToolCall | None = None
    final_answer: str | None = None
    suggested_followups: tuple[str, ...] = ()


FanoutMode: TypeAlias = Literal["off", "safe_fanout", "classic"]

FANOUT_MODES: Final[Mapping[str, FanoutMode]] = {
    **dict.fromkeys(("off", "false", "0", "no"), "off"),
    **dict.fromkeys(("safe_fanout", "fanout", "on", "true", "1", "yes"), "safe_fanout"),
    "classic": "classic",
}
"""Each word that is understood, and the mode it stands for."""
