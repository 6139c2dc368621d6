"""The executor: closes the jail around itself, reports to the supervisor, and then runs the program.

The order matters: no code of the program runs unless the jail is closed and the supervisor knows its isolation.
Source: docs/concepts/execution.md#one-run.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from . import program
from .wire import Client, ToolCallError

REFUSED: Final = 126
"""The jail could not be closed."""
UNREACHED: Final = 125
"""The supervisor did not answer, or the workspace cannot be used."""

_PATHS: Final = "/usr/local/bin:/usr/bin:/bin"
_THREADS_MAX: Final = 4


def main() -> NoReturn:
    """Run the payload from standard input; the program's own standard input is empty."""
    with open(0, "rb", closefd=False) as stdin:
        payload = json.loads(stdin.read())
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    run(payload)


def run(payload: Mapping[str, Any]) -> NoReturn:
    """Become the program of a payload and exit with its code."""
    from . import jail  # noqa: PLC0415 - Linux only; everything else here runs, and is tested, on any system

    os.environ.clear()  # noqa: TID251 - the program's whole environment is built here
    os.environ.update(clean_environment(payload))  # noqa: TID251 - see above
    time.tzset()
    try:
        isolation = jail.confine(payload)
    except jail.JailError as error:
        _end(REFUSED, f"the program was not started, because its jail did not close: {error}\n")
    client = Client(payload["socket"], payload["token"], reply_s=payload["limits"]["timeout_s"])
    try:
        client.hello(isolation)
    except (ToolCallError, OSError) as error:
        _end(UNREACHED, f"the program was not started, because the supervisor did not answer: {error}\n")
    try:
        code = program.run(payload, client)
    except OSError as error:
        _end(UNREACHED, f"the program was not started, because its folders cannot be used: {error}\n")
    _end(code)


def clean_environment(payload: Mapping[str, Any]) -> dict[str, str]:
    """Return the whole environment of a program: our six names, and those that Python and its packages need.

    Nothing from the host's environment is passed on. The kernel still shows the environment that this process was
    started with, so an executor must be started without secrets in it.
    """
    io_context = {"v": 1, "socket": payload["socket"], "token": payload["token"]}
    threads = str(min(_THREADS_MAX, len(os.sched_getaffinity(0))))
    return {
        "WORKDIR": payload["work"],
        "OUTPUT_DIR": payload["out"],
        "EXECUTION_ID": payload["exec_id"],
        "BUNDLE_ID": payload["bundle_id"],
        "BUNDLE_ROOT": payload["bundle_root"],
        "AGENT_IO_CONTEXT": json.dumps(io_context, separators=(",", ":")),
        "PATH": f"{os.path.dirname(sys.executable)}:{_PATHS}",  # noqa: PTH120 - `python` is the one that runs this
        "HOME": "/tmp",  # noqa: S108 - the only location besides the two folders that a program may write to
        "TMPDIR": "/tmp",  # noqa: S108 - see HOME
        "MPLCONFIGDIR": "/tmp/matplotlib",  # noqa: S108 - see HOME
        "MPLBACKEND": "Agg",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": threads,
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "NUMEXPR_NUM_THREADS": threads,
    }


def _end(code: int, message: str = "") -> NoReturn:
    """Exit without Python's finalization, which belongs to the parent after a fork."""
    if message:
        os.write(2, message.encode(errors="backslashreplace"))
    os._exit(code)
