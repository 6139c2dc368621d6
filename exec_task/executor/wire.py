"""The program's client of the supervisor's socket.

A frame is four bytes of length, big-endian, and a JSON object in UTF-8. Several threads may call; a connection
serves one call at a time and is then reused. A forked child opens a new connection for every call, so that a pool
of workers does not hold all available connections. Source:
docs/reference/executor-protocol.md.
"""

from __future__ import annotations

import base64
import collections
import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

VERSION: Final = 1
REQUEST_BYTES_MAX: Final = 8 * 1024 * 1024
REPLY_BYTES_MAX: Final = 16 * 1024 * 1024
CONNECT_S: Final = 10.0
RETRY_S: Final = 0.01
PARALLEL_MAX: Final = 8
HEADER_BYTES: Final = 4


class ToolCallError(Exception):
    """A call was refused, failed, or got no answer. `code` is stable; the message is for people."""

    def __init__(self, code: str, message: str) -> None:
        """Store the code and the message."""
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Client:
    """Calls the supervisor of one run."""

    def __init__(
        self, path: str, token: str, *, connect_s: float = CONNECT_S, reply_s: float | None = None
    ) -> None:
        """Connect to `path`; wait `connect_s` for the socket and `reply_s` for a reply (None: forever)."""
        self._path = path
        self._token = token
        self._connect_s = connect_s
        self._reply_s = reply_s
        self._keeps = True
        self._fresh()
        os.register_at_fork(after_in_child=self._forget)

    def hello(self, isolation: Mapping[str, Any]) -> None:
        """Report the jail's isolation. Raises ToolCallError, OSError."""
        self._exchange({"type": "hello", "isolation": dict(isolation)})

    def call(self, tool_id: str, params: Mapping[str, Any], reason: str = "") -> Any:
        """Call a tool and return its JSON value; bytes stay bytes. Raises ToolCallError, OSError."""
        return self._exchange({"type": "call", "tool_id": tool_id, "params": dict(params), "reason": reason})

    def close(self) -> None:
        """Close the connections."""
        while self._idle:
            self._idle.pop().close()

    def _fresh(self) -> None:
        self._idle: collections.deque[socket.socket] = collections.deque()
        self._turns = threading.BoundedSemaphore(PARALLEL_MAX)

    def _forget(self) -> None:
        """Reset in a forked child: the connections and the state of the locks are the parent's."""
        self.close()
        self._fresh()
        self._keeps = False

    def _exchange(self, request: dict[str, Any]) -> Any:
        frame = _render({"v": VERSION, "id": 1, "token": self._token, **request})
        give_up_s = time.monotonic() + self._connect_s
        with self._turns:
            while True:
                reply = self._ask(frame, give_up_s)
                if reply.get("ok") is True:
                    return reply.get("result")
                error = reply.get("error") or {}
                if error.get("code") != "too_many_connections" or time.monotonic() > give_up_s:
                    raise ToolCallError(str(error.get("code")), str(error.get("message")))
                time.sleep(RETRY_S)

    def _ask(self, frame: bytes, give_up_s: float) -> dict[str, Any]:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect(give_up_s)
        try:
            reply = _converse(connection, frame)
        except BaseException:
            connection.close()
            raise
        if self._keeps and reply.get("id") == 1:
            self._idle.append(connection)
        else:
            connection.close()  # after an answer without a call number the supervisor sends nothing more
        return reply

    def _connect(self, give_up_s: float) -> socket.socket:
        """Connect, waiting for a supervisor that does not listen yet."""
        while True:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.connect(self._path)
            except (FileNotFoundError, ConnectionRefusedError) as error:
                connection.close()
                if time.monotonic() > give_up_s:
                    raise ToolCallError("no_supervisor", f"no supervisor at {self._path}") from error
                time.sleep(RETRY_S)
            except BaseException:
                connection.close()
                raise
            else:
                # Set the timeout only now: before, a full backlog would refuse instead of making us wait.
                connection.settimeout(self._reply_s)
                return connection


def _converse(connection: socket.socket, frame: bytes) -> dict[str, Any]:
    # A supervisor that closed has sent its reason first, which can still be read.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(frame)
    try:
        size = int.from_bytes(receive(connection, HEADER_BYTES), "big")
        if size > REPLY_BYTES_MAX:
            raise ToolCallError("reply_too_large", f"a reply has at most {REPLY_BYTES_MAX} bytes")
        reply = json.loads(receive(connection, size), object_hook=_unpack)
    except TimeoutError as error:
        raise ToolCallError("reply_timeout", "no reply in time; the call may have been made") from error
    if not isinstance(reply, dict):
        raise ToolCallError("bad_frame", "the reply is not an object")
    return reply


def receive(connection: socket.socket, size: int) -> bytearray:
    """Return the next `size` bytes. Raises ToolCallError `connection_lost`, OSError."""
    data = bytearray(size)
    view, have = memoryview(data), 0
    while have < size:
        try:
            got = connection.recv_into(view[have:])
        except ConnectionResetError:
            got = 0
        if not got:
            raise ToolCallError("connection_lost", "the supervisor hung up; the call may have been made")
        have += got
    return data


def _render(request: Mapping[str, Any]) -> bytes:
    """Return a request's frame.

    Raises ToolCallError, and TypeError or ValueError for values that JSON cannot represent.
    """
    text = json.dumps(request, ensure_ascii=False, allow_nan=False, default=_pack, separators=(",", ":"))
    body = text.encode()
    if len(body) > REQUEST_BYTES_MAX:
        raise ToolCallError("frame_too_large", f"a request has at most {REQUEST_BYTES_MAX} bytes")
    return len(body).to_bytes(HEADER_BYTES, "big") + body


def _pack(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return {"__type__": "bytes", "__data__": base64.b64encode(value).decode()}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"a {type(value).__name__} cannot be a tool's parameter")


def _unpack(value: dict[str, Any]) -> Any:
    if value.keys() == {"__type__", "__data__"} and value["__type__"] == "bytes":
        return base64.b64decode(value["__data__"])
    return value
