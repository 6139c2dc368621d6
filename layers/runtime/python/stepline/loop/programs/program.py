"""A program in the loop: requested, launched once, settled by its run's outcome.

    request.json   the request, put before the batch that names it
    started.json   the claim on the run, or its denial; put once, and only its owner runs the program
    result.json    the outcome; the only authoritative one

The three are stored under `exec/…/<call>/` and are written once. A retried step, a takeover and a late runner
therefore compete for `started.json`: a program runs once, or the log shows that it did not. Nothing is launched
after a steer.
Source: docs/concepts/execution.md#one-run.
"""

from __future__ import annotations

import logging
import secrets
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from msgspec.structs import replace

from stepline.errors import PathError, ToolError
from stepline.log.transition import epoch_ms
from stepline.loop.approvals.park import runs_unasked
from stepline.loop.attempt import Attempt
from stepline.loop.programs.make_outcome import (
    UNVERIFIED,
    deny_run,
    explain_loss,
    find_outcome,
    keep_request,
    load_request,
    taken_by,
)
from stepline.loop.programs.remote import (
    NO_PLACE,
    check_handover,
    check_profile,
    deadline_s,
    give_back,
    launch_task,
    put_parcel,
    rights_last,
)
from stepline.loop.programs.tool_program import CALL_S, call_output, pictures_of, plan_tool_program
from stepline.loop.settle_action import record, result_of, start
from stepline.loop.steer import steer_in, steer_of
from stepline.loop.tracing.traced_call import trace_program
from stepline.metrics import (
    EXEC_SECONDS,
    EXEC_SECONDS_SPARED,
    PROGRAMS_CANCELLED,
    PROGRAMS_FAILED,
    PROGRAMS_LOST,
    PROGRAMS_RUN,
)
from stepline.model.batch import Batch, State
from stepline.model.decision import Action
from stepline.model.entry import Resulted
from stepline.model.ids import utc
from stepline.model.program.execution import ExecRequest, RuntimeProfile, ServedGrant
from stepline.model.program.handover import RUN_MAX_S
from stepline.model.step import Step
from stepline.model.usage import ModelCall, sum_usages
from stepline.programs.blocks import run_blocks, run_sources
from stepline.programs.bundle_files import read_bundle_files
from stepline.programs.code import check_program, notice_code
from stepline.programs.contract import normalise_contract
from stepline.programs.envelope import RUN_CANCELLED, is_lost, lost_envelope
from stepline.programs.outcome import Envelope, split_time
from stepline.timeline.fold import Timeline
from stepline.timeline.workspace import fold_workspace
from stepline.tools.context import ToolContext, ToolOutput
from stepline.tools.registry import bind_references, check_call_params, refuse_call

logger = logging.getLogger(__name__)

COLLECT_S = 120
"""Seconds that a run beside the functions may take in addition to its program's: to restore, collect and store."""

TASK_LEAST_MS = 60_000

_NO_TOOLS: tuple[str, ...] = ()

Status: TypeAlias = Literal["ok", "error", "unverified"]


def advance_program(attempt: Attempt, timeline: Timeline, index: int, action: Action) -> Batch | Step | None:
    """Launch the action's program, or put its result.

    Return the step that runs it, the batch of its result, or None if the round continued without this attempt.
    """
    tail = timeline.tail
    if timeline.state.running == action.call_id:
        return _go_on(attempt, timeline, index, action)
    if attempt.step.route == "act" and attempt.agent.execution is not None:
        # Only Prepare leads to the states that run programs; the next Decide finds nothing to do and routes there.
        return replace(attempt.step, route=timeline.state.route(), attempt=0, error=None)
    try:
        request = replace(_plan(attempt, timeline, action), index=index)
        if request.profile.placement == "remote":
            check_handover(attempt, request)
    except (ToolError, PathError) as refused:
        return record(attempt, tail, index, _refusal(attempt, timeline, action, refused))
    request = keep_request(attempt.ports.artifacts, request)
    if request.profile.placement == "remote":
        put_parcel(attempt.ports, timeline, request)
    lasts_s = deadline_s(request.profile, request.limits.timeout_s, collect_s=COLLECT_S)
    ends = attempt.ports.clock.now() + timedelta(seconds=lasts_s)
    if start(attempt, tail, index, action, deadline=utc(ends)) is None:
        return None
    return _launch(attempt, timeline, request)


def _launch(attempt: Attempt, timeline: Timeline, request: ExecRequest) -> Step | None:
    """Return the step that runs the program; None if the user has steered, and the next read of the log settles it.

    A function that runs the program watches the log itself. A task is interrupted by the process that admits the
    steer, which may have looked for it too early. A task never gets the old request of an execution that died here.
    """
    if request.profile.placement != "remote":
        return replace(attempt.step, route="execute", attempt=0, error=None)
    if not rights_last(attempt.ports, request):
        return None
    launched = launch_task(attempt, request)
    since = attempt.journal.since(timeline.n, consistent=True)
    return None if steer_in(since, timeline.state.steered) else launched


def _plan(attempt: Attempt, timeline: Timeline, action: Action) -> ExecRequest:
    """Build the run's request. Raises ToolError, PathError for mistakes that the model must see."""
    execution = attempt.agent.execution
    if execution is None:
        raise ToolError("this deployment runs no programs", code="execution_unavailable")
    check_profile(execution)
    read_bundle_files(execution.bundle)  # refuses one that is too large
    turn, limits = attempt.step.turn, execution.limits
    files = fold_workspace(timeline, turn)
    tool = attempt.agent.registry.find(action.tool_id)
    asked_s: int | None = CALL_S
    if tool.spec.isolated:
        params = bind_references(tool.spec, action, attempt.ports.artifacts)
        check_call_params(tool.spec, params)
        context = attempt.context(timeline, action, attempt.now())
        code, contract = plan_tool_program(tool, params, context)
        files = pictures_of(files, turn)
        tools, served = _NO_TOOLS, ServedGrant()
    else:
        check_call_params(tool.spec, action.params)
        code, asked_s = action.code or "", action.params.get("timeout_s")
        # A running program cannot wait days for a person, so only the agent itself may make such a call.
        tools = tuple(tool for tool in execution.tools if runs_unasked(attempt.agent, timeline, tool))
        served = _plan_served(attempt, timeline, execution.served)
        contract = normalise_contract(action.params, turn=turn).files
        check_program(code, turn=turn, present={file.path for file in files})
    most_s = most_seconds(execution.profile, limits.timeout_s)
    return ExecRequest(
        exec_id=action.call_id,
        lane=attempt.journal.lane,
        turn=turn,
        iteration=attempt.step.iteration,
        at=utc(attempt.ports.clock.now()),
        n=timeline.n,
        code=code,
        contract=contract,
        files=files,
        tools=tools,
        limits=replace(limits, timeout_s=fit_timeout(asked_s, most_s)),
        profile=execution.profile,
        preview_chars=execution.preview_chars,
        bundle=execution.bundle,
        served=served,
    )


def _plan_served(attempt: Attempt, timeline: Timeline, limits: ServedGrant) -> ServedGrant:
    """Return the calls that a function makes for a run, with its ticket; none if no tool is served."""
    served = (spec.tool_id for spec in attempt.agent.registry.specs if spec.served)
    tools = tuple(tool for tool in served if runs_unasked(attempt.agent, timeline, tool))
    return replace(limits, tools=tools, ticket=secrets.token_urlsafe(32)) if tools else ServedGrant()


def most_seconds(profile: RuntimeProfile, limit_s: int) -> int:
    """Return the maximum seconds of a program: the state that waits for a task has its own timeout."""
    return min(limit_s, RUN_MAX_S) if profile.placement == "remote" else limit_s


def fit_timeout(asked_s: int | None, most_s: int) -> int:
    """Return the seconds that a program may run: the number that it asks for, up to the deployment's limit."""
    return most_s if asked_s is None else max(1, min(asked_s, most_s))


def _refusal(
    attempt: Attempt, timeline: Timeline, action: Action, refused: ToolError | PathError
) -> Resulted:
    context = attempt.context(timeline, action, utc(attempt.ports.clock.now()))
    output = refuse_call(refused, action.tool_id, context, notice=notice_code(refused.reason))
    return result_of(action, context, output, program=True)


def _go_on(attempt: Attempt, timeline: Timeline, index: int, action: Action) -> Batch | Step | None:
    """Put the result of a program that was launched; launch it again if it was not."""
    artifacts = attempt.ports.artifacts
    request = load_request(artifacts, attempt.journal.lane, attempt.step.turn, action.call_id)
    envelope = find_outcome(artifacts, request)
    steered = steer_of(timeline) is not None
    waits = envelope is None and attempt.step.route == "prepare" and not taken_by(artifacts, request)
    if waits and not steered and _can_launch(attempt, timeline.state, request):
        return _launch(attempt, timeline, request)
    reported = envelope is not None
    if request.served.tools:
        # What the run reports may be in the log already: a take-over records what was noted until then.
        attempt.journal.adopt((), since=request.n)
        # A function notes the model's calls; a run that was lost does not report them.
        attempt.journal.take_over(timeline.state.claim)
    if envelope is None:
        envelope, reported = _lost(attempt, request, steered=steered)
    result = _result(attempt, timeline, action, request, envelope)
    batch = record(attempt, timeline.tail, index, result, calls=_model_calls(attempt, envelope))
    if batch is not None:
        _count(attempt, request, envelope)
        _count_time(attempt, request, envelope)
        trace_program(
            attempt,
            action,
            result,
            began=datetime.fromisoformat(request.at),
            place=request.profile.backend,
            seconds=envelope.seconds,
        )
        if request.profile.placement == "remote":
            give_back(attempt.ports, request, reported=reported)
    return batch


def _count(attempt: Attempt, request: ExecRequest, envelope: Envelope) -> None:
    """Count a run; for a cancelled one, also the time that it had left."""
    count = attempt.ports.meter.count
    count(PROGRAMS_RUN)
    cancelled = envelope.code == RUN_CANCELLED
    count(PROGRAMS_CANCELLED, cancelled)
    count(PROGRAMS_FAILED, not envelope.ok and not cancelled)
    count(PROGRAMS_LOST, is_lost(envelope))
    count(EXEC_SECONDS, envelope.seconds)
    count(EXEC_SECONDS_SPARED, max(0.0, request.limits.timeout_s - envelope.seconds) if cancelled else 0)


def _count_time(attempt: Attempt, request: ExecRequest, envelope: Envelope) -> None:
    """Add the time of a run to the receipt: for a task, from its launch until now, and at least the billed minute."""
    count, task = attempt.ports.ledger.count, request.profile.task
    if request.profile.placement != "remote":
        count("exec_ms", round(envelope.seconds * 1000))
    elif envelope.returncode is not None or envelope.code == UNVERIFIED:
        passed = attempt.ports.clock.now() - datetime.fromisoformat(request.at)
        task_ms = max(TASK_LEAST_MS, round(passed.total_seconds() * 1000))
        count("exec_ms", task_ms)
        count("task_ms", task_ms)
        count("exec_mb_ms", task_ms * task.memory_mib)
        count("task_vcpu_ms", task_ms * task.cpu_units // 1024)


def _result(
    attempt: Attempt, timeline: Timeline, action: Action, request: ExecRequest, envelope: Envelope
) -> Resulted:
    context = attempt.context(timeline, action, request.at)
    logger.info("program settled", extra={"call_id": action.call_id, "code": envelope.code})
    output = _output(action, request, envelope, context)
    status: Status = "unverified" if envelope.code == UNVERIFIED else output.status
    own = action.code is not None
    starting_ms, ran_ms, collecting_ms = _times(attempt, request, envelope)
    return replace(
        result_of(action, context, output, duration_ms=ran_ms, program=True),
        status=status,
        emitted=envelope.events,
        sources=run_sources(envelope, context),
        log=envelope.user_out_tail if own else "",
        log_bytes=envelope.log_bytes if own else 0,
        usage=sum_usages(used) if (used := [call.usage for call in envelope.calls if call.usage]) else None,
        starting_ms=starting_ms,
        collecting_ms=collecting_ms,
    )


def _times(attempt: Attempt, request: ExecRequest, envelope: Envelope) -> tuple[int, int, int]:
    """Return the times of the program's start, run and collection, until now; one that never began has only a start."""
    launched_ms, now_ms = epoch_ms(request.at), attempt.now_ms()
    total_ms = max(0, now_ms - launched_ms, round(envelope.seconds * 1000))
    ran = envelope.began_at or envelope.seconds or envelope.code == UNVERIFIED
    began_ms = epoch_ms(envelope.began_at) - launched_ms if envelope.began_at else 0
    return split_time(began_ms if ran else total_ms, total_ms, envelope.seconds)


def _model_calls(attempt: Attempt, envelope: Envelope) -> tuple[ModelCall, ...]:
    """Return the model calls of a program's tools, at the prices of this deployment."""
    made = (call for record in envelope.calls for call in record.models)
    price = attempt.metering(0).call
    return tuple(price(call.role, call.model, call.usage, id=call.id) for call in made)


def _output(action: Action, request: ExecRequest, envelope: Envelope, context: ToolContext) -> ToolOutput:
    """Return the output of a program that the model wrote, or of a call that one of our programs made."""
    if action.code is None:
        return call_output(envelope, context, action.tool_id)
    findings = normalise_contract(action.params, turn=request.turn).notices
    notices = tuple(context.notice(action.tool_id, one.code, one.message, one.extra) for one in findings)
    error = envelope.error
    return ToolOutput(
        status="error" if error else "ok",
        blocks=(*notices, *run_blocks(envelope, context)),
        error={"code": error.code, "message": error.message} if error else None,
    )


def _lost(attempt: Attempt, request: ExecRequest, *, steered: bool) -> tuple[Envelope, bool]:
    """Return the envelope of a run without an outcome: it never began and never will, or its end is unknown.

    The second value is True if an outcome appeared after all.
    """
    artifacts = attempt.ports.artifacts
    begun = not deny_run(artifacts, request)
    # The runner may have stored its result between our two reads.
    if begun and (found := find_outcome(artifacts, request)) is not None:
        return found, True
    if not begun and not steered and not _has_place(attempt, request):
        return lost_envelope(request, "backend_unavailable", NO_PLACE), False
    code, message = explain_loss(attempt.step.error, begun=begun, steered=steered)
    return lost_envelope(request, code, message), False


def _can_launch(attempt: Attempt, state: State, request: ExecRequest) -> bool:
    """Return True if a run that was not claimed can be launched again.

    It cannot if this execution has launched it already, unless in an earlier try of this step: a state machine from
    before a deployment may have no state for the launch, and would return here forever.
    """
    led_back = attempt.step.attempt == 0 and state.claim > state.epoch
    lasts = request.profile.placement != "remote" or rights_last(attempt.ports, request)
    return not led_back and lasts and _has_place(attempt, request)


def _has_place(attempt: Attempt, request: ExecRequest) -> bool:
    """Return True if this deployment, which may be newer than the one that made the request, can run it."""
    execution = attempt.agent.execution
    return execution is not None and request.profile.placement in execution.places
