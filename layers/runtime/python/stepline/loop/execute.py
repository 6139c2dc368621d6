"""Execute: one run of one program, by whoever took the right to it first.

Everything that happens to the run ends in its envelope; only a service that cannot be reached is raised, and
then the next state finds no result and says so.
Source: docs/concepts/execution.md#one-run.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from stepline.errors import NotFoundError
from stepline.execution.envelope import Envelope, lost_envelope, make_envelope, output_bodies
from stepline.execution.outputs import validate_outputs
from stepline.loop.guard import ended, onward, standing
from stepline.loop.history import History
from stepline.loop.journal import Journal
from stepline.loop.port import Ports
from stepline.loop.program import claim_run, load_request, store_result
from stepline.metrics import EXEC_SECONDS, PROGRAMS_FAILED, PROGRAMS_RUN
from stepline.model.execution import ExecRequest, Mode
from stepline.model.step import Step
from stepline.ports.executor import Executor, Job
from stepline.timeline.fold import Timeline

logger = logging.getLogger(__name__)

Backends = Callable[[Mode], Executor | None]
"""The backend of a mode, kept warm; None if this deployment does not have it."""

NO_BACKEND = "This deployment cannot run programs with the profile that was chosen."
BROKEN = "The execution environment failed before it could report. Ask for the run again once."


def execute(ports: Ports, backends: Backends, history: History, step: Step) -> Step:
    """Run the program that the lane waits for, once; return the step that collects it."""
    journal = Journal(ports, step.lane(), f"execute/{step.epoch}")
    timeline = history.load(journal, consistent=True)
    state = timeline.state
    match standing(state, step, "act"):
        case "stop":
            return ended(step, "stop")
        case "mine" if state.running:
            _run_once(ports, backends, timeline, step, journal.by)
            return replace(step, route="act", attempt=0, error=None)
        case _:
            return onward(step, state)


def _run_once(ports: Ports, backends: Backends, timeline: Timeline, step: Step, by: str) -> None:
    call = timeline.state.running
    try:
        request = load_request(ports.artifacts, step.lane(), step.turn, call)
    except NotFoundError:
        logger.info("nothing to run", extra={"call_id": call})
        return
    if not claim_run(ports.artifacts, request.lane, request.turn, request.exec_id, by):
        logger.info("run already taken", extra={"call_id": call})
        return
    envelope = _run(ports, backends, timeline, request)
    ports.meter.count(PROGRAMS_RUN)
    ports.meter.count(PROGRAMS_FAILED, not envelope.ok)
    ports.meter.count(EXEC_SECONDS, envelope.seconds)
    store_result(ports.artifacts, request, envelope)
    logger.info("program run", extra={"call_id": call, "ok": envelope.ok, "seconds": envelope.seconds})


def _run(ports: Ports, backends: Backends, timeline: Timeline, request: ExecRequest) -> Envelope:
    executor = backends(request.profile.mode)
    if executor is None:
        return lost_envelope(request, "backend_unavailable", NO_BACKEND)
    with tempfile.TemporaryDirectory(prefix=f"stepline-spool-{os.getpid()}-") as folder:
        spool = Path(folder)
        batches = [batch for batch in timeline.batches if batch.n <= request.n]
        job = Job(request=request, batches=batches, fetch=ports.artifacts.get, spool=spool)
        try:
            run = executor.run(job)
            verdicts = validate_outputs(request, run, spool)
        except Exception:  # a run's every end is in its envelope: the model must hear of this one too
            logger.exception("run failed", extra={"call_id": request.exec_id})
            return lost_envelope(request, "sandbox_execution_failed", BROKEN)
        for path, body in output_bodies(request, verdicts, spool):
            ports.artifacts.put(body.key, path.read_bytes(), mime=body.mime)
        return make_envelope(request, run, verdicts)
