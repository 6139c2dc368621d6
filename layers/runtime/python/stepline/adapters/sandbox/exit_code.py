"""Messages and exit codes for the end of programs, for every backend. Pure."""

from __future__ import annotations

import signal
from typing import Final

from stepline.model.program.execution import RunLimits

TIMED_OUT: Final = 124
REFUSED: Final = 126
FULL: Final = 153

CANCELLED: Final = "cancelled"
TASK_STOPPED: Final = "task_stopped"
IN_FLIGHT: Final = "descriptors_in_flight"
SANDBOX_LOST: Final = "sandbox_execution_failed"

STOP_REASONS: Final = {
    "timeout": "its time of {timeout_s} s was over",
    "memory_limit": "its processes used more than {memory_bytes} bytes of memory together, or the machine had hardly any left",
    "file_size_limit": "one of its files was larger than {max_file_bytes} bytes",
    "exec_workspace_delta_limit": "it wrote more than {max_delta_bytes} bytes, or too many files",
    "workspace_size_limit": "the workspace, or the disk that it is on, was full",
    IN_FLIGHT: "too many descriptors were sent over its sockets and not received",
    CANCELLED: "the user steered",
    TASK_STOPPED: "its task was asked to stop",
    SANDBOX_LOST: "its container was lost under it, which is what happens when memory is short",
}


def render_stop(code: str, limits: RunLimits) -> str:
    """Return the sentence for the reason of a stop."""
    reason = STOP_REASONS[code].format(
        timeout_s=limits.timeout_s,
        memory_bytes=limits.memory_bytes,
        max_file_bytes=limits.max_file_bytes,
        max_delta_bytes=limits.max_delta_bytes,
    )
    return f"the program was stopped: {reason}"


def render_exit(returncode: int) -> str:
    """Return a process's end as a predicate: `ended with 3`, `was killed by SIGSEGV`."""
    if returncode >= 0:
        return f"ended with {returncode}"
    names = {number.value: number.name for number in signal.Signals}
    return f"was killed by {names.get(-returncode, f'signal {-returncode}')}"
