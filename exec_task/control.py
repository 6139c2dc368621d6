"""The supervisor's connection to a task's executor container.

    here                        executor's first process
    the payload       →         JSON, once; the program starts
                      ←         log            a piece of its output
    stop              →         the program is asked to end; a second later everything in the container is killed
                      ←         ended          all of its processes have ended

One connection is accepted, from the program's account before the program exists, and then the socket is
closed. Incoming messages are as untrusted as that container: they are parsed as values of a known shape, and
any other message ends the run. Frames are those of `stepline.programs.frame`. Source:
docs/concepts/execution.md#fargate.
"""

from __future__ import annotations

import os
import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from exec_task.caller import Caller
from stepline.adapters.docker.executor import KILLED, MEMORY
from stepline.adapters.docker.supervisor_protocol import Ended
from stepline.adapters.sandbox.exit_code import SANDBOX_LOST, TASK_STOPPED
from stepline.adapters.sandbox.quota import IDLE_FACTOR
from stepline.adapters.sandbox.tail import Tail
from stepline.errors import SandboxError, ToolError
from stepline.model.base import Value
from stepline.programs.frame import FrameReader, render_frame

CONNECT_S: Final = 120.0
"""Time for the executor's container to start: it uses the supervisor's image."""

KILL_S: Final = 15.0
"""Time for a stopped program to end with all its descendants."""

FRAME_BYTES_MAX: Final = 256 * 1024
READ_BYTES: Final = 256 * 1024
SOCKET_MODE: Final = 0o660
_UCRED: Final = struct.Struct("3i")
_STOP: Final = render_frame(msgspec.json.encode({"type": "stop"}))


class Log(Value, tag="log"):
    """A piece of the program's output, base64 in JSON."""

    data: bytes


class Over(Value, tag="ended"):
    """The end of the program; `stopped` if its container was stopped from outside."""

    returncode: int
    seconds: float
    out_of_memory: bool = False
    stopped: bool = False


_DECODER: Final = msgspec.json.Decoder(Log | Over)


class Control:
    """The container of one executor.

    It listens inside the `with` block; leaving the block closes the connection, which ends the program.
    """

    def __init__(self, path: Path, *, uid: int, owner: tuple[int, int] | None, log: Tail) -> None:
        """Expect account `uid` at `path`, in a folder that it cannot write to; `owner` owns the socket.

        The program's output goes to `log`.
        """
        self.log = log
        self._path = path
        self._uid = uid
        self._owner = owner
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connection: socket.socket | None = None
        self._frames = FrameReader(FRAME_BYTES_MAX)
        self._heard: deque[Over] = deque()

    def __enter__(self) -> Self:
        """Listen. Raises SandboxError."""
        try:
            self._listener.bind(str(self._path))
            if self._owner:
                os.chown(self._path, *self._owner)
            self._path.chmod(SOCKET_MODE)
            self._listener.listen(1)
        except OSError as error:
            self._listener.close()
            raise SandboxError(f"the supervisor has no socket: {error}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_socket()
        if self._connection:
            self._connection.close()

    def accept(self, caller: Caller, *, connect_s: float = CONNECT_S) -> str:
        """Wait for the executor's container, and accept no other connection after it.

        Return the reason to stop waiting, or "".

        Raises SandboxError if the container does not connect, HungUp.
        """
        deadline_s = time.monotonic() + connect_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(caller.source, selectors.EVENT_READ)
            while not self._connection:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise SandboxError("the executor's container did not come up")
                for key, _ in selector.select(left_s):
                    if key.fileobj is self._listener:
                        self._connection = self._take()
                    elif word := caller.hear():
                        return word
        self._close_socket()
        return ""

    def start(self, payload: bytes) -> None:
        """Start the program. Raises SandboxError."""
        assert self._connection is not None
        try:
            self._connection.sendall(render_frame(payload))
        except OSError as error:
            raise SandboxError("the executor's container was lost before the program began") from error

    def watch(
        self, caller: Caller, *, timeout_s: float, interval_s: float, check: Callable[[], str | None]
    ) -> Ended:
        """Wait for the program to end; stop it at its deadline, at a limit from `check`, or for the caller.

        A container that is lost or does not end is reported with the data known so far. Raises HungUp,
        SandboxError.
        """
        watch = _Watch(self, caller, interval_s, check)
        error = watch.run(time.monotonic() + timeout_s)
        if error:
            self._request_stop()
            watch.run(time.monotonic() + KILL_S, again=True)
        seconds = time.monotonic() - watch.began_s
        return self._ended(error, seconds)

    def hear(self) -> bool:
        """Read incoming messages; return True after the last one. Raises SandboxError for an invalid one."""
        assert self._connection is not None
        try:
            data = self._connection.recv(READ_BYTES)
        except ConnectionResetError:
            data = b""
        try:
            for message in map(_DECODER.decode, self._frames.feed(data)):
                match message:
                    case Log(data=chunk):
                        self.log.write(chunk)
                    case Over() as over:
                        self._heard.append(over)
        except (ToolError, msgspec.MsgspecError) as error:
            raise SandboxError("the executor's container spoke nonsense") from error
        return not data or bool(self._heard)

    def fileno(self) -> int:
        """Return the connection's descriptor, for a selector."""
        assert self._connection is not None
        return self._connection.fileno()

    def _ended(self, error: str, seconds: float) -> Ended:
        over = self._heard[0] if self._heard else None
        if over is None:
            error = error or SANDBOX_LOST
        elif not error and over.returncode == KILLED and over.out_of_memory:
            error = MEMORY
        elif not error and over.stopped:
            error = TASK_STOPPED
        return Ended(
            error=error,
            returncode=over.returncode if over else None,
            seconds=over.seconds if over else round(seconds, 3),
            log=self.log.text(),
            log_bytes=self.log.total_bytes,
        )

    def _request_stop(self) -> None:
        assert self._connection is not None
        try:
            self._connection.sendall(_STOP)
        except OSError:
            return  # the program has ended, and its report can still be read

    def _take(self) -> socket.socket | None:
        connection, _ = self._listener.accept()
        _pid, uid, _gid = _UCRED.unpack(
            connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        )
        if uid == self._uid:
            return connection
        connection.close()
        return None

    def _close_socket(self) -> None:
        self._listener.close()
        self._path.unlink(missing_ok=True)


class _Watch:
    """Waits for the program's end, its deadline, a limit of the workspace, or a message from the caller."""

    def __init__(
        self, control: Control, caller: Caller, interval_s: float, check: Callable[[], str | None]
    ) -> None:
        self.began_s = time.monotonic()
        self._control = control
        self._caller = caller
        self._interval_s = interval_s
        self._check = check
        self._look_s = self.began_s + interval_s

    def run(self, deadline_s: float, *, again: bool = False) -> str:
        """Return the reason to stop the program, or "" if it has ended; `again` if it was stopped before."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._control, selectors.EVENT_READ)
            selector.register(self._caller.source, selectors.EVENT_READ)
            while True:
                now_s = time.monotonic()
                if now_s >= deadline_s:
                    return "timeout"
                if not again and (exceeded := self._look(now_s)):
                    return exceeded
                until_s = deadline_s if again else min(deadline_s, self._look_s)
                for key, _ in selector.select(max(0.0, until_s - now_s)):
                    if key.fileobj is self._control:
                        if self._control.hear():
                            return ""
                    elif (word := self._caller.hear()) and not again:
                        return word

    def _look(self, now_s: float) -> str:
        if now_s < self._look_s:
            return ""
        exceeded = self._check() or ""
        took_s = time.monotonic() - now_s
        self._look_s = time.monotonic() + max(self._interval_s, IDLE_FACTOR * took_s)
        return exceeded
