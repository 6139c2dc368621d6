"""The workspace of a program, used by every supervisor: its folders, its tools, its limits, and its results."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, cast

from msgspec.structs import replace

from stepline.adapters.docker.supervisor_protocol import Report
from stepline.adapters.sandbox.cancel import Over
from stepline.adapters.sandbox.collect import collect
from stepline.adapters.sandbox.quota import Quota, plan_reserve
from stepline.adapters.sandbox.restore import place_bundle, restore_files
from stepline.adapters.sandbox.tool_server import SupervisorServer
from stepline.errors import SandboxError
from stepline.model.program.execution import ExecRequest, ToolCallRecord, ToolEvent
from stepline.model.source import Source
from stepline.ports.signal import Cancel
from stepline.programs.host import ToolHost
from stepline.programs.manifest import Manifest

ROOM_BYTES: Final = 1 << 40
"""Limit for inputs: their sender has checked the total, and the workspace is a file system with its own size."""

SPOOL: Final = "spool"
FOLDERS: Final = {"work": 0o755, "out": 0o755, "bundle": 0o755, "socket": 0o750}

Owner = tuple[int, int]


class LazyHost:
    """A ToolHost that is created on the first call: most programs make no calls, and its imports take time."""

    def __init__(self, make: Callable[[], ToolHost]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._host: ToolHost | None = None

    def call(self, tool_id: Any, params: Any) -> Any:
        with self._lock:
            host = self._host = self._host or self._make()
        return host.call(tool_id, params)

    @property
    def calls(self) -> list[ToolCallRecord]:
        return self._host.calls if self._host else []

    @property
    def events(self) -> list[ToolEvent]:
        return self._host.events if self._host else []

    @property
    def sources(self) -> list[Source]:
        return self._host.sources if self._host else []


class Workspace:
    """The workspace of one run; its tools are served during the `with` block."""

    def __init__(
        self,
        request: ExecRequest,
        token: str,
        *,
        root: Path,
        private: Path,
        owner: Owner | None,
        fetch: Callable[[str], bytes],
        make_host: Callable[[Cancel], ToolHost],
        bundle: Mapping[str, bytes],
        shared_disk: bool = False,
    ) -> None:
        """Set up the workspace below `root`; private files are in `private`.

        `make_host` creates the tools; its argument cancels those that still run when the program has ended.
        `bundle` are the files of the bundle, which we keep owning.
        `owner` is the program's account, which gets the workspace; with None we keep it. On a `shared_disk`, which
        also has other content, part of the disk is reserved. Raises SandboxError `restore_failed`, or
        `workspace_size_limit` if the workspace is too large before anything runs.
        """
        self.request = request
        self.spool = private / SPOOL
        self._root = root
        self._owner = owner
        self._token = token
        self._before = self._lay_out(fetch, bundle)
        reserve_bytes = plan_reserve(root) if shared_disk else 0
        folders = [root / "work", root / "out"]
        self._quota = Quota(folders, request.limits, self._before, reserve_bytes=reserve_bytes)
        if request.limits.max_workspace_bytes and (exceeded := self._quota.check()):
            raise SandboxError("the workspace is too large before the program begins", code=exceeded)
        self._over = Over()
        self._host = LazyHost(lambda: make_host(self._over))
        self._server: SupervisorServer | None = None

    def __enter__(self) -> Self:
        """Serve tools for as long as the program may run. Raises SandboxError."""
        self._server = SupervisorServer(
            self._root / "socket/supervisor.sock",
            host=cast("ToolHost", self._host),
            token=self._token,
            allowed_uids=frozenset({self._owner[0] if self._owner else os.geteuid()}),
            quota=self.request.limits.tool_calls,
            deadline_s=self.request.limits.timeout_s,
            owner=(0, self._owner[1]) if self._owner else None,
        )
        self._server.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._server:
            self._server.close()

    def check(self) -> str | None:
        """Return the code of the limit that the workspace currently exceeds, or None."""
        return self._quota.check()

    def report(self) -> Report:
        """Collect the run's results after its last process has ended; the bytes of its files go to `spool`."""
        report = Report(
            isolation=self._server.isolation if self._server else None,
            exceeded=self._quota.check() or "",
            calls=tuple(self._host.calls),
            events=tuple(self._host.events),
            sources=tuple(self._host.sources),
        )
        self.spool.mkdir(0o700)
        limits, turn = self.request.limits, self.request.turn
        try:
            found = collect(self._root / "out", self._before, self.spool, limits=limits, turn=turn)
        except SandboxError as error:
            return replace(report, error=error.reason, message=str(error))
        return replace(
            report,
            files=found.files,
            unchanged=found.unchanged,
            refused=found.refused,
            deleted=found.deleted,
        )

    def _lay_out(self, fetch: Callable[[str], bytes], bundle: Mapping[str, bytes]) -> Manifest:
        """Create the folders and write the program, its bundle and its inputs into them."""
        root, owner = self._root, self._owner
        work, out, readable, socket = (root / name for name in FOLDERS)
        try:
            for name, mode in FOLDERS.items():
                (root / name).mkdir(mode)
            code = work / "user_code.py"
            code.write_text(self.request.code, encoding="utf-8", newline="")
            if owner:
                for path in (work, out, code):
                    os.chown(path, *owner)
                os.chown(socket, -1, owner[1])
        except OSError as error:
            raise SandboxError(f"the workspace cannot be made: {error}", code="restore_failed") from error
        place_bundle(bundle, readable)
        request = self.request
        return restore_files(request.files, out, fetch, max_bytes=ROOM_BYTES, owner=owner, turn=request.turn)
