"""Executions of one Step Functions state machine."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import msgspec

from stepline.adapters.aws.client import connect
from stepline.adapters.aws.error import EXECUTION_ABSENT, EXECUTION_EXISTS, mapped, tolerated

if TYPE_CHECKING:
    from mypy_boto3_stepfunctions.client import SFNClient

    from stepline.model.step import Step
    from stepline.ports.machine import ExecutionStatus

LISTED_MAX: Final = 1_000
"""Executions in one answer: the service's maximum."""


class StepFunctionsMachine:
    """A name stays in use for 90 days after its execution ended; `status` may be a moment older than `start`."""

    def __init__(self, arn: str) -> None:
        """Run executions of the state machine `arn`."""
        self._arn = arn

    @cached_property
    def client(self) -> SFNClient:
        """The client, created on first use."""
        client: SFNClient = connect("stepfunctions", read_timeout_s=10)
        return client

    def start(self, name: str, step: Step) -> bool:
        # With default values, since the state machine's paths need every field.
        body = msgspec.json.encode(msgspec.structs.asdict(step)).decode()
        with mapped(), tolerated(EXECUTION_EXISTS):
            self.client.start_execution(stateMachineArn=self._arn, name=name, input=body)
            return True
        return False

    def status(self, name: str) -> ExecutionStatus:
        with mapped(), tolerated(EXECUTION_ABSENT):
            status = self.client.describe_execution(executionArn=self._execution_arn(name))["status"]
            return "running" if status in ("RUNNING", "PENDING_REDRIVE") else "ended"
        return "absent"

    def running(self) -> frozenset[str]:
        asked: Any = {"stateMachineArn": self._arn, "statusFilter": "RUNNING", "maxResults": LISTED_MAX}
        with mapped():
            pages = self.client.get_paginator("list_executions").paginate(**asked)
            return frozenset(one["name"] for page in pages for one in page["executions"])

    def stop(self, name: str) -> None:
        with mapped(), tolerated(EXECUTION_ABSENT):
            self.client.stop_execution(executionArn=self._execution_arn(name))

    def _execution_arn(self, name: str) -> str:
        return f"{self._arn.replace(':stateMachine:', ':execution:')}:{name}"
