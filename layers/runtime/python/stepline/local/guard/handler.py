"""The guard for http.server handlers, such as Lambda's runtime API, which the emulator opens for each worker."""

from __future__ import annotations

from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from stepline.local.guard.request_filter import is_own_name

PAGES: tuple[str, ...] = ("origin", "sec-fetch-site")
"""Headers that only browsers send."""


def refuse_pages(handlers: type[BaseHTTPRequestHandler]) -> None:
    """Make handlers of this class and its subclasses refuse web pages and foreign host names."""
    parse = handlers.parse_request

    def parse_request(self: BaseHTTPRequestHandler) -> bool:
        if not parse(self):
            return False
        address: Any = self.server.server_address
        hosts = self.headers.get_all("host", [])
        if is_own_name(hosts, address[1]) and not any(name in self.headers for name in PAGES):
            return True
        self.close_connection = True
        self.send_error(HTTPStatus.FORBIDDEN)
        return False

    handlers.parse_request = parse_request  # type: ignore[method-assign]  # servers that are not our code
