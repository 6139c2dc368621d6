"""The registry of an agent's tools, and the way to run a recorded action."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from stepline.errors import NotFoundError, PathError, ToolError
from stepline.model.block import Body
from stepline.model.decision import Action
from stepline.model.file.charset import UTF_8, charset_of
from stepline.ports.artifacts import Artifacts
from stepline.protocol.decision.call_check import Position, binds, new_name, replace_references
from stepline.tools.context import ToolContext, ToolOutput
from stepline.tools.window import decode_pieces

if TYPE_CHECKING:
    from stepline.tools.spec import ToolEffect, ToolSpec

ToolFunction: TypeAlias = Callable[[Mapping[str, Any], ToolContext], ToolOutput]
TaskFunction: TypeAlias = Callable[[str, ToolContext], ToolOutput]
"""Takes the id of a call's task. Raises ToolError."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A contract and the function that fulfils it. `run` gets parameters that the schema has accepted.

    The function of an isolated tool runs nothing: it returns, as `ret`, the grant with which the call runs in the jail.

    `poll` returns the result of a task that `run` returned, or the task while it continues; `cancel` ends it.
    """

    spec: ToolSpec
    run: ToolFunction
    poll: TaskFunction | None = None
    cancel: Callable[[str, ToolContext], None] | None = None


class Registry:
    """Tools by id, in catalogue order."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        """Register the tools. Raises ValueError for a duplicate id."""
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if tool.spec.tool_id in self._tools:
                raise ValueError(f"two tools are called {tool.spec.tool_id}")
            self._tools[tool.spec.tool_id] = tool

    def __contains__(self, tool_id: object) -> bool:
        return tool_id in self._tools

    @property
    def tools(self) -> tuple[Tool, ...]:
        """All tools."""
        return tuple(self._tools.values())

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The contracts of all tools."""
        return tuple(tool.spec for tool in self._tools.values())

    def effect(self, tool_id: str) -> ToolEffect:
        """Return a tool's effect class; `pure` for one that is unknown or was removed, which is refused."""
        tool = self._tools.get(tool_id)
        return tool.spec.effect if tool else "pure"

    def runs_program(self, action: Action) -> bool:
        """Return True if an action runs as a program: the model's own, or the call of an isolated tool."""
        tool = self._tools.get(action.tool_id)
        return action.code is not None or (tool is not None and tool.spec.isolated)

    def find(self, tool_id: str) -> Tool:
        """Return a tool by its id. Raises ToolError `unknown_tool_id`."""
        if tool_id not in self._tools:
            renamed = new_name(tool_id, self._tools)
            wrong = f"{tool_id} is now {renamed}" if renamed else f"there is no tool {tool_id[:80]!r}"
            raise ToolError(
                f"{wrong}; there are {', '.join(self._tools)}",
                code="unknown_tool_id",
            )
        return self._tools[tool_id]


def run_tool(registry: Registry, action: Action, context: ToolContext) -> ToolOutput:
    """Run one recorded action.

    A call that the tool refuses returns an error that the model reads and can correct. Every other
    error (a service that fails, a bug) propagates, because it is not the model's.
    """
    try:
        tool = registry.find(action.tool_id)
        params = bind_references(tool.spec, action, context.artifacts)
        check_call_params(tool.spec, params)
        return tool.run(params, context)
    except (ToolError, PathError) as refused:
        return refuse_call(refused, action.tool_id, context)


def bind_references(spec: ToolSpec, action: Action, artifacts: Artifacts) -> Mapping[str, Any]:
    """Return the action's parameters with each reference replaced by its content.

    Rows of the pool are a list. Any other content is its text, or its parsed JSON if the tool accepts no text.

    Raises ToolError `ref_not_bound`, `body_missing`, `content_not_text`.
    """
    if not binds(spec.tool_id, runs_code=spec.runs_code):
        return action.params

    def content(path: str, at: Position) -> Any:
        from stepline.tools.parameter import accepts_text  # noqa: PLC0415 - few calls refer to anything

        text = _text_of(path, action.bound.get(path), artifacts)
        if not path.startswith("so:") and accepts_text(spec.schema, at):
            return text
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            return text  # the tool's contract refuses it

    bound: dict[str, Any] = replace_references(action.params, content)
    return bound


def _text_of(path: str, body: Body | None, artifacts: Artifacts) -> str:
    if body is None:
        raise ToolError(f"{path[:200]} was not bound when the call was decided", code="ref_not_bound")
    try:
        return "".join(decode_pieces([artifacts.get(body.key)], charset_of(body.mime) or UTF_8))
    except NotFoundError as error:
        raise ToolError(f"the bytes of {path[:200]} are gone from the store", code="body_missing") from error
    except UnicodeDecodeError as error:
        raise ToolError(f"{path[:200]} is no text", code="content_not_text") from error


def check_call_params(spec: ToolSpec, params: Mapping[str, Any]) -> None:
    """Refuse a call that breaks the tool's contract. Raises ToolError `bad_params` or `<param>_not_<ordinal>`."""
    if problems := spec.validate(params):
        raise ToolError("; ".join(problems), code="bad_params")
    if codes := spec.misplaced(params):
        raise ToolError(f"write the parameters in this order: {', '.join(spec.key_order)}", code=codes[0])


def refuse_call(
    refused: ToolError | PathError, tool_id: str, context: ToolContext, *, notice: str = ""
) -> ToolOutput:
    """Return the output of a refused call; `notice` overrides the error's code in the notice."""
    code, message = refused.reason, str(refused)
    facts = {key: value for key, value in refused.context.items() if value is not None}
    block = context.notice(tool_id, notice or code, message, facts)
    status = context.result(tool_id, {"status": "error", "error": {"code": code}})
    return ToolOutput(status="error", blocks=(block, status), error={"code": code, "message": message})
