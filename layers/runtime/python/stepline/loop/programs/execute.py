"""Execute: run one program once, by the first invocation that claims the run.

The envelope records every end of the run. Only a service that cannot be reached raises an error; the next state then
finds no result and records that.
Source: docs/concepts/execution.md#one-run.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from stepline.errors import NotFoundError
from stepline.log.bindings import Ports
from stepline.log.fence import compare_step, ended, onward, stops_when_deleted
from stepline.log.journal import Journal
from stepline.loop.programs.make_outcome import (
    ENVIRONMENT_FAILED,
    JSON_MIME,
    claim_run,
    conclude,
    load_request,
    store_result,
)
from stepline.loop.programs.remote import NO_PLACE
from stepline.loop.steer import steer_in
from stepline.loop.tracing.traced_step import traced
from stepline.model.batch import Batch, State
from stepline.model.program.execution import ExecRequest, RuntimeProfile
from stepline.model.program.running_log import log_key
from stepline.model.step import Step
from stepline.ports.executor import Executor, Job, Serve, serve_nothing
from stepline.ports.signal import Cancel
from stepline.programs.envelope import lost_envelope
from stepline.programs.outcome import Envelope

logger = logging.getLogger(__name__)

Backends = Callable[[RuntimeProfile], Executor | None]
"""Returns the backend of a mode, kept warm; None if this deployment does not have it."""


RunProgram = Callable[[Sequence[Batch], ExecRequest, Cancel], Envelope]


@traced
@stops_when_deleted
def execute(ports: Ports, backends: Backends, step: Step, serve: Serve = serve_nothing) -> Step:
    """Run the lane's pending program once, unless the user steers; return the step that collects it.

    `serve` makes the calls that a function makes for it.
    """
    journal = Journal(ports, step.lane(), f"execute/{step.epoch}")
    state = journal.tail(consistent=True).state
    match compare_step(state, step, "act"):
        case "stop":
            return ended(step, "stop")
        case "mine" if state.running:
            _run_once(ports, partial(_run, ports, backends, serve=serve), journal, step, state)
            return replace(step, route="act", attempt=0, error=None)
        case _:
            return onward(step, state)


def _run_once(ports: Ports, run: RunProgram, journal: Journal, step: Step, state: State) -> None:
    call = state.running
    try:
        request = load_request(ports.artifacts, step.lane(), step.turn, call)
    except NotFoundError:
        logger.info("nothing to run", extra={"call_id": call})
        return
    # After the marker, any failure is a lost run, so the log is read before it.
    batches = journal.since(0, consistent=True)
    if steer_in([batch for batch in batches if batch.n > state.decided], state.steered):
        logger.info("not run, for the user steers", extra={"call_id": call})
        return
    if not claim_run(ports.artifacts, request.lane, request.turn, request.exec_id, journal.by):
        logger.info("run already taken", extra={"call_id": call})
        return
    with ports.signals.watch(request.lane, batches[-1].n) as watch:
        envelope = run(batches[: request.n], request, watch)
    logger.info("program run", extra={"call_id": call, "ok": envelope.ok, "seconds": envelope.seconds})


def _run(
    ports: Ports,
    backends: Backends,
    batches: Sequence[Batch],
    request: ExecRequest,
    cancel: Cancel,
    *,
    serve: Serve,
) -> Envelope:
    """Run the program until it ends or is cancelled, and put its result."""
    executor = backends(request.profile)
    if executor is None:
        return _put_lost(ports, request, "backend_unavailable", NO_PLACE)
    key = log_key(request.lane, request.turn, request.exec_id)
    with tempfile.TemporaryDirectory(prefix=f"stepline-spool-{os.getpid()}-") as folder:
        spool = Path(folder)
        job = Job(
            request=request,
            batches=batches,
            fetch=ports.artifacts.get,
            spool=spool,
            cancel=cancel,
            keep_log=lambda log: ports.artifacts.replace(key, log, mime=JSON_MIME),
            serve=serve,
        )
        try:
            run = executor.run(job)
        except Exception:  # the envelope records every end of a run, so that the model sees this one too
            logger.exception("run failed", extra={"call_id": request.exec_id})
            return _put_lost(ports, request, "sandbox_execution_failed", ENVIRONMENT_FAILED)
        return conclude(ports.artifacts, request, run, spool)


def _put_lost(ports: Ports, request: ExecRequest, code: str, message: str) -> Envelope:
    envelope = lost_envelope(request, code, message)
    store_result(ports.artifacts, request, envelope)
    return envelope
