"""What a run came to, from an exit code, a report and what the `docker` command said. Pure but for reading logs.

A command's exit code is the program's if the jail reported itself; otherwise nothing of the program ran, and the
code belongs to the jail, to the command or to the daemon.
"""

from __future__ import annotations

import re
import signal
from typing import Final

from stepline.adapters.docker.message import Ended, Report
from stepline.adapters.docker.session import Gone, Session
from stepline.adapters.sandbox.ending import (
    CANCELLED,
    FULL,
    LOST,
    REFUSED,
    STOPPED,
    TASK_STOPPED,
    TIMED_OUT,
    render_end,
    render_stop,
)
from stepline.adapters.sandbox.quota import FILE, WORKSPACE
from stepline.errors import SandboxError
from stepline.model.program.execution import Isolation, Limits, Run

MEMORY: Final = "memory_limit"
KILLED: Final = -signal.SIGKILL

_UNAVAILABLE: Final = re.compile(
    r"cannot connect to the docker daemon|is the docker daemon running|error during connect"
    r"|permission denied while trying to connect|context .{0,300} not found",
    re.IGNORECASE,
)
_IMAGE: Final = re.compile(
    r"no such image|unable to find image|image .{0,300}not known|pull access denied", re.IGNORECASE
)
_OUT_OF_MEMORY: Final = "the program was stopped: it took more memory than its container has"
_HELP: Final = re.compile(r"^(see 'docker|run 'docker).*$", re.IGNORECASE | re.MULTILINE)


def explain(gone: Gone, session: Session) -> SandboxError:
    """Return why a run ends before its report."""
    if gone == "late":
        return SandboxError("the containers did not answer in time")
    end = render_end(session.status(gone))
    said = (session.runtime if gone == "supervisor" else session.program).text()
    said = _HELP.sub("", said).strip()
    if _UNAVAILABLE.search(said):
        return SandboxError(
            f"no Docker daemon answers: start it, or choose mode process ({_last(said)})",
            code="docker_unavailable",
        )
    if _IMAGE.search(said):
        return SandboxError(
            f"the image is not there: build it with `make image` or pull it ({_last(said)})",
            code="docker_image_missing",
        )
    return SandboxError(f"the {gone}'s container {end} early: {_last(said) or 'it said nothing'}")


def judge(ended: Ended, report: Report, limits: Limits, *, runtime: str) -> Run:
    """Return the run; `runtime` is what its surroundings printed."""
    ran = report.isolation is not None
    error, message = _name(ended, report, limits) if ran else _unbegun(ended)
    return Run(
        error=error,
        message=message,
        returncode=TIMED_OUT if error == "timeout" else ended.returncode,
        seconds=ended.seconds,
        program_log=ended.log if ran else "",
        log_bytes=ended.log_bytes if ran else 0,
        runtime_log=runtime if ran else f"{runtime}{ended.log}",
        isolation=report.isolation or Isolation(),
        files=report.files,
        unchanged=report.unchanged,
        refused=report.refused,
        deleted=report.deleted,
        calls=report.calls,
        events=report.events,
        sources=report.sources,
    )


def fail(error: SandboxError, session: Session) -> Run:
    """Return the run that never was, or that nobody could report of, with what was said meanwhile."""
    return Run(
        error=error.reason,
        message=str(error),
        returncode=FULL if error.reason == WORKSPACE else None,
        program_log=session.program.text(),
        log_bytes=session.program.total_bytes,
        runtime_log=session.runtime.text(),
    )


def _name(ended: Ended, report: Report, limits: Limits) -> tuple[str, str]:
    """Return code and message of a program that ran."""
    if ended.error:
        return ended.error, _OUT_OF_MEMORY if ended.error == MEMORY else render_stop(ended.error, limits)
    exceeded = FILE if ended.returncode == -signal.SIGXFSZ else report.exceeded
    if exceeded:
        return exceeded, render_stop(exceeded, limits)
    if ended.returncode:
        return "nonzero_exit", f"the program {render_end(ended.returncode)}"
    return report.error, report.message


def _unbegun(ended: Ended) -> tuple[str, str]:
    """Return code and message of a program that the jail, the command or the daemon kept from running."""
    if ended.error in (CANCELLED, TASK_STOPPED):
        return ended.error, f"the program did not begin: {STOPPED[ended.error]}"
    error = "isolation_failed" if ended.returncode == REFUSED else "sandbox_execution_failed"
    said = _last(ended.log) or ("" if ended.returncode is None else render_end(ended.returncode))
    return error, f"the program did not begin: {said or STOPPED[LOST]}"


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:500] if lines else ""
