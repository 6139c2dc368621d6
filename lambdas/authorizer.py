"""Who may open a websocket: a bearer of a valid token, from an allowed origin."""

from __future__ import annotations

from typing import Any

from lambdas._runtime import Event, app, logger
from stepline.errors import AuthError, DependencyError
from stepline.loop.ingress import check_origin


@logger.inject_lambda_context(clear_state=True)
def handler(event: Event, context: Any) -> Event:
    """In: a REQUEST authorizer's event. Out: a policy, and the principal as the socket's context."""
    headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
    try:
        check_origin(headers.get("origin", ""), app().settings.allowed_origins)
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise AuthError("a bearer token is required")
        principal = app().identity.verify(token.strip())
    except (AuthError, DependencyError) as error:
        logger.info("connection refused", extra={"code": error.reason})
        return _policy("nobody", "Deny", event["methodArn"])
    context_out = {name: str(getattr(principal, name)) for name in principal.__struct_fields__}
    logger.info("connection allowed")
    return _policy(principal.user, "Allow", event["methodArn"]) | {"context": context_out}


def _policy(user: str, effect: str, arn: str) -> Event:
    statement = {"Action": "execute-api:Invoke", "Effect": effect, "Resource": arn}
    return {"principalId": user, "policyDocument": {"Version": "2012-10-17", "Statement": [statement]}}
