"""Cancellation of a run: its threads notice it and pass it on to its tools."""

from __future__ import annotations

import threading
from typing import Final

from stepline.adapters.sandbox.exit_code import CANCELLED, STOP_REASONS
from stepline.errors import SandboxError
from stepline.ports.signal import Cancel

LOOK_S: Final = 0.25
"""The interval at which a waiting thread checks for cancellation."""


class Over:
    """A Cancel that can be requested here, and wakes its waiters."""

    def __init__(self) -> None:
        self._event = threading.Event()

    @property
    def requested(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        return self._event.wait(seconds)

    def set(self) -> None:
        """Request the cancellation."""
        self._event.set()


def check_wanted(cancel: Cancel) -> None:
    """Check before each step of a program's start. Raises SandboxError `cancelled`."""
    if cancel.requested:
        raise SandboxError(f"the program did not begin: {STOP_REASONS[CANCELLED]}", code=CANCELLED)
