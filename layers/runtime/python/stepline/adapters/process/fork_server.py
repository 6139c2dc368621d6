"""The client of the fork server: starts it, requests cells and programs, and ends it.

It has two channels: one to the warden, which creates cells, and one from the zygote, which becomes programs and reports
their ends. Both processes end when the first channel closes, so nothing outlives this object.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Self

from stepline.adapters.process.group import PROC, Base, ControlGroup, find_base, request_base
from stepline.adapters.process.payload import ENVIRONMENT
from stepline.adapters.sandbox.tree import remove_tree
from stepline.errors import SandboxError
from stepline.model.program.execution import MIB
from stepline.model.program.image import GID, UID

logger = logging.getLogger(__name__)

BOOT_S: Final = 120.0
ANSWER_S: Final = 10.0
KILL_S: Final = 10.0
MESSAGE_MAX_BYTES: Final = 64 * 1024
IDLE_MAX_BYTES: Final = 64 * MIB
"""The memory that a cell may use in addition to the fork server before its program begins."""

_BOOT: Final = (
    "import sys; home = sys.argv[1]; sys.path.insert(0, home); from executor import warden; "
    "sys.path.remove(home); warden.main(int(sys.argv[2]), int(sys.argv[3]))"
)


class UnsupportedError(Exception):
    """Programs cannot be isolated this way here; the message names the remedy."""


class _Wires:
    """The pipe ends of a cell that is being created: the feed carries the program's payload."""

    def __init__(self) -> None:
        self.feed, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.output, self.input = os.pipe2(os.O_CLOEXEC)

    def hand_over(self) -> None:
        """Close the other ends, which now belong to the cell."""
        self.theirs.close()
        if self.input >= 0:
            os.close(self.input)
            self.input = -1

    def close(self) -> None:
        self.hand_over()
        self.feed.close()
        if self.output >= 0:
            os.close(self.output)
            self.output = -1


class Cell:
    """New namespaces around a run's folder, and a process in them that waits for its payload.

    `program` is that process's pidfd, `init` the pidfd of the cell's first process, `group` the program's control group
    where one is possible. Leaving the cell kills its processes and removes the group.
    """

    def __init__(self, init: int, program: int, wires: _Wires, group: ControlGroup | None) -> None:
        self.init = init
        self.program = program
        self.group = group
        self._wires = wires

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill the cell's processes, and remove its group."""
        self.kill()
        self._wires.close()
        os.close(self.program)
        os.close(self.init)
        if self.group is None:
            return
        try:
            self.group.remove()
        except OSError as error:  # the next fork server, or a later one, removes it
            logger.warning("control group left", extra={"group": self.group.path.name, "reason": str(error)})

    @property
    def sound(self) -> bool:
        """True if the waiting process is alive, before it gets its payload."""
        return not is_readable(self.program, 0)

    def take_output(self) -> int:
        """Return the read end of the program's output, which the caller then owns."""
        output, self._wires.output = self._wires.output, -1
        return output

    def launch(self, payload: bytes) -> None:
        """Start the program. Raises SandboxError."""
        memory = os.memfd_create("payload")
        try:
            os.pwrite(memory, payload, 0)
            socket.send_fds(self._wires.feed, [b"run"], [memory])
        except OSError as error:
            raise SandboxError(f"the sandbox is gone: {error}") from error
        finally:
            os.close(memory)

    def kill(self) -> bool:
        """Kill every process of the cell; return True when all are gone."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.init, signal.SIGKILL)
        return is_readable(self.init, KILL_S)


def is_readable(source: int | socket.socket, timeout_s: float) -> bool:
    """Wait until a descriptor is readable; a pidfd becomes readable when its process has ended."""
    poll = select.poll()
    poll.register(source, select.POLLIN)
    return bool(poll.poll(max(0.0, timeout_s) * 1000))


def pid_of(pidfd: int) -> int:
    """Return a process's id in this namespace; -1 when it is gone."""
    for line in Path(f"/proc/self/fdinfo/{pidfd}").read_text().splitlines():
        if line.startswith("Pid:"):
            return int(line.split()[1])
    return -1


def remove_orphans() -> None:
    """Remove leftovers of our killed processes from the temporary folder; names contain their pid."""
    for path in Path(tempfile.gettempdir()).glob("stepline-*-*-*"):
        kind, _, rest = path.name.removeprefix("stepline-").partition("-")
        pid = rest.partition("-")[0]
        if kind in ("runs", "spool") and pid.isdecimal() and not Path("/proc", pid).exists():
            with contextlib.suppress(FileNotFoundError):  # another process of ours was faster
                if path.lstat().st_uid == os.geteuid():
                    remove_tree(path)


class ForkServer:
    """A warden and a zygote, running from construction to `close`."""

    def __init__(self, *, python: Path, home: Path, preload: Sequence[str], proc: Path = PROC) -> None:
        """Start both and wait until they are ready; `home` holds the package `executor`.

        `proc` is read for control groups and memory.

        Raises:
            UnsupportedError: the machine cannot create these namespaces.
            SandboxError: the interpreter or the package cannot be started.
        """
        if sys.platform != "linux":
            raise UnsupportedError(
                f"programs run in Linux namespaces, and this is {sys.platform}: use Docker"
            )
        remove_orphans()
        self.base = Path(tempfile.mkdtemp(prefix=f"stepline-runs-{os.getpid()}-"))
        self.privileged = os.geteuid() == 0
        self.namespaces: tuple[str, ...] = ()
        self.readable: tuple[Path, ...] = ()
        control, self._control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        channel, self._channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.proc = proc
        self.groups: Base | None = None
        self._preparing = ThreadPoolExecutor(1, thread_name_prefix="cell")
        self._asked: Future[Cell] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        try:
            with control, channel:
                self._process = self._spawn(python, home, (control.fileno(), channel.fileno()))
            self.groups = find_base(proc) or request_base(self._process.pid, proc)
            self._greet(home, preload)
        except BaseException:
            self.close()
            raise

    @property
    def log(self) -> Path:
        """The output of warden and zygote, mostly their own errors."""
        return self.base / "log"

    @property
    def runs(self) -> Path:
        """The folder of all run folders."""
        return self.base / "runs"

    @property
    def sound(self) -> bool:
        """True if the warden lives; a dead zygote is noticed on its next use."""
        return self._process is not None and self._process.poll() is None

    def _spawn(self, python: Path, home: Path, fds: tuple[int, int]) -> subprocess.Popen[bytes]:
        (self.base / "root").mkdir()
        self.runs.mkdir()
        with self.log.open("wb") as log:
            try:
                return subprocess.Popen(  # noqa: S603 - our own program, by the deployment's interpreter
                    [python, "-I", "-B", "-c", _BOOT, str(home), *map(str, fds)],
                    env=ENVIRONMENT,
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    pass_fds=fds,
                    start_new_session=True,
                )
            except OSError as error:
                raise SandboxError(f"the interpreter for programs does not start: {error}") from error

    def _greet(self, home: Path, preload: Sequence[str]) -> None:
        plan = {
            "root": str(self.base / "root"),
            "runs": str(self.runs),
            "home": str(home),
            "uid": UID,
            "gid": GID,
            "preload": list(preload),
        }
        self._control.send(json.dumps(plan).encode())
        answer, _ = self._receive(self._control, BOOT_S)
        if "unsupported" in answer:
            raise UnsupportedError(answer["unsupported"])
        self.namespaces = tuple(answer["namespaces"])
        self.readable = tuple(Path(path) for path in answer["readable"])
        ready, _ = self._receive(self._channel, BOOT_S)
        if ready["missing"]:
            logger.info("packages not preloaded", extra={"packages": ready["missing"]})

    def ask(self, run: str) -> None:
        """Request a cell around the run's folder, which a thread prepares; `take` returns it. Raises SandboxError."""
        wires = _Wires()
        try:
            self._send(self._control, {"run": run}, (wires.theirs.fileno(), wires.input))
            wires.hand_over()
            self._asked = self._preparing.submit(self._prepare, wires)
        except (SandboxError, RuntimeError) as error:
            wires.close()
            raise SandboxError(f"no cell can be requested: {error}") from error

    def take(self) -> Cell:
        """Return the requested cell when it is ready. Raises SandboxError."""
        assert self._asked is not None
        asked, self._asked = self._asked, None
        return asked.result()

    def _prepare(self, wires: _Wires) -> Cell:
        """Return the requested cell, in a control group if possible."""
        try:
            _, (init,) = self._receive(self._control, ANSWER_S)
            try:
                _, (program,) = self._receive(self._channel, ANSWER_S)
            except SandboxError:
                os.close(init)
                raise
        except SandboxError:
            wires.close()
            raise
        return Cell(init, program, wires, self._enclose(program))

    def _enclose(self, program: int) -> ControlGroup | None:
        if self.groups is None:
            return None
        try:
            return self.groups.enclose(pid_of(program), IDLE_MAX_BYTES)
        except OSError as error:
            logger.warning("no control group for a run", extra={"reason": str(error)})
            return None

    @property
    def ending(self) -> socket.socket:
        """Readable when the program has ended; `status` then returns its status."""
        return self._channel

    def status(self) -> int:
        """Return the program's wait status. Raises SandboxError."""
        answer, _ = self._receive(self._channel, ANSWER_S)
        return int(answer["status"])

    def dismiss(self, cell: Cell) -> None:
        """Dismiss a cell whose process never got a payload. Raises SandboxError."""
        cell.kill()
        self.status()

    def _send(self, channel: socket.socket, message: Mapping[str, Any], fds: Sequence[int]) -> None:
        try:
            socket.send_fds(channel, [json.dumps(message).encode()], fds)
        except OSError as error:
            raise SandboxError(f"the fork server is gone: {error}") from error

    def _receive(self, channel: socket.socket, timeout_s: float) -> tuple[dict[str, Any], list[int]]:
        channel.settimeout(timeout_s)
        try:
            message, fds, _, _ = socket.recv_fds(channel, MESSAGE_MAX_BYTES, 1)
        except OSError as error:
            raise SandboxError(f"the fork server does not answer: {error}") from error
        if not message:
            raise SandboxError(f"the fork server ended: {self.tail()}")
        answer = json.loads(message)
        if "failed" in answer:
            raise SandboxError(f"the sandbox could not be set up: {answer['failed']}")
        return answer, fds

    def tail(self, limit_bytes: int = 4000) -> str:
        """Return the end of both processes' output."""
        with self.log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - limit_bytes))
            return file.read().decode(errors="replace")

    def close(self) -> None:
        """End both processes and their descendants, and remove their files."""
        for end in (self._control, self._channel):
            end.shutdown(socket.SHUT_RDWR)  # also ends the wait for a cell
        if self._asked is not None:
            with contextlib.suppress(SandboxError):
                self.take().close()
        self._preparing.shutdown()
        for end in (self._control, self._channel):
            end.close()
        if self._process is not None:
            try:
                self._process.wait(timeout=ANSWER_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        remove_tree(self.base)
