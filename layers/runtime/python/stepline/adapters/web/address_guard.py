"""Limits the addresses that a page may be fetched from to public ones.

A host is resolved once, all of its addresses must be public, and the connection is made to those addresses: a name is
never looked up twice, so a second lookup cannot return other addresses. Each redirect is checked as a new address.

Source: IANA, "IPv4 Special-Purpose Address Registry", "IPv6 Special-Purpose Address Registry" and "IPv6 Global
Unicast Address Assignments"; url.spec.whatwg.org, "Host parsing".
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, NamedTuple, NoReturn, TypeAlias
from urllib.parse import quote

from stepline.errors import ToolError
from stepline.model.source import split_web, web_url

IpAddress: TypeAlias = IPv4Address | IPv6Address

URL_REFUSED: Final = "url_refused"
ADDRESS_REFUSED: Final = "address_refused"
HOST_UNREACHABLE: Final = "unreachable"

PORTS: Final = {"http": 80, "https": 443}
HOST_CHARS: Final = 253
ADDRESSES_MAX: Final = 4
"""The number of addresses to try per host, in the resolver's order."""

_NAME: Final = re.compile(r"[a-z0-9._-]+")
_NUMBER: Final = re.compile(r"0x[0-9a-f]*|[0-9]+")
_SAFE: Final = "/%:@!$&'()*+,;=~"

_NOT_PUBLIC_4: Final = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # unspecified, this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared by a carrier's customers (CGNAT)
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # Azure's own services
        "169.254.0.0/16",  # link-local; metadata of clouds and credentials of tasks
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments, Oracle's metadata
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
_GLOBAL_6: Final = IPv6Network("2000::/3")
"""Everything else is refused: `::`, `::1`, IPv4 in IPv6 (`::ffff:…`, `64:ff9b::…`), local, link-local, multicast."""
_NOT_PUBLIC_6: Final = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments, Teredo: IPv4 in IPv6
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: IPv4 in IPv6
        "3fff::/20",  # documentation
    )
)


class Target(NamedTuple):
    """A parsed URL: `host` is normalized and without brackets, `path` includes the query, as it is sent."""

    url: str
    scheme: str
    host: str
    port: int
    path: str

    @property
    def netloc(self) -> str:
        """The value of the header `Host`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


def is_public(address: IpAddress) -> bool:
    """Return True for a public internet address; in IPv6, only global unicast without an embedded IPv4 address."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    return address in _GLOBAL_6 and not any(address in network for network in _NOT_PUBLIC_6)


def resolve_name(host: str, port: int) -> list[str]:
    """Return the addresses of a name; a trailing dot disables the resolver's search list. Raises OSError."""
    found = socket.getaddrinfo(f"{host}.", port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [str(where[0]) for *_, where in found]


@dataclass(frozen=True, kw_only=True)
class AddressGuard:
    """Decides which URL may be fetched, and pins the addresses to connect to.

    Only tests set other ports, another resolver, or other addresses; no setting does.
    """

    ports: Collection[int] = tuple(PORTS.values())
    resolve: Callable[[str, int], list[str]] = resolve_name
    is_public: Callable[[IpAddress], bool] = is_public

    def read(self, url: str) -> Target:
        """Parse a URL. Raises ToolError `url_refused`."""
        text = web_url(url)
        parts = split_web(text) if text and "\\" not in text else None
        if parts is None:
            _refuse("an address of a page begins with https:// or http:// and names a host")
        if "@" in parts.netloc:
            _refuse("an address with a user or a password is not fetched")
        port = parts.port or PORTS[parts.scheme]
        if port not in self.ports:
            _refuse(f"port {port} is not one of {', '.join(map(str, self.ports))}")
        path = quote(parts.path or "/", safe=_SAFE)
        if parts.query:
            path += f"?{quote(parts.query, safe=_SAFE + '?')}"
        return Target(text, parts.scheme, _read_host(parts.hostname or ""), port, path)

    def pin(self, target: Target) -> tuple[IpAddress, ...]:
        """Resolve a host, once. Raises ToolError `address_refused` if any address is not public; `unreachable`."""
        found: tuple[IpAddress, ...]
        try:
            found = (ip_address(target.host),)
        except ValueError:
            found = self._resolve(target)
        if not all(map(self.is_public, found)):
            # Do not name the address: a page's author must not learn about this network.
            raise ToolError(
                f"{target.host} does not lead to a public address, and is not fetched", code=ADDRESS_REFUSED
            )
        return found[:ADDRESSES_MAX]

    def _resolve(self, target: Target) -> tuple[IpAddress, ...]:
        try:
            found = tuple(ip_address(one) for one in self.resolve(target.host, target.port))
        except (OSError, UnicodeError) as error:
            raise ToolError(f"there is no host {target.host}", code=HOST_UNREACHABLE) from error
        if not found:
            raise ToolError(f"there is no host {target.host}", code=HOST_UNREACHABLE)
        return found


def _read_host(name: str) -> str:
    """Return the normalized host: an address in its usual notation, a name in lower-case ASCII."""
    if ":" in name:
        try:
            return IPv6Address(name if "%" not in name else "").compressed
        except ValueError:
            _refuse("the address of the host is not written as one of IPv6")
    try:
        # The codec takes more than linear time, so a name that is too long is refused before.
        host = name.encode("idna").decode().lower().removesuffix(".") if len(name) <= HOST_CHARS else ""
    except UnicodeError:
        host = ""
    if len(host) > HOST_CHARS or not _NAME.fullmatch(host) or "." not in host:
        _refuse("the host is no name of the public internet")
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        try:
            return str(IPv4Address(host))
        except ValueError:
            _refuse("the address of the host is not written as four decimal numbers")
    return host


def _refuse(message: str) -> NoReturn:
    raise ToolError(message, code=URL_REFUSED)
