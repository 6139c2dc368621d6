"""Programs in a separate task: the handover to the task, and its cleanup.

    parcel.msgpack   put once beside the request: the log up to it, and rights to the objects of this run
    the secret       the location of the parcel, and the descriptors; read once by the task
    the row          says that a secret may exist, so that the sweeper finds it

Request and parcel are put before `started` is in the log, secret and row after it: a retried step hands over again,
and finds all of it.

Only the task reports its end to the state that waits for it. A task that died reports nothing, so `end_wait` ends
the wait instead; and the row leads to the remains of a lost run (a task, a secret, a row). Both have no effect if
there is nothing to do. Source: docs/concepts/execution.md#fargate.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from stepline.errors import SteplineError, ToolError
from stepline.log.bindings import Ports
from stepline.loop.attempt import Attempt
from stepline.loop.programs.make_outcome import (
    BYTES,
    FILES,
    JSON_MIME,
    RUN,
    STARTED,
    TASK_STOPPED_ERROR,
    trim_cause,
)
from stepline.metrics import HANDOVERS_STALE
from stepline.model.base import Value
from stepline.model.batch import encode_batch
from stepline.model.ids import utc
from stepline.model.path import exec_key
from stepline.model.program.execution import ExecRequest, RuntimeProfile
from stepline.model.program.handover import (
    COLLECT_S,
    PROVISION_S,
    RUN_MAX_S,
    SECRET_MAX_BYTES,
    TASK_REFUSED,
    TOKEN_VARIABLE,
    UNSTARTED,
    Handover,
    ObjectGrant,
    Parcel,
    TaskLaunch,
    run_ref,
)
from stepline.model.program.running_log import log_key
from stepline.model.step import Step
from stepline.ports.task import Stale
from stepline.programs.bundle_files import read_bundle_files

if TYPE_CHECKING:
    from stepline.loop.agent import Execution
    from stepline.timeline.fold import Timeline

logger = logging.getLogger(__name__)

PARCEL: Final = "parcel.msgpack"
READS_MAX: Final = 500
"""The most artifacts of the conversation that the tools of a run may read, besides the files of its workspace."""
WAIT_S: Final = PROVISION_S + RUN_MAX_S + COLLECT_S
"""Maximum wait for a task."""
GRANT_S: Final = 2 * WAIT_S
"""Rights outlast the wait, because an execution that takes the run over hands over the same parcel meanwhile."""

_NEEDED: Final = ("cluster", "task_definition", "container_name", "subnets")
NO_PLACE: Final = "This deployment cannot run programs with the profile that was chosen."


def check_profile(execution: Execution) -> None:
    """Refuse a profile that this deployment cannot run.

    Raises ToolError: `backend_unavailable`; `fargate_config_missing`, naming the missing fields.
    """
    profile = execution.profile
    if profile.placement not in execution.places:
        raise ToolError(NO_PLACE, code="backend_unavailable")
    missing = [name for name in _NEEDED if not getattr(profile.task, name)]
    if profile.placement == "remote" and missing:
        raise ToolError(
            f"programs cannot be started here: the deployment does not say {', '.join(missing)}",
            code="fargate_config_missing",
            missing=missing,
        )


def check_handover(attempt: Attempt, request: ExecRequest) -> None:
    """Refuse a run whose secret would be too large, before anything is written.

    Raises ToolError `payload_too_large`.
    """
    size_bytes = len(_render_handover(attempt, request).encode())
    if size_bytes > SECRET_MAX_BYTES:
        raise ToolError(
            f"what the task needs takes {size_bytes} bytes, and a secret holds {SECRET_MAX_BYTES}: the descriptors are too "
            "large for a task",
            code="payload_too_large",
        )


def put_parcel(ports: Ports, timeline: Timeline, request: ExecRequest) -> None:
    """Put the task's parcel, unless it exists."""
    lane, turn, call = request.lane, request.turn, request.exec_id
    timeline = timeline.whole()  # a task cannot read the log, so it gets all of it

    def write(name: str, mime: str) -> ObjectGrant:
        return ports.grants.write(exec_key(lane, turn, call, name), mime=mime, ttl_s=GRANT_S)

    parcel = Parcel(
        request=request,
        batches=tuple(encode_batch(batch) for batch in timeline.since(0, request.n)),
        started=write(STARTED, JSON_MIME),
        run=write(RUN, JSON_MIME),
        files=write(FILES, BYTES),
        log=ports.grants.rewrite(log_key(lane, turn, call), mime=JSON_MIME, ttl_s=GRANT_S),
        reads={key: ports.grants.read(key, ttl_s=GRANT_S) for key in readable_keys(timeline, request)},
        bundle=dict(read_bundle_files(request.bundle)),
    )
    ports.artifacts.put(exec_key(lane, turn, call, PARCEL), msgspec.msgpack.encode(parcel), mime=BYTES)


def rights_last(ports: Ports, request: ExecRequest) -> bool:
    """Return True if the parcel's rights, which were granted after the request was made, outlast another wait."""
    made = datetime.fromisoformat(request.at)
    return ports.clock.now() - made <= timedelta(seconds=GRANT_S - WAIT_S)


def readable_keys(timeline: Timeline, request: ExecRequest) -> tuple[str, ...]:
    """Return the keys a run may read: its files, then the log's bodies, newest first, up to `READS_MAX`."""
    files = dict.fromkeys(file.key for file in request.files)
    named = dict.fromkeys(key for key in _named_keys(timeline) if key not in files)
    return (*files, *list(named)[:READS_MAX])


def launch_task(attempt: Attempt, request: ExecRequest) -> Step:
    """Hand the run over and return the step that starts its task. Raises DependencyError."""
    lane, task = request.lane, request.profile.task
    ref = run_ref(lane, request.turn, request.exec_id)
    secret = attempt.ports.tasks.hand_over(
        ref,
        _render_handover(attempt, request),
        cluster=task.cluster,
        deadline=utc(attempt.ports.clock.now() + timedelta(seconds=WAIT_S)),
    )
    launch = TaskLaunch(
        ref=ref,
        client_token=f"{ref}-{attempt.step.epoch}",
        secret=secret,
        cluster=task.cluster,
        task_definition=task.task_definition,
        container_name=task.container_name,
        subnets=task.subnets,
        security_groups=task.security_groups,
        assign_public_ip=task.assign_public_ip,
        platform_version=task.platform_version,
    )
    return replace(attempt.step, route="execute_task", attempt=0, error=None, launch=launch)


def start_task(ports: Ports, step: Step, token: str) -> None:
    """Start the task that `step.launch` names, for the state that waits with `token`.

    If no task is started, end the wait with an error; the state tries again if the error is transient.
    """
    assert step.launch is not None
    try:
        ports.tasks.start(step.launch, token, step.attempt)
    except SteplineError as error:
        logger.warning("task not started", extra={"ref": step.launch.ref, "code": error.reason})
        name = UNSTARTED if error.retryable else TASK_REFUSED
        ports.tasks.fail(token, name, trim_cause(str(error)))


def give_back(ports: Ports, request: ExecRequest, *, reported: bool) -> None:
    """Remove the handover of a settled run; if that fails, the sweeper does it.

    A run without a report may have a task that still runs: its row remains, so that the sweeper stops it.
    """
    ref = run_ref(request.lane, request.turn, request.exec_id)
    try:
        (ports.tasks.take_back if reported else ports.tasks.give_up)(ref)
    except SteplineError:
        logger.exception("handover not taken back", extra={"ref": ref})


def deadline_s(profile: RuntimeProfile, timeout_s: int, *, collect_s: int) -> int:
    """Return the seconds from a program's launch to its latest possible end."""
    return PROVISION_S + timeout_s + COLLECT_S if profile.placement == "remote" else timeout_s + collect_s


def _render_handover(attempt: Attempt, request: ExecRequest) -> str:
    execution = attempt.agent.execution
    key = exec_key(request.lane, request.turn, request.exec_id, PARCEL)
    handover = Handover(
        parcel=attempt.ports.grants.read(key, ttl_s=GRANT_S),
        descriptors=dict(execution.descriptors()) if execution else {},
        settings={**execution.settings, **execution.secrets()} if execution else {},
    )
    return msgspec.json.encode(handover).decode()


def _named_keys(timeline: Timeline) -> Iterator[str]:
    for turn in reversed(timeline.turns):
        for block in reversed(timeline.turn_blocks(turn)):
            if block.body is not None:
                yield block.body.key


NOT_NEEDED: Final = "no state waits for this run any more"


class StoppedTask(Value):
    """A stopped task: its name, and the reason of the stop. `variables` may be incomplete."""

    task: str
    cluster: str
    reason: str
    variables: dict[str, str] = msgspec.field(default_factory=dict)


def end_wait(ports: Ports, stopped: StoppedTask) -> bool:
    """End the state that waits for a stopped task; False if no state waits any more.

    Raises DependencyError.
    """
    token = stopped.variables.get(TOKEN_VARIABLE)
    if not token:
        token = ports.tasks.overrides(stopped.task, stopped.cluster).get(TOKEN_VARIABLE)
    if not token or not ports.tasks.fail(token, TASK_STOPPED_ERROR, trim_cause(stopped.reason)):
        return False
    logger.warning("task stopped under its run", extra={"reason": trim_cause(stopped.reason)})
    return True


def sweep_tasks(ports: Ports) -> dict[str, int]:
    """Clean up every overdue handover; return the number of handovers by result.

    A handover that cannot be cleaned up now is counted as `tasks_failed` and does not block the ones after it.
    """
    before = utc(ports.clock.now())
    return dict(Counter(_try_end(ports, stale) for stale in ports.tasks.stale(before=before)))


def _try_end(ports: Ports, stale: Stale) -> str:
    try:
        stopped = ports.tasks.stop(stale.ref, stale.cluster, NOT_NEEDED)
        ports.tasks.take_back(stale.ref)
    except SteplineError as error:
        logger.exception("handover not swept", extra={"ref": stale.ref, "code": error.reason})
        return "tasks_failed"
    ports.meter.count(HANDOVERS_STALE)
    logger.warning("handover swept", extra={"ref": stale.ref, "tasks": stopped})
    return "tasks_swept"
