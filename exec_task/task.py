"""The supervisor of a task: takes over one run, runs it, stores its result, and reports it.

    check               if its state no longer waits, the task leaves the run to another task
    take the handover   a secret with the parcel's location and the descriptors, deleted once it is read
    get the parcel      the request, the log, the bundle's files, and grants for the objects of this run only
    claim               put the marker that the run is claimed; if it exists, do nothing
    run                 like any supervisor
    store and report    the files, then the run, then the message that both are stored

Any failure after the claim becomes a Run. A result that cannot be stored is not reported: the waiting state then
gets no more heartbeats, and times out.

Source: docs/concepts/execution.md#fargate.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import secrets
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn

import msgspec
from msgspec.structs import replace

from exec_task.caller import HungUp
from exec_task.control import Control
from exec_task.heartbeat import Heartbeat
from exec_task.host import build_host, shut_process
from exec_task.workspace import SPOOL, Owner, Workspace
from stepline.adapters.descriptor_file import write_folder
from stepline.adapters.docker.executor import judge_run
from stepline.adapters.docker.payload import render_container_payload
from stepline.adapters.docker.supervisor_protocol import Ended
from stepline.adapters.http_artifacts import GrantedArtifacts
from stepline.adapters.sandbox.exit_code import FULL, SANDBOX_LOST
from stepline.adapters.sandbox.live_log import LiveLog
from stepline.adapters.sandbox.quota import WORKSPACE_SIZE_LIMIT as TOO_LARGE
from stepline.adapters.sandbox.tail import Tail
from stepline.bundle.descriptor_set import decode_payload
from stepline.errors import DependencyError, InputError, SandboxError, SteplineError
from stepline.model.program.execution import ContainerStrategy, ExecRequest, Run
from stepline.model.program.handover import (
    COLLECT_S,
    PROVISION_S,
    RUN_MAX_S,
    SECRET_VARIABLE,
    TOKEN_VARIABLE,
    Handover,
    Parcel,
)
from stepline.model.program.image import GID, PRIVATE, STRATEGY_VARIABLE, UID, WORKSPACE
from stepline.ports.signal import Cancel
from stepline.ports.task import GrantedObjects, TaskToken
from stepline.programs.host import ToolHost
from stepline.programs.packed_files import join_files

logger = logging.getLogger("stepline.task")

LOG_BYTES: Final = 64 * 1024
DONE, FAILED = 0, 1
_CLAIM: Final = b'{"by":"task"}'
UNSTORED: Final = "what the program left could not be stored"


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task and its environment.

    `log` has the end of our own log; `limit_s` ends the process after a number of seconds.
    """

    task_token: TaskToken
    objects: GrantedObjects
    heartbeat: Heartbeat
    token: str
    secret: str
    strategy: ContainerStrategy = "split"
    root: Path = WORKSPACE
    private: Path = PRIVATE
    owner: Owner | None = (UID, GID)
    log: Tail = field(default_factory=lambda: Tail(LOG_BYTES))
    limit_s: Callable[[int], None]


def main() -> NoReturn:
    """Run this container's task. Only our own log is printed; it holds no secret."""
    shut_process()
    log = Tail(LOG_BYTES)
    handlers = [logging.StreamHandler(sys.stderr), _TailHandler(log)]
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s", handlers=handlers)
    logging.getLogger("botocore").setLevel(logging.WARNING)
    task = make_task(dict(os.environ), log)  # noqa: TID251 - the edge: these names are not settings
    signal.signal(signal.SIGTERM, lambda *_: task.heartbeat.stop())
    with task.heartbeat:
        code = perform(task)
    logging.shutdown()
    os._exit(code)  # a thread of a tool may hang, and the result has been reported


def make_task(variables: Mapping[str, str], log: Tail) -> Task:
    """Return the task described by the variables of its container, with its adapters."""
    from stepline.adapters.aws.task_token import AwsTaskToken  # noqa: PLC0415 - tests pass their own
    from stepline.adapters.http_artifacts import HttpArtifacts  # noqa: PLC0415 - see above

    task_token, token = AwsTaskToken(), variables[TOKEN_VARIABLE]
    return Task(
        task_token=task_token,
        objects=HttpArtifacts(),
        heartbeat=Heartbeat(task_token, token),
        token=token,
        secret=variables[SECRET_VARIABLE],
        strategy="combined" if variables.get(STRATEGY_VARIABLE) == "combined" else "split",
        log=log,
        # A watchdog that works even if the interpreter hangs.
        limit_s=lambda seconds: faulthandler.dump_traceback_later(seconds, exit=True),
    )


def perform(task: Task) -> int:
    """Take over the run and complete it; return the exit code of the task."""
    task.limit_s(PROVISION_S + COLLECT_S)
    try:
        check_awaited(task)
        handover = msgspec.json.decode(task.task_token.take(task.secret), type=Handover)
        parcel = msgspec.msgpack.decode(task.objects.get(handover.parcel), type=Parcel)
        parcel = replace(parcel, request=bound_time(parcel.request))
        task.heartbeat.check()
        if not task.objects.put(parcel.started, _CLAIM):
            logger.info("another task has claimed the run")
            return DONE
        task.limit_s(PROVISION_S + parcel.request.limits.timeout_s + COLLECT_S)
        store_run(task, parcel, run_program(task, handover, parcel))
        task.task_token.end(task.token)
    except HungUp:
        logger.info("nothing is stored, because no state waits")
    except (SteplineError, msgspec.MsgspecError) as error:
        code = getattr(error, "reason", "unreadable")
        logger.error("the task cannot report: %s", code)  # noqa: TRY400 - a traceback would show its values
        return FAILED
    return DONE


def check_awaited(task: Task) -> None:
    """Check that the state still waits, as far as is known. Raises HungUp.

    A late task must not claim its successor's run.
    """
    try:
        awaited = task.task_token.beat(task.token)
    except DependencyError as error:
        logger.warning("no heartbeat: %s", error.reason)
        return
    if not awaited:
        raise HungUp


def bound_time(request: ExecRequest) -> ExecRequest:
    """Return the request with a program timeout that ends before the state's timeout."""
    limits = request.limits
    return replace(request, limits=replace(limits, timeout_s=min(limits.timeout_s, RUN_MAX_S)))


def run_program(task: Task, handover: Handover, parcel: Parcel) -> Run:
    """Run the program and collect its files; every failure is a Run too. Raises HungUp."""
    try:
        ended, began_at, workspace = _execute(task, handover, parcel)
        report = workspace.report()
    except SandboxError as error:
        code, message = error.reason, str(error)
    except HungUp:
        raise
    except Exception as error:
        logger.exception("the supervisor failed")
        code, message = SANDBOX_LOST, f"the supervisor failed: {type(error).__name__}"
    else:
        run = judge_run(ended, report, parcel.request.limits, runtime=task.log.text())
        return replace(run, began_at=began_at)
    returncode = FULL if code == TOO_LARGE else None
    return Run(error=code, message=message, returncode=returncode, runtime_log=task.log.text())


def store_run(task: Task, parcel: Parcel, run: Run) -> None:
    """Store the files of a run, then the run, or the run alone if its files cannot be stored.

    Raises HungUp, DependencyError.
    """
    if task.heartbeat.deserted:
        raise HungUp
    if run.files:
        joined = task.private / "files.bin"
        try:
            join_files(run.files, task.private / SPOOL, joined)
            task.objects.put(parcel.files, joined)
        except (SteplineError, OSError) as error:
            logger.warning("files not stored: %s", type(error).__name__)
            run = replace(run, error=run.error or "collect_failed", message=run.message or UNSTORED, files=())
    task.objects.put(parcel.run, msgspec.json.encode(run))


def _execute(task: Task, handover: Handover, parcel: Parcel) -> tuple[Ended, str, Workspace]:
    """Run the program to its end; return the end, the time it began, and the workspace with its files.

    Raises SandboxError, HungUp.
    """
    request, token, heartbeat = parcel.request, secrets.token_urlsafe(32), task.heartbeat
    variables = handover.settings | _write_descriptors(handover, task.private / "descriptors")
    artifacts = GrantedArtifacts(parcel.reads, task.objects)

    def fetch(key: str) -> bytes:
        heartbeat.check()
        return artifacts.get(key)

    def make_host(cancel: Cancel) -> ToolHost:
        return build_host(
            request, parcel.batches, variables, task.private, cancel=cancel, artifacts=artifacts
        )

    workspace = Workspace(
        request,
        token,
        root=task.root,
        private=task.private,
        owner=task.owner,
        fetch=fetch,
        make_host=make_host,
        bundle=parcel.bundle,
        shared_disk=True,
    )
    heartbeat.check()
    payload = render_container_payload(request, token, task.strategy, root=task.root, backend="fargate")
    with LiveLog(request, lambda copy: _keep_log(task, parcel, copy)) as log:
        if task.strategy == "combined":
            from exec_task.program import run_here  # noqa: PLC0415 - only in a combined container

            with workspace:
                log.begin()
                ended = run_here(heartbeat, workspace, payload, log.write)
        else:
            ended = _run_beside(task, workspace, payload, log)
        return ended, log.began_at, workspace


def _keep_log(task: Task, parcel: Parcel, copy: bytes) -> None:
    """Store a copy of the log, if this run may: the parcel of an earlier release has no grant for it."""
    if parcel.log:
        task.objects.put(parcel.log, copy)


def _run_beside(task: Task, workspace: Workspace, payload: bytes, log: LiveLog) -> Ended:
    """Run the program in the task's other container."""
    owner, limits = task.owner, workspace.request.limits
    control = Control(
        task.root / "socket/control.sock",
        uid=owner[0] if owner else os.geteuid(),
        owner=(0, owner[1]) if owner else None,
        log=Tail(limits.log_bytes, log.write),
    )
    with control:
        if word := control.accept(task.heartbeat):
            return Ended(error=word, returncode=None, seconds=0.0)
        with workspace:
            log.begin()
            control.start(payload)
            return control.watch(
                task.heartbeat,
                timeout_s=limits.timeout_s,
                interval_s=limits.monitor_interval_s,
                check=workspace.check,
            )


def _write_descriptors(handover: Handover, folder: Path) -> dict[str, str]:
    try:
        texts = decode_payload(handover.descriptors)
    except InputError as error:
        raise SandboxError(str(error), code="payload_unavailable") from error
    return write_folder(texts, folder)


class _TailHandler(logging.Handler):
    """Stores the end of the log, for the report of the run."""

    def __init__(self, tail: Tail) -> None:
        super().__init__()
        self._tail = tail

    def emit(self, record: logging.LogRecord) -> None:
        self._tail.write(f"{self.format(record)}\n".encode(errors="backslashreplace"))


if __name__ == "__main__":
    main()
