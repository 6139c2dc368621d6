"""The HTTP API: tickets for clients that cannot send a header with a websocket's handshake."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import msgspec

from lambdas._handshake import read_principal
from lambdas._runtime import Event, edge, logger, wired
from stepline.bootstrap.app import App
from stepline.errors import AuthError, DependencyError
from stepline.ingress.access import issue_ticket
from stepline.model.wire.event import ErrorFrame, encode_frame

TICKETS: Final = "POST /v1/socket-tickets"
# A ticket is for the client that asked for it: no cache may keep it.
HEADERS: Final = {"Content-Type": "application/json", "Cache-Control": "no-store"}

app = wired(App)


@edge
def handler(event: Event) -> Event:
    """In: an HTTP API event, payload 2.0. Out: its answer; an error is the same object as on the websocket."""
    if event["routeKey"] != TICKETS:
        return _refuse(HTTPStatus.NOT_FOUND, "not_found", "there is nothing here")
    try:
        principal = read_principal(event["requestContext"]["authorizer"]["lambda"])
        grant = issue_ticket(app().ports, principal, app().settings.socket_url)
    except AuthError as error:
        return _refuse(HTTPStatus.UNAUTHORIZED, error.reason, str(error))
    except DependencyError as error:
        again = "Please try again in a moment."
        return _refuse(HTTPStatus.SERVICE_UNAVAILABLE, error.reason, again, retryable=True)
    logger.info("ticket issued")
    return _answer(HTTPStatus.CREATED, msgspec.json.encode(grant))


def _refuse(status: HTTPStatus, code: str, message: str, *, retryable: bool = False) -> Event:
    logger.info("refused", extra={"code": code})
    return _answer(status, encode_frame(ErrorFrame(code=code, message=message, retryable=retryable)))


def _answer(status: HTTPStatus, body: bytes) -> Event:
    return {"statusCode": int(status), "headers": HEADERS, "body": body.decode()}
