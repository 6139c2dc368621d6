"""Process 1 of an executor's container: forks the executor, hands signals on to it, and ends as it ends.

The kernel spares process 1 most signals, its own too, so a program in its place would not end as it would
anywhere else. It runs with the program's account, holds nothing the program does not have, and cannot be looked into.
"""

import ctypes
import os
import signal
import sys

PR_SET_DUMPABLE = 4
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> None:
    """Run `executor.main` in a child, and leave with its exit code, 128 + n for signal n."""
    home = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib costs 4 ms
    sys.path.insert(0, home)
    from executor.main import main as execute  # type: ignore[import-not-found]  # noqa: PLC0415 - found there alone

    sys.path.remove(home)
    child = os.fork()
    if child == 0:
        execute()
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    for number in FORWARDED:
        signal.signal(number, lambda number, _: os.kill(child, number))
    # Its output is the child's alone: when the last process that has it ends, who reads it knows.
    for fd in (0, 1, 2):
        os.close(fd)
    while True:
        pid, status = os.wait()  # orphans come here too
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
