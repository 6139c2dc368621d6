"""Who may open a websocket or call the HTTP API: a bearer of a ticket or a token, from an allowed site."""

from __future__ import annotations

from lambdas._handshake import is_http, read_handshake, render_context
from lambdas._runtime import Event, app, edge, logger
from stepline.errors import AuthError
from stepline.ports.channel import Principal


@edge
def handler(event: Event) -> Event:
    """In: an event of a REQUEST authorizer. Out: its verdict, and the principal as the next function's context.

    What cannot be said now (the issuer or the table does not answer) is no refusal: it propagates, and the gateway
    answers 500, which tells clients to come again and an alarm that nobody can connect.
    """
    try:
        principal = app().authenticate(read_handshake(event))
    except AuthError as error:
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
