"""The HTTP server: the Messages API, chat completions, Bedrock's streaming call, and a control endpoint for tests.

    POST   /v1/messages                                    as the Anthropic API, streaming or whole
    POST   /v1/chat/completions     GET /v1/models         as OpenAI's API, streaming or whole
    POST   /model/{model}/invoke-with-response-stream      as Bedrock streams it
    POST   /model/{model}/converse-stream                  as Bedrock's Converse
    GET    /_stepline/health
    POST   /control/faults    GET    DELETE                queue, list, delete faults (see `fault`)
    GET    /control/requests  DELETE                       the last requests with cost and answer, oldest first;
                                                           of pictures and documents the hash
    GET    /control/sizes     DELETE                       tokens of requests, for many more of them

It listens on loopback, under this machine's own names, and refuses requests with an Origin, which web pages send.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import unquote

import msgspec

from stepline.local.guard.own_server import HEALTH, OwnServer, own_identity
from stepline.local.guard.request_filter import is_own_name
from stepline.local.scripted import event_stream as wire
from stepline.local.scripted.cache import CacheUse, PromptCache
from stepline.local.scripted.fault import FaultQueue
from stepline.local.scripted.messages_request import BadRequestError, Prompt, parse_prompt, summed_up
from stepline.local.scripted.reply import ScriptedReply, plan_reply
from stepline.local.scripted.thought import ScriptedThought, bedrock_version, read_thought
from stepline.local.scripted.wire.wire_format import WIRE_FORMATS, WireFormat
from stepline.model.tenancy.price import SCRIPTED

DEFAULT_TOKEN_DELAY_MS: Final = 8.0
DEFAULT_WINDOW_TOKENS: Final = 200_000
MAX_BODY_BYTES: Final = 32_000_000
KEPT_REQUESTS: Final = 100
KEPT_SIZES: Final = 10_000
TASK_CHARS: Final = 100
_CHAT: Final = "/v1/chat/completions"
_MODEL: Final = "/model/"
_CONVERSE_SUFFIX: Final = "/converse-stream"
_BEDROCK_SUFFIX: Final = "/invoke-with-response-stream"
_WIRES: Final = {_CHAT: "chat", _CONVERSE_SUFFIX: "converse", _BEDROCK_SUFFIX: "bedrock"}


class ScriptedServer(OwnServer):
    """A running server and its state. `with ScriptedServer(port=0) as server:` serves on a free port.

    `key` is the only API key that it accepts; if empty, it accepts any.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self,
        *,
        port: int = 0,
        token_delay_ms: float = DEFAULT_TOKEN_DELAY_MS,
        window_tokens: int = DEFAULT_WINDOW_TOKENS,
        fixtures: Path | None = None,
    ) -> None:
        """Bind the port; requests are served after `start` or `serve_forever`."""
        super().__init__(("127.0.0.1", port), _Handler)
        self.token_delay_ms = token_delay_ms
        self.window_tokens = window_tokens
        self.fixtures = fixtures
        self.cache = PromptCache(now_s=time.monotonic)
        self.faults = FaultQueue()
        self.key = ""
        self.requests: deque[dict[str, Any]] = deque(maxlen=KEPT_REQUESTS)
        self.sizes: deque[dict[str, Any]] = deque(maxlen=KEPT_SIZES)
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The base URL for a client."""
        return f"http://{self.server_address[0]!s}:{self.server_address[1]}"

    def __enter__(self) -> Self:
        """Serve in a thread."""
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop serving and close the socket."""
        self.shutdown()
        self.server_close()
        if self._thread is not None:
            self._thread.join()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that hung up; report other errors as usual."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: ScriptedServer
    protocol_version = "HTTP/1.1"
    wbufsize = 0
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
        """Do not log: /control/requests has everything that an access log would have."""

    def do_GET(self) -> None:
        """Return health, faults, requests or sizes."""
        self._route("GET", b"")

    def do_DELETE(self) -> None:
        """Delete faults or requests."""
        self._route("DELETE", b"")

    def do_POST(self) -> None:
        """Answer a model request, or queue faults."""
        length = int(self.headers.get("content-length") or 0)
        if length > MAX_BODY_BYTES:
            self.close_connection = True
            self._refuse(
                BadRequestError("Request exceeds the maximum size", status=413, kind="request_too_large")
            )
            return
        self._route("POST", self.rfile.read(length))

    def _route(self, method: str, body: bytes) -> None:
        path = self.path.partition("?")[0]
        try:
            self._refuse_pages()
            match method, path:
                case "GET", _ if path == HEALTH:
                    self._write(200, "text/plain", own_identity().encode())
                case "POST", "/v1/messages":
                    asked, key = _json(body), self._workspace()
                    thought = partial(read_thought, asked, self.headers.get("anthropic-version") or "")
                    self._answer(asked, workspace=key, thought=thought)
                case "POST", _ if path == _CHAT:
                    self._answer(_json(body), workspace=f"chat {self._bearer()}")
                case "GET", "/v1/models":
                    self._send(200, {"object": "list", "data": [{"id": SCRIPTED, "object": "model"}]})
                case "POST", _ if path.startswith(_MODEL) and path.endswith(_BEDROCK_SUFFIX):
                    model = unquote(path.removeprefix(_MODEL).removesuffix(_BEDROCK_SUFFIX))
                    asked = {**_json(body), "model": model}
                    thought = partial(read_thought, asked, bedrock_version(asked))
                    self._answer(asked, model=model, workspace="bedrock", thought=thought)
                case "POST", _ if path.startswith(_MODEL) and path.endswith(_CONVERSE_SUFFIX):
                    model = unquote(path.removeprefix(_MODEL).removesuffix(_CONVERSE_SUFFIX))
                    self._answer(_json(body), model=model, workspace="bedrock")
                case _ if path.startswith("/control/"):
                    self._control(method, path, body)
                case _:
                    self._refuse(BadRequestError("Not found", status=404, kind="not_found_error"))
        except BadRequestError as error:
            self._refuse(error)

    @property
    def _spoken(self) -> WireFormat:
        """The wire of the request's address."""
        path = self.path.partition("?")[0]
        for suffix, name in _WIRES.items():
            if path.endswith(suffix):
                return WIRE_FORMATS[name]
        return WIRE_FORMATS["messages"]

    def _bearer(self) -> str:
        """Return the key of a chat completion; any is accepted, and none, unless the server has one."""
        key = (self.headers.get("authorization") or "").removeprefix("Bearer ")
        if key != (self.server.key or key):
            raise BadRequestError("Incorrect API key provided", status=401, kind="authentication_error")
        return key

    def _workspace(self) -> str:
        bearer = (self.headers.get("authorization") or "").removeprefix("Bearer ")
        key = self.headers.get("x-api-key") or bearer
        if not key:
            raise BadRequestError("x-api-key header is required", status=401, kind="authentication_error")
        if key != (self.server.key or key):
            raise BadRequestError("invalid x-api-key", status=401, kind="authentication_error")
        if not self.headers.get("anthropic-version"):
            raise BadRequestError("anthropic-version: header is required")
        return key

    def _refuse_pages(self) -> None:
        """Raise BadRequestError for a web page, recognised by an Origin or a foreign host name."""
        hosts = self.headers.get_all("host", [])
        if "origin" in self.headers or not is_own_name(hosts, int(self.server.server_address[1])):
            raise BadRequestError("not for web pages", status=403, kind="permission_error")

    def _control(self, method: str, path: str, body: bytes) -> None:
        kept = {"/control/requests": self.server.requests, "/control/sizes": self.server.sizes}.get(path)
        match method, path:
            case "POST", "/control/faults":
                self.server.faults.add(_json(body))
                self._send(200, {"queued": len(self.server.faults.list())})
            case "GET", "/control/faults":
                self._send(200, [msgspec.to_builtins(fault) for fault in self.server.faults.list()])
            case "DELETE", "/control/faults":
                self.server.faults.clear()
                self._send(200, {})
            case "GET", _ if kept is not None:
                self._send(200, list(kept))
            case "DELETE", _ if kept is not None:
                kept.clear()
                self._send(200, {})
            case _:
                raise BadRequestError("Not found", status=404, kind="not_found_error")

    def _answer(
        self,
        asked: Any,
        *,
        workspace: str,
        model: str = "",
        thought: Callable[[], ScriptedThought] = ScriptedThought,
    ) -> None:
        body = self._spoken.read(asked, model)
        prompt, thoughts = parse_prompt(body), thought()
        fault = self.server.faults.take(prompt)
        record = {"body": summed_up(body), "fault": fault.kind if fault else None, "sent_chars": 0}
        self.server.requests.append(record)
        use = self.server.cache.look(prompt, workspace=workspace)
        try:
            reply = plan_reply(
                prompt,
                fault,
                thought=thoughts,
                use=use,
                window_tokens=self.server.window_tokens,
                fixtures=self.server.fixtures,
            )
        except BadRequestError as refused:
            self.server.sizes.append(_size(prompt, use, status=refused.status))
            raise
        self.server.sizes.append(_size(prompt, use, status=reply.status))
        if reply.status != 200:
            self._refuse(
                BadRequestError(reply.text, status=reply.status, kind=reply.error_type), reply.retry_after_s
            )
            return
        self.server.cache.commit(reply.use)
        record["usage"] = reply.counts
        if prompt.stream:
            self._stream(prompt, reply, self._spoken.begin(asked), record)
        else:
            record["sent_chars"] = len(reply.text)  # before the bytes: a client may query at once
            self._send(200, self._spoken.whole(reply.message(prompt)))

    def _stream(
        self,
        prompt: Prompt,
        reply: ScriptedReply,
        encode: Callable[[wire.Event], bytes],
        record: dict[str, Any],
    ) -> None:
        self._head(200, self._spoken.mime)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for wait_ms, event in reply.events(prompt, token_delay_ms=self.server.token_delay_ms):
            if wait_ms:
                time.sleep(wait_ms / 1000)
            if event is None:  # the fault that cuts the connection
                self.close_connection = True
                return
            if isinstance(event, bytes):
                self._chunk(event)
            else:
                record["sent_chars"] += wire.text_chars(event)
                self._chunk(encode(event))
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, data: bytes) -> None:
        if data:  # an empty chunk would end the body
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _head(self, status: int, mime: str) -> None:
        self.send_response(status)
        self.send_header("content-type", mime)
        self.send_header("request-id", f"req_{wire.message_id()[4:]}")

    def _send(self, status: int, body: Any, *, retry_after_s: float | None = None) -> None:
        data = json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
        self._write(status, "application/json", data, retry_after_s=retry_after_s)

    def _write(self, status: int, mime: str, data: bytes, *, retry_after_s: float | None = None) -> None:
        self._head(status, mime)
        self.send_header("content-length", str(len(data)))
        if retry_after_s is not None:
            self.send_header(*self._spoken.asks_wait(retry_after_s))
        self.end_headers()
        self.wfile.write(data)

    def _refuse(self, error: BadRequestError, retry_after_s: float | None = None) -> None:
        status, body = self._spoken.refuse(error.status, error.kind, str(error))
        self._send(status, body, retry_after_s=retry_after_s)


def _size(prompt: Prompt, use: CacheUse, *, status: int) -> dict[str, Any]:
    """Return the token counts of a request; its task is the first line of its instructions."""
    task = prompt.system.strip().partition("\n")[0][:TASK_CHARS]
    return {"task": task, "tokens": prompt.tokens, "cached": use.read, "status": status}


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError as error:
        raise BadRequestError("The request body is not valid JSON") from error
