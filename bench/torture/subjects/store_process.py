"""Stores of peers, each a process of its own that can be stopped for a while: Redis and Postgres."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from bench.peer import NoPeerError
from bench.torture.subjects.json_api import free_port

START_S: Final = 30
_UNPRIVILEGED: Final = 65534


class StoreProcess:
    """A server on a free port, with its data in a folder. `url` is its address."""

    def __init__(
        self, command: Sequence[str], folder: Path, port: int, url: str, user: int | None = None
    ) -> None:
        """Start it as a user, as this process's unless one is given; return when its port is open. Raises OSError."""
        self.url, self._folder = url, folder
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            user=user,
        )
        deadline_s = time.monotonic() + START_S
        while not _is_open(port):
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                raise OSError(f"{command[0]} did not start")
            time.sleep(0.05)

    def throttle(self, seconds: float) -> None:
        """Stop its processes for this time: no request is answered, and none is refused; return at once."""
        self._signal(signal.SIGSTOP)
        threading.Timer(seconds, self._signal, (signal.SIGCONT,)).start()

    def _signal(self, number: signal.Signals) -> None:
        """Signal the server and its children, which may have sessions of their own."""
        pid = self._process.pid
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:  # it has ended
            return
        for process in (pid, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def close(self) -> None:
        """Kill it, and remove its data."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def start_redis() -> StoreProcess:
    """Start Redis, which writes each command to its disk before it answers. Raises NoPeerError, OSError."""
    server = shutil.which("redis-server")
    if server is None:
        raise NoPeerError("redis-server is not installed")
    folder, port = Path(tempfile.mkdtemp(prefix="torture-redis-")), free_port()
    command = [server, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"]
    return StoreProcess([*command, "--appendfsync", "always"], folder, port, f"redis://127.0.0.1:{port}")


def start_postgres() -> StoreProcess:
    """Start Postgres with a new database in a temporary folder. Raises NoPeerError, OSError."""
    programs = [
        Path(found).resolve().parent for name in ("initdb", "postgres") if (found := shutil.which(name))
    ]
    if len(programs) < 2:
        raise NoPeerError("postgres is not installed")
    user = _UNPRIVILEGED if os.geteuid() == 0 else None  # Postgres does not run as root
    folder = Path(tempfile.mkdtemp(prefix="torture-postgres-"))
    if user:
        shutil.chown(folder, user)
    data, port = folder / "data", free_port()
    made = [
        str(programs[0] / "initdb"),
        "-D",
        str(data),
        "-U",
        "bench",
        "--auth=trust",
        "--locale=C",
        "-E",
        "UTF8",
    ]
    subprocess.run(made, cwd=folder, user=user, check=True, capture_output=True)
    command = [
        str(programs[1] / "postgres"),
        "-D",
        str(data),
        "-p",
        str(port),
        "-k",
        str(folder),
        "-h",
        "127.0.0.1",
    ]
    return StoreProcess(command, folder, port, f"postgres://bench@127.0.0.1:{port}/postgres", user)


def _is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
