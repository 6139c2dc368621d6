"""The supervisor's socket: threads around a gate and a host of tools.

The peer is hostile. It is identified before a byte is read; a frame has a maximum size and a deadline, and
large ones share one memory budget; connections, calls, refusals and time are limited; and a reply that is not
read is dropped.

Source: docs/reference/executor-protocol.md.
"""

from __future__ import annotations

import contextlib
import logging
import mmap
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

import msgspec

from stepline.errors import SandboxError, ToolError
from stepline.model.program.execution import Isolation
from stepline.programs.frame import HEADER_BYTES, REQUEST_BYTES_MAX, render_frame
from stepline.programs.host import TOOL_FAILURE, ToolHost
from stepline.programs.request_gate import PROTOCOL_VERSION, CallRefusal, CallRequest, Hello, RequestGate

FRAME_S: Final = 10.0
"""The time for a frame after its first byte, and for a reply after its first."""

ROOM_BYTES: Final = 24 * 1024 * 1024
"""The memory for all large requests of a run."""

SMALL_BYTES: Final = 64 * 1024
"""A request of up to this size needs no room: each connection has at most one."""

Body: TypeAlias = bytearray | mmap.mmap


class Room:
    """Makes connections wait for each other, so that together they stay within the memory budget."""

    def __init__(self, size_bytes: int = ROOM_BYTES) -> None:
        """Create a room of `size_bytes`, which no single request exceeds."""
        self._free_bytes = size_bytes
        self._open = True
        self._changed = threading.Condition()

    @contextmanager
    def held(self, size_bytes: int, deadline_s: float) -> Generator[None]:
        """Wait for room until `deadline_s` of the monotonic clock, and hold it.

        Raises ToolError `deadline_over`.
        """
        with self._changed:
            while self._open and self._free_bytes < size_bytes:
                self._changed.wait(time_left(deadline_s))
            self._free_bytes -= size_bytes
        try:
            yield
        finally:
            with self._changed:
                self._free_bytes += size_bytes
                self._changed.notify_all()

    def close(self) -> None:
        """End all waits; the waiting requests are not read."""
        with self._changed:
            self._open = False
            self._changed.notify_all()


class Receiver:
    """Reads the requests of one connection."""

    def __init__(self, connection: socket.socket, room: Room, *, deadline_s: float, frame_s: float) -> None:
        """Read until `deadline_s` of the monotonic clock, each frame for `frame_s` at most."""
        self._connection = connection
        self._room = room
        self._deadline_s = deadline_s
        self._frame_s = frame_s

    def requests(self) -> Generator[Body]:
        """Yield the requests of a connection, until its end.

        A large request keeps its room until the next one.

        Raises ToolError `frame_too_large`, `frame_timeout`, `deadline_over`, OSError.
        """
        while header := self._read_header():
            size = int.from_bytes(header, "big")
            if size > REQUEST_BYTES_MAX:
                raise ToolError(f"a request has at most {REQUEST_BYTES_MAX} bytes", code="frame_too_large")
            with self._room.held(size if size > SMALL_BYTES else 0, self._deadline_s):
                body = _make_body(size)
                if not self._fill(body, time.monotonic()):
                    return
                yield body
                del body

    def _read_header(self) -> bytes:
        """Return the next frame's header, or b"" at the end."""
        first = bytearray(1)
        # Between frames a connection may be idle as long as the run lasts.
        if not self._fill(first, None):
            return b""
        others = bytearray(HEADER_BYTES - 1)
        return bytes(first + others) if self._fill(others, time.monotonic()) else b""

    def _fill(self, body: Body, began_s: float | None) -> bool:
        """Fill `body` from a frame that began at `began_s`; return False if the peer sent less."""
        view, have = memoryview(body), 0
        while have < len(view):
            self._connection.settimeout(self._left_s(began_s))
            try:
                got = self._connection.recv_into(view[have:])
            except TimeoutError:
                continue
            if not got:
                return False
            have += got
        return True

    def _left_s(self, began_s: float | None) -> float:
        left_s = time_left(self._deadline_s)
        if began_s is None:
            return left_s
        frame_left_s = began_s + self._frame_s - time.monotonic()
        if frame_left_s <= 0:
            raise ToolError(f"a frame is complete within {self._frame_s:g} s", code="frame_timeout")
        return min(left_s, frame_left_s)


def time_left(deadline_s: float) -> float:
    """Return the seconds to a time of the monotonic clock. Raises ToolError `deadline_over`."""
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise ToolError("the run's time is over", code="deadline_over")
    return left_s


def _make_body(size: int) -> Body:
    # Separate pages return to the system at once; the allocator keeps a large block for each thread that had
    # one.
    if size > SMALL_BYTES:
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return bytearray(size)


logger = logging.getLogger(__name__)

CONNECTIONS_MAX: Final = 16
GRACE_S: Final = 1.0
PAUSE_S: Final = 0.01
"""The pause between connections that are refused for earlier refusals; further ones wait in the backlog."""

MESSAGE_CHARS: Final = 2_000
SOCKET_MODE: Final = 0o660

ADDRESS_MAX_BYTES: Final = 100
"""A socket's address may be a few bytes longer, depending on the system."""

_UCRED: Final = struct.Struct("3i")


@contextlib.contextmanager
def _address_of(path: Path) -> Iterator[str]:
    """Yield an address to bind to; through an open folder if the path is too long for an address."""
    if len(os.fsencode(path)) <= ADDRESS_MAX_BYTES or sys.platform != "linux":
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


class SupervisorServer:
    """Serves one run's socket during the `with` block. Its threads end with it, unless a tool still runs in one."""

    def __init__(
        self,
        path: Path,
        *,
        host: ToolHost,
        token: str,
        allowed_uids: frozenset[int],
        quota: int,
        deadline_s: float,
        owner: tuple[int, int] | None = None,
        frame_s: float = FRAME_S,
    ) -> None:
        """Listen at `path`, in a folder the program cannot write, for `deadline_s` seconds after entering.

        `owner` is the socket's (uid, gid); its mode is 0660. `allowed_uids` are uids as seen by this process.
        """
        self._path = path
        self._host = host
        self._owner = owner
        self._frame_s = frame_s
        self._room = Room()
        self._lock = threading.Lock()
        self._threads: dict[socket.socket, threading.Thread] = {}
        self._closing = False
        self._deadline_s = time.monotonic() + deadline_s
        self._gate = RequestGate(
            token=token, allowed_uids=allowed_uids, quota=quota, deadline_s=self._deadline_s
        )
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._acceptor = threading.Thread(target=self._accept, name="supervisor", daemon=True)

    @property
    def isolation(self) -> Isolation | None:
        """The jail's report; None: the program never ran."""
        return self._gate.isolation

    def __enter__(self) -> Self:
        """Open the socket. Raises SandboxError if that is not possible."""
        try:
            with _address_of(self._path) as address:
                self._listener.bind(address)
            # Clients cannot connect before `listen`, so none sees the socket with another owner or mode.
            if self._owner:
                os.chown(self._path, *self._owner)
            self._path.chmod(SOCKET_MODE)
            self._listener.listen(CONNECTIONS_MAX)
        except OSError as error:
            self._listener.close()
            raise SandboxError(f"the supervisor has no socket: {error}") from error
        self._acceptor.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close connections, remove the socket, and wait a second at most for the threads.

        Safe to call again.
        """
        with self._lock:
            if self._closing:
                return
            self._closing = True
            open_now = dict(self._threads)
        self._room.close()
        _hang_up(self._listener)
        for connection in open_now:
            _hang_up(connection)
        give_up_s = time.monotonic() + GRACE_S
        for thread in (self._acceptor, *open_now.values()):
            if thread.ident is not None:
                thread.join(max(0.0, give_up_s - time.monotonic()))
        self._listener.close()
        self._path.unlink(missing_ok=True)
        if stuck := sum(thread.is_alive() for thread in open_now.values()):
            logger.warning("tool calls outlive their run", extra={"calls": stuck})

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if not self._closing:  # `shutdown` of the listening socket ends `accept`
                    logger.exception("supervisor takes no more connections")
                return
            if refused := self._refuse_peer(connection):
                _refuse(connection, refused)
                continue
            if refused := self._gate.check_refused():
                _refuse(connection, refused)
                time.sleep(PAUSE_S)
                continue
            thread = threading.Thread(
                target=self._serve, args=(connection,), name="supervisor-connection", daemon=True
            )
            with self._lock:
                closing, full = self._closing, len(self._threads) >= CONNECTIONS_MAX
                if not closing and not full:
                    self._threads[connection] = thread
            if closing:
                connection.close()
            elif full:
                message = f"a run has at most {CONNECTIONS_MAX} connections at a time"
                _refuse(connection, CallRefusal(id=0, code="too_many_connections", message=message))
            else:
                thread.start()

    def _refuse_peer(self, connection: socket.socket) -> CallRefusal | None:
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        _pid, uid, _gid = _UCRED.unpack(credentials)
        return self._gate.check_peer(uid)

    def _serve(self, connection: socket.socket) -> None:
        """Serve one connection until it ends, fails, or breaks the protocol."""
        try:
            self._converse(connection)
        except OSError as error:
            # The program hung up or reads no reply; its calls are recorded anyway.
            logger.debug("connection lost", extra={"error": str(error)})
        finally:
            with self._lock:
                self._threads.pop(connection, None)
            connection.close()

    def _converse(self, connection: socket.socket) -> None:
        receiver = Receiver(connection, self._room, deadline_s=self._deadline_s, frame_s=self._frame_s)
        try:
            with contextlib.closing(receiver.requests()) as requests:
                for reply, fatal in map(self._answer, requests):
                    connection.settimeout(self._frame_s)
                    connection.sendall(reply)
                    if fatal:
                        return
                    del reply  # an idle connection holds no memory
        except ToolError as refused:
            _send(connection, self._gate.refuse(refused))

    def _answer(self, body: Body) -> tuple[bytes, bool]:
        """Return the reply to one request as a frame, and True if it is the connection's last."""
        verdict = self._gate.take(body, time.monotonic())
        match verdict:
            case Hello():
                return _render_result(verdict.id, {}), False
            case CallRequest():
                return self._call(verdict), False
            case CallRefusal():
                return _render_refusal(verdict), verdict.fatal

    def _call(self, call: CallRequest) -> bytes:
        try:
            return _render_result(call.id, self._host.call(call.tool_id, call.params))
        except ToolError as refused:
            return _render_refusal(CallRefusal(id=call.id, code=refused.reason, message=str(refused)))
        except Exception:  # the edge of a thread: no caller above it could report it to the program
            logger.exception("tool call failed")
            return _render_refusal(CallRefusal(id=call.id, code="tool_failed", message=TOOL_FAILURE))


def _render_result(number: int, result: Any) -> bytes:
    return render_frame(
        msgspec.json.encode({"v": PROTOCOL_VERSION, "id": number, "ok": True, "result": result})
    )


def _render_refusal(refusal: CallRefusal) -> bytes:
    error = {
        "code": refusal.code,
        "message": refusal.message[:MESSAGE_CHARS],
        "where": "supervisor",
        "managed": True,
    }
    return render_frame(
        msgspec.json.encode({"v": PROTOCOL_VERSION, "id": refusal.id, "ok": False, "error": error})
    )


def _send(connection: socket.socket, refusal: CallRefusal) -> None:
    """Send a refusal. The peer may be gone; a new connection's buffer always has room for it."""
    connection.settimeout(GRACE_S)
    with contextlib.suppress(OSError):
        connection.sendall(_render_refusal(refusal))


def _refuse(connection: socket.socket, refusal: CallRefusal) -> None:
    _send(connection, refusal)
    connection.close()


def _hang_up(connection: socket.socket) -> None:
    """Shut down both directions, which wakes the waiting thread; the peer may have done this already."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
