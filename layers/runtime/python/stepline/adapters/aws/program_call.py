"""The calls of programs by the function `serve`, for supervisors: the only right that they need for them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec

from stepline.adapters.aws.client import connect
from stepline.adapters.aws.error import mapped
from stepline.errors import DependencyError
from stepline.model.program.served_call import SERVED_S, ServedAnswer, ServedCall, parse_served

ANSWER_S = SERVED_S + 15
"""Longer than the function's own timeout: its end is heard."""


class InvokedCalls:
    """Has the function make a call, and waits for its answer. Several threads may use it."""

    def __init__(self, arn: str) -> None:
        """Invoke the function `arn`, the ARN of an alias; refuse every call for ""."""
        self._arn = arn

    @cached_property
    def client(self) -> Any:
        """The client, created on first use."""
        return connect("lambda", read_timeout_s=ANSWER_S, attempts=2)

    def __call__(self, call: ServedCall) -> ServedAnswer:
        """Return the answer of a call. Raises DependencyError: the function did not answer, and may be asked again."""
        if not self._arn:
            return ServedAnswer(code="calls_unavailable", message="no function makes calls of programs here")
        with mapped():
            reply = self.client.invoke(FunctionName=self._arn, Payload=msgspec.json.encode(call))
            body = reply["Payload"].read()
        if "FunctionError" in reply:
            raise DependencyError("the function failed")
        try:
            return parse_served(body)
        except msgspec.MsgspecError as error:
            raise DependencyError("the function's answer cannot be read") from error
