"""The client of an API Gateway event: its credentials, and the principal that the authorizer found."""

from __future__ import annotations

from collections.abc import Mapping

from lambdas.edge.runtime import Event
from stepline.errors import AuthError
from stepline.ingress.access import Handshake
from stepline.ports.channel import ROLES, Principal


def is_http(event: Event) -> bool:
    """Return True for an HTTP API event, False for a websocket event."""
    return bool(event.get("version") == "2.0")


def read_handshake(event: Event) -> Handshake:
    """Read a client's address and credentials; a ticket is valid only on a websocket. Raises AuthError."""
    headers = _values(event, "headers", "multiValueHeaders")
    lower = [(name.lower(), value) for name, value in headers]
    query = (
        [] if is_http(event) else _values(event, "queryStringParameters", "multiValueQueryStringParameters")
    )
    # The gateway's own: a header like X-Forwarded-For is the client's to write.
    source = event["requestContext"].get("http" if is_http(event) else "identity") or {}
    return Handshake(
        address=source.get("sourceIp", ""),
        origin=_one(lower, "origin"),
        authorization=_one(lower, "authorization"),
        ticket=_one(query, "ticket"),
    )


def render_context(principal: Principal) -> dict[str, str]:
    """Return the context that an authorizer passes on, without empty values; a websocket's accepts only strings."""
    values = {name: str(getattr(principal, name)) for name in principal.__struct_fields__}
    return {name: value for name, value in values.items() if value}


def read_principal(context: Mapping[str, str]) -> Principal:
    """Return the principal of an authorizer's context; an unknown role is ignored. Raises KeyError without one."""
    return Principal(
        tenant=context["tenant"],
        project=context["project"],
        user=context["user"],
        expires_at=int(context["expires_at"]),
        role=next((role for role in ROLES if role == context.get("role")), "user"),
        client=context.get("client", ""),
    )


def _values(event: Event, plain: str, many: str) -> list[tuple[str, str]]:
    found = list((event.get(plain) or {}).items())
    return found + [(name, value) for name, values in (event.get(many) or {}).items() for value in values]


def _one(values: list[tuple[str, str]], name: str) -> str:
    """Return the value of a name. Raises AuthError for two that differ: components could trust different ones."""
    found = {value for known, value in values if known == name}
    if len(found) > 1:
        raise AuthError("a credential was sent twice, with different values")
    return found.pop() if found else ""
