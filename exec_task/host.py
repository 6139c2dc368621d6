"""The supervisor's own process, protected from other processes, and the tools of its run."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepline.model.program.execution import ExecRequest

if TYPE_CHECKING:
    from stepline.ports.artifacts import Artifacts
    from stepline.ports.executor import Serve
    from stepline.ports.signal import Cancel
    from stepline.programs.host import ToolHost

PR_SET_DUMPABLE: Final = 4


def shut_process() -> None:
    """Keep other processes from inspecting this process and from writing its files."""
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    os.umask(0o022)


def build_host(
    request: ExecRequest,
    batches: Sequence[bytes],
    variables: Mapping[str, str],
    private: Path,
    *,
    cancel: Cancel,
    artifacts: Artifacts | None = None,
    serve: Serve | None = None,
) -> ToolHost:
    """Build the tools of a run, configured by `variables`; `artifacts` replace the configured ones.

    `serve` makes the calls of functions; without it, they are invoked as `variables` say.
    `cancel` ends the tools that still run when the program has ended.
    """
    from stepline.adapters.memory.clock import MemoryMeter  # noqa: PLC0415 - most runs call no tool
    from stepline.bootstrap.aws_wiring import on_aws  # noqa: PLC0415 - see above
    from stepline.bootstrap.loop_app import LoopApp  # noqa: PLC0415 - see above
    from stepline.bootstrap.program_backend import ProgramBackends  # noqa: PLC0415 - see above
    from stepline.model.batch import decode_batch  # noqa: PLC0415 - see above
    from stepline.ports.executor import Job  # noqa: PLC0415 - see above
    from stepline.settings import Settings  # noqa: PLC0415 - see above

    # For the AWS SDK, which reads its own variables. A program that shares this container could fill the default
    # temporary folder.
    os.environ.update(variables, TMPDIR=str(private))  # noqa: TID251 - see above
    app = on_aws(Settings.from_env(variables), MemoryMeter(), LoopApp)
    # The secrets in scope are among the descriptors; a task may not read others.
    app = replace(app, ports=replace(app.ports, secrets=None, artifacts=artifacts or app.ports.artifacts))
    job = Job(
        request=request,
        batches=[decode_batch(batch) for batch in batches],
        fetch=app.ports.artifacts.get,
        spool=private,
        cancel=cancel,
        serve=serve or app.serve,
    )
    return ProgramBackends(app).tool_host(job)
