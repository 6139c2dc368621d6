"""The rows of a bundle's `MCP_TOOL_SPECS`: its MCP servers, and the tools that its agent gets from each.

    {"alias": "crm", "url": "https://crm.example/mcp", "auth": {"type": "bearer", "secret": "b:crm.token"}}
    {"alias": "time", "command": "python", "args": ["-m", "mcp_server_time"], "tools": ["get_*"]}
    {"alias": "crm", "server_id": "crm"}        the rest is in the properties, at `mcp.services.mcpServers.crm`

Headers and variables name secrets, as `${secret:<path>}`; the value is read when a server is called, and never stored.
Source: docs/how-to/connect-an-mcp-server.md.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec

from stepline.errors import InputError
from stepline.model.base import Value
from stepline.model.decision import ApprovalRule
from stepline.ports.descriptor import SecretReader
from stepline.ports.mcp.mcp_server import ServerAddress
from stepline.tools.spec import ToolEffect

INVALID: Final = "mcp_server_invalid"
TIMEOUT_MAX_S: Final = 600
"""Below the time of Act (`loop/graph.py`), with enough left to record the result of the call."""
SERVERS_MAX: Final = 16

_SECRET: Final = re.compile(r"\$\{secret:([A-Za-z0-9_.:-]{1,200})\}")
_HEADER: Final = {"bearer": "Authorization", "api_key": "X-API-Key"}

Name = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9_-]{1,40}\Z")]


class _HeaderAuth(Value, forbid_unknown_fields=True):
    """A secret in a header: `Authorization: Bearer …`, `X-API-Key: …`, or the `header` that it names."""

    type: Literal["bearer", "api_key", "header"]
    secret: str
    header: str = ""


class McpServer(Value, forbid_unknown_fields=True):
    """One server. `tools` are patterns with `*` for the names of the tools that the agent gets.

    `effects` are the operator's statement of a call's effect, by such patterns; it overrides the server's own.
    `approval` says when their calls need a person, unless the deployment or the bundle's properties do.
    """

    alias: Annotated[str, msgspec.Meta(pattern=r"\A[a-z][a-z0-9_]{0,31}\Z")]
    server_id: Name | None = None
    tools: tuple[str, ...] = ("*",)
    effects: Mapping[str, ToolEffect] = {}
    transport: Literal["http", "streamable-http", "stdio"] | None = None
    url: str = ""
    headers: Mapping[str, str] = {}
    auth: _HeaderAuth | None = None
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=TIMEOUT_MAX_S)] | None = None
    approval: ApprovalRule | None = None

    def offers(self, name: str) -> bool:
        """Return True if the agent gets the tool of this name."""
        return any(fits(pattern, name) for pattern in self.tools)

    def effect_of(self, name: str) -> ToolEffect | None:
        """Return the effect of a tool by the name itself, or else by the longest pattern; None if the row says none."""
        patterns = [pattern for pattern in self.effects if fits(pattern, name)]
        return self.effects[max(patterns, key=lambda one: (one == name, len(one)))] if patterns else None


class Resolved(NamedTuple):
    """An address with its secrets filled in, and these secrets, which no text of the server may repeat."""

    address: ServerAddress
    secrets: tuple[str, ...]


def read_servers(rows: Sequence[Any], configured: Mapping[str, Any]) -> tuple[McpServer, ...]:
    """Return the servers of a bundle; `configured` holds those of the properties by id.

    Raises InputError `mcp_server_invalid`.
    """
    servers = tuple(_read(row, configured) for row in rows)
    aliases = [server.alias for server in servers]
    if len(set(aliases)) < len(aliases):
        raise InputError(f"two MCP servers have one alias: {', '.join(sorted(aliases))}", code=INVALID)
    if len(servers) > SERVERS_MAX:
        raise InputError(f"a bundle has at most {SERVERS_MAX} MCP servers", code=INVALID)
    return servers


def digest_of(servers: Sequence[McpServer]) -> str:
    """Return a digest of the servers of a bundle, without their secrets."""
    return hashlib.sha256(msgspec.json.encode(servers)).hexdigest()[:16]


def resolve_server(server: McpServer, secrets: SecretReader, timeout_s: float) -> Resolved:
    """Return the address of a server; `timeout_s` applies if it has no timeout of its own. Raises ToolError `secret_missing`."""
    used: list[str] = []

    def value(path: str) -> str:
        used.append(secrets.get_secret(path))
        return used[-1]

    def filled(texts: Mapping[str, str]) -> dict[str, str]:
        return {name: _SECRET.sub(lambda found: value(found[1]), text) for name, text in texts.items()}

    headers = filled(server.headers)
    if auth := server.auth:
        said = value(auth.secret)
        headers[auth.header or _HEADER[auth.type]] = f"Bearer {said}" if auth.type == "bearer" else said
    address = ServerAddress(
        url=server.url,
        headers=headers,
        command=(server.command, *server.args) if server.command else (),
        env=filled(server.env),
        timeout_s=server.timeout_s or min(timeout_s, TIMEOUT_MAX_S),
    )
    return Resolved(address, tuple(used))


def fits(pattern: str, name: str) -> bool:
    """Return True if a name contains the pattern's pieces between `*`, in order. Linear."""
    head, *rest = pattern.split("*")
    if not rest:
        return name == head
    *middle, tail = rest
    if len(name) < len(head) + len(tail) or not (name.startswith(head) and name.endswith(tail)):
        return False
    at, end = len(head), len(name) - len(tail)
    for piece in middle:
        at = name.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True


def _read(row: Any, configured: Mapping[str, Any]) -> McpServer:
    if isinstance(row, McpServer):
        row = msgspec.to_builtins(row)
    if not isinstance(row, Mapping):
        raise InputError("a row of MCP_TOOL_SPECS is no mapping", code=INVALID)
    rest = configured.get(str(row.get("server_id", "")), {})
    if not isinstance(rest, Mapping):
        raise InputError(f"mcp.services.mcpServers.{row['server_id']} is no mapping", code=INVALID)
    try:
        server = msgspec.convert({**rest, **row}, McpServer)
    except msgspec.ValidationError as error:
        raise InputError(
            f"the MCP server {row.get('alias')!r:.60} is wrong: {error}", code=INVALID
        ) from error
    if wrong := _wrong(server):
        raise InputError(f"the MCP server {server.alias} {wrong}", code=INVALID)
    return server


def _wrong(server: McpServer) -> str:
    """Return the first flaw of a server's row; "" if there is none."""
    if bool(server.url) == bool(server.command):
        return "needs either a url or a command"
    if server.transport is not None and (server.transport == "stdio") != bool(server.command):
        return f"has the transport {server.transport}, which does not go with what it names"
    if server.auth and (server.auth.type == "header") != bool(server.auth.header):
        return "has an auth whose header is named exactly if its type is header"
    if server.command:
        return "has a command, which takes no headers and no auth" if server.headers or server.auth else ""
    parts = urlsplit(server.url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        return "has a url that is not http(s)://<host>… without a user in it"
    return ""
