"""A conversation whose agent has a tool of each effect class, with parameters."""

from __future__ import annotations

from typing import Any, Final

from stepline.tools.context import ToolContext, ToolOutput
from tests.support.conversation import Conversation, tool
from tests.support.generation import called

SEND: Final = "mail.send"
KEEP: Final = "crm.keep"
LOOK: Final = "crm.look"
EFFECTS: Final = {SEND: "once", KEEP: "keyed", LOOK: "pure"}
PARAMS: Final = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "text": {"type": "string"}},
    "additionalProperties": False,
}


def run(context: ToolContext) -> ToolOutput:
    return ToolOutput(blocks=(context.result("t", "done"),))


def office(*script: Any) -> Conversation:
    """Return a conversation whose agent has these tools."""
    conversation = Conversation(*script)
    conversation.use(*(tool(name, effect, run, schema=PARAMS) for name, effect in EFFECTS.items()))
    return conversation


def asked(tool_id: str, **params: Any) -> str:
    """Return a generation that calls a tool with parameters."""
    return called(tool_id, params)
