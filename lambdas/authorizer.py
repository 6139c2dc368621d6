"""The authorizer of the websocket and the HTTP API: accepts a ticket or a token from an allowed origin."""

from __future__ import annotations

from lambdas._handshake import is_http, read_handshake, render_context
from lambdas._runtime import Event, edge, logger, once, wired
from stepline.bootstrap.app import App
from stepline.errors import AuthError
from stepline.ingress.access import Handshake, authenticate
from stepline.ports.channel import Principal
from stepline.ports.identity import Identity

app = wired(App)


@once
def identity() -> Identity:
    from stepline.bootstrap.token_identity import identity_of  # noqa: PLC0415 - PyJWT: 55 ms of CPU, only for tokens

    return identity_of(app().settings)


@edge
def handler(event: Event) -> Event:
    """In: an event of a REQUEST authorizer. Out: its verdict, and the principal as the next function's context.

    If the issuer or the table does not answer, the client is not refused: the error propagates and the gateway answers
    500, after which clients try again and an alarm is raised.
    """
    try:
        principal = _authenticate(read_handshake(event))
    except AuthError as error:
        logger.info("refused at the door", extra={"code": error.reason})
        return {"isAuthorized": False} if is_http(event) else _policy("nobody", "Deny", event["methodArn"])
    logger.info("let in")
    return _allow(event, principal)


def _authenticate(shown: Handshake) -> Principal:
    return authenticate(
        shown,
        allowed_origins=app().settings.allowed_origins,
        tickets=app().ports.tickets,
        verify=lambda token: identity().verify(token),
    )


def _allow(event: Event, principal: Principal) -> Event:
    context = render_context(principal)
    if is_http(event):
        return {"isAuthorized": True, "context": context}
    return _policy(principal.user, "Allow", event["methodArn"]) | {"context": context}


def _policy(user: str, effect: str, arn: str) -> Event:
    statement = {"Action": "execute-api:Invoke", "Effect": effect, "Resource": arn}
    return {"principalId": user, "policyDocument": {"Version": "2012-10-17", "Statement": [statement]}}
