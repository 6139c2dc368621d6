"""The supervisor's container: sets up a run's workspace, serves its program's tool calls, and reports its files.

It is trusted: it has the network and the secrets, and none of the program's code runs in it. It exchanges messages
over standard input and output (`stepline.adapters.docker.supervisor_protocol`), and ends when its input ends.
Source: docs/concepts/execution.md#docker.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from exec_task.caller import HungUp
from exec_task.host import build_host, shut_process
from exec_task.stdio import Stdio
from exec_task.workspace import Owner, Workspace
from stepline.adapters.docker.payload import render_container_payload
from stepline.adapters.docker.supervisor_protocol import (
    Blob,
    Collect,
    Failed,
    Fetch,
    Launch,
    Missing,
    Printed,
    Ready,
    Violation,
    blob_bytes,
)
from stepline.adapters.sandbox.quota import IDLE_FACTOR
from stepline.errors import NotFoundError, SandboxError, SteplineError
from stepline.model.program.image import GID, PRIVATE, UID, WORKSPACE
from stepline.ports.executor import Serve
from stepline.ports.signal import Cancel
from stepline.programs.host import ToolHost

logger = logging.getLogger("stepline.supervisor")

MakeHost = Callable[[Launch, Cancel, Serve], ToolHost]


def main() -> int:
    """Serve one run and exit. Failures are reported; unexpected errors go to the container's log."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    shut_process()
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
        while True:  # the other side ends this container after it has read everything
            stdio.receive()
    return 0


def serve(stdio: Stdio, *, root: Path, private: Path, owner: Owner | None, make_host: MakeHost) -> None:
    """Serve one run; `root`, `private` and `owner` are those of a Workspace.

    Raises SandboxError, and HungUp when no client is waiting for the run.
    """
    launch = stdio.receive()
    if not isinstance(launch, Launch):
        raise SandboxError("a run begins with its launch")
    workspace = Workspace(
        launch.request,
        launch.token,
        root=root,
        private=private,
        owner=owner,
        fetch=lambda key: _fetch(stdio, key),
        make_host=lambda cancel: make_host(launch, cancel, stdio.ask),
        bundle=launch.bundle,
    )
    with workspace:
        stdio.send(Ready())
        if launch.strategy == "split":
            _wait(stdio, workspace)
        else:
            payload = render_container_payload(launch.request, launch.token, "combined", root=root)
            from exec_task.program import run_here  # noqa: PLC0415 - only in a combined container

            ended = run_here(stdio, workspace, payload, lambda chunk: stdio.send(Printed(data=chunk)))
            stdio.send(ended)
    report = workspace.report()
    stdio.send(report)
    for sha256 in blob_bytes(report.files):
        with (workspace.spool / sha256).open("rb") as file:
            stdio.send_bytes(file.fileno())


def make_host(launch: Launch, cancel: Cancel, ask: Serve) -> ToolHost:
    """Build the tools of a run: descriptors first, because tools may read them on creation.

    `ask` has the other side make the calls that a function makes.
    """
    from stepline.adapters.descriptor_file import write_folder  # noqa: PLC0415 - most runs call no tool

    variables = launch.environment | write_folder(launch.descriptors, PRIVATE / "descriptors")
    return build_host(launch.request, launch.batches, variables, PRIVATE, cancel=cancel, serve=ask)


def _fetch(stdio: Stdio, key: str) -> bytes:
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


def _wait(stdio: Stdio, workspace: Workspace) -> None:
    """Watch the workspace until the other side reports that the executor has ended."""
    interval_s, reported = workspace.request.limits.monitor_interval_s, False
    pause_s = interval_s
    while not isinstance(stdio.poll(pause_s), Collect):
        began_s = time.monotonic()
        if not reported and (code := workspace.check()):
            stdio.send(Violation(code=code))
            reported = True
        pause_s = max(interval_s, IDLE_FACTOR * (time.monotonic() - began_s))


def _take_stdio() -> Stdio:
    """Reserve standard input and output for messages; prints go to the log instead."""
    stdio = Stdio(os.dup(0), os.dup(1))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    return stdio


if __name__ == "__main__":
    sys.exit(main())
