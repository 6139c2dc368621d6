"""A connection to a server for one question."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from mcp import Client
from mcp_types import Request
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import TypeAdapter

from stepline.ports.mcp.mcp_server import OnProgress

T = TypeVar("T")

_ANYTHING: Final[TypeAdapter[Any]] = TypeAdapter(Any)


@dataclass
class McpConnection(Generic[T]):
    """The client, and the answer to the question once there is one.

    `results` are the server's unprocessed results. `rest` makes an answer of the results so far, with a code for the
    reason that there are no more.
    """

    answers: list[T] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)
    rest: Callable[..., T] | None = None
    _client: Client | None = None

    @property
    def client(self) -> Client:
        """The package's client."""
        assert self._client is not None
        return self._client

    @client.setter
    def client(self, client: Client) -> None:
        self._client = client

    @property
    def shakes_hands(self) -> bool:
        """True for a server of protocol version 2025-11-25 or earlier."""
        return self.client.session.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS

    @property
    def takes_tasks(self) -> bool:
        """True for a server of protocol version 2025-11-25 that accepts tool calls as tasks."""
        return self.client.server_capabilities.tasks is not None

    async def send(self, request: Request[Any, Any], on_progress: OnProgress | None = None) -> dict[str, Any]:
        """Send a request and return its unprocessed result. Raises MCPError."""

        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            if on_progress is not None:
                on_progress(progress, total or 0, message or "")

        said: dict[str, Any] = await self.client.session.send_request(
            request, _ANYTHING, progress_callback=progressed if on_progress else None
        )
        kept: dict[str, Any] = self.results.pop(str(request.method), said)
        return kept
