"""Cold starts of functions in turn. `launch.py` runs this in the emulator's process.

The emulator starts a process for each call that finds no idle one. A hundred calls at once are a hundred interpreters on
the few cores of this machine: none of them is up within the ten seconds of an initialisation, so it ends and
starts each again, and one that fails takes all the others of its function with it. Nothing is ever up.
Here a call takes an idle process, or starts one while few others start; else it waits, which ends with the first that is up.

Standard library only. It uses names inside the emulator, whose version is pinned by `emulator.lock`: a
missing name is an error at start.

Source: docs/adr/0002-emulator.md.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable
from typing import Any, Final

AT_ONCE: Final = max(2, os.cpu_count() or 1)
"""So many processes start at a time; each keeps a core busy until it is up."""

_LOOK_S: Final = 1.0


class Turnstile:
    """Lets calls take what is idle, and start more while `starting` says that fewer than `at_once` do."""

    def __init__(self, at_once: int, starting: Callable[[], int]) -> None:
        """Set the bound, and the function that counts."""
        self._at_once, self._starting = at_once, starting
        self._changed = threading.Condition()

    def enter(self, is_idle: Callable[[], bool], take: Callable[[], Any]) -> Any:
        """Return the process that `take` takes, as soon as one is idle or may be started."""
        with self._changed:
            while not is_idle() and self._starting() >= self._at_once:
                # A process that died says nothing, so it is looked for now and then, too.
                self._changed.wait(_LOOK_S)
            return take()

    def tell(self) -> None:
        """Have those who wait look again: a process is up, gone, or idle."""
        with self._changed:
            self._changed.notify_all()


def install() -> None:
    """Have every later call of this process's emulator pass a turnstile. Call it before the emulator starts."""
    runtime: Any = importlib.import_module("ministack.core.lambda_runtime")
    service: Any = importlib.import_module("ministack.services.lambda_svc")
    acquire, release, spawn = service.acquire_worker, service.release_worker, runtime.ProvidedWorker._spawn

    def starting() -> int:
        with runtime._lock:
            return sum(is_starting(worker) for workers in runtime._workers.values() for worker in workers)

    turnstile = Turnstile(AT_ONCE, starting)

    def acquire_in_turn(name: str, config: Any, *rest: Any, qualifier: str = "$LATEST", **more: Any) -> Any:
        key = runtime._worker_key(name, config, qualifier)

        def is_idle() -> bool:
            with runtime._lock:
                return any(not worker.in_use for worker in runtime._workers.get(key, ()))

        return turnstile.enter(is_idle, lambda: acquire(name, config, *rest, qualifier=qualifier, **more))

    def release_and_tell(worker: Any) -> None:
        release(worker)
        turnstile.tell()

    def spawn_and_tell(worker: Any, *rest: Any, **more: Any) -> None:
        try:
            spawn(worker, *rest, **more)
        finally:
            turnstile.tell()

    service.acquire_worker, service.release_worker = acquire_in_turn, release_and_tell
    runtime.ProvidedWorker._spawn = spawn_and_tell


def is_starting(worker: Any) -> bool:
    """Return True if a call has taken this process and it is not up yet."""
    return bool(worker.in_use) and hasattr(worker, "_init_settled") and not worker._init_settled.is_set()
