"""A background process of the local stage: started once, found again, stopped cleanly.

The child inherits a lock on its file and keeps it for its lifetime. The lock therefore shows whether it runs; a process
id may be reused. Its answer shows that it serves: it returns the identity that it was started with, which no other
process knows.

A stage has its ports from its first claim until it is taken down, also while a service of it restarts or was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import json
import os
import secrets
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from stepline.errors import DependencyError
from stepline.local.guard.own_server import HEALTH, IDENTITY
from stepline.local.stage.deployed import read_json, write_private

LOOPBACK = "127.0.0.1"
KILL_S: Final = 1
"""The longest end of a killed process."""
_POLL_S = 0.05
_LAST_LINES: Final = 15
_ANSWER_S: Final = 2
_ANSWER_BYTES: Final = 1000
_STEP: Final = 10
_CANDIDATES: Final = 100
_TRIES: Final = 20
_PORTS: Final = "ports.json"
_DIRECT: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Connects to this machine directly, where a proxy would give its own answer."""


class Service:
    """One child, known by name. Its log is `<name>.log`; `<name>.pid` is its lock, with its process id and identity."""

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
        return int(self._known()[0]) or None if self.running else None

    def start(
        self, command: Sequence[str], environment: Mapping[str, str], *, port: int, timeout_s: float
    ) -> None:
        """Start the child unless it runs, and wait until this child answers at `port`.

        Raises DependencyError with the end of its log.
        """
        pid = None
        with self._pid_file.open("a+b") as file:
            if _lock(file):
                file.truncate(0)
                identity = secrets.token_hex(16)
                pid = self._spawn(command, {**environment, IDENTITY: identity}, file.fileno())
                file.write(f"{pid} {identity}".encode())
        identity = self._known()[1]
        deadline = time.monotonic() + timeout_s
        while (answer := _ask_health(port)) != identity or not identity:
            if (pid is not None and _reap(pid)) or time.monotonic() > deadline:
                self.stop(timeout_s=1)
                why = "" if answer is None else f", another process answers at {LOOPBACK}:{port}"
                raise DependencyError(
                    f"{self.name} did not start{why}:\n{self.last_words()}", code="local_service"
                )
            time.sleep(_POLL_S)

    def stop(
        self, *, timeout_s: float, done: Callable[[], bool] = lambda: False, kill_s: float = KILL_S
    ) -> None:
        """Ask the child to end; when it has, is `done`, or time is up, kill the rest of its group.

        Raises DependencyError if a process of it still runs `kill_s` later.
        """
        pid = self.pid
        if pid is None:
            return
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGCONT)  # a suspended process would never learn of it
        deadline = time.monotonic() + timeout_s
        while self.running and not done() and time.monotonic() < deadline:
            _reap(pid)
            time.sleep(_POLL_S)
        with contextlib.suppress(ProcessLookupError, PermissionError):  # an empty group, as expected
            os.killpg(pid, signal.SIGKILL)
        deadline = time.monotonic() + kill_s
        while self.running:
            if time.monotonic() > deadline:
                raise DependencyError(
                    f"{self.name} was killed, but a process of it still runs", code="local_service"
                )
            _reap(pid)
            time.sleep(_POLL_S)
        _reap(pid)

    def _known(self) -> tuple[str, str]:
        """Return the process id and the identity of the last child, "0" and "" if they are unknown."""
        pid, _, identity = self._pid_file.read_text().partition(" ")
        return pid or "0", identity

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

    def last_words(self) -> str:
        """Return the end of the log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-_LAST_LINES:])


@contextlib.contextmanager
def exclusive(home: Path) -> Iterator[None]:
    """Allow one command at a time to start or stop services; a second one waits."""
    with (home / "lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def claim_port(name: str, preferred: int, home: Path) -> int:
    """Return a port for a service that does not run, and save it: its previous one, the preferred one, or another.

    It is neither in use nor another stage's. Raises DependencyError if there is none.
    """
    path = home / _PORTS
    with _stages() as stages:
        others = stages - {home.resolve()}
        ports = read_json(path)
        claimed = {port for stage in others for port in read_json(stage / _PORTS).values()}
        claimed |= {port for service, port in ports.items() if service != name}
        for port in (ports.get(name, preferred), *_candidate_ports(preferred)):
            if (free := _bindable(port)) is not None and free not in claimed:
                break
        else:
            raise DependencyError(f"no port for {name}", code="local_service")
        write_private(path, json.dumps({**ports, name: free}).encode())
        stages.add(home.resolve())
    return free


def claimed_port(name: str, home: Path) -> int:
    """Return the port that a service claimed last, 0 before its first claim."""
    return int(read_json(home / _PORTS).get(name, 0))


def release_ports(home: Path) -> None:
    """Let other stages take the ports of a stage that does not run."""
    with _stages() as stages:
        stages.discard(home.resolve())


def _candidate_ports(preferred: int) -> Iterable[int]:
    """Return the ports to try, the preferred one first; for 0 any that the system assigns.

    The others are outside the system's ephemeral range, whose ports a connection could occupy while a service restarts.
    """
    return range(preferred, preferred + _CANDIDATES * _STEP, _STEP) if preferred else [0] * _TRIES


@contextlib.contextmanager
def _stages() -> Iterator[set[Path]]:
    """Yield the homes of this user's stages that are up, for changes; no other process reads or changes them meanwhile.

    Their ports are in their homes; a home that is gone has none. Not in TMPDIR: it differs between shells.
    """
    path = Path(f"/tmp/stepline-ports-{os.getuid()}")  # noqa: S108 - not opened through another user's link; readable by its owner only
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "r+", errors="surrogateescape") as file:
        if os.fstat(fd).st_uid != os.getuid():
            raise DependencyError(f"{path} belongs to another user", code="local_service")
        fcntl.flock(file, fcntl.LOCK_EX)
        stages = {Path(line) for line in file.read().splitlines()}
        stages = {stage for stage in stages if (stage / _PORTS).exists()}
        yield stages
        file.seek(0)
        file.writelines(f"{stage}\n" for stage in sorted(stages))
        file.truncate()


def _bindable(port: int) -> int | None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except (OSError, OverflowError):
            return None
        return int(probe.getsockname()[1])


def _lock(file: IO[bytes]) -> bool:
    """Take the lock if it is free; it is released with the last descriptor of this open file."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _ask_health(port: int) -> str | None:
    """Return the body of the health answer at a port, None without an answer."""
    try:
        with _DIRECT.open(f"http://{LOOPBACK}:{port}{HEALTH}", timeout=_ANSWER_S) as response:
            return str(response.read(_ANSWER_BYTES), "latin-1")
    except urllib.error.HTTPError as refused:
        refused.close()
        return ""
    except (urllib.error.URLError, http.client.HTTPException, OSError):
        return None


def _reap(pid: int) -> bool:
    """Reap the child if it has ended and is ours; a child of an earlier command has another parent."""
    try:
        return os.waitpid(pid, os.WNOHANG) != (0, 0)
    except ChildProcessError:
        return False
