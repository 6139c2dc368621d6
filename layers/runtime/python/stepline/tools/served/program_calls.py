"""Calls that a bundle declares for its programs, in addition to the tools for programs: a function makes them.

    class Shop(BaseWorkflow):
        program_calls = ProgramCalls(tools=("react.memsearch", "mcp.crm.*"), roles=("shop.classify",))

Source: docs/how-to/run-programs.md#let-programs-call-more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Final

from stepline.errors import InputError
from stepline.model.base import Value
from stepline.model.program.execution import ServedGrant
from stepline.tools.registry import Tool
from stepline.tools.served.ask_model import ASK_MODEL, ask_model_tool
from stepline.tools.spec import OWN_PREFIX, ToolSpec

MCP_PREFIX: Final = "mcp."
ALL: Final = ".*"
_SEARCHES: Final = frozenset({"react.memsearch", "react.search_knowledge"})
"""The tools of the runtime that programs may get; the others change what the agent itself sees."""


class ProgramCalls(Value):
    """The calls that a function makes for the bundle's programs.

    `tools` are ids: `react.memsearch`, `react.search_knowledge`, a tool of the bundle, a tool of an MCP server, or
    `mcp.<alias>.*` for all of a server's. `roles` are those by which programs may ask the model; without roles they
    cannot. A run has at most `calls`, among them at most `model_calls` of the model, with `model_tokens` tokens and
    `model_usd` dollars.
    """

    tools: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    calls: int = 50
    model_calls: int = 20
    model_tokens: int = 200_000
    model_usd: float = 1.0

    @property
    def limits(self) -> ServedGrant:
        """The limits of a run; its tools are added when it is planned."""
        return ServedGrant(
            calls=self.calls,
            model_calls=self.model_calls,
            model_tokens=self.model_tokens,
            model_usd=self.model_usd,
        )

    def grant(self, tools: Iterable[Tool]) -> tuple[Tool, ...]:
        """Return an agent's tools with the declared ones marked, and with the model's if there are roles.

        Raises InputError `program_tool_invalid`: a name is that of no tool, or of one that programs never call.
        """
        made = (*tools, *([ask_model_tool(self.roles)] if self.roles else ()))
        known = {tool.spec.tool_id: tool.spec for tool in made}
        for name in self.tools:
            if not name.startswith(MCP_PREFIX) and not _may_have(known.get(name)):
                raise InputError(
                    f"program_calls: {name[:80]!r} is no tool that a function can call for programs",
                    code="program_tool_invalid",
                )
        return tuple(self._marked(tool) for tool in made)

    def _marked(self, tool: Tool) -> Tool:
        name = tool.spec.tool_id
        server = f"{name.rpartition('.')[0]}{ALL}" if name.startswith(MCP_PREFIX) else ""
        if name not in (ASK_MODEL, *self.tools) and server not in self.tools:
            return tool
        return dataclasses.replace(tool, spec=dataclasses.replace(tool.spec, in_exec=True, served=True))


def _may_have(spec: ToolSpec | None) -> bool:
    if spec is None or spec.isolated or spec.runs_code:
        return False
    return not spec.tool_id.startswith(OWN_PREFIX) or spec.tool_id in _SEARCHES
