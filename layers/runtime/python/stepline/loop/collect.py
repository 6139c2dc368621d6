"""What a run left behind: its three objects, and how an outcome is made of them, wherever it ran.

    started.json   whoever puts it runs the program, or says that nobody will; nobody else ever runs it
    run.json       what a task reports of its run, with the bytes of its files in `files.bin`
    result.json    what came of a run; nothing else is believed

A run beside the functions goes from its backend's report to `result.json` in one step. One in a task cannot
judge itself: whoever collects it judges the report, by the same function.
Source: docs/concepts/execution.md#one-run.
"""

from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from stepline.errors import NotFoundError, SandboxError
from stepline.model.base import Value
from stepline.model.ids import Lane
from stepline.model.path import exec_key
from stepline.model.program.execution import ExecRequest, Run
from stepline.ports.artifacts import Artifacts
from stepline.programs.envelope import (
    Envelope,
    decode_envelope,
    lost_envelope,
    make_envelope,
    output_bodies,
)
from stepline.programs.outputs import validate_outputs
from stepline.programs.packed_files import split_files

logger = logging.getLogger(__name__)


class _Marker(Value):
    by: str


REQUEST, STARTED, RESULT = "request.json", "started.json", "result.json"
RUN, FILES = "run.json", "files.bin"
JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"

NOBODY: Final = "nobody"
"""Stands in `started.json` where a run was denied before anybody took it."""

BROKEN: Final = "The execution environment failed before it could report. Ask for the run again once."
NO_FILES: Final = "the task reported its run, and the files that belong to it could not be taken over"
ODD_REPORT: Final = "the task's report cannot be read"


def claim_run(artifacts: Artifacts, lane: Lane, turn: str, call: str, by: str) -> bool:
    """Take the one right to run a program, or to say that nobody will; tell whether it is ours."""
    return artifacts.put(exec_key(lane, turn, call, STARTED), msgspec.json.encode({"by": by}), mime=JSON)


def deny_run(artifacts: Artifacts, request: ExecRequest) -> bool:
    """See to it that a program which has not begun never will; false if somebody has taken the right to run it."""
    if claim_run(artifacts, request.lane, request.turn, request.exec_id, NOBODY):
        return True
    return taken_by(artifacts, request) == NOBODY


def taken_by(artifacts: Artifacts, request: ExecRequest) -> str:
    """Return who has taken the right to run the program: nothing if it is free, `NOBODY` if it is denied for good."""
    found = _find(artifacts, _key(request, STARTED))
    return msgspec.json.decode(found, type=_Marker).by if found is not None else ""


def keep_request(artifacts: Artifacts, request: ExecRequest) -> ExecRequest:
    """Put what is to run and return it, or what was put before: the first word stands."""
    if artifacts.put(_key(request, REQUEST), msgspec.json.encode(request), mime=JSON):
        return request
    return load_request(artifacts, request.lane, request.turn, request.exec_id)


def load_request(artifacts: Artifacts, lane: Lane, turn: str, call: str) -> ExecRequest:
    """Return what is to run. Raises NotFoundError, DependencyError."""
    return msgspec.json.decode(artifacts.get(exec_key(lane, turn, call, REQUEST)), type=ExecRequest)


def store_result(artifacts: Artifacts, request: ExecRequest, envelope: Envelope) -> None:
    """Put what came of a run; the first word stands."""
    artifacts.put(_key(request, RESULT), msgspec.json.encode(envelope), mime=JSON)


def conclude(artifacts: Artifacts, request: ExecRequest, run: Run, spool: Path) -> Envelope:
    """Judge what a run left, put the bodies that count, then its envelope, and return that.

    `spool` holds the bytes of `run.files`, each named by its sha256. Raises DependencyError.
    """
    try:
        verdicts = validate_outputs(request, run, spool)
    except Exception:  # a run's every end is in its envelope: the model must hear of this one too
        logger.exception("outputs not judged", extra={"call_id": request.exec_id})
        envelope = lost_envelope(request, "sandbox_execution_failed", BROKEN)
    else:
        for path, body in output_bodies(request, verdicts, spool):
            artifacts.put(body.key, path.read_bytes(), mime=body.mime)
        envelope = make_envelope(request, run, verdicts)
    store_result(artifacts, request, envelope)
    return envelope


def find_outcome(artifacts: Artifacts, request: ExecRequest) -> Envelope | None:
    """Return what came of a run, judging a task's report if nobody has yet; None if it left neither.

    Raises DependencyError.
    """
    found = _find(artifacts, _key(request, RESULT))
    if found is not None:
        return decode_envelope(found)
    if request.profile.mode != "fargate":
        return None
    report = _find(artifacts, _key(request, RUN))
    if report is None:
        return None
    with tempfile.TemporaryDirectory(prefix=f"stepline-spool-{os.getpid()}-") as folder:
        return conclude(artifacts, request, _unpack(artifacts, request, report, Path(folder)), Path(folder))


def _unpack(artifacts: Artifacts, request: ExecRequest, report: bytes, spool: Path) -> Run:
    """Return a task's report with the bytes of its files in `spool`, or with why there are none."""
    try:
        run = msgspec.json.decode(report, type=Run)
    except msgspec.DecodeError:
        logger.exception("report not read", extra={"call_id": request.exec_id})
        return Run(error="collect_failed", message=ODD_REPORT)
    if not run.files:
        return run
    try:
        split_files(artifacts.stream(_key(request, FILES)), run.files, spool)
    except (NotFoundError, SandboxError, OSError):
        logger.exception("files not taken", extra={"call_id": request.exec_id})
        return replace(run, error=run.error or "collect_failed", message=run.message or NO_FILES, files=())
    return run


def _key(request: ExecRequest, name: str) -> str:
    return exec_key(request.lane, request.turn, request.exec_id, name)


def _find(artifacts: Artifacts, key: str) -> bytes | None:
    try:
        return artifacts.get(key)
    except NotFoundError:
        return None
