"""A background process of the local stage: started once, found again, stopped cleanly.

The child inherits a lock on its file and keeps it as long as it lives. The lock therefore tells if it runs; a
process id may be reused.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from stepline.errors import DependencyError
from stepline.local.stage.deployed import read_json, write_private

LOOPBACK = "127.0.0.1"
_POLL_S = 0.05


class Service:
    """One child, known by name. Its log is `<name>.log`, its lock and process id are in `<name>.pid`."""

    def __init__(self, name: str, home: Path) -> None:
        """Set the name and paths; nothing is started."""
        self.name = name
        self.log = home / f"{name}.log"
        self._pid_file = home / f"{name}.pid"

    @property
    def running(self) -> bool:
        """True if the child, or a child it gave the lock to, is alive."""
        if not self._pid_file.exists():
            return False
        with self._pid_file.open("rb") as file:
            return not _lock(file)

    @property
    def pid(self) -> int | None:
        return int(self._pid_file.read_text() or 0) or None if self.running else None

    def start(
        self, command: Sequence[str], environment: Mapping[str, str], *, health_url: str, timeout_s: float
    ) -> None:
        """Start the child unless it runs, and wait until it answers.

        Raises DependencyError with the end of its log.
        """
        pid = None
        with self._pid_file.open("a+b") as file:
            if _lock(file):
                file.truncate(0)
                pid = self._spawn(command, environment, file.fileno())
                file.write(str(pid).encode())
        deadline = time.monotonic() + timeout_s
        while not _answers(health_url):
            if (pid is not None and _reap(pid)) or time.monotonic() > deadline:
                self.stop(timeout_s=1)
                raise DependencyError(
                    f"{self.name} did not start:\n{self.last_words()}", code="local_service"
                )
            time.sleep(_POLL_S)

    def stop(self, *, timeout_s: float, done: Callable[[], bool] = lambda: False) -> None:
        """Ask the child to end; when it has, is `done`, or time is up, kill the rest of its group."""
        pid = self.pid
        if pid is None:
            return
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + timeout_s
        while self.running and not done() and time.monotonic() < deadline:
            _reap(pid)
            time.sleep(_POLL_S)
        with contextlib.suppress(ProcessLookupError, PermissionError):  # an empty group, as it should be
            os.killpg(pid, signal.SIGKILL)
        while self.running:
            _reap(pid)
            time.sleep(_POLL_S)
        _reap(pid)

    def _spawn(self, command: Sequence[str], environment: Mapping[str, str], lock: int) -> int:
        """Start the child in its own session, so that a Ctrl-C here does not reach it; return its process id."""
        os.set_inheritable(lock, True)
        return os.posix_spawn(
            command[0],
            list(command),
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(self.log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )

    def last_words(self, lines: int = 15) -> str:
        """Return the end of the log."""
        return (
            "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""
        )


@contextlib.contextmanager
def exclusive(home: Path) -> Iterator[None]:
    """Allow one command at a time to start or stop services; a second one waits."""
    with (home / "lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def claim_port(name: str, preferred: int, home: Path) -> Iterator[int]:
    """Yield the service's previous port, the preferred one, or a free one; it is saved.

    Start the service inside and wait until it answers: no other stage of this user claims a port meanwhile.
    Without that, two stages that start at once take the same one, and the answer of one passes for the other's.
    """
    path = home / "ports.json"
    with _one_claim_at_a_time():
        ports = read_json(path)
        for port in (ports.get(name, preferred), preferred, 0):
            if (free := _bindable(port)) is not None and free not in [
                p for n, p in ports.items() if n != name
            ]:
                break
        else:
            raise DependencyError(f"no port for {name}", code="local_service")
        write_private(path, json.dumps({**ports, name: free}).encode())
        yield free


@contextlib.contextmanager
def _one_claim_at_a_time() -> Iterator[None]:
    path = Path(tempfile.gettempdir(), f"stepline-ports-{os.getuid()}")
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _bindable(port: int) -> int | None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return None
        return int(probe.getsockname()[1])


def _lock(file: IO[bytes]) -> bool:
    """Take the lock if it is free; it is released with the last descriptor of this open file."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:  # noqa: S310 - our own http URL on loopback
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _reap(pid: int) -> bool:
    """Reap the child if it has ended and is ours; a child of an earlier command has another parent."""
    try:
        return os.waitpid(pid, os.WNOHANG) != (0, 0)
    except ChildProcessError:
        return False
