"""Who may open a websocket: a bearer of a valid token, from an allowed origin."""

from __future__ import annotations

from collections.abc import Mapping

from lambdas._runtime import Event, app, edge, logger
from stepline.errors import AuthError, DependencyError
from stepline.loop.origin import check_origin
from stepline.ports.channel import Principal


@edge
def handler(event: Event) -> Event:
    """In: a REQUEST authorizer's event. Out: a policy, and the principal as the socket's context."""
    try:
        principal = authenticate(event.get("headers") or {})
    except (AuthError, DependencyError) as error:
        logger.info("connection refused", extra={"code": error.reason})
        return _policy("nobody", "Deny", event["methodArn"])
    context = {name: str(getattr(principal, name)) for name in principal.__struct_fields__}
    logger.info("connection allowed")
    return _policy(principal.user, "Allow", event["methodArn"]) | {"context": context}


def authenticate(headers: Mapping[str, str]) -> Principal:
    """Return who the headers of a handshake speak for. Raises AuthError, DependencyError."""
    by_name = {name.lower(): value for name, value in headers.items()}
    check_origin(by_name.get("origin", ""), app().settings.allowed_origins)
    scheme, _, token = by_name.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise AuthError("a bearer token is required")
    return app().identity.verify(token.strip())


def _policy(user: str, effect: str, arn: str) -> Event:
    statement = {"Action": "execute-api:Invoke", "Effect": effect, "Resource": arn}
    return {"principalId": user, "policyDocument": {"Version": "2012-10-17", "Statement": [statement]}}
