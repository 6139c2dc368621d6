"""A tool of a server's list, field by field: one that cannot be read goes, and the tool stays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepline.ports.mcp.mcp_server import RemoteTool


def read_tool(said: Any, *, takes_tasks: bool) -> RemoteTool:
    """Return a tool as its server describes it; one without a name that is a text has the name ""."""
    tool = _fields(said)
    hints, execution = _fields(tool.get("annotations")), _fields(tool.get("execution"))
    about = (tool.get("description"), tool.get("title"), hints.get("title"))
    name, support = tool.get("name"), execution.get("taskSupport")
    return RemoteTool(
        name=name if isinstance(name, str) else "",
        description=next((text for text in about if isinstance(text, str) and text), ""),
        schema=tool.get("inputSchema"),
        read_only=_hint(hints.get("readOnlyHint")),
        idempotent=_hint(hints.get("idempotentHint")),
        as_task=takes_tasks and support in ("optional", "required"),
    )


def _fields(said: Any) -> Mapping[str, Any]:
    return said if isinstance(said, Mapping) else {}


def _hint(said: Any) -> bool | None:
    return said if isinstance(said, bool) else None
