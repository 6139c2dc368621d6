"""The topmost span of a turn, `invoke_agent`, and that of its take-over.

It is made from the batch that closed the turn, so repeating that batch's effects makes the same span, under the same
id.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

from stepline.log.bindings import Ports
from stepline.metering.convention import (
    AGENT,
    CONVERSATION,
    FINISH,
    OPERATION,
    PROVIDER,
    REQUEST_MODEL,
    USER,
    answer_texts,
    usage_attributes,
)
from stepline.metering.span import begin_visit
from stepline.model.batch import Batch
from stepline.model.entry import Closed
from stepline.model.ids import DEFAULT_BUNDLE, Lane, person
from stepline.model.tenancy.limits import NANOS_PER_USD
from stepline.ports.tracing.traces import Attribute


def trace_turn(ports: Ports, lane: Lane, batch: Batch) -> None:
    """Add the span of the turn that a batch closed: to the running step, or alone if none runs."""
    if ports.traces is None:
        return
    end = next(entry for entry in batch.entries if isinstance(entry, Closed))
    ended = datetime.fromisoformat(end.at)
    span = ports.span
    if not span.traced:
        known = {CONVERSATION: lane.conversation}
        span = begin_visit(ports.traces, ports.clock, lane, end.turn, name="sweep", attributes=known)
    attributes = _attributes(lane, batch, end, span.provider)
    if span.texts and end.answer:
        attributes |= answer_texts(end.answer, end.reason)
    span.record_turn(
        f"invoke_agent {attributes[AGENT]}",
        attributes,
        began=ended - timedelta(milliseconds=end.elapsed_ms),
        ended=ended,
        failed=end.code if end.outcome == "error" else "",
    )
    if span is not ports.span:
        span.end()


def trace_take_over(ports: Ports, lane: Lane, batch: Batch) -> None:
    """Send the span of a take-over, which has no duration: the steps after it belong to another execution."""
    state = batch.state
    attributes: dict[str, Attribute] = {
        CONVERSATION: lane.conversation,
        "stepline.turn": state.turn,
        "stepline.epoch": state.epoch,
        "stepline.takeovers": state.takeovers,
    }
    begin_visit(ports.traces, ports.clock, lane, state.turn, name="take_over", attributes=attributes).end()


def _attributes(lane: Lane, batch: Batch, end: Closed, provider: str) -> dict[str, Attribute]:
    made: dict[str, Attribute] = {
        OPERATION: "invoke_agent",
        PROVIDER: provider,
        AGENT: batch.state.bundle or DEFAULT_BUNDLE,
        CONVERSATION: lane.conversation,
        USER: person(lane.tenant, lane.project, batch.state.owner),
        "stepline.tenant.hash": hashlib.sha256(lane.tenant.encode()).hexdigest()[:16],
        "stepline.turn": end.turn,
        "stepline.rounds": end.rounds,
        "stepline.outcome": end.outcome,
        "stepline.usd": sum(call.nanos for call in end.bill) / NANOS_PER_USD,
        FINISH: (end.reason,),
    }
    if end.model:
        made[REQUEST_MODEL] = end.model
    return {**made, **usage_attributes(end.usage)} if end.usage else made
