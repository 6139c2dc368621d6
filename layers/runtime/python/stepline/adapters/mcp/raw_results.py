"""The results of a server as they came.

The package takes an answer whole or refuses it whole: one field of another type costs a list of tools, or the answer of a
tool that has run. So between the transport and the package each result is kept as it is, and a sound one of its kind
takes its place.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, JSONRPCResponse

Item = TypeVar("Item")

_WHOLE: Final = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
_EMPTY: Final[Mapping[str, dict[str, Any]]] = {
    "tools/list": {"tools": [], **_WHOLE},
    "tools/call": {"content": [], **_WHOLE},
}


@contextlib.asynccontextmanager
async def raw_results(transport: Any, results: dict[str, Any]) -> AsyncIterator[tuple[Any, Any]]:
    """Connect by a transport; put each result that is kept into `results`, by the method that it answers."""
    asked: dict[Any, str] = {}
    async with transport as (heard, said):
        yield _Heard(heard, asked, results), _Said(said, asked)


class _Stream(Generic[Item]):
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        left: bool | None = await self._inner.__aexit__(kind, error, trace)
        return left


class _Said(_Stream[SessionMessage]):
    """The stream to the server, which notes the method of each request by its number."""

    def __init__(self, inner: Any, asked: dict[Any, str]) -> None:
        super().__init__(inner)
        self._asked = asked

    async def send(self, item: SessionMessage, /) -> None:
        if isinstance(item.message, JSONRPCRequest):
            self._asked[item.message.id] = item.message.method
        await self._inner.send(item)


class _Heard(_Stream[SessionMessage]):
    """The stream from the server."""

    def __init__(self, inner: Any, asked: dict[Any, str], results: dict[str, Any]) -> None:
        super().__init__(inner)
        self._asked, self._results = asked, results

    @property
    def last_context(self) -> Any:
        """The context of the sender, which the package asks for."""
        return getattr(self._inner, "last_context", None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return self._kept(await self._inner.__anext__())

    async def receive(self) -> Any:
        return self._kept(await self._inner.receive())

    def _kept(self, item: Any) -> Any:
        message = item.message if isinstance(item, SessionMessage) else None
        if isinstance(message, JSONRPCResponse):
            message.result = self._sound(self._asked.pop(message.id, ""), message.result)
        return item

    def _sound(self, method: str, result: dict[str, Any]) -> dict[str, Any]:
        """Return the result that the package is given."""
        if method in _EMPTY:
            self._results[method] = result
            return dict(_EMPTY[method])
        if method == "initialize":
            return {
                "protocolVersion": result.get("protocolVersion"),
                **_capabilities(result),
                **_named(result),
            }
        versions = result.get("supportedVersions")
        if method == "server/discover" and isinstance(versions, list):
            named = [version for version in versions if isinstance(version, str)]
            return {"supportedVersions": named, **_capabilities(result), **_WHOLE}
        return result


def _takes_tasks(said: Any) -> bool:
    """Return True if the capabilities of a server of 2025-11-25 say that it takes calls of tools as tasks."""
    for name in ("tasks", "requests", "tools", "call"):
        said = said.get(name) if isinstance(said, Mapping) else None
    return isinstance(said, Mapping)


def _capabilities(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the capabilities of a server that are used here."""
    can: dict[str, Any] = {"tools": {}}
    if _takes_tasks(result.get("capabilities")):
        can["tasks"] = {"requests": {"tools": {"call": {}}}}
    return {"capabilities": can}


def _named(result: Mapping[str, Any]) -> dict[str, Any]:
    said = result.get("serverInfo")
    fields = said if isinstance(said, Mapping) else {}
    texts = {name: fields.get(name) for name in ("name", "version")}
    return {"serverInfo": {name: text if isinstance(text, str) else "" for name, text in texts.items()}}
