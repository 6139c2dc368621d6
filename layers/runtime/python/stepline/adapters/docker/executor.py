"""Programs in Docker: a supervisor's container next to the executor's, or both in one.

The two start at the same time. The supervisor sets up the workspace, a volume in memory that both mount, while the
executor's interpreter starts and waits for its payload; the program starts when both are ready. Exit code and output
come from the executor's own command, everything else from the supervisor. The run's guard, a shell that waits at the
end of a pipe, removes everything when the answer is complete or the pipe closes because the caller was killed. A later
run removes leftovers, by the time in their label.

A run's result is made from an exit code, a report and the output of the `docker` command. A command's exit
code is the program's if the jail reported itself; otherwise the program never ran, and the code belongs to
the jail, the command or the daemon.

Source: docs/concepts/execution.md#docker.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import re
import secrets
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from stepline.adapters.docker.command_line import EXPIRES, ContainerPlan, plan_run
from stepline.adapters.docker.containers import (
    COMMAND_S,
    ContainerSession,
    EndedSide,
    stop,
    was_out_of_memory,
)
from stepline.adapters.docker.payload import render_container_payload
from stepline.adapters.docker.supervisor_protocol import (
    MESSAGE_CHUNK_BYTES,
    Blob,
    CancelProgram,
    Collect,
    Ended,
    Failed,
    Fetch,
    Launch,
    Missing,
    Printed,
    Ready,
    Report,
    Violation,
    blob_bytes,
)
from stepline.adapters.sandbox.cancel import check_wanted
from stepline.adapters.sandbox.exit_code import (
    CANCELLED,
    FULL,
    REFUSED,
    SANDBOX_LOST,
    STOP_REASONS,
    TASK_STOPPED,
    TIMED_OUT,
    render_exit,
    render_stop,
)
from stepline.adapters.sandbox.live_log import LiveLog
from stepline.adapters.sandbox.quota import FILE_SIZE_LIMIT, WORKSPACE_SIZE_LIMIT
from stepline.adapters.sandbox.tail import Tail
from stepline.errors import DependencyError, NotFoundError, SandboxError
from stepline.model.batch import encode_batch
from stepline.model.program.execution import ExecRequest, Isolation, Run, RunLimits
from stepline.ports.executor import Job
from stepline.programs.bundle_files import read_bundle_files

logger = logging.getLogger(__name__)

SWEEP_EVERY_S: Final = 60.0

# Empty standard input means that the caller was killed, perhaps while the daemon was still creating objects. A volume
# is free a moment after its last container is removed.
_GUARD: Final = """
docker=$1 volume=$2
shift 2
read -r word || {
    "$docker" rm --force --volumes "$@"
    sleep 5
}
"$docker" rm --force --volumes "$@"
[ -n "$volume" ] || exit 0
for pause in 0.1 0.3 1 3 10; do
    "$docker" volume rm "$volume" && break
    "$docker" volume inspect "$volume" || break
    sleep $pause
done
"""
_SWEEP: Final = f"""
docker=$1
now=$(date +%s)
overdue() {{ while read -r name expires; do [ "${{expires:-$now}}" -lt "$now" ] && echo "$name"; done; }}
label='{{{{.Label "{EXPIRES}"}}}}'
for name in $("$docker" ps --all --filter label={EXPIRES} --format "{{{{.Names}}}} $label" | overdue); do
    "$docker" rm --force --volumes "$name"
done
for name in $("$docker" volume ls --filter label={EXPIRES} --format "{{{{.Name}}}} $label" | overdue); do
    "$docker" volume rm "$name"
done
"""


class Cleaner:
    """Removes the containers and volumes of runs."""

    def __init__(self, docker: str) -> None:
        self._docker = docker
        self._leaving: list[subprocess.Popen[bytes]] = []
        self._swept_s = -SWEEP_EVERY_S

    def guard(self, plan: ContainerPlan) -> subprocess.Popen[bytes]:
        """Start guarding a run's objects, until `clean` or the end of this process."""
        names = [name for name in (plan.executor_name, plan.supervisor_name) if name]
        return self._begin(_GUARD, plan.volume, *names, stdin=subprocess.PIPE)

    def clean(self, guard: subprocess.Popen[bytes], children: Iterable[subprocess.Popen[bytes]]) -> None:
        """Have a run's guard remove everything, and from time to time other leftovers.

        `children` are the run's commands.
        """
        assert guard.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the guard was killed; a later run removes its objects
            guard.stdin.write(b"over\n")
        guard.stdin.close()
        self._leaving = [child for child in self._leaving if child.poll() is None]
        self._leaving += children
        if time.monotonic() - self._swept_s >= SWEEP_EVERY_S:
            self._swept_s = time.monotonic()
            self.sweep()

    def sweep(self) -> None:
        """Start removing our expired containers and volumes."""
        self._begin(_SWEEP)

    def wait(self) -> None:
        """Return when everything is removed, or the daemon gave up."""
        for child in self._leaving:
            try:
                child.wait(COMMAND_S)
            except subprocess.TimeoutExpired:
                logger.warning("a command of docker does not end")
                child.kill()
                child.wait()
        self._leaving.clear()

    def _begin(
        self, script: str, *arguments: str, stdin: int = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(  # noqa: S603 - our own script and names
            ["/bin/sh", "-c", script, "sh", self._docker, *arguments],
            stdin=stdin,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
        self._leaving.append(child)
        return child


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


def _explain(gone: EndedSide, session: ContainerSession) -> SandboxError:
    """Return the reason that a run ended before its report."""
    if gone == "late":
        return SandboxError("the containers did not answer in time")
    end = render_exit(session.status(gone))
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


def judge_run(ended: Ended, report: Report, limits: RunLimits, *, runtime: str) -> Run:
    """Return the run's result; `runtime` is the output of its containers."""
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


def _fail_run(error: SandboxError, session: ContainerSession) -> Run:
    """Return the result of a run that failed or was not reported, with the output so far."""
    return Run(
        error=error.reason,
        message=str(error),
        returncode=FULL if error.reason == WORKSPACE_SIZE_LIMIT else None,
        program_log=session.program.text(),
        log_bytes=session.program.total_bytes,
        runtime_log=session.runtime.text(),
    )


def _name(ended: Ended, report: Report, limits: RunLimits) -> tuple[str, str]:
    """Return code and message for a program that ran."""
    if ended.error:
        return ended.error, _OUT_OF_MEMORY if ended.error == MEMORY else render_stop(ended.error, limits)
    exceeded = FILE_SIZE_LIMIT if ended.returncode == -signal.SIGXFSZ else report.exceeded
    if exceeded:
        return exceeded, render_stop(exceeded, limits)
    if ended.returncode:
        return "nonzero_exit", f"the program {render_exit(ended.returncode)}"
    return report.error, report.message


def _unbegun(ended: Ended) -> tuple[str, str]:
    """Return code and message for a program that the jail, the command or the daemon did not start."""
    if ended.error in (CANCELLED, TASK_STOPPED):
        return ended.error, f"the program did not begin: {STOP_REASONS[ended.error]}"
    error = "isolation_failed" if ended.returncode == REFUSED else "sandbox_execution_failed"
    said = _last(ended.log) or ("" if ended.returncode is None else render_exit(ended.returncode))
    return error, f"the program did not begin: {said or STOP_REASONS[SANDBOX_LOST]}"


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:500] if lines else ""


START_S: Final = 120.0
"""Time for both containers to start and for the inputs to be restored."""

COLLECT_S: Final = 120.0
KILL_S: Final = 15.0
"""Time for a killed container to end, and for a combined one to report after its program's deadline."""


@dataclass(frozen=True, kw_only=True)
class Launched:
    """The inputs of a run in addition to its job."""

    job: Job
    plan: ContainerPlan
    token: str
    log: LiveLog

    @property
    def request(self) -> ExecRequest:
        return self.job.request


class DockerExecutor:
    """Backend `docker`. `docker` is the command; it reads its own variables (DOCKER_HOST, DOCKER_CONTEXT, …)."""

    backend: str = "docker"

    def __init__(
        self,
        *,
        docker: str = "docker",
        descriptors: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Pass these descriptors, and these variables for tools, to every supervisor; programs see neither."""
        self._docker = docker
        self._descriptors = dict(descriptors or {})
        self._environment = dict(environment or {})
        self._cleaner = Cleaner(docker)

    def run(self, job: Job) -> Run:
        log = LiveLog(job.request, job.keep_log)
        try:
            check_wanted(job.cancel)
            plan = plan_run(job.request, now_s=time.time(), salt=secrets.token_hex(8))
            printed = Tail(job.request.limits.log_bytes, log.write)
            session = ContainerSession(self._docker, plan.supervisor, plan.executor, printed, job.serve)
        except SandboxError as error:
            return Run(error=error.reason, message=str(error))
        guard = self._cleaner.guard(plan)
        try:
            with log:
                launched = Launched(job=job, plan=plan, token=secrets.token_urlsafe(32), log=log)
                return self._run(launched, session)
        except SandboxError as error:
            return _fail_run(error, session)
        except msgspec.MsgspecError as error:
            return _fail_run(SandboxError(f"the supervisor spoke nonsense: {error}"), session)
        finally:
            session.hang_up()
            self._cleaner.clean(guard, session.children.values())

    def close(self) -> None:
        """Wait until all objects of runs are removed."""
        self._cleaner.wait()

    def _run(self, run: Launched, session: ContainerSession) -> Run:
        request = run.request
        session.send(
            Launch(
                request=request,
                strategy=request.profile.container_strategy,
                token=run.token,
                batches=tuple(map(encode_batch, run.job.batches)),
                bundle=dict(read_bundle_files(request.bundle)),
                descriptors=self._descriptors,
                environment=self._environment,
            )
        )
        self._prepare(run, session)
        run.log.begin()
        if run.plan.executor:
            session.feed(render_container_payload(request, run.token, "split"))
            ended = self._watch(run, session)
            run.log.end()
            session.send(Collect())
            ended = replace(ended, log=session.program.text(), log_bytes=session.program.total_bytes)
        else:
            ended = self._wait(run, session)
            run.log.end()
        report = self._collect(run, session)
        judged = judge_run(ended, report, request.limits, runtime=session.runtime.text())
        return replace(judged, began_at=run.log.began_at)

    def _prepare(self, run: Launched, session: ContainerSession) -> None:
        """Serve the supervisor's requests until the executor may start. Raises SandboxError, `cancelled` too."""
        deadline_s = time.monotonic() + START_S
        while True:
            check_wanted(run.job.cancel)
            match session.next(deadline_s, run.job.cancel):
                case Ready():
                    return
                case "cancelled":
                    continue
                case Fetch(key=key):
                    session.send(*_blobs(run.job, key))
                case "supervisor" | "executor" | "late" as gone:
                    raise _explain(gone, session)
                case other:
                    raise _out_of_turn(other)

    def _watch(self, run: Launched, session: ContainerSession) -> Ended:
        """Wait for the executor of a split run; stop it at its deadline, at a limit, or when cancelled."""
        started_s = time.monotonic()
        deadline_s = started_s + run.request.limits.timeout_s
        error = ""
        while True:
            match session.next(deadline_s, None if error else run.job.cancel):
                case "executor":
                    seconds, returncode = time.monotonic() - started_s, session.status("executor")
                    if returncode == KILLED and not error:
                        error = self._explain_kill(run)
                    return Ended(error=error, returncode=returncode, seconds=seconds)
                case "late" if error:
                    raise SandboxError("the executor's container does not end")
                case "late" | "cancelled" | Violation() as cause:
                    error = error or _reason(cause)
                    stop(self._docker, run.plan.executor_name)
                    deadline_s = time.monotonic() + KILL_S
                case "supervisor":
                    stop(self._docker, run.plan.executor_name)
                    raise _explain("supervisor", session)
                case other:
                    raise _out_of_turn(other)

    def _explain_kill(self, run: Launched) -> str:
        """Return the code for a program that another process killed; "" if the reason is unknown."""
        return MEMORY if was_out_of_memory(self._docker, run.plan.executor_name) else ""

    def _wait(self, run: Launched, session: ContainerSession) -> Ended:
        """Wait for the program of a combined run, which its supervisor monitors."""
        deadline_s = time.monotonic() + run.request.limits.timeout_s + KILL_S
        cancelled = False
        while True:
            match session.next(deadline_s, None if cancelled else run.job.cancel):
                case Printed(data=data):
                    session.program.write(data)
                case "cancelled":
                    session.send(CancelProgram())
                    cancelled, deadline_s = True, time.monotonic() + KILL_S
                case Ended() as ended:
                    return ended
                case "supervisor" | "executor" | "late" as gone:
                    raise _explain(gone, session)
                case other:
                    raise _out_of_turn(other)

    def _collect(self, run: Launched, session: ContainerSession) -> Report:
        """Receive the report, and the bytes of its files into the spool."""
        deadline_s = time.monotonic() + COLLECT_S
        while True:
            match session.next(deadline_s):
                case Report() as report:
                    for sha256, size_bytes in blob_bytes(report.files).items():
                        _take(session, run.job.spool / sha256, size_bytes, deadline_s)
                    return report
                case Violation():
                    pass  # found at the moment the program ended
                case "supervisor" | "executor" | "late" as gone:
                    raise _explain(gone, session)
                case other:
                    raise _out_of_turn(other)


def _reason(cause: Literal["late", "cancelled"] | Violation) -> str:
    """Return the code for the reason of a stop."""
    if isinstance(cause, Violation):
        return cause.code
    return CANCELLED if cause == "cancelled" else "timeout"


def _blobs(job: Job, key: str) -> list[Blob | Missing]:
    try:
        body = job.fetch(key)
    except (NotFoundError, DependencyError) as error:
        return [Missing(message=str(error))]
    starts = range(0, len(body), MESSAGE_CHUNK_BYTES) or [0]
    return [
        Blob(data=body[start : start + MESSAGE_CHUNK_BYTES], last=start + MESSAGE_CHUNK_BYTES >= len(body))
        for start in starts
    ]


def _take(session: ContainerSession, path: Path, size_bytes: int, deadline_s: float) -> None:
    """Receive bytes and store them under their hash. Raises SandboxError `collect_failed`."""
    sha256, left = hashlib.sha256(), size_bytes
    with path.open("xb") as file:
        while True:
            match session.next(deadline_s):
                case Blob(data=data, last=last):
                    left -= len(data)
                    sha256.update(data)
                    file.write(data)
                    if last or left < 0:
                        break
                case "supervisor" | "executor" | "late" as gone:
                    raise _explain(gone, session)
                case other:
                    raise _out_of_turn(other)
    if left or sha256.hexdigest() != path.name:
        raise SandboxError("a file came with other bytes than its hash says", code="collect_failed")


def _out_of_turn(message: object) -> SandboxError:
    if isinstance(message, Failed):
        return SandboxError(message.message, code=message.code)
    return SandboxError(f"the supervisor said {type(message).__name__} out of turn")
