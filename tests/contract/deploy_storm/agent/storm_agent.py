"""The bundle of the storm: a tool of each effect class, and one that a person approves. It is the same in every release."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stepline import BaseWorkflow, Tool, ToolContext, ToolOutput, ToolSpec
from tests.contract.deploy_storm.effects import note_effect

SCHEMA: Final = {
    "type": "object",
    "properties": {"what": {"type": "string", "description": "what to do"}},
    "additionalProperties": False,
}


def _make(tool_id: str, **facts: Any) -> Tool:
    def run(params: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        what = params["what"]
        note_effect(tool_id, what)
        return ToolOutput(blocks=(context.result(tool_id, {"status": "ok", "done": what}),))

    spec = ToolSpec(
        tool_id=tool_id, purpose="Do it.", schema=SCHEMA, returns="what was done", read_only=False, **facts
    )
    return Tool(spec=spec, run=run)


TOOLS: Final = (
    _make("storm.look", effect="pure"),
    _make("storm.keep", effect="keyed"),
    _make("storm.send", effect="once"),
    _make("storm.pay", effect="once", approval="always"),
)


class StormAgent(BaseWorkflow):
    """An agent with these tools."""

    tools_module = "storm_agent"


WORKFLOW = StormAgent
