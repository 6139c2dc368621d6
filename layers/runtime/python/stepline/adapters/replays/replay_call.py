"""The call of Decide that makes a replay, which the API does not wait for."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec

from stepline.adapters.aws.client import connect
from stepline.adapters.aws.error import mapped
from stepline.errors import DependencyError
from stepline.ports.round_replay import ReplayCall


class InvokedReplays:
    """An asynchronous invocation; Lambda keeps the event, and may deliver it twice."""

    def __init__(self, arn: str) -> None:
        """Invoke the function `arn`, the ARN of an alias; refuse every call for ""."""
        self._arn = arn

    @cached_property
    def client(self) -> Any:
        """The client, created on first use."""
        return connect("lambda", read_timeout_s=5)

    def __call__(self, call: ReplayCall) -> None:
        """Invoke the function."""
        if not self._arn:
            raise DependencyError("no function makes replays here")
        payload = msgspec.json.encode({"replay": call})
        with mapped():
            self.client.invoke(FunctionName=self._arn, InvocationType="Event", Payload=payload)
