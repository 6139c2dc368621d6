"""Reads a server's answer to a call block by block: the tool has run, so every readable part of its answer is kept.

An unreadable block is reported. Source: modelcontextprotocol.io, "Tools", "Tool Result".
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from stepline.errors import ToolError
from stepline.ports.mcp.mcp_server import PROTOCOL_ERROR, McpReply, ReplyPart, Unread

MESSAGE_CHARS: Final = 300
"""Maximum characters of a server's message in an error."""
KIND_CHARS: Final = 40
_DATA_URL: Final = re.compile(r"data:[^,]{0,200};base64,")
_SPACE: Final = str.maketrans("", "", " \t\r\n")
_YES: Final = (True, 1, "true", "True")


def read_reply(said: Any) -> McpReply:
    """Return the answer to a call. Raises ToolError `mcp_protocol_error` if it is a request instead of an answer."""
    if not isinstance(said, Mapping):
        return McpReply(structured=said) if said is not None else McpReply(unread=(Unread(why="no_content"),))
    if said.get("resultType") == "input_required":
        raise ToolError("the server asks for input, which a turn cannot give", code=PROTOCOL_ERROR)
    content, structured = said.get("content"), said.get("structuredContent")
    blocks = [content] if isinstance(content, str | Mapping) else content if content is not None else []
    parts: list[ReplyPart] = []
    unread: list[Unread] = []
    if not isinstance(blocks, list):
        blocks, unread = [], [Unread(why="no_list")]
    for number, block in enumerate(blocks, 1):
        read = _part(block)
        if isinstance(read, ReplyPart):
            parts.append(read)
        else:
            kind = block.get("type") if isinstance(block, Mapping) else None
            named = kind[:KIND_CHARS] if isinstance(kind, str) else ""
            unread.append(Unread(block=number, kind=named, why=read))
    if content is None and structured is None:
        unread.append(Unread(why="no_content"))
    return McpReply(
        parts=tuple(parts), structured=structured, failed=said.get("isError") in _YES, unread=tuple(unread)
    )


def _part(block: Any) -> ReplyPart | str:
    """Return the text or file of a block, or a code if it cannot be read."""
    if isinstance(block, str):
        return ReplyPart(kind="text", text=block)
    if not isinstance(block, Mapping):
        return "no_block"
    kind = block.get("type")
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    return reader(block) if reader else "unknown_kind"


def _text(block: Mapping[str, Any]) -> ReplyPart | str:
    text = block.get("text")
    return ReplyPart(kind="text", text=text) if isinstance(text, str) else "no_text"


def _media(block: Mapping[str, Any]) -> ReplyPart | str:
    return _file(block.get("data"), block)


def _link(block: Mapping[str, Any]) -> ReplyPart | str:
    uri = _field(block, "uri")
    name = _field(block, "name") or _field(block, "title")
    return ReplyPart(kind="link", uri=uri, name=name, mime=_field(block, "mimeType")) if uri else "no_address"


def _resource(block: Mapping[str, Any]) -> ReplyPart | str:
    inner = block.get("resource")
    if not isinstance(inner, Mapping):
        return "no_resource"
    if isinstance(inner.get("text"), str):
        return ReplyPart(kind="text", text=inner["text"])
    return _file(inner["blob"], inner) if inner.get("blob") is not None else _link(inner)


_READERS: Final[Mapping[str, Callable[[Mapping[str, Any]], ReplyPart | str]]] = {
    "text": _text,
    "image": _media,
    "audio": _media,
    "resource_link": _link,
    "resource": _resource,
}


def _file(data: Any, block: Mapping[str, Any]) -> ReplyPart | str:
    read = _bytes(data) if isinstance(data, str) else None
    if read is None:
        return "no_base64"
    return ReplyPart(kind="file", data=read, mime=_field(block, "mimeType"), uri=_field(block, "uri"))


def _bytes(text: str) -> bytes | None:
    """Return the bytes of base64 in either alphabet, with or without line breaks and padding; None if it is invalid."""
    text = _DATA_URL.sub("", text, count=1) if text.startswith("data:") else text
    text = text.translate(_SPACE).rstrip("=")
    other = b"-_" if "-" in text or "_" in text else None
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=other, validate=True)
    except (binascii.Error, ValueError):
        return None


def _field(block: Mapping[str, Any], name: str) -> str:
    value = block.get(name)
    return value if isinstance(value, str) else ""
