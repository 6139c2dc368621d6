"""Process 1 of an executor's container: forks the executor, hands signals on to it, and ends as it ends.

The kernel spares process 1 most signals, its own too, so a program in its place would not end as it would
anywhere else. It runs with the program's account, holds nothing the program does not have, and cannot be looked into.
"""

import ctypes
import os
import signal
import sys

PR_SET_DUMPABLE = 4
FONTS = ("/opt/exec/share/matplotlib", "/tmp/matplotlib")  # noqa: S108 - the container's own
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def place_fonts(source: str = FONTS[0], target: str = FONTS[1]) -> None:
    """Put the list of fonts that came with the image where Matplotlib looks for it: making one takes 0.1 s."""
    if not os.path.isdir(source):  # noqa: PTH112 - as above
        return
    os.mkdir(target)  # noqa: PTH102 - as above
    for name in os.listdir(source):  # noqa: PTH208 - as above
        with open(f"{source}/{name}", "rb") as old, open(f"{target}/{name}", "wb") as new:  # noqa: PTH123 - as above
            new.write(old.read())


def main() -> None:
    """Run `executor.main` in a child, and leave with its exit code, 128 + n for signal n."""
    os.dup2(1, 2)  # one stream: the daemon carries two without regard to which of them came first
    home = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib costs 4 ms
    sys.path.insert(0, home)
    from executor.main import main as execute  # type: ignore[import-not-found]  # noqa: PLC0415 - found there alone

    sys.path.remove(home)
    place_fonts()
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    child = os.fork()
    if child == 0:
        execute()
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
