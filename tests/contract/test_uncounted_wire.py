"""A server of chat completions that counts no tokens: estimates keep a long conversation within its window."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import pytest

from stepline.model.entry import Compacted, Decided, Pruned
from tests.support.generation import answered
from tests.support.served_conversation import ServedConversation

WINDOW: Final = 32_768
TURNS: Final = 30
ANSWER: Final = answered("Noted. " * 60)


class Uncounted(ThreadingHTTPServer):
    """A server whose model has a token for each `token_bytes` of UTF-8, and refuses what does not fit into its window."""

    def __init__(self, token_bytes: float) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.token_bytes = token_bytes
        self.prompts: list[int] = []
        self.refused = 0
        self.place = f"http://127.0.0.1:{self.server_address[1]}/v1"

    def answer(self, asked: dict[str, Any]) -> tuple[int, bytes]:
        """Return the status and the body of an answer."""
        system, user = asked["messages"]
        text = system["content"] + "".join(part["text"] for part in user["content"])
        tokens = int(len(text.encode()) / self.token_bytes)
        if tokens + asked["max_tokens"] > WINDOW:
            self.refused += 1
            error = {"message": "maximum context length exceeded", "code": "context_length_exceeded"}
            return 400, json.dumps({"error": error}).encode()
        self.prompts.append(tokens)
        chunk = {"choices": [{"index": 0, "delta": {"content": ANSWER}, "finish_reason": "stop"}]}
        lines = [json.dumps(chunk), "[DONE]"]
        return 200, "".join(f"data: {line}\n\n" for line in lines).encode()


class _Handler(BaseHTTPRequestHandler):
    server: Uncounted

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        status, body = self.server.answer(asked)
        self.send_response(status)
        self.send_header("content-type", "text/event-stream" if status == 200 else "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture(params=[4.0, 3.2, 1.8], ids=["few tokens", "as estimated", "many tokens"])
def server(request: pytest.FixtureRequest) -> Iterator[Uncounted]:
    running = Uncounted(request.param)
    thread = threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join()


def test_a_long_conversation_stays_within_a_window_that_the_server_never_counts(server: Uncounted) -> None:
    row = {"base_url": server.place, "private": True, "window_tokens": WINDOW}
    served = ServedConversation(
        {
            "STEPLINE_MODEL_PROVIDERS": json.dumps({"own": row}),
            "STEPLINE_MODEL_ROLES": '{"*": "own:m"}',
        }
    )
    outcomes = {
        served.ask(f"Remember number {turn}: " + "some words to fill a message, " * 120, f"m{turn}").outcome
        for turn in range(TURNS)
    }
    assert outcomes == {"completed"}
    assert served.entries(Compacted) or served.entries(Pruned)
    assert max(server.prompts) < WINDOW
    assert all(one.usage.estimated for one in served.entries(Decided))
    assert server.token_bytes < 3 or not server.refused
