"""The call of the eraser function, which then looks for pending work immediately, not only on its schedule."""

from __future__ import annotations

import logging
from functools import cached_property
from typing import Any

from stepline.adapters.aws.client import connect
from stepline.adapters.aws.error import mapped
from stepline.errors import SteplineError

logger = logging.getLogger(__name__)


class EraserCall:
    """An asynchronous invocation; losing one means a delay of minutes, so a failure is not raised."""

    def __init__(self, arn: str) -> None:
        """Invoke the function `arn`, the ARN of an alias; do nothing for ""."""
        self._arn = arn

    @cached_property
    def client(self) -> Any:
        """The client, created on first use."""
        return connect("lambda", read_timeout_s=5)

    def __call__(self) -> None:
        """Invoke the function."""
        if not self._arn:
            return
        try:
            with mapped():
                self.client.invoke(FunctionName=self._arn, InvocationType="Event", Payload=b"{}")
        except SteplineError as error:
            logger.warning("eraser not invoked", extra={"code": error.reason, **error.context})
