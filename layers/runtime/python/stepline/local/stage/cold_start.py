"""Bound the processes of functions, and queue their cold starts. `launch.py` runs this in the emulator's process.

The emulator starts a process for each call that finds no idle one. A hundred simultaneous calls start a hundred
interpreters on the few cores of this machine: none is ready within the ten seconds of an initialisation, so the
emulator ends and restarts each one, and one that fails ends all the others of its function. No process ever becomes
ready. Nor is any ready in time if hundreds run: each gets so little of a core that its call times out and is sent
again. With this module, a call uses an idle process, or starts one while few others are starting and its function has
few; otherwise it waits for the first that is idle.

Standard library only. It uses names inside the emulator, whose version is pinned by `emulator.lock`: a missing name is
an error at start.

Source: docs/adr/0002-emulator.md.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable
from typing import Any, Final

AT_ONCE: Final = max(2, os.cpu_count() or 1)
"""The number of processes that may start at a time; each keeps a core busy until it is ready."""

AT_MOST: Final = 16 * AT_ONCE
"""The number of processes that one function may have; a function never calls itself, so a waiting call gets its turn."""

_LOOK_S: Final = 1.0


class Turnstile:
    """Lets calls use idle processes, and start more within the limits."""

    def __init__(self, at_once: int, starting: Callable[[], int], at_most: int = AT_MOST) -> None:
        """Set the limits of starting and of a function's processes, and what counts the starting ones."""
        self._at_once, self._starting, self._at_most = at_once, starting, at_most
        self._changed = threading.Condition()

    def enter(self, busy: Callable[[], tuple[int, bool]], take: Callable[[], Any]) -> Any:
        """Return the process from `take`, as soon as one is idle or may be started.

        `busy` returns how many processes the function has, and whether all of them are in use.
        """
        with self._changed:
            while self._must_wait(*busy()):
                # A process that died sends no notification, so the waiting calls also look from time to time.
                self._changed.wait(_LOOK_S)
            return take()

    def _must_wait(self, count: int, all_in_use: bool) -> bool:
        return all_in_use and (count >= self._at_most or self._starting() >= self._at_once)

    def wake(self) -> None:
        """Wake the waiting calls: a process is ready, gone, or idle."""
        with self._changed:
            self._changed.notify_all()


def install() -> None:
    """Route every later call of this process's emulator through a turnstile. Call it before the emulator starts."""
    runtime: Any = importlib.import_module("ministack.core.lambda_runtime")
    service: Any = importlib.import_module("ministack.services.lambda_svc")
    acquire, release, spawn = service.acquire_worker, service.release_worker, runtime.ProvidedWorker._spawn

    def starting() -> int:
        with runtime._lock:
            return sum(is_starting(worker) for workers in runtime._workers.values() for worker in workers)

    turnstile = Turnstile(AT_ONCE, starting)

    def acquire_in_turn(name: str, config: Any, *rest: Any, qualifier: str = "$LATEST", **more: Any) -> Any:
        key = runtime._worker_key(name, config, qualifier)

        def busy() -> tuple[int, bool]:
            with runtime._lock:
                workers = runtime._workers.get(key, ())
                return len(workers), all(worker.in_use for worker in workers)

        return turnstile.enter(busy, lambda: acquire(name, config, *rest, qualifier=qualifier, **more))

    def release_and_wake(worker: Any) -> None:
        release(worker)
        turnstile.wake()

    def spawn_and_wake(worker: Any, *rest: Any, **more: Any) -> None:
        try:
            spawn(worker, *rest, **more)
        finally:
            turnstile.wake()

    service.acquire_worker, service.release_worker = acquire_in_turn, release_and_wake
    runtime.ProvidedWorker._spawn = spawn_and_wake


def is_starting(worker: Any) -> bool:
    """Return True if a call uses this process and it is not ready yet."""
    return bool(worker.in_use) and hasattr(worker, "_init_settled") and not worker._init_settled.is_set()
