"""A server of doors for a stage of recorded answers, and a proxy that signs its clients in.

Each message to the stage is acknowledged, and answered as in the recorded conversation. The proxy is for clients that
cannot send a token.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from stepline.local.stage.deployed import REPOSITORY, install_environment

TOKEN: Final = "a.b.c"
RECORDED: Final = REPOSITORY / "tests/data/thread/conversations.json"
STEPLINE: Final = str(Path(sys.executable).parent / "stepline")


class RecordedStage:
    """The HTTP API and the websocket of a stage whose agent answers each message as in the conversation `name`."""

    def __init__(self, name: str) -> None:
        self._frames = next(one["frames"] for one in json.loads(RECORDED.read_text()) if one["name"] == name)
        first = next(event for event in self._frames[0]["events"] if event["type"].endswith(".accepted"))
        self._message = first["data"]["message_id"]
        self._conversations: dict[str, list[dict[str, Any]]] = {}
        self.said: list[dict[str, Any]] = []
        self._sockets = serve(self._listen, "127.0.0.1", 0, compression=None)
        self._socket_url = f"ws://127.0.0.1:{self._sockets.socket.getsockname()[1]}/"
        self._api = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._api.server_port}"

    @contextmanager
    def running(self) -> Iterator[RecordedStage]:
        servers = (self._sockets, self._api)
        threads = [threading.Thread(target=server.serve_forever) for server in servers]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            for server in servers:
                server.shutdown()
            self._api.server_close()
            for thread in threads:
                thread.join()

    def answer(self, path: str) -> tuple[int, dict[str, Any]]:
        """Return the answer to a request of the HTTP API."""
        match path.partition("?")[0].split("/"):
            case ["", "v1", "socket-tickets"]:
                return 201, {"ticket": "t", "expires_in_s": 60, "url": self._socket_url}
            case ["", "v1", "conversations", conversation, "events"] if conversation in self._conversations:
                frames = self._conversations[conversation]
                events = [frame for frame in frames if frame["frame"] == "events"]
                return 200, {"events": events, "first_n": 1, "more": False, "turns_before": 0}
            case ["", "v1", "limits"]:
                return 200, {"tenant": "t", "project": "p", "user": "ada", "role": "user", "scopes": []}
            case _:
                return 404, {"status": 404, "code": "not_found", "detail": "no such conversation"}

    def _listen(self, socket: ServerConnection) -> None:
        try:
            for text in socket:
                asked = json.loads(text)
                self.said.append(asked)
                if "message_id" not in asked:
                    continue
                names = {key: asked[key] for key in ("message_id", "conversation")}
                socket.send(json.dumps({"frame": "ack", **names, "n": 1, "kind": ""}))
                for frame in self._played(asked) if asked["action"] == "send" else ():
                    socket.send(json.dumps(frame))
        except ConnectionClosed:
            return

    def _played(self, asked: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the frames of the recorded conversation, for another message of another conversation."""
        text = json.dumps(self._frames).replace(self._message, asked["message_id"])
        frames = [{**frame, "conversation": asked["conversation"]} for frame in json.loads(text)]
        self._conversations[asked["conversation"]] = frames
        return frames

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        stage = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                signed_in = self.headers["Authorization"] == f"Bearer {TOKEN}"
                refusal = 401, {"status": 401, "code": "unauthorized", "detail": "no"}
                status, found = stage.answer(self.path) if signed_in else refusal
                body = json.dumps(found).encode()
                self.send_response(status)
                self.send_header(
                    "Content-Type", "application/json" if status < 400 else "application/problem+json"
                )
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = _answer  # noqa: N815 - the names of the base

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        return Handler


@contextmanager
def serving_doors(stage: str, *options: str) -> Iterator[str]:
    """Run `stepline serve` for a stage, and yield its address."""
    command = [STEPLINE, "serve", "--port", "0", "--url", stage, *options]
    with subprocess.Popen(command, env=install_environment(), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.kill()


class SigningProxy:
    """A proxy to `target` that adds the token to each request."""

    def __init__(self) -> None:
        self.target = ""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def running(self) -> Iterator[SigningProxy]:
        thread = threading.Thread(target=self._server.serve_forever)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def _pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                asked = http.client.HTTPConnection(urlsplit(proxy.target).netloc)
                headers = {**self.headers, "Authorization": f"Bearer {TOKEN}"}
                asked.request(self.command, self.path, body, headers)
                answer = asked.getresponse()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("transfer-encoding", "connection", "date"):
                        self.send_header(name, value)
                self.end_headers()
                while piece := answer.read1():
                    self.wfile.write(piece)
                asked.close()

            do_GET = do_POST = do_DELETE = _pass_on  # noqa: N815 - the names of the base

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        return Handler
