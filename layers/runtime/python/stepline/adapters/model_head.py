"""The head of a model's response, waited for by a thread of its own, so that whoever wants the response may give up waiting.

A provider reads the whole prompt before it answers anything. Nothing wakes a thread that waits for that, since the
transport shows its socket with the response only.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

logger = logging.getLogger(__name__)


class PendingHead:
    """One request. `wait` sends it; `give_up` may come from another thread, and what arrives after that is closed."""

    def __init__(self, send: Callable[[], Any]) -> None:
        """Prepare; `send` returns the response, which has a `close`."""
        self._send = send
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._given_up = False
        self._response: Any = None
        self._error: BaseException | None = None

    def wait(self) -> Any:
        """Send the request; return the response, or None if somebody gave up first. Raises what `send` raises."""
        if not self._over.is_set():
            threading.Thread(target=self._run, name="model-head", daemon=True).start()
        self._over.wait()
        if self._error is not None:
            raise self._error
        return self._response

    def give_up(self) -> None:
        """Let nobody wait any more."""
        with self._lock:
            self._given_up = True
        self._over.set()

    def _run(self) -> None:
        response, error = None, None
        try:
            response = self._send()
        except BaseException as raised:  # noqa: BLE001 - `wait` raises it, in the caller's thread
            error = raised
        with self._lock:
            late = self._given_up
            if not late:
                self._response, self._error = response, error
        self._over.set()
        if late and response is not None:
            response.close()
        elif late:
            logger.info("call failed when nobody waited for it", extra={"error": type(error).__name__})
