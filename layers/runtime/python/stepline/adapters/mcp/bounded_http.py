"""HTTP with bounds: an answer is as large as it says, not larger than is taken, and from the host that was asked."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from typing import Final

import httpx2

from stepline.adapters.mcp.half_surrogates import HalfSurrogates
from stepline.adapters.mcp.trouble import Trouble
from stepline.ports.mcp.mcp_server import PROTOCOL_ERROR, REDIRECTED, TOO_LARGE, UNREACHABLE, ServerAddress

CONNECT_S: Final = 10.0
_PORTS: Final = {"http": 80, "https": 443}


def http_client(address: ServerAddress, trouble: Trouble, trusted: ssl.SSLContext) -> httpx2.AsyncClient:
    """Return a client with a server's headers. No proxy, cookie or password of the environment is used."""
    return httpx2.AsyncClient(
        headers={**address.headers, "accept-encoding": "identity"},
        timeout=httpx2.Timeout(address.timeout_s, connect=min(CONNECT_S, address.timeout_s)),
        transport=_Bounded(httpx2.AsyncHTTPTransport(verify=trusted), trouble),
        trust_env=False,
    )


class _Bounded(httpx2.AsyncBaseTransport):
    def __init__(self, inner: httpx2.AsyncBaseTransport, trouble: Trouble) -> None:
        self._inner = inner
        self._trouble = trouble

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._inner.handle_async_request(request)
        except httpx2.TransportError:
            self._trouble.note(UNREACHABLE)
            raise
        self._trouble.status = response.status_code
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            # It could be a thousand times as large as what is counted.
            self._trouble.note(PROTOCOL_ERROR)
            await response.aclose()
            raise httpx2.DecodingError("the answer is compressed", request=request)
        if (
            "location" in response.headers
            and 300 <= response.status_code < 400
            and leads_away(request, response)
        ):
            self._trouble.note(REDIRECTED)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_Counted(response.stream, self._trouble, _tail(response)),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


def leads_away(request: httpx2.Request, response: httpx2.Response) -> bool:
    """Return True if a redirect leads to another host or port, or away from https."""
    try:
        there = request.url.join(response.headers["location"])
    except (httpx2.InvalidURL, ValueError):
        return True
    here = request.url
    if (here.scheme, there.scheme) == ("http", "https") and here.port == there.port:
        return here.host != there.host
    ports = [url.port or _PORTS.get(url.scheme) for url in (here, there)]
    return (here.scheme, here.host, ports[0]) != (there.scheme, there.host, ports[1])


def _tail(response: httpx2.Response) -> bytes:
    """Return the end of the last event: a stream that ends in one has said it."""
    return (
        b"\n\n" if response.headers.get("content-type", "").lower().startswith("text/event-stream") else b""
    )


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, trouble: Trouble, tail: bytes) -> None:
        self._inner = inner
        self._trouble = trouble
        self._tail = tail

    async def __aiter__(self) -> AsyncIterator[bytes]:
        halves = HalfSurrogates()
        async for chunk in self._inner:
            if self._trouble.count(len(chunk)):
                self._trouble.note(TOO_LARGE)
                raise httpx2.ReadError("the answer is too large")
            yield halves.mend(chunk)
        yield halves.mend(self._tail, last=True)

    async def aclose(self) -> None:
        await self._inner.aclose()
