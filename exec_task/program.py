"""The program of a combined container: a child process without the supervisor's resources.

The supervisor is process 1 of the container, so every orphan becomes its child, and one signal reaches every
process but itself.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Final

from exec_task.caller import Caller
from exec_task.init import FONTS, place_fonts, was_out_of_memory
from exec_task.workspace import Workspace
from stepline.adapters.docker.executor import KILLED, MEMORY
from stepline.adapters.docker.supervisor_protocol import Ended
from stepline.adapters.sandbox.tail import Tail
from stepline.errors import SandboxError
from stepline.model.program.image import EXECUTOR_COMMAND, GID, UID

READ_BYTES: Final = 256 * 1024
INIT: Final = 1
TERM_S: Final = 1.0
ENVIRONMENT: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/tmp"}  # noqa: S108 - the container's own


def run_here(caller: Caller, workspace: Workspace, payload: bytes, write: Callable[[bytes], None]) -> Ended:
    """Run the program of a workspace in this container; `write` gets its output. Raises SandboxError, HungUp."""
    limits = workspace.request.limits
    return Program(EXECUTOR_COMMAND, payload, Tail(limits.log_bytes, write)).watch(
        caller, timeout_s=limits.timeout_s, interval_s=limits.monitor_interval_s, check=workspace.check
    )


class Program:
    """One child process. Its jail gives it another account; until then only our own code runs in it."""

    def __init__(self, command: Sequence[str], payload: bytes, log: Tail) -> None:
        """Start the child with its payload as standard input; its output goes to `log`.

        Raises SandboxError if this process is not process 1: the signal that ends a program reaches all other
        processes.
        """
        if os.getpid() != INIT:
            raise SandboxError("a combined run needs a container of its own")
        place_fonts()
        with contextlib.suppress(FileNotFoundError):
            os.chown(FONTS[1], UID, GID)  # Matplotlib writes there
        self.log = log
        self._child = subprocess.Popen(  # noqa: S603 - our own executor, no shell
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=ENVIRONMENT,
            start_new_session=True,
            bufsize=0,
        )
        assert self._child.stdin is not None
        self._child.stdin.write(payload)
        self._child.stdin.close()

    def watch(
        self, caller: Caller, *, timeout_s: float, interval_s: float, check: Callable[[], str | None]
    ) -> Ended:
        """Wait for the program to end; stop it at its deadline, at a limit from `check`, or for the caller.

        Raises HungUp when the caller is gone and all processes of the program have ended.
        """
        started_s = time.monotonic()
        try:
            error = self._wait(caller, started_s + timeout_s, interval_s, check)
            if error:
                self._terminate()
        finally:
            self._kill()
        seconds = time.monotonic() - started_s
        if not error and self._child.returncode == KILLED and was_out_of_memory():
            error = MEMORY
        self._drain()
        return Ended(
            error=error,
            returncode=self._child.returncode,
            seconds=round(seconds, 3),
            log=self.log.text(),
            log_bytes=self.log.total_bytes,
        )

    def _wait(
        self, caller: Caller, deadline_s: float, interval_s: float, check: Callable[[], str | None]
    ) -> str:
        """Return the reason to stop the program, or "" if it has ended."""
        output = self._output()
        pidfd = os.pidfd_open(self._child.pid)
        look_s = time.monotonic() + interval_s
        with selectors.DefaultSelector() as selector:
            for fd in (output, pidfd, caller.source):
                selector.register(fd, selectors.EVENT_READ)
            while True:
                now_s = time.monotonic()
                if now_s >= deadline_s:
                    return "timeout"
                if now_s >= look_s:
                    if violation := check():
                        return violation
                    look_s = time.monotonic() + interval_s
                ready = {key.fd for key, _ in selector.select(max(0.0, min(deadline_s, look_s) - now_s))}
                if caller.source in ready and (word := caller.hear()):
                    return word
                if output in ready and not self._read_output(output):
                    selector.unregister(output)
                if pidfd in ready:
                    os.close(pidfd)
                    return ""

    def _terminate(self) -> None:
        """Ask the program to end, and wait for a moment."""
        self._child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(TERM_S)

    def _kill(self) -> None:
        """Kill and reap all other processes of this container."""
        while True:
            try:
                os.kill(-1, signal.SIGKILL)
            except ProcessLookupError:
                break
            self._reap()
        self._reap()

    def _reap(self) -> None:
        """Reap every child, and store the program's status."""
        self._child.wait()
        try:
            while True:
                os.waitpid(-1, 0)
        except ChildProcessError:
            return

    def _drain(self) -> None:
        """Read the rest of the pipe; its other end is closed."""
        while self._read_output(self._output()):
            pass

    def _output(self) -> int:
        assert self._child.stdout is not None
        return self._child.stdout.fileno()

    def _read_output(self, output: int) -> bool:
        chunk = os.read(output, READ_BYTES)
        self.log.write(chunk)
        return bool(chunk)
