"""The way in as its tests go it: an issuer on loopback, tokens of any kind, and the events of both gateways."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jwt

from lambdas import api, authorizer, socket
from stepline.local.stage import issuer
from stepline.model.wire.event import Frame, decode_frame
from stepline.ports.channel import Principal
from tests.handlers.conftest import LambdaRuntime, recorded

REMOVED = object()
OURS = {"tenant": "acme", "project": "support", "sub": "ada"}
SITE = "https://app.example"


class Issuer:
    """The local runtime's issuer; `token` changes whatever a test wants changed."""

    def __init__(self, home: Path, url: str) -> None:
        self.home = home
        self.url = url

    @property
    def key(self) -> Any:
        return issuer.load_key(self.home)

    def claims(self, **claims: Any) -> dict[str, Any]:
        now = int(time.time())
        body = {"iss": self.url, "aud": issuer.AUDIENCE, "iat": now, "exp": now + 600, **OURS, **claims}
        return {name: value for name, value in body.items() if value is not REMOVED}

    def token(
        self,
        *,
        key: Any = None,
        algorithm: str = "RS256",
        header: dict[str, Any] | None = None,
        **claims: Any,
    ) -> str:
        """Return a signed token; a header of None says what the issuer's own tokens say."""
        named = {"kid": "local", **(header or {})}
        kept = {name: value for name, value in named.items() if value is not REMOVED}
        return jwt.encode(self.claims(**claims), key or self.key, algorithm=algorithm, headers=kept)


@contextmanager
def running_issuer(home: Path) -> Iterator[Issuer]:
    server = issuer.make_server(0, home)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield Issuer(home, f"http://127.0.0.1:{server.server_address[1]}")
    server.shutdown()
    thread.join()
    server.server_close()


def handshake(token: str = "", *, ticket: str = "", **headers: str | None) -> dict[str, Any]:
    """Return what the websocket's gateway asks the authorizer; a header of None is not sent."""
    event = recorded("authorizer")
    sent = {**event["headers"], "Authorization": f"Bearer {token}" if token else None, **headers}
    event["headers"] = {name: value for name, value in sent.items() if value is not None}
    event["multiValueHeaders"] = {name: [value] for name, value in event["headers"].items()}
    if ticket:
        event["queryStringParameters"] = {"ticket": ticket}
        event["multiValueQueryStringParameters"] = {"ticket": [ticket]}
    return event


def request(token: str = "", **headers: str | None) -> dict[str, Any]:
    """Return what the HTTP gateway asks the authorizer. It writes the names of headers in small letters."""
    event = recorded("authorizer_http")
    sent = {**event["headers"], "authorization": f"Bearer {token}" if token else None}
    sent |= {name.lower(): value for name, value in headers.items()}
    event["headers"] = {name: value for name, value in sent.items() if value is not None}
    return event


def verdict(runtime: LambdaRuntime, event: dict[str, Any]) -> dict[str, str] | None:
    """Ask the authorizer; return the context it hands on, None if it refuses."""
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
    """Open a connection that the authorizer let in; return its inbox."""
    event = recorded("connect")
    event["requestContext"] |= {"authorizer": context, "connectionId": connection}
    runtime.call(socket.handler, event)
    inbox: list[bytes] = runtime.app.ports.publisher.open(connection)  # type: ignore[attr-defined]  # the memory twin's own
    return inbox


def say(runtime: LambdaRuntime, message: dict[str, Any], connection: str = "k1") -> list[Frame]:
    """Send one message; return the frames it is answered with."""
    inbox: list[bytes] = runtime.app.ports.publisher.open(connection)  # type: ignore[attr-defined]  # the memory twin's own
    before = len(inbox)
    event = {**recorded("message"), "body": json.dumps(message)}
    event["requestContext"]["connectionId"] = connection
    assert runtime.call(socket.handler, event) == {"statusCode": 200}
    return [decode_frame(frame) for frame in inbox[before:]]


def ask_for_ticket(runtime: LambdaRuntime, context: dict[str, str]) -> dict[str, Any]:
    """Ask for a ticket as somebody the authorizer let in; return the answer."""
    event = recorded("ticket")
    event["requestContext"]["authorizer"]["lambda"] = context
    return runtime.call(api.handler, event)


def ticket_of(runtime: LambdaRuntime, token: str) -> str:
    """Exchange a token for a ticket, as a browser does."""
    context = verdict(runtime, request(token))
    assert context is not None
    return str(json.loads(ask_for_ticket(runtime, context)["body"])["ticket"])


def behind(runtime: LambdaRuntime, connection: str = "k1") -> Principal | None:
    """Return who is behind a connection."""
    return runtime.app.ports.subscriptions.principal(connection)
