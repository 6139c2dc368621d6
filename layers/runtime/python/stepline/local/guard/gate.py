"""The guard as an ASGI application: it answers refused requests itself; the emulator never sees them.

It also limits the nesting of websocket messages: the emulator parses each message to choose a route, and its parser
closes the connection if a message nests too deep. API Gateway passes such a message to the function, which answers it.

It also provides credentials for tasks: the emulator gives each container an address for credentials, but would return
useless ones to any caller. The guard identifies a container by the values it was started with: the address that it
calls, and its authorization token.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import importlib
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from stepline.local.guard.own_server import IDENTITY
from stepline.local.guard.request_filter import (
    NAMES,
    NO_HANDSHAKE,
    NO_KEY,
    PAGES,
    Passage,
    RequestRefusal,
    Rules,
    check_form,
    check_signature,
    consider,
    is_for_sockets,
)
from stepline.local.guard.signature import ReceivedRequest, Signature

NESTING_MAX: Final = 500
"""Half of the depth that Python's parser accepts."""

NO_JSON: Final = "["
"""Replaces a message that nests too deep: it is not JSON, and the function answers it as such."""

_BRACKET: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
"""A JSON string, possibly cut off, or a bracket outside of one."""


def limit_nesting(text: str) -> str:
    """Return a message unchanged, or `NO_JSON` if it nests too deep."""
    if text.count("[") + text.count("{") <= NESTING_MAX:
        return text
    depth = 0
    for found in _BRACKET.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(found[0], 0)
        if depth > NESTING_MAX:
            return NO_JSON
    return text


LABEL: Final = "com.amazonaws.ecs.task-arn"
LIFETIME_S: Final = 6 * 3600
DOCKER_TIMEOUT_S: Final = 10
_ADDRESS: Final = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
_WORD: Final = "AWS_CONTAINER_AUTHORIZATION_TOKEN"


def lend(request: ReceivedRequest, address: str, key: Mapping[str, str]) -> bytes | None:
    """Return `key` in the format that a container reads.

    Returns None unless the container of a running task calls its own address.
    """
    word = "".join(request.values("authorization"))
    if not any(_is_container(variables, address, word) for variables in _running()):
        return None
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + LIFETIME_S))
    lent = {
        "AccessKeyId": key["AWS_ACCESS_KEY_ID"],
        "SecretAccessKey": key["AWS_SECRET_ACCESS_KEY"],
        "Token": "none",
        "Expiration": until,
    }
    return json.dumps(lent).encode()


def _is_container(variables: Mapping[str, str], address: str, word: str) -> bool:
    own = variables.get(_WORD, "")
    is_word = hmac.compare_digest(own.encode(), word.encode())
    return bool(own) and is_word and variables.get(_ADDRESS) == address


def _running() -> Iterator[dict[str, str]]:
    """Yield the environment of each container that runs for a task; nothing without a Docker daemon."""
    docker: Any = importlib.import_module("docker")
    try:
        client = docker.from_env(timeout=DOCKER_TIMEOUT_S)
    except docker.errors.DockerException:  # without a daemon no task can run
        return
    with contextlib.closing(client):
        for container in client.containers.list(filters={"label": LABEL}, ignore_removed=True):
            yield dict(pair.partition("=")[::2] for pair in container.attrs["Config"]["Env"])


Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Lend = Callable[[ReceivedRequest], bytes | None]
"""Returns the credentials for a task's container, None for any other caller."""

App = Callable[[Scope, Receive, Send], Awaitable[None]]

logger = logging.getLogger("stepline.guard")

_LOGGED_CHARS: Final = 200
_CORS: Final = b"access-control-"
_POLICY_VIOLATION: Final = 1008
_PROBLEM: Final = b"application/problem+json"
_FAILED: Final = b'{"message":"Internal Server Error"}'
_STARTS: Final = ("http.response.start", "websocket.accept", "websocket.http.response.start")


class Gate:
    """An ASGI application that forwards the requests that the rules allow."""

    def __init__(
        self,
        app: App,
        rules: Rules,
        *,
        lend: Lend = lambda _: None,
        identity: str = "",
        now_s: Callable[[], float] = time.time,
    ) -> None:
        """Wrap `app`; `identity` is the answer to health requests."""
        self._app, self._rules, self._lend, self._now_s = app, rules, lend, now_s
        self._identity = identity.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        request = _read_request(scope)
        origin = "".join(request.values("origin"))
        answer = _without_cors(_with_cors(send, origin) if origin in self._rules.pages else send)
        found = consider(request, self._rules)
        if scope["type"] == "http" and not (isinstance(found, Signature) and not found.presigned):
            answer = _hiding_failures(answer)
            if found is Passage.OPEN and is_for_sockets(request, self._rules):
                found = NO_HANDSHAKE
        found, receive = await self._check(found, request, receive)
        lent = await asyncio.to_thread(self._lend, request) if found is Passage.TASK else None
        if found is Passage.TASK and lent is None:
            found = NO_KEY
        if isinstance(found, RequestRefusal):
            logger.warning("refused: %s %s %r", found.code, request.method, request.path[:_LOGGED_CHARS])
            await _refuse(found, scope, receive, send)
        elif found is Passage.HEALTH:
            await _say(answer, HTTPStatus.OK, self._identity)
        elif lent is not None:
            await _say(answer, HTTPStatus.OK, lent, ("content-type", "application/json"))
        elif found is Passage.PREFLIGHT:
            await _say(_with_cors(send, origin), HTTPStatus.OK, b"", *_preflight(request))
        else:
            await self._app(scope, _readable(receive), answer)

    async def _check(
        self, found: RequestRefusal | Signature | Passage, request: ReceivedRequest, receive: Receive
    ) -> tuple[RequestRefusal | Passage, Receive]:
        """Return the handling of a request after checking its signature, if any; and its body, if that was read."""
        if isinstance(found, Signature):
            payload = found.payload
            if not payload:
                body, receive = await _read_body(receive)
                payload = hashlib.sha256(body).hexdigest()
            found = (
                check_signature(found, request, self._rules, payload=payload, now_s=self._now_s())
                or Passage.OPEN
            )
        if found is Passage.FORM:
            body, receive = await _read_body(receive)
            found = check_form(request, self._rules, body=body) or Passage.OPEN
        return found, receive


def make_gate(app: App, environ: Mapping[str, str]) -> Gate:
    """Return the guarded application of the emulator, configured by the emulator's own variables."""
    account, secret = environ["MINISTACK_ACCOUNT_ID"], environ["AWS_SECRET_ACCESS_KEY"]
    # The emulator gives functions the account number as their key id.
    own = (environ["AWS_ACCESS_KEY_ID"], account)

    def secret_of(key_id: str) -> str | None:
        return secret if key_id in own else _issued_secret(key_id, account)

    pages = frozenset(environ.get(PAGES, "").split())
    rules = Rules(port=int(environ["GATEWAY_PORT"]), secret_of=secret_of, pages=pages, is_socket=_is_socket)
    endpoint = f"http://{NAMES[0]}:{rules.port}"
    return Gate(
        app,
        rules,
        lend=lambda request: lend(request, f"{endpoint}{request.path}", environ),
        identity=environ.get(IDENTITY, ""),
    )


def _issued_secret(key_id: str, account: str) -> str | None:
    """Return the secret of a key that the emulator issued to a role session or a user."""
    evaluator = importlib.import_module("ministack.core.iam_evaluator")
    found = evaluator.resolve_credential(key_id, account)
    is_issued = getattr(found, "principal_type", "Root") != "Root"
    return found.secret_access_key if is_issued else None


def _is_socket(api_id: str) -> bool:
    """Return True if the emulator has a websocket API with this id."""
    gateway = importlib.import_module("ministack.services.apigateway")
    owner = gateway._api_owner(api_id)  # noqa: SLF001 - the emulator's version is pinned, and it offers no other way
    return owner is not None and owner[0] == "WEBSOCKET"


def _read_request(scope: Scope) -> ReceivedRequest:
    """Convert an ASGI scope to a request; a websocket handshake has the method GET."""
    raw_path = scope.get("raw_path") or quote(scope["path"]).encode()
    return ReceivedRequest(
        method=scope.get("method", "GET"),
        path=scope["path"],
        raw_path=raw_path.partition(b"?")[0].decode("latin-1"),
        query=scope.get("query_string", b"").decode("latin-1"),
        headers=tuple(
            (name.decode("latin-1").lower(), value.decode("utf-8", "replace"))
            for name, value in scope["headers"]
        ),
    )


async def _read_body(receive: Receive) -> tuple[bytes, Receive]:
    """Return the whole body, and a `receive` that delivers it again."""
    messages = [await receive()]
    while messages[-1].get("more_body"):
        messages.append(await receive())
    body = b"".join(message.get("body", b"") for message in messages)
    waiting = iter(messages)

    async def again() -> Message:
        return next(waiting, None) or await receive()

    return body, again


def _readable(receive: Receive) -> Receive:
    """Return a `receive` whose websocket messages the emulator can parse."""

    async def receive_on() -> Message:
        message = await receive()
        text = message.get("text")
        return {**message, "text": limit_nesting(text)} if text else message

    return receive_on


def _hiding_failures(send: Send) -> Send:
    """Return a `send` for callers without a key that hides a failure's details, as API Gateway does.

    The emulator answers with the traceback of a failed function. A problem of the API has our own text.
    """
    is_hidden = False

    async def send_on(message: Message) -> None:
        nonlocal is_hidden
        if message["type"] == "http.response.start" and message["status"] >= HTTPStatus.INTERNAL_SERVER_ERROR:
            mime = b"".join(value for name, value in message["headers"] if name.lower() == b"content-type")
            is_hidden = not mime.startswith(_PROBLEM)
            if is_hidden:
                await _say(send, message["status"], _FAILED, ("content-type", "application/json"))
        if not is_hidden:
            await send(message)

    return send_on


def _without_cors(send: Send) -> Send:
    """Return a `send` that strips CORS headers."""

    async def send_on(message: Message) -> None:
        if message["type"] in _STARTS:
            kept = [pair for pair in message.get("headers", ()) if not pair[0].lower().startswith(_CORS)]
            message = {**message, "headers": kept}
        await send(message)

    return send_on


def _with_cors(send: Send, page: str) -> Send:
    """Return a `send` that adds CORS headers for this page."""
    shared = [(b"access-control-allow-origin", page.encode()), (b"vary", b"Origin")]

    async def send_on(message: Message) -> None:
        if message["type"] in _STARTS:
            message = {**message, "headers": [*message.get("headers", ()), *shared]}
        await send(message)

    return send_on


async def _refuse(refusal: RequestRefusal, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()  # the server expects the connect message to be received before an answer
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        return
    is_form = b"form" in dict(scope["headers"]).get(b"content-type", b"")
    body, mime = _render_refusal(refusal, as_xml=is_form)
    await _say(send, HTTPStatus.FORBIDDEN, body, ("content-type", mime), ("x-amzn-errortype", refusal.code))


def _render_refusal(refusal: RequestRefusal, *, as_xml: bool) -> tuple[bytes, str]:
    """Return a refusal's body and its type: XML for clients that send forms, JSON for all others."""
    if as_xml:
        error = f"<Error><Code>{refusal.code}</Code><Message>{refusal.message}</Message></Error>"
        return f"<ErrorResponse>{error}</ErrorResponse>".encode(), "application/xml"
    said = {"__type": refusal.code, "code": refusal.code, "message": refusal.message}
    return json.dumps(said).encode(), "application/json"


def _preflight(request: ReceivedRequest) -> list[tuple[str, str]]:
    """Return the CORS headers of a preflight.

    Everything that the page requests is allowed, since the request itself is checked again.
    """
    asked = ", ".join(request.values("access-control-request-headers"))
    methods = ", ".join(request.values("access-control-request-method"))
    return [("access-control-allow-methods", methods), ("access-control-allow-headers", asked)]


async def _say(send: Send, status: int, body: bytes, *headers: tuple[str, str]) -> None:
    named = [*headers, ("content-length", str(len(body)))]
    pairs = [(name.encode(), value.encode("latin-1", "replace")) for name, value in named]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
