"""How a program came to its end: what stopped it, and what that is called in a run's report."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Final

from msgspec.structs import replace

from stepline.adapters.process.fork_server import Cell, ForkServer, is_readable
from stepline.adapters.process.memory import Memory
from stepline.adapters.sandbox.ending import (
    CANCELLED,
    REFUSED,
    STOPPED,
    TIMED_OUT,
    render_end,
    render_stop,
)
from stepline.adapters.sandbox.quota import IDLE_FACTOR, INTERVAL_MIN_S, Quota
from stepline.errors import SandboxError
from stepline.model.base import Value
from stepline.model.program.execution import Limits
from stepline.ports.signal import Cancel

TERM_S: Final = 1.0
MEMORY: Final = "memory_limit"
GLANCE_S: Final = 0.1
"""How often is looked at what costs next to nothing to see: memory that is short, and that a run is cancelled."""


class Ending(Value):
    """`error`, `message` and `returncode` are a Run's; `suspect` if the fork server itself may have suffered."""

    error: str = ""
    message: str = ""
    returncode: int | None = None
    suspect: bool = False


def attend(
    server: ForkServer, cell: Cell, *, memory: Memory, quota: Quota, limits: Limits, cancel: Cancel
) -> Ending:
    """Wait until the program has ended; stop it at its deadline, at a limit or when it is cancelled: TERM, and a second later KILL.

    The program alone is stopped here; what it started dies with its cell. The cell dies at once if all of it together
    uses more memory than one process may.
    """
    stopped = _watch(server, memory, quota, limits, cancel)
    if stopped == MEMORY:  # a second more is time to take as much again
        _signal(cell.init, signal.SIGKILL)
    elif stopped:
        _signal(cell.program, signal.SIGTERM)
        if not is_readable(server.ending, TERM_S):
            _signal(cell.program, signal.SIGKILL)
    try:
        status = server.status()
    except SandboxError as error:
        return Ending(error=stopped or error.reason, message=str(error), suspect=True)
    if not stopped:
        code = os.waitstatus_to_exitcode(status)
        if code and memory.is_short():  # the kernel was faster than we
            return Ending(error=MEMORY, message=render_stop(MEMORY, limits), returncode=code)
        return Ending(returncode=code)
    returncode = TIMED_OUT if stopped == "timeout" else os.waitstatus_to_exitcode(status)
    return Ending(error=stopped, message=render_stop(stopped, limits), returncode=returncode)


def judge(ending: Ending, *, confined: bool, quota: Quota, limits: Limits) -> Ending:
    """Name an ending that nothing forced. `confined`: the jail reported itself, so the program did run."""
    code = ending.returncode
    if ending.error == CANCELLED and not confined:
        return replace(ending, message=f"the program did not begin: {STOPPED[CANCELLED]}")
    if ending.error or code is None:
        return ending
    if not confined:
        error = "isolation_failed" if code == REFUSED else "sandbox_execution_failed"
        return Ending(error=error, message=f"the program did not begin: {render_end(code)}", returncode=code)
    exceeded = "file_size_limit" if code == -signal.SIGXFSZ else quota.check()
    if exceeded:
        return Ending(error=exceeded, message=render_stop(exceeded, limits), returncode=code)
    if code:
        return Ending(error="nonzero_exit", message=f"the program {render_end(code)}", returncode=code)
    return ending


def _watch(server: ForkServer, memory: Memory, quota: Quota, limits: Limits, cancel: Cancel) -> str:
    """Return the code of what the program must be stopped for, or nothing when it has ended by itself."""
    now_s = time.monotonic()
    deadline_s = now_s + limits.timeout_s
    rest_s = max(limits.monitor_interval_s, INTERVAL_MIN_S)
    look_s = now_s + rest_s
    while not is_readable(server.ending, min(GLANCE_S, look_s - now_s, deadline_s - now_s)):
        if cancel.requested:
            return CANCELLED
        if memory.is_short():
            return MEMORY
        now_s = time.monotonic()
        if now_s >= deadline_s:
            return "timeout"
        if now_s < look_s:
            continue
        if memory.is_exceeded():
            return MEMORY
        if exceeded := quota.check():
            return exceeded
        began_s, now_s = now_s, time.monotonic()
        # However much there is to look at, looking takes a fifth of the time at most.
        rest_s = max(rest_s, (now_s - began_s) * IDLE_FACTOR)
        look_s = now_s + rest_s
    return ""


def _signal(program: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(program, number)
