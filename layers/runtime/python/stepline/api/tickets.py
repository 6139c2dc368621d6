"""Tickets, for clients that cannot send a header with a websocket's handshake."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from stepline.api.endpoint import Call, Endpoint, Nothing
from stepline.ingress.access import Grant, issue_ticket


def make_ticket(call: Call[Nothing, None]) -> Grant:
    """Make a ticket, which opens one websocket within its lifetime."""
    return issue_ticket(call.ports, call.principal, call.services.socket_url)


ENDPOINTS: Final = (
    Endpoint(
        "POST",
        "/v1/socket-tickets",
        make_ticket,
        status=HTTPStatus.CREATED,
        counts="tickets",
        codes={HTTPStatus.UNAUTHORIZED: ("auth_expired",)},
    ),
)
