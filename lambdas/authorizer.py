"""Who may open a websocket or call the HTTP API: a bearer of a ticket or a token, from an allowed site."""

from __future__ import annotations

from lambdas._handshake import is_http, read_handshake, render_context
from lambdas._runtime import Event, app, edge, logger
from stepline.errors import AuthError, DependencyError
from stepline.ports.channel import Principal


@edge
def handler(event: Event) -> Event:
    """In: an event of a REQUEST authorizer. Out: its verdict, and the principal as the next function's context."""
    try:
        principal = app().authenticate(read_handshake(event))
    except (AuthError, DependencyError) as error:
        logger.info("refused at the door", extra={"code": error.reason})
        return {"isAuthorized": False} if is_http(event) else _policy("nobody", "Deny", event["methodArn"])
    logger.info("let in")
    return _allow(event, principal)


def _allow(event: Event, principal: Principal) -> Event:
    context = render_context(principal)
    if is_http(event):
        return {"isAuthorized": True, "context": context}
    return _policy(principal.user, "Allow", event["methodArn"]) | {"context": context}


def _policy(user: str, effect: str, arn: str) -> Event:
    statement = {"Action": "execute-api:Invoke", "Effect": effect, "Resource": arn}
    return {"principalId": user, "policyDocument": {"Version": "2012-10-17", "Statement": [statement]}}
