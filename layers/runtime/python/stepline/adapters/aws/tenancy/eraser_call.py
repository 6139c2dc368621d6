"""The call of the function that erases: it looks at what is pending at once, and not only by its clock."""

from __future__ import annotations

import logging
from functools import cached_property
from typing import Any

from stepline.adapters.aws.client import connect
from stepline.adapters.aws.error import mapped
from stepline.errors import SteplineError

logger = logging.getLogger(__name__)


class EraserCall:
    """An asynchronous invocation; a lost one is a delay of minutes, so it fails nothing."""

    def __init__(self, arn: str) -> None:
        """Invoke the function `arn`, the ARN of an alias; nothing for ""."""
        self._arn = arn

    @cached_property
    def client(self) -> Any:
        """The client, made on first use."""
        return connect("lambda", read_timeout_s=5)

    def __call__(self) -> None:
        """Invoke it."""
        if not self._arn:
            return
        try:
            with mapped():
                self.client.invoke(FunctionName=self._arn, InvocationType="Event", Payload=b"{}")
        except SteplineError as error:
            logger.warning("eraser not invoked", extra={"code": error.reason, **error.context})
