"""A program's way through the loop: asked for, launched once, settled by what its run left behind.

    request.json   what to run, put before the batch that says so
    started.json   whoever puts it runs the program; nobody else ever will
    result.json    what came of it; nothing else is believed

The three lie under `exec/…/<call>/` and are written once. A step that is tried again, a takeover and a late
runner therefore meet at `started.json`: a program runs once, or it is known that it did not.
Source: docs/concepts/execution.md#one-run.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from stepline.errors import NotFoundError, PathError, ToolError
from stepline.execution.blocks import run_blocks
from stepline.execution.code import check_program, notice_code
from stepline.execution.contract import normalise_contract
from stepline.execution.envelope import Envelope, decode_envelope, lost_envelope
from stepline.loop.record import MAYBE, Work, record, result_of, start
from stepline.model.batch import Batch
from stepline.model.decision import Action
from stepline.model.entry import Resulted
from stepline.model.execution import ExecRequest
from stepline.model.ids import Lane, utc
from stepline.model.path import exec_key
from stepline.model.step import Step
from stepline.ports.artifacts import Artifacts
from stepline.timeline.fold import Timeline
from stepline.timeline.result import lean_blocks
from stepline.timeline.workspace import fold_workspace
from stepline.tools.registry import check_call, refusal

logger = logging.getLogger(__name__)

REQUEST, STARTED, RESULT = "request.json", "started.json", "result.json"
COLLECT_S = 120
"""What a run may take beyond its program's own time: to restore its files, to collect, to store."""

JSON = "application/json"
Status: TypeAlias = Literal["ok", "error", "unverified"]
UNVERIFIED, NOT_STARTED = "unverified", "sandbox_not_started"
NOT_RUN = (
    "The program did not start, so nothing happened. Ask for it again once; if that fails too, do without it."
)
TIMED_OUT = "The run was cut off from outside before it could report. Some of its effects may have happened."


def advance_program(work: Work, timeline: Timeline, index: int, action: Action) -> Batch | Step | None:
    """Launch the action's program, or put what became of it.

    Return the step that runs it, the batch of its result, or None if the round went on without us.
    """
    tail = timeline.batches[-1]
    if timeline.state.running == action.call_id:
        return _settle(work, timeline, index, action)
    if work.step.route == "act" and work.agent.execution is not None:
        # Only Prepare leads to where programs run; the next Decide finds nothing to do and routes there.
        return replace(work.step, route=timeline.state.route(), attempt=0, error=None)
    try:
        request = _plan(work, timeline, action)
    except (ToolError, PathError) as refused:
        return record(work, tail, index, _refusal(work, timeline, action, refused))
    key = exec_key(work.journal.lane, work.step.turn, action.call_id, REQUEST)
    work.ports.artifacts.put(key, msgspec.json.encode(request), mime=JSON)
    ends = work.ports.clock.now() + timedelta(seconds=request.limits.timeout_s + COLLECT_S)
    if start(work, tail, index, action, deadline=utc(ends)) is None:
        return None
    return _launch(work.step)


def claim_run(artifacts: Artifacts, lane: Lane, turn: str, call: str, by: str) -> bool:
    """Take the one right to run a program, or to say that nobody will; tell whether it is ours."""
    return artifacts.put(exec_key(lane, turn, call, STARTED), msgspec.json.encode({"by": by}), mime=JSON)


def load_request(artifacts: Artifacts, lane: Lane, turn: str, call: str) -> ExecRequest:
    """Return what is to run. Raises NotFoundError, DependencyError."""
    return msgspec.json.decode(artifacts.get(exec_key(lane, turn, call, REQUEST)), type=ExecRequest)


def store_result(artifacts: Artifacts, request: ExecRequest, envelope: Envelope) -> None:
    """Put what came of a run; the first word stands."""
    key = exec_key(request.lane, request.turn, request.exec_id, RESULT)
    artifacts.put(key, msgspec.json.encode(envelope), mime=JSON)


def _launch(step: Step) -> Step:
    return replace(step, route="execute", attempt=0, error=None)


def _plan(work: Work, timeline: Timeline, action: Action) -> ExecRequest:
    """Decide what the run is given. Raises ToolError, PathError for what the model can mend."""
    execution = work.agent.execution
    if execution is None:
        raise ToolError("this deployment runs no programs", code="execution_unavailable")
    spec = work.agent.registry.find(action.tool_id).spec
    check_call(spec, action.params)
    turn, limits = work.step.turn, execution.limits
    files = fold_workspace(timeline, turn)
    code = action.code or ""
    contract = normalise_contract(action.params, turn=turn)
    check_program(code, turn=turn, present={file.path for file in files})
    return ExecRequest(
        exec_id=action.call_id,
        lane=work.journal.lane,
        turn=turn,
        iteration=work.step.iteration,
        at=utc(work.ports.clock.now()),
        n=timeline.n,
        code=code,
        contract=contract.files,
        files=files,
        tools=execution.tools,
        limits=replace(limits, timeout_s=fit_timeout(action.params.get("timeout_s"), limits.timeout_s)),
        profile=execution.profile,
        preview_chars=execution.preview_chars,
    )


def fit_timeout(asked_s: int | None, most_s: int) -> int:
    """Return how long a program may run: what it asks for, up to what the deployment allows."""
    return most_s if asked_s is None else max(1, min(asked_s, most_s))


def _refusal(work: Work, timeline: Timeline, action: Action, refused: ToolError | PathError) -> Resulted:
    context = work.context(timeline, action, utc(work.ports.clock.now()))
    output = refusal(refused, action.tool_id, context, notice=notice_code(refused.reason))
    return result_of(action, context, output, program=True)


def _settle(work: Work, timeline: Timeline, index: int, action: Action) -> Batch | Step | None:
    """Put the result of a program that was launched; launch it again if it was not."""
    artifacts, lane, turn = work.ports.artifacts, work.journal.lane, work.step.turn
    found = _find(artifacts, exec_key(lane, turn, action.call_id, RESULT))
    begun = found is not None or _find(artifacts, exec_key(lane, turn, action.call_id, STARTED)) is not None
    if not begun and work.step.route == "prepare":
        return _launch(work.step)
    request = load_request(artifacts, lane, turn, action.call_id)
    envelope = decode_envelope(found) if found is not None else _lost(work, request)
    context = work.context(timeline, action, request.at)
    told = normalise_contract(action.params, turn=turn).notices
    notices = tuple(context.notice(action.tool_id, one.code, one.message, one.extra) for one in told)
    blocks = (*notices, *run_blocks(envelope, context))
    logger.info("program settled", extra={"call_id": action.call_id, "ok": envelope.ok})
    error = envelope.error
    status: Status = "ok" if error is None else "unverified" if error.code == UNVERIFIED else "error"
    result = Resulted(
        call_id=action.call_id,
        tool_id=action.tool_id,
        iteration=work.step.iteration,
        status=status,
        at=request.at,
        duration_ms=round(envelope.seconds * 1000),
        blocks=lean_blocks(blocks, context.path("result")),
        error={"code": error.code, "message": error.message} if error else None,
        program=True,
        emitted=envelope.events,
    )
    return record(work, timeline.batches[-1], index, result)


def _lost(work: Work, request: ExecRequest) -> Envelope:
    """Say what is known of a run without a result: that it never began and never will, or that nobody knows."""
    if claim_run(work.ports.artifacts, request.lane, request.turn, request.exec_id, work.journal.by):
        return lost_envelope(request, NOT_STARTED, NOT_RUN)
    # Between our two looks the runner may have stored what it had.
    found = _find(work.ports.artifacts, exec_key(request.lane, request.turn, request.exec_id, RESULT))
    if found is not None:
        return decode_envelope(found)
    if (work.step.error or {}).get("Error") == "States.Timeout":
        return lost_envelope(request, "timeout", TIMED_OUT)
    return lost_envelope(request, UNVERIFIED, MAYBE)


def _find(artifacts: Artifacts, key: str) -> bytes | None:
    try:
        return artifacts.get(key)
    except NotFoundError:
        return None
