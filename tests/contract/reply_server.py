"""A provider's server that answers with replies, byte for byte."""

from __future__ import annotations

import http.server
import threading
from typing import Self

from stepline.model.base import Value


class Reply(Value):
    """One HTTP answer, byte for byte."""

    body: bytes
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


class Scripted(http.server.ThreadingHTTPServer):
    """Answers requests with replies, the last one for ever, and records what was asked."""

    daemon_threads = True

    def __init__(self, *replies: Reply) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.replies = list(replies)
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Scripted

    def log_message(self, *args: object) -> None: ...

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        replies = self.server.replies
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        self.send_response(reply.status)
        for name, value in reply.headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)
