"""What API Gateway tells of a client: what it shows at the door, and later whom the authorizer found."""

from __future__ import annotations

from collections.abc import Mapping

from lambdas._runtime import Event
from stepline.errors import AuthError
from stepline.ingress.access import Handshake
from stepline.ports.channel import Principal


def is_http(event: Event) -> bool:
    """Tell an HTTP API's event from a websocket's."""
    return bool(event.get("version") == "2.0")


def read_handshake(event: Event) -> Handshake:
    """Read what a client shows; a ticket counts on a websocket only. Raises AuthError."""
    headers = _values(event, "headers", "multiValueHeaders")
    lower = [(name.lower(), value) for name, value in headers]
    query = (
        [] if is_http(event) else _values(event, "queryStringParameters", "multiValueQueryStringParameters")
    )
    return Handshake(
        origin=_one(lower, "origin"), authorization=_one(lower, "authorization"), ticket=_one(query, "ticket")
    )


def render_context(principal: Principal) -> dict[str, str]:
    """Return the principal as an authorizer hands it on: a websocket's context takes only texts."""
    return {name: str(getattr(principal, name)) for name in principal.__struct_fields__}


def read_principal(context: Mapping[str, str]) -> Principal:
    """Read it again. Raises KeyError where no authorizer vouched for anybody."""
    fields = {name: context[name] for name in ("tenant", "project", "user")}
    return Principal(**fields, expires_at=int(context["expires_at"]))


def _values(event: Event, plain: str, many: str) -> list[tuple[str, str]]:
    found = list((event.get(plain) or {}).items())
    return found + [(name, value) for name, values in (event.get(many) or {}).items() for value in values]


def _one(values: list[tuple[str, str]], name: str) -> str:
    """Return the value; of two that differ, nobody knows which the next one in line believes. Raises AuthError."""
    found = {value for known, value in values if known == name}
    if len(found) > 1:
        raise AuthError("something was shown twice, and differently")
    return found.pop() if found else ""
