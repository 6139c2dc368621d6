"""The scripted model of every subject: chat completions and Anthropic messages over HTTP, streamed and whole.

A reply is a function of the text of a request: `reply.py`.
"""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self

from bench.torture.reply import Reply, plan_reply
from bench.torture.stepline_dialect import speak_stepline

NAME: Final = "scripted"
POLL_S: Final = 0.02
"""How long the server's end may take."""


def read_request(body: Mapping[str, Any]) -> str:
    """Return the text of a request's messages and calls, in order, without the results of tools."""
    return "\n".join(_texts(body.get("messages", [])))


def _texts(messages: Any) -> Iterator[str]:
    for message in messages:
        if message.get("role") in ("tool", "system", "developer"):
            continue
        content = message.get("content") or ""
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block.get("type") == "tool_use":
                yield json.dumps(block.get("input"))
            elif block.get("type") != "tool_result":
                yield str(block.get("text", ""))
        for call in message.get("tool_calls") or ():
            yield str(call["function"]["arguments"])


class ModelServer:
    """The server, on a free port of this machine. `url` is its address without a path."""

    def __init__(self) -> None:
        """Create the server; `with` starts it."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"owner": self}))
        self._server.daemon_threads = True
        self._lock = threading.Lock()
        self._sent: Counter[str] = Counter()
        self._requests: list[str] = []
        self.failures: list[Exception] = []
        """Errors of this program, which no subject is judged by."""
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        """Serve."""
        threading.Thread(target=self._server.serve_forever, args=(POLL_S,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._server.shutdown()
        self._server.server_close()

    def sent(self, word: str) -> int:
        """Return how many pieces of a word's answers were sent, over all requests."""
        with self._lock:
            return self._sent[word]

    def requests(self, word: str) -> int:
        """Return how many requests named a word."""
        with self._lock:
            return sum(word in text for text in self._requests)

    def note_request(self, text: str) -> None:
        """Keep a request's text."""
        with self._lock:
            self._requests.append(text)

    def note_piece(self, piece: str) -> None:
        """Count a piece that was sent."""
        with self._lock:
            self._sent[piece.strip().partition(".")[0]] += 1


class _Handler(BaseHTTPRequestHandler):
    owner: ModelServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        self._json({"object": "list", "data": [{"id": NAME, "object": "model", "owned_by": "bench"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            text = read_request(body)
            self.owner.note_request(text)
            reply = speak_stepline(body, text) or plan_reply(text)
        except Exception as error:
            self.owner.failures.append(error)
            raise
        anthropic = self.path.partition("?")[0].endswith("/messages")
        if not body.get("stream"):
            if not self._wait_whole(reply):
                return
            self._json(_whole_message(reply) if anthropic else _whole_completion(reply))
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            for piece, frame, pause_s in (
                _stream_message(reply) if anthropic else _stream_completion(reply, body)
            ):
                self.wfile.write(frame.encode())
                self.wfile.flush()
                if piece:
                    self.owner.note_piece(piece)
                if pause_s:
                    time.sleep(pause_s)
        except OSError:  # the reader has disconnected: the answer ends here
            return

    def _wait_whole(self, reply: Reply) -> bool:
        """Take as long as for a stream; return False when the reader has disconnected."""
        for piece, pause_s in reply.pieces:
            self.owner.note_piece(piece)
            if not pause_s:
                continue
            time.sleep(pause_s)
            if select.select([self.connection], [], [], 0)[0] and not self.connection.recv(
                1, socket.MSG_PEEK
            ):
                self.close_connection = True
                return False
        return True

    def _json(self, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


_Frame = tuple[str, str, float]
_USAGE: Final = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


def _call_id(reply: Reply) -> str:
    return f"call_{reply.word}_{time.time_ns()}"


def _call(reply: Reply) -> dict[str, Any]:
    function = {"name": reply.tool, "arguments": json.dumps({"word": reply.word})}
    return {"id": _call_id(reply), "type": "function", "function": function}


def _whole_completion(reply: Reply) -> dict[str, Any]:
    text = "".join(piece for piece, _ in reply.pieces)
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if reply.tool:
        message["tool_calls"] = [_call(reply)]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if reply.tool else "stop"}
    return {**_completion("chat.completion"), "choices": [choice], "usage": _USAGE}


def _completion(kind: str) -> dict[str, Any]:
    return {"id": f"c{time.time_ns()}", "object": kind, "created": int(time.time()), "model": NAME}


def _stream_completion(reply: Reply, body: Mapping[str, Any]) -> Iterator[_Frame]:
    begun = _completion("chat.completion.chunk")

    def frame(delta: dict[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return f"data: {json.dumps({**begun, 'choices': [choice]})}\n\n"

    yield "", frame({"role": "assistant", "content": ""}), 0.0
    if reply.tool:
        yield "", frame({"tool_calls": [{"index": 0, **_call(reply)}]}), 0.0
    for piece, pause_s in reply.pieces:
        yield piece, frame({"content": piece}), pause_s
    yield "", frame({}, "tool_calls" if reply.tool else "stop"), 0.0
    if (body.get("stream_options") or {}).get("include_usage"):
        yield "", f"data: {json.dumps({**begun, 'choices': [], 'usage': _USAGE})}\n\n", 0.0
    yield "", "data: [DONE]\n\n", 0.0


def _whole_message(reply: Reply) -> dict[str, Any]:
    text = "".join(piece for piece, _ in reply.pieces)
    block = {"type": "text", "text": text}
    if reply.tool:
        block = _tool_use(reply, {"word": reply.word})
    return {**_message(), "content": [block], "stop_reason": "tool_use" if reply.tool else "end_turn"}


def _message() -> dict[str, Any]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    return {
        "id": f"msg_{time.time_ns()}", "type": "message", "role": "assistant", "model": NAME, "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip


def _tool_use(reply: Reply, given: dict[str, str]) -> dict[str, Any]:
    return {"type": "tool_use", "id": _call_id(reply), "name": reply.tool, "input": given}


def _stream_message(reply: Reply) -> Iterator[_Frame]:
    def frame(kind: str, **fields: Any) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"

    block = _tool_use(reply, {}) if reply.tool else {"type": "text", "text": ""}
    yield "", frame("message_start", message=_message()), 0.0
    yield "", frame("content_block_start", index=0, content_block=block), 0.0
    if reply.tool:
        delta = {"type": "input_json_delta", "partial_json": json.dumps({"word": reply.word})}
        yield "", frame("content_block_delta", index=0, delta=delta), 0.0
    for piece, pause_s in reply.pieces:
        delta = {"type": "text_delta", "text": piece}
        yield piece, frame("content_block_delta", index=0, delta=delta), pause_s
    yield "", frame("content_block_stop", index=0), 0.0
    reason = {"stop_reason": "tool_use" if reply.tool else "end_turn", "stop_sequence": None}
    yield "", frame("message_delta", delta=reason, usage={"output_tokens": 1}), 0.0
    yield "", frame("message_stop"), 0.0
