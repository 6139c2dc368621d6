"""A call of a remote tool: the server is called, and its answer becomes the result of the call.

    text         unchanged, below the status, for as long as results are shown
    structured   in the status; content that a text repeats is shown once
    file, image  a file of the turn, which react.read shows
    link         its address in the status; nothing is fetched
    unread       in the status: the blocks that cannot be read, and why

Source: docs/how-to/connect-an-mcp-server.md.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace as replace_field

from stepline.errors import ToolError
from stepline.model.block import Block
from stepline.model.decision import RemoteTask
from stepline.model.path import FilePath, physical
from stepline.model.visible_text import shorten
from stepline.ports.mcp.mcp_server import (
    PROTOCOL_ERROR,
    McpReply,
    McpServers,
    ReplyPart,
    ServerAddress,
    Unread,
)
from stepline.rendering.quote import inline
from stepline.tools.context import ToolContext, ToolOutput, render_json, store_bytes
from stepline.tools.mcp.schema_check import is_same
from stepline.tools.mcp.server_row import McpServer, resolve_server
from stepline.tools.mcp.tool_list import KnownTool, spec_of
from stepline.tools.registry import Tool

FAILED: Final = "mcp_tool_failed"
MCP_UNAVAILABLE: Final = "mcp_unavailable"
TEXT_CHARS: Final = 200_000
"""The maximum for all texts of one answer; a longer one is cut, and the status says so."""
STRUCTURED_CHARS: Final = 20_000
FILES_MAX, LINKS_MAX, UNREAD_MAX, NAME_CHARS = 8, 20, 20, 200
MESSAGE_CHARS: Final = 500
SECRET_CHARS_MIN: Final = 4
POLL_S: Final = 30.0
"""The timeout of a request for a task's state."""


def remote_tool(server: McpServer, known: KnownTool, timeout_s: float) -> Tool:
    """Return a tool of a server. The row of the server determines its effect, or else the server's claim."""
    said = server.effect_of(known.name)
    effect = said or known.effect
    spec = replace(
        spec_of(known),
        approval=server.approval,
        effect=effect,
        read_only=effect == "pure",
        cancellable=effect == "pure",
        claimed=said is None,
    )
    return Tool(
        spec=spec,
        run=partial(_run, server, known, timeout_s),
        poll=partial(_poll, server, known, min(timeout_s, POLL_S)),
        cancel=partial(_cancel, server, min(timeout_s, POLL_S)),
    )


def _run(
    server: McpServer, known: KnownTool, timeout_s: float, params: Mapping[str, Any], context: ToolContext
) -> ToolOutput:
    """Call the tool. Raises ToolError: those of the port, `mcp_unavailable`, `mcp_tool_failed`, `secret_missing`."""
    return _ask(
        server,
        timeout_s,
        context,
        known,
        lambda servers, address, secrets: servers.call_tool(
            address,
            known.name,
            params,
            context.cancel,
            as_task=known.as_task,
            on_progress=lambda done, total, words: context.progress(done, total, _withheld(words, secrets)),
        ),
    )


def _poll(
    server: McpServer, known: KnownTool, timeout_s: float, task_id: str, context: ToolContext
) -> ToolOutput:
    """Return the result of a task, or the task while it continues.

    Raises ToolError: those of the port, and those of a call.
    """
    return _ask(
        server, timeout_s, context, known, lambda servers, address, _: servers.poll_task(address, task_id)
    )


def _cancel(server: McpServer, timeout_s: float, task_id: str, context: ToolContext) -> None:
    """Ask the server to end a task. Raises ToolError: those of the port."""
    servers, address, _ = _reach(server, timeout_s, context)
    servers.cancel_task(address, task_id)


def _reach(
    server: McpServer, timeout_s: float, context: ToolContext
) -> tuple[McpServers, ServerAddress, tuple[str, ...]]:
    if context.servers is None:
        raise ToolError("no server can be asked here", code=MCP_UNAVAILABLE)
    return (context.servers, *resolve_server(server, context.secrets, timeout_s))


def _ask(
    server: McpServer,
    timeout_s: float,
    context: ToolContext,
    known: KnownTool,
    question: Callable[[McpServers, ServerAddress, tuple[str, ...]], McpReply | RemoteTask],
) -> ToolOutput:
    """Call a server, and return its answer or its task without the secrets that were sent."""
    servers, address, secrets = _reach(server, timeout_s, context)
    try:
        reply = question(servers, address, secrets)
    except ToolError as error:
        raise ToolError(_withheld(str(error), secrets), code=error.reason) from None
    if isinstance(reply, RemoteTask):
        if _withheld(reply.id, secrets) != reply.id:
            raise ToolError("the id of the task holds a secret", code=PROTOCOL_ERROR)
        return ToolOutput(task=reply)
    reply = _say_once(reply)
    text = _withheld("\n\n".join(part.text for part in reply.parts if part.kind == "text"), secrets)
    if reply.failed:
        structured = None if reply.structured is None else render_json({"structured": reply.structured})
        words = shorten(text or _withheld(structured or "", secrets), MESSAGE_CHARS) or "it gives no reason"
        unread = f" ({len(reply.unread)} parts of them cannot be read)" if reply.unread else ""
        raise ToolError(f"the tool of {server.alias} failed; its words: {words}{unread}", code=FAILED)
    return _output(known, reply, text, secrets, context)


def _say_once(reply: McpReply) -> McpReply:
    """Return an answer without content that is both a text and structured, as servers of two revisions send it.

    It stays structured; it stays a text if it is one, or does not fit into the status.
    """
    structured, texts = reply.structured, [part.text for part in reply.parts if part.kind == "text"]
    if structured is None or not texts:
        return reply
    wrapped = isinstance(structured, Mapping) and structured.keys() == {"result"}  # not an object
    inner = structured["result"] if wrapped else structured
    if isinstance(inner, str):
        return replace_field(reply, structured=None) if texts == [inner] else reply
    said = [_parsed(text) for text in texts]
    all_of_it = isinstance(inner, list) and is_same(said, inner)
    twice = [all_of_it or is_same(one, structured) or is_same(one, inner) for one in said]
    if not any(twice):
        return reply
    if len(render_json({"structured": structured})) > STRUCTURED_CHARS:
        return replace_field(reply, structured=None)
    repeated = {text for text, is_twice in zip(texts, twice, strict=True) if is_twice}
    kept = tuple(part for part in reply.parts if part.kind != "text" or part.text not in repeated)
    return replace_field(reply, parts=kept)


def _parsed(text: str) -> Any:
    """Return the JSON value of a text; the text itself if it is not JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return text


def _output(
    known: KnownTool, reply: McpReply, text: str, secrets: Sequence[str], context: ToolContext
) -> ToolOutput:
    """Return the output of a call that the tool has answered."""
    status: dict[str, Any] = {"status": "ok", "server": known.alias}
    blocks: list[Block] = []
    contents: list[dict[str, Any]] = []
    if reply.structured is not None:
        status |= _structured(reply.structured, secrets)
    files = [part for part in reply.parts if part.kind == "file"]
    for number, part in enumerate(files[:FILES_MAX], 1):
        block = _keep(part, number, known.tool_id, context)
        blocks.append(block)
        status.setdefault("files", []).append({"path": block.path, "mime": block.mime})
        contents.append({"mime": block.mime, "data": part.data})
    links = [part for part in reply.parts if part.kind == "link"]
    if links:
        status["links"] = [_link(part, secrets) for part in links[:LINKS_MAX]]
    left = max(0, len(files) - FILES_MAX) + max(0, len(links) - LINKS_MAX)
    left += max(0, len(reply.unread) - UNREAD_MAX)
    status |= {"left_out": left} if left else {}
    if reply.unread:
        status["unread"] = [_unread(one, secrets) for one in reply.unread[:UNREAD_MAX]]
    if len(text) > TEXT_CHARS:
        text, status["text_cut_from_chars"] = text[:TEXT_CHARS], len(text)
    said = [context.block(known.tool_id, context.path("result"), text=text)] if text else []
    # A program reads no blocks: it gets the text beside the status, and files as bytes.
    ret = {**status, **({"text": text} if text else {}), **({"files": contents} if contents else {})}
    return ToolOutput(blocks=(context.result(known.tool_id, status), *said, *blocks), ret=ret)


def _structured(value: Any, secrets: Sequence[str]) -> dict[str, Any]:
    text = _withheld(render_json({"structured": value}), secrets)
    if len(text) > STRUCTURED_CHARS:
        return {"structured_chars": len(text), "structured_cut": text[:STRUCTURED_CHARS]}
    found: dict[str, Any] = msgspec.json.decode(text)
    return found


def _unread(one: Unread, secrets: Sequence[str]) -> dict[str, Any]:
    kind = inline(_withheld(one.kind, secrets))
    return {"why": one.why} | ({"block": one.block} if one.block else {}) | ({"kind": kind} if kind else {})


def _link(part: ReplyPart, secrets: Sequence[str]) -> dict[str, str]:
    said = {"uri": part.uri, "name": part.name, "mime": part.mime}
    return {name: shorten(_withheld(text, secrets), NAME_CHARS) for name, text in said.items() if text}


def _keep(part: ReplyPart, number: int, tool_id: str, context: ToolContext) -> Block:
    """Store the bytes of an answer as a file of the turn that is not offered to the user."""
    said = part.mime.partition(";")[0].strip().lower()
    mime = said if mimetypes.guess_extension(said) else "application/octet-stream"
    ending = mimetypes.guess_extension(mime) or ".bin"
    path = FilePath(turn=context.turn, space="outputs", rel=f"mcp/{context.call_id}.{number}{ending}")
    body = store_bytes(part.data, mime, context)
    meta = {"kind": "file", "visibility": "internal", "physical_path": physical(path)}
    return context.block(tool_id, str(path), mime=mime, body=body, meta=meta)


def _withheld(text: str, secrets: Sequence[str]) -> str:
    """Return a server's text without the secrets that it was sent: it may repeat them."""
    for secret in secrets:
        if len(secret) >= SECRET_CHARS_MIN:
            text = text.replace(secret, "[secret]")
    return text
