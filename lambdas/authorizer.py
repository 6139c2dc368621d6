"""The authorizer of the websocket and the HTTP API: accepts a ticket or a token from an allowed address and origin."""

from __future__ import annotations

from lambdas.edge.handshake import is_http, read_handshake, render_context
from lambdas.edge.runtime import Event, edge, logger, once, read_settings
from stepline.bootstrap.authentication import Authentication, authentication_on_aws
from stepline.errors import AuthError
from stepline.ingress.access import Handshake, authenticate
from stepline.ports.channel import Principal


@once
def app() -> Authentication:
    return authentication_on_aws(read_settings())


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
        allowed_addresses=app().settings.allowed_addresses,
        allowed_origins=app().settings.allowed_origins,
        tickets=app().tickets,
        verify=_verify,
    )


def _verify(token: str) -> Principal:
    return app().identity.verify(token)


def _allow(event: Event, principal: Principal) -> Event:
    context = render_context(principal)
    if is_http(event):
        return {"isAuthorized": True, "context": context}
    return _policy(principal.user, "Allow", event["methodArn"]) | {"context": context}


def _policy(user: str, effect: str, arn: str) -> Event:
    statement = {"Action": "execute-api:Invoke", "Effect": effect, "Resource": arn}
    return {"principalId": user, "policyDocument": {"Version": "2012-10-17", "Statement": [statement]}}
