"""An emulator with the guard: requests to it, the guard's rules, and their results."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

from stepline.local.guard.gate import Gate
from stepline.local.guard.request_filter import RequestRefusal, Rules, check_signature, consider
from stepline.local.guard.signature import ReceivedRequest, Signature

PORT = 4566
HOME = f"http://127.0.0.1:{PORT}"
PAGE = "http://127.0.0.1:5173"
KEY, SECRET = "AKIAABCDEFGHIJKLMNOP", "the secret of this stage"
RULES = Rules(port=PORT, secret_of={KEY: SECRET, "000000000000": SECRET}.get)
WITH_PAGE = replace(RULES, pages=frozenset({PAGE}))
HOST = ("host", f"127.0.0.1:{PORT}")


def plain(method, path, *headers, query="", host=HOST):
    return ReceivedRequest(method, path, path, query, (host, *headers))


def judge(request, payload="", *, rules=RULES, later_s=0.0):
    """Return the code of a refusal, or None."""
    found = consider(request, rules)
    if isinstance(found, Signature):
        now_s = datetime.now(UTC).timestamp() + later_s
        found = check_signature(found, request, rules, payload=found.payload or payload, now_s=now_s)
    return found.code if isinstance(found, RequestRefusal) else None


class Emulator:
    """An ASGI application that records its requests, and shares every answer with every origin."""

    def __init__(self):
        self.heard = []

    async def __call__(self, scope, receive, send):
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message.get("more_body", False)
        self.heard.append((scope["path"], body))
        headers = [(b"Access-Control-Allow-Origin", b"*"), (b"x-kept", b"1")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"said"})


def serve(request, *pieces, rules=RULES, kind="http", lend=lambda _: None, make=None):
    """Send a request to a guarded emulator; return the client's response and the requests that reached the emulator.

    `make` sets another guard.
    """
    emulator, sent = Emulator(), []
    body = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    waiting = iter([*body, {"type": "http.request", "body": b""}])
    scope = {
        "type": kind,
        "method": request.method,
        "path": request.path,
        "raw_path": request.raw_path.encode(),
        "query_string": request.query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in request.headers],
    }

    async def receive():
        return next(waiting)

    async def send(message):
        sent.append(message)

    gate = make(emulator) if make else Gate(emulator, rules, lend=lend)
    asyncio.run(gate(scope, receive, send))
    return sent, emulator.heard
