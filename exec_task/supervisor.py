"""The supervisor's container: lays out a run's workspace, serves its program's tool calls, reports what it left.

Trusted: it has the network and the secrets, and none of the program's code runs in it. It hears and speaks over
standard input and output (`stepline.adapters.docker.message`) and ends when its input does.
Source: docs/concepts/execution.md#docker.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

from msgspec.structs import replace

from exec_task.stdio import HungUp, Stdio
from stepline.adapters.docker.message import (
    Blob,
    Collect,
    Failed,
    Fetch,
    Launch,
    Missing,
    Ready,
    Report,
    Violation,
    blob_bytes,
)
from stepline.adapters.docker.payload import EXECUTOR_COMMAND, PRIVATE, WORKSPACE, render_payload
from stepline.adapters.sandbox.collect import Collected, collect
from stepline.adapters.sandbox.payload import GID, UID
from stepline.adapters.sandbox.quota import IDLE_FACTOR, Quota
from stepline.adapters.sandbox.restore import restore
from stepline.adapters.sandbox.server import SupervisorServer
from stepline.errors import NotFoundError, SandboxError, SteplineError
from stepline.execution.host import ToolHost
from stepline.execution.manifest import Manifest
from stepline.model.execution import ExecRequest, ToolCallRecord, ToolEvent

logger = logging.getLogger("stepline.supervisor")

PR_SET_DUMPABLE: Final = 4
ROOM_BYTES: Final = 1 << 40
"""For inputs: who sends them has checked their sum, and the workspace is a file system of its own size."""

MakeHost = Callable[[Launch], ToolHost]
Owner = tuple[int, int]


class LazyHost:
    """A ToolHost that is made for the first call: most programs make none, and its imports take a while."""

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


def main() -> int:
    """Serve one run and end. What goes wrong is told; what should not happen is in the container's log."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    os.umask(0o022)
    stdio = _take_stdio()
    with contextlib.suppress(HungUp):
        try:
            serve(stdio, root=WORKSPACE, private=PRIVATE, owner=(UID, GID), make_host=make_host)
        except SteplineError as error:
            logger.info("run not served", extra={"code": error.reason})
            stdio.send(Failed(code=error.reason, message=str(error)))
        except Exception as error:
            logger.exception("supervisor failed")
            stdio.send(Failed(code="sandbox_execution_failed", message=f"the supervisor failed: {error}"))
        while True:  # the other side ends this container, when it has read everything
            stdio.receive()
    return 0


def serve(stdio: Stdio, *, root: Path, private: Path, owner: Owner | None, make_host: MakeHost) -> None:
    """Do one run. `owner` is the program's account, to whom the workspace is given; None leaves it ours.

    What nobody else may see lies in `private`.

    Raises SandboxError, and HungUp when nobody waits for the run any more.
    """
    launch = stdio.receive()
    if not isinstance(launch, Launch):
        raise SandboxError("a run begins with its launch")
    request = launch.request
    before = _lay_out(stdio, request, root, owner)
    quota = Quota([root / "work", root / "out"], request.limits, before)
    if request.limits.max_workspace_bytes and (exceeded := quota.check()):
        raise SandboxError("the workspace is too large before the program begins", code=exceeded)
    host = LazyHost(lambda: make_host(launch))
    server = SupervisorServer(
        root / "socket/supervisor.sock",
        host=cast("ToolHost", host),
        token=launch.token,
        allowed_uids=frozenset({owner[0] if owner else os.geteuid()}),
        quota=request.limits.tool_calls,
        deadline_s=request.limits.timeout_s,
        owner=(0, owner[1]) if owner else None,
    )
    with server:
        stdio.send(Ready())
        if launch.strategy == "split":
            _wait(stdio, quota, request)
        else:
            _run(stdio, quota, launch, root)
    report = Report(
        isolation=server.isolation,
        exceeded=quota.check() or "",
        calls=tuple(host.calls),
        events=tuple(host.events),
    )
    spool = private / "spool"
    spool.mkdir(0o700)
    try:
        found = collect(root / "out", before, spool, limits=request.limits, turn=request.turn)
    except SandboxError as error:
        stdio.send(replace(report, error=error.reason, message=str(error)))
    else:
        _send(stdio, report, found, spool)


def make_host(launch: Launch) -> ToolHost:
    """Build the tools of a run: descriptors first, for tools may ask for them as they are made."""
    from stepline.adapters.descriptor_file import write_folder  # noqa: PLC0415 - LazyHost
    from stepline.adapters.memory.meter import MemoryMeter  # noqa: PLC0415 - LazyHost
    from stepline.bootstrap import on_aws  # noqa: PLC0415 - LazyHost
    from stepline.model.batch import decode_batch  # noqa: PLC0415 - LazyHost
    from stepline.ports.executor import Job  # noqa: PLC0415 - LazyHost
    from stepline.settings import Settings  # noqa: PLC0415 - LazyHost

    variables = launch.environment | write_folder(launch.descriptors, PRIVATE / "descriptors")
    # For the cloud's SDK, which reads its own; a program that shares this container could fill the other folder.
    os.environ.update(variables, TMPDIR=str(PRIVATE))  # noqa: TID251 - see above
    app = on_aws(Settings.from_env(variables), MemoryMeter())
    job = Job(
        request=launch.request,
        batches=[decode_batch(batch) for batch in launch.batches],
        fetch=app.ports.artifacts.get,
        spool=PRIVATE,
    )
    return app.tool_host(job)


def _lay_out(stdio: Stdio, request: ExecRequest, root: Path, owner: Owner | None) -> Manifest:
    """Make the three folders of a workspace, with the program and its inputs in them."""

    def fetch(key: str) -> bytes:
        stdio.send(Fetch(key=key))
        body = bytearray()
        while True:
            match stdio.receive():
                case Blob(data=data, last=last):
                    body += data
                    if last:
                        return bytes(body)
                case Missing(message=message):
                    raise NotFoundError(message)
                case _:
                    raise SandboxError("bytes were expected", code="restore_failed")

    work, out, socket = (root / name for name in ("work", "out", "socket"))
    try:
        for folder, mode in ((work, 0o755), (out, 0o755), (socket, 0o750)):
            folder.mkdir(mode)
        code = work / "user_code.py"
        code.write_text(request.code, encoding="utf-8", newline="")
        if owner:
            for path in (work, out, code):
                os.chown(path, *owner)
            os.chown(socket, -1, owner[1])
    except OSError as error:
        raise SandboxError(f"the workspace cannot be made: {error}", code="restore_failed") from error
    return restore(request.files, out, fetch, max_bytes=ROOM_BYTES, owner=owner, turn=request.turn)


def _wait(stdio: Stdio, quota: Quota, request: ExecRequest) -> None:
    """Watch the workspace until the other side says that the executor has ended."""
    pause_s, told = request.limits.monitor_interval_s, False
    while not isinstance(stdio.poll(pause_s), Collect):
        began_s = time.monotonic()
        if not told and (code := quota.check()):
            stdio.send(Violation(code=code))
            told = True
        pause_s = max(request.limits.monitor_interval_s, IDLE_FACTOR * (time.monotonic() - began_s))


def _run(stdio: Stdio, quota: Quota, launch: Launch, root: Path) -> None:
    """Run the program in this container."""
    from exec_task.program import Program  # noqa: PLC0415 - only here

    request = launch.request
    program = Program(
        EXECUTOR_COMMAND,
        render_payload(request, launch.token, "combined", root=root),
        log_bytes=request.limits.log_bytes,
    )
    ended = program.watch(
        stdio,
        timeout_s=request.limits.timeout_s,
        interval_s=request.limits.monitor_interval_s,
        check=quota.check,
    )
    stdio.send(ended)


def _send(stdio: Stdio, report: Report, found: Collected, spool: Path) -> None:
    """Send the report with what was found, and the bytes of its files after it."""
    stdio.send(
        replace(
            report,
            files=found.files,
            unchanged=found.unchanged,
            refused=found.refused,
            deleted=found.deleted,
        )
    )
    for sha256 in blob_bytes(found.files):
        with (spool / sha256).open("rb") as file:
            stdio.send_bytes(file.fileno())


def _take_stdio() -> Stdio:
    """Keep standard input and output for the conversation; what prints goes to the log instead."""
    stdio = Stdio(os.dup(0), os.dup(1))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    return stdio


if __name__ == "__main__":
    sys.exit(main())
