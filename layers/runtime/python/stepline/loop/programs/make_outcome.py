"""The outcome of a run: its three objects, and how they become an envelope in every placement.

    started.json   the claim on the run, or its denial; put once, and only its owner runs the program
    run.json       a task's report of its run, with the bytes of its files in `files.bin`
    result.json    the outcome of a run; the only authoritative one

A run beside the functions goes from its backend's report to `result.json` in one step. A run in a task cannot
validate itself: the step that collects it validates the report with the same function.

For a run without an outcome, a pure function explains to the model the error of the state that waited for it; only
`started.json` shows whether the program began.
Source: docs/concepts/execution.md#one-run.
"""

from __future__ import annotations

import logging
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stepline.errors import NotFoundError, SandboxError
from stepline.loop.settle_action import MAYBE
from stepline.model.base import Value
from stepline.model.ids import Lane
from stepline.model.path import exec_key
from stepline.model.program.execution import ExecRequest, Run
from stepline.model.program.handover import STEERED, TASK_REFUSED, UNSTARTED
from stepline.ports.artifacts import Artifacts
from stepline.programs.envelope import RUN_CANCELLED, lost_envelope, make_envelope, output_bodies
from stepline.programs.outcome import Envelope
from stepline.programs.packed_files import split_files

logger = logging.getLogger(__name__)


class _Marker(Value):
    by: str


REQUEST, STARTED, RESULT = "request.json", "started.json", "result.json"
RUN, FILES = "run.json", "files.bin"
JSON_MIME: Final = "application/json"
BYTES: Final = "application/octet-stream"

NOBODY: Final = "nobody"
"""The owner in `started.json` of a run that was denied before it was claimed."""

ENVIRONMENT_FAILED: Final = (
    "The execution environment failed before it could report. Ask for the run again once."
)
NO_FILES: Final = "the task reported its run, and the files that belong to it could not be taken over"
ODD_REPORT: Final = "the task's report cannot be read"


def claim_run(artifacts: Artifacts, lane: Lane, turn: str, call: str, by: str) -> bool:
    """Claim a run, or the denial of it, for the owner `by`; return True if this caller got the claim."""
    return artifacts.put(exec_key(lane, turn, call, STARTED), msgspec.json.encode({"by": by}), mime=JSON_MIME)


def deny_run(artifacts: Artifacts, request: ExecRequest) -> bool:
    """Prevent a program that has not begun from ever running; False if its run was claimed already."""
    if claim_run(artifacts, request.lane, request.turn, request.exec_id, NOBODY):
        return True
    return taken_by(artifacts, request) == NOBODY


def taken_by(artifacts: Artifacts, request: ExecRequest) -> str:
    """Return the owner of the claim on a run: "" if it is unclaimed, `NOBODY` if it was denied."""
    found = _find(artifacts, _key(request, STARTED))
    return msgspec.json.decode(found, type=_Marker).by if found is not None else ""


def keep_request(artifacts: Artifacts, request: ExecRequest) -> ExecRequest:
    """Put the request of a run and return the stored one: the first put wins."""
    if artifacts.put(_key(request, REQUEST), msgspec.json.encode(request), mime=JSON_MIME):
        return request
    return load_request(artifacts, request.lane, request.turn, request.exec_id)


def load_request(artifacts: Artifacts, lane: Lane, turn: str, call: str) -> ExecRequest:
    """Return the request of a run. Raises NotFoundError, DependencyError."""
    return msgspec.json.decode(artifacts.get(exec_key(lane, turn, call, REQUEST)), type=ExecRequest)


def store_result(artifacts: Artifacts, request: ExecRequest, envelope: Envelope) -> None:
    """Put the result of a run; the first put wins."""
    artifacts.put(_key(request, RESULT), msgspec.json.encode(envelope), mime=JSON_MIME)


def conclude(artifacts: Artifacts, request: ExecRequest, run: Run, spool: Path) -> Envelope:
    """Validate a run's outputs, put the valid bodies, then the envelope, and return it.

    `spool` holds the bytes of `run.files`, each named by its sha256. Raises DependencyError.
    """
    from stepline.programs.outputs import validate_outputs  # noqa: PLC0415 - archives: 11 ms of CPU, once a program has run

    try:
        verdicts = validate_outputs(request, run, spool)
    except Exception:  # the envelope records every end of a run, so that the model sees this one too
        logger.exception("outputs not judged", extra={"call_id": request.exec_id})
        envelope = lost_envelope(request, "sandbox_execution_failed", ENVIRONMENT_FAILED)
    else:
        for path, body in output_bodies(request, verdicts, spool):
            artifacts.put(body.key, path.read_bytes(), mime=body.mime)
        envelope = make_envelope(request, run, verdicts)
    store_result(artifacts, request, envelope)
    return envelope


def find_outcome(artifacts: Artifacts, request: ExecRequest) -> Envelope | None:
    """Return a run's outcome, validating a task's report if needed; None if there is neither.

    Raises DependencyError.
    """
    found = _find(artifacts, _key(request, RESULT))
    if found is not None:
        return msgspec.json.decode(found, type=Envelope)
    if request.profile.placement != "remote":
        return None
    report = _find(artifacts, _key(request, RUN))
    if report is None:
        return None
    with tempfile.TemporaryDirectory(prefix=f"stepline-spool-{os.getpid()}-") as folder:
        return conclude(artifacts, request, _unpack(artifacts, request, report, Path(folder)), Path(folder))


def _unpack(artifacts: Artifacts, request: ExecRequest, report: bytes, spool: Path) -> Run:
    """Return a task's report with the bytes of its files in `spool`, or with an error if they are missing."""
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


UNVERIFIED, NOT_STARTED, RUN_FAILED = "unverified", "sandbox_not_started", "fargate_run_failed"
TASK_STOPPED_ERROR: Final = "TaskStopped"
"""The error by which the sweeper ends a state whose task has stopped."""

NOT_RUN: Final = (
    "The program did not start, so nothing happened. Ask for it again once; if that fails too, do without it."
)
NO_SIGN: Final = (
    "The task that should have run the program was not provisioned in time, so nothing happened. Ask for it again "
    "once; if that fails too, do without it."
)
TIMED_OUT: Final = (
    "The run was cut off from outside before it could report. Some of its effects may have happened."
)
NOT_WANTED: Final = "The user steered before the program began, so nothing happened, and it will not be run."
CUT_SHORT: Final = (
    "The user steered while the program ran, and it was ended before it could report. Some of its effects may have "
    "happened: check before you ask for it again."
)
CAUSE_CHARS: Final = 300

_OF_LAUNCH: Final = ("Ecs.", "ECS.", "AmazonECS.")
"""Prefixes of RunTask errors of older state machines, which started tasks themselves, until their turns have ended."""

_REQUEST: Final = re.compile(r"\((?:Service|SDK)\b.*", re.DOTALL)
_NAMES: Final = re.compile(
    r"arn:\S+|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{17,}\b|\b\d{12}\b(?:\.dkr\.\S+)?"
)


def explain_loss(error: Mapping[str, Any] | None, *, begun: bool, steered: bool = False) -> tuple[str, str]:
    """Return the code and message of a run without an outcome; `steered`: the log has a steer to heed."""
    name, cause = str((error or {}).get("Error", "")), trim_cause(str((error or {}).get("Cause", "")))
    if begun:
        return _explain_begun(name)
    if steered or name == STEERED:
        return RUN_CANCELLED, NOT_WANTED
    if name in (UNSTARTED, TASK_REFUSED) or name.startswith(_OF_LAUNCH):
        return RUN_FAILED, f"No task could be started for the program: {cause or name}. Nothing happened."
    if name == "States.HeartbeatTimeout":
        return NOT_STARTED, NO_SIGN
    if name == TASK_STOPPED_ERROR and cause:
        return NOT_STARTED, f"The task ended before the program began: {cause}. {NOT_RUN}"
    return NOT_STARTED, NOT_RUN


def _explain_begun(name: str) -> tuple[str, str]:
    if name == STEERED:
        return UNVERIFIED, CUT_SHORT
    return ("timeout", TIMED_OUT) if name == "States.Timeout" else (UNVERIFIED, MAYBE)


def trim_cause(cause: str) -> str:
    """Return the first line of a cause, without account, resource and request ids."""
    line = _REQUEST.sub("", cause).strip().partition("\n")[0]
    return _NAMES.sub("…", line)[:CAUSE_CHARS].rstrip(" .")
