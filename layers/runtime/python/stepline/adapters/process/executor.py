"""Programs as forks of a warm process, each in its own namespaces.

A run leaves nothing for the next run: its cell dies with it, its folder is removed, and it cannot see the zygote that
it was forked from. If the end of a run looks unusual, the fork server is replaced. `RunFolder` is the folder of one run
on this machine's disk.

Source: docs/concepts/execution.md.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from stepline.adapters.process.ending import Ending, attend, judge_ending, limit_memory
from stepline.adapters.process.fork_server import Cell, ForkServer, UnsupportedError
from stepline.adapters.process.group import PROC
from stepline.adapters.process.payload import CODE_FILE, render_payload
from stepline.adapters.sandbox.cancel import Over, check_wanted
from stepline.adapters.sandbox.collect import collect
from stepline.adapters.sandbox.exit_code import FULL, render_stop
from stepline.adapters.sandbox.live_log import LiveLog
from stepline.adapters.sandbox.quota import Quota, plan_reserve
from stepline.adapters.sandbox.restore import place_bundle, restore_files
from stepline.adapters.sandbox.tail import Tail, drain
from stepline.adapters.sandbox.tool_server import SupervisorServer
from stepline.adapters.sandbox.tree import remove_tree
from stepline.errors import SandboxError
from stepline.model.program.execution import MIB, Isolation, Run, RunLimits
from stepline.model.program.image import GID, UID
from stepline.ports.executor import Job
from stepline.programs.bundle_files import read_bundle_files
from stepline.programs.host import ToolHost
from stepline.programs.manifest import Manifest

logger = logging.getLogger(__name__)

PRELOAD: Final = ("numpy", "pandas", "matplotlib.pyplot", "openpyxl", "docx", "pptx", "pypdf", "PIL.Image")
RESTORE_MAX_BYTES: Final = 2048 * MIB
"""Disk space that programs leave free; at most half of the free space at a run's start."""
DRAIN_S: Final = 5.0


class ProcessExecutor:
    """Runs programs with the interpreter `python` and its packages.

    `home` is the folder that holds `executor/`.

    `host` creates the tools of a job. `preload` are modules to import before forking, if they are installed.
    """

    def __init__(
        self,
        *,
        python: Path,
        home: Path,
        host: Callable[[Job], ToolHost],
        preload: tuple[str, ...] = PRELOAD,
        proc: Path = PROC,
    ) -> None:
        """Store the configuration; nothing is started. `proc` is read for control groups and memory."""
        self._python = python.absolute()
        self._home = home.absolute()
        self._host = host
        self._preload = preload
        self._proc = proc
        self._lock = threading.Lock()
        self._server: ForkServer | None = None
        self._next: RunFolder | None = None

    @property
    def backend(self) -> str:
        return "process"

    def run(self, job: Job) -> Run:
        """Run a job as the port describes. If the fork server is gone or suspect, a new one is started first."""
        with self._lock:
            try:
                check_wanted(job.cancel)
                server, folder, cell = self._enter()
            except UnsupportedError as error:
                return Run(error="unsupported_platform", message=str(error))
            except SandboxError as error:
                return Run(error=error.reason, message=str(error))
            suspect = True
            try:
                with cell:
                    run, suspect = _Room(server, folder, cell).run(job, self._host)
            finally:
                if suspect or not folder.remove():
                    self._discard()
                else:
                    self._prepare(server)
            return run

    def close(self) -> None:
        """End the fork server."""
        with self._lock:
            self._discard()

    def _enter(self) -> tuple[ForkServer, RunFolder, Cell]:
        """Return the resources of a run: the prepared ones if they are intact."""
        if self._server is not None and not self._server.sound:
            self._discard()
        try:
            return self._open()
        except SandboxError:
            logger.warning("fork server replaced")
            self._discard()
        try:
            return self._open()
        except SandboxError:
            self._discard()
            raise

    def _open(self) -> tuple[ForkServer, RunFolder, Cell]:
        server = self._server
        if server is None:
            server = ForkServer(python=self._python, home=self._home, preload=self._preload, proc=self._proc)
            self._server = server
        folder, self._next = self._next or RunFolder(server), None
        cell = server.take()
        if not cell.sound:
            with cell:
                raise SandboxError("the cell that was prepared is gone")
        return server, folder, cell

    def _prepare(self, server: ForkServer) -> None:
        """Prepare the next cell while no run is waiting for it."""
        try:
            self._next = RunFolder(server)
        except (SandboxError, OSError):
            logger.warning("no cell prepared", exc_info=True)
            self._discard()

    def _discard(self) -> None:
        self._next = None
        server, self._server = self._server, None
        if server is not None:
            server.close()


class _Room:
    """One run's folder, cell and zygote."""

    def __init__(self, server: ForkServer, folder: RunFolder, cell: Cell) -> None:
        self._server = server
        self._folder = folder
        self._cell = cell

    def run(self, job: Job, make_host: Callable[[Job], ToolHost]) -> tuple[Run, bool]:
        """Return the result, and True if the fork server is now suspect."""
        limits, over = job.request.limits, Over()
        host = make_host(dataclasses.replace(job, cancel=over))
        try:
            before = self._restore(job)
            quota = self._quota(limits, before)
            full = limits.max_workspace_bytes and quota.check()
        except SandboxError as error:
            return self._refuse(Run(error=error.reason, message=str(error)))
        if full:
            return self._refuse(Run(error=full, message=render_stop(full, limits), returncode=FULL))
        try:
            run, gone, suspect = self._execute(job, host, over, quota)
        except SandboxError as error:
            return Run(error=error.reason, message=str(error), runtime_log=self._server.tail()), True
        if not gone:
            message = "the program could not be ended, and nothing is taken over from under its hands"
            return replace(run, error="collect_failed", message=message), True
        try:
            found = collect(self._folder.out, before, job.spool, limits=limits, turn=job.request.turn)
        except SandboxError as error:
            return replace(run, error=run.error or error.reason, message=run.message or str(error)), suspect
        kept = {name: getattr(found, name) for name in ("files", "unchanged", "refused", "deleted")}
        return replace(run, **kept), suspect

    def _refuse(self, run: Run) -> tuple[Run, bool]:
        """Return the result of a run that does not start."""
        try:
            self._server.dismiss(self._cell)
        except SandboxError:
            return run, True
        return run, False

    def _quota(self, limits: RunLimits, before: Manifest) -> Quota:
        """Return the run's limits. Part of this machine's disk is reserved."""
        reserve_bytes = plan_reserve(self._folder.path)
        folders = (self._folder.work, self._folder.out)
        return Quota(folders, limits, before, reserve_bytes=reserve_bytes)

    def _restore(self, job: Job) -> Manifest:
        """Set up the workspace. Raises SandboxError `restore_failed`, `cancelled`."""
        folder, request = self._folder, job.request

        def fetch(key: str) -> bytes:
            check_wanted(job.cancel)
            return job.fetch(key)

        before = restore_files(
            request.files,
            folder.out,
            fetch,
            max_bytes=RESTORE_MAX_BYTES,
            owner=folder.owner,
            turn=request.turn,
        )
        place_bundle(read_bundle_files(request.bundle), folder.bundle)
        code = folder.work / CODE_FILE
        code.write_text(request.code, encoding="utf-8", newline="")
        folder.give(code)
        check_wanted(job.cancel)
        return before

    def _execute(self, job: Job, host: ToolHost, over: Over, quota: Quota) -> tuple[Run, bool, bool]:
        """Run the program under its supervisor.

        Return the result, whether its cell is empty, and whether the fork server is suspect.
        `over` cancels tools that still run at the end. Raises SandboxError.
        """
        limits, privileged = job.request.limits, self._server.privileged
        token = secrets.token_urlsafe(32)
        log = LiveLog(job.request, job.keep_log)
        tail = Tail(limits.log_bytes, log.write)
        supervisor = SupervisorServer(
            self._folder.socket / "supervisor.sock",
            host=host,
            token=token,
            allowed_uids=frozenset({UID if privileged else os.getuid()}),
            quota=limits.tool_calls,
            deadline_s=limits.timeout_s,
            owner=(os.getuid(), GID) if privileged else None,
        )
        began_s = time.monotonic()
        with log:
            log.begin()
            with supervisor:
                try:
                    ending, gone = self._attend(job, token, tail, quota)
                finally:
                    over.set()
            seconds = time.monotonic() - began_s
        ran = supervisor.isolation is not None
        ending = judge_ending(ending, confined=ran, quota=quota, limits=limits)
        odd = ending.suspect or not gone
        printed = tail.text()
        run = Run(
            error=ending.error,
            message=ending.message,
            returncode=ending.returncode,
            seconds=seconds,
            program_log=printed if ran else "",
            log_bytes=tail.total_bytes if ran else 0,
            runtime_log=(self._server.tail() if odd else "") + ("" if ran else printed),
            isolation=supervisor.isolation or Isolation(backend="process"),
            calls=tuple(host.calls),
            events=tuple(host.events),
            sources=tuple(host.sources),
            began_at=log.began_at if ran else "",
        )
        return run, gone, odd

    def _attend(self, job: Job, token: str, tail: Tail, quota: Quota) -> tuple[Ending, bool]:
        """Return the program's end, and whether its cell is empty now."""
        payload = render_payload(
            job.request, token, namespaces=self._server.namespaces, readable=self._server.readable
        )
        server, cell, limits = self._server, self._cell, job.request.limits
        draining = drain(cell.take_output(), tail)
        try:
            try:
                memory = limit_memory(server, cell, limits.memory_bytes)
                cell.launch(payload)
                ending = attend(server, cell, memory=memory, quota=quota, limits=limits, cancel=job.cancel)
            finally:
                gone = cell.kill()
        finally:
            draining.join(DRAIN_S)
        return ending, gone and not draining.is_alive()


_OWN: Final = 0o700
_READABLE: Final = 0o755
_PASSABLE: Final = 0o710


class RunFolder:
    """A run's folder: `work` and `out` belong to the program, `socket` and `bundle` do not; it is private itself.

    An unprivileged server has only one user: then only the cell's mounts protect `socket` and `bundle`.
    """

    def __init__(self, server: ForkServer) -> None:
        self.name = secrets.token_hex(8)
        self.path = server.runs / self.name
        self.work, self.out, self.bundle, self.socket = (
            self.path / place for place in ("work", "out", "bundle", "socket")
        )
        self.owner = (UID, GID) if server.privileged else None
        self.path.mkdir(_OWN)
        for place in (self.work, self.out):
            place.mkdir(_OWN)
            self.give(place)
        self.bundle.mkdir(_OWN)
        self.bundle.chmod(_READABLE)
        self.socket.mkdir(_OWN)
        if server.privileged:
            os.chown(self.socket, -1, GID)
            self.socket.chmod(_PASSABLE)
        server.ask(self.name)

    def give(self, path: Path) -> None:
        """Give a file or folder to the program's user."""
        if self.owner:
            os.chown(path, *self.owner)

    def remove(self) -> bool:
        """Remove the folder with its content; return True if nothing is left."""
        return remove_tree(self.path)
