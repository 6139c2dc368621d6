"""As much of AWS as a task of ours talks to, on this machine: secrets, a state's token, objects by rights to them."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, ClassVar, Self
from urllib.parse import parse_qs, quote, unquote, urlsplit

import msgspec

from stepline.errors import DependencyError, NotFoundError
from stepline.model.program.handover import ObjectGrant
from stepline.model.program.served_call import ServedCall
from stepline.ports.executor import Serve, serve_nothing

Fetch = Callable[[str], bytes]


class Cloud:
    """Listens on the loopback while it is entered. `waiting` are the tokens of states that wait, by what they heard."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.secrets: dict[str, str] = {}
        self.waiting: dict[str, list[str]] = {}
        self.fetch: Fetch | None = None
        self.serve: Serve = serve_nothing
        self.rights: dict[str, tuple[str, str]] = {}
        self.changing: set[str] = set()
        self.replaced: Callable[[str, bytes], object] = lambda *_: None
        self.beaten = threading.Condition()
        handler = type("Handler", (_Handler,), {"cloud": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def grant(self, method: str, key: str, *, again: bool = False) -> ObjectGrant:
        """Return the right to one request on one object, as a presigned URL is; `again`: to puts over the object."""
        right = secrets.token_urlsafe(16)
        self.rights[right] = (method, key)
        if again:
            self.changing.add(key)
        headers = {} if method == "GET" else {"Content-Type": "x/y"}
        if method == "PUT" and not again:
            headers["If-None-Match"] = "*"
        return ObjectGrant(url=f"{self.url}/objects/{quote(key)}?right={right}", headers=headers)

    def get(self, key: str) -> bytes | None:
        if key in self.objects:
            return self.objects[key]
        try:
            return self.fetch(key) if self.fetch else None
        except NotFoundError:
            return None

    def put(self, key: str, body: bytes) -> bool:
        if key in self.changing:
            self.objects[key] = body
            self.replaced(key, body)
            return True
        return self.objects.setdefault(key, body) is body

    def call(self, target: str, asked: dict[str, Any]) -> tuple[HTTPStatus, dict[str, Any]]:
        """Answer one call of a service in AWS's JSON protocol."""
        service, _, operation = target.partition(".")
        if service == "secretsmanager":
            name = asked["SecretId"]
            if name not in self.secrets:
                return HTTPStatus.BAD_REQUEST, {"__type": "ResourceNotFoundException"}
            text = self.secrets[name] if operation == "GetSecretValue" else self.secrets.pop(name)
            return HTTPStatus.OK, {"Name": name, "SecretString": text}
        heard = self.waiting.get(asked["taskToken"])
        if heard is None:
            return HTTPStatus.BAD_REQUEST, {"__type": "TaskTimedOut"}
        with self.beaten:
            heard.append(operation)
            self.beaten.notify_all()
        return HTTPStatus.OK, {}


class _Handler(BaseHTTPRequestHandler):
    cloud: ClassVar[Cloud]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.cloud.get(self._key("GET")) if self._key("GET") else None
        if body is None:
            self._answer(HTTPStatus.NOT_FOUND if self._key("GET") else HTTPStatus.FORBIDDEN, b"")
        else:
            self._answer(HTTPStatus.OK, body)

    def do_PUT(self) -> None:
        body = self._body()
        if (
            not self._key("PUT")
            or self.headers["If-None-Match"] != (None if self._key("PUT") in self.cloud.changing else "*")
            or self.headers["Content-Type"] != "x/y"
        ):
            self._answer(HTTPStatus.FORBIDDEN, b"")
        else:
            try:
                written = self.cloud.put(self._key("PUT"), body)
            except DependencyError:
                self._answer(HTTPStatus.SERVICE_UNAVAILABLE, b"")
                return
            self._answer(HTTPStatus.OK if written else HTTPStatus.PRECONDITION_FAILED, b"")

    def do_POST(self) -> None:
        if self.path.endswith("/invocations"):
            self._invoke(self._body())
            return
        status, answer = self.cloud.call(self.headers["X-Amz-Target"], json.loads(self._body()))
        self._answer(status, json.dumps(answer).encode())

    def _invoke(self, body: bytes) -> None:
        """Be the function that makes calls of programs."""
        try:
            answer = msgspec.json.encode(self.cloud.serve(msgspec.json.decode(body, type=ServedCall)))
        except DependencyError:
            self._answer(
                HTTPStatus.OK, b'{"errorType": "DependencyError"}', {"X-Amz-Function-Error": "Unhandled"}
            )
        else:
            self._answer(HTTPStatus.OK, answer)

    def _key(self, method: str) -> str:
        """Return the key that the URL's right is to, nothing if it has none to this request."""
        parts = urlsplit(self.path)
        right = parse_qs(parts.query).get("right", [""])[0]
        asked = (method, unquote(parts.path.removeprefix("/objects/")))
        return asked[1] if self.cloud.rights.get(right) == asked else ""

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"]))

    def _answer(
        self, status: HTTPStatus, body: bytes, headers: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""
