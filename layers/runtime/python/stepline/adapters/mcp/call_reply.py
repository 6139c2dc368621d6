"""The answer of a server to a call, as the port's values."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

import mcp_types as types

from stepline.errors import ToolError
from stepline.ports.mcp.mcp_server import PROTOCOL_ERROR, Reply, ReplyPart

MESSAGE_CHARS: Final = 300
"""Of a server's words in an error."""


def read_reply(said: Any) -> Reply:
    """Return the answer to a call. Raises ValidationError, or ToolError `mcp_protocol_error`, for anything else."""
    result = types.CallToolResult.model_validate(said, by_name=False)
    parts = tuple(map(_part, result.content))
    return Reply(parts=parts, structured=result.structured_content, failed=result.is_error)


def _part(block: types.ContentBlock) -> ReplyPart:
    match block:
        case types.TextContent():
            return ReplyPart(kind="text", text=block.text)
        case types.ImageContent() | types.AudioContent():
            return ReplyPart(kind="file", data=_bytes(block.data), mime=block.mime_type)
        case types.ResourceLink():
            return ReplyPart(kind="link", uri=str(block.uri), name=block.name, mime=block.mime_type or "")
        case types.EmbeddedResource(resource=types.TextResourceContents() as text):
            return ReplyPart(kind="text", text=text.text)
        case types.EmbeddedResource(resource=types.BlobResourceContents() as blob):
            return ReplyPart(
                kind="file", data=_bytes(blob.blob), mime=blob.mime_type or "", uri=str(blob.uri)
            )
    raise ToolError("the server answers with content of an unknown kind", code=PROTOCOL_ERROR)


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ToolError("the server answers with bytes that are none", code=PROTOCOL_ERROR) from None
