"""The events of both gateways, and calls of their handlers."""

from __future__ import annotations

import json
from typing import Any

from lambdas import api, authorizer, socket
from stepline.model.wire.event import Frame, decode_frame
from stepline.ports.channel import Principal
from tests.handlers.conftest import LambdaRuntime, recorded

SITE = "https://app.example"


def handshake(token: str = "", *, ticket: str = "", **headers: str | None) -> dict[str, Any]:
    """Return the websocket gateway's event for the authorizer; a header of None is not sent."""
    event = recorded("authorizer")
    sent = {**event["headers"], "Authorization": f"Bearer {token}" if token else None, **headers}
    event["headers"] = {name: value for name, value in sent.items() if value is not None}
    event["multiValueHeaders"] = {name: [value] for name, value in event["headers"].items()}
    if ticket:
        event["queryStringParameters"] = {"ticket": ticket}
        event["multiValueQueryStringParameters"] = {"ticket": [ticket]}
    return event


def request(token: str = "", **headers: str | None) -> dict[str, Any]:
    """Return the HTTP gateway's event for the authorizer. It has header names in lower case."""
    event = recorded("authorizer_http")
    sent = {**event["headers"], "authorization": f"Bearer {token}" if token else None}
    sent |= {name.lower(): value for name, value in headers.items()}
    event["headers"] = {name: value for name, value in sent.items() if value is not None}
    return event


def verdict(runtime: LambdaRuntime, event: dict[str, Any]) -> dict[str, str] | None:
    """Call the authorizer; return the context it passes on, None if it refuses."""
    answer = runtime.call(authorizer.handler, event)
    if "isAuthorized" in answer:
        assert answer["isAuthorized"] is ("context" in answer)
        found: dict[str, str] | None = answer.get("context")
        return found
    (statement,) = answer["policyDocument"]["Statement"]
    assert statement["Resource"] == event["methodArn"]
    assert statement["Effect"] == ("Allow" if "context" in answer else "Deny")
    return answer.get("context")


def open_socket(runtime: LambdaRuntime, context: dict[str, str], connection: str = "k1") -> list[bytes]:
    """Open a connection that the authorizer accepted; return its inbox."""
    event = recorded("connect")
    event["requestContext"] |= {"authorizer": context, "connectionId": connection}
    runtime.call(socket.handler, event)
    inbox: list[bytes] = runtime.app.ports.publisher.open(connection)  # type: ignore[attr-defined]  # the memory twin's own
    return inbox


def say(runtime: LambdaRuntime, message: dict[str, Any], connection: str = "k1") -> list[Frame]:
    """Send one message; return the frames of the answer."""
    inbox: list[bytes] = runtime.app.ports.publisher.open(connection)  # type: ignore[attr-defined]  # the memory twin's own
    before = len(inbox)
    event = {**recorded("message"), "body": json.dumps(message)}
    event["requestContext"]["connectionId"] = connection
    assert runtime.call(socket.handler, event) == {"statusCode": 200}
    return [decode_frame(frame) for frame in inbox[before:]]


def ask_for_ticket(runtime: LambdaRuntime, context: dict[str, str]) -> dict[str, Any]:
    """Request a ticket as an authorized user; return the answer."""
    event = recorded("ticket")
    event["requestContext"]["authorizer"]["lambda"] = context
    return runtime.call(api.handler, event)


def ticket_of(runtime: LambdaRuntime, token: str) -> str:
    """Exchange a token for a ticket, as a browser does."""
    context = verdict(runtime, request(token))
    assert context is not None
    return str(json.loads(ask_for_ticket(runtime, context)["body"])["ticket"])


def principal_of(runtime: LambdaRuntime, connection: str = "k1") -> Principal | None:
    """Return the principal of a connection."""
    return runtime.app.ports.subscriptions.principal(connection)
