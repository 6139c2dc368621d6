"""A day of a turn that waits for a person, over moto: its calls of the table beyond those of a stage without it.

The sweeper runs every five minutes, as on a stage. An execution that still runs fails the measurement.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Final

from bench.budget import BUDGETS
from bench.meter import Meter
from bench.row import MeasureError, Row
from stepline.adapters.aws.log import DynamoLog
from stepline.adapters.aws.table import Table
from stepline.loop.approvals.approval_policy import ApprovalPolicy
from stepline.loop.sweep import sweep
from stepline.model.ids import execution_name
from tests.support.aws import create_table, moto
from tests.support.conversation import LANE, Conversation
from tests.support.generation import called

SWEEP_S: Final = 300.0
SWEEPS: Final = 288
"""The sweeps of a day."""
CALL: Final = called("react.write", {"path": "a.md", "channel": "canvas", "content": "# A", "kind": "file"})


def rows(sweeps: int = SWEEPS) -> list[Row]:
    """Return `parked_calls_per_day`, by a number of sweeps."""
    meter, name = Meter(), f"bench-{uuid.uuid4().hex[:8]}"
    with moto():
        create_table(name)
        table = Table(name)
        table.client.meta.events.register("before-call.dynamodb", meter.on_call)
        log = DynamoLog(table)
        idle = _sweep(_conversation(log), meter, sweeps)
        waiting = _conversation(log)
        waiting.send()
        waiting.run()
        tail = log.tail(LANE, consistent=True)
        if tail is None or not tail.state.parked:
            raise MeasureError("the turn does not wait")
        parked = _sweep(waiting, meter, sweeps)
        if waiting.machine.status(execution_name(LANE, tail.state.epoch)) != "ended":
            raise MeasureError("an execution runs while the turn waits")
    note = (
        f"on moto: {sweeps} sweeps make {idle} calls without the turn and {parked} with it; no execution runs"
    )
    value, goal = (parked - idle) * SWEEPS / sweeps, BUDGETS["parked_calls_per_day"].aim
    return [Row(metric="parked_calls_per_day", value=value, unit="calls", goal=goal, note=note)]


def _conversation(log: DynamoLog) -> Conversation:
    conversation = Conversation(CALL)
    conversation.ports = replace(conversation.ports, log=log)
    policy = ApprovalPolicy(places=({"effect:keyed": "always"},))
    conversation.agent = replace(conversation.agent, approvals=policy.rule_of)
    return conversation


def _sweep(conversation: Conversation, meter: Meter, sweeps: int) -> int:
    meter.clear()
    for _ in range(sweeps):
        conversation.clock.pause(SWEEP_S)
        sweep(conversation.ports)
    return meter.calls.total()
