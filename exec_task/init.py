"""Process 1 of an executor's container: forks the executor, forwards signals to it, and exits with its code.

With `--serve` it gets the program from a supervisor in another container, and reports its end there. The kernel
blocks most signals for process 1, including its own, so a program that ran as process 1 would not end as it does
elsewhere. It runs with the program's account and cannot be inspected. It holds nothing that the program does not
have, except for one connection that is closed to the program.
"""

import ctypes
import os
import signal
import sys

PR_SET_DUMPABLE = 4
FONTS = ("/opt/exec/share/matplotlib", "/tmp/matplotlib")  # noqa: S108 - the container's own
CONTROL = "/workspace/socket/control.sock"
CONNECT_S = 180  # a task's containers do not start at the same time
# The kernel's counter of processes killed for memory in this container: cgroup v2 and v1.
OOM_EVENTS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def place_fonts(source: str = FONTS[0], target: str = FONTS[1]) -> None:
    """Copy the image's list of fonts to Matplotlib's folder: creating the list takes 0.1 s."""
    if not os.path.isdir(source):  # noqa: PTH112 - as above
        return
    os.mkdir(target)  # noqa: PTH102 - as above
    for name in os.listdir(source):  # noqa: PTH208 - as above
        with open(f"{source}/{name}", "rb") as old, open(f"{target}/{name}", "wb") as new:  # noqa: PTH123 - as above
            new.write(old.read())


def was_out_of_memory(events: tuple[str, ...] = OOM_EVENTS) -> bool:
    """Return True if the kernel has killed a process here for the container's memory limit."""
    for path in events:
        try:
            with open(path) as file:  # noqa: PTH123 - as above
                lines = [line.split() for line in file]
        except FileNotFoundError:
            continue
        if any(len(line) == 2 and line[0] == "oom_kill" and line[1] != "0" for line in lines):
            return True
    return False


def main() -> None:
    """Run `executor.main` in a child, and exit with its code, or 128 + n for signal n."""
    os.dup2(1, 2)  # one stream: the daemon does not keep the order of two streams
    home = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib costs 4 ms
    sys.path.insert(0, home)
    from executor import keeper  # type: ignore[import-not-found]  # noqa: PLC0415 - can be found only there
    from executor.main import main as execute  # type: ignore[import-not-found]  # noqa: PLC0415 - as above

    sys.path.remove(home)
    place_fonts()
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    if sys.argv[1:2] == ["--serve"]:
        control = sys.argv[2] if len(sys.argv) > 2 else CONTROL
        keeper.keep(control, connect_s=CONNECT_S, out_of_memory=was_out_of_memory)
    child = os.fork()
    if child == 0:
        execute()
    for number in FORWARDED:
        signal.signal(number, lambda number, _: os.kill(child, number))
    # Only the child keeps the output open, so that a reader notices when the last process that has it ends.
    for fd in (0, 1, 2):
        os.close(fd)
    while True:
        pid, status = os.wait()  # orphans are reaped here too
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
