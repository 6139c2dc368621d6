"""Connections to one server at public addresses only.

The host is resolved for each request, all of its addresses must be public, and the connection is made to them, as for
pages (`web/address_guard`). TLS and the header `Host` name the host. No proxy is used: it would resolve the name again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import urllib3
from urllib3 import exceptions as foreign

from stepline.adapters.http_pool import POOL_SIZE, make_trust
from stepline.adapters.web.address_guard import HOST_UNREACHABLE, AddressGuard, IpAddress, Target
from stepline.errors import ModelRefused, ModelUnreachable, ToolError

GUARD: Final = AddressGuard()


def read_public(url: str, guard: AddressGuard = GUARD) -> Target:
    """Parse an address. Raises ModelRefused."""
    try:
        return guard.read(url)
    except ToolError as error:
        raise ModelRefused(f"the address of the model's provider is refused: {error}") from error


def pin_public(target: Target, guard: AddressGuard = GUARD) -> tuple[IpAddress, ...]:
    """Return the public addresses of a host. Raises ModelRefused if one is not public, ModelUnreachable."""
    try:
        return guard.pin(target)
    except ToolError as error:
        kind = ModelUnreachable if error.reason == HOST_UNREACHABLE else ModelRefused
        raise kind(f"the model's provider is not called: {error}") from error


class GuardedPool:
    """A pool for a server's address."""

    def __init__(self, url: str, guard: AddressGuard = GUARD) -> None:
        """Create the pool; nothing is resolved or sent. Raises ModelRefused."""
        self._guard = guard
        self._target = read_public(url, guard)
        options: dict[str, Any] = {"maxsize": POOL_SIZE}
        if self._target.scheme == "https":
            options |= {
                "ssl_context": make_trust(),
                "server_hostname": self._target.host,
                "assert_hostname": self._target.host,
            }
        self._pools = urllib3.PoolManager(**options)

    def request(
        self, method: str, _url: str, *, headers: Mapping[str, str], **rest: Any
    ) -> urllib3.BaseHTTPResponse:
        """Send a request to the first of the addresses that accepts a connection.

        Raises ModelRefused for an address that is not public, ModelUnreachable, and urllib3's errors.
        """
        target = self._target
        addresses = pin_public(target, self._guard)
        for address in addresses:
            pool = self._pools.connection_from_host(str(address), target.port, target.scheme)
            try:
                return pool.urlopen(method, target.path, headers={**headers, "host": target.netloc}, **rest)
            except (foreign.NewConnectionError, foreign.ConnectTimeoutError):
                if address is addresses[-1]:
                    raise
        raise AssertionError("the guard pins an address, or refuses")

    def clear(self) -> None:
        """Close the kept connections."""
        self._pools.clear()
