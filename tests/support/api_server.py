"""The HTTP API as a WSGI application as a gateway serves it to one signed-in user, on loopback."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, unquote
from wsgiref.simple_server import WSGIRequestHandler, make_server

from stepline.api.router import Request, make_error_response
from stepline.errors import SteplineError
from tests.support.api_caller import ROUTER, Caller

TOKEN = "t"
Start = Callable[[str, list[tuple[str, str]]], Any]


class ApiServer:
    """Answers as the function `api` does; `failures` are our own errors, which it answers with 500."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.failures: list[Exception] = []

    def __call__(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        if (given := environ.get("HTTP_AUTHORIZATION")) != f"Bearer {TOKEN}":
            status = HTTPStatus.FORBIDDEN if given else HTTPStatus.UNAUTHORIZED
            start(f"{int(status)} {status.phrase}", [("Content-Type", "application/json")])
            return [b'{"message":"%s"}' % status.phrase.encode()]
        try:
            answer = ROUTER.answer(self.caller.services, self.caller.principal, read_request(environ))
        except Exception as error:  # noqa: BLE001 - the edge: the test asserts on them
            self.failures.append(error)
            answer = make_error_response(SteplineError("failed"))
        start(f"{int(answer.status)} {HTTPStatus(answer.status).phrase}", list(answer.headers.items()))
        return [answer.body]


class CrowdedServer(ApiServer):
    """Refuses the first `refusals` requests, as the gateway does while its function has no free execution."""

    def __init__(self, caller: Caller, refusals: int) -> None:
        super().__init__(caller)
        self.refusals = refusals

    def __call__(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        if not self.refusals:
            return super().__call__(environ, start)
        self.refusals -= 1
        start("503 Service Unavailable", [("Content-Type", "application/json")])
        return [b'{"message":"Service Unavailable"}']


class Handler(WSGIRequestHandler):
    """Passes the path unchanged, and writes no log."""

    def get_environ(self) -> dict[str, Any]:
        return {**super().get_environ(), "REQUEST_URI": self.path}

    def log_message(self, *args: object) -> None:
        """Keep the test's output clean."""


@contextmanager
def served(application: Any) -> Iterator[str]:
    """Yield the address at which an application answers."""
    with make_server("127.0.0.1", 0, application, handler_class=Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def read_request(environ: dict[str, Any]) -> Request:
    """Return a request in the gateway's form: the path decoded but for `%25`, a name's values joined by commas."""
    path, query = environ["REQUEST_URI"].partition("?")[0], environ["QUERY_STRING"]
    path = unquote(path.replace("%25", "%2525"))
    headers = {
        name[5:].replace("_", "-").lower(): text for name, text in environ.items() if name.startswith("HTTP_")
    }
    headers["content-type"] = environ.get("CONTENT_TYPE", "")
    return Request(
        method=environ["REQUEST_METHOD"],
        path=path,
        query={name: ",".join(texts) for name, texts in parse_qs(query, keep_blank_values=True).items()},
        headers=headers,
        body=environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)),
    )
