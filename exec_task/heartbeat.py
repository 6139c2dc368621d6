"""Heartbeat and cancellation of a task."""

from __future__ import annotations

import logging
import os
import threading
from types import TracebackType
from typing import Final, Self

from exec_task.caller import HungUp
from stepline.adapters.sandbox.exit_code import STOP_REASONS, TASK_STOPPED
from stepline.errors import SandboxError, SteplineError
from stepline.model.program.handover import HEARTBEAT_S
from stepline.ports.task import TaskToken

logger = logging.getLogger("stepline.task")

READ_BYTES: Final = 64


class Heartbeat:
    """Sends heartbeats from a thread during the `with` block. It is the Caller of a program in a task."""

    def __init__(self, task_token: TaskToken, token: str, *, interval_s: float = HEARTBEAT_S) -> None:
        """Send heartbeats for `token`, every `interval_s`."""
        self._task_token = task_token
        self._token = token
        self._interval_s = interval_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._deserted = False
        self._stopped = False
        self._source, self._bell = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()

    @property
    def source(self) -> int:
        return self._source

    def hear(self) -> str:
        os.read(self._source, READ_BYTES)
        if self._deserted:
            raise HungUp
        return TASK_STOPPED if self._stopped else ""

    def check(self) -> None:
        """Check that the run is still requested. Raises HungUp, SandboxError `task_stopped`."""
        if self._deserted:
            raise HungUp
        if self._stopped:
            raise SandboxError(f"the program did not begin: {STOP_REASONS[TASK_STOPPED]}", code=TASK_STOPPED)

    @property
    def deserted(self) -> bool:
        """True if no state waits for the task any more."""
        return self._deserted

    def stop(self) -> None:
        """Stop the program and store its result, because the task must stop. For a signal handler."""
        self._stopped = True
        self._ring()

    def _beat(self) -> None:
        while True:
            try:
                awaited = self._task_token.beat(self._token)
            except SteplineError as error:
                logger.warning("no heartbeat", extra={"code": error.reason})
            except (
                Exception
            ):  # the edge of a thread: the state's own timeout ends a task that sends no heartbeat
                logger.exception("no heartbeat")
            else:
                if not awaited:
                    logger.info("no state waits for this task any more")
                    self._deserted = True
                    self._ring()
                    return
            if self._over.wait(self._interval_s):
                return

    def _ring(self) -> None:
        os.write(self._bell, b"!")
