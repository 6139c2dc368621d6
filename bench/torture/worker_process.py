"""A peer's own environment, and its process: started, killed, replaced, in a group of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
import venv
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from bench.peer import INSTALL_S, NoPeerError

ENVIRONMENTS: Final = Path(__file__).parents[2] / ".stepline" / "torture-env"
START_S: Final = 120.0
GRACE_S: Final = 10.0


def python_environment(name: str, requirements: Path) -> Path:
    """Return the folder of a virtual environment with these packages, installed if they changed. Raises NoPeerError."""
    folder = ENVIRONMENTS / name
    made_from = folder / "requirements.txt"
    if made_from.exists() and made_from.read_bytes() == requirements.read_bytes():
        return folder
    venv.create(folder, clear=True, with_pip=True)
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    run_installer([*pip, "--require-hashes", "-r", str(requirements)], folder)
    shutil.copy(requirements, made_from)
    return folder


def run_installer(command: Sequence[str], folder: Path) -> None:
    """Run a package manager in a folder. Raises NoPeerError with its last line."""
    try:
        subprocess.run(command, cwd=folder, check=True, timeout=INSTALL_S, capture_output=True, text=True)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        lines = str(error.stderr or error).strip().splitlines()
        raise NoPeerError(f"the peer cannot be installed: {lines[-1]}") from error


def python_versions(folder: Path, *names: str) -> str:
    """Return the names and versions of packages of an environment."""
    script = (
        f"from importlib.metadata import version; print(', '.join(n + ' ' + version(n) for n in {names!r}))"
    )
    return subprocess.run(
        [str(folder / "bin/python"), "-c", script], check=True, capture_output=True, text=True
    ).stdout.strip()


def free_port() -> int:
    """Return a port of this machine that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class WorkerProcess:
    """A server of a peer, on one port; its output goes to `log` in its folder."""

    def __init__(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str], health: str
    ) -> None:
        """Keep the command; `health` is the address that answers once the server accepts requests."""
        self._command, self._folder, self._health = command, folder, health
        self._environment = {**os.environ, **environment}  # noqa: TID251 - a child gets this process's variables
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Start it, and wait until it accepts requests. Raises NoPeerError with the end of its output."""
        self.kill()  # one that killed itself is waited for
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env={**self._environment, **(environment or {})},
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        deadline_s = time.monotonic() + START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                output = (self._folder / "log").read_text(errors="replace").strip().splitlines()
                raise NoPeerError(f"the peer does not start: {output[-1] if output else 'no output'}")
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(self._health, timeout=2) as response:
                return bool(response.status < 500)
        except (urllib.error.HTTPError, OSError) as error:
            return isinstance(error, urllib.error.HTTPError) and error.code < 500

    def kill(self) -> None:
        """Kill its whole group with SIGKILL."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def end(self) -> None:
        """Send SIGTERM, and SIGKILL after ten seconds."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_S)
        self.kill()

    def _signal(self, number: int) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
