"""A run that is told to end early: how those who run it hear of that, and pass it on to its tools."""

from __future__ import annotations

import threading
from typing import Final

from stepline.adapters.sandbox.exit_code import CANCELLED, STOPPED
from stepline.errors import SandboxError
from stepline.ports.signal import Cancel

LOOK_S: Final = 0.25
"""Whoever waits for something else besides looks this often whether a run is cancelled."""


class Over:
    """A Cancel that is requested when somebody says so, and wakes whoever waits for it."""

    def __init__(self) -> None:
        self._event = threading.Event()

    @property
    def requested(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        return self._event.wait(seconds)

    def set(self) -> None:
        """Request it."""
        self._event.set()


def check_wanted(cancel: Cancel) -> None:
    """Go on towards a program's beginning only if it is still wanted. Raises SandboxError `cancelled`."""
    if cancel.requested:
        raise SandboxError(f"the program did not begin: {STOPPED[CANCELLED]}", code=CANCELLED)
