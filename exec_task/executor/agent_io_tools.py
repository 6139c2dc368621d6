"""Calls from a program to the agent's tools: `await agent_io_tools.tool_call(tool_id="react.read", params={…})`.

The supervisor, outside the sandbox, runs the tool and records the call. `await` is optional: the call is made
immediately, and its result is the tool's value: a dict, list or text that you can also await to get the same value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from .proxy import ToolFunction, answer
from .wire import Client, ToolCallError

__all__ = ["ToolCallError", "tool_call"]

_client: Client | None = None
_out = ""

_DOCUMENTS: Final = "rendering_tools.write_"
"""The tools that the supervisor grants and that run here."""


def bind(client: Client, out: str = "") -> None:
    """Set the `client` for calls from this process, and the artifact root."""
    global _client, _out
    _client, _out = client, out


def tool_call(
    fn: ToolFunction | str | None = None,
    params: Mapping[str, Any] | str | None = None,
    call_reason: str = "",
    tool_id: str = "",
    filename: str = "",  # noqa: ARG001 - see below
    *,
    params_json: Mapping[str, Any] | str | None = None,
    reason: str = "",
) -> Any:
    """Call a tool and return its value.

    Args:
        fn: the tool, `react.read`, or its id; you can pass `tool_id` instead.
        params: the tool's parameters, as a mapping or as JSON; `params_json` is another name for this.
        call_reason: the reason for the call, for the record; `reason` is another name for this.
        tool_id: the tool's id, `<alias>.<name>`.
        filename: accepted for programs written for other runtimes and ignored: the record of a call has its own path.
        params_json: see `params`.
        reason: see `call_reason`.

    Raises:
        ToolCallError: the call was refused or the tool failed; it has the code of either.
        TypeError: no tool, two different tools, or parameters that are not an object.
    """
    named = fn.tool_id if isinstance(fn, ToolFunction) else fn or ""
    if named and tool_id and named != tool_id:
        raise TypeError(f"fn is {named} and tool_id is {tool_id}: which one?")
    if not (named or tool_id):
        raise TypeError("name the tool: tool_id='react.read'")
    if params is not None and params_json is not None:
        raise TypeError("give params or params_json, not both")
    return send(named or tool_id, _mapping(params_json if params is None else params), call_reason or reason)


def send(tool_id: str, params: Mapping[str, Any], reason: str = "") -> Any:
    """Make a call with its parameters as a mapping."""
    if _client is None:
        raise ToolCallError("no_supervisor", "tools can be called by the program of a run only")
    value = _client.call(tool_id, params, reason)
    if tool_id.startswith(_DOCUMENTS):
        value = _draw(tool_id, params, value)
    return answer(value)


def _draw(tool_id: str, params: Mapping[str, Any], grant: Mapping[str, Any]) -> Any:
    from .documents import draw, refusal  # noqa: PLC0415 - needs packages, and takes half a second

    try:
        return draw.draw(tool_id, params, grant, _out)
    except refusal.DocumentError as refused:
        raise ToolCallError(refused.code, refused.message) from refused


def run_granted(call: str) -> None:
    """Run a call that was granted before the program began, and print its report."""
    from .documents import draw  # noqa: PLC0415 - as above

    draw.run_granted(call, _out)


def _mapping(params: Mapping[str, Any] | str | None) -> Mapping[str, Any]:
    value = json.loads(params) if isinstance(params, str) else params or {}
    if not isinstance(value, Mapping):
        raise TypeError("params is an object: a mapping, or JSON of one")
    return value
