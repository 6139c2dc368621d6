"""The first process of a task's executor container: runs the program sent by a remote supervisor.

There is one connection between them; the supervisor accepts no other afterwards. The program cannot use it: it
is closed before the program exists, and this process cannot be inspected or signalled. When the connection is
lost, the program is killed. Source: docs/concepts/execution.md#fargate.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from typing import Any, Final, NoReturn

from . import wire
from .main import run

RETRY_S: Final = 0.1
TERM_S: Final = 1.0
FAREWELL_S: Final = 5.0
READ_BYTES: Final = 64 * 1024
PAYLOAD_BYTES_MAX: Final = 1024 * 1024
INIT: Final = 1
HEARD: Final = (signal.SIGCHLD, signal.SIGTERM)


def keep(path: str, *, connect_s: float, out_of_memory: Callable[[], bool]) -> NoReturn:
    """Run the program sent by the supervisor at `path`, report its end, and exit.

    Wait up to `connect_s` for the supervisor; `out_of_memory` returns whether this container ran out of memory.
    """
    if os.getpid() != INIT:
        raise SystemExit(
            "a program's keeper ends every process around it, and so runs in a container of its own"
        )
    wake, woken = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    for number in HEARD:
        signal.signal(number, lambda *_: None)  # its number arrives through the pipe
    try:
        connection = _connect(path, time.monotonic() + connect_s)
        payload = _receive(connection)
        Keeper(connection, wake, out_of_memory).run(payload)
    except (OSError, ValueError, wire.ToolCallError) as error:
        _end_all()
        raise SystemExit(f"the supervisor is lost: {error}") from error
    os._exit(0)


class Keeper:
    """One program and the connection to its supervisor; signal numbers arrive through `wake`."""

    def __init__(self, connection: socket.socket, wake: int, out_of_memory: Callable[[], bool]) -> None:
        """Start without a program."""
        self._connection = connection
        self._wake = wake
        self._out_of_memory = out_of_memory
        self._stopped = False
        self._end_s = float("inf")

    def run(self, payload: dict[str, Any]) -> None:
        """Run a program until it and its descendants have ended. Raises OSError when the connection is closed."""
        output, inlet = os.pipe2(os.O_CLOEXEC)
        began_s = time.monotonic()
        child = os.fork()
        if child == 0:
            _become_program(payload, inlet, (self._connection.fileno(), self._wake, output))
        os.close(inlet)
        status = self._watch(child, output)
        seconds = time.monotonic() - began_s
        killed = _end_all(child)
        os.set_blocking(output, False)
        while self._pass_on(output):
            pass
        self._send(
            type="ended",
            returncode=os.waitstatus_to_exitcode(killed if status is None else status),
            seconds=round(seconds, 3),
            out_of_memory=self._out_of_memory(),
            stopped=self._stopped,
        )
        self._await_close()

    def _watch(self, child: int, output: int) -> int | None:
        """Forward the output until the program has ended, and return its wait status.

        Return None if its time ran out.
        """
        heard = [self._connection.fileno(), self._wake, output]
        while (left_s := self._end_s - time.monotonic()) > 0:
            ready = select.select(heard, [], [], None if left_s == float("inf") else left_s)[0]
            if output in ready and not self._pass_on(output):
                heard.remove(output)
            if self._connection.fileno() in ready:
                if not self._connection.recv(READ_BYTES):
                    raise ConnectionResetError("it hung up")
                self._terminate(child)  # `stop` is the supervisor's only message
            if self._wake in ready:
                signals = os.read(self._wake, READ_BYTES)
                status = _reap(child)  # orphans are reaped here too, and count as processes until then
                if status is not None:
                    return status
                if signal.SIGTERM in signals:
                    self._stopped = True
                    self._terminate(child)
        return None

    def _terminate(self, child: int) -> None:
        """Ask the program to end, and wait for a moment."""
        os.kill(child, signal.SIGTERM)  # it has not been waited for, so its pid is still valid
        self._end_s = min(self._end_s, time.monotonic() + TERM_S)

    def _pass_on(self, output: int) -> bool:
        """Send a piece of the output; return True if there may be more output."""
        try:
            chunk = os.read(output, READ_BYTES)
        except BlockingIOError:  # an unrelated process has the other end
            return False
        if chunk:
            self._send(type="log", data=base64.b64encode(chunk).decode())
        return bool(chunk)

    def _send(self, **message: Any) -> None:
        body = json.dumps(message).encode()
        self._connection.sendall(len(body).to_bytes(wire.HEADER_BYTES, "big") + body)

    def _await_close(self) -> None:
        """Wait for the peer to close: otherwise its unread messages would discard our last one."""
        self._connection.shutdown(socket.SHUT_WR)
        self._connection.settimeout(FAREWELL_S)
        with contextlib.suppress(OSError):
            while self._connection.recv(READ_BYTES):
                pass


def _end_all(child: int = 0) -> int:
    """Kill and reap all other processes of this container; return the wait status of `child`."""
    status = 0
    while True:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        try:
            pid, found = os.wait()
        except ChildProcessError:
            return status
        if pid == child:
            status = found


def _reap(child: int) -> int | None:
    """Reap ended processes; return the wait status of `child` if it is among them."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == child:
            return status
        if not pid:
            return None


def _become_program(payload: dict[str, Any], output: int, others: tuple[int, ...]) -> NoReturn:
    signal.set_wakeup_fd(-1)
    for number in HEARD:
        signal.signal(number, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    for fd in (null, output, *others):  # the jail closes all descriptors; ours must not stay open until then
        os.close(fd)
    run(payload)


def _connect(path: str, give_up_s: float) -> socket.socket:
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(path)
        except (FileNotFoundError, ConnectionRefusedError, PermissionError):
            connection.close()  # the socket does not exist yet
            if time.monotonic() > give_up_s:
                raise
            time.sleep(RETRY_S)
        else:
            return connection


def _receive(connection: socket.socket) -> dict[str, Any]:
    """Return the program's payload, which is the first message."""
    size = int.from_bytes(wire.receive(connection, wire.HEADER_BYTES), "big")
    if size > PAYLOAD_BYTES_MAX:
        raise ValueError(f"a payload has at most {PAYLOAD_BYTES_MAX} bytes")
    payload: dict[str, Any] = json.loads(wire.receive(connection, size))
    return payload
